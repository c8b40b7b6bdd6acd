// systole bench as a person, a script or another benchmark meets it. Expected losses are the peers' (PyTorch
// and JAX on the same weights and data); the peers here are shell scripts. What else the workloads compute is
// in bench_results_test.cpp.

#include <gtest/gtest.h>

#ifdef SYSTOLE_COMMAND

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "bench_command.h"
#include "bench_losses.h"
#include "cli/bench/measurement.h"
#include "cli/bench/prepared.h"
#include "cli/bench/timing.h"
#include "cli/bench/workloads.h"

namespace systole::cli::bench {
namespace {

// Not gone and no zombie: the state stands after the name in parentheses.
bool alive(const std::string& pid) {
  std::string stat;
  std::getline(std::ifstream("/proc/" + pid + "/stat"), stat);
  return !stat.empty() && stat.substr(stat.rfind(')') + 2, 1) != "Z";
}

TEST(BenchTiming, MedianOfOddAndEvenCounts) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(median({7}), 7);
}

// The median of a sample of 7 is at most k when at least 4 of the 7 are: P(Binomial(7, k/7) >= 4) is 0.009
// for k = 1, 0.105 for 2, 0.895 for 5 and 0.991 for 6, so the 5th and 95th percentiles are 2 and 6.
TEST(BenchTiming, IntervalOfTheMedianIsTheBinomialOne) {
  const Interval interval = median_interval({5, 3, 1, 7, 2, 6, 4});
  EXPECT_EQ(interval.low, 2);
  EXPECT_EQ(interval.high, 6);
}

TEST(BenchTiming, WindowRunsEveryRepetitionEquallyLong) {
  std::vector<std::int64_t> calls;
  const Window window = measure(
      [&](std::int64_t n) {
        calls.push_back(n);
        const auto end = std::chrono::steady_clock::now() + n * std::chrono::microseconds(100);
        while (std::chrono::steady_clock::now() < end) {
        }
      },
      {0.005, 3});
  EXPECT_EQ(window.repetitions, 3);
  ASSERT_GE(calls.size(), 4u);
  for (std::size_t i = calls.size() - 3; i < calls.size(); ++i) EXPECT_EQ(calls[i], window.iterations);
  EXPECT_GE(window.seconds, 99e-6);
}

// numpy.percentile
TEST(BenchTiming, PercentilesLieBetweenTheirNeighbours) {
  const std::vector<double> sorted = {1, 2, 4, 8, 16};
  EXPECT_EQ(percentile(sorted, 25), 2);
  EXPECT_EQ(percentile(sorted, 50), 4);
  EXPECT_EQ(percentile(sorted, 75), 8);
  EXPECT_NEAR(percentile(sorted, 99), 15.68, 1e-12);
  EXPECT_EQ(percentile(sorted, 100), 16);
  EXPECT_EQ(percentile({3}, 99), 3);
}

TEST(BenchTiming, LatencyTakesAtLeastTenCallsAfterThree) {
  std::int64_t made = 0;
  const Latency few = latency([&] { ++made; }, 0);
  EXPECT_EQ(few.calls, 10);
  EXPECT_EQ(made, 13);
  const Latency many = latency([] {}, 0.01);
  EXPECT_GT(many.calls, 10);
  EXPECT_GE(many.p99, many.seconds);
}

const Workload& find_workload(const std::vector<Workload>& all, std::string_view name, std::int64_t batch) {
  for (const Workload& work : all)
    if (work.name == name && work.batch == batch) return work;
  throw std::runtime_error("no such workload");
}

// A program that takes a tenth of a millisecond.
Prepared spinning() {
  Prepared prepared;
  prepared.run = [](std::int64_t n) {
    const auto end = std::chrono::steady_clock::now() + n * std::chrono::microseconds(100);
    while (std::chrono::steady_clock::now() < end) {
    }
  };
  return prepared;
}

TEST(BenchMeasurement, MetricsAreThePeers) {
  const std::vector<Workload> all = workloads(false);
  const Effort effort{0.002, 3, 0.002};
  const auto metric_of = [&](std::string_view name, std::int64_t batch) {
    return measured(find_workload(all, name, batch), spinning(), effort);
  };
  for (const auto& [name, batch] : {std::pair{"I1", 1}, {"I1", 64}, {"I2", 1}, {"I3", 1}}) {
    const Measurement single = metric_of(name, batch);
    EXPECT_EQ(single.metric, "ms") << name;
    EXPECT_GE(single.value, 0.1);
    for (const char* key : {"p99_ms", "calls", "spread_pct", "ms_pipelined"})
      EXPECT_TRUE(single.extra.contains(key)) << key;
  }
  // What a millisecond's worth is, by hand: 16 images, 3·2^26 and 2·2^26 floats, 2·2048³ operations.
  for (const auto& [name, batch, metric, per_ms] : {std::tuple{"I2", 16, "samples_per_s", 16e3},
                                                    {"K1", 67108864, "GB/s", 805.306368},
                                                    {"K2", 2048, "TFLOP/s", 17.179869184},
                                                    {"K3", 67108864, "GB/s", 536.870912},
                                                    {"K4", 8192, "GB/s", 536.870912},
                                                    {"K5", 8192, "GB/s", 536.870912}}) {
    const Measurement window = metric_of(name, batch);
    EXPECT_EQ(window.metric, metric) << name;
    EXPECT_NEAR(window.value, per_ms / window.extra["ms"].get<double>(), 1e-4 * window.value) << name;
  }
}

TEST(BenchMeasurement, FewerMillisecondsAreFaster) {
  EXPECT_EQ(times_as_fast("ms", 2, 4), 2);
  EXPECT_EQ(times_as_fast("samples_per_s", 2, 4), 0.5);
  EXPECT_EQ(times_as_fast("GB/s", 4, 2), 2);
}

TEST(BenchWorkloads, DataEqualThePeers) {
  const std::vector<Workload> all = workloads(false);
  const Batch many = batch_of(find_workload(all, "T1", 64), 50);
  EXPECT_EQ(many.x.type().to_string(), "f32[50,64,784]");
  EXPECT_EQ(many.x.values<float>().back(), -0.8554498553276062f);
  EXPECT_EQ(many.y.values<std::int32_t>().back(), 8);
  const Batch words =
      batch_of(find_workload(all, "T6", 4));  // 128 words each; targets are the words moved by one
  EXPECT_EQ(words.x.values<std::int32_t>()[2 * 128], 34782);
  EXPECT_EQ(words.y.values<std::int32_t>()[2 * 128], 30061);
  EXPECT_EQ(words.y.values<std::int32_t>()[2 * 128 + 127], 34782);
  EXPECT_EQ(batch_of(find_workload(all, "T3", 128)).x.type().to_string(), "f32[128,32,32,3]");
}

TEST(BenchWorkloads, SizesFollowTheDevice) {
  std::vector<std::string> small, large;
  for (const bool accelerator : {false, true})
    for (const Workload& w : workloads(accelerator))
      (accelerator ? large : small).push_back(w.name + "@" + std::to_string(w.batch) + " " + w.dtype);
  EXPECT_EQ(small,
            (std::vector<std::string>{"T1@64 fp32", "T1@512 fp32", "T2@64 fp32", "T3@128 fp32", "T4@8 fp32",
                                      "T5@32 fp32", "T6@4 fp32", "I1@1 fp32", "I1@64 fp32", "I2@1 fp32",
                                      "I2@16 fp32", "I3@1 fp32", "K1@67108864 fp32", "K2@2048 fp32",
                                      "K3@67108864 fp32", "K4@8192 fp32", "K5@8192 fp32"}));
  EXPECT_EQ(large,
            (std::vector<std::string>{"T1@64 fp32", "T1@512 fp32", "T2@64 fp32", "T2@512 bf16", "T3@128 fp32",
                                      "T4@256 bf16", "T5@64 fp32", "T6@16 bf16", "I1@1 fp32", "I1@64 fp32",
                                      "I2@1 bf16", "I2@64 bf16", "I3@1 fp32", "K1@67108864 fp32",
                                      "K2@8192 bf16", "K3@67108864 fp32", "K4@8192 fp32", "K5@8192 fp32"}));
}

INSTANTIATE_TEST_SUITE_P(On, BenchLosses, model_devices(), device_suffix);

TEST_P(BenchLosses, T1AgreesWithThePeers) {
  expect_losses("T1", 64, "fp32");
  expect_losses("T1", 512, "fp32");
}

TEST_P(BenchLosses, T1InF16WithLossScalingAgreesWithThePeers) { expect_losses("T1", 64, "fp16"); }
TEST_P(BenchLosses, T2AgreesWithThePeers) { expect_losses("T2", 64, "fp32"); }

// What takes the reference and OpenCL on a processor long; there these are slow tests.
using BenchLargeLosses = BenchLosses;
INSTANTIATE_TEST_SUITE_P(On, BenchLargeLosses, testing::Values("cpu", "cuda:0", "pjrt:cpu"), device_suffix);

TEST_P(BenchLargeLosses, T3AgreesWithThePeers) { expect_losses("T3", 128, "fp32"); }
TEST_P(BenchLargeLosses, T5AgreesWithThePeers) { expect_losses("T5", 32, "fp32"); }
TEST_P(BenchLargeLosses, T6AgreesWithThePeers) { expect_losses("T6", 4, "fp32"); }

TEST_F(BenchTest, LinesHaveThePeersForm) {
  const Outcome outcome = run("T1 --batch 64 --quick --seconds 0.01 --json");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::vector<Json> lines = json_lines(outcome.out);
  ASSERT_EQ(lines.size(), 2u) << outcome.out;
  for (const Json& line : lines) {
    EXPECT_EQ(line.at("workload"), "T1");
    EXPECT_EQ(line.at("model"), "mlp");
    EXPECT_EQ(line.at("framework"), "systole");
    EXPECT_EQ(line.at("dtype"), "fp32");
    EXPECT_EQ(line.at("batch"), 64);
    EXPECT_EQ(line.at("metric"), "samples_per_s");
    EXPECT_NEAR(line.at("value").get<double>(), 64 / (line.at("extra").at("ms").get<double>() / 1e3),
                line.at("value").get<double>() * 1e-3);
    for (const char* key : {"loss3", "ms", "spread_pct", "reps", "iters", "warmup_s", "device", "version"})
      EXPECT_TRUE(line.at("extra").contains(key)) << key;
    EXPECT_NEAR(line.at("extra").at("loss3").at(0).get<double>(), 3.1745, 2e-4);
  }
  EXPECT_EQ(lines[0].at("mode"), "compile");
  EXPECT_EQ(lines[1].at("mode"), "compile+many");
}

TEST_F(BenchTest, LinesOfForwardRunsAndKernelsHaveThePeersForm) {
  const std::vector<Json> forwards = json_lines(run("I1 --quick --seconds 0.002").out);
  ASSERT_EQ(forwards.size(), 2u);
  for (const Json& line : forwards) {
    EXPECT_EQ(line.at("metric"), "ms");
    EXPECT_EQ(line.at("mode"), "compile");
    EXPECT_NEAR(line.at("extra").at("checksum").get<double>(), line.at("batch") == 1 ? 0.8981 : 1.1704, 1e-4);
  }
  const std::vector<Json> kernels =
      json_lines(run("K2 K4 --batch 50 --dtype bf16 --quick --seconds 0.002").out);
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0].at("metric"), "TFLOP/s");
  EXPECT_EQ(kernels[0].at("batch"), 50);
  EXPECT_EQ(kernels[0].at("dtype"), "bf16");
  EXPECT_EQ(kernels[1].at("model"), "softmax");
  EXPECT_EQ(kernels[1].at("metric"), "GB/s");
  EXPECT_NEAR(kernels[1].at("extra").at("checksum").get<double>(), 0.02, 1e-4);
}

