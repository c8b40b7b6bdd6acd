#include "train/late_notice.h"

#include <optional>
#include <system_error>
#include <utility>

#include "base/log.h"

namespace systole::training {

LateNotice::LateNotice(const InterruptScope& interrupt, std::function<std::string(double)> late,
                       std::chrono::milliseconds patience)
    : interrupt_(interrupt), late_(std::move(late)), patience_(patience) {
  try {
    thread_ = std::thread([this] { watch(); });
  } catch (const std::system_error&) {  // no thread, no warning; the training goes on
  }
}

LateNotice::~LateNotice() {
  {
    const std::lock_guard lock(mutex_);
    is_done_ = true;
  }
  ended_.notify_all();
  if (thread_.joinable()) thread_.join();
}

// A signal's handler may not wake a thread by a condition, so this one looks now and then.
void LateNotice::watch() {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kLook{200};
  std::optional<Clock::time_point> asked;
  std::unique_lock lock(mutex_);
  while (!is_done_) {
    const auto now = Clock::now();
    if (!asked && interrupt_.requested()) asked = now;
    if (asked && now - *asked >= patience_) {
      lock.unlock();
      log(LogLevel::warn, late_(std::chrono::duration<double>(now - *asked).count()));
      return;
    }
    ended_.wait_until(lock, now + (asked ? std::min(kLook, patience_) : kLook));
  }
}

}  // namespace systole::training
