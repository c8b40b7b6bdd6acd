// Device names, the registry, the executable cache and CompiledGraph, on backends made for the test: one that
// counts and evaluates, one that fails, one that is not there.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "eval/eval.h"
#include "runtime/cache.h"
#include "systole/base/error.h"
#include "systole/ir/text.h"
#include "systole/runtime.h"

namespace systole {
namespace {

using namespace std::chrono_literals;

// What the fake backends saw.
struct Counts {
  std::atomic<int> made{0}, compiled{0}, sessions{0}, failures_left{0}, failing_runs_left{0};
  std::function<void(std::vector<std::vector<Literal>>&)> spoil;  // the results of a run
};
Counts counts;

class FakeBuffer : public runtime::Buffer {
 public:
  FakeBuffer(Literal value, int ordinal) : value_(std::move(value)), device_{"fake", "", ordinal} {}
  const Type& type() const override { return value_.type(); }
  const DeviceName& device() const override { return device_; }
  Literal to_host() const override { return value_; }

 private:
  Literal value_;
  DeviceName device_;
};

class FakeSession : public runtime::Session {
 public:
  explicit FakeSession(const ir::Graph& graph) : graph_(graph) {}
  // Every device sums what it got with its own number, so that a mix-up shows; without a mesh it evaluates.
  std::vector<std::vector<runtime::BufferRef>> run(const runtime::RunArguments& arguments) override {
    EXPECT_FALSE(busy_.exchange(true)) << "two runs in one session";
    if (counts.failing_runs_left > 0 && counts.failing_runs_left-- > 0)
      throw Error(ErrorKind::kContextLost, "fake", "the run failed");
    std::vector<std::vector<Literal>> results;
    for (std::size_t d = 0; d < arguments.per_device.size(); ++d) {
      std::vector<Literal> values;
      for (const runtime::BufferRef& b : arguments.per_device[d]) {
        EXPECT_EQ(b->device().ordinal, static_cast<int>(d));
        values.push_back(b->to_host());
      }
      results.emplace_back();
      if (graph_.mesh())
        results.back().push_back(Literal::scalar(values[0].item<float>() + static_cast<float>(100 * d)));
      else
        results.back() = eval::evaluate(graph_, values);
    }
    if (counts.spoil) counts.spoil(results);
    std::vector<std::vector<runtime::BufferRef>> buffers;
    for (const std::vector<Literal>& list : results) {
      buffers.emplace_back();
      for (const Literal& v : list) buffers.back().push_back(std::make_shared<FakeBuffer>(v, 0));
    }
    busy_ = false;
    return buffers;
  }

 private:
  ir::Graph graph_;
  std::atomic<bool> busy_{false};
};

class FakeExecutable : public runtime::Executable {
 public:
  explicit FakeExecutable(const ir::Graph& graph) : graph_(graph) {}
  std::unique_ptr<runtime::Session> new_session() const override {
    ++counts.sessions;
    return std::make_unique<FakeSession>(graph_);
  }
  std::int64_t device_count() const override { return graph_.mesh() ? graph_.mesh()->size() : 1; }

