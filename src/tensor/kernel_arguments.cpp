#include "tensor/kernel_arguments.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

namespace systole::detail {

namespace {

using runtime::SourceParameter;
using Kind = KernelValue::Kind;
using ParameterKind = SourceParameter::Kind;

std::string lanes_of(DType dtype, int lanes) {
  return lanes > 1 ? fmt::format("{}×{}", name(dtype), lanes) : std::string(name(dtype));
}

std::string in_words(Kind kind, std::optional<DType> dtype, int lanes = 1) {
  const std::string type = dtype ? lanes_of(*dtype, lanes) : std::string();
  switch (kind) {
    case Kind::array: return fmt::format("an array of {}", type);
    case Kind::local: return fmt::format("local memory of {}", type);
    case Kind::bytes: return dtype ? fmt::format("numbers of {}", type) : "a struct";
    default: return fmt::format("a number of {}", type);
  }
}

std::string in_words(const SourceParameter& p) {
  const std::string type = p.dtype ? lanes_of(*p.dtype, p.lanes) : fmt::format("type {}", p.type);
  if (!p.kind) return "what the driver does not say";
  switch (*p.kind) {
    case ParameterKind::array: return fmt::format("an array of {}", type);
    case ParameterKind::local: return fmt::format("local memory of {}", type);
    case ParameterKind::number: return fmt::format("a number of {}", type);
  }
  __builtin_unreachable();
}

std::string_view in_a_word(Kind kind) {
  switch (kind) {
    case Kind::array: return "an array";
    case Kind::local: return "local memory";
    case Kind::bytes: return "a struct";
    default: return "a number";
  }
}

std::string_view in_a_word(const SourceParameter& p) {
  switch (p.kind.value_or(ParameterKind::number)) {
    case ParameterKind::array: return "an array";
    case ParameterKind::local: return "local memory";
    case ParameterKind::number: return !p.dtype ? "a struct" : p.lanes > 1 ? "a vector" : "a number";
  }
  __builtin_unreachable();
}

bool kinds_agree(const SourceParameter& parameter, Kind kind) {
  if (!parameter.kind) return true;
  switch (kind) {
    case Kind::array: return parameter.kind == ParameterKind::array;
    case Kind::local: return parameter.kind == ParameterKind::local;
    case Kind::bytes:
      return parameter.kind == ParameterKind::number && (!parameter.dtype || parameter.lanes > 1);
    default: return parameter.kind == ParameterKind::number && parameter.dtype && parameter.lanes == 1;
  }
}

template <class Integer>
bool is_exact(double rounded, Integer x) {
  constexpr double kEnd =
      2.0 * static_cast<double>(std::uint64_t{1} << (std::numeric_limits<Integer>::digits - 1));
  return rounded < kEnd && rounded >= -kEnd && static_cast<Integer>(rounded) == x;
}
template <class T>
T of_floating(const Place& at, double x) {
  if constexpr (std::is_integral_v<T>)
    at.refuse(ErrorKind::kDType, "a float is not taken for an integer", in_words(at.parameter),
              fmt::format("{}", x));
  else {
    const T value = static_cast<T>(x);  // rounded, as in C++
    if (std::isfinite(x) && !std::isfinite(static_cast<double>(value)))
      at.refuse(ErrorKind::kInvalidArgument, "the number does not fit", in_words(at.parameter),
                fmt::format("{}", x));
    return value;
  }
}
template <class T, class Integer>
T of_integer(const Place& at, Integer x) {
  bool fits;
  if constexpr (std::is_same_v<T, bool>)
    fits = x == 0 || x == 1;
  else if constexpr (std::is_integral_v<T>)
    fits = std::in_range<T>(x);
  else
    fits = is_exact(static_cast<double>(static_cast<T>(static_cast<double>(x))), x);
  if (!fits)
    at.refuse(ErrorKind::kInvalidArgument, "the number does not fit", in_words(at.parameter),
              std::to_string(x));
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(x);
  else
    return static_cast<T>(static_cast<double>(x));
}

}  // namespace

void Place::refuse(ErrorKind kind, std::string_view what, std::string expected, std::string got) const {
  const std::string text = parameter.to_string();
  throw Error(kind, where,
              fmt::format("argument {}{}: {}", index, text.empty() ? "" : fmt::format(" ({})", text), what),
              std::move(expected), std::move(got));
}

void check_kind(const Place& at, Kind kind, std::optional<DType> dtype) {
  if (!kinds_agree(at.parameter, kind))
    at.refuse(ErrorKind::kInvalidArgument,
              fmt::format("{} is wanted, {} was given", in_a_word(at.parameter), in_a_word(kind)),
              in_words(at.parameter), in_words(kind, dtype));
  const bool has_elements = kind == Kind::array || kind == Kind::local;
  if (has_elements && dtype && !at.parameter.takes(*dtype))
    at.refuse(ErrorKind::kDType, "its elements are of another type", in_words(at.parameter),
              in_words(kind, dtype));
}

void check_bytes(const Place& at, std::size_t got, std::optional<DType> dtype, int lanes, bool* is_padded) {
  const SourceParameter& p = at.parameter;
  if (p.dtype && p.lanes > 1 && dtype && !p.takes(*dtype))
    at.refuse(ErrorKind::kDType, "its numbers are of another type", in_words(p),
              in_words(Kind::bytes, dtype, lanes));
  if (p.bytes == 0 || p.bytes == got) return;
  const bool is_short = p.dtype && dtype && p.lanes == 3 && lanes == 3;
  if (is_padded != nullptr) *is_padded = is_short;
  if (!is_short)
    at.refuse(ErrorKind::kInvalidArgument, "its size is another",
              fmt::format("{} bytes, {}", p.bytes, in_words(p)),
              fmt::format("{} bytes, {}", got, in_words(Kind::bytes, dtype, lanes)));
}

void check_declared(const Place& at, const DeclaredParameter& declared) {
  check_kind(at, declared.kind, declared.dtype);
  const bool is_number =
      declared.kind != Kind::array && declared.kind != Kind::local && declared.kind != Kind::bytes;
  if (is_number && at.parameter.dtype && !at.parameter.takes(*declared.dtype))
    at.refuse(ErrorKind::kDType, "its type is another", in_words(at.parameter),
              in_words(declared.kind, declared.dtype));
  if (declared.kind == Kind::bytes) check_bytes(at, declared.bytes, declared.dtype, declared.lanes);
  if (declared.kind == Kind::array && declared.is_const && at.parameter.is_written)
    at.refuse(ErrorKind::kInvalidArgument, "it is declared const and the kernel may write to it",
              "const in the kernel, or an array that is not const", "a const array");
}

void NumberBytes::set(const Place& at, const KernelValue& x) {
  const DType to = at.parameter.dtype.value_or(*x.dtype);  // when the driver does not say: as it is
  visit_dtype(to, [&]<class T>() {
    T value{};
    switch (x.kind) {
      case Kind::floating: value = of_floating<T>(at, x.floating); break;
      case Kind::signed_integer: value = of_integer<T>(at, x.signed_integer); break;
      default: value = of_integer<T>(at, x.unsigned_integer); break;
    }
    size_ = sizeof value;
    std::memcpy(bytes_, &value, size_);
  });
}

void check_alignment(const Place& at, std::size_t offset, const DeviceName& device) {
  const SourceParameter& p = at.parameter;
  if (!p.dtype || p.lanes == 1 || p.lanes == 3) return;
  const std::size_t most = device.backend == "cuda" ? 16 : 128;  // CUDA's vectors, and all there are
  const std::size_t wanted = std::min(size_of(*p.dtype) * static_cast<std::size_t>(p.lanes), most);
  if (offset % wanted != 0)
    at.refuse(ErrorKind::kInvalidArgument, "the slice begins where no such vector may lie",
              fmt::format("a multiple of {} bytes", wanted), fmt::format("byte {}", offset));
}

void check_array(const Place& at, const KernelValue& x, const DeviceName& device) {
  const DeviceMemory& memory = x.memory();
  if (!memory.defined())
    at.refuse(ErrorKind::kInvalidArgument, "the array is undefined: never made, moved from or freed",
              in_words(at.parameter), "no array");
  if (!(memory.device() == device))
    at.refuse(ErrorKind::kInvalidArgument, "the array lies on another device", device.to_string(),
              memory.device().to_string());
  if (at.parameter.is_written && x.writable == nullptr)
    at.refuse(ErrorKind::kInvalidArgument, "the kernel may write to it",
              "const in the kernel, or an array that is neither const nor a temporary",
              x.named != nullptr ? "a const array" : "a temporary");
}

}  // namespace systole::detail
