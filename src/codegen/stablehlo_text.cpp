// Types, attributes and numbers as MLIR writes them. Numbers keep every bit: decimals stand only where
// reading them gives the same element back, hex everywhere else, and long arrays are the bytes themselves.

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "codegen/stablehlo_emitter.h"
#include "eval/combine.h"
#include "systole/base/error.h"

namespace systole::codegen::hlo {

namespace {

std::string_view dtype_text(DType dtype) {
  switch (dtype) {
    case DType::f64: return "f64";
    case DType::f32: return "f32";
    case DType::f16: return "f16";
    case DType::bf16: return "bf16";
    case DType::f8e4m3fn: return "f8E4M3FN";
    case DType::f8e5m2: return "f8E5M2";
    case DType::i64: return "i64";
    case DType::i32: return "i32";
    case DType::i16: return "i16";
    case DType::i8: return "i8";
    case DType::u64: return "ui64";
    case DType::u32: return "ui32";
    case DType::u16: return "ui16";
    case DType::u8: return "ui8";
    case DType::boolean: return "i1";
  }
  throw Error(ErrorKind::kInternal, "stablehlo", "a dtype without a name");
}

std::string hex_bits(const std::byte* element, std::size_t size) {
  std::string text = "0x";
  for (std::size_t i = size; i-- > 0;) text += fmt::format("{:02X}", static_cast<unsigned>(element[i]));
  return text;
}

std::string float_element(const Literal& value, std::int64_t index) {
  const std::size_t size = size_of(value.dtype());
  const auto bytes = value.as_bytes().subspan(static_cast<std::size_t>(index) * size, size);
  const Literal element = Literal::copy_of({value.dtype(), {}}, bytes);
  std::string text = fmt::format("{}", element.to_doubles()[0]);
  if (text.size() <= 10 && text.find_first_not_of("-0123456789.") == std::string::npos) {
    if (text.find('.') == std::string::npos) text += ".0";
    // MLIR reads a double and rounds it to the type.
    const Literal read = Literal::full(element.type(), std::strtod(text.c_str(), nullptr));
    if (read.same_bits(element)) return text;
  }
  return hex_bits(bytes.data(), size);
}

std::string element_text(const Literal& value, std::int64_t index) {
  return visit_dtype(value.dtype(), [&]<class T>() -> std::string {
    if constexpr (std::is_same_v<T, bool>)
      return value.values<bool>()[static_cast<std::size_t>(index)] ? "true" : "false";
    else if constexpr (std::is_integral_v<T>)
      return std::to_string(value.values<T>()[static_cast<std::size_t>(index)]);
    else
      return float_element(value, index);
  });
}

// Nested lists of the elements from `next` on, as the shape nests them.
std::string nested(const Literal& value, const Ints& dims, std::size_t axis, std::int64_t& next) {
  if (axis == dims.size()) return element_text(value, next++);
  std::string text = "[";
  for (std::int64_t i = 0; i < dims[axis]; ++i)
    text += (i == 0 ? "" : ", ") + nested(value, dims, axis + 1, next);
  return text + "]";
}

bool is_splat(const Literal& value) {
  const std::size_t size = size_of(value.dtype());
  for (std::size_t at = size; at < value.byte_size(); at += size)
    if (std::memcmp(value.bytes(), value.bytes() + at, size) != 0) return false;
  return value.count() > 0;
}

constexpr std::int64_t kMostListed = 16;  // elements of a constant written one by one

}  // namespace

bool is_blob(const Literal& value) { return value.count() > kMostListed && !is_splat(value); }

std::string type_text(const Type& type) {
  std::string text = "tensor<";
  for (const std::int64_t d : type.shape.dims()) text += std::to_string(d) + "x";
  return text + std::string(dtype_text(type.dtype)) + ">";
}

std::string list_text(const Ints& list) { return fmt::format("{}", fmt::join(list, ", ")); }

std::string array_text(const Ints& list) {
  return list.empty() ? "array<i64>" : "array<i64: " + list_text(list) + ">";
}

std::string table_text(const Ints& numbers, std::size_t width) {
  std::string rows;
  for (std::size_t i = 0; i < numbers.size(); i += width)
    rows += fmt::format("{}[{}]", i == 0 ? "" : ", ",
                        fmt::join(numbers.begin() + i, numbers.begin() + i + width, ", "));
  return fmt::format("dense<{}> : tensor<{}x{}xi64>", rows.empty() ? rows : "[" + rows + "]",
                     numbers.size() / width, width);
}

std::string number_text(DType dtype, double value) {
  return element_text(Literal::full({dtype, {}}, value), 0);
}

std::string identity_text(ir::Combine kind, DType of, DType as) {
  if (is_float(of)) return number_text(as, eval::identity<double>(kind, of));
  if (is_signed_integer(of)) return std::to_string(eval::identity<std::int64_t>(kind, of));
  const bool ones = kind == ir::Combine::bitwise_and;
  const auto bits = eval::identity<std::uint64_t>(ones ? ir::Combine::min : kind, of);
  if (of == DType::boolean) return bits != 0 ? "true" : "false";
  return std::to_string(bits);
}

std::string elements_text(const Literal& value) {
  if (value.count() == 0) return "";
  if (is_splat(value)) return element_text(value, 0);
  if (!is_blob(value)) {
    std::int64_t next = 0;
    return nested(value, value.dims(), 0, next);
  }
  std::string text = "\"0x";
  text.reserve(2 * value.byte_size() + 4);
  constexpr char kDigits[] = "0123456789ABCDEF";
  for (const std::byte b : value.as_bytes()) {
    text += kDigits[static_cast<unsigned>(b) >> 4];
    text += kDigits[static_cast<unsigned>(b) & 15];
  }
  return text + '"';
}

}  // namespace systole::codegen::hlo
