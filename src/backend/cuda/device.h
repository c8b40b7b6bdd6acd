#pragma once

// A GPU: its context, memory, streams and transfers. Opened when first asked for, kept as long as the
// process.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "backend/cuda/driver.h"
#include "backend/cuda/memory.h"

namespace systole::cuda {

class Device {
 public:
  explicit Device(int ordinal);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  int ordinal() const { return ordinal_; }
  const std::string& name() const { return name_; }
  const std::string& architecture() const { return architecture_; }  // "sm_90"
  int capability() const { return capability_; }                     // 90
  int multiprocessors() const { return multiprocessors_; }
  std::int64_t memory_bytes() const { return memory_bytes_; }

  void activate() const;  // for the calling thread; every call of the driver needs it

  Stream take_stream() const;  // one that nobody has
  void give_stream(Stream stream) const;
  Stream transfers() const { return transfers_; }

  // Throws kOutOfMemory with the bytes wanted and free, and the largest arrays there are.
  Address allocate(const Memory& owner, Stream stream) const;
  void free(const Memory& owner, Stream stream) const;
  Event take_event() const;
  void give_event(Event event) const;

  // Through pinned memory. An upload returns when the host's memory may change; a download when it is there.
  void upload(const std::byte* from, Memory& to) const;
  void download(const Memory& from, std::byte* to) const;

 private:
  class Ring;
  std::string out_of_memory(std::int64_t wanted) const;

  const int ordinal_;
  std::string name_, architecture_;
  int capability_ = 0, multiprocessors_ = 0;
  std::int64_t memory_bytes_ = 0;
  Context context_ = nullptr;
  MemoryPool pool_ = nullptr;
  Stream transfers_ = nullptr;
  mutable std::mutex mutex_;              // of what follows
  mutable std::set<const Memory*> live_;  // that has memory
  mutable std::vector<Event> events_;     // free ones
  mutable std::vector<Stream> streams_;   // free ones
  mutable std::mutex ring_mutex_;         // one transfer at a time
  std::unique_ptr<Ring> ring_;
};

// All that can be used; the others are in `left_out`, in words.
struct Devices {
  std::vector<std::unique_ptr<Device>> usable;
  std::string left_out;
};
const Devices& all_devices();
const Device& device_of(int ordinal);

}  // namespace systole::cuda
