// The profiler: what it makes of events whose times are known; of programs that run, profile_programs_test.

#include "systole/profile.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "backend/step_text.h"
#include "compile/flops.h"
#include "profile/plain.h"
#include "profile/summary.h"
#include "runtime/timeline.h"
#include "scratch_folder.h"
#include "systole/ir/text.h"
#include "systole/ops.h"

namespace systole {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using timeline::Collected;

// Events by hand; times in microseconds.
class Events {
 public:
  Events(double begin, double end) {
    all_.begin = at(begin);
    all_.end = at(end);
  }
  Events& add(const std::string& row, const std::string& category, const std::string& name, double begin,
              double end, const std::string& details = {}) {
    all_.events.push_back({text(row), text(category), text(name), text(details), at(begin), at(end)});
    return *this;
  }
  Events& level(const std::string& name, double when, std::int64_t value) {
    all_.levels.push_back({text(name), at(when), value});
    return *this;
  }
  // So many events found no room, the first of which ended then.
  Events& lost(std::int64_t count, double from) {
    all_.lost = count;
    all_.lost_from = at(from);
    return *this;
  }
  Events& step(double when) {
    steps_.push_back(at(when));
    return *this;
  }
  Profile profile(const Roof& roof = {}) const {
    Profile made = profiling::summary(all_, steps_);
    profiling::place_under(roof, made);
    return made;
  }

