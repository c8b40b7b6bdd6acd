#pragma once

// While one lives, Ctrl-C (SIGINT) asks a training to end after its launch; a second one ends the process as
// it would otherwise. What was set before comes back at the end.

#include <csignal>

namespace systole::training {

class InterruptScope {
 public:
  explicit InterruptScope(bool enabled);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  bool requested() const;

 private:
  bool enabled_;
  struct sigaction previous_ = {};
};

}  // namespace systole::training
