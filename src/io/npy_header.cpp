#include "io/npy_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <utility>

#include "systole/base/error.h"

namespace systole::io {

namespace {

struct Descr {
  std::string_view text;  // kind and size, without byte order
  DType dtype;
};

// The first entry of a dtype is what is written. ml_dtypes writes f8e5m2 as "f1", which numpy itself cannot
// load.
constexpr Descr kDescrs[] = {
    {"f8", DType::f64},      {"f4", DType::f32},    {"f2", DType::f16},     {"V2", DType::bf16},
    {"V1", DType::f8e4m3fn}, {"V1", DType::f8e5m2}, {"i8", DType::i64},     {"i4", DType::i32},
    {"i2", DType::i16},      {"i1", DType::i8},     {"u8", DType::u64},     {"u4", DType::u32},
    {"u2", DType::u16},      {"u1", DType::u8},     {"b1", DType::boolean}, {"f1", DType::f8e5m2},
};

class HeaderParser {
 public:
  HeaderParser(std::string_view text, std::uint64_t offset, std::string_view file)
      : text_(text), offset_(offset), file_(file) {}

  NpyHeader parse() {
    NpyHeader header;
    bool seen_descr = false, seen_order = false, seen_shape = false;
    expect('{');
    while (!accept('}')) {
      const std::size_t at = next_position();
      const std::string_view key = string("a key in quotes");
      expect(':');
      if (key == "descr") {
        first_time(seen_descr, key, at);
        descr(header);
      } else if (key == "fortran_order") {
        first_time(seen_order, key, at);
        header.fortran_order = boolean();
      } else if (key == "shape") {
        first_time(seen_shape, key, at);
        header.type.shape = shape();
      } else {
        fail(at, "unknown key in the header", "descr, fortran_order or shape",
             fmt::format("'{}'", printable(key)));
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    if (!seen_descr || !seen_order || !seen_shape)
      fail(position_, "a key is missing in the header",
           !seen_descr   ? "'descr'"
           : !seen_order ? "'fortran_order'"
                         : "'shape'");
    if (next_position() != text_.size())
      fail(position_, "text after the header's closing brace", {}, quoted_rest());
    check_size(header.type);
    return header;
  }

 private:
  [[noreturn]] void fail(std::size_t at, std::string message, std::string expected = {}, std::string got = {},
                         ErrorKind kind = ErrorKind::kParse) const {
    throw Error(kind, fmt::format("{}: byte {}", file_, offset_ + at), std::move(message),
                std::move(expected), std::move(got));
  }

  static std::string printable(std::string_view text) {
    std::string out;
    for (const char c : text.substr(0, 40)) out += c >= ' ' && c < 127 ? c : '?';
    return text.size() > 40 ? out + "…" : out;
  }

  std::string quoted_rest() const {
    if (position_ >= text_.size()) return "the end of the header";
    return fmt::format("'{}'", printable(text_.substr(position_, 12)));
  }

  // Skips white space.
  std::size_t next_position() {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\n' ||
                                        text_[position_] == '\t' || text_[position_] == '\r'))
      ++position_;
    return position_;
  }

  bool accept(char c) {
    if (next_position() >= text_.size() || text_[position_] != c) return false;
    ++position_;
    return true;
  }

  void expect(char c) {
    if (!accept(c)) fail(position_, "malformed header", fmt::format("'{}'", c), quoted_rest());
  }

  void first_time(bool& seen, std::string_view key, std::size_t at) {
    if (std::exchange(seen, true)) fail(at, fmt::format("key '{}' stands twice in the header", key));
  }

  // The text between two equal quotes. A backslash can only occur in names of fields, which are refused
  // anyway.
  std::string_view string(std::string_view expected) {
    const std::size_t start = next_position();
    if (start >= text_.size() || (text_[start] != '\'' && text_[start] != '"'))
      fail(start, "malformed header", std::string(expected), quoted_rest());
    const std::size_t end = text_.find_first_of(text_[start] == '"' ? "\"\\\n" : "'\\\n", start + 1);
    if (end == std::string_view::npos || text_[end] != text_[start])
      fail(start, "malformed header", "a plain string with its closing quote", quoted_rest());
    position_ = end + 1;
    return text_.substr(start + 1, end - start - 1);
  }

  bool boolean() {
    next_position();
    for (const auto& [word, value] : {std::pair<std::string_view, bool>{"True", true}, {"False", false}})
      if (text_.substr(position_).starts_with(word)) {
        position_ += word.size();
        return value;
      }
    fail(position_, "malformed header", "True or False", quoted_rest());
  }

