// Tensors on a second device, made for these tests: it runs graphs by the reference backend, fails when told
// to, and notices when a session is entered twice at a time.

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "error_check.h"
#include "systole/tensor/compiled.h"
#include "systole/tensor/creation.h"
#include "systole/tensor/math.h"
#include "systole/tensor/neural.h"
#include "systole/tensor/random.h"
#include "systole/tensor/shaping.h"
#include "systole/tensor/transforms.h"

namespace systole {
namespace {

std::atomic<int> g_failures = 0;  // runs that are still to fail
std::atomic<ErrorKind> g_failure = ErrorKind::kInternal;
std::atomic<bool> g_entered_twice = false;
std::atomic<int> g_copies = 0;                      // between its own devices
std::atomic<int> g_plain = 0, g_deterministic = 0;  // compilations

struct TestBuffer : runtime::Buffer {
  TestBuffer(Literal v, DeviceName d) : value(std::move(v)), name(std::move(d)) {}
  const Type& type() const override { return value.type(); }
  const DeviceName& device() const override { return name; }
  Literal to_host() const override { return value; }
  Literal value;
  DeviceName name;
};

struct TestSession : runtime::Session {
  TestSession(const CompiledGraph& g, DeviceName d) : graph(g), name(std::move(d)) {}
  std::vector<std::vector<runtime::BufferRef>> run(const runtime::RunArguments& arguments) override {
    if (busy.exchange(true)) g_entered_twice = true;
    std::this_thread::yield();
    if (g_failures > 0) {
      --g_failures;
      busy = false;
      throw Error(g_failure, "exp", "the device failed");
    }
    std::vector<Literal> values;
    for (const auto& buffer : arguments.per_device[0]) values.push_back(buffer->to_host());
    std::vector<runtime::BufferRef> results;
    for (Literal& value : graph.run(values))
      results.push_back(std::make_shared<TestBuffer>(std::move(value), name));
    busy = false;
    return {results};
  }
  CompiledGraph graph;
  DeviceName name;
  std::atomic<bool> busy = false;
};

struct TestExecutable : runtime::Executable {
  TestExecutable(CompiledGraph g, DeviceName d) : graph(std::move(g)), name(std::move(d)) {}
  std::unique_ptr<runtime::Session> new_session() const override {
    return std::make_unique<TestSession>(graph, name);
  }
  std::int64_t device_count() const override { return 1; }
  CompiledGraph graph;
  DeviceName name;
};

struct TestBackend : runtime::Backend {
  std::string_view name() const override { return "tester"; }
  std::vector<runtime::DeviceInfo> devices() override {
    return {{device(0), "for tests"}, {device(1), "for tests"}};
  }
  runtime::BufferRef upload(const Literal& value, int ordinal) override {
    return std::make_shared<TestBuffer>(value, device(ordinal));
  }
  runtime::BufferRef copy_from(const runtime::Buffer& buffer, int ordinal) override {
    if (buffer.device().backend == "tester") ++g_copies;
    return Backend::copy_from(buffer, ordinal);
  }
  std::shared_ptr<const runtime::Executable> compile(const ir::Graph& graph, int ordinal,
                                                     const runtime::CompileOptions& options) override {
    ++(options.deterministic ? g_deterministic : g_plain);
    return std::make_shared<TestExecutable>(systole::compile(graph, "reference"), device(ordinal));
  }
  std::string refusal(ir::Op) const override { return {}; }
  static DeviceName device(int ordinal) { return {"tester", {}, ordinal}; }
};

class TensorDevice : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    runtime::register_backend("tester", 1000,
                              [] { return std::unique_ptr<runtime::Backend>(new TestBackend); });
  }
  void SetUp() override { g_failures = 0; }

 private:
  const DeviceScope home_{"reference"};
};

TEST_F(TensorDevice, ValuesAreMadeInTheScopeAndResultsFollowTheirOperands) {
  Tensor x;
  {
    const DeviceScope scope("Tester:1");
    x = tensor({1.f, 2.f});
    EXPECT_EQ(current_device().to_string(), "tester:1");
  }
  EXPECT_EQ(current_device().to_string(), "reference");
  const Tensor y = (x * 2 + 1).eval();
  EXPECT_EQ(y.device().to_string(), "tester:1");
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{3, 5}));
}

