// The builders: types and attributes of the nodes they make, broadcasting and promotion, symbolic sizes, and
// what they refuse. Values only where a builder computes something itself (matmul, take, mean, one_hot,
// random numbers).

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "error_check.h"
#include "eval/eval.h"
#include "systole/ir.h"
#include "systole/ops.h"

namespace systole {
namespace {

using ir::Combine;
using ir::Graph;
using ir::Op;
using ir::Value;
using ir::Values;
using Numbers = std::vector<double>;

const ir::Node& node_of(Value v) { return v.graph().node(v.id().node); }

Type f32(Shape shape) { return {DType::f32, std::move(shape)}; }

// The values of `results` for these arguments of the graph's inputs.
std::vector<Literal> run(Graph& graph, const Values& results, const std::vector<Literal>& arguments = {}) {
  for (const Value& v : results) graph.output(v);
  ir::verify(graph);
  return eval::evaluate(graph, arguments);
}

Literal counting(Shape shape) {  // 0, 1, 2, …
  Literal out({DType::f32, std::move(shape)});
  auto values = out.mutable_values<float>();
  std::iota(values.begin(), values.end(), 0.0f);
  return out;
}

void expect_contains(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
}

TEST(Elementwise, MakesOneNodePerOpOfTheTable) {
  Graph graph;
  const Value x = graph.input("x", f32({2})), i = graph.input("i", {DType::i32, {2}});
#define SYSTOLE_UNARY(name, dtypes, ...) \
  EXPECT_EQ(node_of(ops::name((dtypes).contains(DType::f32) ? x : i)).op, Op::name);
#define SYSTOLE_BINARY(name, dtypes, ...)                                      \
  {                                                                            \
    const Value v = (dtypes).contains(DType::f32) ? x : i;                     \
    const Value y = ops::name(v, v);                                           \
    EXPECT_EQ(node_of(y).op, Op::name);                                        \
    EXPECT_EQ(y.shape(), (Shape{2}));                                          \
    const bool boolean = ir::info(Op::name).result == ir::ResultRule::boolean; \
    EXPECT_EQ(y.dtype(), boolean ? DType::boolean : v.dtype());                \
  }
#include "systole/ir/ops.def"
  ir::verify(graph);
}

TEST(Elementwise, BroadcastsLikeNumpy) {
  Graph graph;
  const Dim n = Dim::symbol("N");
  const auto shape = [&](Shape a, Shape b) {
    return ops::add(graph.input({}, f32(std::move(a))), graph.input({}, f32(std::move(b)))).shape();
  };
  EXPECT_EQ(shape({2, 3}, {3}), (Shape{2, 3}));
  EXPECT_EQ(shape({2, 1}, {1, 3}), (Shape{2, 3}));
  EXPECT_EQ(shape({}, {4}), (Shape{4}));
  EXPECT_EQ(shape({0, 1}, {1, 5}), (Shape{0, 5}));
  EXPECT_EQ(shape({1}, {0}), (Shape{0}));
  EXPECT_EQ(shape({n, 3}, {3}), (Shape{n, 3}));
  EXPECT_EQ(shape({1, 3}, {n, 1}), (Shape{n, 3}));
  EXPECT_EQ(shape({n, 1}, {n, 7}), (Shape{n, 7}));
}

TEST(Elementwise, RefusesShapesThatDoNotBroadcastNamingBoth) {
  Graph graph;
  const Dim n = Dim::symbol("N"), m = Dim::symbol("M");
  const auto add = [&](Shape a, Shape b) {
    return error_of(ErrorKind::kShape, [&] {
      ops::add(graph.input({}, f32(std::move(a))), graph.input({}, f32(std::move(b))));
    });
  };
  expect_contains(add({2, 3}, {4}), {"add", "f32[2,3]", "f32[4]"});
  expect_contains(add({n}, {2}), {"add", "f32[N]", "f32[2]"});
  expect_contains(add({n}, {m}), {"f32[N]", "f32[M]"});
  expect_contains(add({n + Dim(1)}, {n}), {"f32[N+1]", "f32[N]"});
  expect_contains(add({0}, {2}), {"f32[0]", "f32[2]"});
}

TEST(Elementwise, PromotesAndRefusesDtypesNamingBoth) {
  Graph graph;
  const auto in = [&](DType dtype) { return graph.input({}, {dtype, {}}); };
  EXPECT_EQ(ops::add(in(DType::i32), in(DType::f16)).dtype(), DType::f16);
  EXPECT_EQ(ops::mul(in(DType::f16), in(DType::bf16)).dtype(), DType::f32);
  EXPECT_EQ(ops::add(in(DType::boolean), in(DType::i8)).dtype(), DType::i8);
  EXPECT_EQ(ops::bitwise_or(in(DType::u8), in(DType::i8)).dtype(), DType::i16);
  EXPECT_EQ(ops::less(in(DType::i32), in(DType::f32)).dtype(), DType::boolean);
  expect_contains(error_of(ErrorKind::kDType, [&] { ops::add(in(DType::f8e5m2), in(DType::f32)); }),
                  {"add", "f8e5m2[]", "f32[]"});
  expect_contains(error_of(ErrorKind::kDType, [&] { ops::bitwise_and(in(DType::u64), in(DType::i64)); }),
                  {"bitwise_and", "u64[]", "i64[]"});
  expect_contains(error_of(ErrorKind::kDType, [&] { ops::add(in(DType::boolean), in(DType::boolean)); }),
                  {"add", "bool"});
  expect_contains(error_of(ErrorKind::kDType, [&] { ops::exp(in(DType::i32)); }), {"exp", "i32"});
}

TEST(Elementwise, LeavesTheGraphAsItWasWhenTheCallIsRefused) {
  Graph graph;
  const Value a = graph.input("a", f32({2})), b = graph.input("b", {DType::i32, {3}});
  error_of(ErrorKind::kShape, [&] { ops::add(a, b); });
  EXPECT_EQ(graph.size(), 2);
}

TEST(Elementwise, RefusesValuesOfTwoGraphsAndOfNone) {
  Graph one, two;
  const Value a = one.input("a", f32({})), b = two.input("b", f32({}));
  expect_contains(error_of(ErrorKind::kInvalidArgument, [&] { ops::add(a, b); }), {"add"});
  expect_contains(error_of(ErrorKind::kInvalidArgument, [&] { ops::add(a, Value()); }), {"add"});
  expect_contains(error_of(ErrorKind::kInvalidArgument, [&] { ops::softmax(Value()); }), {"softmax"});
  expect_contains(error_of(ErrorKind::kInvalidArgument, [&] { ops::concat({}, 0); }), {"concat"});
}

TEST(Select, BroadcastsAllThreeAndKeepsAScalarPredicate) {
  Graph graph;
  const Value p = graph.input("p", {DType::boolean, {3, 1}}), scalar = graph.input("s", {DType::boolean, {}});
  const Value x = graph.input("x", f32({2})), y = graph.input("y", f32({}));
  EXPECT_EQ(ops::select(p, x, y).shape(), (Shape{3, 2}));
  const Value kept = ops::select(scalar, x, y);
  EXPECT_EQ(kept.shape(), (Shape{2}));
  EXPECT_EQ(graph.type(node_of(kept).operands[0]).shape, Shape{});
  error_of(ErrorKind::kDType, [&] { ops::select(x, x, x); });
  error_of(ErrorKind::kDType, [&] { ops::select(p, x, p); });
}

TEST(Constants, AreRoundedOrSaturatedToTheirDtype) {
  Graph graph;
  const auto scalar = [&](DType dtype, double value) {
    return node_of(ops::full(graph, {dtype, {}}, value)).as<ir::ConstantAttrs>().value.to_doubles()[0];
  };
  EXPECT_EQ(scalar(DType::u8, 300), 255);
  EXPECT_EQ(scalar(DType::u8, -1), 0);
  EXPECT_EQ(scalar(DType::i8, -2.9), -2);
  EXPECT_EQ(scalar(DType::i64, 1e300), 9223372036854775807.0);
  EXPECT_EQ(scalar(DType::u64, std::numeric_limits<double>::infinity()), 18446744073709551615.0);
  EXPECT_EQ(scalar(DType::i32, std::numeric_limits<double>::quiet_NaN()), 0);
  EXPECT_EQ(scalar(DType::boolean, 0.5), 1);
  EXPECT_EQ(scalar(DType::f16, 1.0 + std::ldexp(1.0, -11)), 1.0);  // a tie goes to even
  EXPECT_EQ(scalar(DType::bf16, 1e39), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(scalar(DType::f8e4m3fn, 1000)));
  const Value filled = ops::full(graph, f32({Dim::symbol("N"), 2}), 3);
  EXPECT_EQ(node_of(filled).op, Op::broadcast);
  EXPECT_EQ(filled.shape(), (Shape{Dim::symbol("N"), 2}));
  EXPECT_EQ(ops::scalar_like(filled, 1).type(), f32({}));
  error_of(ErrorKind::kShape, [&] { ops::full(graph, f32({-1}), 0); });
}

TEST(Movement, NormalisesAxesAndFillsLists) {
  Graph graph;
  const Value x = graph.input("x", f32({2, 3, 5})), zero = graph.input("z", f32({}));
  EXPECT_EQ(node_of(ops::transpose(x, {-1, 0, 1})).as<ir::TransposeAttrs>().permutation, (Ints{2, 0, 1}));
  EXPECT_EQ(node_of(ops::concat({x, x}, -2)).as<ir::AxisAttrs>().axis, 1);
  EXPECT_EQ(node_of(ops::reverse(x, {-1, 0})).as<ir::AxesAttrs>().axes, (Ints{0, 2}));
  EXPECT_EQ(node_of(ops::reduce(x, Combine::max, {-1, 0})).as<ir::ReduceAttrs>().axes, (Ints{0, 2}));
  EXPECT_EQ(node_of(ops::slice(x, {0, 1, 2}, {2, 3, 4})).as<ir::SliceAttrs>().strides, (Ints{1, 1, 1}));
  EXPECT_EQ(node_of(ops::pad(x, zero, {0, 0, 1}, {0, 0, 1})).as<ir::PadAttrs>().interior, (Ints{0, 0, 0}));
  EXPECT_EQ(node_of(ops::iota(graph, f32({2, 3}), -1)).as<ir::IotaAttrs>().axis, 1);
  EXPECT_EQ(node_of(ops::arg_reduce(x, Combine::min, -1)).as<ir::ArgReduceAttrs>().axis, 2);
  EXPECT_EQ(node_of(ops::cumulative(x, Combine::sum, -3)).as<ir::CumulativeAttrs>().axis, 0);
  EXPECT_EQ(node_of(ops::sort(x, -2)).as<ir::SortAttrs>().axis, 1);
  const auto& dot = node_of(ops::dot_general(x, x, {-1}, {-1}, {-3}, {0})).as<ir::DotAttrs>();
  EXPECT_EQ(dot.a_contract, (Ints{2}));
  EXPECT_EQ(dot.a_batch, (Ints{0}));
  const Value indices = graph.input("i", {DType::i32, {4, 1}});
  const auto& gather = node_of(ops::gather(x, indices,
                                           {.offset_axes = {-2, -1},
                                            .collapsed_axes = {-3},
                                            .start_index_map = {-3},
                                            .index_vector_axis = -1,
                                            .slice_sizes = {1, 3, 5}}))
                           .as<ir::GatherAttrs>();
  EXPECT_EQ(gather.offset_axes, (Ints{1, 2}));
  EXPECT_EQ(gather.collapsed_axes, (Ints{0}));
  EXPECT_EQ(gather.index_vector_axis, 1);
  expect_contains(error_of(ErrorKind::kInvalidArgument, [&] { ops::transpose(x, {3, 0, 1}); }),
                  {"transpose", "3"});
  expect_contains(error_of(ErrorKind::kInvalidArgument, [&] { ops::sum(x, {-4}); }), {"reduce", "-4"});
  expect_contains(error_of(ErrorKind::kInvalidArgument, [&] { ops::iota(graph, f32({}), 0); }), {"iota"});
}

TEST(Movement, KeepsTheSymbolicBatchThroughReshapeSliceAndReduce) {
  Graph graph;
  const Dim n = Dim::symbol("N"), t = Dim::symbol("T");
  const Value x = graph.input("x", f32({n, 4, 6}));
  EXPECT_EQ(ops::reshape(x, {n, 24}).shape(), (Shape{n, 24}));
  EXPECT_EQ(ops::reshape(x, {n * Dim(4), 6}).shape(), (Shape{Dim(4) * n, 6}));
  EXPECT_EQ(ops::slice_axis(x, -1, 1, 6, 2).shape(), (Shape{n, 4, 3}));
  EXPECT_EQ(ops::sum(x, {1}, true).shape(), (Shape{n, 1, 6}));
  EXPECT_EQ(ops::mean(x, {0}).shape(), (Shape{4, 6}));
  EXPECT_EQ(ops::matmul(x, graph.input("w", f32({6, 5}))).shape(), (Shape{n, 4, 5}));
  EXPECT_EQ(ops::sum(graph.input("y", f32({n, t, 3})), {2}, true).shape(), (Shape{n, t, 1}));
  EXPECT_EQ(ops::broadcast_to(graph.input("z", f32({6})), {n, 4, 6}).shape(), x.shape());
  expect_contains(error_of(ErrorKind::kShape, [&] { ops::broadcast_to(x, {n, 4, 7}); }),
                  {"broadcast_to", "f32[N,4,6]", "[N,4,7]"});
  ir::verify(graph);
}

TEST(Take, PicksWholeSlicesLikeNumpy) {
  Graph graph;
  const Value x = graph.input("x", f32({2, 3, 2}));
  const Value i = graph.input("i", {DType::i32, {2, 2}}), scalar = graph.input("s", {DType::i64, {}});
  const Values taken = {ops::take(x, i, 1), ops::take(x, scalar, -1)};
  EXPECT_EQ(taken[0].shape(), (Shape{2, 2, 2, 2}));
  EXPECT_EQ(taken[1].shape(), (Shape{2, 3}));
  const auto got = run(graph, taken,
                       {counting({2, 3, 2}), Literal::of<std::int32_t>({2, 2}, {2, 0, 1, 9}),
                        Literal::scalar<std::int64_t>(1)});
  // np.take(np.arange(12).reshape(2, 3, 2), [[2, 0], [1, 2]], 1)
  EXPECT_EQ(got[0].to_doubles(), (Numbers{4, 5, 0, 1, 2, 3, 4, 5, 10, 11, 6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(got[1].to_doubles(), (Numbers{1, 3, 5, 7, 9, 11}));
}

TEST(Mean, DividesByTheCountAndSurvivesWhatOverflowsTheSum) {
  Graph graph;
  const Value x = graph.input("x", {DType::f16, {2, 4}}), i = graph.input("i", {DType::i32, {3}});
  const auto got = run(graph, {ops::mean(x, {1}), ops::mean(x, {0, 1}, true)},
                       {Literal::full({DType::f16, {2, 4}}, 60000), Literal({DType::i32, {3}})});
  EXPECT_EQ(got[0].to_doubles(), (Numbers{60000, 60000}));
  EXPECT_EQ(got[1].shape(), (Shape{1, 1}));
  expect_contains(error_of(ErrorKind::kDType, [&] { ops::mean(i, {0}); }), {"mean", "i32[3]"});
}

TEST(Matmul, FollowsNumpyForVectorsAndLeadingAxes) {
  Graph graph;
  const auto in = [&](Shape shape) { return graph.input({}, f32(std::move(shape))); };
  const Dim n = Dim::symbol("N");
  const auto shape = [&](Shape a, Shape b) {
    return ops::matmul(in(std::move(a)), in(std::move(b))).shape();
  };
  EXPECT_EQ(shape({3}, {3}), Shape{});
  EXPECT_EQ(shape({2, 3}, {3}), (Shape{2}));
  EXPECT_EQ(shape({3}, {3, 4}), (Shape{4}));
  EXPECT_EQ(shape({3}, {5, 3, 4}), (Shape{5, 4}));
  EXPECT_EQ(shape({5, 2, 3}, {3}), (Shape{5, 2}));
  EXPECT_EQ(shape({2, 3}, {5, 3, 4}), (Shape{5, 2, 4}));
  EXPECT_EQ(shape({7, 1, 2, 3}, {5, 3, 4}), (Shape{7, 5, 2, 4}));
  EXPECT_EQ(shape({n, 2, 3}, {1, 3, 4}), (Shape{n, 2, 4}));
  EXPECT_EQ(shape({2, 0}, {0, 3}), (Shape{2, 3}));
  expect_contains(error_of(ErrorKind::kShape, [&] { shape({2, 3}, {4, 5}); }),
                  {"matmul", "f32[2,3]", "f32[4,5]"});
  expect_contains(error_of(ErrorKind::kShape, [&] { shape({}, {4, 5}); }), {"matmul", "f32[]"});
  expect_contains(error_of(ErrorKind::kShape, [&] { shape({2, 2, 3}, {5, 3, 4}); }),
                  {"matmul", "f32[2,2,3]", "f32[5,3,4]"});
  const Value half = graph.input("h", {DType::f16, {3, 4}});
  expect_contains(error_of(ErrorKind::kDType, [&] { ops::matmul(in({2, 3}), half); }),
                  {"matmul", "f16[3,4]"});
}

TEST(Matmul, BroadcastsTheBatchesItMultiplies) {
  Graph graph;
  const Value a = graph.input("a", f32({2, 1, 1, 2})), b = graph.input("b", f32({2, 2, 1})),
              v = graph.input("v", f32({2}));
  const auto got = run(graph, {ops::matmul(a, b), ops::matmul(v, b)},
                       {counting({2, 1, 1, 2}), counting({2, 2, 1}), counting({2})});
  // np.matmul of np.arange: rows [0 1], [2 3] by columns [0 1], [2 3].
  EXPECT_EQ(got[0].shape(), (Shape{2, 2, 1, 1}));
  EXPECT_EQ(got[0].to_doubles(), (Numbers{1, 3, 3, 13}));
  EXPECT_EQ(got[1].to_doubles(), (Numbers{1, 3}));
}

TEST(Convolution, HasTheOperandsDtypeUnlessAskedForAWiderOne) {
  Graph graph;
  const Value x = graph.input("x", {DType::bf16, {Dim::symbol("N"), 8, 8, 3}});
  const Value k = graph.input("k", {DType::bf16, {3, 3, 3, 4}});
  const Value y = ops::convolution(x, k, {.layout = "b01f_01io->b01f", .strides = {2, 2}});
  EXPECT_EQ(y.type(), (Type{DType::bf16, {Dim::symbol("N"), 3, 3, 4}}));
  EXPECT_EQ(node_of(y).as<ir::ConvolutionAttrs>().pad_low, (Ints{0, 0}));
  EXPECT_EQ(ops::convolution(x, k, {.layout = "b01f_01io->b01f", .dtype = DType::f32}).dtype(), DType::f32);
  EXPECT_EQ(ops::dot_general(k, k, {0}, {0}, {}, {}, DType::f32).dtype(), DType::f32);
}

TEST(OneHot, HitsOneClassEvenWhereTheIndexDtypeWouldWrap) {
  Graph graph;
  const Value i = graph.input("i", {DType::u8, {2}}), outside = graph.input("o", {DType::i64, {2}});
  const Values results = {ops::one_hot(i, 300), ops::one_hot(outside, 2, DType::boolean)};
  const auto got = run(graph, results,
                       {Literal::of<std::uint8_t>({2}, {5, 255}), Literal::of<std::int64_t>({2}, {-1, 1})});
  Numbers wanted(600, 0.0);
  wanted[5] = wanted[300 + 255] = 1;
  EXPECT_EQ(got[0].to_doubles(), wanted);
  EXPECT_EQ(got[1].dtype(), DType::boolean);
  EXPECT_EQ(got[1].to_doubles(), (Numbers{0, 0, 0, 1}));
  error_of(ErrorKind::kDType, [&] { ops::one_hot(graph.input("f", f32({2})), 3); });
  error_of(ErrorKind::kShape, [&] { ops::one_hot(i, -1); });
}

TEST(Random, SplitsKeysByTheWordsOfPhilox) {
  Graph graph;
  const Value key = graph.input("key", {DType::u32, {2}});
  const auto got = run(graph, {ops::split_key(key, 5), ops::split_key(key, 0)},
                       {Literal::of<std::uint32_t>({2}, {0xdeadbeef, 42})});
  // composites_test.py
  const Literal wanted =
      Literal::of<std::uint32_t>({5, 2}, {0xb9c2a72, 0xc170b0d0, 0xece68ef2, 0x115092fb, 0x8478b660,
                                          0xede9e1e1, 0x3227ffc, 0x3433f43d, 0x6246fe3f, 0x25ee424c});
  EXPECT_TRUE(got[0].same_bits(wanted)) << got[0];
  EXPECT_EQ(got[1].shape(), (Shape{0, 2}));
  error_of(ErrorKind::kShape, [&] { ops::split_key(graph.input("bad", {DType::u32, {3}}), 2); });
  error_of(ErrorKind::kShape, [&] { ops::split_key(key, -1); });
}

TEST(Random, MakesUniformsOfTheTopBits) {
  Graph graph;
  const Value key = graph.input("key", {DType::u32, {2}});
  struct Row {
    DType dtype;
    int kept;
    Numbers units;
  };
  const std::vector<Row> rows = {{DType::f32, 24, {16511435, 9014864, 6501133, 13857406, 6848924}},
                                 {DType::f16, 11, {1628, 640, 104, 1015, 1254}},
                                 {DType::bf16, 8, {203, 80, 13, 126, 156}},
                                 {DType::f8e4m3fn, 4, {8, 1, 0, 15, 13}},
                                 {DType::f8e5m2, 3, {4, 0, 0, 7, 6}}};
  Values results;
  for (const Row& row : rows) results.push_back(ops::random_uniform(key, {5}, row.dtype));
  results.push_back(ops::random_uniform(key, {3}, DType::f64));
  const auto got = run(graph, results, {Literal::of<std::uint32_t>({2}, {0xdeadbeef, 42})});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Numbers wanted = rows[i].units;
    for (double& v : wanted) v = std::ldexp(v, -rows[i].kept);
    EXPECT_EQ(got[i].to_doubles(), wanted) << name(rows[i].dtype);
  }
  EXPECT_EQ(got.back().to_doubles(), (Numbers{0.5373277703728895, 0.8259658206690795, 0.48114315290195575}));
  expect_contains(error_of(ErrorKind::kDType, [&] { ops::random_uniform(key, {2}, DType::i32); }),
                  {"random_uniform", "i32"});
}

TEST(Control, JoinsOperandsInTheOrderTheOpKeeps) {
  auto body = std::make_shared<Graph>("body");
  const Value carry = body->input("carry", f32({})), x = body->input("x", f32({})),
              c = body->input("c", f32({}));
  const Value next = ops::add(ops::mul(carry, c), x);
  body->output(next);
  body->output(carry);
  Graph graph;
  const Value start = graph.input("start", f32({})), xs = graph.input("xs", f32({3})),
              factor = graph.input("c", f32({}));
  const Values looped = ops::scan(body, start, xs, factor, 3, true);

  auto halve = std::make_shared<Graph>("halve"), large = std::make_shared<Graph>("large");
  const Value v = halve->input("v", f32({})), limit = halve->input("limit", f32({}));
  static_cast<void>(limit);
  halve->output(ops::mul(v, ops::scalar_like(v, 0.5)));
  const Value w = large->input("v", f32({}));
  large->output(ops::greater(w, large->input("limit", f32({}))));
  const Values halved = ops::while_loop(large, halve, looped[0], factor);

  auto negate = std::make_shared<Graph>("negate"), keep = std::make_shared<Graph>("keep");
  negate->output(ops::neg(negate->input("v", f32({}))));
  keep->output(keep->input("v", f32({})));
  const Values chosen = ops::cond(ops::less(start, factor), negate, keep, halved[0]);

  const auto got = run(graph, {looped[0], looped[1], halved[0], chosen[0]},
                       {Literal::scalar(1.0f), counting({3}), Literal::scalar(2.0f)});
  // From the last: 1·2 + 2 = 4, 4·2 + 1 = 9, 9·2 + 0 = 18; then 18, 9, 4.5, 2.25, 1.125; 1 < 2 negates.
  EXPECT_EQ(got[0].to_doubles(), (Numbers{18}));
  EXPECT_EQ(got[1].to_doubles(), (Numbers{9, 4, 1}));
  EXPECT_EQ(got[2].to_doubles(), (Numbers{1.125}));
  EXPECT_EQ(got[3].to_doubles(), (Numbers{-1.125}));
  error_of(ErrorKind::kInvalidArgument, [&] { ops::scan(body, {}, {}, {}, 3); });
}

TEST(Control, CallsAKernelWithAndWithoutABody) {
  auto body = std::make_shared<Graph>("body");
  body->output(ops::neg(body->input("x", f32({2}))));
  Graph graph;
  const Value x = graph.input("x", f32({2}));
  const ir::KernelAttrs attrs{.name = "negate", .c = "…", .results = {f32({2})}};
  EXPECT_EQ(ops::kernel_call(graph, x, attrs)[0].type(), f32({2}));
  const Values called = ops::kernel_call(graph, x, attrs, body);
  EXPECT_EQ(node_of(called[0]).graphs.size(), 1u);
}

TEST(Collectives, TakeTheirGroupFromTheMesh) {
  Graph graph;
  graph.set_mesh({{{"data", 2}, {"model", 3}}});
  const Value x = graph.input("x", f32({6, 4}));
  EXPECT_EQ(ops::all_reduce(x, Combine::sum, {"data"}).shape(), (Shape{6, 4}));
  EXPECT_EQ(ops::all_gather(x, -1, {"model"}).shape(), (Shape{6, 12}));
  EXPECT_EQ(ops::reduce_scatter(x, Combine::max, -2, {"data", "model"}).shape(), (Shape{1, 4}));
  EXPECT_EQ(ops::all_to_all(x, -2, -1, {"model"}).shape(), (Shape{2, 12}));
  EXPECT_EQ(ops::collective_permute(x, {0, 1}, {1, 0}, {"data"}).shape(), (Shape{6, 4}));
  EXPECT_EQ(ops::device_index(graph, {"data"}).type(), (Type{DType::u32, {}}));
  EXPECT_EQ(node_of(ops::all_gather(x, -1, {"model"})).as<ir::AllGatherAttrs>().axis, 1);
  error_of(ErrorKind::kNotFound, [&] { ops::all_reduce(x, Combine::sum, {"rows"}); });
  ir::verify(graph);
}

TEST(SmallCompositions, ComputeWhatTheyAreCalled) {
  Graph graph;
  const Value x = graph.input("x", f32({3})), i = graph.input("i", {DType::i32, {2}});
  const auto got = run(graph, {ops::square(x), ops::reciprocal(x), ops::relu(x), ops::relu(i)},
                       {Literal::of<float>({3}, {-2, 0.5f, 4}), Literal::of<std::int32_t>({2}, {-7, 7})});
  EXPECT_EQ(got[0].to_doubles(), (Numbers{4, 0.25, 16}));
  EXPECT_EQ(got[1].to_doubles(), (Numbers{-0.5, 2, 0.25}));
  EXPECT_EQ(got[2].to_doubles(), (Numbers{0, 0.5, 4}));
  EXPECT_EQ(got[3].to_doubles(), (Numbers{0, 7}));
}

}  // namespace
}  // namespace systole
