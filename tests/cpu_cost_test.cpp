// Products and convolutions near the rules' thresholds are timed, once: the answer is told with its times and
// serves every later process. Where nothing may be timed the rules alone decide, and results are right
// whichever way was taken.

#include "backend/cpu/cost.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "backend/cpu/executor.h"
#include "backend/cpu/onednn.h"
#include "backend/cpu/target.h"
#include "backend/tuning.h"
#include "base/log.h"
#include "graph_arguments.h"
#include "sanitized.h"
#include "scratch_folder.h"
#include "systole/ops.h"
#include "systole/runtime.h"

namespace systole::cpu {
namespace {

class CpuCost : public ScratchFolder {
 protected:
  void SetUp() override {
    if (!onednn_absence().empty()) GTEST_SKIP() << onednn_absence();
    if (!makes_kernels()) GTEST_SKIP() << "no compiler for kernels";
    ::setenv("SYSTOLE_CACHE_DIR", folder_.c_str(), 1);
    ::unsetenv("SYSTOLE_TUNE");
  }
  void TearDown() override {
    ::unsetenv("SYSTOLE_CACHE_DIR");
    ::unsetenv("SYSTOLE_TUNE");
    set_log_sink({});
  }

  static ir::Graph product(std::int64_t rows, std::int64_t columns, std::int64_t depth) {
    ir::Graph graph("main");
    const ir::Value x = graph.input("x", {DType::f32, {rows, depth}}),
                    w = graph.input("w", {DType::f32, {depth, columns}});
    graph.output(ops::matmul(x, w), "y");
    return graph;
  }

  // What the compiler tells of the products: who was not taken, and why.
  static std::string told(const ir::Graph& graph) {
    std::string text;
    for (const lower::Refusal& refusal :
         lower::make_program(lower::prepared(graph, target()), target()).refusals)
      text += refusal.reason + "\n";
    return text;
  }

  static bool has_times(const std::string& text) { return text.find("µs") != std::string::npos; }

  static void expect_right(const ir::Graph& graph, std::int64_t rows, std::int64_t columns,
                           std::int64_t depth) {
    const std::vector<Literal> arguments = random_arguments(graph, 7, 1);
    const std::vector<double> x = arguments[0].to_doubles(), w = arguments[1].to_doubles(),
                              y = compile(graph, "cpu").run(arguments)[0].to_doubles();
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < columns; ++c) {
        double sum = 0;
        for (std::int64_t k = 0; k < depth; ++k)
          sum += x[static_cast<std::size_t>(r * depth + k)] * w[static_cast<std::size_t>(k * columns + c)];
        ASSERT_NEAR(y[static_cast<std::size_t>(r * columns + c)], sum,
                    4e-6 * std::sqrt(static_cast<double>(depth)) * 4);
      }
  }
};

TEST_F(CpuCost, AProductNearTheThresholdIsTimedAndTold) {
  std::string log;
  set_log_sink([&](LogLevel, std::string_view line) { log += std::string(line) + "\n"; }, LogLevel::info);
  const Measuring scope(true);
  const std::string text = told(product(31, 33, 40));  // 40,920 multiplications
  EXPECT_TRUE(has_times(text)) << text;
  EXPECT_NE(text.find("oneDNN on 1 thread"), std::string::npos) << text;
  EXPECT_NE(text.find("generated"), std::string::npos) << text;
  EXPECT_NE(log.find("cpu: product 31x33x40: "), std::string::npos) << log;
  EXPECT_EQ(told(product(31, 33, 40)), text);
}

TEST_F(CpuCost, WhatIsPlainIsNotTimed) {
  const Measuring scope(true);
  EXPECT_FALSE(has_times(told(product(8, 8, 8))));
  EXPECT_FALSE(has_times(told(product(512, 512, 512))));
}

TEST_F(CpuCost, TheRulesAloneDecideWhereNothingMayBeTimed) {
  const auto by_rules = [] {
    const std::string larger = told(product(29, 33, 40)), smaller = told(product(12, 33, 40));
    EXPECT_FALSE(has_times(larger + smaller)) << larger << smaller;
    EXPECT_EQ(smaller.find("oneDNN: small: 15840 multiplications"), 0u) << smaller;
  };
  {
    const Measuring scope(false);
    by_rules();
  }
  ::setenv("SYSTOLE_TUNE", "0", 1);
  by_rules();
}

TEST_F(CpuCost, AnotherProcessTakesTheAnswer) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's threads do not live in a fork";
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const Measuring scope(true);
    const std::string text = told(product(27, 33, 40));
    const bool is_written = ::write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
    ::_exit(is_written ? 0 : 1);
  }
  ::close(ends[1]);
  std::string theirs(4096, '\0');
  std::size_t size = 0;
  for (ssize_t got = 1; got > 0; size += static_cast<std::size_t>(got))
    got = std::max<ssize_t>(0, ::read(ends[0], theirs.data() + size, theirs.size() - size));
  theirs.resize(size);
  ::close(ends[0]);
  int status = 1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  const Measuring scope(true);
  EXPECT_TRUE(has_times(theirs)) << theirs;
  EXPECT_EQ(told(product(27, 33, 40)), theirs);
}

