#pragma once

// An array on a device for a program's own kernels (kernels.h). It is a value: copies share the memory until
// one of them is written to, which then gets memory of its own. So it goes to a Tensor and back without
// copying, and no Tensor ever changes. Different arrays may be used by different threads.
//
//   DeviceArray<float> a("opencl:0", values), c(a.device(), {1024});   // c: 1024 zeros
//   auto b = DeviceArray<float>::of("opencl:0", {1, 2, 3});
//   std::vector<float> sums = c.to_host();                             // waits for kernels
//   auto second = c.slice(512, 1024);                                  // a part of c's own memory
//
// A slice is a part of an array, not a copy of it: what is written to either is seen by both. It keeps the
// memory alive and belongs to the array's thread. A copy of a slice is an array of its own, like any copy.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "systole/base/dtype.h"
#include "systole/base/export.h"
#include "systole/base/literal.h"
#include "systole/base/shape.h"
#include "systole/runtime.h"
#include "systole/runtime/device_spec.h"
#include "systole/runtime/stream.h"
#include "systole/tensor/host_array.h"
#include "systole/tensor/tensor.h"

namespace systole {

class SourceFunction;

namespace runtime {
struct BufferPart;
}  // namespace runtime

namespace detail {

struct KernelValue;

template <class T>
concept Element = requires { DTypeOf<T>::value; };

// Values on the host: a vector, an array, a span, … of T itself.
template <class R, class T>
concept HostRange = std::ranges::sized_range<const R> && std::same_as<std::ranges::range_value_t<const R>, T>;

// What of an array does not depend on the type of its elements.
class SYSTOLE_API DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(const DeviceMemory& other);
  DeviceMemory& operator=(const DeviceMemory& other) &;
  DeviceMemory(DeviceMemory&&) noexcept = default;
  DeviceMemory& operator=(DeviceMemory&&) & noexcept = default;
  ~DeviceMemory() = default;

  bool defined() const { return storage_ != nullptr; }
  bool is_slice() const { return is_slice_ && defined(); }
  const Type& type() const {
    buffer();
    return type_;
  }
  const Shape& shape() const { return type().shape; }
  std::int64_t size() const { return shape().count(); }  // number of elements
  const DeviceName& device() const { return buffer().device(); }
  Literal literal() const;  // waits for kernels
  Tensor tensor() const;    // the same memory; of a part, a copy
  // Leaves undefined values: who writes all of them next needs no copy of those that others look at.
  void discard();
  // Gives the memory up: undefined from now on. It is freed when kernels are done with it and no Tensor or
  // other array has it.
  void free() { storage_.reset(); }
  // Where the memory is, for a struct or a table of pointers that a kernel gets: of CUDA and cpu;
  // kUnsupported elsewhere. It waits for work with the array. Of what kernels do by addresses the library
  // knows nothing: synchronize(device) before the array is used again, and keep it. An array that is not
  // const gets memory that nobody else sees, and keeps it until it is written to while others have it.
  std::uint64_t address();
  std::uint64_t address() const;  // only to be read

 protected:
  enum class Contents { zeros, undefined };
  DeviceMemory(const DeviceSpec& device, Type type, Contents contents);
  DeviceMemory(const DeviceSpec& device, Type type, std::span<const std::byte> values);
  DeviceMemory(const Tensor& tensor, DType wanted);
  void write(std::span<const std::byte> values);
  void read(std::span<std::byte> values) const;
  void copy(const DeviceMemory& from);
  void begin_write(const PinnedMemory& values, const Stream& stream);
  void begin_read(PinnedMemory& values, const Stream& stream) const;
  void fill(std::span<const std::byte> element, const Stream& stream);
  void narrow(std::int64_t start, std::int64_t stop);  // to these rows of the first axis
  DeviceMemory alias() const;                          // a slice of all of it

 private:
  friend class systole::SourceFunction;
  friend struct KernelValue;
  struct Storage {  // what an array shares with its slices, and not with its copies
    runtime::BufferRef buffer;
  };
  void hold(runtime::BufferRef buffer);  // all of it
  const runtime::Buffer& buffer() const;
  runtime::BufferPart part() const;
  bool is_whole() const;      // rather than a part of the buffer
  bool is_exclusive() const;  // whether nobody else sees the memory, but for slices
  void make_exclusive();      // memory that nobody else sees, with these values

  std::shared_ptr<Storage> storage_;
  Type type_{};
  std::size_t offset_ = 0;  // in the buffer, bytes
  bool is_slice_ = false;
};

}  // namespace detail

template <class T>
class DeviceArray : public detail::DeviceMemory {
  static_assert(detail::Element<T>,
                "the elements of a DeviceArray are bool, std::int8_t to std::uint64_t, float, double or a "
                "small float such as systole::f16; for others use the bytes: DeviceArray<std::uint8_t>");

