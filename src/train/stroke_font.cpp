#include "train/stroke_font.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <utility>

namespace systole::training::drawing {

namespace {

// How a letter is drawn: M x y moves, L x y draws a line, Q x y x y a parabola, O x y rx ry an ellipse, A x y
// rx ry from to an arc between two angles in degrees (rising: against the clock), D x y a dot. An arc after a
// line goes on from it.
struct Glyph {
  double width;  // without the space around it
  std::string_view path;
};

constexpr Glyph kGlyphs[] = {
    {2.4, ""},                                                                  // space
    {0.4, "M.2 14 L.2 4.6 D.2 .4"},                                             // !
    {3.4, "M0 14 L0 9.6 M3.4 14 L3.4 9.6"},                                     // "
    {9.6, "M3.6 14 L1.6 0 M8 14 L6 0 M.6 9.6 L9.6 9.6 M0 4.4 L9 4.4"},          // #
    {7.6, "A3.8 9.6 3.6 3 40 270 A3.8 3.5 3.8 3.1 90 -140 M3.8 15 L3.8 -1.6"},  // $
    {13, "O2.8 10.8 2.8 3.2 O10.2 3.2 2.8 3.2 M10.6 14 L2.4 0"},                // %
    {10.2,
     "M10.2 0 L2.2 9.2 Q1.3 10.4 1.3 11.3 A4 11.3 2.7 2.7 180 0 Q6.7 9.6 4.6 8.4 Q0 6.4 0 3.7 A3.9 3.7 3.9 "
     "3.7 180 290 Q8.4 1.4 9.2 6.4"},                                             // &
    {0, "M0 14 L0 9.6"},                                                          // '
    {3, "M3 15.4 Q0 11 0 6.2 Q0 1.4 3 -3"},                                       // (
    {3, "M0 15.4 Q3 11 3 6.2 Q3 1.4 0 -3"},                                       // )
    {6.4, "M3.2 14 L3.2 7 M.2 12.2 L6.2 8.8 M6.2 12.2 L.2 8.8"},                  // *
    {9.4, "M0 6 L9.4 6 M4.7 1.3 L4.7 10.7"},                                      // +
    {.8, "M.7 .6 L-.1 -2.4"},                                                     // ,
    {4.4, "M0 5 L4.4 5"},                                                         // -
    {.4, "D.2 .4"},                                                               // .
    {5, "M0 -1.4 L5 14.6"},                                                       // /
    {8, "O4 7 4 7"},                                                              // 0
    {8, "M1 11.2 L4.6 14 L4.6 0 M1.2 0 L8 0"},                                    // 1
    {8, "A3.9 10.2 3.8 3.8 165 0 Q7.7 7.6 5.2 5 L.2 0 L8 0"},                     // 2
    {8, "A3.7 10.6 3.7 3.4 150 -90 L2.4 7.2 M3.7 7.2 A3.7 3.6 4.2 3.6 90 -150"},  // 3
    {8, "M6 0 L6 14 L0 4.2 L8 4.2"},                                              // 4
    {8, "M7 14 L1.4 14 L.9 7.7 A3.7 4.5 4.1 4.5 130 -150"},                       // 5
    {8, "O4 4.5 3.9 4.5 M.1 4.5 Q0 14.4 6.9 13.6"},                               // 6
    {8, "M0 14 L8 14 L3 0"},                                                      // 7
    {8, "O4 10.6 3.4 3.4 O4 3.6 4 3.6"},                                          // 8
    {8, "O4 9.5 3.9 4.5 M7.9 9.5 Q8 -.4 1.1 .4"},                                 // 9
    {.4, "D.2 .4 D.2 8.6"},                                                       // :
    {.8, "M.7 .6 L-.1 -2.4 D.6 8.6"},                                             // ;
    {9.2, "M9.2 10.4 L0 6 L9.2 1.6"},                                             // <
    {9.4, "M0 8 L9.4 8 M0 4 L9.4 4"},                                             // =
    {9.2, "M0 10.4 L9.2 6 L0 1.6"},                                               // >
    {6.6, "A3.2 10.7 3.3 3.3 165 0 Q6.5 8.6 4.6 7.4 Q3 6.3 3 4.4 D3 .4"},         // ?
    {13.6,
     "O6.9 5.6 2.9 3.3 M9.8 8.9 L9.8 4.4 Q9.8 2.2 11.6 2.4 Q13.6 3 13.6 6.4 A6.8 6.2 6.8 7 0 305"},  // @
    {11, "M0 0 L5.5 14 L11 0 M1.9 4.8 L9.1 4.8"},                                                    // A
    {9, "M0 0 L0 14 L5 14 A5 10.7 3.3 3.3 90 -90 L0 7.4 M5 7.4 A5.2 3.7 3.8 3.7 90 -90 L0 0"},       // B
    {10.2, "A6 7 6 7 48 312"},                                                                       // C
    {10.2, "M0 0 L0 14 L4 14 A4 7 6.2 7 90 -90 L0 0"},                                               // D
    {7.8, "M7.8 14 L0 14 L0 0 L7.8 0 M0 7.4 L7.2 7.4"},                                              // E
    {7.4, "M7.4 14 L0 14 L0 0 M0 7.4 L6.8 7.4"},                                                     // F
    {11, "A6 7 6 7 48 322 L10.7 6.6 L6.8 6.6"},                                                      // G
    {9.8, "M0 0 L0 14 M9.8 0 L9.8 14 M0 7.4 L9.8 7.4"},                                              // H
    {0, "M0 0 L0 14"},                                                                               // I
    {5, "M5 14 L5 3.8 A2.2 3.8 2.8 3.8 0 -140"},                                                     // J
    {9, "M0 0 L0 14 M8.6 14 L0 5.4 M2.9 8.3 L9 0"},                                                  // K
    {7.4, "M0 14 L0 0 L7.4 0"},                                                                      // L
    {11.8, "M0 0 L0 14 L5.9 4.6 L11.8 14 L11.8 0"},                                                  // M
    {9.6, "M0 0 L0 14 L9.6 0 L9.6 14"},                                                              // N
    {11.8, "O5.9 7 5.9 7"},                                                                          // O
    {8.6, "M0 0 L0 14 L4.8 14 A4.8 10.2 3.8 3.8 90 -90 L0 6.4"},                                     // P
    {11.8, "O5.9 7 5.9 7 M7.4 3.4 L11.2 -1.2"},                                                      // Q
    {9, "M0 0 L0 14 L4.8 14 A4.8 10.3 3.7 3.7 90 -90 L0 6.6 M4.9 6.6 L9 0"},                         // R
    {8.6, "A4.3 10.6 3.8 3.4 38 270 A4.3 3.6 4.3 3.6 90 -142"},                                      // S
    {10, "M0 14 L10 14 M5 14 L5 0"},                                                                 // T
    {9.6, "M0 14 L0 4.8 A4.8 4.8 4.8 4.8 180 360 L9.6 14"},                                          // U
    {10.6, "M0 14 L5.3 0 L10.6 14"},                                                                 // V
    {15, "M0 14 L3.7 0 L7.5 13 L11.3 0 L15 14"},                                                     // W
    {9.2, "M0 14 L9.2 0 M0 0 L9.2 14"},                                                              // X
    {10, "M0 14 L5 7 L10 14 M5 7 L5 0"},                                                             // Y
    {9, "M0 14 L9 14 L0 0 L9 0"},                                                                    // Z
    {2.8, "M2.8 15.4 L0 15.4 L0 -3 L2.8 -3"},                                                        // [
    {5, "M0 14.6 L5 -1.4"},                    // backslash
    {2.8, "M0 15.4 L2.8 15.4 L2.8 -3 L0 -3"},  // ]
    {7, "M0 9.4 L3.5 14 L7 9.4"},              // ^
    {9, "M0 -3 L9 -3"},                        // _
    {2.6, "M0 14.4 L2.6 11.8"},                // `
    {7.2, "M7 0 L7 6.6 A3.6 6.6 3.4 3.4 0 155 M7 5.8 L3.4 5.8 A3.2 2.9 3.2 2.9 90 270 Q6.2 0 7 3.4"},   // a
    {7.8, "M0 14 L0 0 O3.9 5 3.9 5"},                                                                   // b
    {7, "A4.2 5 4.2 5 46 314"},                                                                         // c
    {7.8, "M7.8 14 L7.8 0 O3.9 5 3.9 5"},                                                               // d
    {7.8, "M.1 5.3 L7.8 5.3 A3.9 5 3.9 5 4 316"},                                                       // e
    {4.6, "M4.8 14 Q1.7 14.4 1.7 11 L1.7 0 M0 10 L4.4 10"},                                             // f
    {7.8, "O3.9 5 3.9 5 M7.8 10 L7.8 -.4 A4 -.4 3.8 3.6 0 -140"},                                       // g
    {7, "M0 14 L0 0 M0 6.2 A3.5 6.2 3.5 3.8 180 0 L7 0"},                                               // h
    {.2, "M.1 10 L.1 0 D.1 13.4"},                                                                      // i
    {1.6, "M1.6 10 L1.6 -1.4 Q1.6 -4.2 -.6 -4 D1.6 13.4"},                                              // j
    {6.8, "M0 14 L0 0 M6.4 10 L0 4 M2.5 6.3 L6.8 0"},                                                   // k
    {1.4, "M0 14 L0 1.8 Q0 0 1.6 0"},                                                                   // l
    {11.6, "M0 10 L0 0 M0 6.6 A2.9 6.6 2.9 3.4 180 0 L5.8 0 M5.8 6.6 A8.7 6.6 2.9 3.4 180 0 L11.6 0"},  // m
    {7, "M0 10 L0 0 M0 6.2 A3.5 6.2 3.5 3.8 180 0 L7 0"},                                               // n
    {8, "O4 5 4 5"},                                                                                    // o
    {7.8, "M0 10 L0 -4 O3.9 5 3.9 5"},                                                                  // p
    {7.8, "M7.8 10 L7.8 -4 O3.9 5 3.9 5"},                                                              // q
    {4.2, "M0 10 L0 0 M0 5.6 Q.4 10.4 4.2 9.9"},                                                        // r
    {6.6, "A3.3 7.6 3 2.4 38 270 A3.3 2.6 3.3 2.6 90 -142"},                                            // s
    {4.6, "M1.8 13 L1.8 2.6 Q1.8 -.3 4.6 .1 M0 10 L4.6 10"},                                            // t
    {7, "M0 10 L0 3.8 A3.5 3.8 3.5 3.8 180 360 M7 10 L7 0"},                                            // u
    {7.4, "M0 10 L3.7 0 L7.4 10"},                                                                      // v
    {11.2, "M0 10 L2.8 0 L5.6 9.2 L8.4 0 L11.2 10"},                                                    // w
    {7, "M0 0 L7 10 M0 10 L7 0"},                                                                       // x
    {7.4, "M0 10 L3.8 .2 M7.4 10 L3.4 -1 Q2.2 -4 0 -4"},                                                // y
    {6.6, "M0 10 L6.6 10 L0 0 L6.6 0"},                                                                 // z
    {3.6,
     "M3.6 15.4 Q1.6 15.4 1.6 13 L1.6 8.6 Q1.6 6.2 0 6.2 Q1.6 6.2 1.6 3.8 L1.6 -.6 Q1.6 -3 3.6 -3"},  // {
    {0, "M0 15.4 L0 -3"},                                                                             // |
    {3.6, "M0 15.4 Q2 15.4 2 13 L2 8.6 Q2 6.2 3.6 6.2 Q2 6.2 2 3.8 L2 -.6 Q2 -3 0 -3"},               // }
    {9, "M0 5.2 Q1 7.4 2.8 7 Q4 6.6 5.2 5.8 Q7.6 4.4 9 7"},                                           // ~
};
constexpr Glyph kFrame{6.4, "M0 0 L0 13 L6.4 13 L6.4 0 L0 0"};
static_assert(std::size(kGlyphs) == 0x7f - 0x20);

constexpr double kSpace = 3.5;  // between letters, from the middle of one stroke to that of the next

const Glyph& glyph(char32_t letter) {
  if (letter == 0x2212) letter = '-';  // minus
  if (letter == 0x2013 || letter == 0x2014) letter = '-';
  return letter >= 0x20 && letter < 0x7f ? kGlyphs[letter - 0x20] : kFrame;
}

// The next letter of UTF-8; a wrong byte is a letter of its own.
char32_t next_letter(std::string_view& text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const std::size_t size = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
  if (first < 0x80 || size == 1 || size > text.size()) {
    text.remove_prefix(1);
    return first < 0x80 ? first : 0xfffd;
  }
  char32_t letter = first & (0xff >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) letter = letter << 6 | (static_cast<unsigned char>(text[i]) & 0x3f);
  text.remove_prefix(size);
  return letter;
}

class Pen {
 public:
  Pen(std::vector<std::vector<Point>>& strokes, double left) : strokes_(strokes), left_(left) {}

