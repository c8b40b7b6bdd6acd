#pragma once

// What fit shows: on a terminal a bar that is drawn over itself while an epoch runs, elsewhere a plain line
// per epoch. Nothing is written more than ten times a second.

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

#include "systole/train/callback.h"

namespace systole::training {

class Progress {
 public:
  // `verbose` as in FitOptions. `out` null: standard output.
  Progress(int verbose, std::ostream* out, std::int64_t epochs);

  void begin_epoch(std::int64_t epoch, std::int64_t steps, std::int64_t done = 0);
  void update(std::int64_t done, std::int64_t samples, const Logs& logs);  // samples of this epoch so far
  void end_epoch(const Logs& logs, std::int64_t samples);
  void say(std::string_view line);  // above the bar

 private:
  using Clock = std::chrono::steady_clock;
  void draw(std::int64_t samples, const Logs& logs);
  void clear();
  double seconds() const;

  int verbose_;
  std::ostream& out_;
  bool bar_ = false;
  int width_ = 80;
  std::int64_t epochs_, epoch_ = 0, steps_ = 0, done_ = 0, first_ = 0;
  Clock::time_point start_, drawn_;
  bool on_screen_ = false;
};

std::string duration_text(double seconds);  // "7.1 s", "3:05", "1:02:11"
std::string rate_text(double per_second);   // "331k/s"

}  // namespace systole::training
