// What oneDNN reads and writes, by guarded memory, in many more shapes than onednn_bounds_test.cpp.

#include <gtest/gtest.h>

#include <chrono>

#include "onednn_bounds.h"

namespace systole::cpu {
namespace {

TEST(OneDnnBoundsSlow, NothingBesideAnOperandIsTouchedAndSumsAreRight) {
  bounds::expect_right(1001, std::chrono::seconds(40));
}

}  // namespace
}  // namespace systole::cpu
