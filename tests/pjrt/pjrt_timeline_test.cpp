// What a timeline has of a plugin's work, with the fake one: a run until its end, copies, and memory.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "backend/pjrt/pjrt.h"
#include "runtime/timeline.h"
#include "systole/base/error.h"
#include "systole/ir/text.h"
#include "systole/profile.h"
#include "systole/runtime.h"

namespace systole::pjrt {
namespace {

namespace fs = std::filesystem;

const fs::path kFake = fs::path(SYSTOLE_FAKES) / "fake_none.so";

template <class F>
F* fake_function(const char* name) {
  return reinterpret_cast<F*>(::dlsym(::dlopen(kFake.c_str(), RTLD_NOW), name));
}

class PjrtTimeline : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_FALSE(backend_->devices().empty()) << backend_->unavailable_reason();
    before_ = live_();
  }
  void TearDown() override {
    set_fault_("");
    EXPECT_EQ(live_(), before_);  // all objects went back to the plugin
  }
  std::unique_ptr<runtime::Session> session(const char* program) {
    return compile_text(*backend_, {program, {type_}, {type_}, {}})->new_session();
  }
  runtime::BufferRef value() { return backend_->upload(Literal::of<float>({2}, {3, 4}), 0); }

  const Type type_{DType::f32, {2}};
  const std::unique_ptr<runtime::Backend> backend_ = make_backend({"fake", kFake, "test"});
  int (*live_)() = fake_function<int()>("fake_live_objects");
  void (*set_fault_)(const char*) = fake_function<void(const char*)>("fake_fault");
  int before_ = 0;
};

TEST_F(PjrtTimeline, ARunTakesUntilItsWorkIsDone) {
  using Clock = std::chrono::steady_clock;
  const auto slow = session("1 slow");
  const runtime::BufferRef x = value();
  const auto seconds = [&] {
    const Clock::time_point begin = Clock::now();
    slow->run({{{x}}, {}});
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  Profiler profiler({.roof = false});
  EXPECT_GE(seconds(), 0.05);
  static_cast<void>(profiler.stop());
}

TEST_F(PjrtTimeline, ARunThatFailsLateIsHeardOfInItsResultsAsWithoutATimeline) {
  const auto late = session("1 late");
  const runtime::BufferRef x = value();
  Profiler profiler({.roof = false});
  const runtime::BufferRef y = late->run({{{x}}, {}})[0][0];
  EXPECT_THROW(y->to_host(), Error);
  static_cast<void>(profiler.stop());
}

TEST_F(PjrtTimeline, ARunOverSeveralDevicesIsOfEach) {
  const ir::Graph graph = ir::parse(R"(systole.ir 1
graph @same(%x: f32[2] sharding(["d"])) mesh(d=2) {
  %y = add(%x, %x) : f32[2] sharding(["d"])
  return y: %y
})");
  const auto both = backend_->compile(graph, 0, {})->new_session();
  Profiler profiler({.roof = false});
  both->run({{{both->placed(value(), 0)}}, {}});
  const Profile p = profiler.stop();
  const auto run = std::find_if(p.rows.begin(), p.rows.end(), [](const Profile::Row& row) {
    return row.kind == "run" && row.device == "pjrt:fake:1";
  });
  ASSERT_NE(run, p.rows.end()) << p.table();
  EXPECT_EQ(run->name, "run same");
  // Half of the array was copied to each.
  for (const char* device : {"pjrt:fake:0", "pjrt:fake:1"})
    EXPECT_TRUE(std::any_of(p.rows.begin(), p.rows.end(), [&](const Profile::Row& row) {
      return row.name == "copy to the device" && row.device == device && row.bytes >= 4;
    })) << device;
}

std::int64_t peak(const Profile& profile, const std::string& device) {
  for (const Profile::Memory& memory : profile.memory)
    if (memory.device == device) return memory.peak_bytes;
  return -1;
}

TEST_F(PjrtTimeline, MemoryIsThatOfArraysUnlessThePluginTellsIt) {
  const auto peak_of_two = [&] {
    Profiler profiler({.roof = false});
    const runtime::BufferRef a = value(), b = value();
    return peak(profiler.stop(), "pjrt:fake:0");
  };
  EXPECT_EQ(peak_of_two(), 2 * type_.bytes());
  set_fault_("tells its memory");
  EXPECT_EQ(peak_of_two(), 12345);
}

TEST_F(PjrtTimeline, ResultsAreMemoryAndADonatedArrayIsItsResults) {
  const runtime::BufferRef x = value();
  const auto plain = session("1"),
             in_place = compile_text(*backend_, {"1", {type_}, {type_}, {0}})->new_session();
  Profiler profiler({.roof = false});
  for (int i = 0; i < 3; ++i) in_place->run({{{x}}, {0}});
  for (int i = 0; i < 3; ++i) plain->run({{{x}}, {}});
  const Profile p = profiler.stop();
  EXPECT_EQ(peak(p, "pjrt:fake:0"), 2 * type_.bytes());
  ASSERT_FALSE(p.memory.empty());
  EXPECT_EQ(p.memory[0].levels.back().bytes, type_.bytes());
}

}  // namespace
}  // namespace systole::pjrt
