#pragma once

// Streams, moments and memory of the host that programs ask for.

#include <atomic>
#include <memory>

#include "backend/cuda/device.h"
#include "runtime/source_kernels.h"

namespace systole::cuda {

class Mark final : public runtime::WorkMark {
 public:
  Mark(const Device& device, Stream stream);  // recorded now
  ~Mark() override;
  bool is_done() const override;
  void wait() const override;
  double milliseconds_until(const runtime::WorkMark& end) const override;
  Event event() const { return event_; }

 private:
  const Device& device_;
  Event event_ = nullptr;
};

// The device has many streams and gives the same again; one that is given back may have work.
class Queue final : public runtime::WorkQueue {
 public:
  explicit Queue(const Device& device) : device_(device), stream_(device.take_users_stream()) {}
  ~Queue() override { device_.give_users_stream(stream_); }
  void synchronize() const override;
  bool is_done() const override;
  void wait(const runtime::WorkMark& mark) const override;
  Stream stream() const { return stream_; }

 private:
  const Device& device_;
  const Stream stream_;
};

// The stream that a queue stands for; null is the default one.
Stream stream_of(const Device& device, const runtime::WorkQueue* queue);

// Memory that the GPU reads and writes by itself. Copies from and to it are in the order of the calls.
class PinnedMemory final : public runtime::HostMemory {
 public:
  PinnedMemory(const Device& device, std::size_t bytes, const DeviceName& name);
  ~PinnedMemory() override;
  std::byte* data() const override { return static_cast<std::byte*>(memory_); }
  bool is_busy() const override;
  void wait() const override;

  void begin_copy_to(const MemoryPart& to, Stream stream);
  void begin_copy_from(const MemoryPart& from, Stream stream);

 private:
  const Device& device_;
  void* memory_ = nullptr;
  mutable Memory order_;  // of its uses
  mutable std::atomic<bool> busy_{false};
};

}  // namespace systole::cuda
