// First losses of the workloads that take the reference backend long.

#include <gtest/gtest.h>

#ifdef SYSTOLE_COMMAND

#include "bench_losses.h"

namespace systole::cli::bench {
namespace {

TEST(BenchSlowLosses, T3AgreesWithThePeers) {
  expect_losses("T3", 128, kOneStep, {7.8104, 10.6075, 10.9031});
}

TEST(BenchSlowLosses, T5AgreesWithThePeers) { expect_losses("T5", 32, kOneStep, {2.3081, 2.2647, 2.2218}); }

TEST(BenchSlowLosses, T6AgreesWithThePeers) { expect_losses("T6", 4, kOneStep, {10.8780, 10.4907, 10.1510}); }

}  // namespace
}  // namespace systole::cli::bench

#endif
