#include "backend/cuda/memory.h"

#include <algorithm>

#include "backend/cuda/device.h"
#include "systole/base/error.h"

namespace systole::cuda {

Moment::Moment(const Device& device, Stream stream)
    : device_(device), stream_(stream), event_(device.take_event()) {
  check(driver().cuEventRecord(event_, stream), "cuEventRecord");
}

Moment::~Moment() { device_.give_event(event_); }

void Moment::make_wait(Stream other) const {
  if (other != stream_) check(driver().cuStreamWaitEvent(other, event_, 0), "cuStreamWaitEvent");
}

void Moment::wait() const { check(driver().cuEventSynchronize(event_), "cuEventSynchronize"); }

Memory::Memory(const Device& device, std::int64_t bytes, Type what, Stream stream)
    : device_(device), bytes_(bytes), what_(std::move(what)), home_(stream) {
  if (bytes > 0) address_ = device.allocate(*this, stream);
}

Memory::~Memory() {
  if (address_ == 0) return;
  // A context that is lost has lost its memory too.
  device_.activate();
  try {
    before_writing(home_);
  } catch (const Error&) {
  }
  device_.free(*this, home_);
}

void Memory::before_reading(Stream stream) const {
  const std::lock_guard lock(mutex_);
  if (written_) written_->make_wait(stream);
}

void Memory::before_writing(Stream stream) const {
  const std::lock_guard lock(mutex_);
  if (written_) written_->make_wait(stream);
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

}  // namespace systole::cuda
