// What CUPTI records on the timeline: with a CUPTI of the test's own, whose records and calls are known, and
// on a GPU with the real one.

#include "backend/cuda/cupti.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/log.h"
#include "child_check.h"
#include "fake_check.h"
#include "systole/backend/cuda.h"
#include "systole/runtime.h"
#include "systole/runtime/timeline.h"
#include "systole/tensor/compiled.h"
#include "systole/tensor/creation.h"
#include "systole/tensor/math.h"

namespace systole::cuda {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kAhead = 18'000'000'000'000;  // ns that the fake's clock is ahead
constexpr std::uint64_t kMultipleSubscribers = 39;

// A CUPTI that gives out the records of a test when it is flushed, and tells of launches and nodes when the
// driver, which it stands in front of, is called.
class FakeCupti {
 public:
  explicit FakeCupti(const FakeDriver& driver) : driver_(driver.table()), watched_(driver.table()) {
    the = this;
    table_.cuptiGetResultString = [](int, const char** words) {
      *words = "WORDS";
      return 0;
    };
    table_.cuptiSubscribe = [](cupti::Subscriber*, cupti::Callback callback, void*) {
      ++the->subscribed;
      the->callback_ = callback;
      return the->subscribe_status;
    };
    table_.cuptiUnsubscribe = [](cupti::Subscriber) {
      the->callback_ = nullptr;
      return 0;
    };
    table_.cuptiEnableCallback = [](std::uint32_t, cupti::Subscriber, int, std::uint32_t) { return 0; };
    table_.cuptiActivityRegisterCallbacks = [](cupti::Request request, cupti::Complete complete) {
      the->request_ = request;
      the->complete_ = complete;
      return 0;
    };
    table_.cuptiActivityEnable = [](int kind) {
      the->enabled.insert(kind);
      return 0;
    };
    table_.cuptiActivityDisable = [](int kind) {
      the->enabled.erase(kind);
      return 0;
    };
    table_.cuptiActivityFlushAll = [](std::uint32_t) {
      the->flush();
      return 0;
    };
    table_.cuptiActivityGetNextRecord = [](std::uint8_t* buffer, std::size_t valid, cupti::Activity** at) {
      return the->next(buffer, valid, at);
    };
    table_.cuptiActivityGetNumDroppedRecords = [](Context, std::uint32_t, std::size_t* count) {
      *count = 0;
      return 0;
    };
    table_.cuptiGetTimestamp = [](std::uint64_t* now) {
      *now = static_cast<std::uint64_t>(timeline::now()) + kAhead;
      return 0;
    };
    table_.cuptiGetGraphNodeId = [](cupti::Node node, std::uint64_t* id) {
      *id = reinterpret_cast<std::uintptr_t>(node);
      return 0;
    };
    watched_.cuLaunchKernel = [](Function function, unsigned x, unsigned y, unsigned z, unsigned a,
                                 unsigned b, unsigned c, unsigned shared, Stream stream, void** parameters,
                                 void** more) {
      the->call();
      if (the->captures_) the->node(cupti::kNodeCreated, kNode, 0);
      return the->driver_.cuLaunchKernel(function, x, y, z, a, b, c, shared, stream, parameters, more);
    };
    watched_.cuStreamBeginCapture = [](Stream stream, int mode) {
      the->captures_ = true;
      return the->driver_.cuStreamBeginCapture(stream, mode);
    };
    watched_.cuStreamEndCapture = [](Stream stream, Graph* graph) {
      the->captures_ = false;
      return the->driver_.cuStreamEndCapture(stream, graph);
    };
    watched_.cuGraphInstantiate = [](GraphExec* made, Graph graph, unsigned long long flags) {
      the->node(cupti::kNodeCloned, kClone, kNode);
      return the->driver_.cuGraphInstantiate(made, graph, flags);
    };
    set_driver(&watched_);
    cupti::set_api(&table_);
  }
  ~FakeCupti() {
    cupti::set_api(nullptr);
    set_driver(&driver_);
  }
  FakeCupti(const FakeCupti&) = delete;
  FakeCupti& operator=(const FakeCupti&) = delete;

  static constexpr std::uintptr_t kNode = 0x100, kClone = 0x200;  // captured, and in the graph that runs
  int subscribe_status = 0, subscribed = 0;
  std::uint32_t last_call = 0;
  std::set<int> enabled;