TEST_F(BenchTest, ALetterNamesAllOfItsKind) {
  std::vector<std::string> names;
  for (const Json& line : json_lines(run("K --batch 8 --quick --seconds 0.001").out))
    names.push_back(line.at("workload"));
  EXPECT_EQ(names, (std::vector<std::string>{"K1", "K2", "K3", "K4", "K5"}));
}

TEST_F(BenchTest, HoldMeasuresOneWindowPerLine) {
  const Outcome outcome = run("--hold T1@2:compile --quick --seconds 0.002", "\n\n\n");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(outcome.out.starts_with("#ready\n{")) << outcome.out;
  EXPECT_EQ(json_lines(outcome.out).size(), 3u);
  EXPECT_EQ(json_lines(outcome.out)[0].at("batch"), 2);
}

TEST_F(BenchTest, WrongUsageIsOneLine) {
  expect_one_error(run("T9"), 2, "there is no workload T9");
  expect_one_error(run("T1 X"), 2, "there is no workload X");
  expect_one_error(run("I1 --mode compile+many"), 2, "compile+many is for training");
  expect_one_error(run("--hold K1@64:compile+many"), 2, "compile+many is for training");
  expect_one_error(run("--hold T1@64"), 2, "expected WORKLOAD@BATCH:MODE");
  expect_one_error(run("--hold T1@64:fast"), 2, "expected WORKLOAD@BATCH:MODE");
  expect_one_error(run("--hold K@64:compile"), 2, "expected WORKLOAD@BATCH:MODE");
  expect_one_error(run("T1 --pairs true"), 2, "one workload in one mode");
  expect_one_error(run("T1 --dtype fp64"), 2, "fp64");
  expect_one_error(run("T1 --batch 2 --mode compile --windows 3 --pairs true"), 2, "at least 7 pairs");
}

