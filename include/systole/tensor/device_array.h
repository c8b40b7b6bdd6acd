#pragma once

// An array on a device for a program's own kernels (kernels.h). It is a value: copies share the memory until
// a kernel writes to one of them, which then gets memory of its own. So it goes to a Tensor and back without
// copying, and no Tensor ever changes. Different arrays may be used by different threads.
//
//   DeviceArray<float> a("opencl:0", {1, 2, 3}), c("opencl:0", Shape{1024});   // c: zeros
//   std::vector<float> values = c.to_host();                                   // waits for kernels

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "systole/base/dtype.h"
#include "systole/base/export.h"
#include "systole/base/literal.h"
#include "systole/base/shape.h"
#include "systole/runtime.h"
#include "systole/tensor/tensor.h"

namespace systole {

// What does not depend on the type of the elements.
class SYSTOLE_API DeviceMemory {
 public:
  DeviceMemory() = default;  // undefined: any use but defined() throws
  bool defined() const { return buffer_ != nullptr; }
  const Type& type() const { return buffer().type(); }
  const Shape& shape() const { return type().shape; }
  std::int64_t size() const { return shape().count(); }  // number of elements
  const DeviceName& device() const { return buffer().device(); }
  Literal literal() const { return buffer().to_host(); }  // waits for kernels
  Tensor tensor() const;                                  // the same memory
  // For the library's own use.
  const runtime::BufferRef& buffer_ref() const { return buffer_; }
  void make_exclusive();  // memory that nobody else sees

 protected:
  DeviceMemory(std::string_view device, const Literal& values);
  DeviceMemory(const Tensor& tensor, DType wanted);
  void assign(const Literal& values);  // of this array's type

 private:
  const runtime::Buffer& buffer() const;
  runtime::BufferRef buffer_;
};

template <class T>
class DeviceArray : public DeviceMemory {
 public:
  using value_type = T;
  DeviceArray() = default;
  DeviceArray(std::string_view device, Shape shape)  // zeros
      : DeviceMemory(device, Literal({dtype_of<T>, std::move(shape)})) {}
  DeviceArray(std::string_view device, std::initializer_list<T> values)
      : DeviceArray(device, std::span<const T>(values.begin(), values.size())) {}
  DeviceArray(std::string_view device, std::span<const T> values)
      : DeviceArray(device, values, {static_cast<std::int64_t>(values.size())}) {}
  DeviceArray(std::string_view device, const std::vector<T>& values)
      : DeviceArray(device, std::span<const T>(values)) {}
  // Throws kShape when the count is another.
  DeviceArray(std::string_view device, std::span<const T> values, Shape shape)
      : DeviceMemory(device, Literal::of<T>(std::move(shape), values)) {}
  // The tensor's memory, evaluated, on its device; kDType unless T is its dtype.
  explicit DeviceArray(const Tensor& tensor) : DeviceMemory(tensor, dtype_of<T>) {}

  std::vector<T> to_host() const {  // row-major
    const Literal all = literal();
    const std::span<const T> values = all.template values<T>();
    return {values.begin(), values.end()};
  }
  void assign(std::span<const T> values) {  // new values; kShape when the count is another
    DeviceMemory::assign(Literal::of<T>(shape(), values));
  }
};

}  // namespace systole
