// The profiler on programs and trainings that run; on events whose times are known, profile_test.

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "backend/cpu/jit.h"
#include "runtime/timeline.h"
#include "scratch_folder.h"
#include "systole/profile.h"
#include "trainer_fixture.h"

namespace systole {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class ProfileOfAProgram : public ScratchFolder {};

TEST_F(ProfileOfAProgram, TellsWhatRan) {
  const DeviceScope scope("cpu");
  const Tensor x = full({512, 256}, 0.5).eval(), w = full({256, 256}, 0.01).eval();
  const auto f = compile([](const Tensor& a, const Tensor& b) { return softmax(matmul(tanh(a), b)); });
  Tensor y;
  const Profile p =
      profile([&] { y = f(x, w).eval(); }, {.steps = 10, .profile = {.title = "a </script> title"}});
  EXPECT_EQ(p.device, "cpu");
  EXPECT_EQ(p.steps, 10);
  EXPECT_GT(p.plain_seconds, 0);
  EXPECT_GT(p.slowdown(), 0);
  EXPECT_TRUE(p.roof.defined());
  EXPECT_NEAR(p.busy_seconds + p.idle_seconds, p.seconds, 1e-9);
  ASSERT_FALSE(p.rows.empty());
  double sum = 0;
  std::int64_t most_flops = 0;
  for (const Profile::Row& each : p.rows) {
    EXPECT_EQ(each.calls, 10) << each.name;
    EXPECT_GT(each.bytes, 0) << each.name;
    most_flops = std::max(most_flops, each.flops);
    sum += each.seconds;
  }
  EXPECT_GE(most_flops, 2 * 512 * 256 * 256);
  EXPECT_NEAR(sum, p.busy_seconds, 1e-6);
  for (std::size_t i = 1; i < p.rows.size(); ++i)
    EXPECT_GE(p.rows[i - 1].lost_seconds(), p.rows[i].lost_seconds());
  EXPECT_FALSE(p.memory.empty());
  EXPECT_NE(p.table().find("10 steps"), std::string::npos) << p.table();

  p.save(folder_ / "deep" / "profile");
  const auto text = [&](const char* name) {
    std::ifstream in(folder_ / "deep" / "profile" / name);
    std::ostringstream all;
    all << in.rdbuf();
    return all.str();
  };
  const Json trace = Json::parse(text("trace.json"));
  bool has_main = false, has_memory = false;
  for (const Json& event : trace["traceEvents"]) {
    has_main |= event["ph"] == "M" && event["args"]["name"] == "main";
    has_memory |= event["ph"] == "C";
  }
  EXPECT_TRUE(has_main && has_memory);
  const Json json = Json::parse(text("profile.json"));
  EXPECT_EQ(json["rows"].size(), p.rows.size());
  const std::string page = text("index.html");
  EXPECT_EQ(page.find("/*PROFILE*/null"), std::string::npos);
  EXPECT_EQ(page.find("a </script>"), std::string::npos);
  EXPECT_NE(page.find("a \\u003c/script> title"), std::string::npos);
}

// By a clock outside: the time the program slept is a gap of that length, and nothing lies beyond the end.
TEST_F(ProfileOfAProgram, HasTheTimesOfTheClock) {
  using Clock = std::chrono::steady_clock;
  const DeviceScope scope("cpu");
  const auto f = compile([](const Tensor& a) { return tanh(a); });
  const Tensor x = full({1 << 20}, 0.5).eval();
  f(x).eval();
  constexpr double kSlept = 0.2;
  const Clock::time_point begin = Clock::now();
  Profiler profiler({.roof = false});
  f(x).eval();
  std::this_thread::sleep_for(std::chrono::duration<double>(kSlept));
  f(x).eval();
  const double wall = std::chrono::duration<double>(Clock::now() - begin).count();
  const Profile p = profiler.stop();
  EXPECT_GE(p.seconds, 0.98 * wall);
  EXPECT_LE(p.busy_seconds, wall - kSlept);
  EXPECT_GE(p.idle_seconds, kSlept);
  ASSERT_FALSE(p.gaps.empty());
  EXPECT_GE(p.gaps[0].seconds, kSlept);
  EXPECT_EQ(p.gaps[0].after, p.rows.at(0).name);
  for (const Profile::Span& span : p.spans()) {
    EXPECT_GE(span.begin, 0);
    EXPECT_LE(span.begin + span.seconds, p.seconds + 1e-9);
  }
}

// A kernel of the program's own in a compiled function is a step of it: one row, with all of its time.
TEST_F(ProfileOfAProgram, AKernelOpIsOneRow) {
  if (cpu::kernels_in_words().find("without kernels") != std::string::npos)
    GTEST_SKIP() << cpu::kernels_in_words();
  const DeviceScope scope("cpu");
  const KernelOp twice({.name = "twice", .sources = {.portable = R"(
S_ENTRY twice(S_GLOBAL const float* x, S_GLOBAL float* y) {
  if (S_THREAD < S_COUNT) y[S_THREAD] = 2 * x[S_THREAD];
})"}});
  const auto f = compile([&](const Tensor& a) { return twice(a); });
  const Tensor x = full({1 << 20}, 0.5).eval();
  f(x).eval();
  Profiler profiler({.roof = false});
  for (int i = 0; i < 3; ++i) f(x).eval();
  const Profile p = profiler.stop();
  double in_kernel = 0;
  for (const Profile::Span& span : p.spans()) in_kernel += span.category == "kernel" ? span.seconds : 0;
  EXPECT_GT(in_kernel, 0);
  ASSERT_EQ(p.rows.size(), 1U) << p.table();
  EXPECT_EQ(p.rows[0].calls, 3);
  EXPECT_EQ(p.rows[0].bytes, 2 * 4 << 20);
  EXPECT_GE(p.rows[0].seconds, in_kernel);
}

TEST_F(ProfileOfAProgram, F64StandsUnderARoofOfItsOwn) {
  const DeviceScope scope("cpu");
  const Tensor x = full({512, 512}, 0.5).to(DType::f64).eval();
  const auto f = compile([](const Tensor& a) { return matmul(a, a); });
  Tensor y;
  const Profile p = profile([&] { y = f(x).eval(); }, {.steps = 3});
  const Profile::Row& product = p.rows.at(0);
  ASSERT_EQ(product.dtype, DType::f64);
  const auto rate = [&](DType dtype) {
    for (const Roof::Product& each : p.roof.products)
      if (each.dtype == dtype && !each.tf32) return each.flops_per_second;
    return 0.;
  };
  EXPECT_GT(rate(DType::f32), 0);
  ASSERT_GT(rate(DType::f64), 0);
  EXPECT_DOUBLE_EQ(product.least_seconds, 2. * 512 * 512 * 512 / rate(DType::f64));
}

TEST_F(ProfileOfAProgram, CountsWhatFindsNoRoom) {
  const DeviceScope scope("cpu");
  const auto f = compile([](const Tensor& a) { return tanh(a); });
  const Tensor x = full({64}, 0.5).eval();
  f(x).eval();
  Profiler profiler({.roof = false, .most_events = 30});
  for (int i = 0; i < 1000; ++i) {
    f(x).eval();
    profiler.step();
  }
  const Profile p = profiler.stop();
  EXPECT_GT(p.lost_events, 0);
  EXPECT_GT(p.steps, 0);
  EXPECT_LE(p.steps, 30);
  EXPECT_EQ(p.steps + p.unrecorded_steps, 1000);
  EXPECT_GT(p.unrecorded_seconds, p.seconds);
  EXPECT_EQ(p.rows.at(0).calls, p.steps);
  EXPECT_NE(p.table().find("found no room"), std::string::npos);
}

TEST_F(ProfileOfAProgram, ATrainingIsRecordedByItsCallback) {
  const Points data = points(256);
  Net net = seeded_net();
  training::Trainer trainer(net, optim::Adam(net), {.loss = "cross_entropy"});
  Profile seen;
  const training::FitResult result =
      trainer.fit(data::arrays(data.x, data.y),
                  {.epochs = 1000,
                   .batch = 32,
                   .verbose = 0,
                   .callbacks = {training::profile_steps({.folder = folder_ / "profile",
                                                          .skip = 2,
                                                          .steps = 4,
                                                          .stop = true,
                                                          .done = [&](const Profile& p) { seen = p; },
                                                          .profile = {.roof = false}})},
                   .steps_per_call = 2});
  EXPECT_EQ(result.stopped, "the profile is done");
  EXPECT_EQ(seen.steps, 4);
  EXPECT_GT(seen.plain_seconds, 0);
  EXPECT_FALSE(seen.rows.empty());
  for (const char* name : {"index.html", "trace.json", "profile.json"})
    EXPECT_TRUE(fs::exists(folder_ / "profile" / name)) << name;
}

// 260 samples in batches of 32 are two launches of 4 steps, and a step of 4 samples, another program. What an
// epoch's end takes is far longer than its steps.
class ProfileOfATraining : public ProfileOfAProgram {
 protected:
  static constexpr double kEpochsEnd = 0.1;
  Profile profiled(std::int64_t steps) {
    Profile seen;
    trainer_.fit(source_,
                 {.epochs = 1000,
                  .batch = 32,
                  .verbose = 0,
                  .callbacks = {training::on_epoch_end([](training::Run&) {
                                  std::this_thread::sleep_for(std::chrono::duration<double>(kEpochsEnd));
                                }),
                                training::profile_steps({.folder = {},
                                                         .skip = 2,
                                                         .steps = steps,
                                                         .stop = true,
                                                         .done = [&](const Profile& p) { seen = p; },
                                                         .profile = {.roof = false}})},
                  .steps_per_call = 4});
    return seen;
  }
  static int compilations(const Profile& p) {
    int count = 0;
    for (const Profile::Span& span : p.spans()) count += span.category == "compile" ? 1 : 0;
    return count;
  }

 private:
  const DeviceScope scope_{"cpu"};
  const Points data_ = points(260);
  const data::Source source_ = data::arrays(data_.x, data_.y);
  Net net_ = seeded_net();
  training::Trainer trainer_{net_, optim::Adam(net_), {.loss = "cross_entropy"}};
};

TEST_F(ProfileOfATraining, IsOfLaunchesThatAreAlike) {
  const Profile p = profiled(8);
  EXPECT_EQ(p.steps, 8);
  EXPECT_EQ(compilations(p), 0);
  EXPECT_LT(p.seconds, kEpochsEnd);
  EXPECT_GT(p.plain_seconds, 0);
  EXPECT_LT(p.plain_seconds, kEpochsEnd);
}

TEST_F(ProfileOfATraining, IsOfWholeEpochsWhereOneHasTooFewSteps) {
  const Profile p = profiled(20);
  EXPECT_EQ(p.steps, 27);
  EXPECT_EQ(compilations(p), 0);
  EXPECT_GE(p.seconds, 3 * kEpochsEnd);
  EXPECT_GE(p.plain_seconds, 3 * kEpochsEnd);
  EXPECT_GT(p.slowdown(), 0.7);
  EXPECT_LT(p.slowdown(), 1.4);
}

TEST_F(ProfileOfAProgram, ATrainingThatIsShortIsRecordedAsFarAsItGoes) {
  const Points data = points(256);
  Net net = seeded_net();
  training::Trainer trainer(net, optim::Adam(net), {.loss = "cross_entropy"});
  Profile seen;
  trainer.fit(data::arrays(data.x, data.y),
              {.epochs = 1,
               .batch = 4,
               .verbose = 0,
               .callbacks = {training::profile_steps({.folder = {},
                                                      .skip = 2,
                                                      .steps = 30,
                                                      .done = [&](const Profile& p) { seen = p; },
                                                      .profile = {.roof = false}})},
               .steps_per_call = 1});
  EXPECT_EQ(seen.steps, 64 - 6 - 30 - 6);  // what is warmed up, timed, and made ready
  EXPECT_GT(seen.plain_seconds, 0);
}

// A machine that gets slower all the while is not what the profiler costs: steps are timed before and after.
TEST_F(ProfileOfAProgram, ATrainingIsTimedOnBothSidesOfItsRecording) {
  const Points data = points(1024);
  Net net = seeded_net();
  training::Trainer trainer(net, optim::Adam(net), {.loss = "cross_entropy"});
  Profile seen;
  trainer.fit(data::arrays(data.x, data.y),
              {.epochs = 1,
               .batch = 4,
               .verbose = 0,
               .callbacks = {training::on_steps_end([](training::Run& run) {
                               std::this_thread::sleep_for(std::chrono::microseconds(100 * run.step()));
                             }),
                             training::profile_steps({.folder = {},
                                                      .skip = 0,
                                                      .steps = 30,
                                                      .stop = true,
                                                      .done = [&](const Profile& p) { seen = p; },
                                                      .profile = {.roof = false}})},
               .steps_per_call = 1});
  EXPECT_EQ(seen.steps, 30);
  EXPECT_GT(seen.slowdown(), 0.8);
  EXPECT_LT(seen.slowdown(), 1.3);
}

// What is wrong with the profile is told before the training, or does not end it.
TEST_F(ProfileOfAProgram, ATrainingDoesNotEndForItsProfile) {
  EXPECT_THROW(training::profile_steps({.profile = {.most_events = 0}}), Error);
  const Points data = points(64);
  Net net = seeded_net();
  training::Trainer trainer(net, optim::Adam(net), {.loss = "cross_entropy"});
  int seen = 0;
  const auto fit = [&](const fs::path& folder, bool stop,
                       const std::vector<training::CallbackRef>& more = {}) {
    training::FitOptions options{
        .epochs = 12,
        .batch = 8,
        .verbose = 0,
        .callbacks = {training::profile_steps({.folder = folder,
                                               .skip = 0,
                                               .steps = 2,
                                               .stop = stop,
                                               .done = [&](const Profile&) { ++seen; },
                                               .profile = {.roof = false}})},
        .steps_per_call = 1};
    options.callbacks.insert(options.callbacks.end(), more.begin(), more.end());
    return trainer.fit(data::arrays(data.x, data.y), options);
  };
  std::ofstream(folder_ / "file") << "mine";
  for (const fs::path& folder : {folder_ / "file", folder_ / "file" / "profile", fs::path("/proc/x")})
    EXPECT_THROW(fit(folder, false), Error);
  {
    Profiler other({.roof = false});
    EXPECT_EQ(fit(folder_ / "none", false).epochs(), 12U);
    EXPECT_FALSE(fs::exists(folder_ / "none"));
    EXPECT_NE(fit({}, true).stopped.find("another one records already"), std::string::npos);
    EXPECT_NO_THROW(static_cast<void>(other.stop()));
  }
  EXPECT_EQ(seen, 0);
  // The folder goes in mid-run.
  const fs::path folder = folder_ / "gone";
  EXPECT_EQ(fit(folder, false, {training::on_steps_end([&](training::Run&) {
                  if (!fs::is_directory(folder)) return;
                  fs::remove_all(folder);
                  std::ofstream(folder) << "in the way";
                })})
                .epochs(),
            12U);
  EXPECT_EQ(seen, 1);
}

// The callback outlives the training, the recording does not.
TEST_F(ProfileOfAProgram, ATrainingThatThrowsEndsItsRecording) {
  const Points data = points(256);
  Net net = seeded_net();
  training::Trainer trainer(net, optim::Adam(net), {.loss = "cross_entropy"});
  int seen = 0;
  bool fails = true;
  const training::FitOptions options{
      .epochs = 1000,
      .batch = 32,
      .verbose = 0,
      .callbacks = {training::profile_steps({.folder = {},
                                             .skip = 0,
                                             .steps = 4,
                                             .stop = true,
                                             .done = [&](const Profile&) { ++seen; },
                                             .profile = {.roof = false}}),
                    training::on_steps_end([&](training::Run&) {
                      if (fails && timeline::is_on()) throw std::runtime_error("no more");
                    })},
      .steps_per_call = 2};
  EXPECT_THROW(trainer.fit(data::arrays(data.x, data.y), options), std::runtime_error);
  EXPECT_FALSE(timeline::is_on());
  EXPECT_NO_THROW(static_cast<void>(Profiler({.roof = false}).stop()));
  EXPECT_EQ(seen, 0);
  fails = false;  // and the same callback records the next one
  trainer.fit(data::arrays(data.x, data.y), options);
  EXPECT_EQ(seen, 1);
}

}  // namespace
}  // namespace systole