TEST_F(BenchTest, PairsGiveTheRatioOfTheMediansWithItsInterval) {
  const Outcome outcome = pairs(R"(echo "# some framework"
echo "#ready"
while read line; do
  echo called >> calls
  echo '{"framework": "fake", "mode": "jit", "metric": "samples_per_s", "value": 1000.0, "extra": {}}'
done
echo done > ended
)");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::vector<Json> lines = json_lines(outcome.out);
  ASSERT_EQ(lines.size(), 1u) << outcome.out;
  const Json& extra = lines[0].at("extra");
  const double ratio = lines[0].at("value").get<double>();
  EXPECT_EQ(lines[0].at("metric"), "ratio");
  EXPECT_EQ(extra.at("pairs"), 7);
  EXPECT_EQ(extra.at("peer"), "fake");
  EXPECT_EQ(extra.at("peer_samples_per_s"), 1000);
  EXPECT_NEAR(ratio, extra.at("samples_per_s").get<double>() / 1000, 1e-3 * ratio);
  EXPECT_LE(extra.at("low").get<double>(), ratio);
  EXPECT_GE(extra.at("high").get<double>(), ratio);
  const std::string calls = read("calls");
  EXPECT_EQ(std::count(calls.begin(), calls.end(), '\n'), 7);
  EXPECT_EQ(read("ended"), "done\n") << "the peer was not left to end by itself";
}

