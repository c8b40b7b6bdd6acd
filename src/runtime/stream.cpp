#include "systole/runtime/stream.h"

#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <utility>

#include "runtime/source_kernels.h"
#include "systole/base/error.h"

namespace systole {

struct Stream::State {
  DeviceName device;
  runtime::SourceBackend* backend;  // null: it runs no kernels, and nothing is under way that one could see
  std::shared_ptr<const runtime::WorkQueue> queue;  // null: the default one
  bool is_default = false;
};

struct Event::State {
  DeviceName device;
  std::shared_ptr<const runtime::WorkMark> mark;
};

namespace {

using Clock = std::chrono::steady_clock;

// A moment that has passed, by the host's clock.
class PastMark final : public runtime::WorkMark {
 public:
  bool is_done() const override { return true; }
  void wait() const override {}
  double milliseconds_until(const runtime::WorkMark& end) const override {
    return std::chrono::duration<double, std::milli>(dynamic_cast<const PastMark&>(end).at_ - at_).count();
  }

 private:
  const Clock::time_point at_ = Clock::now();
};

class PlainMemory final : public runtime::HostMemory {
 public:
  PlainMemory(DeviceName device, std::size_t bytes)
      : HostMemory(std::move(device), bytes), memory_(std::make_unique<std::byte[]>(bytes)) {}
  std::byte* data() const override { return memory_.get(); }

 private:
  const std::unique_ptr<std::byte[]> memory_;
};

std::shared_ptr<const Stream::State> state_of(const DeviceSpec& device, bool is_default) {
  const runtime::ResolvedDevice place = runtime::resolve(device.name());
  auto* const backend = dynamic_cast<runtime::SourceBackend*>(place.backend);
  return std::make_shared<const Stream::State>(Stream::State{
      place.name, backend,
      backend != nullptr && !is_default ? backend->make_queue(place.name.ordinal) : nullptr, is_default});
}

}  // namespace

Stream::Stream(const DeviceSpec& device) : state_(state_of(device, false)) {}

Stream Stream::default_of(const DeviceSpec& device) {
  Stream stream;
  stream.state_ = state_of(device, true);
  return stream;
}

const Stream::State& Stream::checked(const char* what) const {
  if (state_ == nullptr)
    throw Error(ErrorKind::kInvalidArgument, what, "the stream is of no device in particular",
                "Stream(device), or Stream::default_of(device)", "Stream()");
  return *state_;
}

bool Stream::is_default() const { return state_ == nullptr || state_->is_default; }
const DeviceName& Stream::device() const { return checked("Stream::device").device; }

void Stream::synchronize() const {
  const State& s = checked("Stream::synchronize");
  if (s.queue != nullptr)
    s.queue->synchronize();
  else if (s.backend != nullptr)
    s.backend->mark(nullptr, s.device.ordinal)->wait();
}

bool Stream::is_done() const {
  const State& s = checked("Stream::is_done");
  if (s.queue != nullptr) return s.queue->is_done();
  return s.backend == nullptr || s.backend->mark(nullptr, s.device.ordinal)->is_done();
}

void Stream::wait(const Event& event) const {
  const State& s = checked("Stream::wait");
  const Event::State& e = event.checked();
  if (s.queue != nullptr && e.device.backend_name() == s.device.backend_name())
    s.queue->wait(*e.mark);
  else if (s.queue == nullptr && s.backend != nullptr && e.device.backend_name() == s.device.backend_name())
    s.backend->default_waits(*e.mark, s.device.ordinal);
  else
    e.mark->wait();
}

const Event::State& Event::checked() const {
  if (state_ == nullptr)
    throw Error(ErrorKind::kInvalidArgument, "Event", "it was never recorded", "Event(stream), or record(…)");
  return *state_;
}

void Event::record(const Stream& stream) {
  const Stream::State& s = stream.checked("Event::record");
  state_ = std::make_shared<const State>(
      State{s.device, s.backend != nullptr ? s.backend->mark(s.queue.get(), s.device.ordinal)
                                           : std::make_shared<const PastMark>()});
}

void Event::record(const DeviceSpec& device) { record(Stream::default_of(device)); }

bool Event::is_done() const { return checked().mark->is_done(); }
void Event::synchronize() const { checked().mark->wait(); }

double Event::elapsed_time(const Event& end) const {
  const State &a = checked(), &b = end.checked();
  if (!(a.device == b.device))
    throw Error(ErrorKind::kInvalidArgument, "Event::elapsed_time",
                "the events are of two devices, which have clocks of their own", a.device.to_string(),
                b.device.to_string());
  a.mark->wait();
  b.mark->wait();
  return a.mark->milliseconds_until(*b.mark);
}

namespace runtime {

std::shared_ptr<SourceGlobal> SourceProgram::global(const std::string& name) const {
  throw Error(ErrorKind::kUnsupported, "variable " + name,
              "a module of this device has no variables that the host can set", "an array as an argument");
}

std::shared_ptr<const WorkQueue> SourceBackend::make_queue(int) { return nullptr; }

void SourceBackend::default_waits(const WorkMark& mark, int) { mark.wait(); }

std::shared_ptr<const WorkMark> SourceBackend::mark(const WorkQueue*, int ordinal) {
  synchronize(ordinal);
  return std::make_shared<const PastMark>();
}

std::shared_ptr<HostMemory> SourceBackend::make_host_memory(std::size_t bytes, const DeviceName& device) {
  return plain_host_memory(bytes, device);
}

std::uint64_t SourceBackend::address(const Buffer& buffer) {
  throw Error(ErrorKind::kUnsupported, fmt::format("DeviceArray on {}", buffer.device().to_string()),
              "memory of this device has no address that a kernel could use",
              "the array itself as an argument of the kernel");
}

void SourceBackend::begin_write(const BufferPart& to, HostMemory& from, const WorkQueue*) {
  from.wait();  // it may be another device's, which still copies
  write(to, {from.data(), from.size()});
}

void SourceBackend::begin_read(const BufferPart& from, HostMemory& to, const WorkQueue*) {
  to.wait();
  read(from, {to.data(), to.size()});
}

std::shared_ptr<HostMemory> plain_host_memory(std::size_t bytes, const DeviceName& device) {
  return std::make_shared<PlainMemory>(device, bytes);
}

const WorkQueue* queue_of(const Stream& stream, const DeviceName& device, const std::string& where) {
  const Stream::State* const s = stream.state();
  if (s == nullptr) return nullptr;
  if (!(s->device == device))
    throw Error(ErrorKind::kInvalidArgument, where, "the stream is of another device", device.to_string(),
                s->device.to_string());
  return s->queue.get();
}

}  // namespace runtime

DeviceProperties device_properties(const DeviceSpec& device) {
  const runtime::ResolvedDevice place = runtime::resolve(device.name());
  DeviceProperties known{.device = place.name};
  for (const runtime::DeviceInfo& info : place.backend->devices())
    if (info.name == place.name) {
      known.name = info.description;
      known.total_memory = info.memory_bytes;
    }
  if (auto* const backend = dynamic_cast<runtime::SourceBackend*>(place.backend))
    backend->add_properties(known, place.name.ordinal);
  return known;
}

MemoryInfo memory_info(const DeviceSpec& device) {
  const runtime::ResolvedDevice place = runtime::resolve(device.name());
  auto* const backend = dynamic_cast<runtime::SourceBackend*>(place.backend);
  MemoryInfo info = backend != nullptr ? backend->memory(place.name.ordinal) : MemoryInfo{};
  if (info.total == 0) info.total = device_properties(device).total_memory;
  return info;
}

}  // namespace systole
