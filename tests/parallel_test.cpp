// parallel_for: every index once, whatever the numbers of items and threads; nested, from many threads at
// once, and in the child of a fork.

#include "base/parallel.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <thread>
#include <vector>

#include "sanitized.h"

namespace systole {
namespace {

struct Visits {
  explicit Visits(std::int64_t items) : counts(static_cast<std::size_t>(items)) {}
  mutable std::vector<std::atomic<int>> counts;
  mutable std::atomic<int> calls{0}, wrong{0};

  static void visit(const void* context, std::int64_t begin, std::int64_t end) {
    const auto& visits = *static_cast<const Visits*>(context);
    ++visits.calls;
    if (begin >= end) ++visits.wrong;
    for (std::int64_t i = begin; i < end; ++i) ++visits.counts[static_cast<std::size_t>(i)];
  }
  bool each_once() const {
    for (const std::atomic<int>& count : counts)
      if (count != 1) return false;
    return wrong == 0;
  }
};

TEST(Parallel, EveryIndexIsVisitedOnceForAnyNumberOfItemsAndThreads) {
  for (const std::int64_t items : {1, 2, 3, 7, 8, 63, 1000})
    for (const int threads : {-1, 0, 1, 2, 3, 5, 16}) {
      const Visits visits(items);
      parallel_for(items, threads, Visits::visit, &visits);
      EXPECT_TRUE(visits.each_once()) << items << " items, " << threads << " threads";
      EXPECT_LE(visits.calls, std::max(threads, 1)) << items << " items, " << threads << " threads";
    }
}

TEST(Parallel, CallersAtOneTimeShareTheThreads) {
  struct Other {
    mutable std::atomic<int> calls{0};
    static void count(const void* context, std::int64_t, std::int64_t) {
      ++static_cast<const Other*>(context)->calls;
    }
    static void call(const void* context, std::int64_t, std::int64_t) {  // from a thread of its own
      std::thread([&] { parallel_for(1000, thread_count(), count, context); }).join();
    }
  } const other;
  parallel_for(1, 1, Other::call, &other);
  EXPECT_LE(other.calls, std::max(1, thread_count() / 2));
}

TEST(Parallel, NoItemsMakeNoCall) {
  const Visits visits(0);
  parallel_for(0, 4, Visits::visit, &visits);
  parallel_for(-5, 4, Visits::visit, &visits);
  EXPECT_EQ(visits.calls, 0);
}

TEST(Parallel, TheLargestCountIsSplitWithoutOverflow) {
  struct Sum {
    mutable std::atomic<std::int64_t> covered{0};
  } sum;
  constexpr std::int64_t kItems = std::numeric_limits<std::int64_t>::max();
  parallel_for(
      kItems, 3,
      [](const void* context, std::int64_t begin, std::int64_t end) {
        static_cast<const Sum*>(context)->covered += end - begin;
      },
      &sum);
  EXPECT_EQ(sum.covered, kItems);
}

TEST(Parallel, SeveralThreadsTakePartAtTheSameTime) {
  // Each part waits for the other: on one thread this would never end.
  struct Meeting {
    mutable std::atomic<int> here{0};
  } meeting;
  parallel_for(
      2, 2,
      [](const void* context, std::int64_t begin, std::int64_t end) {
        ASSERT_EQ(end - begin, 1);
        const auto& meet = *static_cast<const Meeting*>(context);
        ++meet.here;
        while (meet.here < 2) std::this_thread::yield();
      },
      &meeting);
  EXPECT_EQ(meeting.here, 2);
}

TEST(Parallel, ACallInsideACallRunsOnTheCallersThread) {
  struct Inner {
    Visits visits{100};
    mutable std::atomic<int> elsewhere{0};
    std::thread::id thread;
  };
  static std::vector<Inner> inner(4);
  parallel_for(
      4, 4,
      [](const void*, std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          Inner& mine = inner[static_cast<std::size_t>(i)];
          mine.thread = std::this_thread::get_id();
          parallel_for(
              100, 4,
              [](const void* context, std::int64_t from, std::int64_t to) {
                const auto& own = *static_cast<const Inner*>(context);
                if (std::this_thread::get_id() != own.thread) ++own.elsewhere;
                Visits::visit(&own.visits, from, to);
              },
              &mine);
        }
      },
      nullptr);
  for (const Inner& each : inner) {
    EXPECT_TRUE(each.visits.each_once());
    EXPECT_EQ(each.visits.calls, 1);
    EXPECT_EQ(each.elsewhere, 0);
  }
}

TEST(Parallel, ThreadsCallAtTheSameTime) {
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    callers.emplace_back([&] {
      for (int n = 0; n < 50; ++n) {
        const Visits visits(37);
        parallel_for(37, 3, Visits::visit, &visits);
        if (!visits.each_once()) ++wrong;
      }
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Parallel, ShortCallsFollowEachOtherAndPauses) {
  for (const int pause_ms : {0, 5, 0})
    for (int n = 0; n < (pause_ms > 0 ? 10 : 2000); ++n) {
      const Visits visits(7);
      parallel_for(7, 2 + n % 2, Visits::visit, &visits);
      ASSERT_TRUE(visits.each_once()) << n;
      std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));  // the others go to sleep
    }
}

TEST(Parallel, WorksInTheChildOfAForkThatHadThreads) {
  if (kThreadSanitized) GTEST_SKIP() << "the sanitizer lets no child of a process with threads have its own";
  const Visits before(10);
  parallel_for(10, 3, Visits::visit, &before);
  ASSERT_TRUE(before.each_once());
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(20);  // a pool whose threads are gone would be waited for
    const Visits visits(1000);
    for (int n = 0; n < 3; ++n) parallel_for(1000, 3, Visits::visit, &visits);
    bool thrice = true;
    for (const std::atomic<int>& count : visits.counts) thrice &= count == 3;
    ::_exit(thrice ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
  const Visits after(10);  // the parent's pool is as it was
  parallel_for(10, 3, Visits::visit, &after);
  EXPECT_TRUE(after.each_once());
}

}  // namespace
}  // namespace systole