// What the command prints on a terminal. The other end stays open until all of it is read.
std::string on_terminal(const std::function<Outcome(const std::string& redirection)>& run) {
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
  if (master < 0 || ::grantpt(master) != 0 || ::unlockpt(master) != 0)
    throw std::runtime_error("no terminal");
  const std::string name = ::ptsname(master);
  const int other = ::open(name.c_str(), O_RDWR | O_NOCTTY);
  const Outcome outcome = run("> " + name + " < stdin 2> stderr #");  // over the files of Outcome
  std::string text;
  char bytes[4096];
  for (ssize_t got; (got = ::read(master, bytes, sizeof(bytes))) > 0;)
    text.append(bytes, static_cast<std::size_t>(got));
  ::close(other);
  ::close(master);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return text;
}

TEST_F(BenchTest, PairsSayThePeersVersion) {
  const auto peer_with = [](const std::string& extra) {
    return "echo '#ready'\nwhile read line; do echo '{\"framework\": \"fake\", \"mode\": \"jit\", "
           "\"metric\": \"samples_per_s\", \"value\": 1000.0" +
           extra + "}'; done\n";
  };
  const auto version_of = [&](const std::string& extra) {
    const Outcome outcome = pairs(peer_with(extra));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return json_lines(outcome.out).at(0).at("extra").at("peer_version").get<std::string>();
  };
  EXPECT_EQ(version_of(R"(, "extra": {"version": "2.15.0+cu130"})"), "2.15.0+cu130");
  for (const char* without : {"", R"(, "extra": {})", R"(, "extra": null)", R"(, "extra": {"version": 3})"})
    EXPECT_EQ(version_of(without), "") << without;

  const std::string text = on_terminal([&](const std::string& redirection) {
    return pairs(peer_with(R"(, "extra": {"version": "2.15.0"})"), redirection);
  });
  EXPECT_NE(text.find("  fake 2.15.0 jit "), std::string::npos) << text;
  EXPECT_NE(text.find("  systole " SYSTOLE_VERSION " compile"), std::string::npos) << text;
}

