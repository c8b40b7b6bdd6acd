#include "backend/cuda/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "systole/base/error.h"

namespace systole::cuda {

namespace {

constexpr int kLeastCapability = 75;
constexpr std::size_t kPinnedBytes = std::size_t{8} << 20;  // of each part of the ring
constexpr std::size_t kPinnedParts = 2;

int attribute(int which, int device) {
  int value = 0;
  check(driver().cuDeviceGetAttribute(&value, which, device), "cuDeviceGetAttribute");
  return value;
}

}  // namespace

// Pinned memory in parts: one is copied by the GPU while the host fills the next.
class Device::Ring {
 public:
  Ring() {
    for (Part& part : parts_) {
      check(driver().cuMemHostAlloc(&part.memory, kPinnedBytes, 0), "cuMemHostAlloc");
      check(driver().cuEventCreate(&part.done, kEventDisableTiming), "cuEventCreate");
    }
  }

  void upload(const std::byte* from, Address to, std::size_t bytes, Stream stream) {
    for (std::size_t done = 0; done < bytes; done += kPinnedBytes) {
      const std::size_t count = std::min(kPinnedBytes, bytes - done);
      Part& part = next();
      std::memcpy(part.memory, from + done, count);
      check(driver().cuMemcpyHtoDAsync(to + done, part.memory, count, stream), "cuMemcpyHtoDAsync");
      finish(part, stream);
    }
  }
  void download(Address from, std::byte* to, std::size_t bytes, Stream stream) {
    std::size_t asked = 0, got = 0;
    while (got < bytes) {
      while (asked < bytes && asked - got < kPinnedParts * kPinnedBytes) {
        const std::size_t count = std::min(kPinnedBytes, bytes - asked);
        Part& part = parts_[asked / kPinnedBytes % kPinnedParts];
        wait(part);
        check(driver().cuMemcpyDtoHAsync(part.memory, from + asked, count, stream), "cuMemcpyDtoHAsync");
        finish(part, stream);
        asked += count;
      }
      Part& part = parts_[got / kPinnedBytes % kPinnedParts];
      wait(part);
      const std::size_t count = std::min(kPinnedBytes, bytes - got);
      std::memcpy(to + got, part.memory, count);
      got += count;
    }
  }

 private:
  struct Part {
    void* memory = nullptr;
    Event done = nullptr;
    bool busy = false;
  };
  Part& next() {
    Part& part = parts_[turn_++ % kPinnedParts];
    wait(part);
    return part;
  }
  static void wait(Part& part) {
    if (part.busy) check(driver().cuEventSynchronize(part.done), "cuEventSynchronize");
    part.busy = false;
  }
  static void finish(Part& part, Stream stream) {
    check(driver().cuEventRecord(part.done, stream), "cuEventRecord");
    part.busy = true;
  }

