#pragma once

// Memory of a GPU, and who used it last. It is allocated and freed in the order of a stream, from the
// driver's pool; work on one stream waits for work on another only where both touch the same memory. A Moment
// is a place in a stream's work that others can wait for.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/cuda/driver.h"
#include "systole/base/literal.h"

namespace systole::cuda {

class Device;

class Moment {
 public:
  Moment(const Device& device, Stream stream);  // recorded now
  ~Moment();
  Moment(const Moment&) = delete;
  Moment& operator=(const Moment&) = delete;
  Stream stream() const { return stream_; }
  void make_wait(Stream other) const;  // work put on `other` from now on; nothing for the stream's own
  void wait() const;                   // on the host

 private:
  const Device& device_;
  const Stream stream_;
  Event event_ = nullptr;
};
using MomentRef = std::shared_ptr<const Moment>;

class Memory {
 public:
  // `what` is told when memory runs out. Ready for work on the stream.
  Memory(const Device& device, std::int64_t bytes, Type what, Stream stream);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  Address address() const { return address_; }
  std::int64_t bytes() const { return bytes_; }
  const Type& what() const { return what_; }
  const Device& device() const { return device_; }

  // Makes the stream wait until it may read, or write, the memory.
  void before_reading(Stream stream) const;
  void before_writing(Stream stream) const;
  void was_read(const MomentRef& moment);
  void was_written(const MomentRef& moment);
  void wait_until_written() const;  // on the host

 private:
  const Device& device_;
  const std::int64_t bytes_;
  const Type what_;
  const Stream home_;  // where it was allocated
  Address address_ = 0;
  mutable std::mutex mutex_;
  MomentRef written_;
  std::vector<MomentRef> read_;  // since then, the last of each stream
};
using MemoryRef = std::shared_ptr<Memory>;

}  // namespace systole::cuda