TEST_F(BenchTest, PairsOfMillisecondsAreFasterWhenTheyAreFewer) {
  std::ofstream(folder_ / "peer.sh") << R"(echo "#ready"
while read line; do echo '{"metric": "ms", "value": 1000.0}'; done)";
  const Outcome outcome = run("I1 --batch 2 --quick --seconds 0.002 --pairs 'sh peer.sh'");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json line = json_lines(outcome.out).at(0);
  const double ours = line.at("extra").at("ms");
  EXPECT_LT(ours, 1000);
  EXPECT_EQ(line.at("extra").at("peer_ms"), 1000);
  EXPECT_NEAR(line.at("value").get<double>(), 1000 / ours, 1e-3 * 1000 / ours);
}

TEST_F(BenchTest, APeerThatEndsIsQuoted) {
  expect_one_error(pairs("echo 'no such GPU' >&2; exit 3"), 1, "it said last: 'no such GPU'");
  expect_one_error(pairs("echo '#ready'; read line; echo 'out of memory' >&2"), 1,
                   "ended before it printed a result");
}

TEST_F(BenchTest, APeerThatPrintsSomethingElseIsQuoted) {
  expect_one_error(pairs("echo '#ready'; while read line; do echo hello; done"), 1, "'hello'");
  expect_one_error(pairs("echo '#ready'; while read line; do echo '{\"metric\": 1}'; done"), 1, "no result");
  expect_one_error(pairs("echo '#ready'; while read l; do echo '{\"metric\": \"error\", \"value\": null, "
                         "\"x\": \"no\"}'; done"),
                   1, "reports no value");
  expect_one_error(pairs("echo '#ready'; while read l; do echo '{\"metric\": \"ms\", \"value\": 2}'; done"),
                   1, "measures something else");
}

TEST_F(BenchTest, APeerThatIsNeverReadyIsEndedAfterTheLimit) {
  const Outcome outcome =
      pairs("trap '' TERM\necho $$ > pid\necho warming up\nwhile :; do sleep 0.1; done", "--ready-limit 0.3");
  expect_one_error(outcome, 1, "did not print #ready in time");
  EXPECT_LT(outcome.seconds, 20);
  std::string pid = read("pid");
  pid.pop_back();
  for (int i = 0; i < 500 && alive(pid); ++i) ::usleep(10'000);  // a signal takes its time to arrive
  EXPECT_FALSE(alive(pid));
}

TEST_F(BenchTest, APeerThatStopsAnsweringIsEndedAfterTheLimit) {
  expect_one_error(pairs("echo '#ready'; exec sleep 60", "--window-limit 0.3"), 1,
                   "did not print a result in time");
}

}  // namespace
}  // namespace systole::cli::bench

#endif