TEST_F(TensorDevice, OperandsOnTwoDevicesAreAnErrorThatNamesBoth) {
  const Tensor here = tensor({1.f}), there = here.to("tester");
  const std::string message = error_of(ErrorKind::kInvalidArgument, [&] { here + there; });
  EXPECT_NE(message.find("reference"), std::string::npos) << message;
  EXPECT_NE(message.find("tester:0"), std::string::npos) << message;
  EXPECT_EQ((here.to("tester") + there).item<float>(), 2);
}

TEST_F(TensorDevice, ABackendMovesBetweenItsOwnDevices) {
  g_copies = 0;
  const Tensor x = tensor({1.f, 2.f}).to("tester:0");
  EXPECT_EQ(g_copies, 0);
  const Tensor y = x.to("TESTER:1");
  EXPECT_EQ(g_copies, 1);
  EXPECT_EQ(y.device().to_string(), "tester:1");
  EXPECT_EQ(y.to("tester:1").to("reference").to_vector<float>(), (std::vector<float>{1, 2}));
  EXPECT_EQ(g_copies, 1);
}

TEST_F(TensorDevice, ValuesAndFunctionsAreCompiledAsDeterministicAsIsAskedNow) {
  const Tensor x = tensor({0.125f}).to("tester");
  const auto value = [&] { return (x * x * x).item<float>(); };
  const auto f = compile([](const Tensor& a) { return a * a; });
  const auto always = compile([](const Tensor& a) { return a * a * 3; }, {.deterministic = true});
  g_plain = g_deterministic = 0;
  for (const bool on : {false, true, false, true}) {  // the second time both are known
    set_deterministic(on);
    value();
    f(x).item<float>();
    always(x).item<float>();
  }
  set_deterministic(false);
  EXPECT_EQ(g_plain, 2);
  EXPECT_EQ(g_deterministic, 3);
}

TEST_F(TensorDevice, CompiledFunctionsRunWhereTheirVariablesAre) {
  Variable w(tensor({1.f, 2.f}));
  w.move_to("tester:1");
  const auto f = compile([&](const Tensor& x) {
    w.assign(w + x);
    return w * 2;
  });
  EXPECT_EQ(f(1.f).device().to_string(), "tester:1");
  EXPECT_EQ(w.value().device().to_string(), "tester:1");
  const auto g = compile([](const Tensor& x) { return x + 1; }, {.device = "tester"});
  EXPECT_EQ(g(tensor({1.f})).device().to_string(), "tester:0");
}