  template <class Record>
  void add(const Record& record) {
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(&record);
    records_.emplace_back(bytes, bytes + sizeof record);
  }
  void add_kernel(std::int64_t begin, std::int64_t nanoseconds, std::uint32_t call, std::uint64_t node = 0,
                  const char* name = "k0") {
    cupti::KernelRecord record{};
    record.kind = cupti::kKernels;
    record.start = static_cast<std::uint64_t>(begin) + kAhead;
    record.end = record.start + static_cast<std::uint64_t>(nanoseconds);
    record.stream = 7;
    record.registers = 40;
    record.grid_x = 3;
    record.grid_y = record.grid_z = record.block_y = record.block_z = 1;
    record.block_x = 128;
    record.static_shared = 1000;
    record.dynamic_shared = 24;
    record.call = call;
    record.node = node;
    record.name = name;
    add(record);
  }

  // A launch, and a buffer that comes back.
  void call() {
    ++last_call;
    cupti::CallData data{};
    data.site = cupti::kOnEntry;
    data.call = last_call;
    if (callback_ != nullptr) callback_(nullptr, cupti::kOfDriver, cupti::kDriverLaunch, &data);
  }
  void flush() {
    std::uint8_t* buffer = nullptr;
    std::size_t size = 0, most = 0, used = 0;
    request_(&buffer, &size, &most);
    at_.clear();
    for (const auto& record : records_) {
      std::memcpy(buffer + used, record.data(), record.size());
      at_.push_back(buffer + used);
      used += record.size();
    }
    records_.clear();
    complete_(nullptr, 0, buffer, size, used);
  }

 private:
  void node(int id, std::uintptr_t node, std::uintptr_t original) {
    cupti::NodeData data{};
    data.node = reinterpret_cast<cupti::Node>(node);
    data.original_node = reinterpret_cast<cupti::Node>(original);
    const cupti::ResourceData resource{nullptr, nullptr, &data};
    if (callback_ != nullptr)
      callback_(nullptr, cupti::kOfResources, static_cast<std::uint32_t>(id), &resource);
  }
  int next(std::uint8_t*, std::size_t, cupti::Activity** at) const {
    const auto found = std::find(at_.begin(), at_.end(), reinterpret_cast<std::uint8_t*>(*at));
    const auto following = *at == nullptr ? at_.begin() : found + 1;
    if (following == at_.end()) return 12;  // CUPTI_ERROR_MAX_LIMIT_REACHED
    *at = reinterpret_cast<cupti::Activity*>(*following);
    return 0;
  }

