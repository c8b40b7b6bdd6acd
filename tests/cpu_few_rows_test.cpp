// Products of few rows on the processor, which are read along their depth: any number of columns, depths that
// are no multiple of the lanes, batches, and work on the result, against the reference, which sums in f64.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "graph_arguments.h"
#include "systole/ops.h"
#include "systole/runtime.h"

namespace systole {
namespace {

struct Sizes {
  std::int64_t batches, rows, columns, depth;
};

void add_product(ir::Graph& graph, const Sizes& s) {
  const std::string k = std::to_string(graph.outputs().size());
  const ir::Value x = graph.input("x" + k, {DType::f32, {s.batches, s.rows, s.depth}}),
                  w = graph.input("w" + k, {DType::f32, {s.batches, s.columns, s.depth}}),
                  bias = graph.input("bias" + k, {DType::f32, {s.columns}});
  const ir::Value y = ops::matmul(x, ops::transpose(w, {0, 2, 1}));
  graph.output(ops::relu(ops::add(y, ops::broadcast(bias, y.shape(), {2}))), "y" + k);
}

ir::Graph product(const Sizes& sizes) {
  ir::Graph graph("main");
  add_product(graph, sizes);
  return graph;
}

TEST(CpuFewRows, AgreeWithTheReferenceWhateverTheSizes) {
  for (const std::int64_t rows : {1, 3, 4, 5}) {
    ir::Graph graph("main");
    std::vector<Sizes> all;
    for (const std::int64_t columns : {1, 7, 64})
      for (const std::int64_t depth : {31, 32, 47, 784})
        for (const std::int64_t batches : {1, 2})
          add_product(graph, all.emplace_back(Sizes{batches, rows, columns, depth}));
    const std::vector<Literal> arguments = random_arguments(graph, 5, 1);
    const std::vector<Literal> wanted = compile(graph, "reference").run(arguments),
                               got = compile(graph, "cpu").run(arguments);
    for (std::size_t k = 0; k < all.size(); ++k) {
      const std::vector<double> a = wanted[k].to_doubles(), b = got[k].to_doubles();
      const double bound = 4e-6 * std::sqrt(static_cast<double>(all[k].depth));
      for (std::size_t i = 0; i < a.size(); ++i)
        ASSERT_NEAR(b[i], a[i], bound) << rows << "x" << all[k].columns << "x" << all[k].depth << " " << i;
    }
  }
}

TEST(CpuFewRows, GiveTheSameBitsWhereverTheRowStands) {
  const ir::Graph one = product({1, 1, 64, 300}), four = product({1, 4, 64, 300});
  std::vector<Literal> arguments = random_arguments(four, 9, 1);
  const std::vector<double> together = compile(four, "cpu").run(arguments)[0].to_doubles();
  for (std::int64_t r = 0; r < 4; ++r) {
    Literal row(Type{DType::f32, {1, 1, 300}});
    const auto* const from = arguments[0].values<float>().data() + r * 300;
    std::copy(from, from + 300, row.mutable_values<float>().begin());
    const std::vector<double> alone =
        compile(one, "cpu").run({row, arguments[1], arguments[2]})[0].to_doubles();
    for (std::size_t j = 0; j < 64; ++j) EXPECT_EQ(alone[j], together[static_cast<std::size_t>(r) * 64 + j]);
  }
}

}  // namespace
}  // namespace systole
