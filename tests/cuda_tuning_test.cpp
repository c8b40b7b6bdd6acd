// Choosing by time: the fastest is taken, the first where it is as good or nothing may be measured, and an
// answer is remembered in the process and on disk. The clock is the test's own.

#include "backend/cuda/tuning.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/log.h"
#include "scratch_folder.h"
#include "systole/base/error.h"

namespace systole::cuda {
namespace {

class CudaTuning : public ScratchFolder {
 protected:
  void SetUp() override {
    ::setenv("SYSTOLE_CACHE_DIR", folder_.c_str(), 1);
    ::unsetenv("SYSTOLE_TUNE");
    ::unsetenv("SYSTOLE_CACHE");
  }
  void TearDown() override {
    ::unsetenv("SYSTOLE_CACHE_DIR");
    ::unsetenv("SYSTOLE_TUNE");
  }

  // A question that no other test asks.
  Question question(int count) const {
    return {.name = testing::UnitTest::GetInstance()->current_test_info()->name(),
            .details = "",
            .choice = "way",
            .count = count};
  }
  Measure clock(std::vector<double> seconds) {
    return [this, seconds](int choice, double) {
      measured_.push_back(choice);
      return seconds[static_cast<std::size_t>(choice)];
    };
  }

  std::vector<int> measured_;
};

TEST_F(CudaTuning, TheFastestIsTakenAndTold) {
  std::string told;
  set_log_sink([&](LogLevel, std::string_view line) { told += line; }, LogLevel::info);
  const Answer answer = tuned("card", question(3), clock({2e-3, 3e-3, 1e-3}));
  set_log_sink({});
  EXPECT_EQ(answer.choice, 2);
  EXPECT_EQ(answer.seconds, 1e-3);
  EXPECT_EQ(answer.first_seconds, 2e-3);
  EXPECT_EQ(measured_, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(told, "cuda: TheFastestIsTakenAndTold: way 2 of 3, 1 ms, first 2 ms");
}

TEST_F(CudaTuning, TheFirstStaysWhereAnotherIsHardlyBetter) {
  EXPECT_EQ(tuned("card", question(2), clock({1e-3, 0.99e-3})).choice, 0);
}

TEST_F(CudaTuning, OneAnswerServesTheProcess) {
  EXPECT_EQ(tuned("card", question(2), clock({2, 1})).choice, 1);
  ::setenv("SYSTOLE_CACHE", "0", 1);
  EXPECT_EQ(tuned("card", question(2), clock({1, 2})).choice, 1);
  EXPECT_EQ(measured_.size(), 2u);
  EXPECT_EQ(tuned("another card", question(2), clock({1, 2})).choice, 0);
  ::unsetenv("SYSTOLE_CACHE");
}

TEST_F(CudaTuning, AnswersOutliveTheProcess) {
  EXPECT_EXIT(std::_Exit(tuned("card", question(2), clock({2, 1})).choice == 1 ? 0 : 1),
              testing::ExitedWithCode(0), "");
  EXPECT_EQ(tuned("card", question(2), clock({1, 2})).choice, 1);
  EXPECT_EQ(measured_.size(), 0u);
}

TEST_F(CudaTuning, AnAnswerOnDiskThatMakesNoSenseIsNotUsed) {
  EXPECT_EXIT(std::_Exit(tuned("card", question(2), clock({2, 1})).choice == 1 ? 0 : 1),
              testing::ExitedWithCode(0), "");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_))
    if (entry.is_regular_file()) std::ofstream(entry.path(), std::ios::binary) << "7 what";
  EXPECT_EQ(tuned("card", question(2), clock({1, 2})).choice, 0);
  EXPECT_EQ(measured_.size(), 2u);
}

TEST_F(CudaTuning, NothingIsMeasuredWhereTheFirstIsWanted) {
  ::setenv("SYSTOLE_TUNE", "0", 1);
  EXPECT_EQ(tuned("card", question(2), clock({2, 1})).choice, 0);
  ::unsetenv("SYSTOLE_TUNE");
  Question same = question(2);
  same.is_measured = false;
  EXPECT_EQ(tuned("card", same, clock({2, 1})).choice, 0);
  EXPECT_EQ(tuned("card", question(1), clock({2})).choice, 0);
  EXPECT_TRUE(measured_.empty());
}

TEST_F(CudaTuning, AWayThatFailsIsNotTaken) {
  const Answer answer = tuned("card", question(3), [](int choice, double) -> double {
    if (choice == 0) throw Error(ErrorKind::kInternal, "library", "not today");
    return choice == 1 ? 1.0 : std::numeric_limits<double>::infinity();
  });
  EXPECT_EQ(answer.choice, 1);
  EXPECT_EQ(answer.first_seconds, 0);
}

TEST_F(CudaTuning, WithoutMemoryForATrialTheFirstIsTakenThisTime) {
  const Measure full = [](int, double) -> double { throw Error(ErrorKind::kOutOfMemory, "cuda:0", "full"); };
  EXPECT_EQ(tuned("card", question(2), full).choice, 0);
  EXPECT_EQ(tuned("card", question(2), clock({2, 1})).choice, 1);
}

TEST_F(CudaTuning, ALostDeviceIsNoAnswer) {
  const Measure lost = [](int, double) -> double { throw Error(ErrorKind::kContextLost, "cuda:0", "gone"); };
  EXPECT_THROW(tuned("card", question(2), lost), Error);
}

TEST_F(CudaTuning, WhatTakesTooLongEndsTheTrials) {
  Question short_one = question(3);
  short_one.most_seconds = 0;
  EXPECT_EQ(tuned("card", short_one, clock({3e-12, 2e-12, 1e-12})).choice, 0);
  EXPECT_EQ(measured_.size(), 1u);
}

TEST_F(CudaTuning, TheBestSoFarIsToldToTheClock) {
  std::vector<double> best;
  tuned("card", question(3), [&](int choice, double so_far) {
    best.push_back(so_far);
    return 3.0 - choice;
  });
  EXPECT_EQ(best, (std::vector<double>{std::numeric_limits<double>::infinity(), 3, 2}));
}

TEST_F(CudaTuning, ADeviceMeasuresWhatItRuns) {
  if (all_devices().usable.empty()) GTEST_SKIP() << all_devices().left_out;
  const Device& device = *all_devices().usable[0];
  static constexpr std::int64_t kMiB = 1 << 20;
  const Answer answer = best_of(device, question(2), [&](Stream stream) -> Trial {
    const std::vector<std::int64_t> sizes{256 * kMiB};
    auto scratch = std::make_shared<const Scratch>(device, stream, sizes);
    return [scratch](int choice, Stream on) {
      check(driver().cuMemsetD8Async(scratch->addresses()[0], 0,
                                     static_cast<std::size_t>(choice == 0 ? 256 * kMiB : kMiB), on),
            "cuMemsetD8Async");
    };
  });
  EXPECT_EQ(answer.choice, 1);
  EXPECT_LT(answer.seconds, answer.first_seconds);
  EXPECT_GT(copy_seconds(device, 1 << 30), copy_seconds(device, 1 << 20));
}

}  // namespace
}  // namespace systole::cuda
