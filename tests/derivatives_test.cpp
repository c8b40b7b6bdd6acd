// Derivatives by hand, and what they do with composites, loops, ties and refusals.

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "autodiff_check.h"
#include "error_check.h"
#include "systole/base/error.h"
#include "systole/compile/passes.h"
#include "systole/ir/composite.h"

namespace systole::autodiff {
namespace {

// f = relu(x)², f'' = 2 where x > 0: by hand.
TEST(Derivatives, SecondDerivativeOfSquaredReluByHand) {
  const Graph f = ir::parse(
      "systole.ir 1\ngraph @f(%x: f64[]) { %0 = constant() {value=f64[](0)} %r = max(%x, %0) %y = mul(%r, "
      "%r) return %y }");
  const Graph df = value_and_grad(f, {0});
  Graph slope("slope");  // the gradient alone
  const ir::Value x = slope.input("x", {DType::f64, {}});
  slope.output(ir::inline_graph(slope, df, x)[1]);
  const Graph ddf = value_and_grad(slope, {0});
  for (const auto& [at, first, second] : {std::tuple{3.0, 6.0, 2.0}, std::tuple{-3.0, 0.0, 0.0}}) {
    const std::vector<Literal> values = eval::evaluate(ddf, std::vector{Literal::scalar(at)});
    EXPECT_DOUBLE_EQ(values[0].item<double>(), first);
    EXPECT_DOUBLE_EQ(values[1].item<double>(), second);
  }
}

// The worked example of two layers: y = W2·W1·x against a target, loss ½|y - t|², gradients by hand.
TEST(Derivatives, TwoLinearLayersByHand) {
  const Graph f = ir::parse(R"(systole.ir 1
graph @f(%x: f64[3], %w1: f64[2,3], %w2: f64[2,2], %t: f64[2]) {
  %z1 = dot_general(%w1, %x) {a_contract=[1], b_contract=[0]}
  %z2 = dot_general(%w2, %z1) {a_contract=[1], b_contract=[0]}
  %d = sub(%z2, %t)
  %s = mul(%d, %d)
  %h = constant() {value=f64[2](splat 0.5)}
  %e = mul(%s, %h)
  %loss = reduce(%e) {axes=[0]}
  return %loss
})");
  const std::vector<Literal> r = eval::evaluate(
      value_and_grad(f, {1, 2}),
      std::vector{Literal::of<double>({3}, {1, 2, 3}), Literal::of<double>({2, 3}, {1, 2, 3, 4, 5, 6}),
                  Literal::of<double>({2, 2}, {0.1, 0.2, 0.3, 0.4}), Literal::of<double>({2}, {2, 5})});
  EXPECT_NEAR(r[0].item<double>(), 88.82, 1e-12);
  const double w1[] = {4.18, 8.36, 12.54, 5.96, 11.92, 17.88}, w2[] = {81.2, 185.6, 168, 384};
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(r[1].values<double>()[i], w1[i], 1e-12);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(r[2].values<double>()[i], w2[i], 1e-12);
}

// Loops inside loops, 30 deep: a body that were looked at twice per level would take until tomorrow.
TEST(Derivatives, NestedLoopsAreDifferentiatedOncePerLevel) {
  std::string text = "systole.ir 1\ngraph @g0(%x: f64[]) { %y = sin(%x) return %y }\n";
  for (int i = 1; i <= 30; ++i)
    text += "graph @g" + std::to_string(i) + "(%x: f64[]) { %y = scan(%x) {length=1, carries=1} @g" +
            std::to_string(i - 1) + " return %y }\n";
  const Graph g = vjp(ir::parse(text), {0});
  const std::vector<Literal> r = eval::evaluate(g, std::vector{Literal::scalar(0.5), Literal::scalar(1.0)});
  EXPECT_NEAR(r[1].item<double>(), std::cos(0.5), 1e-15);
  EXPECT_LT(g.expanded_size(), 10000);
}

TEST(Derivatives, GivenBackwardIsUsedInPlaceOfTheBody) {
  const Graph f = ir::parse(R"(systole.ir 1
graph @f(%x: f64[]) { return %x }
graph @b(%x: f64[], %y: f64[], %dy: f64[]) {
  %a = mul(%dy, %x)
  return %a
}
graph @main(%x: f64[]) {
  %y = composite mine(%x) @f @b
  return %y
})");
  const std::vector<Literal> at{Literal::scalar(3.0), Literal::scalar(5.0)};
  EXPECT_EQ(eval::evaluate(vjp(f, {0}), at)[1].item<double>(), 15);
  EXPECT_EQ(eval::evaluate(jvp(f, {0}), at)[1].item<double>(), 15);
  // The backward, dy·x, is differentiated like any graph; the composite in it once more by its own rule.
  const std::vector<Literal> second = eval::evaluate(
      vjp(vjp(f, {0}), {0, 1}),
      std::vector{Literal::scalar(3.0), Literal::scalar(5.0), Literal::scalar(0.0), Literal::scalar(7.0)});
  EXPECT_EQ(second[2].item<double>(), 35);
  EXPECT_EQ(second[3].item<double>(), 21);
}

// sin with its cosine kept for the way back, dx = c·dy: -sin is what remains of it at the next order.
TEST(Derivatives, ResidualsAreDifferentiatedByTheBody) {
  const Graph f = ir::parse(R"(systole.ir 1
graph @f(%x: f64[]) {
  %y = sin(%x)
  %c = cos(%x)
  return %y, %c
}
graph @b(%x: f64[], %y: f64[], %c: f64[], %dy: f64[], %dc: f64[]) {
  %dx = mul(%dy, %c)
  return %dx
}
graph @main(%x: f64[]) {
  %y, %c = composite kept(%x) @f @b
  return %y
})");
  const auto at = [](std::vector<double> values) {
    std::vector<Literal> out;
    for (double v : values) out.push_back(Literal::scalar(v));
    return out;
  };
  const Graph once = vjp(f, {0}), twice = vjp(once, {0});
  EXPECT_DOUBLE_EQ(eval::evaluate(once, at({0.5, 1}))[1].item<double>(), std::cos(0.5));
  EXPECT_DOUBLE_EQ(eval::evaluate(twice, at({0.5, 1, 0, 1}))[2].item<double>(), -std::sin(0.5));
}

// The fixed point y = cos(x·y) by a loop of unknown length, and its gradient by the implicit function: the
// loop has none, but the result has the given one at every order.
TEST(Derivatives, ResultsAreDifferentiatedByTheGivenBackward) {
  const Graph f = ir::parse(R"(systole.ir 1
graph @far(%y: f64[], %z: f64[], %x: f64[]) {
  %d = sub(%y, %z)
  %a = abs(%d)
  %limit = constant() {value=f64[](1e-15)}
  %go = greater(%a, %limit)
  return %go
}
graph @step(%y: f64[], %z: f64[], %x: f64[]) {
  %p = mul(%x, %y)
  %c = cos(%p)
  return %c, %y
}
graph @solve(%x: f64[]) {
  %one = constant() {value=f64[](1)}
  %two = constant() {value=f64[](2)}
  %y, %z = while_loop(%one, %two, %x) {carries=2} @far @step
  return %y
}
graph @solve_back(%x: f64[], %y: f64[], %dy: f64[]) {
  %p = mul(%x, %y)
  %s = sin(%p)
  %one = constant() {value=f64[](1)}
  %xs = mul(%x, %s)
  %d = add(%one, %xs)
  %ys = mul(%y, %s)
  %n = neg(%ys)
  %slope = div(%n, %d)
  %dx = mul(%slope, %dy)
  return %dx
}
graph @main(%x: f64[]) {
  %y = composite fixed_point(%x) @solve @solve_back
  return %y
})");
  check_gradient(f, 0.4, 0.6);
  check_gradient(vjp(f, {0}), 0.4, 0.6);
}

TEST(Derivatives, WrongBackwardIsRefusedWithBothSignatures) {
  const auto build = [](const std::string& backward) {
    ir::parse("systole.ir 1\ngraph @f(%x: f32[2], %n: i32[]) { return %x, %n }\ngraph @b(" + backward +
              " }\ngraph @main(%x: f32[2], %n: i32[]) { %y, %m = composite c(%x, %n) @f @b return %y }\n");
  };
  const auto refused = [&](const std::string& backward) {
    return error_of(ErrorKind::kShape, [&] { build(backward); });
  };
  const std::string right = "%x: f32[2], %n: i32[], %y: f32[2], %m: i32[], %dy: f32[2]) { return %dy";
  EXPECT_NO_THROW(build(right));
  const std::string inputs = refused("%x: f32[2], %n: i32[], %dy: f32[2]) { return %dy");
  EXPECT_NE(inputs.find("the inputs of the backward graph @b"), std::string::npos) << inputs;
  EXPECT_NE(inputs.find("(f32[2], i32[], f32[2], i32[], f32[2])"), std::string::npos) << inputs;
  const std::string outputs = refused(right + ", %m");
  EXPECT_NE(outputs.find("must return a cotangent for each float operand"), std::string::npos) << outputs;
  EXPECT_NE(outputs.find("(f32[2], i32[])"), std::string::npos) << outputs;
}

// f = stop_gradient(x)·x: f' is x where it would be 2x, f'' is 0.
TEST(Derivatives, StoppedGradientsAreConstants) {
  const Graph f = ir::parse(
      "systole.ir 1\ngraph @f(%x: f64[]) { %c = composite stop_gradient(%x) %y = mul(%c, %x) return %y }");
  const std::vector<Literal> at{Literal::scalar(3.0), Literal::scalar(5.0)};
  EXPECT_EQ(eval::evaluate(vjp(f, {0}), at)[1].item<double>(), 15);
  EXPECT_EQ(eval::evaluate(jvp(f, {0}), at)[1].item<double>(), 15);
  const std::vector<Literal> second = eval::evaluate(
      vjp(vjp(f, {0}), {0}),
      std::vector{Literal::scalar(3.0), Literal::scalar(1.0), Literal::scalar(0.0), Literal::scalar(1.0)});
  EXPECT_EQ(second[2].item<double>(), 0);
}

std::int64_t count_of(const Graph& graph, ir::Op op) {
  return std::count_if(graph.nodes().begin(), graph.nodes().end(),
                       [&](const ir::Node& node) { return node.op == op; });
}

// f(x) = sin(sin(x)): the way back needs cos of both arguments. Kept, the inner sine is there; with remat it
// is computed again, and no pass merges it with the first one.
TEST(Derivatives, RematComputesTheBodyAgain) {
  const std::string body = "graph @body(%x: f64[3]) { %a = sin(%x) %b = sin(%a) return %b }\n";
  const auto sines = [&](const char* statement) {
    const Graph f = ir::parse("systole.ir 1\n" + body + "graph @f(%x: f64[3]) { %y = " + statement +
                              " @body return %y }\n");
    const Graph g = passes::run_passes(passes::inline_composites(vjp(f, {0})), passes::standard_passes());
    return count_of(g, ir::Op::sin);
  };
  EXPECT_EQ(sines("composite plain(%x)"), 2);
  EXPECT_EQ(sines("composite remat(%x)"), 3);
}

// Nothing of the first computation but the operand is used on the way back.
TEST(Derivatives, RematKeepsOnlyTheOperands) {
  const Graph f = ir::parse(
      "systole.ir 1\ngraph @body(%x: f64[3]) { %a = sin(%x) %b = sin(%a) return %b }\n"
      "graph @f(%x: f64[3]) { %y = composite remat(%x) @body return %y }\n");
  const Graph g = vjp(f, {0});
  ASSERT_EQ(count_of(g, ir::Op::composite), 2);
  const ir::Node& back = g.node(g.outputs()[1].value.node);
  for (ir::ValueId v : back.operands) EXPECT_EQ(g.node(v.node).op, ir::Op::input);
  EXPECT_EQ(back.as<ir::CompositeAttrs>().name, ir::kRemat);
}

// A composite that no derivative passes through stays whole, and so does one with its own backward.
TEST(Derivatives, CompositesAreOpenedOnlyWhereNeeded) {
  const Graph f = ir::parse(
      "systole.ir 1\ngraph @f(%x: f64[3], %z: f64[3]) { %a = composite gelu(%x) %b = composite gelu(%z) %c = "
      "composite softmax(%z) %d = mul(%a, %b) %y = mul(%d, %c) return %y }");
  const Graph g = vjp(f, {1});
  std::vector<std::string> names;
  for (const ir::Node& node : g.nodes())
    if (node.op == ir::Op::composite) names.push_back(node.as<ir::CompositeAttrs>().name);
  EXPECT_EQ(names, (std::vector<std::string>{"gelu", "softmax"}));
}

// While loops: forward mode against differences, inside other control flow too.
const Case kWhileCases[] = {
    {"while", "%x: f64[3], %n: i32[], %w: f64[3]",
     "%i = constant() {value=i32[](0)} %j, %y = while_loop(%i, %x, %n, %w) {carries=2} @go @step return %y, "
     "%j",
     "graph @go(%i: i32[], %x: f64[3], %n: i32[], %w: f64[3]) { %m = add(%n, %n) %p = less(%i, %m) return %p "
     "}\n"
     "graph @step(%i: i32[], %x: f64[3], %n: i32[], %w: f64[3]) { %one = constant() {value=i32[](1)} %j = "
     "add(%i, %one) %a = mul(%x, %w) %b = sin(%a) return %j, %b }\n"},
    {"while until close", "%x: f64[]", "%y = while_loop(%x, %x) {carries=1} @go @step return %y",
     "graph @go(%y: f64[], %x: f64[]) { %s = mul(%y, %y) %d = sub(%s, %x) %a = abs(%d) %t = constant() "
     "{value=f64[](1e-12)} %p = greater(%a, %t) return %p }\n"
     "graph @step(%y: f64[], %x: f64[]) { %q = div(%x, %y) %s = add(%y, %q) %h = constant() "
     "{value=f64[](0.5)} %n = mul(%s, %h) return %n }\n",
     0.5, 2},
    {"while becomes active", "%x: f64[]",
     "%o = constant() {value=f64[](1)} %y = while_loop(%o, %x) {carries=1} @go @step return %y",
     "graph @go(%y: f64[], %x: f64[]) { %t = constant() {value=f64[](9)} %p = less(%y, %t) return %p }\n"
     "graph @step(%y: f64[], %x: f64[]) { %a = mul(%y, %x) %b = add(%a, %y) return %b }\n",
     0.5, 2},
    {"while in cond in scan", "%x: f64[], %xs: f64[3]",
     "%y, %ys = scan(%x, %xs) {length=3, carries=1, xs=1} @body return %y, %ys",
     "graph @go(%x: f64[]) { %t = constant() {value=f64[](4)} %p = less(%x, %t) return %p }\n"
     "graph @double(%x: f64[]) { %y = add(%x, %x) return %y }\n"
     "graph @then(%x: f64[], %z: f64[]) { %y = while_loop(%x) {carries=1} @go @double %p = mul(%y, %z) "
     "return "
     "%p }\n"
     "graph @else(%x: f64[], %z: f64[]) { %y = mul(%x, %z) return %y }\n"
     "graph @body(%x: f64[], %z: f64[]) { %t = constant() {value=f64[](1)} %p = less(%z, %t) %y = cond(%p, "
     "%x, %z) @then @else return %y, %x }\n",
     0.5, 2},
    {"while in remat", "%x: f64[]", "%y = composite remat(%x) @body return %y",
     "graph @go(%x: f64[]) { %t = constant() {value=f64[](4)} %p = less(%x, %t) return %p }\n"
     "graph @grow(%x: f64[]) { %e = exp(%x) return %e }\n"
     "graph @body(%x: f64[]) { %y = while_loop(%x) {carries=1} @go @grow return %y }\n"},
};

class WhileTangents : public testing::TestWithParam<Case> {};
TEST_P(WhileTangents, AgreeWithDifferencesAndTwiceToo) {
  const Graph once = graph_of(GetParam());
  const Graph twice = jvp(once, float_inputs(once));
  check_tangents(once, GetParam().low, GetParam().high);
  check_tangents(twice, GetParam().low, GetParam().high);
}
INSTANTIATE_TEST_SUITE_P(Ops, WhileTangents, testing::ValuesIn(kWhileCases), test_name);

// A rule of forward mode is not a fallback: a way back through the loop is refused wherever the loop stands.
TEST(Derivatives, WhileHasNoReverseMode) {
  for (const Case& c : kWhileCases) {
    const Graph g = graph_of(c);
    const std::string message = error_of(ErrorKind::kUnsupported, [&] { vjp(g, float_inputs(g)); });
    EXPECT_NE(message.find("gradient of while_loop: reverse mode needs"), std::string::npos) << message;
  }
}

// Who ties shares, but of a window the first one gets all: by hand, all elements being equal.
TEST(Derivatives, TiesShareTheCotangent) {
  struct Tie {
    const char *inputs, *statements;
    std::vector<double> first, last;  // gradients by the first and the last input, for the cotangent 6
  };
  const Tie ties[] = {
      {"%x: f64[1], %z: f64[1]", "%y = max(%x, %z)", {3}, {3}},
      {"%x: f64[3]", "%y = reduce(%x) {kind=min, axes=[0]}", {2, 2, 2}, {2, 2, 2}},
      {"%x: f64[1], %u: f64[2]",
       "%i = constant() {value=i32[2,1](0, 0)} %y = scatter(%x, %i, %u) {combine=max, inserted_axes=[0], "
       "index_map=[0], index_vector_axis=1}",
       {2},
       {2, 2}},
      {"%x: f64[3]", "%y = reduce_window(%x) {kind=max, window=[3]}", {6, 0, 0}, {6, 0, 0}},
  };
  for (const Tie& tie : ties) {
    const Graph g = graph_of({"tie", tie.inputs, (std::string(tie.statements) + " return %y").c_str()});
    std::vector<Literal> arguments;
    for (std::size_t i = 0; i < g.inputs().size(); ++i) arguments.emplace_back(g.input_type(i));
    arguments.emplace_back(g.output_type(0));
    for (double& v : arguments.back().mutable_values<double>()) v = 6;
    const std::vector<Literal> r = eval::evaluate(vjp(g, float_inputs(g)), arguments);
    EXPECT_EQ(r[1].to_doubles(), tie.first) << tie.statements;
    EXPECT_EQ(r.back().to_doubles(), tie.last) << tie.statements;
  }
}

// What only the way back needs is a result that nobody uses on the way forward alone.
TEST(Derivatives, UnusedResidualsOfACompositeAreDeadCode) {
  const Graph f = ir::parse(std::string("systole.ir 1\n") + kSine +
                            "graph @f(%n: i32[3], %x: f64[3]) { %y, %c = composite user.sine(%n, %x) @sine "
                            "@sine_back return %y }\n");
  const Graph plain = passes::dce(passes::inline_composites(f));
  EXPECT_EQ(count_of(plain, ir::Op::sin), 1);
  EXPECT_EQ(count_of(plain, ir::Op::cos), 0);
  const Graph back = passes::dce(passes::inline_composites(vjp(f, {1})));
  EXPECT_EQ(count_of(back, ir::Op::cos), 1);
}

TEST(Derivatives, SymbolicAxesStaySymbolic) {
  const Graph f = ir::parse(R"(systole.ir 1
graph @body(%x: f64[n,3], %w: f64[3,2]) {
  %y = dot_general(%x, %w) {a_contract=[1], b_contract=[0]}
  %p = composite softmax(%y)
  return %p
}
graph @f(%x: f64[n,3], %w: f64[3,2]) {
  %p = composite remat(%x, %w) @body
  %s = composite stop_gradient(%p)
  %y = mul(%p, %s)
  return %y
})");
  for (const Graph& g : {vjp(f, {0, 1}), jvp(f, {0, 1})}) {
    ir::verify(g);
    EXPECT_EQ(g.input_type(0), f.input_type(0));
    EXPECT_FALSE(g.is_static());
  }
  SymbolValues five;
  five.set("n", 5);
  const Graph bound = ir::bind_symbols(f, five);
  EXPECT_TRUE(ir::bind_symbols(vjp(f, {0, 1}), five).same_structure(vjp(bound, {0, 1})));
}

// The formula of the way back starts from q and k, as the body does: cse finds the scores that are there.
TEST(Derivatives, AttentionComputesItsScoresOnce) {
  const Graph f = ir::parse(
      "systole.ir 1\ngraph @f(%q: f32[1,2,5,4], %k: f32[1,2,5,4], %v: f32[1,2,5,3]) { %y, %l = composite "
      "attention(%q, %k, %v) {causal=true} return %y }");
  const Graph g = passes::run_passes(passes::inline_composites(vjp(f, {0, 1, 2})), passes::standard_passes());
  EXPECT_EQ(count_of(g, ir::Op::dot_general), 6);  // two forward, four back
  EXPECT_EQ(count_of(g, ir::Op::exp), 2);          // by the largest score, by the log-sum-exp
}

// What a library runs in place of the formulas; lse goes where nobody asks for it.
TEST(Derivatives, AttentionHasAGradientOfItsOwn) {
  const Graph f = ir::parse(
      "systole.ir 1\ngraph @f(%q: bf16[1,2,5,4], %k: bf16[1,2,5,4], %v: bf16[1,2,5,3]) { %y, %l = composite "
      "attention(%q, %k, %v) {causal=true} return %y }");
  const Graph back = vjp(f, {0, 1, 2});
  std::vector<std::string> names;
  for (const ir::Node& node : back.nodes())
    if (node.op == ir::Op::composite) names.push_back(node.as<ir::CompositeAttrs>().name);
  EXPECT_EQ(names, (std::vector<std::string>{"attention", "attention_grad"}));
  const Graph forward = passes::run_passes(passes::inline_composites(f), passes::standard_passes());
  EXPECT_EQ(count_of(forward, ir::Op::log), 0);
}

// Composites with formulas of their own take parameters of either dtype; each gradient has its operand's.
TEST(Derivatives, GradientsHaveTheDTypesOfTheOperands) {
  const std::pair<const char*, const char*> cases[] = {
      {"%x: bf16[2,3]", "%y = composite softmax(%x)"},
      {"%x: f16[2,3]", "%y = composite log_softmax(%x)"},
      {"%x: bf16[2,3], %l: i32[2]", "%y = composite cross_entropy(%x, %l)"},
      {"%x: bf16[2,3], %s: f32[3], %b: bf16[3]", "%y = composite layer_norm(%x, %s, %b)"},
      {"%x: bf16[2,3], %s: bf16[3], %b: f32[3]", "%y, %m, %v = composite batch_norm_train(%x, %s, %b)"},
      {"%x: bf16[2,3], %s: f32[3], %b: bf16[3]", "%y, %m, %v = composite batch_norm_train(%x, %s, %b)"},
      {"%x: f16[1,1,2,3], %k: f16[1,1,4,3], %v: f16[1,1,4,2]", "%y, %l = composite attention(%x, %k, %v)"},
  };
  for (const auto& [inputs, statement] : cases) {
    Graph f = graph_of({statement, inputs, (std::string(statement) + " return %y").c_str()});
    for (std::size_t i = 1; i < f.node(f.outputs()[0].value.node).types.size(); ++i)
      f.output(f.value({f.outputs()[0].value.node, static_cast<std::int32_t>(i)}));
    std::vector<int> wrt;
    for (std::size_t i = 0; i < f.inputs().size(); ++i)
      if (is_float(f.input_type(i).dtype)) wrt.push_back(static_cast<int>(i));
    const Graph back = vjp(f, wrt), forward = jvp(f, wrt);
    for (std::size_t k = 0; k < wrt.size(); ++k)
      EXPECT_EQ(back.output_type(f.outputs().size() + k), f.input_type(static_cast<std::size_t>(wrt[k])));
    for (std::size_t i = 0; i < f.outputs().size(); ++i)
      EXPECT_EQ(forward.output_type(f.outputs().size() + i), f.output_type(i)) << statement;
  }
}

TEST(Derivatives, TangentsOfOneInputNamedTwiceAddUp) {
  const Graph f = ir::parse("systole.ir 1\ngraph @f(%x: f64[]) { %y = mul(%x, %x) return %y }");
  const std::vector<Literal> r = eval::evaluate(
      jvp(f, {0, 0}), std::vector{Literal::scalar(3.0), Literal::scalar(1.0), Literal::scalar(10.0)});
  EXPECT_EQ(r[1].item<double>(), 66);
}

// Rounding to f32 and back passes the cotangent on unchanged.
TEST(Derivatives, ConversionToANarrowerFloatPassesTheCotangent) {
  const Graph f = ir::parse("systole.ir 1\ngraph @f(%x: f64[]) { %y = convert(%x) {dtype=f32} return %y }");
  const std::vector<Literal> r =
      eval::evaluate(vjp(f, {0}), std::vector{Literal::scalar(0.1), Literal::scalar(0.75f)});
  EXPECT_EQ(r[1].item<double>(), 0.75);
}

TEST(Derivatives, RefusalsNameTheOpAndTheReason) {
  const auto refused = [](const std::string& inputs, const std::string& statements,
                          const std::string& graphs = {}) -> std::string {
    const Graph g =
        ir::parse("systole.ir 1\n" + graphs + "graph @main(" + inputs + ") {\n" + statements + "\n}\n");
    try {
      vjp(g, {0});
      return "differentiated";
    } catch (const Error& e) {
      return e.what();
    }
  };
  EXPECT_NE(refused("%x: f32[]", "%y = while_loop(%x) {carries=1} @go @step return %y",
                    "graph @go(%x: f32[]) { %t = constant() {value=bool[](false)} return %t }\ngraph "
                    "@step(%x: f32[]) { %y = exp(%x) return %y }\n")
                .find("gradient of while_loop: reverse mode needs"),
            std::string::npos);
  EXPECT_NE(refused("%x: f32[3]", "%y = kernel_call(%x) {name=\"k\", results=[f32[3]]} return %y")
                .find("gradient of kernel_call k: a kernel has no gradient of its own; expected a KernelOp "
                      "with .backward"),
            std::string::npos);
  EXPECT_NE(refused("%x: i32[3]", "return %x").find("only floats have gradients"), std::string::npos);
  // A way through integers is no way: the gradient is zero.
  EXPECT_EQ(refused("%x: f32[3]", "%i = convert(%x) {dtype=i32} %y = convert(%i) {dtype=f32} return %y"),
            "differentiated");
}

}  // namespace
}  // namespace systole::autodiff