 private:
  ir::Graph graph_;
};

class FakeBackend : public runtime::Backend {
 public:
  FakeBackend() { ++counts.made; }
  std::string_view name() const override { return "fake"; }
  std::vector<runtime::DeviceInfo> devices() override {
    return {{{"fake", "", 0}, "for tests"}, {{"fake", "", 1}, "for tests"}};
  }
  runtime::BufferRef upload(const Literal& value, int ordinal) override {
    return std::make_shared<FakeBuffer>(value, ordinal);
  }
  std::shared_ptr<const runtime::Executable> compile(const ir::Graph& graph, int,
                                                     const runtime::CompileOptions&) override {
    ++counts.compiled;
    std::this_thread::sleep_for(5ms);  // long enough for other threads to ask meanwhile
    if (counts.failures_left > 0 && counts.failures_left-- > 0)
      throw Error(ErrorKind::kUnsupported, "fake", "not today");
    return std::make_shared<FakeExecutable>(graph);
  }
  std::string refusal(ir::Op) const override { return {}; }
};

class AbsentBackend : public FakeBackend {
 public:
  std::vector<runtime::DeviceInfo> devices() override { return {}; }
  std::string unavailable_reason() override { return "no driver was found"; }
};

class Runtime : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    static const bool once = [] {
      runtime::register_backend(
          "fake", 5000, [] { return std::unique_ptr<runtime::Backend>(std::make_unique<FakeBackend>()); });
      runtime::register_backend("absent", -100, [] {
        return std::unique_ptr<runtime::Backend>(std::make_unique<AbsentBackend>());
      });
      runtime::register_backend("pjrt:toy", 9000, []() -> std::unique_ptr<runtime::Backend> {
        throw Error(ErrorKind::kUnsupported, "plugin toy", "cannot be loaded");
      });
      return true;
    }();
    ASSERT_TRUE(once);
  }
};