  std::int64_t dimension() {
    const std::size_t start = next_position();
    std::int64_t value = 0;
    const char* const end = text_.data() + text_.size();
    const auto [stop, code] = std::from_chars(text_.data() + start, end, value);
    if (code == std::errc::result_out_of_range)
      fail(start, "a dimension does not fit 64 bits", {}, quoted_rest());
    if (code != std::errc()) fail(start, "malformed header", "a dimension", quoted_rest());
    if (value < 0) fail(start, "negative dimension", "0 or more", std::to_string(value));
    position_ = static_cast<std::size_t>(stop - text_.data());
    if (position_ < text_.size() && text_[position_] == 'L') ++position_;  // as Python 2 wrote long integers
    return value;
  }

  Shape shape() {
    Shape dims;
    expect('(');
    while (!accept(')')) {
      if (dims.rank() == kMaxRank)
        fail(position_, "too many dimensions", fmt::format("at most {}", kMaxRank), "more");
      dims.push_back(dimension());
      if (accept(',')) continue;
      // (3) is a number in Python, not a tuple.
      if (dims.rank() == 1)
        fail(position_, "malformed header", "',' after a single dimension", quoted_rest());
      expect(')');
      break;
    }
    return dims;
  }

  void descr(NpyHeader& header) {
    const std::size_t at = next_position();
    if (at < text_.size() && (text_[at] == '[' || text_[at] == '('))
      fail(at, "the items are structures with named fields; save each field as an array of its own", {}, {},
           ErrorKind::kUnsupported);
    const std::string_view whole = string("the item type in quotes");
    std::string_view item = whole;
    char order = '=';
    if (!item.empty() && std::string_view("<>|=").find(item[0]) != std::string_view::npos) {
      order = item[0];
      item.remove_prefix(1);
    }
    header.big_endian = order == '>';
    if (item == "V1" || item == "V2") {
      header.type.dtype = item == "V1" ? DType::u8 : DType::u16;
      return;
    }
    for (const Descr& d : kDescrs)
      if (d.text == item) {
        header.type.dtype = d.dtype;
        return;
      }
    if (item.starts_with('O'))
      fail(at,
           "the items are Python objects stored as a pickle, which is never loaded because it can run code; "
           "save an array of numbers, in Python: numpy.save(file, a.astype('float32'))",
           {}, {}, ErrorKind::kUnsupported);
    const char* advice = item.empty()                       ? ""
                         : item[0] == 'c'                   ? "; save real and imaginary part as two arrays"
                         : item == "f16"                    ? "; save it as float64"
                         : item[0] == 'S' || item[0] == 'U' ? "; text is not an array of numbers"
                         : item[0] == 'M' || item[0] == 'm' ? "; save dates and times as int64"
                                                            : "";
    fail(at, fmt::format("items of type '{}' are not supported{}", printable(whole), advice),
         "floats, integers or bool", {}, ErrorKind::kUnsupported);
  }

  void check_size(const Type& type) {
    std::int64_t bytes = static_cast<std::int64_t>(size_of(type.dtype));
    for (const Dim& d : type.shape)
      if (d.value() > 0 && __builtin_mul_overflow(bytes, d.value(), &bytes))
        fail(0, "the size of the array does not fit 64 bits", {}, type.to_string());
  }

  std::string_view text_;
  std::uint64_t offset_;
  std::string_view file_;
  std::size_t position_ = 0;
};

std::string_view written_descr(DType dtype) {
  return std::find_if(std::begin(kDescrs), std::end(kDescrs),
                      [&](const Descr& d) { return d.dtype == dtype; })
      ->text;
}

}  // namespace

NpyHeader parse_npy_header(std::string_view text, std::uint64_t offset, std::string_view file) {
  return HeaderParser(text, offset, file).parse();
}

std::string npy_prefix(const Type& type) {
  constexpr std::size_t kFixed = 10, kAlignment = 64, kLongestDimension = 21;
  const bool one_byte = size_of(type.dtype) == 1;
  std::string text = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': (",
                                 one_byte ? '|' : '<', written_descr(type.dtype));
  for (std::size_t i = 0; i < type.shape.size(); ++i)
    text += fmt::format("{}{}", i ? ", " : "", type.shape[i].value());
  text += type.shape.rank() == 1 ? ",), }" : "), }";
  // numpy leaves room for the first dimension to grow in place, then pads so that the data is aligned.
  if (type.shape.rank() > 0)
    text.append(kLongestDimension - std::to_string(type.shape[0].value()).size(), ' ');
  text.append(kAlignment - (kFixed + text.size() + 1) % kAlignment, ' ');
  text += '\n';
  const std::array<char, kFixed> fixed = {'\x93',
                                          'N',
                                          'U',
                                          'M',
                                          'P',
                                          'Y',
                                          1,
                                          0,
                                          static_cast<char>(text.size() & 0xff),
                                          static_cast<char>(text.size() >> 8)};
  return std::string(fixed.data(), fixed.size()) + text;
}

}  // namespace systole::io
