// When the processors count as wanted by others, and that work is done right while threads change how they
// wait.

#include "base/crowd.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "base/log.h"
#include "base/parallel.h"
#include "child_check.h"
#include "sanitized.h"

namespace systole {
namespace {

// Else that says how threads wait, and nothing changes.
[[maybe_unused]] const int kNobodySaysHow = ::unsetenv("OMP_WAIT_POLICY");

constexpr std::int64_t kMs = 1'000'000;

// Looks every 10 ms from `begin` to before `end`, in ms, of each of which a part was waiting.
bool judged(crowd::Judge& judge, std::int64_t begin, std::int64_t end, double part) {
  bool is_crowded = judge.is_crowded();
  for (std::int64_t at = begin; at < end; at += 10)
    is_crowded = judge.judge(at * kMs, 10 * kMs, static_cast<std::int64_t>(part * 10 * kMs));
  return is_crowded;
}

TEST(Crowd, AFreeMachineIsNotCrowded) {
  crowd::Judge judge;
  EXPECT_FALSE(judge.is_crowded());
  EXPECT_FALSE(judged(judge, 10, 5000, 0.04));
}

TEST(Crowd, IsSeenAtOnceAndGoesAfterAQuietSecond) {
  crowd::Judge judge;
  EXPECT_FALSE(judged(judge, 10, 1000, 0));
  EXPECT_TRUE(judged(judge, 1000, 1010, 0.5));
  EXPECT_TRUE(judged(judge, 1010, 2000, 0));
  EXPECT_FALSE(judged(judge, 2000, 2010, 0));
}

// Threads that sleep wait less than those that watch: a little is enough for it to stay.
TEST(Crowd, ALittleWaitingKeepsIt) {
  crowd::Judge judge;
  EXPECT_TRUE(judged(judge, 10, 20, 0.5));
  EXPECT_TRUE(judged(judge, 20, 10'000, 0.02));
}

TEST(Crowd, StaysLongerWhenItComesAgain) {
  crowd::Judge judge;
  EXPECT_TRUE(judged(judge, 10, 20, 0.5));
  EXPECT_FALSE(judged(judge, 20, 1020, 0));
  EXPECT_TRUE(judged(judge, 1020, 1030, 0.5));  // right after it went
  EXPECT_TRUE(judged(judge, 1030, 3010, 0));
  EXPECT_FALSE(judged(judge, 3010, 3030, 0));
  EXPECT_FALSE(judged(judge, 3030, 60'000, 0));
  EXPECT_TRUE(judged(judge, 60'000, 60'010, 0.5));  // long after
  EXPECT_FALSE(judged(judge, 60'010, 61'010, 0));
}

TEST(Crowd, ReadsWhatTheKernelCounts) {
  EXPECT_EQ(crowd::waited_in("2317 30908728 12\n"), 30908728);
  for (const char* const text : {"", "12", "12 ", "12 x 3", " "})
    EXPECT_EQ(crowd::waited_in(text), std::nullopt) << text;
}

std::int64_t threads_of_this_process() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}
// Whether it comes to be, soon.
template <class Condition>
bool comes(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// More threads than processors are there, all asleep, so that libgomp's do not watch for long; then they end.
TEST(Crowd, APoolSleepsWhileItIsThere) {
  if (!lend_pool(1)) GTEST_SKIP() << "a build without OpenMP";
  set_crowded(false);
  cpu_set_t own;
  ASSERT_EQ(::sched_getaffinity(0, sizeof own, &own), 0);
  const std::int64_t processors = CPU_COUNT(&own), before = threads_of_this_process();
  for (int round = 0; round < 3; ++round) {
    set_crowded(true);
    EXPECT_TRUE(comes([&] { return threads_of_this_process() == before + processors + 1; }))
        << threads_of_this_process() << " of " << before << " + " << processors << " + 1";
    set_crowded(false);
    EXPECT_TRUE(comes([&] { return threads_of_this_process() == before; })) << threads_of_this_process();
  }
}

// In a process of its own, which has room for one more thread and then for no others.
TEST(Crowd, DISABLED_ALimitOfThreadsIsTold) {
  std::mutex mutex;
  std::string warning;
  set_log_sink(
      [&](LogLevel, std::string_view text) {
        const std::lock_guard lock(mutex);
        warning = text;
      },
      LogLevel::warn);
  constexpr rlim_t kStack = rlim_t{64} << 20;
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, kStack);
  ASSERT_EQ(::pthread_setattr_default_np(&attributes), 0);
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlimit limit{pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + kStack * 5 / 2, RLIM_INFINITY};
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
  set_crowded(true);
  EXPECT_TRUE(comes([&] {
    const std::lock_guard lock(mutex);
    return warning.find("oneDNN has one thread only") != std::string::npos;
  }));
  EXPECT_TRUE(lend_pool(thread_count()));
  set_crowded(false);
  set_log_sink({});
}
TEST(Crowd, ALimitOfThreadsIsTold) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer needs more addresses";
  if (!lend_pool(1)) GTEST_SKIP() << "a build without OpenMP";
  EXPECT_TRUE(passes_in_a_child("Crowd.DISABLED_ALimitOfThreadsIsTold"));
}

// Threads go to sleep and to watching while others call.
TEST(Crowd, WorkIsDoneWhileItComesAndGoes) {
  std::atomic<bool> is_over{false};
  std::thread changes([&] {
    for (int i = 0; i < 200; ++i) set_crowded(i % 2 == 0);
    is_over = true;
  });
  const ParallelRun add = [](const void* context, std::int64_t begin, std::int64_t end) {
    auto& sum = *static_cast<std::atomic<std::int64_t>*>(const_cast<void*>(context));
    for (std::int64_t i = begin; i < end; ++i) sum += i;
  };
  do {
    std::atomic<std::int64_t> sum{0};
    lend_pool(thread_count());
    parallel_for(100, thread_count(), add, &sum);
    ASSERT_EQ(sum, 4950);
  } while (!is_over);
  changes.join();
  set_crowded(false);
}

}  // namespace
}  // namespace systole
