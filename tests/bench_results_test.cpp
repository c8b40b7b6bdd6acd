// What the workloads that do not train compute first, on every device: means of magnitudes and squares
// against bench_results_test.py.

#include <gtest/gtest.h>

#ifdef SYSTOLE_COMMAND

#include "bench_results.h"

namespace systole::cli::bench {
namespace {

INSTANTIATE_TEST_SUITE_P(On, BenchResults, model_devices(), device_suffix);

TEST_P(BenchResults, MlpForwards) {
  expect_checksums("I1", 1, "fp32", {0.8980520238754156, 1.134184787142143});
  expect_checksums("I1", 64, "fp32", {1.170415916346448, 2.094685015420491});
}

TEST_P(BenchResults, MlpForwardsInHalfPrecision) {
  expect_checksums("I1", 64, "bf16", {1.1708784103393555, 2.0962041476159357}, 3e-4);
}

TEST_P(BenchResults, LstmForwards) {
  expect_checksums("I3", 1, "fp32", {0.06142769678797304, 0.006351132134070551});
}

TEST_P(BenchResults, Kernels) {
  expect_checksums("K1", 1000, "fp32", {1.191509934903006, 2.0957806776221415});
  expect_checksums("K2", 100, "fp32", {8.038104782403126, 102.01705620524697});
  expect_checksums("K3", 1000, "fp32", {0.47141980786692195, 0.4920685837962898});
  expect_checksums("K4", 100, "fp32", {0.01, 0.0001842426512729622});
  expect_checksums("K5", 100, "fp32", {0.8635416593524964, 0.9999898892393329});
}

TEST_P(BenchResults, KernelsInHalfPrecision) {
  expect_checksums("K1", 1000, "bf16", {1.1916181640625, 2.096001162528992});
  expect_checksums("K2", 100, "bf16", {8.038229316234588, 102.01230033167347}, 3e-4);
}

// ResNet-50 takes OpenCL on a processor long; there it is a slow test.
using BenchLargeResults = BenchResults;
INSTANTIATE_TEST_SUITE_P(On, BenchLargeResults, testing::Values("reference", "cpu", "pjrt:cpu"),
                         device_suffix);
TEST_P(BenchLargeResults, ResNetForwards) { expect_checksums("I2", 1, "fp32", kResNetChecksums); }

}  // namespace
}  // namespace systole::cli::bench

#endif
