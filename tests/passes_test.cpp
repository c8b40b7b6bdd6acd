// fold, cse, dce, inline_composites and the pipeline around them. The simplification rules have
// simplify_test.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <sstream>
#include <thread>

#include "pass_check.h"
#include "systole/base/error.h"
#include "systole/ops.h"

namespace systole {
namespace {

namespace fs = std::filesystem;
using pass_check::Case;

void expect_folded(const std::vector<Case>& cases) {
  for (const Case& c : cases) pass_check::expect(c, {{"fold", passes::fold}, {"dce", passes::dce}});
}

ir::Graph parsed(const std::string& text) { return ir::parse("systole.ir 1\n" + text); }

int count(const ir::Graph& graph, ir::Op op) {
  int n = 0;
  for (const ir::Node& node : graph.nodes()) n += node.op == op;
  return n;
}

TEST(Fold, NodesOfConstantsAreEvaluated) {
  expect_folded({
      {"scalars", "",
       "%a = constant() {value=f32[](2)}\n%b = constant() {value=f32[](0.5)}\n%c = add(%a, %b)\n%d = mul(%c, "
       "%c)\nreturn %d",
       "%d = constant() {value=f32[](6.25)}\nreturn %d"},
      {"integers wrap", "", "%a = constant() {value=i8[](100)}\n%c = add(%a, %a)\nreturn %c",
       "%c = constant() {value=i8[](-56)}\nreturn %c"},
      {"arrays", "",
       "%a = constant() {value=i32[2,2](1, 2, 3, 4)}\n%t = transpose(%a) {permutation=[1,0]}\n%c = "
       "dot_general(%a, %t) {a_contract=[1], b_contract=[0], dtype=i32}\nreturn %c",
       "%c = constant() {value=i32[2,2](5, 11, 11, 25)}\nreturn %c"},
      {"two results", "", "%a = constant() {value=f32[3](3, 9, 5)}\n%v, %i = top_k(%a) {k=2}\nreturn %v, %i",
       "%v = constant() {value=f32[2](9, 5)}\n%i = constant() {value=i32[2](1, 2)}\nreturn %v, %i"},
      {"half known stays", "%x: f32[2]", "%a = constant() {value=f32[2](1, 2)}\n%c = add(%a, %x)\nreturn %c",
       ""},
      {"a reshape of any size", "",
       "%a = constant() {value=i32[2,3](1, 2, 3, 4, 5, 6)}\n%r = reshape(%a) {shape=[6]}\nreturn %r",
       "%r = constant() {value=i32[6](1, 2, 3, 4, 5, 6)}\nreturn %r"},
  });
}

TEST(Fold, BroadcastsAndIotasAreKnownButNotMaterialised) {
  expect_folded({
      {"a broadcast stays", "",
       "%a = constant() {value=f32[](2)}\n%b = broadcast(%a) {shape=[1000,1000]}\nreturn %b", ""},
      {"an iota stays", "", "%a = iota() {dtype=i32, shape=[8], axis=0}\nreturn %a", ""},
      {"splats fold at any size", "",
       "%a = constant() {value=f32[](2)}\n%b = broadcast(%a) {shape=[1000,1000]}\n%c = neg(%b)\nreturn %c",
       "%a = constant() {value=f32[](-2)}\n%b = broadcast(%a) {shape=[1000,1000]}\nreturn %b"},
      {"arithmetic on an iota", "",
       "%a = iota() {dtype=i32, shape=[4], axis=0}\n%two = constant() {value=i32[](2)}\n%b = broadcast(%two) "
       "{shape=[4]}\n%c = mul(%a, %b)\nreturn %c",
       "%c = constant() {value=i32[4](0, 2, 4, 6)}\nreturn %c"},
      {"rows of a mask", "",
       "%i = iota() {dtype=i32, shape=[2,2], axis=0}\n%j = iota() {dtype=i32, shape=[2,2], axis=1}\n%c = "
       "greater_equal(%i, %j)\nreturn %c",
       "%c = constant() {value=bool[2,2](true, false, true, true)}\nreturn %c"},
      {"equal results are one scalar", "",
       "%a = constant() {value=i32[3](1, 2, 3)}\n%c = sub(%a, %a)\nreturn %c",
       "%z = constant() {value=i32[](0)}\n%c = broadcast(%z) {shape=[3]}\nreturn %c"},
  });
}

TEST(Fold, LargeResultsAndLongWorkStay) {
  const auto stays = [](const std::string& statements, const std::string& graphs = {}) {
    const ir::Graph graph = parsed(graphs + "graph @main() {\n" + statements + "\n}\n");
    EXPECT_TRUE(passes::fold(graph).same_structure(graph)) << statements;
  };
  // 65,540 bytes, one element above the limit.
  stays("%a = iota() {dtype=i32, shape=[16385], axis=0}\n%b = neg(%a)\nreturn %b");
  // 2^21 products for a result of 64 KiB.
  stays(
      "%a = iota() {dtype=f32, shape=[128,128], axis=0}\n%b = dot_general(%a, %a) {a_contract=[1], "
      "b_contract=[0], dtype=f32}\nreturn %b");
  stays("%a = constant() {value=i32[](0)}\n%b = while_loop(%a) {carries=1} @go @step\nreturn %b",
        "graph @go(%a: i32[]) {\n%t = constant() {value=bool[](true)}\nreturn %t\n}\ngraph @step(%a: i32[]) "
        "{\nreturn %a\n}\n");
  stays("%a = constant() {value=f32[](1)}\n%b = scan(%a) {length=1000000, carries=1, xs=0} @body\nreturn %b",
        "graph @body(%a: f32[]) {\n%b = add(%a, %a)\n%c = sin(%b)\nreturn %c\n}\n");
  stays(
      "%a = constant() {value=f32[2](1, 2)}\n%b = kernel_call(%a) {name=\"k\", results=[f32[2]]}\nreturn %b");
  stays("%a = constant() {value=f32[2](1, 2)}\n%b = barrier(%a)\n%c = neg(%b)\nreturn %c");
}

TEST(Fold, ShortScansAndCompositesAreEvaluated) {
  const std::string body = "graph @body(%s: i32[], %x: i32[]) {\n%n = add(%s, %x)\nreturn %n\n}\n";
  expect_folded({
      {"scan", "",
       "%s = constant() {value=i32[](10)}\n%x = constant() {value=i32[3](1, 2, 3)}\n%y = scan(%s, %x) "
       "{length=3, carries=1, xs=1} @body\nreturn %y",
       "%y = constant() {value=i32[](16)}\nreturn %y", body},
      {"composite", "",
       "%s = constant() {value=i32[](10)}\n%x = constant() {value=i32[](4)}\n%y = composite plus(%s, %x) "
       "@body\nreturn %y",
       "%y = constant() {value=i32[](14)}\nreturn %y", body},
  });
}

// 20,000 nodes that are worth 64 KiB each, 1.2 GiB in all: folding stops at 64 MiB.
TEST(Fold, AllItMakesOfAGraphHasABudget) {
  ir::Graph graph;
  const ir::Value x = ops::iota(graph, {DType::i64, {8192}}, 0);
  for (int i = 0; i < 20'000; ++i)
    graph.output(ops::mul(x, graph.constant(Literal::scalar<std::int64_t>(i))));
  const auto constant_bytes = [](const ir::Graph& g) {
    std::int64_t bytes = 0;
    for (const ir::Node& node : g.nodes())
      if (node.op == ir::Op::constant) bytes += node.types[0].bytes();
    return bytes;
  };
  const ir::Graph once = passes::fold(graph);
  EXPECT_LE(constant_bytes(once), std::int64_t{64} << 20);
  EXPECT_GT(constant_bytes(once), std::int64_t{63} << 20);
  EXPECT_LE(constant_bytes(passes::fold(once)), std::int64_t{64} << 20);
}

TEST(Cse, EqualNodesMerge) {
  const auto expect_merged = [](const std::vector<Case>& cases) {
    for (const Case& c : cases) pass_check::expect(c, {{"cse", passes::cse}, {"dce", passes::dce}});
  };
  const std::string body =
      "graph @one(%s: f32[], %x: f32[]) {\n%n = add(%s, %x)\nreturn %n\n}\n"
      "graph @same(%s: f32[], %x: f32[]) {\n%n = add(%s, %x)\nreturn %n\n}\n"
      "graph @other(%s: f32[], %x: f32[]) {\n%n = mul(%s, %x)\nreturn %n\n}\n";
  const std::string loop = "%s: f32[], %xs: f32[3]";
  expect_merged({
      {"same operands", "%x: f32[3]", "%a = exp(%x)\n%b = exp(%x)\n%y = add(%a, %b)\nreturn %y",
       "%a = exp(%x)\n%y = add(%a, %a)\nreturn %y"},
      {"chains", "%x: f32[3]", "%a = exp(%x)\n%b = exp(%x)\n%c = neg(%a)\n%d = neg(%b)\nreturn %c, %d",
       "%a = exp(%x)\n%c = neg(%a)\nreturn %c, %c"},
      {"commuted", "%a: f32[3], %b: f32[3]", "%c = add(%a, %b)\n%d = add(%b, %a)\nreturn %c, %d",
       "%c = add(%a, %b)\nreturn %c, %c"},
      {"a - b is not b - a", "%a: f32[3], %b: f32[3]", "%c = sub(%a, %b)\n%d = sub(%b, %a)\nreturn %c, %d",
       ""},
      {"constants", "",
       "%a = constant() {value=f32[2](1, nan)}\n%b = constant() {value=f32[2](1, nan)}\nreturn %a, %b",
       "%a = constant() {value=f32[2](1, nan)}\nreturn %a, %a"},
      {"zeros of both signs", "",
       "%a = constant() {value=f32[](0)}\n%b = constant() {value=f32[](-0.0)}\nreturn %a, %b", ""},
      {"attributes differ", "%x: f32[3,3]",
       "%a = reduce(%x) {kind=max, axes=[0]}\n%b = reduce(%x) {kind=max, axes=[1]}\nreturn %a, %b", ""},
      {"random bits of one key", "%k: u32[2]",
       "%a = random_bits(%k) {dtype=u32, shape=[4]}\n%b = random_bits(%k) {dtype=u32, shape=[4]}\nreturn %a, "
       "%b",
       "%a = random_bits(%k) {dtype=u32, shape=[4]}\nreturn %a, %a"},
      {"two results", "%x: f32[4]", "%a, %i = top_k(%x) {k=2}\n%b, %j = top_k(%x) {k=2}\nreturn %a, %j",
       "%a, %i = top_k(%x) {k=2}\nreturn %a, %i"},
      {"loops of equal bodies", loop,
       "%a = scan(%s, %xs) {length=3, carries=1, xs=1} @one\n%b = scan(%s, %xs) {length=3, carries=1, xs=1} "
       "@same\nreturn %a, %b",
       "%a = scan(%s, %xs) {length=3, carries=1, xs=1} @one\nreturn %a, %a", body},
      {"loops of other bodies", loop,
       "%a = scan(%s, %xs) {length=3, carries=1, xs=1} @one\n%b = scan(%s, %xs) {length=3, carries=1, xs=1} "
       "@other\nreturn %a, %b",
       "", body},
  });
}

TEST(Cse, CollectivesKernelsBarriersAndOtherShardingsStay) {
  for (const std::string text : {
           "graph @main(%x: f32[4]) mesh(a=2) {\n%a = all_reduce(%x) {kind=sum, mesh_axes=[a]}\n%b = "
           "all_reduce(%x) {kind=sum, mesh_axes=[a]}\nreturn %a, %b\n}",
           "graph @main(%x: f32[4]) {\n%a = kernel_call(%x) {name=\"k\", results=[f32[4]]}\n%b = "
           "kernel_call(%x) {name=\"k\", results=[f32[4]]}\nreturn %a, %b\n}",
           "graph @main(%x: f32[4]) {\n%a = barrier(%x)\n%b = barrier(%x)\nreturn %a, %b\n}",
           "graph @main(%x: f32[4]) mesh(a=2) {\n%a = exp(%x) : f32[4] sharding([a])\n%b = exp(%x) : "
           "f32[4]\nreturn %a, %b\n}",
       })
    EXPECT_TRUE(passes::cse(parsed(text)).same_structure(parsed(text))) << text;
}

TEST(Cse, SubGraphsAreMergedInside) {
  const std::string main =
      "graph @main(%s: f32[], %xs: f32[3]) {\n%y = scan(%s, %xs) {length=3, carries=1, xs=1} @body\nreturn "
      "%y\n}\n";
  const ir::Graph got =
      passes::cse(parsed("graph @body(%s: f32[], %x: f32[]) {\n%a = exp(%x)\n%b = exp(%x)\n%c = add(%a, "
                         "%b)\n%n = add(%s, %c)\nreturn %n\n}\n" +
                         main));
  EXPECT_TRUE(
      got.same_structure(parsed("graph @body(%s: f32[], %x: f32[]) {\n%a = exp(%x)\n%c = add(%a, %a)\n%n = "
                                "add(%s, %c)\nreturn %n\n}\n" +
                                main)))
      << ir::print(got);
}

TEST(Cse, WhereInputsStandInABodyDoesNotMatter) {
  const Type type{DType::f32, {}};
  const auto body = [&](bool late) {
    auto graph = std::make_shared<ir::Graph>("body");
    const ir::Value s = graph->input("s", type);
    ir::Value x;
    if (!late) x = graph->input("x", type);
    const ir::Value e = graph->add(ir::Op::exp, {s});
    if (late) x = graph->input("x", type);
    graph->output(graph->add(ir::Op::add, {e, x}));
    return graph;
  };
  ir::Graph graph;
  const ir::Value s = graph.input("s", type), x = graph.input("x", type);
  for (bool late : {false, true})
    graph.output(
        graph.add(ir::Op::scan, {s, x}, ir::ScanAttrs{.length = 3, .carries = 1, .xs = 0}, {body(late)}));
  EXPECT_EQ(count(passes::cse(graph), ir::Op::scan), 1);
}

TEST(Dce, UnusedNodesGoAndInputsStay) {
  const std::string loop =
      "graph @body(%c: f32[], %d: f32[], %x: f32[]) {\n%n = add(%c, %x)\n%u = exp(%x)\nreturn %n, %d\n}\n";
  const std::string swept =
      "graph @body(%c: f32[], %d: f32[], %x: f32[]) {\n%n = add(%c, %x)\nreturn %n, %d\n}\n";
  const std::string main =
      "(%s: f32[], %t: f32[], %xs: f32[3]) {\n%y, %z = scan(%s, %t, %xs) {length=3, carries=2, xs=1} @body\n";
  const ir::Graph got = passes::dce(
      parsed(loop + "graph @main" + main + "%dead = neg(%z)\n%dead2 = neg(%dead)\nreturn %y\n}\n"));
  EXPECT_TRUE(got.same_structure(parsed(swept + "graph @main" + main + "return %y\n}\n"))) << ir::print(got);
}

TEST(Dce, NamesCommentsAliasesAndShardingsSurvive) {
  const std::string text =
      "systole.ir 1\n\n// The model.\ngraph @net(%x: f32[4] {alias=0} sharding([a])) mesh(a=2) {\n  // "
      "Squared.\n"
      "  %square = mul(%x, %x) : f32[4] sharding([a]) loc(scope=\"net/fc\", file=\"a.cpp\", line=7)\n  "
      "return y: %square\n}\n";
  for (ir::Graph (*pass)(const ir::Graph&) :
       {passes::dce, passes::cse, passes::simplify, passes::fold, passes::inline_composites})
    EXPECT_EQ(ir::print(pass(ir::parse(text))), text);
}

TEST(InlineComposites, BodiesTakeTheirPlaceUnderTheirScope) {
  const std::string bodies =
      "graph @inner(%x: f32[4]) {\n%e = exp(%x)\nreturn %e\n}\n"
      "graph @outer(%x: f32[4]) {\n%a = composite soft(%x) @inner\n%b = neg(%a) loc(scope=\"tail\")\nreturn "
      "%b\n}\n";
  const ir::Graph got = passes::inline_composites(
      parsed(bodies + "graph @main(%x: f32[4]) {\n%y = composite whole(%x) @outer loc(scope=\"net\")\n%z = "
                      "composite whole(%y) @outer\nreturn %z\n}\n"));
  ir::verify(got);
  EXPECT_TRUE(got.same_structure(parsed(
      "graph @main(%x: f32[4]) {\n%a = exp(%x)\n%b = neg(%a)\n%c = exp(%b)\n%d = neg(%c)\nreturn %d\n}\n")))
      << ir::print(got);
  const std::vector<std::string> scopes = {"", "net/whole/soft", "net/whole/tail", "whole/soft",
                                           "whole/tail"};
  for (std::int32_t i = 1; i < got.size(); ++i) {
    ASSERT_NE(got.node(i).debug, nullptr);
    EXPECT_EQ(got.node(i).debug->scope, scopes[static_cast<std::size_t>(i)]);
  }
}

TEST(InlineComposites, ReachesBodiesOfLoops) {
  const ir::Graph got = passes::inline_composites(
      parsed("graph @inner(%x: f32[]) {\n%e = exp(%x)\nreturn %e\n}\ngraph @body(%c: f32[]) {\n%a = "
             "composite soft(%c) @inner\nreturn %a\n}\n"
             "graph @main(%x: f32[]) {\n%y = scan(%x) {length=3, carries=1, xs=0} @body\nreturn %y\n}\n"));
  EXPECT_EQ(count(got, ir::Op::scan), 1);
  EXPECT_EQ(count(*got.node(1).graphs[0], ir::Op::exp), 1);
}

TEST(Pipeline, PassesFeedEachOtherUntilNothingChanges) {
  // Folding makes the predicate known, simplify inlines the branch, cse merges what it brings, dce drops the
  // rest.
  const ir::Graph got =
      passes::run_passes(parsed("graph @then(%a: f32[4]) {\n%r = exp(%a)\nreturn %r\n}\ngraph @else(%a: "
                                "f32[4]) {\n%r = neg(%a)\nreturn %r\n}\n"
                                "graph @main(%x: f32[4]) {\n%one = constant() {value=i32[](1)}\n%two = "
                                "add(%one, %one)\n%p = less(%one, %two)\n%e = exp(%x)\n"
                                "%y = cond(%p, %x) @then @else\n%z = add(%y, %e)\nreturn %z\n}\n"),
                         passes::standard_passes());
  EXPECT_TRUE(
      got.same_structure(parsed("graph @main(%x: f32[4]) {\n%e = exp(%x)\n%z = add(%e, %e)\nreturn %z\n}\n")))
      << ir::print(got);
}

TEST(Pipeline, ChainsOfHundredThousandNodesNeedNoStack) {
  ir::Graph graph;
  ir::Value v = graph.input("x", {DType::f32, {4}});
  for (int i = 0; i < 100000; ++i) v = graph.add(i % 2 == 0 ? ir::Op::exp : ir::Op::neg, {v});
  graph.output(v);
  for (const passes::Pass& pass : passes::standard_passes())
    EXPECT_EQ(pass.run(graph).size(), 100001) << pass.name;
}

// Seconds of the processor's time for all standard passes, the best of three. Not the wall's, which other
// programs take part of.
double seconds_of_passes(const ir::Graph& graph) {
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    const std::clock_t start = std::clock();
    for (const passes::Pass& pass : passes::standard_passes()) pass.run(graph);
    best = std::min(best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  return best;
}

// Builds graphs of n and 8n steps: linear work takes 8 times as long, quadratic 64 times.
void expect_linear(const std::string& what, int n, const std::function<void(ir::Graph&, int)>& build) {
  ir::Graph small, large;
  build(small, n);
  build(large, 8 * n);
  const double unit = seconds_of_passes(small), whole = seconds_of_passes(large);
  EXPECT_LT(whole, 28 * unit + 0.02) << what << ": " << unit << " s for " << n << " steps";
}

TEST(Pipeline, WorkGrowsLinearlyAlongChains) {
  using ir::Op, ir::Value;
  using Step = std::function<Value(ir::Graph&, Value, int)>;
  const auto chain = [](const std::string& what, const Shape& shape, const Step& step) {
    expect_linear(what, 500, [&](ir::Graph& graph, int n) {
      Value v = graph.input("x", {DType::f32, shape});
      for (int i = 0; i < n; ++i) v = step(graph, v, i);
      graph.output(v);
    });
  };
  chain("add", {4}, [](auto& g, Value v, int) { return g.add(Op::add, {v, g.value({0, 0})}); });
  chain("reshape", {2, 6}, [](auto& g, Value v, int i) {
    return g.add(Op::reshape, {v}, ir::ReshapeAttrs{i % 2 == 0 ? Shape{3, 4} : Shape{2, 6}});
  });
  chain("transpose", {2, 2, 2},
        [](auto& g, Value v, int) { return g.add(Op::transpose, {v}, ir::TransposeAttrs{{1, 2, 0}}); });
  chain("broadcast", {2}, [](auto& g, Value v, int i) {
    return i % 2 == 0 ? g.add(Op::broadcast, {v}, ir::BroadcastAttrs{{3, 2}, {1}})
                      : g.add(Op::reduce, {v}, ir::ReduceAttrs{ir::Combine::max, {0}});
  });
  chain("slice", {100000}, [](auto& g, Value v, int) {
    return g.add(Op::slice, {v}, ir::SliceAttrs{{1}, {v.shape()[0]}, {1}});
  });
  chain("pad", {1}, [](auto& g, Value v, int) {
    return g.add(Op::pad, {v, g.constant(Literal::scalar(0.0F))}, ir::PadAttrs{{1}, {0}, {0}});
  });
  chain("concat", {1},
        [](auto& g, Value v, int) { return g.add(Op::concat, {v, g.value({0, 0})}, ir::AxisAttrs{0}); });
}

TEST(Pipeline, WorkGrowsLinearlyAcrossNodes) {
  using ir::Op, ir::Value;
  expect_linear("inputs and outputs", 500, [](ir::Graph& graph, int n) {
    for (int i = 0; i < n; ++i)
      graph.output(graph.add(Op::neg, {graph.input("x" + std::to_string(i), {DType::f32, {4}})}));
  });
  // Bodies that differ only inside, under one operand.
  expect_linear("scans", 250, [](ir::Graph& graph, int n) {
    const Type type{DType::f32, {}};
    const Value x = graph.input("x", type);
    for (int i = 0; i < n; ++i) {
      const ir::GraphRef body = ir::make_graph("body", std::span(&type, 1), [&](const ir::Values& v) {
        ir::Graph& inside = v[0].graph();
        return ir::Values{inside.add(Op::add, {v[0], inside.constant(Literal::full(type, i + 1))})};
      });
      graph.output(graph.add(Op::scan, {x}, ir::ScanAttrs{.length = 3, .carries = 1, .xs = 0}, {body}));
    }
  });
}

TEST(Pipeline, ALargeConstantIsNotSearchedAtEachUse) {
  // 64 MB whose last element alone differs: 256 GB to read if each of 2000 uses looked through it twice.
  std::vector<float> values(1 << 24, 1);
  values.back() = 2;
  ir::Graph graph;
  const ir::Value c = graph.constant(Literal::of<float>({1 << 24}, values));
  ir::Value v = graph.input("x", c.type());
  for (int i = 0; i < 2000; ++i) v = graph.add(ir::Op::mul, {v, c});
  graph.output(v);
  const std::clock_t start = std::clock();
  EXPECT_EQ(count(passes::simplify(graph), ir::Op::mul), 2000);
  EXPECT_EQ(count(passes::fold(graph), ir::Op::mul), 2000);
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 3);
}

// A graph of `size` random nodes, all of shape [2,3], rich in the patterns that rules look for.
ir::Graph random_graph(std::mt19937& random, int size) {
  using ir::Op;
  const Shape shape{2, 3};
  ir::Graph graph;
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  ir::Values floats, ints, bools;
  for (const char* name : {"a", "b"}) floats.push_back(graph.input(name, {DType::f32, shape}));
  for (const char* name : {"i", "j"}) ints.push_back(graph.input(name, {DType::i8, shape}));
  bools.push_back(graph.input("p", {DType::boolean, shape}));
  const auto any = [&](const ir::Values& v) { return v[below(v.size())]; };
  for (int n = 0; n < size; ++n) {
    ir::Values& list = below(2) == 0 ? floats : ints;
    const bool real = &list == &floats;
    switch (below(9)) {
      case 0: {
        const double number = std::array{0.0, -0.0, 1.0, -1.0, 2.0}[below(5)];
        const ir::Value c = graph.constant(Literal::full({real ? DType::f32 : DType::i8, {}}, number));
        list.push_back(graph.add(Op::broadcast, {c}, ir::BroadcastAttrs{shape, {}}));
        break;
      }
      case 1: list.push_back(graph.add(std::array{Op::neg, Op::abs, Op::sign}[below(3)], {any(list)})); break;
      case 2:
      case 3:
        list.push_back(graph.add(std::array{Op::add, Op::sub, Op::mul, Op::div, Op::rem}[below(5)],
                                 {any(list), any(list)}));
        break;
      case 4:
        list.push_back(
            graph.add(Op::reverse, {any(list)}, ir::AxesAttrs{below(2) == 0 ? Ints{0} : Ints{0, 1}}));
        break;
      case 5: {
        const ir::Value t = graph.add(Op::transpose, {any(list)}, ir::TransposeAttrs{{1, 0}});
        list.push_back(below(2) == 0 ? graph.add(Op::transpose, {t}, ir::TransposeAttrs{{1, 0}})
                                     : graph.add(Op::reshape, {t}, ir::ReshapeAttrs{shape}));
        break;
      }
      case 6: list.push_back(graph.add(Op::select, {any(bools), any(list), any(list)})); break;
      case 7:
        bools.push_back(below(3) == 0 ? graph.add(Op::bitwise_not, {any(bools)})
                                      : graph.add(std::array{Op::less, Op::equal, Op::not_equal}[below(3)],
                                                  {any(list), any(list)}));
        break;
      case 8:
        (real ? ints : floats)
            .push_back(graph.add(Op::convert, {any(list)}, ir::ConvertAttrs{real ? DType::i8 : DType::f32}));
        break;
    }
  }
  for (const ir::Values* list : {&floats, &ints, &bools}) graph.output(list->back());
  return graph;
}

TEST(Pipeline, RandomGraphsKeepTheirValuesAndDoNotGrow) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int i = 0; i < 300 && !HasFailure(); ++i) {
    const ir::Graph graph = passes::dce(random_graph(random, 40));
    const ir::Graph got = passes::run_passes(graph, passes::standard_passes());
    ASSERT_NO_THROW(ir::verify(got));
    const std::vector<Literal> wanted = pass_check::evaluated(graph), values = pass_check::evaluated(got);
    for (std::size_t r = 0; r < wanted.size(); ++r)
      EXPECT_TRUE(pass_check::same_values(wanted[r], values[r])) << "result " << r << " of\n"
                                                                 << ir::print(graph) << ir::print(got);
    EXPECT_LE(got.size(), graph.size() + 6);  // a result that is all one value takes a scalar and a broadcast
  }
}

class PipelineFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("systole-dump-" + std::to_string(::getpid()) + "-" +
                                           ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
  }
  void TearDown() override {
    ::unsetenv("SYSTOLE_DUMP");
    fs::remove_all(folder_);
  }
  fs::path folder_;
};

