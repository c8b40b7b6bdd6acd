#include "backend/cuda/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "backend/cuda/cupti.h"
#include "backend/cuda/pinned_ring.h"
#include "backend/cuda/recorded_move.h"
#include "base/lasting.h"
#include "base/log.h"

namespace systole::cuda {

namespace {

constexpr int kLeastCapability = 75;

// The context that all who use a GPU in one process share, current for the thread that asked.
class PrimaryContext {
 public:
  PrimaryContext(int device, Health& health) : device_(device), health_(health) {
    set_current_health(&health);
    check(driver().cuDevicePrimaryCtxRetain(&context_, device), "cuDevicePrimaryCtxRetain");
    try {
      check(driver().cuCtxSetCurrent(context_), "cuCtxSetCurrent");
    } catch (...) {
      release();
      throw;
    }
  }
  ~PrimaryContext() { release(); }
  PrimaryContext(const PrimaryContext&) = delete;
  PrimaryContext& operator=(const PrimaryContext&) = delete;
  Context get() const { return context_; }

 private:
  void release() {
    set_current_health(nullptr);
    if (health_.is_lost()) return;
    driver().cuCtxSetCurrent(nullptr);
    driver().cuDevicePrimaryCtxRelease(device_);
  }

  const int device_;
  const Health& health_;
  Context context_ = nullptr;
};

class OwnedStream {
 public:
  explicit OwnedStream(const Health& health) : health_(health) {
    check(driver().cuStreamCreate(&stream_, kStreamNonBlocking), "cuStreamCreate");
  }
  ~OwnedStream() {
    if (!health_.is_lost()) succeeded(driver().cuStreamDestroy(stream_), "cuStreamDestroy");
  }
  OwnedStream(const OwnedStream&) = delete;
  OwnedStream& operator=(const OwnedStream&) = delete;
  Stream get() const { return stream_; }

 private:
  const Health& health_;
  Stream stream_ = nullptr;
};

MemoryPool pool_of(int device) {
  MemoryPool pool = nullptr;
  check(driver().cuDeviceGetDefaultMemPool(&pool, device), "cuDeviceGetDefaultMemPool");
  std::uint64_t everything = ~std::uint64_t{0};  // what is freed stays in the pool
  check(driver().cuMemPoolSetAttribute(pool, kPoolReleaseThreshold, &everything), "cuMemPoolSetAttribute");
  // An upload would wait for the run that still reads the memory of an earlier one.
  int never = 0;
  check(driver().cuMemPoolSetAttribute(pool, kPoolWaitsForMemory, &never), "cuMemPoolSetAttribute");
  return pool;
}

}  // namespace

struct Device::Opened {
  Opened(int device, Health& health)
      : context(device, health),
        pool(pool_of(device)),
        upload_stream(health),
        download_stream(health),
        uploads(health, upload_stream.get()),
        downloads(health, download_stream.get()) {}