  void draw(std::string_view path) {
    while (!path.empty()) {
      const char what = path[0];
      path.remove_prefix(1);
      std::array<double, 6> n{};
      const std::size_t count = what == 'A' ? 6 : what == 'Q' || what == 'O' ? 4 : 2;
      for (std::size_t i = 0; i < count; ++i) {
        while (path[0] == ' ') path.remove_prefix(1);
        path.remove_prefix(static_cast<std::size_t>(
            std::from_chars(path.data(), path.data() + path.size(), n[i]).ptr - path.data()));
      }
      while (!path.empty() && path[0] == ' ') path.remove_prefix(1);
      command(what, n);
    }
  }

 private:
  void command(char what, const std::array<double, 6>& n) {
    switch (what) {
      case 'M': begin(); [[fallthrough]];
      case 'L': to(n[0], n[1]); break;
      case 'D':
        begin();
        to(n[0], n[1]);
        drawing_ = false;
        break;
      case 'Q': {
        const Point from = strokes_.back().back();
        const double cx = n[0] + left_, ex = n[2] + left_;
        for (int i = 1; i <= 8; ++i) {
          const double t = i / 8.0, a = (1 - t) * (1 - t), b = 2 * t * (1 - t), c = t * t;
          strokes_.back().push_back({a * from.x + b * cx + c * ex, a * from.y + b * n[1] + c * n[3]});
        }
        break;
      }
      case 'O':
        begin();
        arc(n[0], n[1], n[2], n[3], 0, 360);
        drawing_ = false;
        break;
      case 'A':
        if (!drawing_) begin();
        arc(n[0], n[1], n[2], n[3], n[4], n[5]);
        break;
      default: break;
    }
  }
  void begin() {
    strokes_.emplace_back();
    drawing_ = true;
  }
  void to(double x, double y) { strokes_.back().push_back({x + left_, y}); }
  void arc(double x, double y, double rx, double ry, double from, double until) {
    const int parts = 2 + static_cast<int>(std::abs(until - from) / 15);
    for (int i = 0; i <= parts; ++i) {
      const double angle = (from + (until - from) * i / parts) * std::numbers::pi / 180;
      to(x + rx * std::cos(angle), y + ry * std::sin(angle));
    }
  }

  std::vector<std::vector<Point>>& strokes_;
  double left_;
  bool drawing_ = false;
};

}  // namespace

StrokeText stroke_text(std::string_view text) {
  StrokeText found;
  while (!text.empty()) {
    const Glyph& letter = glyph(next_letter(text));
    Pen(found.strokes, found.width + kSpace / 2).draw(letter.path);
    found.width += letter.width + kSpace;
  }
  return found;
}

}  // namespace systole::training::drawing
