// systole bench --roofline. What follows from measured figures is checked by hand calculation; the figures
// themselves can only be asked to be there.

#include <gtest/gtest.h>

#ifdef SYSTOLE_COMMAND

#include <string>
#include <vector>

#include "base/last_cache.h"
#include "bench_command.h"
#include "cli/bench/kernels.h"
#include "cli/bench/roofline.h"
#include "cli/bench/workloads.h"
#include "model_devices.h"

namespace systole::cli::bench {
namespace {

std::vector<Workload> kernels() {
  std::vector<Workload> chosen;
  for (const Workload& work : workloads(false))
    if (work.kind == Workload::Kind::kernel) chosen.push_back(work);
  return chosen;
}

// 20 GB/s and 0.1 TFLOP/s meet at 5 operations per byte.
Roofline simple_roof() {
  Roofline roof;
  roof.dtype = "fp32";
  roof.copies = {{1 << 24, 18, 9}, {1 << 25, 20, 10}, {1 << 26, 19, 11}};
  roof.products = {{512, 0.1}, {1024, 0.08}};
  return roof;
}

TEST(BenchRoofline, TheBestOfEachMakesTheRoof) {
  const Roofline roof = simple_roof();
  EXPECT_EQ(roof.gb_s(), 20);
  EXPECT_EQ(roof.tflop_s(), 0.1);
  EXPECT_NEAR(roof.ridge(), 5, 1e-12);
  Roofline other = roof;
  other.copies[2].fresh_gb_s = 25;
  EXPECT_EQ(other.gb_s(), 25);
}

TEST(BenchRoofline, WorkIsBoundByMemoryBelowTheRidgeAndByArithmeticAbove) {
  const Roofline roof = simple_roof();
  const Cost light{40e9, 10e9}, heavy{1e9, 1e12};
  EXPECT_TRUE(roof.memory_bound(light));
  EXPECT_FALSE(roof.memory_bound(heavy));
  EXPECT_NEAR(roof.least_seconds(light), 2, 1e-12);
  EXPECT_NEAR(roof.least_seconds(heavy), 10, 1e-12);
  EXPECT_NEAR(roof.share({{}, light, 4}), 0.5, 1e-12);
  EXPECT_NEAR(roof.share({{}, heavy, 40}), 0.25, 1e-12);
}

TEST(BenchRoofline, CostsAreThoseOfTheFormulas) {
  const double million = 67108864;  // elements of a vector and of a matrix
  for (const Workload& work : kernels()) {
    const Cost least = cost(work);
    if (work.name == "K1") {
      EXPECT_EQ(least.bytes, 12 * million);
      EXPECT_EQ(least.operations, million);
    } else if (work.name == "K2") {
      EXPECT_EQ(least.bytes, 3.0 * 4 * 2048 * 2048);
      EXPECT_EQ(least.operations, 2.0 * 2048 * 2048 * 2048);
      EXPECT_NEAR(least.intensity(), 2048.0 / 6, 1e-9);
    } else {
      EXPECT_EQ(least.bytes, 8 * million) << work.name;
      EXPECT_GT(least.operations, million) << work.name;
    }
  }
}

TEST(BenchRoofline, ArraysAreMuchLargerThanTheLastCache) {
  EXPECT_EQ(elements_beyond(0), 1 << 26);
  EXPECT_EQ(elements_beyond(1 << 20), 1 << 26);
  EXPECT_EQ(elements_beyond(std::int64_t{32} << 20), 1 << 27);  // a quarter is 128 MiB
  EXPECT_EQ(elements_beyond(std::int64_t{24} << 20), 1 << 27);  // 96 MiB is no power of two
  EXPECT_EQ(elements_beyond(std::int64_t{1} << 34), 1 << 28);
  EXPECT_GE(last_cache_bytes(), 0);
}

TEST(BenchRoofline, SizesAreElements) {
  for (const Workload& work : kernels()) {
    const bool vector = work.name == "K1" || work.name == "K3";
    EXPECT_EQ(resized(work, 70000).batch, vector ? 70000 : 264) << work.name;
  }
}

TEST(BenchRoofline, TheTableHasEveryFigure) {
  Roofline roof = simple_roof();
  Workload work = kernels()[0];
  roof.kernels = {{work, cost(work), 0.1}};
  const std::string text = to_text(roof);
  for (const char* part : {"16 Mi", "18 GB/s", "0.08 TFLOP/s", "the ridge is at 5 FLOP/byte", "vector_add",
                           "memory", "0.08333", "8.053", "40.3 %"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

using BenchRooflineOn = ModelDevice;
INSTANTIATE_TEST_SUITE_P(On, BenchRooflineOn, model_devices(), device_suffix);

TEST_P(BenchRooflineOn, EverythingIsMeasured) {
  const std::vector<Workload> all = kernels();
  const Workload product = resized(all[1], 4096), softmax = resized(all[3], 4096);
  const Roofline roof = measure_roofline(4096, product, {product, softmax}, {0.001, 1, 0.001});
  ASSERT_EQ(roof.copies.size(), 3u);
  ASSERT_EQ(roof.products.size(), 3u);
  ASSERT_EQ(roof.kernels.size(), 2u);
  EXPECT_EQ(roof.copies[0].elements, 1024);
  EXPECT_EQ(roof.copies[2].elements, 4096);
  EXPECT_EQ(roof.products[0].side, 16);
  EXPECT_EQ(roof.products[2].side, 64);
  for (const Roofline::Copied& copy : roof.copies) {
    EXPECT_GT(copy.in_place_gb_s, 0);
    EXPECT_GT(copy.fresh_gb_s, 0);
  }
  for (const Roofline::Placed& placed : roof.kernels) EXPECT_GT(roof.share(placed), 0) << placed.work.name;
}

class BenchRooflineCommand : public BenchTest {};

TEST_F(BenchRooflineCommand, OneLineHasRoofRidgeAndPlaces) {
  const Outcome outcome = run("--roofline K1 K5 --batch 4096 --quick --seconds 0.001");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::vector<Json> lines = json_lines(outcome.out);
  ASSERT_EQ(lines.size(), 1u);
  const Json& line = lines[0];
  EXPECT_EQ(line.at("metric"), "roofline");
  EXPECT_EQ(line.at("device"), "reference");
  EXPECT_EQ(line.at("copies").at(2).at("floats"), 4096);
  EXPECT_EQ(line.at("products").at(2).at("side"), 64);
  const double ridge = line.at("TFLOP/s").get<double>() * 1e3 / line.at("GB/s").get<double>();
  EXPECT_NEAR(line.at("ridge_FLOP/byte").get<double>(), ridge, 1e-2 * ridge);
  ASSERT_EQ(line.at("kernels").size(), 2u);
  EXPECT_EQ(line.at("kernels").at(0).at("workload"), "K1");
  EXPECT_EQ(line.at("kernels").at(1).at("batch"), 64);
  EXPECT_GT(line.at("kernels").at(1).at("share_of_roof").get<double>(), 0);
}

TEST_F(BenchRooflineCommand, WrongUsageIsOneLine) {
  expect_one_error(run("--roofline T1"), 2, "--roofline places kernels, K1 to K5, not T1");
  expect_one_error(run("--roofline --hold K1@64:compile"), 2, "--hold");
  expect_one_error(run("--roofline --mode compile"), 2, "--mode");
}

}  // namespace
}  // namespace systole::cli::bench

#endif
