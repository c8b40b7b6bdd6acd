#pragma once

// Memory of a GPU, and who used it last. It is allocated and freed in the order of a stream, from the
// driver's pool; work on one stream waits for work on another only where both touch the same memory. It goes
// back on the stream that used it last, so that uploads, which fill new memory, do not wait for computations
// that read the old. A Moment is a place in a stream's work that others can wait for.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/driver.h"
#include "systole/base/literal.h"

namespace systole::cuda {

class Device;

class Moment {
 public:
  Moment(const Device& device, Stream stream);  // recorded now; if not, the stream's work is waited for
  ~Moment();
  Moment(const Moment&) = delete;
  Moment& operator=(const Moment&) = delete;
  const Device& device() const { return device_; }
  Stream stream() const { return stream_; }
  void make_wait(Stream other) const;  // work put on `other` from now on; nothing for the stream's own
  void wait() const;                   // on the host
  bool is_past() const;

 private:
  const Device& device_;
  const Stream stream_;
  Event event_ = nullptr;
};
using MomentRef = std::shared_ptr<const Moment>;

class Memory {
 public:
  // `what` is told when memory runs out, or `role` for what is no array. Ready for work on the stream.
  Memory(const Device& device, std::int64_t bytes, Type what, Stream stream, const char* role = nullptr);
  // Memory that is somebody else's: it is ordered, not freed. Without bytes, an order alone.
  Memory(const Device& device, Address address, std::int64_t bytes, const char* role);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  Address address() const { return address_; }
  std::int64_t bytes() const { return bytes_; }
  std::string what() const { return role_ != nullptr ? role_ : what_.to_string(); }
  const Device& device() const { return device_; }

  // Makes the stream wait until it may read, or write, the memory.
  void before_reading(Stream stream) const;
  void before_writing(Stream stream) const;
  void was_read(const MomentRef& moment);
  void was_written(const MomentRef& moment);
  void wait_until_written() const;  // on the host
  void wait_until_unused() const;   // by anybody, on the host
  bool is_unused() const;           // without waiting

 private:
  const Device& device_;
  const std::int64_t bytes_;
  const Type what_;
  const char* const role_;
  const Stream home_;  // where it was allocated; null: it is not ours
  Address address_ = 0;
  void wait_for_writer(Stream stream) const;
  Stream last_stream() const;
  std::vector<MomentRef> moments() const;  // of the last uses

  mutable std::mutex mutex_;
  MomentRef written_;
  mutable std::vector<Stream> waited_;  // for that, once and for all
  std::vector<MomentRef> read_;         // since then, the last of each stream
};
using MemoryRef = std::shared_ptr<Memory>;

// Some of its bytes; all of them unless they are said.
struct MemoryPart {
  Memory& memory;
  std::size_t offset = 0, bytes = 0;

  MemoryPart(Memory& whole) : memory(whole), bytes(static_cast<std::size_t>(whole.bytes())) {}
  MemoryPart(Memory& of, std::size_t offset_bytes, std::size_t count)
      : memory(of), offset(offset_bytes), bytes(count) {}
  Address address() const { return memory.address() + offset; }
};

// Every element of the part, on the stream; `element` has 1, 2, 4 or 8 bytes.
void fill(const MemoryPart& to, std::span<const std::byte> element, Stream stream);

}  // namespace systole::cuda