  std::array<Part, kPinnedParts> parts_;
  std::size_t turn_ = 0;
};

Device::Device(int ordinal) : ordinal_(ordinal) {
  const Driver& cu = driver();
  int device = 0;
  check(cu.cuDeviceGet(&device, ordinal), "cuDeviceGet");
  std::array<char, 256> name{};
  check(cu.cuDeviceGetName(name.data(), static_cast<int>(name.size()), device), "cuDeviceGetName");
  name_ = name.data();
  capability_ = 10 * attribute(kComputeMajor, device) + attribute(kComputeMinor, device);
  architecture_ = fmt::format("sm_{}", capability_);
  if (capability_ < kLeastCapability)
    throw Error(ErrorKind::kUnsupported, "cuda", fmt::format("{} is too old", name_),
                "compute capability 7.5 (Turing) or newer",
                fmt::format("{}.{}", capability_ / 10, capability_ % 10));
  multiprocessors_ = attribute(kMultiprocessors, device);
  std::size_t bytes = 0;
  check(cu.cuDeviceTotalMem(&bytes, device), "cuDeviceTotalMem");
  memory_bytes_ = static_cast<std::int64_t>(bytes);
  if (attribute(kMemoryPoolsSupported, device) == 0)
    throw Error(ErrorKind::kUnsupported, "cuda", fmt::format("{}: its driver has no memory pools", name_));
  check(cu.cuDevicePrimaryCtxRetain(&context_, device), "cuDevicePrimaryCtxRetain");
  activate();
  check(cu.cuDeviceGetDefaultMemPool(&pool_, device), "cuDeviceGetDefaultMemPool");
  std::uint64_t everything = ~std::uint64_t{0};  // what is freed stays in the pool
  check(cu.cuMemPoolSetAttribute(pool_, kPoolReleaseThreshold, &everything), "cuMemPoolSetAttribute");
  transfers_ = take_stream();
  ring_ = std::make_unique<Ring>();
}

void Device::activate() const { check(driver().cuCtxSetCurrent(context_), "cuCtxSetCurrent"); }

Stream Device::take_stream() const {
  {
    const std::lock_guard lock(mutex_);
    if (!streams_.empty()) {
      const Stream stream = streams_.back();
      streams_.pop_back();
      return stream;
    }
  }
  Stream stream = nullptr;
  check(driver().cuStreamCreate(&stream, kStreamNonBlocking), "cuStreamCreate");
  return stream;
}

void Device::give_stream(Stream stream) const {
  const std::lock_guard lock(mutex_);
  streams_.push_back(stream);
}

Address Device::allocate(const Memory& owner, Stream stream) const {
  activate();
  const auto bytes = static_cast<std::size_t>(owner.bytes());
  Address address = 0;
  Status status = driver().cuMemAllocAsync(&address, bytes, stream);
  if (status == kErrorOutOfMemory) {  // what was freed on other streams may be on its way
    check(driver().cuCtxSynchronize(), "cuCtxSynchronize");
    check(driver().cuMemPoolTrimTo(pool_, 0), "cuMemPoolTrimTo");
    status = driver().cuMemAllocAsync(&address, bytes, stream);
  }
  if (status == kErrorOutOfMemory)
    throw Error(ErrorKind::kOutOfMemory, fmt::format("cuda:{}", ordinal_), out_of_memory(owner.bytes()));
  check(status, "cuMemAllocAsync");
  const std::lock_guard lock(mutex_);
  live_.insert(&owner);
  return address;
}

void Device::free(const Memory& owner, Stream stream) const {
  {
    const std::lock_guard lock(mutex_);
    live_.erase(&owner);
  }
  driver().cuMemFreeAsync(owner.address(), stream);  // fails only when the context is lost
}

std::string Device::out_of_memory(std::int64_t wanted) const {
  std::size_t free = 0, total = 0;
  driver().cuMemGetInfo(&free, &total);
  std::vector<const Memory*> largest;
  std::string text = fmt::format("{} bytes wanted, {} of {} free", wanted, free, total);
  const std::lock_guard lock(mutex_);
  largest.assign(live_.begin(), live_.end());
  std::sort(largest.begin(), largest.end(),
            [](const Memory* a, const Memory* b) { return a->bytes() > b->bytes(); });
  constexpr std::size_t kTold = 5;
  if (largest.size() > kTold) largest.resize(kTold);
  if (!largest.empty()) text += "; the largest arrays are";
  for (const Memory* const memory : largest)
    text += fmt::format(" {} ({} bytes)", memory->what().to_string(), memory->bytes());
  return text;
}

Event Device::take_event() const {
  {
    const std::lock_guard lock(mutex_);
    if (!events_.empty()) {
      const Event event = events_.back();
      events_.pop_back();
      return event;
    }
  }
  Event event = nullptr;
  check(driver().cuEventCreate(&event, kEventDisableTiming), "cuEventCreate");
  return event;
}

void Device::give_event(Event event) const {
  const std::lock_guard lock(mutex_);
  events_.push_back(event);
}

void Device::upload(const std::byte* from, Memory& to) const {
  if (to.bytes() == 0) return;
  activate();
  const std::lock_guard lock(ring_mutex_);
  to.before_writing(transfers_);
  ring_->upload(from, to.address(), static_cast<std::size_t>(to.bytes()), transfers_);
  to.was_written(std::make_shared<const Moment>(*this, transfers_));
}

void Device::download(const Memory& from, std::byte* to) const {
  if (from.bytes() == 0) return;
  activate();
  const std::lock_guard lock(ring_mutex_);
  from.before_reading(transfers_);
  ring_->download(from.address(), to, static_cast<std::size_t>(from.bytes()), transfers_);
}

const Devices& all_devices() {
  static const Devices* const all = [] {
    auto* const made = new Devices;  // never destroyed: memory may outlive what is static
    std::string reason;
    const Driver* const cu = find_driver(reason);
    if (cu == nullptr) {
      made->left_out = reason;
      return made;
    }
    int count = 0;
    if (const Status status = cu->cuDeviceGetCount(&count); status != kSuccess) {
      made->left_out = "no devices: " + status_name(status);
      return made;
    }
    if (count == 0) made->left_out = "no NVIDIA GPU on this machine";
    for (int i = 0; i < count; ++i) try {
        made->usable.push_back(std::make_unique<Device>(i));
      } catch (const Error& error) {
        made->left_out += (made->left_out.empty() ? "" : "; ") + std::string(error.what());
      }
    return made;
  }();
  return *all;
}

const Device& device_of(int ordinal) {
  const Devices& all = all_devices();
  for (const auto& device : all.usable)
    if (device->ordinal() == ordinal) return *device;
  throw Error(ErrorKind::kNotFound, fmt::format("cuda:{}", ordinal), "there is no such device", {},
              all.left_out);
}

}  // namespace systole::cuda
