#pragma once

// Memory of the host that a device copies from and to while the program goes on: page-locked for CUDA,
// ordinary memory elsewhere.
//
//   HostArray<float> host("cuda:0", n);
//   std::ranges::fill(host, 1.0f);
//   a.copy_from_async(host, stream);
//   b.copy_to_async(host, stream);     // after the first, which uses `host` as well
//   float first = host[0];             // waits for the copies
//
// Reading, writing and data() wait for copies that are under way. A pointer or span taken before knows
// nothing of copies that begin later: ask again, or wait(). It may go out of scope while a copy uses it.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "systole/base/dtype.h"
#include "systole/base/export.h"
#include "systole/runtime/device_spec.h"

namespace systole {

namespace runtime {
class HostMemory;
}  // namespace runtime

namespace detail {

class DeviceMemory;

class SYSTOLE_API PinnedMemory {
 public:
  bool defined() const { return memory_ != nullptr; }
  const DeviceName& device() const;
  bool is_busy() const;  // whether a copy from or to it is under way
  void wait() const;     // until none is
  void free();           // undefined from now on; the memory goes when copies are done

 protected:
  PinnedMemory() = default;
  PinnedMemory(const DeviceSpec& device, std::int64_t count, std::size_t element_bytes);
  std::byte* bytes() const;       // waits
  std::size_t byte_size() const;  // 0 of one that is undefined

 private:
  friend class DeviceMemory;
  std::shared_ptr<runtime::HostMemory> memory_;
};

}  // namespace detail

template <class T>
class HostArray : public detail::PinnedMemory {
  static_assert(requires { DTypeOf<T>::value; }, "a HostArray has elements that a DeviceArray can have");

 public:
  using value_type = T;
  HostArray() = default;                                   // undefined: any use but defined() throws
  HostArray(const DeviceSpec& device, std::int64_t count)  // zeros
      : PinnedMemory(device, count, sizeof(T)) {}
  template <std::ranges::sized_range R>
    requires std::same_as<std::ranges::range_value_t<const R>, T>
  HostArray(const DeviceSpec& device, const R& values)
      : HostArray(device, static_cast<std::int64_t>(std::ranges::size(values))) {
    T* next = data();
    for (const T value : values) *next++ = value;
  }
  HostArray(HostArray&&) noexcept = default;
  HostArray& operator=(HostArray&&) noexcept = default;

  std::size_t size() const { return byte_size() / sizeof(T); }
  T* data() { return reinterpret_cast<T*>(bytes()); }
  const T* data() const { return reinterpret_cast<const T*>(bytes()); }
  T* begin() { return data(); }
  T* end() { return data() + size(); }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size(); }
  T& operator[](std::size_t i) { return data()[i]; }
  const T& operator[](std::size_t i) const { return data()[i]; }
  std::vector<T> to_vector() const { return std::vector<T>(begin(), end()); }
};

}  // namespace systole
