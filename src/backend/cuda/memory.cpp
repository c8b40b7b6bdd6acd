#include "backend/cuda/memory.h"

#include <algorithm>
#include <cstring>

#include "backend/cuda/device.h"
#include "backend/cuda/recorded_move.h"
#include "systole/base/error.h"

namespace systole::cuda {

Moment::Moment(const Device& device, Stream stream)
    : device_(device), stream_(stream), event_(device.take_event()) {
  try {
    check(driver().cuEventRecord(event_, stream), "cuEventRecord");
  } catch (...) {
    device.give_event(event_);
    device.settle(stream);
    throw;
  }
}

Moment::~Moment() { device_.give_event(event_); }

void Moment::make_wait(Stream other) const {
  if (other != stream_) check(driver().cuStreamWaitEvent(other, event_, 0), "cuStreamWaitEvent");
}

void Moment::wait() const { check(driver().cuEventSynchronize(event_), "cuEventSynchronize"); }

bool Moment::is_past() const {
  const Status status = driver().cuEventQuery(event_);
  if (status == kErrorNotReady) return false;
  check(status, "cuEventQuery");
  return true;
}

Memory::Memory(const Device& device, std::int64_t bytes, Type what, Stream stream, const char* role)
    : device_(device), bytes_(bytes), what_(std::move(what)), role_(role), home_(stream) {
  if (bytes > 0) address_ = device.allocate(*this, stream);
}

Memory::Memory(const Device& device, Address address, std::int64_t bytes, const char* role)
    : device_(device), bytes_(bytes), role_(role), home_(nullptr), address_(address) {}

Memory::~Memory() {
  if (address_ == 0 || home_ == nullptr) return;
  const Stream last = last_stream();
  if (device_.try_activate()) try {
      before_writing(last);
    } catch (const Error&) {  // what cannot be put in order is waited for
      device_.settle_all();
    }
  device_.free(*this, last);
}

Stream Memory::last_stream() const {
  const std::lock_guard lock(mutex_);
  const Moment* const last = read_.empty() ? written_.get() : read_.back().get();
  return last != nullptr && &last->device() == &device_ ? last->stream() : home_;
}

void Memory::wait_for_writer(Stream stream) const {
  if (!written_ || written_->stream() == stream) return;
  if (std::find(waited_.begin(), waited_.end(), stream) != waited_.end()) return;
  written_->make_wait(stream);
  waited_.push_back(stream);
}

void Memory::before_reading(Stream stream) const {
  const std::lock_guard lock(mutex_);
  wait_for_writer(stream);
}

void Memory::before_writing(Stream stream) const {
  const std::lock_guard lock(mutex_);
  wait_for_writer(stream);
  for (const MomentRef& moment : read_) moment->make_wait(stream);
}

void Memory::was_read(const MomentRef& moment) {
  const std::lock_guard lock(mutex_);
  for (MomentRef& known : read_)
    if (known->stream() == moment->stream()) {
      known = moment;
      return;
    }
  read_.push_back(moment);
}

void Memory::was_written(const MomentRef& moment) {
  const std::lock_guard lock(mutex_);
  written_ = moment;
  waited_.clear();
  read_.clear();
}

void Memory::wait_until_written() const {
  MomentRef moment;
  {
    const std::lock_guard lock(mutex_);
    moment = written_;
  }
  if (moment) moment->wait();
}

std::vector<MomentRef> Memory::moments() const {
  const std::lock_guard lock(mutex_);
  std::vector<MomentRef> all = read_;
  if (written_) all.push_back(written_);
  return all;
}

void Memory::wait_until_unused() const {
  for (const MomentRef& moment : moments()) moment->wait();
}

bool Memory::is_unused() const {
  const std::vector<MomentRef> all = moments();
  return std::all_of(all.begin(), all.end(), [](const MomentRef& moment) { return moment->is_past(); });
}

void fill(const MemoryPart& to, std::span<const std::byte> element, Stream stream) {
  if (to.bytes == 0) return;
  const Driver& cu = driver();
  const std::size_t count = to.bytes / element.size();
  const auto value = [&]<class T>(T bits, std::size_t at = 0) {
    std::memcpy(&bits, element.data() + at, sizeof bits);
    return bits;
  };
  to.memory.before_writing(stream);
  const RecordedMove move(to.memory.device(), "memset", to.bytes, stream);
  switch (element.size()) {
    case 1:
      check(cu.cuMemsetD8Async(to.address(), value(std::uint8_t{}), count, stream), "cuMemsetD8Async");
      break;
    case 2:
      check(cu.cuMemsetD16Async(to.address(), value(std::uint16_t{}), count, stream), "cuMemsetD16Async");
      break;
    case 4:
      check(cu.cuMemsetD32Async(to.address(), value(std::uint32_t{}), count, stream), "cuMemsetD32Async");
      break;
    default:
      if (const auto low = value(std::uint32_t{}); low == value(std::uint32_t{}, 4)) {
        check(cu.cuMemsetD32Async(to.address(), low, 2 * count, stream), "cuMemsetD32Async");
        break;
      }
      // The halves of each, as columns of a table.
      for (std::size_t half = 0; half < 8; half += 4) {
        const Status status =
            cu.cuMemsetD2D32Async(to.address() + half, 8, value(std::uint32_t{}, half), 1, count, stream);
        if (status != kSuccess) to.memory.device().settle(stream);  // the other half is on its way
        check(status, "cuMemsetD2D32Async");
      }
  }
  to.memory.was_written(std::make_shared<const Moment>(to.memory.device(), stream));
}

}  // namespace systole::cuda
