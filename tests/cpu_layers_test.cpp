// Layers on the processor: means over windows by oneDNN, and that what it would do otherwise than the graph
// says is left to generated kernels. Wanted numbers come from plain loops here.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/executor.h"
#include "backend/cpu/onednn.h"
#include "graph_arguments.h"
#include "systole/compile.h"
#include "systole/ops.h"

namespace systole::cpu {
namespace {

using ir::Graph;
using ir::Value;

class Layers : public testing::Test {
 protected:
  void SetUp() override {
    if (!onednn_absence().empty()) GTEST_SKIP() << onednn_absence();
  }
};

std::string library_calls(const Graph& graph) {
  std::string names;
  const std::shared_ptr<const Module> module = make_module(graph);
  for (const lower::Step& step : module->program.steps)
    if (step.kind == lower::StepKind::library) names += (names.empty() ? "" : " ") + step.implementation;
  return names;
}

struct Windows {
  std::int64_t batch, image, channels, window, stride, padding;
  bool counts_padding = true;

  std::int64_t result() const { return (image + 2 * padding - window) / stride + 1; }
  Type x() const { return {DType::f32, {batch, image, image, channels}}; }
  std::vector<double> means(std::span<const float> x) const {
    std::vector<double> out;
    const std::int64_t size = result();
    for (std::int64_t p = 0; p < batch * size * size * channels; ++p) {
      const std::int64_t c = p % channels, column = p / channels % size, row = p / channels / size % size,
                         n = p / channels / size / size;
      double sum = 0;
      std::int64_t inside = 0;
      for (std::int64_t i = 0; i < window; ++i)
        for (std::int64_t j = 0; j < window; ++j) {
          const std::int64_t y = row * stride - padding + i, z = column * stride - padding + j;
          if (y < 0 || y >= image || z < 0 || z >= image) continue;
          ++inside;
          sum +=
              static_cast<double>(x[static_cast<std::size_t>(((n * image + y) * image + z) * channels + c)]);
        }
      out.push_back(sum / static_cast<double>(counts_padding ? window * window : inside));
    }
    return out;
  }
};

TEST_F(Layers, MeansOverWindowsAreTaken) {
  for (const Windows& w : {Windows{2, 8, 16, 2, 2, 0}, Windows{3, 9, 5, 3, 2, 1}, Windows{1, 7, 33, 7, 1, 0},
                           Windows{2, 10, 7, 3, 1, 1, false}, Windows{2, 11, 3, 4, 3, 2, false}}) {
    SCOPED_TRACE(testing::Message() << w.image << " " << w.window << " " << w.padding);
    Graph graph("main");
    const Value x = graph.input("x", w.x());
    graph.output(ops::avg_pool(x, {w.window, w.window}, {w.stride, w.stride}, {w.padding, w.padding},
                               {w.padding, w.padding}, w.counts_padding),
                 "y");
    EXPECT_EQ(library_calls(graph), "onednn.pooling");
    const std::vector<Literal> arguments = random_arguments(graph, 1, 1);
    const std::vector<double> got = compile(graph, "cpu").run(arguments)[0].to_doubles(),
                              wanted = w.means(arguments[0].values<float>());
    ASSERT_EQ(got.size(), wanted.size());
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], wanted[i], 1e-6) << i;
  }
}

TEST_F(Layers, AMeanOfWhatIsNotANumberIsNone) {
  const Windows w{1, 8, 4, 2, 2, 0};
  Graph graph("main");
  graph.output(ops::avg_pool(graph.input("x", w.x()), {2, 2}, {2, 2}), "y");
  Literal x = Literal::full(w.x(), 1);
  x.mutable_values<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<double> got = compile(graph, "cpu").run({x})[0].to_doubles();
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(std::isnan(got[i]), i == 0) << i;
}

// Which oneDNN would pass over.
TEST_F(Layers, AMaximumOfWhatIsNotANumberIsNone) {
  const Windows w{2, 8, 16, 2, 2, 0};
  Graph graph("main");
  graph.output(ops::max_pool(graph.input("x", w.x()), {2, 2}, {2, 2}), "y");
  EXPECT_EQ(library_calls(graph), "");
  Literal x = Literal::full(w.x(), 1);
  x.mutable_values<float>()[16] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<double> got = compile(graph, "cpu").run({x})[0].to_doubles();
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(std::isnan(got[i]), i == 0) << i;
}

// Equal numbers are the hardest: within the 4·eps·√count that is promised, which oneDNN's would miss.
TEST_F(Layers, StatisticsOfLongBatchesKeepTheirPrecision) {
  const Type type{DType::f32, {32, 32, 32, 16}};
  const double tenth = static_cast<double>(0.1f), count = 32 * 32 * 32, eps = std::ldexp(1.0, -23);
  Graph graph("main");
  const Value x = graph.input("x", type), scale = graph.input("scale", {DType::f32, {16}}),
              bias = graph.input("bias", {DType::f32, {16}});
  graph.output(ops::batch_norm_train(x, scale, bias).mean, "mean");
  EXPECT_EQ(library_calls(graph), "");
  const Literal ones = Literal::full({DType::f32, {16}}, 1);
  for (const double mean :
       compile(graph, "cpu").run({Literal::full(type, tenth), ones, ones})[0].to_doubles())
    EXPECT_NEAR(mean / tenth, 1, 4 * eps * std::sqrt(count));
}

}  // namespace
}  // namespace systole::cpu
