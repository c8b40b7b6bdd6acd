#pragma once

// A GPU: its context, memory, streams and transfers. What it is is known at once; its context is made when
// first needed and kept as long as the process, and an attempt that failed can be repeated. A context that a
// kernel destroyed stays lost: every call then throws kContextLost without asking the driver.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "backend/cuda/driver.h"
#include "backend/cuda/memory.h"
#include "runtime/timeline.h"
#include "systole/base/error.h"

namespace systole::cuda {

class Device {
 public:
  explicit Device(int ordinal);  // throws kUnsupported for one that is too old
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  int ordinal() const { return ordinal_; }
  const std::string& name() const { return name_; }
  const std::string& architecture() const { return architecture_; }  // "sm_90"
  int capability() const { return capability_; }                     // 90
  bool can_launch_early() const { return can_launch_early_; }  // kernels while they wait for others to end
  int multiprocessors() const { return multiprocessors_; }
  // The share of a multiprocessor's threads that blocks of this kind keep at once; 0 where it is not known.
  double occupancy(int threads, int registers, std::int64_t shared_bytes) const;
  std::int64_t memory_bytes() const { return memory_bytes_; }
  int attribute(int which) const;   // CU_DEVICE_ATTRIBUTE_…
  std::int64_t free_bytes() const;  // of the GPU, and of what the pool keeps and nobody uses

  void activate() const;               // for the calling thread; every call of the driver needs it
  bool try_activate() const noexcept;  // for destructors: false when there is nothing to be freed any more
  bool is_lost() const { return health_.is_lost(); }
  Error lost_error() const;

  Stream take_stream() const;  // one that nobody has
  void give_stream(Stream stream) const;
  Stream transfers() const;          // of uploads
  Stream kernels() const;            // of programs' own kernels: their default
  Stream take_users_stream() const;  // one that a program asked for
  void give_users_stream(Stream stream) const;
  // Makes the stream wait for all work that was put on others, but for those that programs asked for.
  void join(Stream stream) const;
  void synchronize() const;                   // waits for all of it
  void settle(Stream stream) const noexcept;  // waits for all work on it, whatever became of it
  void settle_all() const noexcept;           // on every stream

  // Throws kOutOfMemory with the bytes wanted and free, and the largest arrays there are.
  Address allocate(const Memory& owner, Stream stream) const;
  void free(const Memory& owner, Stream stream) const noexcept;
  Event take_event() const;
  void give_event(Event event) const;

  // Through pinned memory. An upload returns when the host's memory may change; a download when it is there.
  // Each has a stream of its own, so that neither waits for what the other waits for.
  void upload(const std::byte* from, const MemoryPart& to) const;
  void download(const MemoryPart& from, std::byte* to) const;

  // Whether this GPU can read the other's memory itself; then `from` may be the other's.
  bool can_read(const Device& other) const;
  void copy(const MemoryPart& from, const MemoryPart& to) const;

 private:
  struct Opened;
  const Opened& opened() const;
  std::vector<Stream> all_streams() const;
  std::string out_of_memory(const Memory& wanted) const;

  const int ordinal_;
  int handle_ = 0;  // the driver's
  std::string name_, architecture_;
  int capability_ = 0, multiprocessors_ = 0;
  bool can_launch_early_ = false;
  struct {
    int threads = 0, registers = 0, shared = 0, blocks = 0, reserved_shared = 0;
  } room_;  // of a multiprocessor
  std::int64_t memory_bytes_ = 0;
  mutable Health health_;
  mutable timeline::Usage usage_;
  mutable std::mutex open_mutex_;
  mutable std::unique_ptr<Opened> opened_;
  mutable std::atomic<const Opened*> ready_{nullptr};
  mutable std::mutex mutex_;              // of what follows
  mutable std::set<const Memory*> live_;  // that has memory
  mutable std::vector<Event> events_;     // free ones
  mutable std::vector<Stream> streams_;   // free ones
  mutable std::vector<Stream> made_;      // all of them, which stay
  mutable std::set<Stream> users_;        // of them, those that programs have
  mutable Stream kernels_ = nullptr;
  mutable std::map<int, bool> readable_;  // by the other's ordinal
};

// A stream of the device's, given back when its work is done: memory that was allocated on it may live
// longer.
class BorrowedStream {
 public:
  explicit BorrowedStream(const Device& device) : device_(device), stream_(device.take_stream()) {}
  ~BorrowedStream() {
    device_.settle(stream_);
    device_.give_stream(stream_);
  }
  BorrowedStream(const BorrowedStream&) = delete;
  BorrowedStream& operator=(const BorrowedStream&) = delete;
  Stream get() const { return stream_; }

 private:
  const Device& device_;
  const Stream stream_;
};

// All that can be used; the others are in `left_out`, in words.
struct Devices {
  std::vector<std::unique_ptr<Device>> usable;
  std::string left_out;
};
Devices find_devices();
const Devices& all_devices();  // found once
const Device& device_of(int ordinal);

}  // namespace systole::cuda