TEST_F(CpuCost, ResultsAreRightWhicheverWayIsTaken) {
  for (const std::int64_t rows : {2, 3, 16, 64}) {
    const ir::Graph graph = product(rows, 10, 128);
    expect_right(graph, rows, 10, 128);
  }
  {
    const Forced one(1);  // oneDNN where the rules would not
    expect_right(product(2, 12, 128), 2, 12, 128);
  }
}

TEST_F(CpuCost, ADeterministicProgramIsNotTimed) {
  std::string log;
  set_log_sink([&](LogLevel, std::string_view line) { log += std::string(line) + "\n"; }, LogLevel::info);
  compile(product(23, 33, 40), "cpu", {.deterministic = true});
  EXPECT_FALSE(has_times(log)) << log;
}

class Tuning : public ScratchFolder {
 protected:
  void SetUp() override {
    ::setenv("SYSTOLE_CACHE_DIR", folder_.c_str(), 1);
    ::unsetenv("SYSTOLE_TUNE");
    ::unsetenv("SYSTOLE_CACHE");
  }
  void TearDown() override { ::unsetenv("SYSTOLE_CACHE_DIR"); }
  static tuning::Question question() {
    return {.name = testing::UnitTest::GetInstance()->current_test_info()->name(), .count = 2};
  }
  const tuning::Device device_{"cpu", "a processor"};
};

TEST_F(Tuning, OfTwoProcessesThatAskTheFirstToWriteAnswersForBoth) {
  const tuning::Answer answer = tuning::tuned(device_, question(), [&](int choice, double) {
    // While this one measures, another comes to the other answer and writes it.
    if (choice == 1) {
      const pid_t child = ::fork();
      if (child == 0) {  // without the parent's locks: it settles what is asked
        tuning::settled(device_, question());
        ::_exit(0);
      }
      ::waitpid(child, nullptr, 0);
    }
    return choice == 0 ? 2.0 : 1.0;
  });
  EXPECT_EQ(answer.choice, 0);
  EXPECT_EQ(tuning::known_answer(device_, question())->choice, 0);
}

TEST_F(Tuning, WhatIsSettledIsNotMeasuredLater) {
  EXPECT_EQ(tuning::settled(device_, question()).choice, 0);
  bool is_measured = false;
  const auto measure = [&](int choice, double) {
    is_measured = true;
    return choice == 0 ? 2.0 : 1.0;
  };
  EXPECT_EQ(tuning::tuned(device_, question(), measure).choice, 0);
  EXPECT_FALSE(is_measured);
}

TEST_F(Tuning, ABusyDeviceSettlesTheFirst) {
  EXPECT_EQ(
      tuning::tuned(device_, question(), [](int choice, double) { return choice == 0 ? 2.0 : std::nan(""); })
          .choice,
      0);
  EXPECT_EQ(tuning::tuned(device_, question(), [](int choice, double) { return 2.0 - choice; }).choice, 0);
}

TEST_F(Tuning, TimesOfAllWaysAreKept) {
  const auto clock = [](int choice, double) { return 2.0 - choice; };
  EXPECT_EQ(tuning::tuned(device_, question(), clock).times, (std::vector<double>{2, 1}));
  EXPECT_EQ(tuning::known_answer(device_, question())->times, (std::vector<double>{2, 1}));
}

}  // namespace
}  // namespace systole::cpu
