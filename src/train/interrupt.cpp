#include "train/interrupt.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <mutex>

namespace systole::training {

namespace {

constexpr std::array kSignals{SIGINT, SIGTERM};

std::mutex handlers;  // of what follows: trainings at the same time share the handlers, and all end
int scopes = 0;
std::array<struct sigaction, kSignals.size()> previous;

std::atomic<int> first = 0;  // the signal that asked
static_assert(std::atomic<int>::is_always_lock_free);

void note(int signal) {
  int none = 0;
  if (first.compare_exchange_strong(none, signal)) return;
  // The person, or the scheduler, does not want to wait.
  std::signal(signal, SIG_DFL);
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, signal);
  ::pthread_sigmask(SIG_UNBLOCK, &mask, nullptr);
  std::raise(signal);
  ::_exit(128 + signal);  // the first process of a container does not die of a signal's default action
}

}  // namespace

InterruptScope::InterruptScope(bool enabled) : enabled_(enabled) {
  if (!enabled_) return;
  const std::lock_guard lock(handlers);
  if (scopes++ > 0) return;
  first = 0;
  struct sigaction action = {};
  action.sa_handler = note;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &previous[i]);
}

InterruptScope::~InterruptScope() {
  if (!enabled_) return;
  const std::lock_guard lock(handlers);
  if (--scopes > 0) return;
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &previous[i], nullptr);
}

int InterruptScope::signal() const { return enabled_ ? first.load() : 0; }

}  // namespace systole::training
