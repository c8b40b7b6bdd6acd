// What a quantised layer does with its i32 sums, by oneDNN along with them or by a kernel behind: the same
// numbers to the last bit, and from weights that are kept in the library's order.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "int8_check.h"
#include "systole/compile.h"
#include "systole/runtime.h"

namespace systole::cpu {
namespace {

// Behind the sums of x and w come scale, bias and what else a quantised layer has.
class Int8Layer : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_onednn()) GTEST_SKIP() << no_onednn();
  }
  static constexpr std::int64_t kRows = 48, kColumns = 72;

  Value scaled(Graph& graph) {
    const Value y = ops::convert(factors_.product(graph), DType::f32);
    const Shape shape = y.shape();
    scale_ = Literal::uninitialized({DType::f32, {kColumns}});
    bias_ = Literal::uninitialized({DType::f32, {kColumns}});
    std::mt19937 random(5);
    for (float& s : scale_.mutable_values<float>()) s = static_cast<float>(random() % 1000 + 1) * 1e-6f;
    for (float& b : bias_.mutable_values<float>()) b = static_cast<float>(random() % 1000) * 0.1f - 50;
    const Value s = graph.input("scale", scale_.type()), b = graph.input("bias", bias_.type());
    return y * ops::broadcast(s, shape, {1}) + ops::broadcast(b, shape, {1});
  }
  std::vector<Literal> arguments() const {
    return {bytes({factors_.a, factors_.a_shape()}, 1), bytes({factors_.b, factors_.b_shape()}, 2), scale_,
            bias_};
  }
  // What scaled() gives.
  std::vector<float> wanted() const {
    const std::vector<Literal> all = arguments();
    std::vector<float> out;
    for (const std::int32_t sum : factors_.sums(all[0], all[1])) {
      const std::size_t n = out.size() % static_cast<std::size_t>(kColumns);
      const float product = static_cast<float>(sum) * scale_.values<float>()[n];
      out.push_back(product + bias_.values<float>()[n]);
    }
    return out;
  }
  template <class T, class Function>
  void expect(const Graph& graph, const std::string& name, const Function& function) {
    EXPECT_EQ(library_calls(graph), name);
    std::vector<T> all;
    for (const float x : wanted()) all.push_back(static_cast<T>(function(x)));
    expect_same(compile(graph, "cpu").run(arguments())[0], all);
  }

  Factors factors_{kRows, 96, kColumns};
  Literal scale_, bias_;
};

TEST_F(Int8Layer, AScaleAndABiasOfTheColumnsComeAlong) {
  Graph graph("main");
  graph.output(scaled(graph), "y");
  expect<float>(graph, "onednn.matmul_int8+mul+add+f32", [](float x) { return x; });
}

TEST_F(Int8Layer, ReluComesAlong) {
  Graph graph("main");
  graph.output(ops::relu(scaled(graph)), "y");
  expect<float>(graph, "onednn.matmul_int8+mul+add+max+f32", [](float x) { return std::max(x, 0.0f); });
}

TEST_F(Int8Layer, RoundingToBytesIsToEvenAndSaturates) {
  Graph graph("main");
  graph.output(ops::convert(ops::round(scaled(graph)), DType::i8), "y");
  expect<std::int8_t>(graph, "onednn.matmul_int8+mul+add+round+i8",
                      [](float x) { return std::clamp(std::nearbyint(x), -128.0f, 127.0f); });
}

// Halves: sums times 0.5.
TEST_F(Int8Layer, HalvesGoToEvenAndAZeroPointIsAddedBehind) {
  Graph graph("main");
  const Value y = ops::convert(factors_.product(graph), DType::f32) * 0.0078125 * 0.5;
  const Value low = ops::scalar_like(y, 3), high = ops::scalar_like(y, 250);
  graph.output(ops::convert(ops::clamp(low, ops::round(y) + 101, high), DType::u8), "y");
  EXPECT_EQ(library_calls(graph).substr(0, 18), "onednn.matmul_int8");
  Literal x = bytes({DType::i8, factors_.a_shape()}, 1), w = bytes({DType::i8, factors_.b_shape()}, 2);
  for (std::int8_t& v : x.mutable_values<std::int8_t>()) v = static_cast<std::int8_t>(v / 16);
  for (std::int8_t& v : w.mutable_values<std::int8_t>()) v = static_cast<std::int8_t>(v / 64 * 16);
  std::vector<std::uint8_t> wanted;
  int halves = 0;
  for (const std::int32_t sum : factors_.sums(x, w)) {
    halves += sum % 256 == 128 || sum % 256 == -128;
    const double rounded = std::nearbyint(sum / 256.0);
    wanted.push_back(static_cast<std::uint8_t>(std::clamp(rounded + 101, 3.0, 250.0)));
  }
  EXPECT_GT(halves, 50);
  expect_same(compile(graph, "cpu").run({x, w})[0], wanted);
}

