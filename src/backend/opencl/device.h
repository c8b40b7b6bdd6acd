#pragma once

// A device: its context, one queue on which everything runs in order, its memory and its programs. Programs
// are kept in the cache on disk as the driver's binaries.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/opencl/api.h"
#include "backend/opencl/limits.h"
#include "runtime/disk_cache.h"
#include "runtime/timeline.h"

namespace systole::opencl {

using Memory = std::shared_ptr<_cl_mem>;
using Program = Owned<cl_program>;
using Kernel = Owned<cl_kernel>;

// A part of a memory object, as kernels take it.
struct Place {
  cl_mem memory = nullptr;
  std::size_t offset = 0;
  bool operator==(const Place&) const = default;
};

class Device {
 public:
  Device(cl_device_id id, int ordinal);

  const std::string& where() const { return where_; }  // "opencl:0"
  const std::string& name() const { return name_; }
  cl_device_id id() const { return id_; }
  cl_context context() const { return context_.get(); }
  cl_command_queue queue() const { return queue_.get(); }
  std::int64_t memory_bytes() const { return memory_bytes_; }
  const Limits& limits() const { return limits_; }
  std::size_t argument_bytes() const { return argument_bytes_; }  // that a kernel may have

  Memory allocate(std::int64_t bytes) const;  // null for nothing
  // Both wait for all that was queued before.
  void write(Place to, const void* from, std::size_t bytes) const;
  void read(Place from, void* to, std::size_t bytes) const;
  void copy(Place from, Place to, std::size_t bytes) const;
  void fill(Place to, std::span<const std::byte> element, std::size_t bytes) const;
  Memory part(Place begin, std::size_t bytes) const;  // as an object of its own; null where none may begin
  void launch(cl_kernel kernel, std::size_t groups, std::size_t threads) const;
  void flush() const;
  void finish() const;           // waits for all that was queued
  void finish_if_timed() const;  // under a timeline, whose spans are of work and not of its launch

  // Throws kInternal with the driver's words for a source that it refuses.
  Program build(const std::string& source) const;
  static Kernel kernel(const Program& program, const std::string& name);
  // Under which the binary is kept of what was built with these flags; of build() without.
  runtime::CacheKey cache_key(const std::string& source) const { return cache_key(source, options_); }
  runtime::CacheKey cache_key(const std::string& source, const std::string& flags) const;
  std::string binary_of(cl_program program) const;
  Program from_binary(std::string_view binary,
                      const std::string& flags) const;  // null: the driver refuses it

 private:
  void compile(cl_program program) const;

  cl_device_id id_;
  const std::string where_;
  const std::shared_ptr<timeline::Usage> usage_;  // shared with memory, which may live longer
  std::string name_, driver_, options_;
  std::int64_t memory_bytes_ = 0;
  std::size_t argument_bytes_ = 0;
  std::size_t alignment_ = 1;  // of what begins inside a memory object, bytes
  Limits limits_;
  Owned<cl_context> context_;
  Owned<cl_command_queue> queue_;
};

struct Devices {
  std::vector<std::unique_ptr<Device>> usable;
  std::string left_out;  // in words: which cannot be used and why
};
Devices opened(const std::vector<cl_device_id>& ids);

// All devices of all platforms, opened when first asked for.
const Devices& all_devices();
inline const std::vector<std::unique_ptr<Device>>& devices() { return all_devices().usable; }

}  // namespace systole::opencl
