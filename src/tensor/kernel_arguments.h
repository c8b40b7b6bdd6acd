#pragma once

// What is passed to a kernel against what it takes. Errors name the kernel and the parameter, as the source
// writes it.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/source_kernels.h"
#include "systole/base/error.h"
#include "systole/tensor/detail/kernel_values.h"

namespace systole::detail {

// Where in a call something is wrong.
struct Place {
  const std::string& where;
  std::size_t index;
  const runtime::SourceParameter& parameter;

  [[noreturn]] void refuse(ErrorKind kind, std::string_view what, std::string expected,
                           std::string got) const;
};

void check_kind(const Place& at, KernelValue::Kind kind, std::optional<DType> dtype);

// A struct by its size; numbers for a vector by their type and count too. A vector of three may be as large
// as one of four: then `is_padded`.
void check_bytes(const Place& at, std::size_t got, std::optional<DType> dtype, int lanes,
                 bool* is_padded = nullptr);

// A C++ type for a number: the kernel's own, since nothing is converted later.
void check_declared(const Place& at, const DeclaredParameter& declared);

// Vectors are read whole, from where they may lie.
void check_alignment(const Place& at, std::size_t offset, const DeviceName& device);

void check_array(const Place& at, const KernelValue& x, const DeviceName& device);

// The bytes of a number in a parameter's type, or of three in the room of four.
class NumberBytes {
 public:
  std::span<const std::byte> bytes() const { return {bytes_, size_}; }

  void set(const Place& at, const KernelValue& x);  // throws unless its value fits
  std::span<const std::byte> padded(std::span<const std::byte> from, std::size_t size) {
    size_ = std::min(size, sizeof bytes_);
    std::memcpy(bytes_, from.data(), std::min(from.size(), size_));
    return bytes();
  }

 private:
  alignas(32) std::byte bytes_[32]{};  // a vector is read whole
  std::size_t size_ = 0;
};

}  // namespace systole::detail
