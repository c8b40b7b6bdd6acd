#include "base/team.h"

#include <pthread.h>
#include <strings.h>

#include <atomic>
#include <cstdlib>
#include <deque>
#include <system_error>
#include <thread>

namespace systole::team {

namespace {

// Times that a thread looks before it sleeps, about half a millisecond, and before the caller lets others use
// the processor.
constexpr int kWatches = 20'000, kWaits = 4'000;

void rest() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

// What changes on one side lies on a line of its own, away from what the other side watches.
struct alignas(128) Worker {
  std::atomic<std::uint64_t> claimed{0};  // the last turn whose part of its number someone has begun
  alignas(128) std::atomic<std::uint64_t> done{0};

  // Whether the part of this turn is now the caller's of this function, who must do it.
  bool claim(std::uint64_t word) {
    std::uint64_t before = claimed.load(std::memory_order_acquire);
    return before != word && claimed.compare_exchange_strong(before, word, std::memory_order_acq_rel);
  }
};

std::atomic<bool> is_dismissed{false}, is_crowded{false};

class Team {
 public:
  explicit Team(int most) : watches_(is_shy() ? 0 : kWatches) {
    try {
      for (int i = 1; i < most; ++i) {
        Worker& worker = workers_.emplace_back();
        std::thread([this, &worker, i] { serve(worker, i); }).detach();
      }
    } catch (const std::system_error&) {  // the system refuses more
      workers_.pop_back();
    }
  }

  bool run(const Work& work) {
    const std::int64_t parts = work.parts;
    if (parts > static_cast<std::int64_t>(workers_.size()) + 1) return false;
    if (is_busy_.test_and_set(std::memory_order_acquire)) return false;
    work_ = work;
    if (is_dismissed.load(std::memory_order_relaxed)) is_dismissed.store(false, std::memory_order_relaxed);
    const std::uint64_t turn = (turn_.load(std::memory_order_relaxed) >> kCountBits) + 1;
    const std::uint64_t word = turn << kCountBits | static_cast<std::uint64_t>(parts);
    turn_.store(word);  // in order with what follows: a worker sees it, or is seen asleep
    if (asleep_.load() > 0) turn_.notify_all();
    work.part(work, 0);
    // A part that its thread has not begun by now, because the system gave the processor to others, is done
    // here: on a busy machine the thread may not come for milliseconds.
    for (std::int64_t i = 1; i < parts; ++i) {
      Worker& worker = workers_[static_cast<std::size_t>(i - 1)];
      worker.claim(word) ? work.part(work, i) : wait_for(worker, word);
    }
    is_busy_.clear(std::memory_order_release);
    return true;
  }

 private:
  static constexpr int kCountBits = 16;  // of the word: how many take part; above, the number of the turn

  static void wait_for(const Worker& worker, std::uint64_t word) {
    for (int looks = 0; worker.done.load(std::memory_order_acquire) != word; ++looks)
      looks < kWaits ? rest() : std::this_thread::yield();
  }

  [[noreturn]] void serve(Worker& worker, int number) {
    std::uint64_t seen = 0;
    for (;;) {
      seen = next(seen);
      // Who takes no part must not look at the rest, which may be the next turn's already.
      if (static_cast<std::uint64_t>(number) >= (seen & ((std::uint64_t{1} << kCountBits) - 1))) continue;
      // Nor who comes too late. Claimed, the turn does not end before the part is done.
      if (!worker.claim(seen)) continue;
      work_.part(work_, number);
      worker.done.store(seen, std::memory_order_release);
    }
  }

  std::uint64_t next(std::uint64_t seen) {
    for (int looks = 0; looks < watches_; ++looks) {
      if (const std::uint64_t now = turn_.load(std::memory_order_acquire); now != seen) return now;
      if (is_dismissed.load(std::memory_order_relaxed) || is_crowded.load(std::memory_order_relaxed)) break;
      rest();
    }
    ++asleep_;
    turn_.wait(seen);
    --asleep_;
    return turn_.load(std::memory_order_acquire);
  }

  // As OpenMP's threads are told to be on a machine that others use.
  static bool is_shy() {
    const char* const policy = std::getenv("OMP_WAIT_POLICY");
    return policy != nullptr && ::strcasecmp(policy, "passive") == 0;
  }

  const int watches_;
  std::deque<Worker> workers_;
  std::atomic_flag is_busy_;
  alignas(128) std::atomic<std::uint64_t> turn_{0};
  Work work_;
  alignas(128) std::atomic<int> asleep_{0};
};

std::atomic<bool> is_lost{false};  // with the threads, in the child of a fork

Team& only(int most) {
  static Team* const team = [&] {  // never destroyed: its threads run to the end of the process
    ::pthread_atfork(nullptr, nullptr, [] { is_lost.store(true, std::memory_order_relaxed); });
    return new Team(most);
  }();
  return *team;
}

}  // namespace

bool run(const Work& work, int most) {
  if (is_lost.load(std::memory_order_relaxed)) return false;
  return only(most).run(work);
}

void dismiss() { is_dismissed.store(true, std::memory_order_relaxed); }

void set_shy(bool is_shy) {
  if (is_crowded.load(std::memory_order_relaxed) != is_shy)
    is_crowded.store(is_shy, std::memory_order_relaxed);
}

}  // namespace systole::team