std::string error_of(const std::function<void()>& f, ErrorKind kind) {
  try {
    f();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

void expect_parts(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << "\"" << part << "\" not in: " << text;
}

// x · number + w, distinct for each number.
ir::Graph affine(float number) {
  ir::Graph graph("affine");
  const ir::Value x = graph.input("x", {DType::f32, {2}}), w = graph.input("w", {DType::f32, {2}});
  const ir::Value c = graph.constant(Literal::of<float>({2}, {number, number}));
  graph.output(graph.add(ir::Op::add, {graph.add(ir::Op::mul, {x, c}), w}), "y");
  return graph;
}

const Literal kOnes = Literal::of<float>({2}, {1, 1});

// The sum of a graph has the dtype that the graph says, whatever the functions of Tensors make of it.
TEST(Compile, ASumOfSmallIntegersKeepsItsDtypeAndWraps) {
  const ir::Graph graph = ir::parse(R"(systole.ir 1
graph @main(%x: u8[2]) {
  %y = reduce(%x) {kind=sum, axes=[0]}
  return y: %y
}
)");
  for (const char* device : {"reference", "cpu"}) {
    const Literal sum = compile(graph, device).run({Literal::of<std::uint8_t>({2}, {200, 201})})[0];
    EXPECT_EQ(sum.type().to_string(), "u8[]") << device;
    EXPECT_EQ(sum.item<std::uint8_t>(), 145) << device;  // 401 - 256
  }
}

TEST(DeviceNames, AliasesAndCasesMeanTheSameDevice) {
  const struct {
    const char* text;
    DeviceName wanted;
    const char* printed;
  } table[] = {
      {"cpu", {"cpu", "", 0}, "cpu"},
      {"CPU:0", {"cpu", "", 0}, "cpu"},
      {"cpu:1", {"cpu", "", 1}, "cpu:1"},
      {"gpu", {"cuda", "", 0}, "cuda:0"},
      {"/gpu:0", {"cuda", "", 0}, "cuda:0"},
      {"/device:GPU:3", {"cuda", "", 3}, "cuda:3"},
      {"cuda", {"cuda", "", 0}, "cuda:0"},
      {"CUDA:1", {"cuda", "", 1}, "cuda:1"},
      {"tpu:0", {"tpu", "", 0}, "tpu:0"},
      {"TPU", {"tpu", "", 0}, "tpu:0"},
      {"opencl:2", {"opencl", "", 2}, "opencl:2"},
      {"pjrt:cpu", {"pjrt", "cpu", 0}, "pjrt:cpu:0"},
      {"PJRT:Cpu:1", {"pjrt", "cpu", 1}, "pjrt:cpu:1"},
      {"reference", {"reference", "", 0}, "reference"},
      {"Auto", {"auto", "", 0}, "auto"},
      {"my_chip:7", {"my_chip", "", 7}, "my_chip:7"},
  };
  for (const auto& row : table) {
    const DeviceName name = DeviceName::parse(row.text);
    EXPECT_EQ(name, row.wanted) << row.text;
    EXPECT_EQ(name.to_string(), row.printed);
    EXPECT_EQ(DeviceName::parse(name.to_string()), name);
  }
}

TEST(DeviceNames, OtherTextIsRefusedWithTheAcceptedForms) {
  for (const char* text :
       {"", "/", ":", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda:0:0", "cuda:99999999999", "pjrt",
        "pjrt:", "pjrt::0", "pjrt:cpu:0:0", "auto:0", "cu da", "0", "//gpu:0", "cuda :0"})
    expect_parts(error_of([&] { DeviceName::parse(text); }, ErrorKind::kInvalidArgument),
                 {text, "cuda:0", "pjrt:NAME:0", "auto"});
}

TEST_F(Runtime, UnknownDevicesAreNamedWithWhatExists) {
  expect_parts(error_of([] { compile(affine(1), "nonesuch"); }, ErrorKind::kNotFound),
               {"nonesuch", "auto", "fake", "pjrt:toy"});
  expect_parts(error_of([] { compile(affine(1), "fake:2"); }, ErrorKind::kNotFound),
               {"fake:2", "one of fake:0, fake:1"});
  expect_parts(error_of([] { compile(affine(1), "absent"); }, ErrorKind::kUnsupported),
               {"absent", "no driver was found"});
  expect_parts(error_of([] { compile(affine(1), "pjrt:toy"); }, ErrorKind::kUnsupported),
               {"toy", "cannot be loaded"});
  EXPECT_EQ(compile(affine(1), "FAKE:1").device(), (DeviceName{"fake", "", 1}));
}

TEST_F(Runtime, NamesThatAreTakenOrNoNamesCannotBeRegistered) {
  const runtime::BackendFactory factory = [] { return std::unique_ptr<runtime::Backend>(); };
  expect_parts(error_of([&] { runtime::register_backend("fake", 1, factory); }, ErrorKind::kInvalidArgument),
               {"fake", "taken"});
  for (const char* name : {"gpu", "auto", "Fake2", "a b", "fake:1", "pjrt"})
    error_of([&] { runtime::register_backend(name, 1, factory); }, ErrorKind::kInvalidArgument);
}

TEST_F(Runtime, AFactoryCarriesWhatItNeeds) {
  for (const std::string name : {"carrier_a", "carrier_b"})
    runtime::register_backend(name, 8000, [name]() -> std::unique_ptr<runtime::Backend> {
      throw Error(ErrorKind::kUnsupported, name, "made for " + name);
    });
  expect_parts(error_of([] { runtime::backend("carrier_b"); }, ErrorKind::kUnsupported),
               {"made for carrier_b"});
  error_of([] { runtime::register_backend("carrier_c", 8000, nullptr); }, ErrorKind::kInvalidArgument);
}

TEST_F(Runtime, TheMathOfF32IsExactUnlessAskedAndKeptApart) {
  EXPECT_EQ(runtime::CompileOptions().math, runtime::Math::f32);
  ::setenv("SYSTOLE_MATH", "tf32", 1);
  EXPECT_EQ(runtime::CompileOptions().math, runtime::Math::tf32);
  ::setenv("SYSTOLE_MATH", "bf16", 1);
  expect_parts(error_of([] { compile(affine(1), "fake"); }, ErrorKind::kInvalidArgument),
               {"SYSTOLE_MATH", "f32 or tf32", "bf16"});
  ::unsetenv("SYSTOLE_MATH");
  const int before = counts.compiled;
  const CompiledGraph exact = compile(affine(77), "fake"),
                      fast = compile(affine(77), "fake", {.math = runtime::Math::tf32}),
                      again = compile(affine(77), "fake", {.math = runtime::Math::f32});
  EXPECT_EQ(counts.compiled, before + 2);
}

TEST_F(Runtime, DeterminismIsAskedForByTheEnvironmentTheProgramOrACompilationAndKeptApart) {
  EXPECT_FALSE(runtime::CompileOptions().deterministic);
  ::setenv("SYSTOLE_DETERMINISTIC", "1", 1);
  EXPECT_TRUE(runtime::CompileOptions().deterministic);
  set_deterministic(false);
  EXPECT_FALSE(runtime::CompileOptions().deterministic);
  ::unsetenv("SYSTOLE_DETERMINISTIC");
  const int before = counts.compiled;
  const CompiledGraph any = compile(affine(78), "fake");
  set_deterministic(true);
  const CompiledGraph same = compile(affine(78), "fake"),
                      other = compile(affine(78), "fake", {.deterministic = false});
  set_deterministic(false);
  EXPECT_EQ(counts.compiled, before + 2);
}

TEST_F(Runtime, BackendsStandByRankAndAutoTakesTheFirstThatHasADevice) {
  const std::vector<std::string> names = runtime::backend_names();
  ASSERT_GE(names.size(), 3u);
  EXPECT_EQ(names.front(), "absent");
  EXPECT_EQ(names.back(), "pjrt:toy");
  std::vector<std::string> lines;
  set_log_sink([&](LogLevel, std::string_view line) { lines.emplace_back(line); });
  const std::string chosen = compile(affine(1), "auto").device().backend;
  set_log_sink({});
  const auto first = std::find_if(names.begin(), names.end(), [](const std::string& name) {
    return !runtime::backend(name).devices().empty();
  });
  EXPECT_EQ(chosen, *first);
  ASSERT_GE(lines.size(), 2u);
  expect_parts(lines[0], {"absent", "passed over", "no driver was found"});
  for (const runtime::DeviceInfo& device : devices()) EXPECT_NE(device.name.backend, "absent");
  EXPECT_LE(counts.made, 2);  // each once
}

TEST(Log, ASinkMayLogAndReplaceItself) {
  std::vector<std::string> lines;
  set_log_sink([&](LogLevel level, std::string_view line) {
    lines.emplace_back(line);
    if (level == LogLevel::warn) log(LogLevel::info, "from the sink");
    if (line == "last") set_log_sink([](LogLevel, std::string_view) {}, LogLevel::warn);
  });
  log(LogLevel::warn, "first");
  log(LogLevel::debug, "last");
  log(LogLevel::warn, "for the other sink");
  EXPECT_TRUE(log_enabled(LogLevel::warn));
  EXPECT_FALSE(log_enabled(LogLevel::info));
  set_log_sink({});
  EXPECT_EQ(lines, (std::vector<std::string>{"first", "from the sink", "last"}));
}

TEST_F(Runtime, EqualGraphsShareOneCompilation) {
  const int before = counts.compiled;
  const CompiledGraph a = compile(affine(2), "fake");
  ir::Graph renamed = affine(2);
  renamed.set_name("other");
  const CompiledGraph b = compile(renamed, "fake:0");
  EXPECT_EQ(counts.compiled, before + 1);
  compile(affine(3), "fake");
  EXPECT_EQ(counts.compiled, before + 2);
  compile(affine(2), "fake:1");
  EXPECT_EQ(counts.compiled, before + 3);
  compile(affine(2), "fake", {.optimize = false});
  EXPECT_EQ(counts.compiled, before + 4);
  const Literal y = b.run({Literal::of<float>({2}, {1, 2}), Literal::of<float>({2}, {10, 20})})[0];
  EXPECT_TRUE(y.same_bits(Literal::of<float>({2}, {12, 24})));
  EXPECT_EQ(a.inputs()[1].name, "w");
  EXPECT_EQ(a.outputs()[0].name, "y");
}

TEST_F(Runtime, ThreadsThatAskAtOnceCompileOnce) {
  const int before = counts.compiled;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([] {
      const Literal y = compile(affine(4), "fake").run({kOnes, kOnes})[0];
      EXPECT_TRUE(y.same_bits(Literal::of<float>({2}, {5, 5})));
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(counts.compiled, before + 1);
}

TEST_F(Runtime, AFailedCompilationIsTriedAgain) {
  const int before = counts.compiled;
  counts.failures_left = 1;
  expect_parts(error_of([] { compile(affine(5), "fake"); }, ErrorKind::kUnsupported), {"not today"});
  compile(affine(5), "fake");
  EXPECT_EQ(counts.compiled, before + 2);

  // Threads that wait for one that fails get its error; who asks after it tries again.
  counts.failures_left = 1;
  std::atomic<int> errors{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      try {
        compile(affine(6), "fake");
      } catch (const Error&) {
        ++errors;
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_GE(errors, 1);
  compile(affine(6), "fake");
  EXPECT_EQ(counts.compiled, before + 4);
}

TEST(ExecutableCache, KeepsTheRecentAndFindsTheLiving) {
  runtime::ExecutableCache cache(2, 1 << 20);
  int compiled = 0;
  const auto get = [&](float number) {
    const ir::Graph graph = affine(number);
    return cache.find_or_compile(graph, {"fake", "", 0}, {}, [&] {
      ++compiled;
      return std::make_shared<const FakeExecutable>(graph);
    });
  };
  const runtime::ExecutableRef first = get(1);
  get(2);
  get(3);  // lets 1 go, but `first` holds it
  EXPECT_EQ(compiled, 3);
  EXPECT_EQ(get(1), first);  // kept again, which lets 2 go
  EXPECT_EQ(compiled, 3);
  get(3);
  EXPECT_EQ(compiled, 3);
  get(2);
  EXPECT_EQ(compiled, 4);
}

TEST(ExecutableCache, LargeConstantsCountAgainstTheLimit) {
  runtime::ExecutableCache cache(100, 3000);
  int compiled = 0;
  const auto get = [&](float number) {
    ir::Graph graph;
    graph.output(graph.constant(Literal::full({DType::f32, {256}}, number)));  // 1 KiB
    cache.find_or_compile(graph, {"fake", "", 0}, {}, [&] {
      ++compiled;
      return std::make_shared<const FakeExecutable>(graph);
    });
  };
  for (float n : {1, 2, 1, 2}) get(n);
  EXPECT_EQ(compiled, 2);
  get(3);  // three do not fit: 1 goes
  get(2);
  EXPECT_EQ(compiled, 3);
  get(1);
  EXPECT_EQ(compiled, 4);
}

TEST_F(Runtime, ASymbolicBatchIsCompiledOncePerSize) {
  const CompiledGraph twice = compile(
      ir::parse(
          "systole.ir 1\ngraph @twice(%x: f32[N,2], %m: f32[N]) {\n%y = add(%x, %x)\nreturn y: %y\n}\n"),
      "fake");
  const int before = counts.compiled;
  EXPECT_EQ(twice.inputs()[0].type.to_string(), "f32[N,2]");
  for (int round = 0; round < 2; ++round) {
    EXPECT_TRUE(twice.run({Literal::of<float>({1, 2}, {1, 2}), Literal::of<float>({1}, {0})})[0].same_bits(
        Literal::of<float>({1, 2}, {2, 4})));
    EXPECT_TRUE(
        twice.run({Literal::of<float>({3, 2}, {1, 2, 3, 4, 5, 6}), Literal::of<float>({3}, {0, 0, 0})})[0]
            .same_bits(Literal::of<float>({3, 2}, {2, 4, 6, 8, 10, 12})));
  }
  EXPECT_EQ(counts.compiled, before + 2);
  expect_parts(
      error_of([&] { twice.run({Literal::of<float>({1, 2}, {1, 2}), Literal::of<float>({2}, {0, 0})}); },
               ErrorKind::kShape),
      {"m", "N"});
  expect_parts(
      error_of([&] { twice.run({Literal::of<float>({1, 3}, {1, 2, 3}), kOnes}); }, ErrorKind::kShape),
      {"argument 0 (x)", "f32[N,2]", "f32[1,3]"});
  expect_parts(error_of([&] { twice.new_session(); }, ErrorKind::kInvalidArgument),
               {"twice", "bind_symbols"});
}

TEST_F(Runtime, WrongArgumentsAreNamed) {
  const CompiledGraph graph = compile(affine(7), "fake");
  expect_parts(error_of([&] { graph.run({kOnes}); }, ErrorKind::kInvalidArgument),
               {"affine", "2 (x, w)", "got 1"});
  expect_parts(
      error_of([&] { graph.run({kOnes, Literal::of<std::int32_t>({2}, {1, 2})}); }, ErrorKind::kDType),
      {"argument 1 (w)", "dtype", "f32[2]", "i32[2]"});
  expect_parts(error_of([&] { graph.run({Literal::of<float>({3}, {1, 2, 3}), kOnes}); }, ErrorKind::kShape),
               {"argument 0 (x)", "shape", "f32[2]", "f32[3]"});
  expect_parts(error_of([&] { graph.run({Literal::of<float>({2, 1}, {1, 2}), kOnes}); }, ErrorKind::kShape),
               {"f32[2,1]"});
  expect_parts(error_of([] { CompiledGraph().run({}); }, ErrorKind::kInvalidArgument), {"empty"});
}

TEST_F(Runtime, AMeshTakesAListOfArgumentsPerDevice) {
  const CompiledGraph mesh = compile(ir::parse("systole.ir 1\ngraph @mesh(%x: f32[]) mesh(a=3) {\n%y = "
                                               "all_reduce(%x) {kind=sum, mesh_axes=[a]}\nreturn %y\n}\n"),
                                     "fake");
  EXPECT_EQ(mesh.device_count(), 3);
  const std::vector<std::vector<Literal>> lists = {
      {Literal::scalar(1.f)}, {Literal::scalar(2.f)}, {Literal::scalar(3.f)}};
  const std::vector<std::vector<Literal>> results = mesh.run_devices(lists);
  ASSERT_EQ(results.size(), 3u);
  for (std::size_t d = 0; d < 3; ++d)
    EXPECT_EQ(results[d][0].item<float>(), static_cast<float>(d + 1 + 100 * d));
  expect_parts(error_of([&] { mesh.run({Literal::scalar(1.f)}); }, ErrorKind::kInvalidArgument),
               {"run_devices"});
  expect_parts(error_of([&] { mesh.run_devices(std::span(lists).first(2)); }, ErrorKind::kInvalidArgument),
               {"3", "2"});
  const std::vector<std::vector<Literal>> wrong = {{Literal::scalar(1.f)}, {kOnes}, {Literal::scalar(3.f)}};
  expect_parts(error_of([&] { mesh.run_devices(wrong); }, ErrorKind::kShape),
               {"device 1", "argument 0 (x)", "f32[2]"});
}

TEST_F(Runtime, AMeshWhoseCollectivesHaveNoEffectKeepsItsDevices) {
  const CompiledGraph mesh = compile(ir::parse("systole.ir 1\ngraph @mesh(%x: f32[]) mesh(a=1, b=2) {\n%y = "
                                               "all_reduce(%x) {kind=sum, mesh_axes=[a]}\nreturn %y\n}\n"),
                                     "reference");
  EXPECT_EQ(mesh.device_count(), 2);
  const std::vector<std::vector<Literal>> lists = {{Literal::scalar(1.f)}, {Literal::scalar(2.f)}};
  const std::vector<std::vector<Literal>> results = mesh.run_devices(lists);
  EXPECT_EQ(results.at(1).at(0).item<float>(), 2.f);
}

TEST_F(Runtime, ResultsThatAreNotWhatTheGraphSaysAreABugOfTheBackend) {
  using Lists = std::vector<std::vector<Literal>>;
  const auto spoiled = [](const CompiledGraph& graph, std::span<const std::vector<Literal>> arguments,
                          std::function<void(Lists&)> spoil) {
    counts.spoil = std::move(spoil);
    const std::string text = error_of([&] { graph.run_devices(arguments); }, ErrorKind::kInternal);
    counts.spoil = nullptr;
    return text;
  };
  const CompiledGraph graph = compile(affine(10), "fake");
  const Lists ones = {{kOnes, kOnes}};
  expect_parts(spoiled(graph, ones, [](Lists& r) { r[0][0] = Literal::of<double>({2}, {1, 1}); }),
               {"affine", "fake", "output 0 (y)", "f32[2]", "f64[2]"});
  expect_parts(spoiled(graph, ones, [](Lists& r) { r[0][0] = Literal::of<float>({2, 1}, {1, 1}); }),
               {"output 0 (y)", "f32[2]", "f32[2,1]"});
  expect_parts(spoiled(graph, ones, [](Lists& r) { r[0].push_back(kOnes); }),
               {"number of results", "expected 1, got 2"});
  expect_parts(spoiled(graph, ones, [](Lists& r) { r.clear(); }), {"result lists", "expected 1, got 0"});
  EXPECT_TRUE(graph.run({kOnes, kOnes})[0].same_bits(Literal::of<float>({2}, {11, 11})));

  const CompiledGraph symbolic = compile(
      ir::parse("systole.ir 1\ngraph @twice(%x: f32[N]) {\n%y = add(%x, %x)\nreturn y: %y\n}\n"), "fake");
  expect_parts(spoiled(symbolic, Lists{{kOnes}}, [](Lists& r) { r[0][0] = Literal::of<float>({1}, {2}); }),
               {"output 0 (y)", "f32[2]", "f32[1]"});
  const CompiledGraph mesh = compile(ir::parse("systole.ir 1\ngraph @mesh(%x: f32[]) mesh(a=2) {\n%y = "
                                               "all_reduce(%x) {kind=sum, mesh_axes=[a]}\nreturn %y\n}\n"),
                                     "fake");
  const Lists scalars = {{Literal::scalar(1.f)}, {Literal::scalar(2.f)}};
  expect_parts(spoiled(mesh, scalars, [](Lists& r) { r[1][0] = kOnes; }), {"device 1: output 0"});
}

TEST_F(Runtime, RunsReuseSessionsAndConcurrentOnesHaveTheirOwn) {
  const CompiledGraph graph = compile(affine(8), "fake");
  const int before = counts.sessions;
  for (int i = 0; i < 5; ++i) graph.run({kOnes, kOnes});
  EXPECT_EQ(counts.sessions, before + 1);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&graph, t] {
      const auto number = static_cast<float>(t);
      for (int i = 0; i < 50; ++i) {
        const Literal y = graph.run({Literal::of<float>({2}, {number, 0}), kOnes})[0];
        EXPECT_TRUE(y.same_bits(Literal::of<float>({2}, {8 * number + 1, 1})));
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_LE(counts.sessions, before + 8);
}

TEST_F(Runtime, ASessionThatFailedIsNotUsedAgain) {
  const CompiledGraph graph = compile(affine(9), "fake");
  graph.run({kOnes, kOnes});
  const int before = counts.sessions;
  counts.failing_runs_left = 1;
  error_of([&] { graph.run({kOnes, kOnes}); }, ErrorKind::kContextLost);
  EXPECT_TRUE(graph.run({kOnes, kOnes})[0].same_bits(Literal::of<float>({2}, {10, 10})));
  EXPECT_EQ(counts.sessions, before + 1);
}

}  // namespace
}  // namespace systole
