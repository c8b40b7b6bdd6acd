// The LSTM's own kernels on a GPU whose blocks make clusters: results and gradients against the reference,
// for rows that fill no cluster, several clusters, and as many blocks in one as hidden units ask for.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "backend/cuda/device.h"
#include "backend/cuda/target.h"
#include "compile/program.h"
#include "systole/autodiff.h"
#include "systole/ops.h"
#include "systole/runtime.h"

namespace systole::cuda {

namespace {

using ir::Graph;
using ir::Value;
using runtime::Math;

struct Sizes {
  std::int64_t length, batch, inputs, hidden;
};

// Its results, or a loss that depends on all of them. Recurrent weights are small enough for gates that are
// open.
Graph layer(const Sizes& s, bool is_loss) {
  Graph graph;
  const auto in = [&](Shape shape) { return graph.input({}, {DType::f32, std::move(shape)}); };
  const Value x = in({s.length, s.batch, s.inputs}), h = in({s.batch, s.hidden}), c = in({s.batch, s.hidden});
  const Value w = in({4 * s.hidden, s.inputs}), r = in({4 * s.hidden, s.hidden});
  const Value a = in({4 * s.hidden}), b = in({4 * s.hidden});
  const auto tenth = [](Value v) { return ops::mul(v, ops::scalar_like(v, 0.1)); };
  const auto result = ops::lstm(x, h, c, tenth(w), tenth(r), a, b);
  if (!is_loss) {
    for (const Value& v : {result.y, result.h, result.c}) graph.output(v);
    return graph;
  }
  Value loss = ops::sum(ops::mul(result.y, in({s.length, s.batch, s.hidden})), {0, 1, 2});
  loss = ops::add(loss, ops::sum(ops::mul(result.h, in({s.batch, s.hidden})), {0, 1}));
  graph.output(ops::add(loss, ops::sum(ops::mul(result.c, in({s.batch, s.hidden})), {0, 1})));
  return graph;
}

Literal numbers(const Type& type, std::size_t phase) {
  std::vector<float> values(static_cast<std::size_t>(type.shape.count()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] =
        static_cast<float>(std::sin(0.7 * static_cast<double>(i % 9973) + static_cast<double>(phase)));
  return Literal::of<float>(type.shape, values);
}

std::int64_t own_kernels(const Graph& graph, Math math) {
  const Target target(device_of(0), math);
  const lower::Program program = lower::make_program(lower::prepared(graph, target), target);
  return std::count_if(program.steps.begin(), program.steps.end(),
                       [](const lower::Step& step) { return step.implementation == "systole.lstm"; });
}

class CudaLstm : public ::testing::Test {
 protected:
  void SetUp() override {
    if (all_devices().usable.empty()) GTEST_SKIP() << "no GPU: " << all_devices().left_out;
    device_of(0).activate();
    if (own_kernels(layer({3, 2, 4, 32}, false), Math::tf32) == 0) GTEST_SKIP() << "a GPU without clusters";
  }

  static void expect_as_reference(const Graph& graph) {
    std::vector<Literal> arguments;
    for (std::size_t i = 0; i < graph.inputs().size(); ++i)
      arguments.push_back(numbers(graph.input_type(i), i));
    const std::vector<Literal> wanted = systole::compile(graph, "cpu").run(arguments);
    const CompiledGraph compiled = systole::compile(graph, "cuda:0", {.math = Math::tf32});
    for (int run = 0; run < 3; ++run) {  // step by step, captured, launched
      const std::vector<Literal> got = compiled.run(arguments);
      ASSERT_EQ(got.size(), wanted.size());
      for (std::size_t k = 0; k < got.size(); ++k) {
        const std::vector<double> a = wanted[k].to_doubles(), b = got[k].to_doubles();
        double size = 0, off = 0;
        for (std::size_t i = 0; i < a.size(); ++i) {
          size += a[i] * a[i];
          off += (a[i] - b[i]) * (a[i] - b[i]);
        }
        EXPECT_LE(std::sqrt(off / size), 3e-3) << "result " << k << " of run " << run;  // NaN is not
      }
    }
  }
};

TEST_F(CudaLstm, AgreesWithTheReference) {
  for (const Sizes& s :
       {Sizes{3, 1, 5, 32}, Sizes{5, 9, 12, 64}, Sizes{2, 20, 8, 160}, Sizes{17, 17, 16, 256}}) {
    SCOPED_TRACE(testing::Message() << s.length << "x" << s.batch << ", hidden " << s.hidden);
    const Graph graph = layer(s, false);
    EXPECT_EQ(own_kernels(graph, Math::tf32), 1);
    expect_as_reference(graph);
  }
}

TEST_F(CudaLstm, GradientsAgreeWithTheReference) {
  for (const Sizes& s : {Sizes{3, 1, 5, 32}, Sizes{5, 9, 12, 96}, Sizes{17, 17, 16, 256}}) {
    SCOPED_TRACE(testing::Message() << s.length << "x" << s.batch << ", hidden " << s.hidden);
    const Graph graph = autodiff::value_and_grad(layer(s, true), {0, 1, 2, 3, 4, 5, 6});
    EXPECT_EQ(own_kernels(graph, Math::tf32), 2);  // one each way: what the way back reads is kept
    expect_as_reference(graph);
  }
}

TEST_F(CudaLstm, IsLeftToOthersInF32AndForMoreUnitsThanAClusterHolds) {
  EXPECT_EQ(own_kernels(layer({3, 2, 4, 32}, false), Math::f32), 0);
  EXPECT_EQ(own_kernels(layer({3, 2, 4, 48}, false), Math::tf32), 0);
  EXPECT_EQ(own_kernels(layer({3, 2, 4, 288}, false), Math::tf32), 0);
}

}  // namespace

}  // namespace systole::cuda