  static FakeCupti* the;
  const Driver& driver_;
  Driver watched_;
  cupti::Api table_;
  cupti::Callback callback_ = nullptr;
  cupti::Request request_ = nullptr;
  cupti::Complete complete_ = nullptr;
  bool captures_ = false;
  std::vector<std::vector<std::uint8_t>> records_;
  std::vector<std::uint8_t*> at_;
};
FakeCupti* FakeCupti::the = nullptr;

struct Trace {
  std::map<std::int64_t, std::string> rows;
  std::vector<Json> gpu;  // spans of the GPU
  explicit Trace(const std::filesystem::path& file) {
    std::ifstream in(file);
    const Json all = Json::parse(in);
    for (const Json& event : all.at("traceEvents"))
      if (event.at("name") == "thread_name")
        rows[event.at("tid")] = event.at("args").at("name");
      else if (event.value("cat", "") == "gpu")
        gpu.push_back(event);
  }
  std::string row(const Json& span) const { return rows.at(span.at("tid")); }
};

class Cupti : public FakeCuda {
 protected:
  ~Cupti() override { Timeline::stop(); }
  std::filesystem::path file() const { return folder_ / "trace.json"; }
};

TEST_F(Cupti, RecordsHaveTheirTimesTheirRowAndTheStepThatMadeThem) {
  SYSTOLE_NEEDS_NVRTC();
  FakeDriver fake;
  give_kernel(fake);
  FakeCupti cupti(fake);
  const Device device(0);
  const runtime::BufferRef x = uploaded(numbers(1), device);
  const auto session = new_session(device);
  const std::int64_t begin = timeline::now();
  Timeline::start(file());
  run(*session, x);
  EXPECT_EQ(cupti.enabled, (std::set<int>{1, 2, 10, 22}));
  const std::uint32_t direct = cupti.last_call;
  const std::int64_t now = timeline::now();
  cupti.add_kernel(now, 12345, direct);
  EXPECT_EQ(first_of(run(*session, x)), (std::vector<float>{2, 4, 6, 8}));
  EXPECT_EQ(fake.count("cuGraphLaunch"), 1);
  cupti.add_kernel(now + 20000, 1000, 0, FakeCupti::kClone);
  cupti.add_kernel(now + 30000, 1000, 999, 0, "_Z4gemmIfEvPT_");
  cupti::CopyRecord copy{};
  copy.kind = cupti::kCopies;
  copy.copy_kind = cupti::kHostToDevice;
  copy.bytes = 64;
  copy.stream = 9;
  copy.start = static_cast<std::uint64_t>(now) + kAhead;
  copy.end = copy.start + 500;
  cupti.add(copy);
  cupti.add_kernel(-static_cast<std::int64_t>(kAhead), 0, 0);  // without a time
  Timeline::stop();
  const std::int64_t end = timeline::now();
  EXPECT_TRUE(cupti.enabled.empty());

  const Trace trace(file());
  ASSERT_EQ(trace.gpu.size(), 4u);
  std::map<std::string, std::vector<Json>> by_row;
  for (const Json& span : trace.gpu) by_row[trace.row(span)].push_back(span);
  const std::vector<Json>& kernels = by_row["cuda:0 stream 7"];
  ASSERT_EQ(kernels.size(), 3u);
  EXPECT_EQ(kernels[0].at("name"), "k0 add");
  EXPECT_EQ(kernels[0].at("dur"), 12.345);
  EXPECT_NEAR(kernels[0].at("ts").get<double>(), static_cast<double>(now - begin) / 1e3,
              static_cast<double>(end - begin) / 1e3);
  EXPECT_NEAR(kernels[1].at("ts").get<double>() - kernels[0].at("ts").get<double>(), 20, 0.01);
  const Json& details = kernels[0].at("args");
  EXPECT_EQ(details.at("work"), "k0");
  EXPECT_EQ(details.at("grid"), "3x1x1");
  EXPECT_EQ(details.at("block"), "128x1x1");
  EXPECT_EQ(details.at("registers"), 40);
  EXPECT_EQ(details.at("shared bytes"), 1024);
  EXPECT_EQ(details.at("bytes"), 2 * 4 * kLength);  // x and y
  EXPECT_EQ(kernels[1].at("name"), "k0 add");       // by its node
  EXPECT_EQ(kernels[2].at("name"), "gemm<float>");  // of nobody's
  ASSERT_EQ(by_row["cuda:0 stream 9"].size(), 1u);
  const Json& copied = by_row["cuda:0 stream 9"][0];
  EXPECT_EQ(copied.at("name"), "copy to the device");
  EXPECT_EQ(copied.at("args").at("bytes"), 64);
}

TEST_F(Cupti, NothingWaitsForAStep) {
  SYSTOLE_NEEDS_NVRTC();
  FakeDriver fake;
  give_kernel(fake);
  const FakeCupti cupti(fake);
  const Device device(0);
  const runtime::BufferRef x = uploaded(numbers(1), device);
  const auto session = new_session(device);
  Timeline::start(file());
  fake.clear_log();
  for (int i = 0; i < 3; ++i) run(*session, x);
  EXPECT_EQ(fake.count("cuStreamSynchronize"), 0);
  EXPECT_EQ(fake.count("cuGraphLaunch"), 2);
  Timeline::stop();
  EXPECT_EQ(fake.count("cuCtxSynchronize"), 1);  // the last records must be whole
}

TEST_F(Cupti, WorkOfOneStreamThatOverlapsHasFurtherRows) {
  FakeDriver fake;
  FakeCupti cupti(fake);
  const Device device(0);
  Timeline::start(file());
  device.activate();
  const std::int64_t now = timeline::now();
  cupti.add_kernel(now, 1000, 0, 0, "a");
  cupti.add_kernel(now + 2500, 1000, 0, 0, "c");
  cupti.add_kernel(now + 500, 2500, 0, 0, "b");
  Timeline::stop();
  const Trace trace(file());
  std::map<std::string, std::string> row;
  for (const Json& span : trace.gpu) row[span.at("name")] = trace.row(span);
  EXPECT_EQ(row, (std::map<std::string, std::string>{
                     {"a", "cuda:0 stream 7"}, {"b", "cuda:0 stream 7 +1"}, {"c", "cuda:0 stream 7"}}));
}

TEST_F(Cupti, AGraphFromBeforeTheTimelineIsCapturedAnewOnce) {
  SYSTOLE_NEEDS_NVRTC();
  FakeDriver fake;
  give_kernel(fake);
  const FakeCupti cupti(fake);
  {
    const Device device(0);
    const runtime::BufferRef x = uploaded(numbers(1), device);
    const auto session = new_session(device);
    for (int i = 0; i < 3; ++i) run(*session, x);
    EXPECT_EQ(cupti.subscribed, 0);
    EXPECT_EQ(fake.count("cuStreamBeginCapture"), 1);
    for (int timelines = 1; timelines <= 2; ++timelines) {
      Timeline::start(file());
      for (int i = 0; i < 3; ++i) run(*session, x);
      Timeline::stop();
      EXPECT_EQ(fake.count("cuStreamBeginCapture"), 1 + timelines);
      EXPECT_EQ(cupti.subscribed, timelines);
    }
    run(*session, x);
    EXPECT_EQ(fake.count("cuStreamBeginCapture"), 3);
  }
  EXPECT_EQ(fake.leaks(), "");
  EXPECT_EQ(fake.violations(), "");
}

TEST_F(Cupti, ThatRefusesLeavesStepsThatAreWaitedForAndOneLineSaysWhy) {
  SYSTOLE_NEEDS_NVRTC();
  FakeDriver fake;
  give_kernel(fake);
  FakeCupti cupti(fake);
  cupti.subscribe_status = kMultipleSubscribers;
  const Device device(0);
  const runtime::BufferRef x = uploaded(numbers(1), device);
  const auto session = new_session(device);
  std::vector<std::string> lines;
  set_log_sink([&](LogLevel, std::string_view line) { lines.emplace_back(line); }, LogLevel::warn);
  Timeline::start(file());
  fake.clear_log();
  for (int i = 0; i < 3; ++i) run(*session, x);
  Timeline::stop();
  set_log_sink({});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("cuptiSubscribe: WORDS (39)"), std::string::npos) << lines[0];
  EXPECT_EQ(fake.count("cuGraphLaunch"), 0);
  EXPECT_EQ(fake.count("cuLaunchKernel"), 3);
  EXPECT_EQ(fake.count("cuStreamSynchronize"), 3);
}