TEST_F(PipelineFiles, DumpWritesEveryStageOfEveryThreadUnderItsOwnName) {
  const fs::path nested = folder_ / "a" / "b";
  ::setenv("SYSTOLE_DUMP", nested.c_str(), 1);
  const ir::Graph graph =
      parsed("graph @\"my net/1\"(%x: f32[4]) {\n%a = neg(%x)\n%b = neg(%a)\nreturn %b\n}\n");
  const passes::Pass list[] = {{"simplify", passes::simplify}, {"dce", passes::dce}};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { passes::run_passes(graph, list); });
  for (std::thread& t : threads) t.join();
  std::vector<std::string> inputs, results;
  for (const fs::directory_entry& entry : fs::directory_iterator(nested)) {
    const std::string name = entry.path().filename();
    EXPECT_TRUE(name.starts_with(std::to_string(::getpid()) + "-")) << name;
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    if (name.ends_with("-00-my_net_1-input.sir")) inputs.push_back(text.str());
    if (name.ends_with("-02-my_net_1-dce.sir")) results.push_back(text.str());
  }
  ASSERT_EQ(inputs.size(), 4u);
  ASSERT_EQ(results.size(), 4u);
  for (const std::string& text : inputs) EXPECT_EQ(text, ir::print(graph));
  for (const std::string& text : results) EXPECT_EQ(count(ir::parse(text), ir::Op::neg), 0) << text;
}

TEST_F(PipelineFiles, ADumpThatCannotBeWrittenIsAnIoError) {
  fs::create_directories(folder_);
  std::ofstream(folder_ / "file") << "in the way";
  ::setenv("SYSTOLE_DUMP", (folder_ / "file").c_str(), 1);
  try {
    passes::run_passes(parsed("graph @main(%x: f32[4]) {\nreturn %x\n}\n"), passes::standard_passes());
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo) << error.what();
    EXPECT_NE(std::string(error.what()).find("SYSTOLE_DUMP"), std::string::npos) << error.what();
  }
}

TEST_F(PipelineFiles, AMisspeltSwitchIsAnError) {
#ifndef SYSTOLE_DEBUG
  const char* old = std::getenv("SYSTOLE_VERIFY");
  const std::string kept = old == nullptr ? "" : old;
  ::setenv("SYSTOLE_VERIFY", "maybe", 1);
  EXPECT_THROW(
      passes::run_passes(parsed("graph @main(%x: f32[4]) {\nreturn %x\n}\n"), passes::standard_passes()),
      Error);
  ::setenv("SYSTOLE_VERIFY", kept.c_str(), 1);
#endif
}

}  // namespace
}  // namespace systole
