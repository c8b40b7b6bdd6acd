#pragma once

// A line for a person whose training was asked to end and does not: a container engine kills it 10 s after
// SIGTERM, a scheduler after 30 s, and then what the last checkpoint has not is lost.

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "train/interrupt.h"

namespace systole::training {

class LateNotice {
 public:
  static constexpr std::chrono::milliseconds kPatience{9000};

  // Warns, in a thread of its own, with the text of `late`, which gets the seconds since the signal. Once.
  LateNotice(const InterruptScope& interrupt, std::function<std::string(double)> late,
             std::chrono::milliseconds patience = kPatience);
  ~LateNotice();  // nothing is late any more
  LateNotice(const LateNotice&) = delete;
  LateNotice& operator=(const LateNotice&) = delete;

 private:
  void watch();

  const InterruptScope& interrupt_;
  const std::function<std::string(double)> late_;
  const std::chrono::milliseconds patience_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool is_done_ = false;
  std::thread thread_;
};

}  // namespace systole::training