TEST_F(Cupti, BuffersComeBackOnAThreadOfItsOwn) {
  constexpr int kLaunches = 300;
  FakeDriver fake;
  FakeCupti cupti(fake);
  const Device device(0);
  Timeline::start(file());
  device.activate();
  std::thread worker([&] {
    for (std::uint32_t i = 1; i <= kLaunches; ++i) {
      cupti.add_kernel(timeline::now(), 10, i);
      cupti.flush();
    }
  });
  for (int i = 0; i < kLaunches; ++i) {
    const cupti::Step outer("outer", "{\"n\":1}");
    const cupti::Step step("step " + std::to_string(i % 3), "");
    cupti.call();
  }
  worker.join();
  for (std::uint32_t i = 1; i <= 3; ++i) cupti.add_kernel(timeline::now(), 10, kLaunches + i);
  cupti.call();  // of no step
  {
    const cupti::Step outer("outer", "{\"n\":1}");
    {
      const cupti::Step step("inner", "");
      cupti.call();
    }
    cupti.call();
  }
  Timeline::stop();
  const Trace trace(file());
  ASSERT_EQ(trace.gpu.size(), kLaunches + 3u);
  std::multiset<std::string> last;
  for (std::size_t i = kLaunches; i < trace.gpu.size(); ++i) last.insert(trace.gpu[i].at("name"));
  EXPECT_EQ(last, (std::multiset<std::string>{"inner", "k0", "outer"}));
}

class CuptiOnGpu : public ScratchFolder {
 protected:
  void SetUp() override {
    if (!is_available()) GTEST_SKIP() << "no GPU: " << unavailable_reason();
  }
};

TEST_F(CuptiOnGpu, ATracedStepHasKernelsInsideItsWallTime) {
  constexpr int kRuns = 20;
  const DeviceScope scope("cuda");
  const auto step = systole::compile([](const Tensor& x) { return sum(exp(x) * x, {1}); });
  const Tensor x = ones({512, 4096});
  std::string refusal;
  set_log_sink([&](LogLevel, std::string_view line) { refusal += line; }, LogLevel::warn);
  const std::int64_t begin = timeline::now();
  Timeline::start(folder_ / "trace.json");
  for (int i = 0; i < kRuns; ++i) step(x);
  EXPECT_NEAR(step(x).to_vector<float>()[0], 4096 * 2.718281828f, 0.5f);
  Timeline::stop();
  const double wall = static_cast<double>(timeline::now() - begin) / 1e3;
  set_log_sink({});
  if (refusal.find("CUPTI does not record") != std::string::npos) GTEST_SKIP() << refusal;
  const Trace trace(folder_ / "trace.json");
  int kernels = 0;
  double sum = 0;
  for (const Json& span : trace.gpu) {
    EXPECT_EQ(trace.row(span).substr(0, 14), "cuda:0 stream ");
    EXPECT_GE(span.at("ts").get<double>(), -1000);
    EXPECT_LE(span.at("ts").get<double>() + span.at("dur").get<double>(), wall + 1000);
    if (!span.at("args").contains("grid")) continue;
    sum += span.at("dur").get<double>();
    kernels += span.at("name").get<std::string>().substr(0, 1) == "k" &&
                       span.at("name").get<std::string>().find("exp") != std::string::npos
                   ? 1
                   : 0;
  }
  EXPECT_GE(kernels, kRuns + 1);
  EXPECT_GT(sum, 0);
  EXPECT_LT(sum, wall);
}

}  // namespace
}  // namespace systole::cuda
