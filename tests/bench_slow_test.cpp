// First losses of the workloads that take the reference backend long.

#include <gtest/gtest.h>

#ifdef SYSTOLE_COMMAND

#include "bench_losses.h"

namespace systole::cli::bench {
namespace {

using BenchSlowLosses = BenchLosses;
INSTANTIATE_TEST_SUITE_P(On, BenchSlowLosses, testing::Values("reference"), device_suffix);

TEST_P(BenchSlowLosses, T3AgreesWithThePeers) { expect_losses("T3", 128, kOneStep, kT3Losses); }
TEST_P(BenchSlowLosses, T5AgreesWithThePeers) { expect_losses("T5", 32, kOneStep, kT5Losses); }
TEST_P(BenchSlowLosses, T6AgreesWithThePeers) { expect_losses("T6", 4, kOneStep, kT6Losses); }

}  // namespace
}  // namespace systole::cli::bench

#endif
