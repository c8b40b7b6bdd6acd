#include "base/parallel.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/crowd.h"
#include "base/env.h"
#include "base/lasting.h"
#include "base/log.h"
#include "base/processors.h"
#include "base/team.h"

#ifdef _OPENMP
#include <omp.h>
#endif

namespace systole {

namespace {

thread_local bool inside = false;  // a part of a call runs on this thread

// items·i/n without overflow for any count of items.
std::int64_t bound(std::int64_t items, std::int64_t i, std::int64_t n) {
  return items / n * i + items % n * i / n;
}

void run_part(std::int64_t items, std::int64_t i, std::int64_t n, ParallelRun run, const void* context) {
  const bool nested = inside;
  inside = true;
  run(context, bound(items, i, n), bound(items, i + 1, n));
  inside = nested;
}

// By threads of its own. Those that the system refuses leave their parts to the caller.
void run_threads(std::int64_t items, std::int64_t parts, ParallelRun run, const void* context) {
  std::vector<std::thread> others;
  others.reserve(static_cast<std::size_t>(parts));
  std::int64_t next = 1;
  try {
    for (; next < parts; ++next)
      others.emplace_back([=, i = next] { run_part(items, i, parts, run, context); });
  } catch (const std::system_error&) {
  }
  run_part(items, 0, parts, run, context);
  for (; next < parts; ++next) run_part(items, next, parts, run, context);
  for (std::thread& other : others) other.join();
}

// By the team, which is quicker than OpenMP's pool. Not with more threads than processors: a thread that
// watches for work would keep another from doing it.
bool run_team(std::int64_t items, std::int64_t parts, ParallelRun run, const void* context) {
  static const bool fits = thread_count() <= available_processors();
  if (!fits || parts > thread_count()) return false;
  const auto part = [](const team::Work& work, std::int64_t i) {
    run_part(work.items, i, work.parts, work.run, work.context);
  };
  return team::run({part, parts, items, run, context}, thread_count());
}

#ifdef _OPENMP
std::atomic<bool> pool_is_lost{false};

// The pool's threads watch for work too, for some milliseconds after a library had them: so long the team
// would stand in their way, and they in its.
std::atomic<std::int64_t> last_lent{0};  // nanoseconds; 0: never

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Whether the user says how the pool's threads wait.
bool is_told() {
  static const bool is_set =
      std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr;
  return is_set;
}

bool pool_may_watch() {
  constexpr std::int64_t kWatches = 20'000'000;
  const std::int64_t lent = last_lent.load(std::memory_order_relaxed);
  return lent != 0 && (is_told() || now() - lent < kWatches);
}

// How long the pool's threads watch is settled before main begins, with one exception: while libgomp has more
// threads than there are processors, they look 100 times and not 300,000. So on a crowded machine a pool of
// its own, whose threads all sleep, holds their number up. Where the system does not give so many, libraries
// have one thread until it is over.
class Sleepers {
 public:
  void set(bool are_wanted) {
    bool is_refused = false;
    {
      const std::lock_guard lock(mutex_);
      const bool are_there = turn_.load() % 2 == 1;
      if (are_wanted == are_there || is_told()) return;
      const std::uint32_t turn = ++turn_;
      turn_.notify_all();  // those that are there end
      lends_one_ = false;
      if (!are_wanted) return;
      try {
        std::thread([this, turn] { sleep(turn); }).detach();
      } catch (const std::exception&) {
        lends_one_ = is_refused = true;
      }
    }
    if (is_refused) warn();
  }
  bool lends_one() const { return lends_one_.load(std::memory_order_relaxed); }

 private:
  void sleep(std::uint32_t turn) {
    const int threads = omp_get_num_procs() + 1;
    // Twice as many, since others may start threads too before the pool does.
    if (!can_start(2 * threads)) {
      {
        const std::lock_guard lock(mutex_);
        if (turn_.load() != turn) return;
        lends_one_ = true;
      }
      return warn();
    }
#pragma omp parallel num_threads(threads)
    turn_.wait(turn);
  }

  static void warn() {
    log(LogLevel::warn,
        "the system refuses more threads: while others want the processors, oneDNN has one thread only; "
        "raise the limit (ulimit -u, or pids.max of the control group), or set OMP_WAIT_POLICY=passive");
  }