 private:
  static std::int64_t at(double microseconds) { return std::llround(1e6 + microseconds * 1e3); }
  std::uint32_t text(const std::string& words) {
    const auto found = std::find(all_.texts.begin(), all_.texts.end(), words);
    if (found == all_.texts.end()) all_.texts.push_back(words);
    return static_cast<std::uint32_t>(std::find(all_.texts.begin(), all_.texts.end(), words) -
                                      all_.texts.begin());
  }
  Collected all_;
  std::vector<std::int64_t> steps_;
};

const Profile::Row& row(const Profile& profile, const std::string& name) {
  for (const Profile::Row& each : profile.rows)
    if (each.name == name) return each;
  throw std::runtime_error("no row " + name);
}

constexpr const char* kStep =
    R"({"work":"gemm","first":1,"grid":"4x1x1","block":"256x1x1","registers":40,"shared bytes":1024,"local bytes":0,)"
    R"("occupancy %":75,"kind":"library","ran":"cublaslt.matmul","dtype":"bf16","bytes":4000,"flops":8000000,)"
    R"("items":0,"declined":"cudnn: no\ntuned: too large"})";
constexpr const char* kSecond =
    R"({"work":"splitk","first":0,"grid":"1x1x1","block":"64x1x1","registers":20,"shared bytes":0,"local bytes":8,)"
    R"("kind":"library","ran":"cublaslt.matmul","dtype":"bf16","bytes":4000,"flops":8000000,"items":0,)"
    R"("declined":"cudnn: no\ntuned: too large"})";

TEST(ProfileSummary, AddsUpAGpu) {
  // Two streams that overlap from 20 to 25; nothing from 40 to 60, and before 10 and after 90.
  const Profile p = Events(0, 100)
                        .add("main", "run", "run main", 0, 30, R"({"device":"cuda:0"})")
                        .add("cuda:0 stream 7", "gpu", "k0 dot_general", 10, 20, kStep)
                        .add("cuda:0 stream 7", "gpu", "k0 dot_general", 20, 25, kSecond)
                        .add("cuda:0 stream 8", "gpu", "copy to the device", 20, 40,
                             R"({"work":"copy to the device","bytes":1000})")
                        .add("cuda:0 stream 7", "gpu", "k0 dot_general", 60, 75, kStep)
                        .add("cuda:0 stream 7", "gpu", "k0 dot_general", 75, 90, kSecond)
                        .add("main", "step", "k0 dot_general", 1, 2, kStep)  // its launch
                        .profile({.device = "cuda:0",
                                  .bytes_per_second = 1e9,
                                  .products = {{DType::f32, false, 1e12}, {DType::bf16, false, 2e12}}});
  EXPECT_EQ(p.device, "cuda:0");
  EXPECT_EQ(p.source, "CUPTI");
  EXPECT_NEAR(p.seconds, 100e-6, 1e-12);
  EXPECT_NEAR(p.busy_seconds, 60e-6, 1e-12);
  EXPECT_NEAR(p.idle_seconds, 40e-6, 1e-12);
  EXPECT_NEAR(p.host_seconds, 30e-6, 1e-12);
  ASSERT_EQ(p.gaps.size(), 3U);
  EXPECT_NEAR(p.gaps[0].seconds, 20e-6, 1e-12);
  EXPECT_NEAR(p.gaps[0].begin, 40e-6, 1e-12);
  EXPECT_EQ(p.gaps[0].after, "copy to the device");
  EXPECT_EQ(p.gaps[0].before, "k0 dot_general");
  EXPECT_EQ(p.gaps[1].after, "the beginning");
  EXPECT_EQ(p.gaps[2].before, "the end");

  ASSERT_EQ(p.rows.size(), 2U);
  EXPECT_EQ(p.rows[0].name, "k0 dot_general");  // it lost most
  const Profile::Row& dot = p.rows[0];
  EXPECT_EQ(dot.calls, 2);  // of two kernels each
  EXPECT_EQ(dot.kind, "library");
  EXPECT_EQ(dot.ran, "cublaslt.matmul");
  EXPECT_EQ(dot.dtype, DType::bf16);
  EXPECT_NEAR(dot.seconds, 45e-6, 1e-12);
  EXPECT_EQ(dot.declined, (std::vector<std::string>{"cudnn: no", "tuned: too large"}));
  // 4000 bytes at 1 GB/s and 8 MFLOP at 2 TFLOP/s take 4 µs each.
  EXPECT_NEAR(dot.least_seconds, 4e-6, 1e-12);
  EXPECT_NEAR(dot.lost_seconds(), 37e-6, 1e-12);
  EXPECT_NEAR(dot.share_of_roof(), 8. / 45, 1e-9);
  EXPECT_NEAR(dot.bytes_per_second(), 8000 / 45e-6, 1);
  EXPECT_NEAR(dot.flops_per_second(), 16e6 / 45e-6, 1e3);
  ASSERT_EQ(dot.launched.size(), 2U);
  EXPECT_EQ(dot.launched[0].name, "gemm");
  EXPECT_EQ(dot.launched[0].registers, 40);
  EXPECT_EQ(dot.launched[0].shared_bytes, 1024);
  EXPECT_NEAR(dot.launched[0].occupancy, 0.75, 1e-9);
  EXPECT_NEAR(dot.launched[0].seconds, 25e-6, 1e-12);
  EXPECT_EQ(dot.launched[1].local_bytes, 8);
  const Profile::Row& copy = row(p, "copy to the device");
  EXPECT_EQ(copy.kind, "copy");
  EXPECT_EQ(copy.bytes, 1000);
  EXPECT_EQ(copy.least_seconds, 0);  // not by the device's memory alone
}

TEST(ProfileSummary, TellsWhereTheProgramWasInAGap) {
  const Profile p = Events(0, 100)
                        .add("main", "run", "run main", 15, 62, R"({"device":"cuda:0"})")
                        .add("main", "compile", "capture", 30, 55)
                        .add("main", "compile", "lower", 30, 34)
                        .add("cuda:0 stream 7", "gpu", "k0 dot_general", 10, 20, kStep)
                        .add("cuda:0 stream 7", "gpu", "k0 dot_general", 60, 75, kStep)
                        .profile();
  ASSERT_EQ(p.gaps.size(), 3U);
  EXPECT_EQ(p.gaps[0].during, "capture");
  EXPECT_EQ(p.gaps[1].during, "");  // after 75
  EXPECT_NE(p.table().find("40 µs after k0 dot_general, the program in capture"), std::string::npos)
      << p.table();
  EXPECT_EQ(Json::parse(p.json())["gaps"][0]["during"], "capture");
}

TEST(ProfileSummary, LoopsDoNotCountWhatRunsInThem) {
  constexpr const char* kDevice = R"({"device":"cpu"})";
  const Profile p = Events(0, 100)
                        .add("main", "run", "run main", 5, 95, kDevice)
                        .add("main", "step", "k0 scan", 10, 50, R"({"kind":"scan","bytes":0,"flops":0})")
                        .add("main", "step", "k0_0_1 add", 15, 25,
                             R"({"kind":"map","ran":"generated","bytes":10,"flops":5})")
                        .add("main", "step", "k0_0_1 add", 25, 40,
                             R"({"kind":"map","ran":"generated","bytes":10,"flops":5})")
                        .add("worker 3", "run", "run main", 44, 61, kDevice)
                        .add("worker 3", "step", "k1 mul", 45, 60,
                             R"({"kind":"map","ran":"generated","bytes":10,"flops":5})")
                        .add("worker 3", "part", "k1 mul", 46, 59)
                        .level("cpu memory", 0, 100)
                        .level("cpu memory", 30, 300)
                        .level("cpu memory", 70, 200)
                        .profile();
  EXPECT_EQ(p.device, "cpu");
  EXPECT_EQ(p.source, "timers");
  EXPECT_NEAR(row(p, "k0 scan").seconds, 15e-6, 1e-12);
  EXPECT_NEAR(row(p, "k0_0_1 add").seconds, 25e-6, 1e-12);
  EXPECT_EQ(row(p, "k0_0_1 add").calls, 2);
  EXPECT_NEAR(row(p, "k1 mul").seconds, 15e-6, 1e-12);
  EXPECT_NEAR(p.busy_seconds, 50e-6, 1e-12);
  EXPECT_NEAR(p.idle_seconds, 50e-6, 1e-12);
  ASSERT_EQ(p.memory.size(), 1U);
  EXPECT_EQ(p.memory[0].device, "cpu");
  EXPECT_EQ(p.memory[0].peak_bytes, 300);
  EXPECT_EQ(p.memory[0].levels.size(), 3U);
}

TEST(ProfileSummary, RunsAreWhatIsKnownOfAPlugin) {
  const Profile p = Events(0, 100)
                        .add("main", "run", "run main", 10, 30, R"({"device":"pjrt:cpu"})")
                        .add("main", "run", "run main", 40, 90, R"({"device":"pjrt:cpu"})")
                        .add("main", "run", "run little", 91, 92, R"({"device":"cpu"})")
                        .profile();
  EXPECT_EQ(p.device, "pjrt:cpu");
  EXPECT_EQ(p.source, "runs");
  EXPECT_EQ(p.rows[0].kind, "run");
  EXPECT_NEAR(p.rows[0].seconds, 70e-6, 1e-12);
  EXPECT_EQ(p.rows[0].calls, 2);
}

TEST(ProfileSummary, LeavesOutWhatWasBeforeAndCutsWhatHangsOver) {
  const Profile p = Events(50, 100)
                        .add("cuda:0 stream 7", "gpu", "k0", 10, 50, kStep)
                        .add("cuda:0 stream 7", "gpu", "k0", 45, 60, kStep)
                        .add("cuda:0 stream 7", "gpu", "k0", 95, 110, kStep)
                        .profile();
  EXPECT_NEAR(p.busy_seconds, 15e-6, 1e-12);
  EXPECT_NEAR(p.idle_seconds, 35e-6, 1e-12);
  EXPECT_EQ(p.rows[0].calls, 2);
  EXPECT_NEAR(p.rows[0].seconds, 15e-6, 1e-12);
}

// A kernel that a step launches several times is one call of it; one of the program's own is a call each
// time.
TEST(ProfileSummary, CountsCallsByTheirFirstLaunch) {
  Events events(0, 100);
  for (int i = 0; i < 3; ++i)
    for (int k = 0; k < 4; ++k)
      events.add("cuda:0 stream 7", "gpu", "rnn k1", 20. * i + k, 20. * i + k + 1,
                 k == 0
                     ? R"({"work":"cell","first":1,"kind":"library","ran":"cudnn.rnn","bytes":8,"flops":8})"
                     : R"({"work":"cell","first":0,"kind":"library","ran":"cudnn.rnn","bytes":8,"flops":8})");
  for (int i = 0; i < 10; ++i)
    events.add("cuda:0 stream 7", "gpu", "mine", 70. + i, 70.5 + i,
               i % 2 == 0 ? R"({"work":"mine","first":0,"grid":"1x1x1"})"
                          : R"({"work":"mine","first":0,"grid":"2x1x1"})");
  const Profile p = events.profile();
  EXPECT_EQ(row(p, "rnn k1").calls, 3);
  EXPECT_EQ(row(p, "rnn k1").launched.at(0).calls, 12);
  EXPECT_EQ(row(p, "mine").calls, 10);
  EXPECT_EQ(row(p, "mine").launched.size(), 2U);
  EXPECT_EQ(p.gap_count, 13);
}

// Copies are work like any other, and not of the step or run that they are in.
TEST(ProfileSummary, CopiesAreWorkOfTheirDevice) {
  const Profile p =
      Events(0, 100)
          .add("main", "run", "run main", 10, 50, R"({"device":"pjrt:cpu:0"})")
          .add("main", "copy", "copy to the device", 15, 25,
               R"({"device":"pjrt:cpu:0","work":"copy to the device","bytes":100})")
          .add("main", "copy", "copy to the host", 60, 65,
               R"({"device":"pjrt:cpu:0","work":"copy to the host","bytes":3})")
          .add("main", "copy", "copy to the host", 70, 75,
               R"({"device":"pjrt:cpu:0","work":"copy to the host","bytes":8})")
          .add("main", "copy", "copy to the device", 80, 82,
               R"({"device":"cpu","work":"copy to the device","bytes":1000})")
          .profile({.device = "cpu", .bytes_per_second = 4e9, .products = {{DType::f32, false, 1e12}}});
  EXPECT_EQ(p.device, "pjrt:cpu:0");
  EXPECT_EQ(p.source, "runs");  // and not only the copies
  EXPECT_NEAR(p.busy_seconds, 50e-6, 1e-12);
  EXPECT_NEAR(row(p, "run main").seconds, 30e-6, 1e-12);
  EXPECT_EQ(row(p, "copy to the host").bytes, 5);  // of one, in the mean
  EXPECT_EQ(row(p, "copy to the host").calls, 2);
  const Profile::Row& on_cpu = p.rows.back();
  EXPECT_EQ(on_cpu.device, "cpu");
  EXPECT_NEAR(on_cpu.least_seconds, 0.5e-6, 1e-12);  // reads and writes its own memory
}

// Steps are of the device of the run that they are in.
TEST(ProfileSummary, TellsDevicesApart) {
  const Profile p =
      Events(0, 100)
          .add("main", "run", "run big", 0, 60, R"({"device":"pjrt:cpu"})")
          .add("main", "run", "run small", 60, 90, R"({"device":"cpu"})")
          .add("main", "step", "k0 add", 61, 81, R"({"kind":"map","ran":"generated","bytes":8,"flops":2})")
          .add("main", "kernel", "mine", 92, 95, R"({"device":"opencl:0"})")
          .add("main", "step", "k1 mul", 85, 86, R"({"kind":"map","ran":"generated","bytes":8,"flops":2})")
          .profile({.device = "cpu", .bytes_per_second = 1e9, .products = {{DType::f32, false, 1e12}}});
  EXPECT_EQ(p.device, "pjrt:cpu");
  EXPECT_EQ(p.source, "runs");
  ASSERT_EQ(p.devices.size(), 3U);
  EXPECT_EQ(p.devices[1].device, "cpu");
  EXPECT_EQ(p.devices[1].source, "timers");
  EXPECT_NEAR(p.devices[1].seconds, 21e-6, 1e-12);
  EXPECT_EQ(p.devices[2].device, "opencl:0");
  for (const Profile::Device& each : p.devices)
    EXPECT_NEAR(each.busy_seconds + each.idle_seconds, p.seconds, 1e-12) << each.device;
  EXPECT_NEAR(p.devices[1].busy_seconds, 21e-6, 1e-12);
  EXPECT_NEAR(p.devices[2].idle_seconds, 97e-6, 1e-12);
  EXPECT_EQ(p.busy_seconds, p.devices[0].busy_seconds);
  // Each device has its rows, under its own roof, and its gaps.
  ASSERT_EQ(p.rows.size(), 4U);
  EXPECT_EQ(p.rows[0].name, "run big");
  EXPECT_EQ(p.rows[0].least_seconds, 0);
  EXPECT_EQ(p.rows[1].name, "k0 add");
  EXPECT_NEAR(p.rows[1].lost_seconds(), 20e-6 - 8e-9, 1e-12);
  EXPECT_EQ(p.rows[2].name, "k1 mul");
  EXPECT_EQ(p.rows[3].device, "opencl:0");
  EXPECT_FALSE(p.roof.defined());
  EXPECT_TRUE(p.devices[1].roof.defined());
  EXPECT_EQ(p.gaps[0].device, "pjrt:cpu");
  EXPECT_NEAR(p.gaps[0].seconds, 40e-6, 1e-12);
  EXPECT_EQ(p.gaps.back().device, "opencl:0");
  const std::string table = p.table();
  const std::size_t at = table.find("\ncpu: busy 21.0 %, idle 79.0 %\nroof");
  EXPECT_NE(at, std::string::npos) << table;
  EXPECT_LT(table.find("run big"), at);
  EXPECT_GT(table.find("k0 add"), at);
  const Json json = Json::parse(p.json());
  EXPECT_EQ(json["devices"][1]["roof"]["bytes_per_second"], 1e9);
  EXPECT_NEAR(json["devices"][2]["idle_seconds"].get<double>(), 97e-6, 1e-12);
  EXPECT_EQ(json["rows"][3]["device"], "opencl:0");
  EXPECT_EQ(json["gaps"].back()["device"], "opencl:0");
}

TEST(ProfileSummary, SpansTellWhatIsKnownOfThem) {
  const std::vector<Profile::Span> spans =
      Events(0, 100)
          .add("main", "run", "run main", 0, 60, R"({"device":"cuda:0","bytes":7})")
          .add("cuda:0 stream 7", "gpu", "k0 dot_general", 10, 20, kStep)
          .add("cuda:0 stream 8", "gpu", "copy to the device", 20, 40,
               R"({"work":"copy to the device","bytes":1000})")
          .add("main", "run", "run small", 61, 70, R"({"device":"cpu"})")
          .add("main", "step", "k0 add", 62, 65, R"({"kind":"map","ran":"generated","bytes":8,"flops":2})")
          .add("main", "user", "load", 80, 90)
          .profile()
          .spans();
  ASSERT_EQ(spans.size(), 6U);
  const Profile::Span& gemm = spans[1];
  EXPECT_EQ(gemm.device, "cuda:0");
  EXPECT_EQ(gemm.kind, "library");
  EXPECT_EQ(gemm.ran, "cublaslt.matmul");
  EXPECT_EQ(gemm.kernel, "gemm");
  EXPECT_EQ(gemm.bytes, 4000);
  EXPECT_EQ(gemm.flops, 8000000);
  EXPECT_EQ(spans[2].kind, "copy");
  EXPECT_EQ(spans[2].kernel, "");
  EXPECT_EQ(spans[2].bytes, 1000);
  EXPECT_EQ(spans[3].kind, "run");
  EXPECT_EQ(spans[4].device, "cpu");  // of the run that it is in
  EXPECT_EQ(spans[4].kind, "map");
  EXPECT_EQ(spans[5].device + spans[5].kind, "");
}

// What nothing is known of is not behind what lost a little.
TEST(ProfileSummary, UnknownRowsStandByTheirWholeTime) {
  const Profile p =
      Events(0, 100)
          .add("main", "run", "run", 0, 90, R"({"device":"cpu"})")
          .add("main", "step", "k0 add", 0, 10, R"({"kind":"map","ran":"generated","bytes":1000,"flops":2})")
          .add("main", "step", "k1 mine", 10, 70,
               R"({"kind":"special","ran":"generated","bytes":0,"flops":0})")
          .profile({.device = "cpu", .bytes_per_second = 1e9, .products = {{DType::f32, false, 1e12}}});
  EXPECT_EQ(p.rows[0].name, "k1 mine");
  EXPECT_NEAR(p.rows[1].lost_seconds(), 9e-6, 1e-12);
}

// What ran while there was no room is not idle time, and of no step.
TEST(ProfileSummary, EndsWhereEventsFindNoRoom) {
  constexpr const char* kDevice = R"({"device":"cpu"})";
  constexpr const char* kMap = R"({"kind":"map","ran":"generated","bytes":10,"flops":5})";
  Events events(0, 100);
  events.add("main", "step", "k0 add", 0, 20, kMap)
      .add("main", "run", "run main", 0, 28, kDevice)
      .add("main", "step", "k0 add", 30, 50, kMap)
      .add("main", "run", "run main", 30, 58, kDevice)
      .add("main", "step", "k0 add", 60, 65, kMap)
      .level("cpu memory", 1, 100)
      .level("cpu memory", 64, 300)
      .lost(7, 66);
  const Profile p = events.profile();  // to 65
  EXPECT_NEAR(p.seconds, 65e-6, 1e-12);
  EXPECT_NEAR(p.unrecorded_seconds, 35e-6, 1e-12);
  EXPECT_EQ(p.steps, 0);
  const Profile of_steps = events.step(29).step(59).step(80).step(99).profile();
  EXPECT_EQ(of_steps.steps, 2);
  EXPECT_EQ(of_steps.unrecorded_steps, 2);
  EXPECT_NEAR(of_steps.seconds, 59e-6, 1e-12);
  EXPECT_NEAR(of_steps.unrecorded_seconds, 41e-6, 1e-12);
  EXPECT_NEAR(of_steps.busy_seconds, 40e-6, 1e-12);
  EXPECT_NEAR(of_steps.idle_seconds, 19e-6, 1e-12);
  EXPECT_EQ(row(of_steps, "k0 add").calls, 2);
  EXPECT_EQ(of_steps.memory.at(0).peak_bytes, 100);
  const std::string table = of_steps.table();
  EXPECT_NE(table.find("2 steps, 29.5 µs a step"), std::string::npos) << table;
  EXPECT_NE(
      table.find("7 events found no room: all is of the 59 µs until then, not of the 41 µs that followed "
                 "with 2 steps"),
      std::string::npos)
      << table;
  const Json json = Json::parse(of_steps.json());
  EXPECT_EQ(json["unrecorded_steps"], 2);
  EXPECT_NEAR(json["unrecorded_seconds"].get<double>(), 41e-6, 1e-12);
  const std::string none = Events(0, 100).level("cpu memory", 1, 100).lost(50, 2).profile().table();
  EXPECT_EQ(none.find("nothing ran on a device"), std::string::npos) << none;
  EXPECT_NE(none.find("what ran on a device found no room"), std::string::npos) << none;
}

// The time between a loop's steps is the host's, and what the profiler costs: however long, no work comes
// after it.
TEST(ProfileSummary, LoopsComeLast) {
  for (const char* kind : {"scan", "while", "cond"}) {
    const std::string loop = std::string(R"({"kind":")") + kind + R"(","bytes":4000,"flops":100})";
    const Profile p =
        Events(0, 100)
            .add("main", "run", "run", 0, 90, R"({"device":"cpu"})")
            .add("main", "step", "k0", 0, 90, loop)
            .add("main", "step", "k1 add", 10, 20,
                 R"({"kind":"map","ran":"generated","bytes":9000,"flops":2})")
            .add("main", "step", "k2 mine", 20, 22, R"({"kind":"special","bytes":0,"flops":0})")
            .profile({.device = "cpu", .bytes_per_second = 1e9, .products = {{DType::f32, false, 1e12}}});
    ASSERT_EQ(p.rows.size(), 3U);
    EXPECT_EQ(p.rows[0].name, "k2 mine");
    EXPECT_EQ(p.rows[1].name, "k1 add");
    EXPECT_EQ(p.rows[2].name, "k0");
    EXPECT_NEAR(p.rows[2].seconds, 78e-6, 1e-12);
    EXPECT_EQ(p.rows[2].bytes + p.rows[2].flops, 0);
    EXPECT_NE(p.table().find("host    k0"), std::string::npos) << p.table();
  }
}

// Two threads at work at once: shares are of the work, not of the clock.
TEST(ProfileSummary, SharesAddUpToTheWhole) {
  const Profile p = Events(0, 100)
                        .add("main", "run", "run main", 0, 60, R"({"device":"cpu"})")
                        .add("main", "step", "k0 add", 0, 60, R"({"kind":"map","bytes":10,"flops":5})")
                        .add("worker 3", "run", "run main", 0, 20, R"({"device":"cpu"})")
                        .add("worker 3", "step", "k1 mul", 0, 20, R"({"kind":"map","bytes":10,"flops":5})")
                        .profile();
  EXPECT_NEAR(p.busy_seconds, 60e-6, 1e-12);
  EXPECT_NEAR(p.devices.at(0).seconds, 80e-6, 1e-12);
  const std::string table = p.table();
  EXPECT_NE(table.find(" 75.0% "), std::string::npos) << table;
  EXPECT_NE(table.find(" 25.0% "), std::string::npos) << table;
}

class ProfileFiles : public ScratchFolder {};

TEST_F(ProfileFiles, ATraceHasTheFirstEventsAndSaysWhatItLeftOut) {
  Events events(0, 100);
  for (const double at : {40., 10., 30., 20., 50.}) events.add("main", "user", "load", at, at + 5);
  for (const double at : {1., 2., 3., 45.}) events.level("cpu memory", at, 100);
  const Profile p = events.profile();
  const auto trace = [&](std::size_t most) {
    p.save_trace(folder_ / "trace.json", most);
    std::ifstream file(folder_ / "trace.json");
    return Json::parse(file);
  };
  const auto times = [](const Json& json, const char* kind) {
    std::vector<double> all;
    for (const Json& event : json["traceEvents"])
      if (event["ph"] == kind) all.push_back(event["ts"].get<double>());
    return all;
  };
  const Json all = trace(5);
  EXPECT_FALSE(all.contains("otherData"));
  EXPECT_EQ(times(all, "X").size(), 5U);
  const Json some = trace(4);  // without what begins at 45 and 50
  EXPECT_EQ(times(some, "X"), (std::vector<double>{40, 10, 30, 20}));
  EXPECT_EQ(times(some, "C").size(), 3U);
  EXPECT_EQ(some["otherData"]["left_out"], 2);
  EXPECT_EQ(some["otherData"]["from_us"], 40);
}

TEST_F(ProfileFiles, NumbersHaveTheHighestOfManyLevels) {
  Events events(0, 50'000);
  for (int i = 0; i < 50'000; ++i) events.level("cpu memory", i, i == 31'415 ? 999 : 100);
  const Json memory = Json::parse(events.profile().json())["memory"][0];
  EXPECT_EQ(memory["level_count"], 50'000);
  EXPECT_EQ(memory["levels"].size(), 16'667U);  // of three each
  EXPECT_EQ(memory["levels"][31'415 / 3][1], 999);
}

TEST(ProfileTable, TellsARefusalOfTheWholeFromOneOfTheLibrary) {
  Profile p;
  p.device = "cpu";
  p.steps = 1;
  p.devices = {{.device = "cpu", .seconds = 1}};
  p.rows = {{.name = "k0",
             .ran = "onednn.matmul",
             .device = "cpu",
             .calls = 1,
             .seconds = 1,
             .declined = {"oneDNN: two values", "cudnn: none", "timed: oneDNN 2 µs"}}};
  const std::string table = p.table();
  EXPECT_NE(table.find("  not all by oneDNN: two values\n"), std::string::npos) << table;
  EXPECT_NE(table.find("  not cudnn: none\n"), std::string::npos) << table;
  EXPECT_NE(table.find("  timed: oneDNN 2 µs\n"), std::string::npos) << table;
}

TEST(ProfileTable, HasTimesNoWiderThanTheirColumn) {
  const auto table = [](double nanoseconds) {
    Profile p;
    p.device = "cpu";
    p.steps = 1;
    p.devices = {{.device = "cpu", .seconds = 1e6}};
    p.rows = {{.name = "k0", .device = "cpu", .calls = 1, .seconds = nanoseconds * 1e-9}};
    return p.table();
  };
  const std::pair<double, const char*> times[] = {{.016, "  0.02 ns"},    {5.16, "  5.16 ns"},
                                                  {999.7, "     1 µs"},   {12'340, "  12.3 µs"},
                                                  {999'700, "     1 ms"}, {1.2e9, "    1.2 s"}};
  for (const auto& [nanoseconds, words] : times)
    EXPECT_NE(table(nanoseconds).find(std::string("        – ") + words + "   0.0%"), std::string::npos)
        << table(nanoseconds);
}

TEST(ProfileSummary, OfNothingIsEmptyAndSaysSo) {
  const Profile p = Events(0, 10).profile();
  EXPECT_TRUE(p.rows.empty());
  EXPECT_NE(p.table().find("nothing ran on a device"), std::string::npos);
  const Json json = Json::parse(p.json());
  EXPECT_EQ(json["rows"].size(), 0U);
  EXPECT_EQ(json["gaps"].size(), 1U);
}

TEST(Flops, AreCountedByHand) {
  const auto flops = [](const std::string& inputs, const std::string& body) {
    return passes::flops(
        ir::parse("systole.ir 1\ngraph @main(" + inputs + ") {\n" + body + "  return %y\n}\n"));
  };
  EXPECT_EQ(flops("%a: f32[64,784], %b: f32[784,128]",
                  "%y = dot_general(%a, %b) {a_contract=[1], b_contract=[0]}\n"),
            2. * 64 * 128 * 784);
  // Along each axis 3 positions meet each of 4 results, but 2 of the 12 pairs are padding.
  EXPECT_EQ(flops("%x: f32[2,4,4,3], %k: f32[3,3,3,5]",
                  "%y = convolution(%x, %k) {layout=\"b01f_01io->b01f\", pad_low=[1,1], pad_high=[1,1]}\n"),
            2. * 2 * 3 * 5 * 10 * 10);
  // 6 results added, 6 elements reduced; movement is nothing.
  EXPECT_EQ(
      flops(
          "%x: f32[2,3]",
          "%a = add(%x, %x)\n%t = transpose(%a) {permutation=[1,0]}\n%y = reduce(%t) {kind=sum, axes=[0]}\n"),
      12);
}

// Against the pairs counted one by one.
TEST(Flops, OfConvolutionsLeaveOutPaddingAndHoles) {
  for (const std::int64_t in : {0, 1, 5, 8})
    for (const std::int64_t kernel : {1, 3, 4})
      for (const std::int64_t stride : {1, 2, 3})
        for (const std::int64_t holes : {1, 2, 4})
          for (const std::int64_t spread : {1, 3})
            for (const std::int64_t low : {-2, 0, 1, 7}) {
              ir::ConvolutionAttrs attrs;
              attrs.strides = {stride};
              attrs.operand_dilation = {holes};
              attrs.kernel_dilation = {spread};
              attrs.pad_low = {low};
              constexpr std::int64_t kOut = 9;
              int pairs = 0;
              for (std::int64_t o = 0; o < kOut; ++o)
                for (std::int64_t k = 0; k < kernel; ++k) {
                  const std::int64_t at = o * stride + k * spread - low;
                  pairs += at >= 0 && at % holes == 0 && at / holes < in ? 1 : 0;
                }
              EXPECT_EQ(passes::convolution_meetings(in, kernel, kOut, attrs, 0), pairs)
                  << in << " " << kernel << " " << stride << " " << holes << " " << spread << " " << low;
            }
}

// Every compilation counts, so what is large or stands in itself many times must not take long.
TEST(Flops, OfLargeAndOfNestedGraphsAreCountedAtOnce) {
  ir::ConvolutionAttrs attrs;
  constexpr std::int64_t kLong = std::int64_t{1} << 40;
  EXPECT_EQ(passes::convolution_meetings(kLong, 3, kLong - 2, attrs, 0), 3. * (kLong - 2));
  const Type type{DType::f32, {4}};
  ir::GraphRef body = ir::make_graph("add", std::vector<Type>{type},
                                     [](const ir::Values& in) { return ir::Values{ops::add(in[0], in[0])}; });
  constexpr int kLevels = 20;  // a graph may hold 2^24 nodes so counted
  for (int i = 0; i < kLevels; ++i)
    body = ir::make_graph("twice", std::vector<Type>{type}, [&](const ir::Values& in) {
      ir::Value x = in[0];
      for (int k = 0; k < 2; ++k)
        x = x.graph().add(ir::Op::composite, {x}, ir::CompositeAttrs{"nested", {}}, {body});
      return ir::Values{x};
    });
  EXPECT_EQ(passes::flops(*body), std::ldexp(4, kLevels));
  EXPECT_EQ(passes::flops_dtype(*body), DType::f32);
}

TEST(Profiler, RecordsOneAtATimeAndStopsOnce) {
  Profiler first({.roof = false});
  EXPECT_THROW(Profiler({.roof = false}), Error);
  Profiler moved = std::move(first);
  static_cast<void>(moved.stop());
  EXPECT_THROW(static_cast<void>(moved.stop()), Error);
  EXPECT_NO_THROW(static_cast<void>(Profiler({.roof = false}).stop()));
  {
    const Profiler left({.roof = false});
  }
  EXPECT_NO_THROW(static_cast<void>(Profiler({.roof = false}).stop()));
  EXPECT_THROW(Profiler({.most_events = 0}), Error);
}

TEST(Steps, ACopyIsCalledOne) {
  lower::Step step;
  step.kind = lower::StepKind::copy;
  EXPECT_EQ(runtime::step_label(step, "k31"), "k31 copy");
}

// What a parent records is not its child's, which would have told of all time since the clock began.
TEST(Profiler, AChildHasNoRecording) {
  Profiler profiler({.roof = false});
  const ::pid_t child = ::fork();
  if (child == 0) {
    int code = 1;
    try {
      static_cast<void>(profiler.stop());
    } catch (const Error& error) {
      code = error.kind() == ErrorKind::kInvalidArgument ? 0 : 2;
    }
    ::_exit(code);
  }
  ASSERT_GT(child, 0);
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_NO_THROW(static_cast<void>(profiler.stop()));
}

std::int64_t waited_until = 0;

TEST(Profiler, RestartsWhenDevicesHaveDoneTheirWork) {
  timeline::wait_by([] { waited_until = timeline::now(); });
  timeline::start_collecting(10'000);
  timeline::restart_collecting();
  const std::int64_t restarted = waited_until;
  EXPECT_GT(restarted, 0);
  EXPECT_GE(timeline::stop_collecting().begin, restarted);
}

// In turns; what takes long is run less often.
TEST(ProfileAgainstPlain, IsOfMedians) {
  const auto measured = [](std::vector<std::pair<double, double>> times) {  // of two steps, recorded and not
    std::size_t count = 0;
    const Profile p = profiling::compared(
        2,
        [&] {
          Profile one;
          one.seconds = times.at(count).first;
          one.steps = 2;
          return one;
        },
        [&](const Profile&) { return times.at(count++).second; });
    return std::tuple(p.seconds, p.plain_seconds, count);
  };
  EXPECT_EQ(measured({{.05, .03}, {.9, .01}, {.02, .02}, {.03, .04}}), std::tuple(.05, .02, std::size_t{3}));
  EXPECT_EQ(measured({{5, 4}, {.2, .9}, {.3, .2}}),
            std::tuple(5., 2.45, std::size_t{2}));  // ten seconds have gone by
  EXPECT_EQ(measured({{30, 20}}), std::tuple(30., 20., std::size_t{1}));
  // Ended early, the last recording is not whole.
  EXPECT_EQ(measured({{3, 0}}), std::tuple(3., 0., std::size_t{1}));
  EXPECT_EQ(measured({{.05, .03}, {.01, 0}}), std::tuple(.05, .03, std::size_t{2}));
}

TEST(ProfileAgainstPlain, IsOfTheStepsThatWereRecorded) {
  const Profile p = profiling::compared(
      10,
      [] {
        Profile one;
        one.seconds = 3;
        one.steps = 4;  // and six for which there was no room
        return one;
      },
      [](const Profile&) { return 5.; });
  EXPECT_DOUBLE_EQ(p.plain_seconds, 2);
  EXPECT_DOUBLE_EQ(p.slowdown(), 1.5);
}

TEST(Roof, IsTheSlowerOfMemoryAndArithmetic) {
  const Roof roof{
      .device = "x",
      .bytes_per_second = 100,
      .products = {{DType::f32, false, 1000}, {DType::f32, true, 2000}, {DType::bf16, false, 4000}}};
  EXPECT_DOUBLE_EQ(roof.least_seconds(200, 1000, DType::f32), 2);
  EXPECT_DOUBLE_EQ(roof.least_seconds(200, 4000, DType::f32), 4);
  EXPECT_DOUBLE_EQ(roof.least_seconds(200, 16000, DType::bf16), 4);
  EXPECT_DOUBLE_EQ(roof.least_seconds(200, 16000, DType::f32, true), 8);
  EXPECT_DOUBLE_EQ(roof.least_seconds(200, 16000, DType::bf16, true), 4);
  EXPECT_DOUBLE_EQ(roof.least_seconds(0, 2000, DType::i8), 2);  // of f32, as nothing is known of it
  EXPECT_EQ(Roof{}.least_seconds(200, 1000, DType::f32), 0);
}

}  // namespace
}  // namespace systole
