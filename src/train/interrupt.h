#pragma once

// While one lives, Ctrl-C (SIGINT) and SIGTERM, which container engines and schedulers send, ask a training
// to end after its launch; a second one ends the process at once, as the first would have otherwise. What was
// set before comes back at the end.

#include <csignal>

namespace systole::training {

class InterruptScope {
 public:
  explicit InterruptScope(bool enabled);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  bool requested() const { return signal() != 0; }
  int signal() const;  // the one that asked; 0: none

 private:
  bool enabled_;
};

}  // namespace systole::training