  // libgomp ends the process when it is refused a thread: a limit is met by threads of ours before.
  static bool can_start(int count) {
    std::vector<std::thread> threads;
    std::atomic<bool> is_over{false};
    bool can = true;
    try {
      threads.reserve(static_cast<std::size_t>(count));
      for (int i = 0; i < count; ++i) threads.emplace_back([&] { is_over.wait(false); });
    } catch (const std::exception&) {
      can = false;
    }
    is_over = true;
    is_over.notify_all();
    for (std::thread& thread : threads) thread.join();
    return can;
  }

  std::mutex mutex_;
  std::atomic<std::uint32_t> turn_{0};  // odd: they are wanted
  std::atomic<bool> lends_one_{false};
};

Sleepers& sleepers() {
  static Sleepers& only = lasting<Sleepers>();
  return only;
}

// From the first use on: before it there is no pool to lose.
void watch_forks() {
  static const bool watched = [] {
    ::pthread_atfork(nullptr, nullptr, [] { pool_is_lost.store(true, std::memory_order_relaxed); });
    return true;
  }();
  static_cast<void>(watched);
}

void run_pool(std::int64_t items, std::int64_t parts, ParallelRun run, const void* context) {
  watch_forks();
#pragma omp parallel num_threads(static_cast<int>(parts))
  run_part(items, omp_get_thread_num(), omp_get_num_threads(), run, context);
}
#endif

// Now and then, for who is about to wake threads; of short calls not even the clock is read each time.
void look_at_the_crowd(unsigned calls_between) {
  static thread_local unsigned calls = 0;
  if (calls++ % calls_between != 0) return;
  static std::atomic<bool> was{false};
  const bool is = crowd::is_here();
  if (was.load(std::memory_order_relaxed) != is && was.exchange(is) != is) set_crowded(is);
}

}  // namespace

void set_crowded(bool is_crowded) {
  team::set_shy(is_crowded);
#ifdef _OPENMP
  if (!pool_is_lost.load(std::memory_order_relaxed)) {
    watch_forks();
    sleepers().set(is_crowded);
  }
#endif
}

int thread_count() {
  static const int count = [] {
    const std::uint64_t asked = env::whole_number("SYSTOLE_THREADS").value_or(0);
    return asked == 0 ? available_processors() : static_cast<int>(asked);
  }();
  return count;
}

bool lend_pool(int threads) {
#ifdef _OPENMP
  const bool alone = inside || omp_in_parallel() != 0 || pool_is_lost.load(std::memory_order_relaxed);
  int lent = alone ? 1 : std::clamp(threads, 1, thread_count());
  if (lent > 1) {
    watch_forks();
    look_at_the_crowd(1);
    if (sleepers().lends_one()) lent = 1;
  }
  if (lent > 1) {
    if (!pool_may_watch()) team::dismiss();
    last_lent.store(now(), std::memory_order_relaxed);
  }
  if (omp_get_max_threads() != lent) omp_set_num_threads(lent);
  return true;
#else
  static_cast<void>(threads);
  return false;
#endif
}

void parallel_for(std::int64_t items, int threads, ParallelRun run, const void* context) {
  if (items <= 0) return;
  static std::atomic<int> callers{0};
  struct Caller {
    const int now = callers.fetch_add(1, std::memory_order_relaxed) + 1;
    ~Caller() { callers.fetch_sub(1, std::memory_order_relaxed); }
  };
  const Caller caller;
  const int share = caller.now == 1 ? threads : std::min(threads, std::max(1, thread_count() / caller.now));
  const std::int64_t parts = std::min<std::int64_t>(items, share);
#ifdef _OPENMP
  if (parts <= 1 || inside || omp_in_parallel() != 0) return run_part(items, 0, 1, run, context);
  look_at_the_crowd(16);
  if (!pool_may_watch() && run_team(items, parts, run, context)) return;
  if (!pool_is_lost.load(std::memory_order_relaxed)) return run_pool(items, parts, run, context);
#else
  if (parts <= 1 || inside) return run_part(items, 0, 1, run, context);
  look_at_the_crowd(16);
  if (run_team(items, parts, run, context)) return;
#endif
  run_threads(items, parts, run, context);
}

}  // namespace systole
