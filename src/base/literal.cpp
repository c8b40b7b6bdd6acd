#include "systole/base/literal.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <ostream>

#include "base/lasting.h"

namespace systole {

namespace {

constexpr std::size_t kAlignment = 64;

std::shared_ptr<std::byte> allocate(const Type& type, bool zero) {
  const std::size_t bytes = static_cast<std::size_t>(type.bytes());
  if (bytes == 0) {  // all of them share a place: a file may have very many
    alignas(kAlignment) static std::byte nothing[kAlignment];
    static const auto& shared = lasting<std::shared_ptr<std::byte>>(nothing, [](std::byte*) {});
    return shared;
  }
  // calloc leaves large zero pages to the kernel; over-allocate to align by hand so that one path serves
  // both.
  if (bytes > std::numeric_limits<std::ptrdiff_t>::max() - kAlignment)
    throw Error(ErrorKind::kLimit, "literal",
                "the size of " + type.to_string() + " exceeds the address space");
  void* raw = zero ? std::calloc(bytes + kAlignment, 1) : std::malloc(bytes + kAlignment);
  if (raw == nullptr)
    throw Error(ErrorKind::kOutOfMemory, "literal", "no memory for " + type.to_string(),
                std::to_string(bytes) + " bytes");
  void* aligned = raw;
  std::size_t space = bytes + kAlignment;
  std::align(kAlignment, bytes, aligned, space);
  return {static_cast<std::byte*>(aligned), [raw](std::byte*) { std::free(raw); }};
}

}  // namespace

Literal::Literal() : Literal(Type{DType::f32, {0}}) {}

Literal::Literal(Type type) : type_(std::move(type)) {
  check_type(type_, "literal");
  count_ = type_.shape.count();
  data_ = allocate(type_, true);
}

Literal Literal::uninitialized(Type type) {
  check_type(type, "literal");
  std::shared_ptr<std::byte> data = allocate(type, false);
  return Literal(std::move(type), std::move(data), true);
}

Literal Literal::copy_of(Type type, std::span<const std::byte> bytes) {
  Literal out = uninitialized(std::move(type));
  if (bytes.size() != out.byte_size())
    throw Error(ErrorKind::kShape, "literal", "wrong number of bytes for " + out.type_.to_string(),
                std::to_string(out.byte_size()), std::to_string(bytes.size()));
  if (out.dtype() == DType::boolean)  // any other byte than 0 and 1 would be an invalid bool
    std::transform(bytes.begin(), bytes.end(), out.data_.get(),
                   [](std::byte b) { return std::byte{b != std::byte{0}}; });
  else if (!bytes.empty())
    std::memcpy(out.data_.get(), bytes.data(), bytes.size());
  return out;
}

Literal Literal::view(Type type, const void* data, std::shared_ptr<const void> owner) {
  check_type(type, "literal");
  auto* bytes =
      static_cast<std::byte*>(const_cast<void*>(data));  // written only after mutable_bytes() copies
  if (reinterpret_cast<std::uintptr_t>(data) % size_of(type.dtype) != 0) {
    const auto size = static_cast<std::size_t>(type.bytes());
    return copy_of(std::move(type), {bytes, size});
  }
  return Literal(std::move(type),
                 std::shared_ptr<std::byte>(std::const_pointer_cast<void>(std::move(owner)), bytes), false);
}

Literal::Literal(Type type, std::shared_ptr<std::byte> data, bool owned)
    : type_(std::move(type)), count_(type_.shape.count()), data_(std::move(data)), owned_(owned) {}

Literal Literal::full(Type type, double value) {
  Literal out = uninitialized(std::move(type));
  visit_dtype(out.dtype(), [&]<class T>() {
    if constexpr (std::is_integral_v<T>) {
      // The bounds as doubles: -2^k is exact and 2^k is the first value above.
      const double above = std::ldexp(1.0, std::numeric_limits<T>::digits);
      if (!(value < above && value >= (std::is_signed_v<T> ? -above : 0)))
        throw Error(ErrorKind::kInvalidArgument, "literal",
                    "a value out of range for " + std::string(name(out.dtype())), {}, std::to_string(value));
    }
    auto v = out.mutable_values<T>();
    std::fill(v.begin(), v.end(), static_cast<T>(value));
  });
  return out;
}

Literal Literal::full_int(Type type, std::int64_t value) {
  Literal out = uninitialized(std::move(type));
  visit_dtype(out.dtype(), [&]<class T>() {
    auto v = out.mutable_values<T>();
    if constexpr (std::is_integral_v<T>)
      std::fill(v.begin(), v.end(), static_cast<T>(value));
    else
      std::fill(v.begin(), v.end(), static_cast<T>(static_cast<double>(value)));
  });
  return out;
}

std::byte* Literal::mutable_bytes() {
  if (!owned_ || data_.use_count() != 1) {
    std::shared_ptr<std::byte> fresh = allocate(type_, false);
    if (byte_size() != 0) std::memcpy(fresh.get(), data_.get(), byte_size());
    data_ = std::move(fresh);
    owned_ = true;
  } else {
#if !defined(__SANITIZE_THREAD__)                         // which knows no fences
    std::atomic_thread_fence(std::memory_order_acquire);  // the reads of those who let go come first
#endif
  }
  return data_.get();
}

std::vector<double> Literal::to_doubles() const {
  std::vector<double> out(static_cast<std::size_t>(count_));
  visit_dtype(dtype(), [&]<class T>() {
    std::transform(values<T>().begin(), values<T>().end(), out.begin(),
                   [](T v) { return static_cast<double>(v); });
  });
  return out;
}

Literal Literal::reshaped(Shape shape) const {
  if (shape.count() != count_)
    throw Error(ErrorKind::kShape, "literal", "reshape changes the number of elements",
                std::to_string(count_), shape.to_string());
  Literal out = *this;
  out.type_.shape = std::move(shape);
  return out;
}

Literal Literal::reinterpreted(DType dtype) const {
  if (size_of(dtype) != size_of(type_.dtype))
    throw Error(ErrorKind::kDType, "literal", "reinterpretation needs a dtype of the same size",
                std::string(name(type_.dtype)), std::string(name(dtype)));
  Literal out = *this;
  out.type_.dtype = dtype;
  return out;
}

bool Literal::same_bits(const Literal& other) const {
  return type_ == other.type_ && (byte_size() == 0 || std::memcmp(bytes(), other.bytes(), byte_size()) == 0);
}

void Literal::check_dtype(DType wanted) const {
  if (wanted != type_.dtype)
    throw Error(ErrorKind::kDType, "literal", "wrong element type", std::string(name(type_.dtype)),
                std::string(name(wanted)));
}

void Literal::check_single() const {
  if (count_ != 1)
    throw Error(ErrorKind::kShape, "item", "the value is not a single element", "1 element",
                type_.to_string());
}

std::ostream& operator<<(std::ostream& out, const Literal& value) { return out << value.to_string(); }

}  // namespace systole