  const PrimaryContext context;
  const MemoryPool pool;
  const OwnedStream upload_stream, download_stream;
  mutable std::mutex upload_mutex, download_mutex;  // one transfer each way at a time
  mutable PinnedRing uploads, downloads;
};

Device::Device(int ordinal) : ordinal_(ordinal), usage_(fmt::format("cuda:{} memory", ordinal)) {
  const Driver& cu = driver();
  check(cu.cuDeviceGet(&handle_, ordinal), "cuDeviceGet");
  std::array<char, 256> name{};
  check(cu.cuDeviceGetName(name.data(), static_cast<int>(name.size()), handle_), "cuDeviceGetName");
  name_ = name.data();
  capability_ = 10 * attribute(kComputeMajor) + attribute(kComputeMinor);
  architecture_ = fmt::format("sm_{}", capability_);
  if (capability_ < kLeastCapability)
    throw Error(ErrorKind::kUnsupported, fmt::format("cuda:{}", ordinal), fmt::format("{} is too old", name_),
                "compute capability 7.5 (Turing) or newer",
                fmt::format("{}.{}", capability_ / 10, capability_ % 10));
  int version = 0;
  check(cu.cuDriverGetVersion(&version), "cuDriverGetVersion");
  can_launch_early_ = capability_ >= 90 && version >= 12030;
  multiprocessors_ = attribute(kMultiprocessors);
  room_ = {attribute(kThreadsPerMultiprocessor), attribute(kRegistersPerMultiprocessor),
           attribute(kSharedPerMultiprocessor), attribute(kBlocksPerMultiprocessor),
           attribute(kReservedSharedPerBlock)};
  std::size_t bytes = 0;
  check(cu.cuDeviceTotalMem(&bytes, handle_), "cuDeviceTotalMem");
  memory_bytes_ = static_cast<std::int64_t>(bytes);
  if (attribute(kMemoryPoolsSupported) == 0)
    throw Error(ErrorKind::kUnsupported, fmt::format("cuda:{}", ordinal),
                fmt::format("the driver has no memory pools for {}", name_));
}

// Registers are given to warps by 256, warps to four schedulers, shared memory by 128 bytes.
double Device::occupancy(int threads, int registers, std::int64_t shared_bytes) const {
  constexpr int kWarp = 32, kRegisters = 256, kSchedulers = 4, kShared = 128;
  if (threads < 1 || room_.threads < 1 || room_.blocks < 1) return 0;
  const auto rounded = [](std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; };
  const std::int64_t warps = rounded(threads, kWarp) / kWarp;
  std::int64_t blocks = std::min<std::int64_t>(room_.blocks, room_.threads / (warps * kWarp));
  if (registers > 0 && room_.registers > 0) {
    const std::int64_t of_warp = rounded(std::int64_t{registers} * kWarp, kRegisters);
    blocks = std::min(blocks, room_.registers / kSchedulers / of_warp * kSchedulers / warps);
  }
  if (const std::int64_t shared = rounded(shared_bytes + room_.reserved_shared, kShared);
      shared > 0 && room_.shared > 0)
    blocks = std::min(blocks, room_.shared / shared);
  return static_cast<double>(blocks * warps * kWarp) / room_.threads;
}

Device::~Device() {
  cupti::forget(*this);
  if (try_activate()) {
    for (const Event event : events_) succeeded(driver().cuEventDestroy(event), "cuEventDestroy");
    if (kernels_ != nullptr) streams_.push_back(kernels_);
    for (const Stream stream : streams_) succeeded(driver().cuStreamDestroy(stream), "cuStreamDestroy");
  }
  set_current_health(nullptr);
}

const Device::Opened& Device::opened() const {
  if (const Opened* const here = ready_.load(std::memory_order_acquire)) return *here;
  const std::lock_guard lock(open_mutex_);
  if (!opened_) opened_ = std::make_unique<Opened>(handle_, health_);
  cupti::start_recording();  // before the first copy
  ready_.store(opened_.get(), std::memory_order_release);
  return *opened_;
}

Error Device::lost_error() const {
  return {ErrorKind::kContextLost, fmt::format("cuda:{}", ordinal_),
          fmt::format("the GPU's context is lost with all that was in it, until the process starts anew: {}",
                      health_.why())};
}

void Device::activate() const {
  if (is_lost()) throw lost_error();
  const Opened& here = opened();
  set_current_health(&health_);
  check(driver().cuCtxSetCurrent(here.context.get()), "cuCtxSetCurrent");
}

bool Device::try_activate() const noexcept {
  const Opened* const here = ready_.load(std::memory_order_acquire);
  if (is_lost() || here == nullptr) return false;
  set_current_health(&health_);
  return succeeded(driver().cuCtxSetCurrent(here->context.get()), "cuCtxSetCurrent");
}

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
  const std::lock_guard lock(mutex_);
  made_.push_back(stream);
  return stream;
}

Stream Device::kernels() const {
  {
    const std::lock_guard lock(mutex_);
    if (kernels_ != nullptr) return kernels_;
  }
  const Stream taken = take_stream();
  const std::lock_guard lock(mutex_);
  if (kernels_ == nullptr)
    kernels_ = taken;
  else
    streams_.push_back(taken);
  return kernels_;
}

Stream Device::take_users_stream() const {
  activate();
  const Stream stream = take_stream();
  const std::lock_guard lock(mutex_);
  users_.insert(stream);
  return stream;
}

void Device::give_users_stream(Stream stream) const {
  const std::lock_guard lock(mutex_);
  users_.erase(stream);
  streams_.push_back(stream);
}

void Device::join(Stream stream) const {
  activate();
  std::vector<Stream> others{opened().upload_stream.get(), opened().download_stream.get()};
  {
    const std::lock_guard lock(mutex_);
    for (const Stream other : made_)
      if (!users_.contains(other)) others.push_back(other);
  }
  for (const Stream other : others)
    if (other != stream) Moment(*this, other).make_wait(stream);
}

