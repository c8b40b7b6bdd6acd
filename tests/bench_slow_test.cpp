// First losses and results of the workloads that take the reference backend long.

#include <gtest/gtest.h>

#ifdef SYSTOLE_COMMAND

#include "bench_losses.h"
#include "bench_results.h"

namespace systole::cli::bench {
namespace {

using BenchSlowLosses = BenchLosses;
INSTANTIATE_TEST_SUITE_P(On, BenchSlowLosses, testing::Values("reference", "opencl:0"), device_suffix);

TEST_P(BenchSlowLosses, T3AgreesWithThePeers) { expect_losses("T3", 128, "fp32"); }
TEST_P(BenchSlowLosses, T5AgreesWithThePeers) { expect_losses("T5", 32, "fp32"); }
TEST_P(BenchSlowLosses, T6AgreesWithThePeers) { expect_losses("T6", 4, "fp32"); }

using BenchResNetLosses = BenchLosses;
INSTANTIATE_TEST_SUITE_P(On, BenchResNetLosses, testing::Values("cpu", "opencl:0"), device_suffix);
TEST_P(BenchResNetLosses, FirstOfT4AgreesWithThePeers) { expect_losses("T4", 8, "fp32"); }

using BenchSlowResults = BenchResults;
INSTANTIATE_TEST_SUITE_P(On, BenchSlowResults, testing::Values("opencl:0"), device_suffix);
TEST_P(BenchSlowResults, ResNetForwards) { expect_checksums("I2", 1, "fp32", kResNetChecksums); }

}  // namespace
}  // namespace systole::cli::bench

#endif
