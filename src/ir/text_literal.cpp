#include "ir/text_literal.h"

#include <fmt/format.h>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "systole/ir/text.h"

namespace systole::ir {

namespace {

constexpr std::int64_t kMaxDecimalElements = 1024;  // longer literals are written as bytes

template <class T>
std::string shortest(T value) {
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return {buffer, end};
}

template <class T>
std::string element_text(T value) {
  if constexpr (std::is_same_v<T, bool>)
    return value ? "true" : "false";
  else if constexpr (std::is_integral_v<T>)
    return std::to_string(value);
  else if constexpr (std::is_same_v<T, float>)
    return shortest(value);
  else
    return shortest(static_cast<double>(value));
}

template <class T>
bool from_text(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// nan, inf and -inf are words; digits that overflow are refused, those that underflow round.
template <class T>
bool float_from_text(std::string_view text, T& value) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  if (text == "nan" || text == "inf" || text == "-inf") {
    value = static_cast<T>(text == "nan"   ? std::numeric_limits<double>::quiet_NaN()
                           : text == "inf" ? inf
                                           : -inf);
    return true;
  }
  if (text.find_first_not_of("0123456789+-.eE") != text.npos) return false;
  if constexpr (std::is_floating_point_v<T>)
    if (from_text(text, value)) return true;
  // Small floats, and what from_chars calls out of range.
  double wide;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), wide);
  if (end != text.data() + text.size() || error == std::errc::invalid_argument) return false;
  if (error == std::errc::result_out_of_range) wide = std::strtod(std::string(text).c_str(), nullptr);
  value = static_cast<T>(wide);
  return std::isfinite(static_cast<double>(value));
}

// Decimal text keeps every value but the NaNs that are not the canonical one.
template <class T>
bool decimal_is_lossless(std::span<const T> values) {
  if constexpr (std::is_integral_v<T>)
    return true;
  else {
    const T canonical = static_cast<T>(std::numeric_limits<double>::quiet_NaN());
    for (const T& v : values)
      if (std::isnan(static_cast<double>(v)) && std::memcmp(&v, &canonical, sizeof(T)) != 0) return false;
    return true;
  }
}

std::string hex_text(const Literal& value) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "hex \"";
  for (std::byte b : value.as_bytes()) {
    text += kDigits[static_cast<int>(b) >> 4];
    text += kDigits[static_cast<int>(b) & 15];
  }
  return text + "\"";
}

bool is_splat(const Literal& value) {
  const std::size_t size = size_of(value.dtype());
  return value.count() > 1 && static_cast<std::int64_t>(value.byte_size()) <= kMaxSplatBytes &&
         std::memcmp(value.bytes(), value.bytes() + size, value.byte_size() - size) == 0;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '"' || c == '\\')
      (out += '\\') += c;
    else if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  return out;
}

std::string quoted_text(std::string_view text) { return '"' + escaped(text) + '"'; }

std::string number_text(double value) {
  std::string text = std::isnan(value) ? "nan" : shortest(value);
  if (text.find_first_not_of("-0123456789") == text.npos) text += ".0";
  return text;
}

bool parse_number(std::string_view text, double& value) { return float_from_text(text, value); }
bool parse_number(std::string_view text, std::int64_t& value) { return from_text(text, value); }

bool parse_element(std::string_view text, DType dtype, std::byte* element) {
  return visit_dtype(dtype, [&]<class T>() {
    T value{};
    if constexpr (std::is_same_v<T, bool>) {
      if (text != "true" && text != "false" && text != "0" && text != "1") return false;
      value = text == "true" || text == "1";
    } else if constexpr (std::is_integral_v<T>) {
      if (!from_text(text, value)) return false;
    } else if (!float_from_text(text, value)) {
      return false;
    }
    std::memcpy(element, &value, sizeof(T));
    return true;
  });
}

std::string print(const Literal& value) {
  std::string body = visit_dtype(value.dtype(), [&]<class T>() -> std::string {
    const std::span<const T> values = value.values<T>();
    if (!decimal_is_lossless(values)) return hex_text(value);
    if (is_splat(value)) return "splat " + element_text(values[0]);
    if (value.count() > kMaxDecimalElements) return hex_text(value);
    std::string text;
    for (const T& v : values) {
      if (!text.empty()) text += ", ";
      text += element_text(v);
    }
    return text;
  });
  return value.type().to_string() + "(" + body + ")";
}

}  // namespace systole::ir