TEST_F(TensorDevice, ACompiledFunctionNamesTheValueOnAnotherDevice) {
  Variable w(tensor({1.f, 2.f}), "scale"), v(tensor({1.f, 2.f}), "shift");
  w.move_to("tester:1");
  const auto by_argument = compile([&](const Tensor& x) { return w * x; }, {.name = "scaled"});
  std::string message = error_of(ErrorKind::kInvalidArgument, [&] { by_argument(tensor({1.f, 1.f})); });
  for (const char* part : {"scaled", "all on tester:1, as Variable \"scale\" is", "argument 0 on reference",
                           "FunctionOptions::device"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
  const auto by_variable = compile([&](const Tensor& x) {
    const Tensor scaled = w * x;
    return scaled + v;
  });
  message = error_of(ErrorKind::kInvalidArgument, [&] { by_variable(2.f); });
  EXPECT_NE(message.find("Variable \"shift\" on reference"), std::string::npos) << message;
  // A random number comes along from wherever its key is.
  const auto noisy =
      compile([&](const Tensor& x) { return w * x + random::normal(random::next_key(), {2}); });
  EXPECT_EQ(noisy(2.f).device().to_string(), "tester:1");
}

TEST_F(TensorDevice, OneEvaluationMayUseTwoDevices) {
  const Tensor a = tensor({1.f}).to("tester:0") + 1, b = tensor({1.f}).to("tester:1") + 1;
  evaluate(a, b);
  EXPECT_EQ(a.device().to_string(), "tester:0");
  EXPECT_EQ(a.literal().item<float>(), 2);
  EXPECT_EQ(b.device().to_string(), "tester:1");
}

TEST_F(TensorDevice, VariablesAreMadeInTheScopeAndNumbersGoWhereTheirCompanyIs) {
  Variable v, s;
  {
    const DeviceScope scope("tester:1");
    v = Variable(zeros({2}));
    s = Variable(Tensor(1.f));
  }
  EXPECT_EQ(v.value().device().to_string(), "tester:1");
  EXPECT_EQ(s.value().device().to_string(), "tester:1");
  EXPECT_EQ((v + arange(2).to(DType::f32)).device().to_string(), "tester:1");
  const Tensor x = reshape(arange(64.f), {1, 8, 8, 1}).to("tester:1");
  EXPECT_EQ(adaptive_avg_pool2d(x, 3).eval().device().to_string(), "tester:1");  // has a large constant
}

TEST_F(TensorDevice, AFailedRunLeavesAloneWhatItOnlyComputedAlong) {
  const DeviceScope scope("tester");
  Variable w(tensor({1.f}));
  w.assign(w * 2);
  g_failures = 1;
  g_failure = ErrorKind::kOutOfMemory;
  error_of(ErrorKind::kOutOfMemory, [&] { (w + 1).eval(); });
  EXPECT_EQ(w.item<float>(), 2);
}

TEST_F(TensorDevice, AFailedRunPoisonsItsOutputs) {
  const DeviceScope scope("tester");
  const Tensor x = tensor({1.f});
  const Tensor y = exp(x);
  const Tensor later = y + 1;
  g_failures = 1;
  g_failure = ErrorKind::kContextLost;
  EXPECT_NE(error_of(ErrorKind::kContextLost, [&] { y.eval(); }).find("exp"), std::string::npos);
  EXPECT_NE(error_of(ErrorKind::kContextLost, [&] { y.item<float>(); }).find("exp"), std::string::npos);
  error_of(ErrorKind::kContextLost, [&] { later.item<float>(); });
  error_of(ErrorKind::kContextLost, [&] { (y * 2).eval(); });
  EXPECT_NEAR(exp(x).item<float>(), 2.718282f, 1e-5);  // other work goes on
}

TEST_F(TensorDevice, ACompiledFunctionThatFailsCanBeCalledAgain) {
  const DeviceScope scope("tester");
  Variable w(tensor({1.f}));
  const auto step = compile([&] { w.assign(w + 1); });
  step();
  g_failures = 1;
  g_failure = ErrorKind::kOutOfMemory;
  error_of(ErrorKind::kOutOfMemory, step);
  step();
  EXPECT_EQ(w.item<float>(), 3);
}

TEST_F(TensorDevice, ConcurrentCallsHaveASessionEach) {
  const DeviceScope scope("tester");
  const Tensor x = tensor({1.f, 2.f});
  const auto f = compile([](const Tensor& v) { return v * v; });
  f(x);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        f(x).eval();
        (x + 1).eval();
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_FALSE(g_entered_twice);
}

TEST_F(TensorDevice, TransformsKeepTheDevice) {
  const Tensor x = tensor({3.f}).to("tester");
  EXPECT_EQ(grad([](const Tensor& v) { return sum(v * v); })(x).device().to_string(), "tester:0");
}

// More than any address space, so that no system promises it.
TEST(TensorMemory, TooLargeAResultNamesTheOpAndPoisons) {
  const DeviceScope device("reference");
  const Tensor x = zeros({1LL << 50}, DType::u8);
  EXPECT_NE(error_of(ErrorKind::kOutOfMemory, [&] { x.eval(); }).find("broadcast"), std::string::npos);
  error_of(ErrorKind::kOutOfMemory, [&] { (x + 1).eval(); });
}

TEST(TensorMemory, AVariableLostInAFailedRunSaysWhy) {
  const DeviceScope device("reference");
  Variable w(tensor({1.f}));
  const auto step = compile([&] {
    w.assign(w + 1);
    return zeros({1LL << 50}, DType::u8) + w.to(DType::u8);
  });
  error_of(ErrorKind::kOutOfMemory, step);
  error_of(ErrorKind::kOutOfMemory, [&] { w.item<float>(); });
  w.assign(tensor({2.f}));
  EXPECT_EQ(w.item<float>(), 2);
}

}  // namespace
}  // namespace systole