 public:
  using value_type = T;
  DeviceArray() = default;  // undefined: any use but defined() throws
  DeviceArray(const DeviceArray&) = default;
  DeviceArray(DeviceArray&&) noexcept = default;
  // Of an array with a name: a.slice(0, 2) = b would change no memory. That is a.slice(0, 2).copy_from(b).
  DeviceArray& operator=(const DeviceArray&) & = default;
  DeviceArray& operator=(DeviceArray&&) & noexcept = default;
  ~DeviceArray() = default;
  DeviceArray(const DeviceSpec& device, Shape shape)  // zeros
      : DeviceMemory(device, {dtype_of<T>, std::move(shape)}, Contents::zeros) {}
  template <detail::HostRange<T> R>
  DeviceArray(const DeviceSpec& device, const R& values)  // of one axis
      : DeviceArray(device, values, Shape{std::ranges::size(values)}) {}
  template <detail::HostRange<T> R>
  DeviceArray(const DeviceSpec& device, const R& values, Shape shape)  // row-major; kShape unless they fit
      : DeviceMemory(device, {dtype_of<T>, std::move(shape)}, Bytes(values).all) {}
  // The tensor's memory, evaluated, on its device; kDType unless T is its dtype.
  explicit DeviceArray(const Tensor& tensor) : DeviceMemory(tensor, dtype_of<T>) {}

  static DeviceArray zeros(const DeviceSpec& device, Shape shape) { return {device, std::move(shape)}; }
  static DeviceArray empty(const DeviceSpec& device, Shape shape) {  // undefined values
    return DeviceArray(device, std::move(shape), Contents::undefined);
  }
  static DeviceArray of(const DeviceSpec& device, std::initializer_list<T> values) {
    return DeviceArray(device, values);
  }

  // Row-major; waits for kernels.
  std::vector<T> to_host() const {
    if constexpr (std::is_same_v<T, bool>) {
      const Literal values = literal();
      return {values.template values<T>().begin(), values.template values<T>().end()};
    } else {
      std::vector<T> values(static_cast<std::size_t>(size()));
      copy_to(values);
      return values;
    }
  }
  void copy_to(std::span<T> values) const { read(std::as_writable_bytes(values)); }
  // New values, where the old ones are unless somebody else has them. kShape when the count is another.
  template <detail::HostRange<T> R>
  void copy_from(const R& values) {
    write(Bytes(values).all);
  }
  void copy_from(const DeviceArray& other) { copy(other); }  // of any device
  // The same value everywhere; without waiting, on a stream.
  void fill(const T& value, const Stream& stream = {}) {
    DeviceMemory::fill(std::as_bytes(std::span(&value, 1)), stream);
  }

  // The rows start … stop-1 of the first axis, in the same memory. kUnsupported where no kernels run.
  DeviceArray slice(std::int64_t start, std::int64_t stop) {
    DeviceArray part(alias());
    part.narrow(start, stop);
    return part;
  }
  // Of a const array, which nobody writes to: a value that shares the memory until it is written to.
  DeviceArray slice(std::int64_t start, std::int64_t stop) const {
    DeviceArray part(*this);
    part.narrow(start, stop);
    return part;
  }
  // The same without waiting, on a stream; kernels and reads that use the array wait for it by themselves.
  // Only from and to a HostArray: other memory of the host may move or go meanwhile.
  void copy_from_async(const HostArray<T>& values, const Stream& stream = {}) { begin_write(values, stream); }
  void copy_to_async(HostArray<T>& values, const Stream& stream = {}) const { begin_read(values, stream); }
  template <detail::HostRange<T> R>
  void copy_from_async(const R& values, const Stream& stream = {}) = delete;  // HostArray<T>(device, values)

 private:
  explicit DeviceArray(DeviceMemory&& memory) : DeviceMemory(std::move(memory)) {}
  DeviceArray(const DeviceSpec& device, Shape shape, Contents contents)
      : DeviceMemory(device, {dtype_of<T>, std::move(shape)}, contents) {}

  // The bytes of values, gathered when they do not lie side by side (std::vector<bool>).
  struct Bytes {
    template <class R>
    explicit Bytes(const R& values) {
      if constexpr (std::ranges::contiguous_range<const R>) {
        all = std::as_bytes(std::span<const T>(std::ranges::data(values), std::ranges::size(values)));
      } else {
        gathered = std::make_unique<T[]>(std::ranges::size(values));
        T* next = gathered.get();
        for (const T value : values) *next++ = value;
        all = std::as_bytes(std::span<const T>(gathered.get(), std::ranges::size(values)));
      }
    }
    std::unique_ptr<T[]> gathered;
    std::span<const std::byte> all;
  };
};

}  // namespace systole
