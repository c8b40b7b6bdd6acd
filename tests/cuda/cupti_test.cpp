// What CUPTI records on the timeline: with a CUPTI of the test's own, whose records and calls are known, and
// on a GPU with the real one.

#include "backend/cuda/cupti.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <thread>

#include "../child_check.h"
#include "../trainer_fixture.h"
#include "backend/cuda/queues.h"
#include "base/log.h"
#include "fake_check.h"
#include "profile/summary.h"
#include "systole/backend/cuda.h"
#include "systole/ir/text.h"
#include "systole/runtime.h"
#include "systole/runtime/timeline.h"
#include "systole/tensor/compiled.h"
#include "systole/tensor/creation.h"
#include "systole/tensor/linalg.h"
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
      the->launch();
      return the->driver_.cuLaunchKernel(function, x, y, z, a, b, c, shared, stream, parameters, more);
    };
    watched_.cuStreamBeginCapture = [](Stream stream, int mode) {
      the->begin_capture();
      return the->driver_.cuStreamBeginCapture(stream, mode);
    };
    watched_.cuStreamEndCapture = [](Stream stream, Graph* graph) {
      the->captures_ = false;
      return the->driver_.cuStreamEndCapture(stream, graph);
    };
    watched_.cuGraphInstantiate = [](GraphExec* made, Graph graph, unsigned long long flags) {
      the->instantiate();
      return the->driver_.cuGraphInstantiate(made, graph, flags);
    };
    watched_.cuGraphLaunch = [](GraphExec graph, Stream stream) {
      ++the->last_call;
      if (the->plays)
        for (const std::uintptr_t node : the->nodes)
          the->add_kernel(timeline::now(), 10, the->last_call, node);
      return the->driver_.cuGraphLaunch(graph, stream);
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

  static constexpr std::uintptr_t kNode = 0x1000, kClone = 0x2000;  // captured, and in the graph that runs
  int subscribe_status = 0, subscribed = 0;
  bool plays = false;                 // what is launched has records
  std::vector<std::uintptr_t> nodes;  // of the graph that was made ready last
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

  void add_memset(std::int64_t begin, std::int64_t nanoseconds, std::uint32_t call, std::uint64_t node) {
    cupti::MemsetRecord record{};
    record.kind = cupti::kMemsets;
    record.start = static_cast<std::uint64_t>(begin) + kAhead;
    record.end = record.start + static_cast<std::uint64_t>(nanoseconds);
    record.bytes = 64;
    record.stream = 7;
    record.call = call;
    record.node = node;
    add(record);
  }

  // A launch goes to the GPU or, as CUPTI tells after the call, to the graph that is captured.
  void launch() {
    call();
    if (captures_)
      node(cupti::kNodeCreated, captured_.emplace_back(kNode + made_++), 0);
    else if (plays)
      add_kernel(timeline::now(), 10, last_call);
  }
  void begin_capture() {
    captures_ = true;
    captured_.clear();
  }
  void instantiate() {
    captures_ = false;
    nodes.clear();
    for (const std::uintptr_t original : captured_)
      node(cupti::kNodeCloned, nodes.emplace_back(kClone + cloned_++), original);
  }

  // A call of the driver, and a buffer that comes back.
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
  std::uintptr_t made_ = 0, cloned_ = 0;  // nodes
  std::vector<std::uintptr_t> captured_;
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
  EXPECT_GT(fake.count("cuStreamSynchronize"), 2);  // the last records must be whole
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

// And once more after it: in a recording no kernel is launched early.
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
    for (int i = 0; i < 2; ++i) run(*session, x);
    EXPECT_EQ(fake.count("cuStreamBeginCapture"), 4);
  }
  EXPECT_EQ(fake.leaks(), "");
  EXPECT_EQ(fake.violations(), "");
}

