// What oneDNN reads and writes, by guarded memory: a few seconds of it. onednn_bounds_slow_test.cpp goes on
// behind it.

#include <gtest/gtest.h>

#include <chrono>

#include "onednn_bounds.h"

namespace systole::cpu {
namespace {

TEST(OneDnnBounds, NothingBesideAnOperandIsTouchedAndSumsAreRight) {
  bounds::expect_right(1, std::chrono::seconds(4));
}

}  // namespace
}  // namespace systole::cpu
