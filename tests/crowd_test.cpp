// When the processors count as wanted by others, and that work is done right while threads change how they
// wait.

#include "base/crowd.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <thread>

#include "base/parallel.h"

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
