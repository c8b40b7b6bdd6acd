#include "backend/cuda/queues.h"

#include <algorithm>
#include <cstring>

#include "backend/cuda/recorded_move.h"

namespace systole::cuda {

Mark::Mark(const Device& device, Stream stream) : device_(device) {
  device.activate();
  check(driver().cuEventCreate(&event_, 0), "cuEventCreate");
  if (const Status status = driver().cuEventRecord(event_, stream); status != kSuccess) {
    succeeded(driver().cuEventDestroy(event_), "cuEventDestroy");
    check(status, "cuEventRecord");
  }
}

Mark::~Mark() {
  if (device_.try_activate()) succeeded(driver().cuEventDestroy(event_), "cuEventDestroy");
}

bool Mark::is_done() const {
  device_.activate();
  const Status status = driver().cuEventQuery(event_);
  if (status == kErrorNotReady) return false;
  check(status, "cuEventQuery");
  return true;
}

void Mark::wait() const {
  device_.activate();
  check(driver().cuEventSynchronize(event_), "cuEventSynchronize");
}

double Mark::milliseconds_until(const runtime::WorkMark& end) const {
  device_.activate();
  float milliseconds = 0;
  check(driver().cuEventElapsedTime(&milliseconds, event_, dynamic_cast<const Mark&>(end).event_),
        "cuEventElapsedTime");
  return static_cast<double>(milliseconds);
}

void Queue::synchronize() const {
  device_.activate();
  check(driver().cuStreamSynchronize(stream_), "cuStreamSynchronize");
}

bool Queue::is_done() const {
  device_.activate();
  const Status status = driver().cuStreamQuery(stream_);
  if (status == kErrorNotReady) return false;
  check(status, "cuStreamQuery");
  return true;
}

void Queue::wait(const runtime::WorkMark& mark) const {
  device_.activate();
  check(driver().cuStreamWaitEvent(stream_, dynamic_cast<const Mark&>(mark).event(), 0), "cuStreamWaitEvent");
}

Stream stream_of(const Device& device, const runtime::WorkQueue* queue) {
  return queue == nullptr ? device.kernels() : dynamic_cast<const Queue&>(*queue).stream();
}

PinnedMemory::PinnedMemory(const Device& device, std::size_t bytes, const DeviceName& name)
    : HostMemory(name, bytes), device_(device), order_(device, 0, 0, "memory of the host") {
  device.activate();
  check(driver().cuMemHostAlloc(&memory_, std::max<std::size_t>(bytes, 1), kHostPortable), "cuMemHostAlloc");
  std::memset(memory_, 0, bytes);
}

PinnedMemory::~PinnedMemory() {
  if (!device_.try_activate()) return;
  try {
    wait();
  } catch (const Error&) {  // the context is lost, and the memory with it
    return;
  }
  succeeded(driver().cuMemFreeHost(memory_), "cuMemFreeHost");
}

bool PinnedMemory::is_busy() const {
  if (!busy_) return false;
  device_.activate();
  return !order_.is_unused();
}

void PinnedMemory::wait() const {
  if (!busy_) return;
  device_.activate();
  order_.wait_until_unused();
  busy_ = false;
}

void PinnedMemory::begin_copy_to(const MemoryPart& to, Stream stream) {
  order_.before_reading(stream);
  to.memory.before_writing(stream);
  busy_ = true;
  const RecordedMove move(to.memory.device(), timeline::kToDevice, size(), stream);
  check(driver().cuMemcpyHtoDAsync(to.address(), memory_, size(), stream), "cuMemcpyHtoDAsync");
  const auto moment = std::make_shared<const Moment>(to.memory.device(), stream);
  order_.was_read(moment);
  to.memory.was_written(moment);
}

void PinnedMemory::begin_copy_from(const MemoryPart& from, Stream stream) {
  order_.before_writing(stream);
  from.memory.before_reading(stream);
  busy_ = true;
  const RecordedMove move(from.memory.device(), timeline::kToHost, size(), stream);
  check(driver().cuMemcpyDtoHAsync(memory_, from.address(), size(), stream), "cuMemcpyDtoHAsync");
  const auto moment = std::make_shared<const Moment>(from.memory.device(), stream);
  from.memory.was_read(moment);
  order_.was_written(moment);
}

}  // namespace systole::cuda
