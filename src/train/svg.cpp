// Shapes as SVG. Text stays text: it can be searched and copied, and is shown in the viewer's own font.

#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <variant>

#include <fmt/format.h>

#include "train/drawing.h"

namespace systole::training::drawing {

namespace {

std::string hex(Colour c) { return fmt::format("#{:02x}{:02x}{:02x}", c.red, c.green, c.blue); }

// To a hundredth of a pixel, without zeros at the end.
std::string number(double value) {
  std::string text = fmt::format("{:.2f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

// How many bytes the UTF-8 letter at the start has; 0 when it is none.
std::size_t letter_size(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const std::size_t size = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 0;
  if (size == 0 || size > text.size() || first > 0xf4) return 0;
  for (std::size_t i = 1; i < size; ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) return 0;
  return size;
}

// What XML cannot hold becomes a question mark.
std::string escaped(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t size = letter_size(text);
    if (size == 0 || static_cast<unsigned char>(text[0]) < ' ')
      out += size == 0 ? "?" : " ";
    else if (text[0] == '&')
      out += "&amp;";
    else if (text[0] == '<')
      out += "&lt;";
    else if (text[0] == '>')
      out += "&gt;";
    else
      out += text.substr(0, size);
    text.remove_prefix(size == 0 ? 1 : size);
  }
  return out;
}

struct Writer {
  std::string out;

  void operator()(const Line& line) {
    out += "<polyline points=\"";
    for (std::size_t i = 0; i < line.points.size(); ++i)
      out += fmt::format("{}{},{}", i == 0 ? "" : " ", number(line.points[i].x), number(line.points[i].y));
    out += fmt::format("\" stroke=\"{}\" stroke-width=\"{}\"/>\n", hex(line.colour), number(line.width));
  }
  void operator()(const Box& box) {
    out += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>\n", number(box.x),
                       number(box.y), number(box.width), number(box.height), hex(box.fill));
  }
  void operator()(const Disc& disc) {
    out += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"{}\" fill=\"{}\"/>\n", number(disc.centre.x),
                       number(disc.centre.y), number(disc.radius), hex(disc.fill));
  }
  void operator()(const Text& text) {
    const std::string x = number(text.at.x), y = number(text.at.y);
    out += fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"{}\" fill=\"{}\"", x, y, number(text.size),
                       hex(text.colour));
    if (text.anchor != Anchor::start)
      out += fmt::format(" text-anchor=\"{}\"", text.anchor == Anchor::middle ? "middle" : "end");
    if (text.bold) out += " font-weight=\"600\"";
    if (text.angle != 0) out += fmt::format(" transform=\"rotate({} {} {})\"", number(text.angle), x, y);
    out += ">" + escaped(text.text) + "</text>\n";
  }
};

}  // namespace

std::string to_svg(const Shapes& shapes) {
  Writer writer{
      fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
                  "viewBox=\"0 0 {0} {1}\" font-family=\"Helvetica, Arial, 'Liberation Sans', "
                  "'DejaVu Sans', sans-serif\" fill=\"none\" stroke-linecap=\"round\" "
                  "stroke-linejoin=\"round\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"{2}\"/>\n",
                  shapes.width, shapes.height, hex(kPaper))};
  for (const Item& item : shapes.items) std::visit(writer, item);
  return writer.out + "</svg>\n";
}

}  // namespace systole::training::drawing
