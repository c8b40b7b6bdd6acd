// Whole graphs: control flow, what is refused, when values are freed, and memory that runs out.

#include <gtest/gtest.h>

#include <cstdint>

#include "eval_check.h"

namespace systole::eval_check {
namespace {

using ir::Combine;
using ir::Graph;
using ir::GraphRef;
using ir::Op;
using ir::Value;
using i32 = std::int32_t;

const Type kScalar{DType::i32, {}};

GraphRef share(Graph graph) { return std::make_shared<const Graph>(std::move(graph)); }

// body(sum, x, factor) = (sum + x·factor, sum)
GraphRef sum_body() {
  Graph body("body");
  const Value sum = body.input("sum", kScalar), x = body.input("x", kScalar),
              factor = body.input("factor", kScalar);
  body.output(body.add(Op::add, {sum, body.add(Op::mul, {x, factor})}));
  body.output(sum);
  return share(std::move(body));
}

TEST(EvalScan, CarriesStacksAndReverses) {
  const std::vector<Literal> operands{scalar<i32>(100), row<i32>({1, 2, 3}), scalar<i32>(10)};
  const auto forward =
      run_all(Op::scan, operands, ir::ScanAttrs{.length = 3, .carries = 1, .xs = 1}, {sum_body()});
  expect_same(forward[0], scalar<i32>(160));
  expect_row<i32>(forward[1], {100, 110, 130});
  const auto backward = run_all(
      Op::scan, operands, ir::ScanAttrs{.length = 3, .carries = 1, .xs = 1, .reverse = true}, {sum_body()});
  expect_same(backward[0], scalar<i32>(160));
  expect_row<i32>(backward[1], {150, 130, 100});
}

TEST(EvalScan, OfLengthZeroReturnsTheCarries) {
  const auto r = run_all(Op::scan, {scalar<i32>(5), Literal(Type{DType::i32, {0}}), scalar<i32>(1)},
                         ir::ScanAttrs{.length = 0, .carries = 1, .xs = 1}, {sum_body()});
  expect_same(r[0], scalar<i32>(5));
  EXPECT_EQ(r[1].count(), 0);
}

TEST(EvalScan, UpdatesACarryInPlace) {
  Graph body("body");
  const Value table = body.input("table", {DType::i32, {4}}), at = body.input("at", kScalar);
  const Value one = body.add(Op::reshape, {at}, ir::ReshapeAttrs{{1}});
  body.output(body.add(Op::dynamic_update_slice, {table, one, at}));
  Graph graph = graph_of(Op::scan, {row<i32>({9, 9, 9, 9}), row<i32>({0, 2})},
                         ir::ScanAttrs{.length = 2, .carries = 1, .xs = 1}, {share(std::move(body))});
  std::vector<Literal> arguments{row<i32>({9, 9, 9, 9}), row<i32>({0, 2})};
  const std::byte* storage = arguments[0].bytes();
  const Literal result = eval::evaluate(graph, std::move(arguments))[0];
  expect_row<i32>(result, {0, 9, 2, 9});
  EXPECT_EQ(result.bytes(), storage);
}

TEST(EvalWhile, RunsWhileTheConditionHoldsAndPassesConstants) {
  // while (x < limit) x = x + x
  Graph condition("condition"), body("body");
  const Value cx = condition.input("x", kScalar), climit = condition.input("limit", kScalar);
  condition.output(condition.add(Op::less, {cx, climit}));
  const Value bx = body.input("x", kScalar);
  body.input("limit", kScalar);
  body.output(body.add(Op::add, {bx, bx}));
  const std::vector<GraphRef> graphs{share(std::move(condition)), share(std::move(body))};
  const auto result = [&](i32 x, i32 limit) {
    return run_all(Op::while_loop, {scalar<i32>(x), scalar<i32>(limit)}, ir::WhileAttrs{1}, graphs)[0];
  };
  expect_same(result(3, 50), scalar<i32>(96));
  expect_same(result(60, 50), scalar<i32>(60));
}

TEST(EvalCond, RunsOneBranchOnly) {
  Graph then("then"), otherwise("else");
  then.output(then.add(Op::neg, {then.input("x", kScalar)}));
  const Value x = otherwise.input("x", kScalar);
  ir::KernelAttrs kernel{.name = "never", .results = {kScalar}};
  otherwise.output(otherwise.add(Op::kernel_call, {x}, kernel));  // would be refused if it ran
  const std::vector<GraphRef> graphs{share(std::move(then)), share(std::move(otherwise))};
  expect_same(run_all(Op::cond, {scalar<bool>(true), scalar<i32>(7)}, ir::NoAttrs{}, graphs)[0],
              scalar<i32>(-7));
  expect_error(ErrorKind::kUnsupported, "never",
               [&] { run_all(Op::cond, {scalar<bool>(false), scalar<i32>(7)}, ir::NoAttrs{}, graphs); });
}

TEST(EvalBodies, CompositesAndKernelsRunTheirBodiesAndBarriersPassValuesOn) {
  Graph twice("twice");
  const Value x = twice.input("x", kScalar);
  twice.output(twice.add(Op::add, {x, x}));
  const GraphRef body = share(std::move(twice));
  expect_same(run_all(Op::composite, {scalar<i32>(4)}, ir::CompositeAttrs{"twice", {}}, {body})[0],
              scalar<i32>(8));
  expect_same(run_all(Op::kernel_call, {scalar<i32>(4)},
                      ir::KernelAttrs{.name = "twice", .results = {kScalar}}, {body})[0],
              scalar<i32>(8));
  const auto passed = run_all(Op::barrier, {scalar<i32>(4), row<float>({1})});
  expect_same(passed[0], scalar<i32>(4));
  expect_row<float>(passed[1], {1});
}

TEST(EvalGraph, ReturnsInputsConstantsAndRepeatedOutputs) {
  Graph graph;
  const Value x = graph.input("x", kScalar);
  graph.input("unused", kScalar);
  const Value c = graph.constant(scalar<i32>(3));
  for (Value v : {x, c, x}) graph.output(v);
  const std::vector<Literal> arguments{scalar<i32>(1), scalar<i32>(2)};
  const auto r = eval::evaluate(graph, std::span<const Literal>(arguments));
  expect_same(r[0], scalar<i32>(1));
  expect_same(r[1], scalar<i32>(3));
  expect_same(r[2], scalar<i32>(1));
}

TEST(EvalGraph, ChecksItsArguments) {
  const Graph graph = graph_of(Op::neg, {row<float>({1, 2})});
  expect_error(ErrorKind::kInvalidArgument, "number of arguments",
               [&] { eval::evaluate(graph, std::vector<Literal>()); });
  expect_error(ErrorKind::kShape, "x0",
               [&] { eval::evaluate(graph, std::vector<Literal>{row<float>({1})}); });
  expect_error(ErrorKind::kDType, "x0",
               [&] { eval::evaluate(graph, std::vector<Literal>{row<double>({1, 2})}); });
  Graph symbolic;
  symbolic.output(symbolic.input("x", {DType::f32, {Dim::symbol("N")}}));
  expect_error(ErrorKind::kShape, "symbols",
               [&] { eval::evaluate(symbolic, std::vector<Literal>{row<float>({1})}); });
}

TEST(EvalGraph, MemoryThatRunsOutIsAnErrorNamingTheOp) {
  const std::int64_t huge = std::int64_t{1} << 45;
  expect_error(ErrorKind::kOutOfMemory, "broadcast",
               [&] { run(Op::broadcast, {scalar<float>(1)}, ir::BroadcastAttrs{{huge}, {}}); });
  Graph body("body");
  body.input("x", kScalar);
  body.output(body.add(Op::iota, {}, ir::IotaAttrs{DType::f64, {huge}, 0}));
  expect_error(ErrorKind::kOutOfMemory, "composite: iota", [&] {
    run_all(Op::composite, {scalar<i32>(1)}, ir::CompositeAttrs{"big", {}}, {share(std::move(body))});
  });
}

TEST(EvalGraph, CollectivesNeedAGroup) {
  Graph graph;
  graph.set_mesh({{{"x", 2}}});
  graph.output(
      graph.add(Op::all_reduce, {graph.input("x", kScalar)}, ir::AllReduceAttrs{Combine::sum, {"x"}}));
  EXPECT_TRUE(eval::uses_collectives(graph));
  expect_error(ErrorKind::kUnsupported, "all_reduce",
               [&] { eval::evaluate(graph, std::vector<Literal>{scalar<i32>(1)}); });
}

// A group that looks around while the graph runs.
class Observer : public eval::Group {
 public:
  explicit Observer(const bool& released) : released_(released) {}
  std::vector<Literal> exchange(const ir::Node&, const ir::MeshAxisNames&, const Literal& mine) override {
    seen_.push_back(released_);
    return {mine};
  }
  std::int64_t index(const ir::MeshAxisNames&) const override { return 0; }
  const std::vector<bool>& seen() const { return seen_; }

