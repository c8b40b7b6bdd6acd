// What elementwise work is taken for by the CUDA backend: a library's function stands in for it only where
// both are the same everywhere.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "backend/patterns/pointwise.h"
#include "systole/ops.h"

namespace systole::cuda {

using namespace patterns;

namespace {

using ir::Graph;
using ir::Value;

const Type kType{DType::f32, {4}};

std::vector<std::int32_t> work_of(const Graph& graph) {
  std::vector<std::int32_t> nodes;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(graph.nodes().size()); ++i)
    if (const ir::Op op = graph.node(i).op;
        op != ir::Op::input && op != ir::Op::constant && op != ir::Op::broadcast)
      nodes.push_back(i);
  return nodes;
}

Value number(const Value& x, double value) { return ops::scalar_like(x, value); }
Value clamp(const Value& x, double least, double most) {
  return ops::min(ops::max(x, number(x, least)), number(x, most));
}

// What `function` of one variable is taken for.
template <class F>
std::string taken_for(F&& function) {
  Graph graph;
  const Value x = graph.input("x", kType), y = function(x);
  const std::vector<ir::ValueId> variables{x.id()};
  return std::string(name(Samples(graph, variables, work_of(graph)).function(y.id().node)));
}

Value gelu_by_tanh(const Value& x) {
  const Value cube = ops::mul(ops::mul(x, x), x);
  const Value inner =
      ops::mul(number(x, 0.7978845608028654), ops::add(x, ops::mul(number(x, 0.044715), cube)));
  return ops::mul(ops::mul(number(x, 0.5), x), ops::add(number(x, 1), ops::tanh(inner)));
}
Value gelu_by_erf(const Value& x) {
  return ops::mul(ops::mul(number(x, 0.5), x),
                  ops::add(number(x, 1), ops::erf(ops::mul(x, number(x, 0.7071067811865476)))));
}

TEST(CudaPointwise, FunctionsOfLibrariesAreFoundInAnyForm) {
  EXPECT_EQ(taken_for([](const Value& x) { return ops::neg(ops::neg(x)); }), "identity");
  EXPECT_EQ(taken_for([](const Value& x) { return ops::max(x, number(x, 0)); }), "relu");
  EXPECT_EQ(taken_for([](const Value& x) { return ops::mul(ops::add(x, ops::abs(x)), number(x, 0.5)); }),
            "relu");
  EXPECT_EQ(
      taken_for([](const Value& x) { return ops::select(ops::greater(x, number(x, 0)), x, number(x, 0)); }),
      "relu");
  EXPECT_EQ(taken_for(gelu_by_tanh), "gelu");
  EXPECT_EQ(taken_for([](const Value& x) {  // (1 + tanh(u)) / 2 is the logistic function of 2u
              const Value cube = ops::mul(ops::mul(x, x), x);
              const Value twice = ops::mul(number(x, 2 * 0.7978845608028654),
                                           ops::add(x, ops::mul(number(x, 0.044715), cube)));
              return ops::div(x, ops::add(number(x, 1), ops::exp(ops::neg(twice))));
            }),
            "gelu");
  EXPECT_EQ(taken_for(gelu_by_erf), "gelu by erf");
}

TEST(CudaPointwise, WhatIsCutOffAnywhereIsNotTakenForTheWhole) {
  for (const double most : {6.0, 20.0, 90.0, 9000.0, 1e29, 1e38})
    EXPECT_EQ(taken_for([&](const Value& x) { return clamp(x, 0, most); }), "other") << most;
  for (const double most : {1.0, 10.0, 50.0, 1e3, 65504.0, 1e38})
    EXPECT_EQ(taken_for([&](const Value& x) { return clamp(x, -most, most); }), "other") << most;
  for (const double most : {8.0, 65504.0})
    EXPECT_EQ(taken_for([&](const Value& x) { return ops::min(gelu_by_tanh(x), number(x, most)); }), "other")
        << most;
}

TEST(CudaPointwise, SmallDifferencesCountWhereTheFunctionIsExact) {
  for (const double least : {1e-3, 1e-6, 1e-12, 1e-37, -1e-6, -1e-20})
    EXPECT_EQ(taken_for([&](const Value& x) { return ops::max(x, number(x, least)); }), "other") << least;
  for (const double slope : {0.01, 1e-7, -1e-7})
    EXPECT_EQ(taken_for([&](const Value& x) { return ops::max(x, ops::mul(x, number(x, slope))); }), "other")
        << slope;
  EXPECT_EQ(taken_for([](const Value& x) { return ops::add(x, number(x, 1e-6)); }), "other");
}

TEST(CudaPointwise, TheGradientOfGeluIsFoundAsItIsDerivedAndNotWhenItIsCutOff) {
  const auto found = [](double most) {
    Graph graph;
    const Value g = graph.input("g", kType), x = graph.input("x", kType);
    const Value t =
        ops::tanh(ops::mul(number(x, 0.7978845608028654),
                           ops::add(x, ops::mul(number(x, 0.044715), ops::mul(ops::mul(x, x), x)))));
    const Value inner = ops::mul(number(x, 0.7978845608028654),
                                 ops::add(number(x, 1), ops::mul(number(x, 3 * 0.044715), ops::mul(x, x))));
    const Value slope = ops::add(
        ops::mul(number(x, 0.5), ops::add(number(x, 1), t)),
        ops::mul(ops::mul(ops::mul(number(x, 0.5), x), ops::sub(number(x, 1), ops::mul(t, t))), inner));
    const Value y = ops::mul(most > 0 ? clamp(g, -most, most) : g, slope);
    const std::vector<ir::ValueId> variables{g.id(), x.id()};
    return std::string(name(Samples(graph, variables, work_of(graph)).function(y.id().node)));
  };
  EXPECT_EQ(found(0), "gelu gradient");
  for (const double most : {1.0, 10.0, 1e4}) EXPECT_EQ(found(most), "other") << most;
}

TEST(CudaPointwise, AMaskIsReadOffTheResultOnlyWhereThatTellsIt) {
  Graph graph;
  const Value x = graph.input("x", kType), relu = ops::max(x, number(x, 0));
  const Value above = ops::greater(x, number(x, 0)), far = ops::greater(x, number(x, -8)),
              farther = ops::greater(x, number(x, -1e29)), close = ops::greater_equal(x, number(x, -1e-20)),
              large = ops::less(x, number(x, 20));
  const std::vector<ir::ValueId> variables{x.id()};
  const Samples samples(graph, variables, work_of(graph));
  const auto is_same = [&](const Value& mask) { return samples.is_same_of(mask.id().node, relu.id().node); };
  EXPECT_TRUE(is_same(above));
  EXPECT_TRUE(is_same(large));
  EXPECT_FALSE(is_same(far));
  EXPECT_FALSE(is_same(farther));
  EXPECT_FALSE(is_same(close));
}

}  // namespace

}  // namespace systole::cuda
