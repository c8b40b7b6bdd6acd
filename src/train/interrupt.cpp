#include "train/interrupt.h"

#include <atomic>

namespace systole::training {

namespace {

std::atomic<int> scopes = 0;  // trainings at the same time share the handler, and all end
volatile std::sig_atomic_t interrupts = 0;

void note(int) {
  interrupts = interrupts + 1;
  if (interrupts > 1) {  // the person does not want to wait
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
}

}  // namespace

InterruptScope::InterruptScope(bool enabled) : enabled_(enabled) {
  if (!enabled_ || scopes++ > 0) return;
  interrupts = 0;
  struct sigaction action = {};
  action.sa_handler = note;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &previous_);
}

InterruptScope::~InterruptScope() {
  if (enabled_ && --scopes == 0) sigaction(SIGINT, &previous_, nullptr);
}

bool InterruptScope::requested() const { return enabled_ && interrupts > 0; }

}  // namespace systole::training