TEST_F(Int8Layer, QuantisingByADivisionComesAlong) {
  factors_.a = DType::u8;
  Graph graph("main");
  const Value y = scaled(graph);
  graph.output(ops::convert(ops::round(y / 0.3), DType::u8), "y");
  expect<std::uint8_t>(graph, "onednn.matmul_int8+mul+add+div+round+u8",
                       [](float x) { return std::clamp(std::nearbyint(x / 0.3f), 0.0f, 255.0f); });
}

TEST_F(Int8Layer, WhatIsCutOffOrAddedBeforeIsLeftToAKernelBehindTheSums) {
  Graph cut("main");
  cut.output(ops::convert(scaled(cut), DType::i8), "y");
  expect<std::int8_t>(cut, "onednn.matmul_int8",
                      [](float x) { return std::trunc(std::clamp(x, -128.0f, 127.0f)); });
  Graph added("main");
  const Value y = factors_.product(added) + 1000;
  added.output(ops::convert(y, DType::f32) * 0.25, "y");
  EXPECT_EQ(library_calls(added), "onednn.matmul_int8");
  const std::vector<Literal> all = arguments();
  std::vector<float> wanted;
  for (const std::int32_t sum : factors_.sums(all[0], all[1]))
    wanted.push_back(static_cast<float>(sum + 1000) * 0.25f);
  expect_same(compile(added, "cpu").run({all[0], all[1]})[0], wanted);
}

// For which the library has no kernel.
TEST_F(Int8Layer, OneRowIsScaledByAKernelBehindTheSums) {
  factors_ = {1, 512, kColumns};
  Graph graph("main");
  graph.output(ops::convert(ops::round(scaled(graph)), DType::i8), "y");
  expect<std::int8_t>(graph, "onednn.matmul_int8",
                      [](float x) { return std::clamp(std::nearbyint(x), -128.0f, 127.0f); });
}

TEST_F(Int8Layer, ConvolutionsHaveTheSame) {
  const BytesLayer layer{
      .name = "", .batch = 2, .channels = 16, .filters = 24, .image = 10, .window = 3, .padding = 1};
  Graph graph("main");
  const Value y = ops::convert(layer.convolution(graph), DType::f32);
  const Value s = graph.input("scale", {DType::f32, {24}});
  const Value r = ops::relu(y * ops::broadcast(s, y.shape(), {3}));
  graph.output(ops::convert(ops::round(r), DType::i8), "y");
  EXPECT_EQ(library_calls(graph), "onednn.convolution_int8+mul+max+round+i8");
  const Literal x = bytes(layer.x(), 3), w = bytes(layer.w(), 4);
  Literal scale = Literal::uninitialized({DType::f32, {24}});
  for (std::size_t i = 0; i < 24; ++i) scale.mutable_values<float>()[i] = static_cast<float>(i + 1) * 1e-4f;
  std::vector<std::int8_t> wanted;
  for (const std::int32_t sum : layer.sums(x, w)) {
    const float v = static_cast<float>(sum) * scale.values<float>()[wanted.size() % 24];
    wanted.push_back(static_cast<std::int8_t>(std::clamp(std::nearbyint(std::max(v, 0.0f)), 0.0f, 127.0f)));
  }
  expect_same(compile(graph, "cpu").run({x, w, scale})[0], wanted);
}

// A factor that is no number makes 0 of a column of bytes, an infinite one saturates, and keeps 0 · inf out.
TEST_F(Int8Layer, WhatIsNotANumberIsZeroAmongBytes) {
  Graph graph("main");
  graph.output(ops::convert(ops::round(scaled(graph)), DType::i8), "y");
  const CompiledGraph program = compile(graph, "cpu");
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  scale_.mutable_values<float>()[3] = nan;
  scale_.mutable_values<float>()[5] = inf;
  bias_.mutable_values<float>()[7] = -inf;
  std::vector<std::int8_t> all;
  for (const float x : wanted())
    all.push_back(std::isnan(x) ? std::int8_t{0}
                                : static_cast<std::int8_t>(std::clamp(std::nearbyint(x), -128.0f, 127.0f)));
  expect_same(program.run(arguments())[0], all);
}