 private:
  const bool& released_;
  std::vector<bool> seen_;
};

TEST(EvalGraph, FreesAValueAfterItsLastUse) {
  Graph graph;
  graph.set_mesh({{{"x", 1}}});
  const auto meet = [&](Value v) {
    return graph.add(Op::all_reduce, {v}, ir::AllReduceAttrs{Combine::sum, {"x"}});
  };
  const Value x = graph.input("x", kScalar), y = graph.input("y", kScalar);
  const Value before = meet(y), sum = graph.add(Op::add, {x, before}), after = meet(sum);
  graph.output(after);
  bool released = false;
  const i32 value = 5;
  Observer observer(released);
  std::vector<Literal> arguments;
  arguments.push_back(Literal::view(
      kScalar, &value, std::shared_ptr<const void>(&value, [&](const void*) { released = true; })));
  arguments.push_back(scalar<i32>(2));
  expect_same(eval::evaluate(graph, std::move(arguments), &observer)[0], scalar<i32>(7));
  EXPECT_EQ(observer.seen(), (std::vector<bool>{false, true}));
}

TEST(EvalGraph, AGroupOfAnotherSizeThanTheMeshIsAnErrorNotAWrongShape) {
  Graph graph;
  graph.set_mesh({{{"x", 4}}});
  graph.output(
      graph.add(Op::all_gather, {graph.input("x", {DType::i32, {2}})}, ir::AllGatherAttrs{0, {"x"}}));
  bool released = false;
  Observer alone(released);
  expect_error(ErrorKind::kInternal, "all_gather",
               [&] { eval::evaluate(graph, std::vector<Literal>{row<i32>({1, 2})}, &alone); });
}

}  // namespace
}  // namespace systole::eval_check
