// What the profiler tells of the devices here, whatever they are: their copies and their memory.

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "scratch_folder.h"
#include "systole/ops.h"
#include "systole/systole.h"

namespace systole {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kElements = 1 << 18, kBytes = 4 * kElements;

class ProfileOn : public ScratchFolder, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    const std::vector<std::string> names = runtime::backend_names();
    if (std::find(names.begin(), names.end(), device_.backend_name()) == names.end())
      GTEST_SKIP() << "there is no " << device_.backend_name();
    if (backend().devices().empty()) GTEST_SKIP() << backend().unavailable_reason();
  }
  runtime::Backend& backend() const { return runtime::backend(device_.backend_name()); }

  const DeviceName device_ = DeviceName::parse(GetParam());
  const Literal x_ = Literal::full({DType::f32, {kElements}}, 1.5);
};

const Profile::Row& row(const Profile& profile, std::string_view name) {
  for (const Profile::Row& each : profile.rows)
    if (each.name == name) return each;
  throw std::runtime_error("no row " + std::string(name) + " in " + profile.table());
}

TEST_P(ProfileOn, HasACopyToTheDeviceAndOneToTheHostOfEveryRun) {
  ir::Graph graph("twice");
  const ir::Value x = graph.input("x", x_.type());
  graph.output(ops::add(x, x));
  const CompiledGraph twice = compile(graph, device_.to_string());
  twice.run({x_});
  constexpr int kRuns = 3;
  Profiler profiler({.roof = false});
  for (int i = 0; i < kRuns; ++i) twice.run({x_});
  const Profile p = profiler.stop();
  EXPECT_EQ(p.device, device_.to_string());
  EXPECT_NEAR(p.busy_seconds + p.idle_seconds, p.seconds, 1e-9);
  double sum = 0;
  for (const Profile::Row& each : p.rows) sum += each.seconds;
  EXPECT_NEAR(sum, p.busy_seconds, 1e-9);  // nothing counts twice
  const Json json = Json::parse(p.json());
  p.save_trace(folder_ / "trace.json");
  std::ifstream file(folder_ / "trace.json");
  const Json trace = Json::parse(file);
  for (const char* name : {"copy to the device", "copy to the host"}) {
    const Profile::Row& copy = row(p, name);
    EXPECT_EQ(copy.kind, "copy");
    EXPECT_EQ(copy.device, p.device);
    EXPECT_EQ(copy.calls, kRuns);
    EXPECT_EQ(copy.bytes, kBytes);
    EXPECT_GT(copy.seconds, 0);
    EXPECT_TRUE(std::any_of(json["rows"].begin(), json["rows"].end(),
                            [&](const Json& r) { return r["name"] == name && r["bytes"] == kBytes; }));
    EXPECT_EQ(std::count_if(trace["traceEvents"].begin(), trace["traceEvents"].end(),
                            [&](const Json& e) {
                              return e["name"] == name && e["args"]["bytes"] == kBytes &&
                                     e["args"]["device"] == p.device;
                            }),
              kRuns);
  }
}

// By what is allocated here, or by what the device itself tells.
TEST_P(ProfileOn, HasItsMemoryAfterEveryArrayThatComesAndGoes) {
  runtime::BufferRef kept = backend().upload(x_, device_.ordinal);  // before it begins
  Profiler profiler({.roof = false});
  runtime::BufferRef more = backend().upload(x_, device_.ordinal);
  more.reset();
  kept.reset();
  const Profile p = profiler.stop();
  const auto memory = std::find_if(p.memory.begin(), p.memory.end(),
                                   [&](const Profile::Memory& m) { return m.device == device_.to_string(); });
  ASSERT_NE(memory, p.memory.end());
  ASSERT_EQ(memory->levels.size(), 4U);
  const std::int64_t first = memory->levels[0].bytes;
  EXPECT_GE(first, kBytes);
  EXPECT_EQ(memory->levels[1].bytes, first + kBytes);
  EXPECT_EQ(memory->levels[2].bytes, first);
  EXPECT_EQ(memory->levels[3].bytes, first - kBytes);
  EXPECT_EQ(memory->peak_bytes, first + kBytes);
}

// The clock alone waits for the device that worked, whichever is the current one.
TEST_P(ProfileOn, TimesWithoutTheProfilerWhatRanElsewhere) {
  if (device_.backend == "pjrt") GTEST_SKIP() << "nothing waits for all runs of a plugin";
  Tensor x, y;
  std::optional<DeviceScope> there(GetParam());
  const auto f = compile([](const Tensor& a) { return matmul(a, a); });
  x = full({1024, 1024}, 1. / 1024).eval();
  there.reset();
  const DeviceScope here("reference");
  const Profile p = profile(
      [&] {
        const DeviceScope scope(GetParam());
        y = f(x);
      },
      {.steps = 2, .warm_up = 1, .profile = {.roof = false}});
  EXPECT_EQ(p.device, device_.to_string());
  EXPECT_GT(p.plain_seconds, .25 * p.busy_seconds);
}

std::string device_suffix(const testing::TestParamInfo<const char*>& info) {
  std::string text = info.param;
  std::replace(text.begin(), text.end(), ':', '_');
  return text;
}
INSTANTIATE_TEST_SUITE_P(Each, ProfileOn, testing::Values("cpu", "opencl:0", "pjrt:cpu:0"), device_suffix);

}  // namespace
}  // namespace systole