class Int8Session : public Int8Layer {
 protected:
  // y = round(x·w · scale) as bytes
  Graph graph() {
    Graph graph("main");
    const Value y = ops::convert(factors_.product(graph), DType::f32);
    const Value s = graph.input("scale", {DType::f32, {kColumns}});
    graph.output(ops::convert(ops::round(y * ops::broadcast(s, y.shape(), {1})), DType::i8), "y");
    return graph;
  }
};

// Runs that the library does not do alone stand between.
TEST_F(Int8Session, FactorsThatComeAgainAreKeptAndOthersAreNotTakenForThem) {
  runtime::Backend& cpu = runtime::backend("cpu");
  const std::unique_ptr<runtime::Session> session = cpu.compile(graph(), 0, {})->new_session();
  const Literal x = bytes({DType::i8, factors_.a_shape()}, 1);
  const std::vector<Literal> w = {bytes({DType::i8, factors_.b_shape()}, 2),
                                  bytes({DType::i8, factors_.b_shape()}, 3)};
  const std::vector<float> factors = {1e-3f, std::numeric_limits<float>::infinity()};
  const runtime::BufferRef device_x = cpu.upload(x, 0);
  std::vector<runtime::BufferRef> device_w, device_scale;
  for (const Literal& each : w) device_w.push_back(cpu.upload(each, 0));
  for (const float f : factors)
    device_scale.push_back(cpu.upload(Literal::full({DType::f32, {kColumns}}, f), 0));
  const std::pair<std::size_t, std::size_t> runs[] = {{0, 0}, {0, 0}, {0, 0}, {1, 0}, {1, 0}, {1, 0},
                                                      {0, 0}, {0, 0}, {0, 0}, {1, 1}, {1, 0}, {1, 0},
                                                      {0, 1}, {0, 1}, {0, 0}, {0, 0}, {1, 0}};
  for (const auto& [which, factor] : runs) {
    runtime::RunArguments arguments;
    arguments.per_device.push_back({device_x, device_w[which], device_scale[factor]});
    std::vector<std::int8_t> wanted;
    for (const std::int32_t sum : factors_.sums(x, w[which])) {
      const float v = std::nearbyint(static_cast<float>(sum) * factors[factor]);
      wanted.push_back(std::isnan(v) ? std::int8_t{0}
                                     : static_cast<std::int8_t>(std::clamp(v, -128.0f, 127.0f)));
    }
    expect_same(session->run(arguments)[0][0]->to_host(), wanted);
  }
}

// Which is packed once.
TEST_F(Int8Session, AConstantFactorIsRightInEveryRun) {
  const Literal x = bytes({DType::i8, factors_.a_shape()}, 1), w = bytes({DType::i8, factors_.b_shape()}, 2);
  Graph graph("main");
  graph.output(
      ops::dot_general(graph.input("x", x.type()), ops::constant(graph, w), {1}, {0}, {}, {}, DType::i32),
      "y");
  EXPECT_EQ(library_calls(graph), "onednn.matmul_int8");
  const CompiledGraph program = compile(graph, "cpu");
  for (int i = 0; i < 3; ++i) expect_same(program.run({x})[0], factors_.sums(x, w));
}

TEST_F(Int8Session, TwoThreadsRunAtOneTime) {
  const CompiledGraph program = compile(graph(), "cpu");
  std::vector<std::thread> threads;
  std::vector<std::vector<Literal>> arguments, got(2);
  for (std::uint32_t t = 0; t < 2; ++t)
    arguments.push_back({bytes({DType::i8, factors_.a_shape()}, t), bytes({DType::i8, factors_.b_shape()}, 9),
                         Literal::full({DType::f32, {kColumns}}, 1e-3)});
  for (std::size_t t = 0; t < 2; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) got[t] = program.run(arguments[t]);
    });
  for (std::thread& thread : threads) thread.join();
  for (std::size_t t = 0; t < 2; ++t) {
    std::vector<std::int8_t> wanted;
    for (const std::int32_t sum : factors_.sums(arguments[t][0], arguments[t][1])) {
      const float v = std::nearbyint(static_cast<float>(sum) * 1e-3f);
      wanted.push_back(static_cast<std::int8_t>(std::clamp(v, -128.0f, 127.0f)));
    }
    expect_same(got[t][0], wanted);
  }
}

}  // namespace
}  // namespace systole::cpu
