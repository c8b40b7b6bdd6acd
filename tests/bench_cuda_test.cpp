// First losses of the workloads in the sizes and precisions that they are measured in on a GPU.

#include <gtest/gtest.h>

#ifdef SYSTOLE_COMMAND

#include "bench_losses.h"

namespace systole::cli::bench {
namespace {

using BenchCudaLosses = BenchLosses;
INSTANTIATE_TEST_SUITE_P(On, BenchCudaLosses, testing::Values("cuda:0"), device_suffix);

TEST_P(BenchCudaLosses, T1AgreesWithThePeers) {
  expect_losses("T1", 64, "tf32");
  expect_losses("T1", 512, "tf32");
  expect_losses("T1", 64, "fp16");
}
TEST_P(BenchCudaLosses, T2AgreesWithThePeers) {
  expect_losses("T2", 64, "tf32");
  expect_losses("T2", 512, "bf16");
  expect_losses("T2", 64, "fp16");
}
TEST_P(BenchCudaLosses, T3AgreesWithThePeers) { expect_losses("T3", 128, "tf32"); }
TEST_P(BenchCudaLosses, T4AgreesWithThePeers) { expect_losses("T4", 256, "bf16"); }
TEST_P(BenchCudaLosses, T5AgreesWithThePeers) { expect_losses("T5", 64, "tf32"); }
TEST_P(BenchCudaLosses, T6AgreesWithThePeers) { expect_losses("T6", 16, "bf16"); }

}  // namespace
}  // namespace systole::cli::bench

#endif