// On a device that was in use before it began.
TEST_F(Cupti, ARecordingMayBeginWithACopy) {
  FakeDriver fake;
  const FakeCupti cupti(fake);
  const Device device(0);
  const runtime::BufferRef x = uploaded(numbers(1), device);
  timeline::start_collecting(10'000);
  EXPECT_EQ(cupti.subscribed, 0);
  x->to_host();
  EXPECT_EQ(cupti.subscribed, 1);
  timeline::stop_collecting();
}

// A copy to the device, one to the host and a memset, none of which waits.
class AsynchronousMoves {
 public:
  explicit AsynchronousMoves(const Device& device)
      : memory_(DeviceBuffer::make(device, {DType::f32, {kLength}}, device.kernels())),
        host_(device, kLength * sizeof(float), {"cuda", {}, device.ordinal()}),
        stream_(device.kernels()) {}
  void to_device() { host_.begin_copy_to(memory_->memory(), stream_); }
  void to_host() { host_.begin_copy_from(memory_->memory(), stream_); }
  void set() { fill(memory_->memory(), std::vector<std::byte>(4), stream_); }

 private:
  const std::shared_ptr<DeviceBuffer> memory_;
  PinnedMemory host_;
  const Stream stream_;
};

TEST_F(Cupti, ARecordingMayBeginWithAnAsynchronousCopyOrAMemset) {
  FakeDriver fake;
  const FakeCupti cupti(fake);
  const Device device(0);
  device.activate();
  AsynchronousMoves moves(device);
  int recordings = 0;
  for (const auto move :
       {&AsynchronousMoves::to_device, &AsynchronousMoves::to_host, &AsynchronousMoves::set}) {
    timeline::start_collecting(10'000);
    (moves.*move)();
    fake.clear_log();
    timeline::stop_collecting();
    EXPECT_EQ(cupti.subscribed, ++recordings);
    EXPECT_GT(fake.count("cuStreamSynchronize"), 0) << recordings;  // the device is waited for
  }
}

const Profile::Row& row_of(const Profile& profile, const std::string& name) {
  for (const Profile::Row& row : profile.rows)
    if (row.name == name) return row;
  throw std::runtime_error("no row " + name);
}

TEST_F(Cupti, CopiesAreTimedByTheClockWhereItDoesNotRecord) {
  FakeDriver fake;
  FakeCupti cupti(fake);
  cupti.subscribe_status = 39;
  const Device device(0);
  const Literal value = numbers(1);
  timeline::start_collecting(10'000);
  uploaded(value, device)->to_host();
  const Profile p = profiling::summary(timeline::stop_collecting());
  EXPECT_EQ(p.device, "cuda:0");
  EXPECT_EQ(p.source, "timers");
  for (const char* name : {"copy to the device", "copy to the host"}) {
    EXPECT_EQ(row_of(p, name).bytes, static_cast<std::int64_t>(value.byte_size())) << name;
    EXPECT_EQ(row_of(p, name).calls, 1) << name;
  }
}

TEST_F(Cupti, AsynchronousMovesAreTimedByTheClockWhereItDoesNotRecord) {
  FakeDriver fake;
  FakeCupti cupti(fake);
  cupti.subscribe_status = kMultipleSubscribers;
  const Device device(0);
  device.activate();
  AsynchronousMoves moves(device);
  timeline::start_collecting(10'000);
  fake.clear_log();
  moves.to_device();
  moves.to_host();
  moves.set();
  EXPECT_EQ(fake.count("cuStreamSynchronize"), 3);  // the times are of the work
  const Profile p = profiling::summary(timeline::stop_collecting());
  for (const char* name : {"copy to the device", "copy to the host", "memset"}) {
    EXPECT_EQ(row_of(p, name).bytes, kLength * 4) << name;
    EXPECT_EQ(row_of(p, name).calls, 1) << name;
  }
}

// By its name it is no copy on the device, whose memory would be read and written.
TEST_F(Cupti, ACopyFromAnotherGpuHasTheNameOfItsRecordsWhereItDoesNotRecord) {
  FakeDriver fake({FakeGpu{}, FakeGpu{}});
  FakeCupti cupti(fake);
  cupti.subscribe_status = kMultipleSubscribers;
  const Device here(0), there(1);
  const runtime::BufferRef x = uploaded(numbers(1), there);
  timeline::start_collecting(10'000);
  const runtime::BufferRef y = copied(*x, here);
  copied(*y, here);
  const Profile p = profiling::summary(timeline::stop_collecting());
  EXPECT_EQ(row_of(p, "copy from cuda:1 to cuda:0").device, "cuda:0");
  EXPECT_EQ(row_of(p, "copy from cuda:1 to cuda:0").calls, 1);
}

// A graph that is captured once runs many times; a loop's body is captured as often as it runs in a launch; a
// step may make several kernels, and a memset before them; and what is captured may be made ready twice.
TEST_F(Cupti, ACallIsCountedEachTimeItsGraphRuns) {
  constexpr int kLength = 3, kLaunches = 5;
  constexpr const char* kDetails = R"({"kind":"library","ran":"it","dtype":"f32","bytes":100,"flops":7})";
  FakeDriver fake;
  FakeCupti cupti(fake);
  const Device device(0);
  timeline::start_collecting(10'000);
  device.activate();
  const auto make = [&](const char* label, int kernels) {
    const cupti::Step step(label, kDetails);
    for (int i = 0; i < kernels; ++i) cupti.launch();
  };
  cupti.plays = true;
  for (int i = 0; i < 2; ++i) make("direct", 3);
  cupti.plays = false;
  std::uint32_t launch = 1'000'000;
  cupti.begin_capture();
  make("once", 1);
  {
    const cupti::Step loop("scan", R"({"kind":"scan"})");
    for (int i = 0; i < kLength; ++i) {
      make("body", 1);
      make("body of several", 4);
    }
  }
  make("after a memset", 2);
  const std::size_t memset_at = 1 + 5 * kLength;
  for (int graphs = 0; graphs < 2; ++graphs) {
    cupti.instantiate();
    ASSERT_EQ(cupti.nodes.size(), memset_at + 2);
    for (int i = 0; i < kLaunches; ++i, ++launch) {
      for (std::size_t n = 0; n < cupti.nodes.size(); ++n)
        if (n == memset_at)
          cupti.add_memset(timeline::now(), 10, launch, cupti.nodes[n]);
        else
          cupti.add_kernel(timeline::now(), 10, launch, cupti.nodes[n]);
      cupti.flush();  // a buffer may end anywhere
    }
  }
  const Profile p = profiling::summary(timeline::stop_collecting());
  EXPECT_EQ(row_of(p, "direct").calls, 2);
  EXPECT_EQ(row_of(p, "direct").launched.at(0).calls, 2 * 3);
  EXPECT_EQ(row_of(p, "once").calls, 2 * kLaunches);
  EXPECT_EQ(row_of(p, "body").calls, 2 * kLaunches * kLength);
  EXPECT_EQ(row_of(p, "body of several").calls, 2 * kLaunches * kLength);
  EXPECT_EQ(row_of(p, "body of several").launched.at(0).calls, 2 * kLaunches * kLength * 4);
  int after_memset = 0;
  for (const Profile::Row& row : p.rows)
    if (row.name == "after a memset") {
      EXPECT_EQ(row.calls, 2 * kLaunches) << row.kind;
      ++after_memset;
    }
  EXPECT_EQ(after_memset, 2);
  const Profile::Row& body = row_of(p, "body");  // 10 ns and 100 bytes each
  EXPECT_NEAR(body.bytes_per_second(), 10e9, 1);
}

TEST_F(Cupti, ALoopsBodyIsCalledAsOftenAsItRunsInEveryLaunch) {
  SYSTOLE_NEEDS_NVRTC();
  constexpr int kLength = 3, kRuns = 6;
  const ir::Graph graph = ir::parse(R"(systole.ir 1
graph @body(%carry: f32[256,256], %x: f32[256,256]) {
  %s = add(%carry, %x)
  %t = tanh(%s)
  return %t, %s
}
graph @main(%a: f32[256,256], %xs: f32[3,256,256]) {
  %c, %all = scan(%a, %xs) {length=3, carries=1, xs=1, reverse=false} @body : f32[256,256], f32[3,256,256]
  return %c, %all
}
)");
  FakeDriver fake;
  fake.set_kernel(0, [](FakeLaunch&) {});
  FakeCupti cupti(fake);
  cupti.plays = true;
  const Device device(0);
  const auto session = make_session(make_module(device, graph, {}));
  runtime::RunArguments arguments;
  arguments.per_device = {{uploaded(Literal(Type{DType::f32, {256, 256}}), device),
                           uploaded(Literal(Type{DType::f32, {3, 256, 256}}), device)}};
  session->run(arguments);
  timeline::start_collecting(10'000);
  for (int i = 0; i < kRuns; ++i) session->run(arguments);
  timeline::Collected all = timeline::stop_collecting();
  std::erase_if(all.events, [&](const auto& event) { return all.texts[event.category] != "gpu"; });
  const Profile p = profiling::summary(std::move(all));
  EXPECT_EQ(fake.count("cuGraphLaunch"), kRuns);
  int rows = 0;
  for (const Profile::Row& row : p.rows)
    if (row.kind != "copy" && row.kind != "memset") {
      EXPECT_EQ(row.calls, kLength * kRuns) << row.name;
      ++rows;
    }
  EXPECT_GE(rows, 1);
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

// Bytes per second by this many calls are what memory or caches may do; by too few they would be far below.
void expect_sane_rates(const Profile& p) {
  for (const Profile::Row& row : p.rows) {
    if (row.kind == "copy" || row.kind == "memset" || row.bytes < (1 << 20)) continue;
    EXPECT_GT(row.bytes_per_second(), 1e10) << row.name;
    EXPECT_LT(row.bytes_per_second(), 3e13) << row.name;
  }
}

std::string refusal_of(const Profile& p) {
  return p.source == "CUPTI" ? "" : "times are by " + p.source + ", not CUPTI's";
}

TEST_F(CuptiOnGpu, AProfileCountsTheCallsOfAGraphThatIsLaunchedManyTimes) {
  constexpr int kRuns = 50;
  const DeviceScope scope("cuda");
  const Tensor x = ones({2048, 2048}).eval(), w = full({2048, 2048}, 0.001).eval();
  const auto f =
      systole::compile([](const Tensor& a, const Tensor& b) { return sum(exp(matmul(a, b)), {1}); });
  Tensor y;
  const Profile p = profile([&] { y = f(x, w).eval(); }, {.steps = kRuns});
  if (const std::string reason = refusal_of(p); !reason.empty()) GTEST_SKIP() << reason;
  ASSERT_FALSE(p.rows.empty());
  for (const Profile::Row& row : p.rows) {
    if (row.kind == "copy" || row.kind == "memset") continue;
    EXPECT_EQ(row.calls, kRuns) << row.name << '\n' << p.table();
    EXPECT_LE(row.share_of_roof(), 3) << row.name;  // caches are faster than memory
  }
  expect_sane_rates(p);
}

// "cublasLt.matmul k1_0_4 dot_general": of the first program of step 1, a loop.
bool is_of_a_body(const std::string& name) {
  static const std::regex pattern(R"((^| )k\d+_0_\d+( |$))");
  return std::regex_search(name, pattern);
}

TEST_F(CuptiOnGpu, AProfileCountsTheCallsOfALoopsBody) {
  constexpr int kRuns = 20, kLength = 7;
  const DeviceScope scope("cuda");
  const Tensor xs = full({kLength, 1024, 1024}, 0.5).eval(), w = full({1024, 1024}, 0.001).eval();
  const auto f = systole::compile([w](const Tensor& x) { return sum(exp(matmul(tanh(x), w)), {1}); });
  Tensor y;
  const Profile p = profile([&] { y = f.many(xs).eval(); }, {.steps = kRuns});
  if (const std::string reason = refusal_of(p); !reason.empty()) GTEST_SKIP() << reason;
  int bodies = 0;
  for (const Profile::Row& row : p.rows) {
    if (row.kind == "copy" || row.kind == "memset") continue;
    if (!is_of_a_body(row.name)) continue;
    EXPECT_EQ(row.calls, kRuns * kLength) << row.name << '\n' << p.table();
    ++bodies;
  }
  EXPECT_GE(bodies, 1) << p.table();
  expect_sane_rates(p);
}

// Two launches of 4 steps an epoch, and a step of a smaller batch, which is another program.
TEST_F(CuptiOnGpu, ATrainingIsRecordedWhenAllIsCaptured) {
  const DeviceScope scope("cuda");
  const Points data = points(260);
  Net net = seeded_net();
  training::Trainer trainer(net, optim::Adam(net), {.loss = "cross_entropy"});
  Profile p;
  trainer.fit(data::arrays(data.x, data.y),
              {.epochs = 1000,
               .batch = 32,
               .verbose = 0,
               .callbacks = {training::profile_steps({.folder = {},
                                                      .steps = 8,
                                                      .stop = true,
                                                      .done = [&](const Profile& made) { p = made; },
                                                      .profile = {.roof = false}})},
               .steps_per_call = 4});
  if (const std::string reason = refusal_of(p); !reason.empty()) GTEST_SKIP() << reason;
  EXPECT_EQ(p.steps, 8);
  for (const Profile::Span& span : p.spans())
    EXPECT_NE(span.category, "compile") << span.name << " at " << span.begin;
  int bodies = 0;
  for (const Profile::Row& row : p.rows) {
    if (row.kind == "copy" || row.kind == "memset" || !is_of_a_body(row.name)) continue;
    EXPECT_EQ(row.calls, 8) << row.name << '\n' << p.table();
    ++bodies;
  }
  EXPECT_GE(bodies, 1) << p.table();
  EXPECT_LT(p.slowdown(), 20);  // of two launches; with a compilation in either it would be hundreds
  EXPECT_GT(p.slowdown(), 0.05);
}

}  // namespace
}  // namespace systole::cuda