// To be waited for one by one. The whole context may not be while another thread captures a graph: the driver
// refuses it, and the graph is lost. Captures have streams of their own, which are not among these.
std::vector<Stream> Device::all_streams() const {
  std::vector<Stream> all{opened().upload_stream.get(), opened().download_stream.get()};
  const std::lock_guard lock(mutex_);
  all.insert(all.end(), made_.begin(), made_.end());
  return all;
}

void Device::synchronize() const {
  activate();
  for (const Stream stream : all_streams())
    check(driver().cuStreamSynchronize(stream), "cuStreamSynchronize");
}

void Device::settle_all() const noexcept {
  if (!try_activate()) return;
  for (const Stream stream : all_streams())
    if (!is_lost()) succeeded(driver().cuStreamSynchronize(stream), "cuStreamSynchronize");
}

int Device::attribute(int which) const {
  int value = 0;
  check(driver().cuDeviceGetAttribute(&value, which, handle_), "cuDeviceGetAttribute");
  return value;
}

std::int64_t Device::free_bytes() const {
  activate();
  std::size_t free = 0, total = 0;
  check(driver().cuMemGetInfo(&free, &total), "cuMemGetInfo");
  std::uint64_t reserved = 0, used = 0;
  check(driver().cuMemPoolGetAttribute(opened().pool, kPoolReserved, &reserved), "cuMemPoolGetAttribute");
  check(driver().cuMemPoolGetAttribute(opened().pool, kPoolUsed, &used), "cuMemPoolGetAttribute");
  return static_cast<std::int64_t>(free + (reserved > used ? reserved - used : 0));
}

void Device::give_stream(Stream stream) const {
  const std::lock_guard lock(mutex_);
  streams_.push_back(stream);
}

Stream Device::transfers() const { return opened().upload_stream.get(); }

void Device::settle(Stream stream) const noexcept {
  if (try_activate()) succeeded(driver().cuStreamSynchronize(stream), "cuStreamSynchronize");
}

Address Device::allocate(const Memory& owner, Stream stream) const {
  activate();
  const auto bytes = static_cast<std::size_t>(owner.bytes());
  Address address = 0;
  Status status = driver().cuMemAllocAsync(&address, bytes, stream);
  if (status == kErrorOutOfMemory) {  // what was freed on other streams may be on its way
    settle_all();
    succeeded(driver().cuMemPoolTrimTo(opened().pool, 0), "cuMemPoolTrimTo");
    if (is_lost()) throw lost_error();
    status = driver().cuMemAllocAsync(&address, bytes, stream);
  }
  if (status == kErrorOutOfMemory)
    throw Error(ErrorKind::kOutOfMemory, fmt::format("cuda:{}", ordinal_), out_of_memory(owner));
  check(status, "cuMemAllocAsync");
  usage_.add(owner.bytes());
  const std::lock_guard lock(mutex_);
  live_.insert(&owner);
  return address;
}

void Device::free(const Memory& owner, Stream stream) const noexcept {
  {
    const std::lock_guard lock(mutex_);
    live_.erase(&owner);
  }
  usage_.add(-owner.bytes());
  if (!is_lost()) succeeded(driver().cuMemFreeAsync(owner.address(), stream), "cuMemFreeAsync");
}

