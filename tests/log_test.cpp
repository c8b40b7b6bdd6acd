// Where the lines of the log go: standard error by default, as SYSTOLE_LOG asks, or a program's own sink. The
// level is read once in a process, so each value of SYSTOLE_LOG has a process of its own.

#include "base/log.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "child_check.h"
#include "systole/systole.h"

namespace systole {
namespace {

template <class Work>
std::string stderr_of(const Work& work) {
  testing::internal::CaptureStderr();
  work();
  return testing::internal::GetCapturedStderr();
}

std::string all_levels() {
  return stderr_of([] {
    log(LogLevel::debug, "d");
    log(LogLevel::info, "i");
    log(LogLevel::warn, "w");
  });
}

bool passes_with(const char* level, const std::string& test) {
  level == nullptr ? ::unsetenv("SYSTOLE_LOG") : ::setenv("SYSTOLE_LOG", level, 1);
  const bool passes = passes_in_a_child("Log.DISABLED_" + test);
  ::unsetenv("SYSTOLE_LOG");
  return passes;
}

TEST(Log, DISABLED_WarningsAreShown) {
  EXPECT_TRUE(log_enabled(LogLevel::warn));
  EXPECT_FALSE(log_enabled(LogLevel::info));
  EXPECT_EQ(all_levels(), "systole: warning: w\n");
}
TEST(Log, AProgramShowsWarningsWhenNobodyAsked) {
  EXPECT_TRUE(passes_with(nullptr, "WarningsAreShown"));
  EXPECT_TRUE(passes_with("", "WarningsAreShown"));
  EXPECT_TRUE(passes_with("warn", "WarningsAreShown"));
}

TEST(Log, DISABLED_NothingIsShown) {
  EXPECT_FALSE(log_enabled(LogLevel::warn));
  EXPECT_EQ(all_levels(), "");
}
TEST(Log, OffSilencesWarnings) { EXPECT_TRUE(passes_with("off", "NothingIsShown")); }

TEST(Log, DISABLED_AllIsShown) {
  EXPECT_EQ(all_levels(), "systole: debug: d\nsystole: info: i\nsystole: warning: w\n");
}
TEST(Log, DebugShowsAll) { EXPECT_TRUE(passes_with("debug", "AllIsShown")); }

TEST(Log, DISABLED_TheWrongLevelIsReported) {
  EXPECT_EQ(all_levels(),
            "systole: warning: SYSTOLE_LOG: expected debug, info, warn or off, got 'loud'; warn is used\n"
            "systole: warning: w\n");
}
TEST(Log, AWrongLevelIsReportedAndWarningsAreShown) {
  EXPECT_TRUE(passes_with("loud", "TheWrongLevelIsReported"));
}

TEST(Log, DISABLED_EachOnce) {
  EXPECT_EQ(stderr_of([] {
              for (int i = 0; i < 3; ++i) log(LogLevel::warn, "the disk is full");
              log(LogLevel::warn, "another");
            }),
            "systole: warning: the disk is full\nsystole: warning: another\n");
}
TEST(Log, AWarningIsShownOnce) { EXPECT_TRUE(passes_with(nullptr, "EachOnce")); }

TEST(Log, DISABLED_OneLine) {
  EXPECT_EQ(stderr_of([] {
              log(LogLevel::warn,
                  "a\nb\x1b[2J\x7f"
                  "ü");
            }),
            "systole: warning: a\\x0ab\\x1b[2J\\x7fü\n");
}
TEST(Log, WhatAFileBringsDoesNotDriveTheTerminal) { EXPECT_TRUE(passes_with(nullptr, "OneLine")); }

TEST(Log, DISABLED_TheSinkHasThem) {
  std::vector<std::string> lines;
  EXPECT_EQ(stderr_of([&] {
              set_log_sink([&](LogLevel, std::string_view line) { lines.emplace_back(line); },
                           LogLevel::warn);
              for (int i = 0; i < 2; ++i) log(LogLevel::warn, "w");
              log(LogLevel::info, "i");
              set_log_sink({});
            }),
            "");
  EXPECT_EQ(lines, (std::vector<std::string>{"w", "w"}));
  EXPECT_EQ(stderr_of([] { log(LogLevel::warn, "w"); }), "systole: warning: w\n");
}
TEST(Log, ASinkTakesTheWarningsFromStandardError) { EXPECT_TRUE(passes_with(nullptr, "TheSinkHasThem")); }

}  // namespace
}  // namespace systole