std::string Device::out_of_memory(const Memory& wanted) const {
  std::size_t free = 0, total = 0;
  succeeded(driver().cuMemGetInfo(&free, &total), "cuMemGetInfo");
  std::string text = fmt::format("cuMemAllocAsync: {} bytes wanted for {}, {} of {} free", wanted.bytes(),
                                 wanted.what(), free, total);
  const std::lock_guard lock(mutex_);
  std::vector<const Memory*> largest(live_.begin(), live_.end());
  std::sort(largest.begin(), largest.end(),
            [](const Memory* a, const Memory* b) { return a->bytes() > b->bytes(); });
  constexpr std::size_t kTold = 5;
  if (largest.size() > kTold) largest.resize(kTold);
  for (std::size_t i = 0; i < largest.size(); ++i)
    text += fmt::format("{}{} ({} bytes)", i == 0 ? "; the largest here are " : ", ", largest[i]->what(),
                        largest[i]->bytes());
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

void Device::upload(const std::byte* from, const MemoryPart& to) const {
  if (to.bytes == 0) return;
  activate();
  const Opened& here = opened();
  const std::lock_guard lock(here.upload_mutex);
  to.memory.before_writing(here.upload_stream.get());
  const RecordedMove move(*this, timeline::kToDevice, to.bytes, here.upload_stream.get());
  here.uploads.upload(from, to.address(), to.bytes);
  to.memory.was_written(std::make_shared<const Moment>(*this, here.upload_stream.get()));
}

void Device::download(const MemoryPart& from, std::byte* to) const {
  if (from.bytes == 0) return;
  activate();
  const Opened& here = opened();
  const std::lock_guard lock(here.download_mutex);
  from.memory.before_reading(here.download_stream.get());
  const RecordedMove move(*this, timeline::kToHost, from.bytes, here.download_stream.get());
  here.downloads.download(from.address(), to, from.bytes);
}

// Memory of a pool is read by another GPU when the pool allows it, whatever contexts do.
bool Device::can_read(const Device& other) const {
  if (&other == this) return true;
  other.activate();
  activate();
  const std::lock_guard lock(mutex_);
  const auto known = readable_.find(other.ordinal_);
  if (known != readable_.end()) return known->second;
  int can = 0;
  check(driver().cuDeviceCanAccessPeer(&can, handle_, other.handle_), "cuDeviceCanAccessPeer");
  const PoolAccess access{kOnDevice, handle_, kReadWrite};
  const bool works = can != 0 && succeeded(driver().cuMemPoolSetAccess(other.opened().pool, &access, 1),
                                           "cuMemPoolSetAccess");
  log(LogLevel::info, fmt::format("cuda: copies from cuda:{} to cuda:{} go {}", other.ordinal_, ordinal_,
                                  works ? "directly" : "through the host"));
  return readable_[other.ordinal_] = works;
}

void Device::copy(const MemoryPart& from, const MemoryPart& to) const {
  if (to.bytes == 0) return;
  const Opened &here = opened(), &there = from.memory.device().opened();
  activate();
  const Stream stream = here.upload_stream.get();
  const std::lock_guard lock(here.upload_mutex);
  from.memory.before_reading(stream);
  to.memory.before_writing(stream);
  const bool is_here = &from.memory.device() == this;
  const std::string what = is_here ? std::string(timeline::kOnDevice)
                                   : cupti::peer_copy_name(from.memory.device().ordinal(), ordinal_);
  const RecordedMove move(*this, what, to.bytes, stream);
  if (is_here)
    check(driver().cuMemcpyDtoDAsync(to.address(), from.address(), to.bytes, stream), "cuMemcpyDtoDAsync");
  else
    check(driver().cuMemcpyPeerAsync(to.address(), here.context.get(), from.address(), there.context.get(),
                                     to.bytes, stream),
          "cuMemcpyPeerAsync");
  const auto moment = std::make_shared<const Moment>(*this, stream);
  from.memory.was_read(moment);
  to.memory.was_written(moment);
}

Devices find_devices() {
  Devices found;
  const Driver* const cu = find_driver(found.left_out);
  if (cu == nullptr) return found;
  int count = 0;
  if (const Status status = cu->cuDeviceGetCount(&count); status != kSuccess) {
    found.left_out = "no devices: " + status_name(status);
    return found;
  }
  if (count == 0) found.left_out = "no NVIDIA GPU on this machine";
  for (int i = 0; i < count; ++i) try {
      found.usable.push_back(std::make_unique<Device>(i));
    } catch (const Error& error) {
      found.left_out += (found.left_out.empty() ? "" : "; ") + std::string(error.what());
    }
  return found;
}

const Devices& all_devices() {
  static const Devices& all = lasting<Devices>(find_devices());
  return all;
}

const Device& device_of(int ordinal) {
  const Devices& all = all_devices();
  for (const auto& device : all.usable)
    if (device->ordinal() == ordinal) return *device;
  std::string there;
  for (const auto& device : all.usable)
    there += fmt::format("{}cuda:{} ({})", there.empty() ? "" : ", ", device->ordinal(), device->name());
  throw Error(ErrorKind::kNotFound, fmt::format("cuda:{}", ordinal),
              all.left_out.empty() ? "there is no such device" : all.left_out, there);
}

}  // namespace systole::cuda
