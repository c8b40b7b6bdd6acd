// Mixed precision: which op runs in which precision, as text, and the numbers of a small network in bf16 with
// its gradients. The numbers are those of JAX (and of numpy with ml_dtypes) with every cast written by hand.

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "error_check.h"
#include "eval/eval.h"
#include "systole/autodiff.h"
#include "systole/compile.h"
#include "systole/ir/composite.h"
#include "systole/ir/text.h"
#include "systole/ops.h"

namespace systole {
namespace {

struct Case {
  std::string what, inputs, before, after;
};

void expect_cast(const Case& c, DType dtype = DType::bf16) {
  SCOPED_TRACE(c.what);
  const auto parsed = [&](const std::string& statements) {
    return ir::parse("systole.ir 1\ngraph @main(" + c.inputs + ") {\n" + statements + "\n}\n");
  };
  const ir::Graph got = passes::autocast(parsed(c.before), dtype);
  ASSERT_NO_THROW(ir::verify(got));
  const ir::Graph wanted = parsed(c.after.empty() ? c.before : c.after);
  EXPECT_TRUE(got.same_structure(wanted)) << "got " << ir::print(got) << "\nwanted " << ir::print(wanted);
}

TEST(Autocast, ContractionsRunLowAndABroadcastBiasJoinsThem) {
  expect_cast({"dense layer", "%x: f32[2,3], %w: f32[3,4], %b: f32[4]",
               R"(  %y = dot_general(%x, %w) {a_contract=[1], b_contract=[0]}
  %bs = broadcast(%b) {shape=[2,4], axes=[1]}
  %z = add(%y, %bs)
  return %z)",
               R"(  %xl = convert(%x) {dtype=bf16}
  %wl = convert(%w) {dtype=bf16}
  %y = dot_general(%xl, %wl) {a_contract=[1], b_contract=[0]} : bf16[2,4]
  %bs = broadcast(%b) {shape=[2,4], axes=[1]}
  %bl = convert(%b) {dtype=bf16}
  %bsl = broadcast(%bl) {shape=[2,4], axes=[1]}
  %z = add(%y, %bsl)
  %out = convert(%z) {dtype=f32}
  return %out)"});
}

TEST(Autocast, AResidualInF32StaysF32) {
  expect_cast({"residual", "%x: f32[2,2], %w: f32[2,2]",
               R"(  %y = dot_general(%x, %w) {a_contract=[1], b_contract=[0]}
  %z = add(%x, %y)
  return %z)",
               R"(  %xl = convert(%x) {dtype=f16}
  %wl = convert(%w) {dtype=f16}
  %y = dot_general(%xl, %wl) {a_contract=[1], b_contract=[0]} : f16[2,2]
  %yf = convert(%y) {dtype=f32}
  %z = add(%x, %yf)
  return %z)"},
              DType::f16);
}

TEST(Autocast, ElementwiseAndMovementFollowWhileSumsAndExpGoBackToF32) {
  expect_cast({"chain", "%x: f32[2,2], %w: f32[2,2]",
               R"(  %y = dot_general(%x, %w) {a_contract=[1], b_contract=[0]}
  %zero = constant() {value=f32[](0.0)}
  %zeros = broadcast(%zero) {shape=[2,2], axes=[]}
  %r = max(%y, %zeros)
  %t = transpose(%r) {permutation=[1,0]}
  %m = reduce(%t) {kind=max, axes=[0]}
  %e = exp(%t)
  %s = reduce(%t) {kind=sum, axes=[0]}
  return %m, %e, %s)",
               R"(  %xl = convert(%x) {dtype=bf16}
  %wl = convert(%w) {dtype=bf16}
  %y = dot_general(%xl, %wl) {a_contract=[1], b_contract=[0]} : bf16[2,2]
  %zero = constant() {value=f32[](0.0)}
  %zeros = broadcast(%zero) {shape=[2,2], axes=[]}
  %zl = convert(%zero) {dtype=bf16}
  %zsl = broadcast(%zl) {shape=[2,2], axes=[]}
  %r = max(%y, %zsl)
  %t = transpose(%r) {permutation=[1,0]}
  %m = reduce(%t) {kind=max, axes=[0]} : bf16[2]
  %tf = convert(%t) {dtype=f32}
  %e = exp(%tf)
  %s = reduce(%tf) {kind=sum, axes=[0]}
  %mf = convert(%m) {dtype=f32}
  return %mf, %e, %s)"});
}

TEST(Autocast, NormsComputeInF32AndGiveBackWhatTheyWereGiven) {
  const std::string dot = R"(  %xl = convert(%x) {dtype=bf16}
  %wl = convert(%w) {dtype=bf16}
  %y = dot_general(%xl, %wl) {a_contract=[1], b_contract=[0]} : bf16[2,2]
  %yf = convert(%y) {dtype=f32}
)";
  expect_cast({"layer norm", "%x: f32[2,2], %w: f32[2,2], %g: f32[2]",
               R"(  %y = dot_general(%x, %w) {a_contract=[1], b_contract=[0]}
  %n = composite layer_norm(%y, %g, %g)
  %p = composite softmax(%n)
  return %n, %p)",
               dot + R"(  %n = composite layer_norm(%yf, %g, %g)
  %nl = convert(%n) {dtype=bf16}
  %nf = convert(%nl) {dtype=f32}
  %p = composite softmax(%nf)
  return %nf, %p)"});
}

TEST(Autocast, CompositesOfContractionsTakeTheLowPrecision) {
  ir::Graph graph;
  ir::Values qkv;
  for (const char* name : {"q", "k", "v"}) qkv.push_back(graph.input(name, {DType::f32, {1, 2, 4, 8}}));
  const ir::Value a = ops::attention(qkv[0], qkv[1], qkv[2], true);
  graph.output(ops::gelu(a));
  const ir::Graph cast = passes::autocast(graph, DType::bf16);
  ir::verify(cast);
  int composites = 0;
  for (const ir::Node& node : cast.nodes())
    if (node.op == ir::Op::composite) {
      ++composites;
      EXPECT_EQ(node.types[0].dtype, DType::bf16) << node.as<ir::CompositeAttrs>().name;
    }
  EXPECT_EQ(composites, 2);
  EXPECT_EQ(cast.output_type(0), graph.output_type(0));
}

// What a low attention hands to its gradient: everything low, but the log-sum-exp, of which it lives.
TEST(Autocast, TheLogSumExpOfAttentionStaysInF32) {
  ir::Graph graph;
  ir::Values x;
  for (const char* name : {"q", "k", "v", "grad"}) x.push_back(graph.input(name, {DType::f32, {1, 2, 4, 8}}));
  const ir::Values forward = ir::add_composite("attention", ir::Values{x[0], x[1], x[2]});
  for (const ir::Value& g :
       ir::add_composite("attention_grad", ir::Values{x[0], x[1], x[2], forward[0], forward[1], x[3]}))
    graph.output(g);
  const ir::Graph cast = passes::autocast(graph, DType::bf16);
  ir::verify(cast);
  for (const ir::Node& node : cast.nodes()) {
    if (node.op != ir::Op::composite || node.operands.size() != 6) continue;
    for (std::size_t i = 0; i < 6; ++i)
      EXPECT_EQ(cast.type(node.operands[i]).dtype, i == 4 ? DType::f32 : DType::bf16) << i;
    EXPECT_EQ(cast.node(node.operands[4].node).op, ir::Op::composite);  // not converted to and fro
  }
}

TEST(Autocast, OtherDTypesAndHandWrittenPrecisionsAreLeftAlone) {
  expect_cast({"f64", "%x: f64[2,2]",
               "  %y = dot_general(%x, %x) {a_contract=[1], b_contract=[0]}\n  return %y", ""});
  expect_cast({"integers", "%x: i32[2,2]",
               "  %y = dot_general(%x, %x) {a_contract=[1], b_contract=[0]}\n  return %y", ""});
  expect_cast({"accumulation by hand", "%x: bf16[2,2]",
               "  %y = dot_general(%x, %x) {a_contract=[1], b_contract=[0], dtype=f32}\n  return %y", ""});
  expect_cast({"nothing to contract", "%x: f32[2], %i: i32[2]",
               "  %y = exp(%x)\n  %c = convert(%i) {dtype=f32}\n  %z = mul(%y, %c)\n  return %z", ""});
}

TEST(Autocast, LoopsKeepTheirSignatureAndAreCastInside) {
  const std::string scan =
      "  %r = scan(%h, %w) {length=3, carries=1, xs=0} @body : f32[2,2]\n  return %r\n}\n";
  const std::string head = "systole.ir 1\ngraph @body(%h: f32[2,2], %w: f32[2,2]) {\n",
                    main = "}\ngraph @main(%h: f32[2,2], %w: f32[2,2]) {\n" + scan;
  const ir::Graph before =
      ir::parse(head + "  %n = dot_general(%h, %w) {a_contract=[1], b_contract=[0]}\n  return %n\n" + main);
  const ir::Graph wanted = ir::parse(head + R"(  %hl = convert(%h) {dtype=bf16}
  %wl = convert(%w) {dtype=bf16}
  %n = dot_general(%hl, %wl) {a_contract=[1], b_contract=[0]}
  %out = convert(%n) {dtype=f32}
  return %out
)" + main);
  const ir::Graph got = passes::autocast(before, DType::bf16);
  EXPECT_TRUE(got.same_structure(wanted)) << ir::print(got);
}

TEST(Autocast, OnlyTheTwoSmallFloatsAreLowPrecisions) {
  const std::string message = error_of(ErrorKind::kDType, [] { passes::autocast(ir::Graph(), DType::f32); });
  EXPECT_NE(message.find("bf16 or f16"), std::string::npos) << message;
}

// x·w1 + b1, relu, ·w2 + b2, and the sum of its squares.
struct Network {
  ir::Graph graph{"network"};
  std::vector<Literal> arguments;

  ir::Value input(const char* name, Shape shape, std::initializer_list<float> values) {
    arguments.push_back(Literal::of<float>(shape, values));
    return graph.input(name, {DType::f32, shape});
  }
  explicit Network(bool loss) {
    const ir::Value x = input("x", {2, 3}, {0.5, -1.25, 2.0, 1.5, 0.3, -0.7});
    const ir::Value w1 =
        input("w1", {3, 4}, {0.11, -0.52, 0.73, 0.94, -0.35, 0.66, 0.17, -0.28, 0.49, 0.5, -0.91, 0.32});
    const ir::Value b1 = input("b1", {4}, {0.01, -0.02, 0.03, 0.3});
    const ir::Value w2 = input("w2", {4, 2}, {1.1, -0.2, 0.3, 0.9, -0.7, 0.4, 0.6, -0.8});
    const ir::Value b2 = input("b2", {2}, {0.05, -0.15});
    const ir::Value y = ops::matmul(ops::relu(ops::matmul(x, w1) + b1), w2) + b2;
    graph.output(loss ? ops::sum(ops::square(ops::convert(y, DType::f64)), {0, 1}) : y);
  }
};

TEST(Autocast, ANetworkInBf16GivesTheNumbersOfHandWrittenCasts) {
  const Network network(false);
  const std::vector<Literal> y =
      eval::evaluate(passes::autocast(network.graph, DType::bf16), network.arguments);
  EXPECT_EQ(y[0].to_doubles(), (std::vector<double>{2.734375, -1.859375, -0.37109375, -0.55078125}));
}

TEST(Autocast, GradientsByF32ParametersAreF32AndThoseOfHandWrittenCasts) {
  const Network network(true);
  const ir::Graph cast = passes::autocast(network.graph, DType::bf16);
  const ir::Graph graph = autodiff::value_and_grad(cast, {1, 2, 3, 4});
  const std::vector<Literal> results = eval::evaluate(graph, network.arguments);
  EXPECT_NEAR(results[0].to_doubles()[0], 11.375152587890625, 1e-9);
  const std::vector<std::vector<double>> wanted = {
      {3.390625, 0.0, 0.1171875, 3.796875, -8.5, 0.0, 0.0234375, -7.71875, 13.5625, 0.0, -0.0546875, 12.25},
      {6.78125, 0.0, 0.078125, 6.71875},
      {8.0625, -5.5, 0.0, 0.0, -1.34375, -2.0, 8.625, -8.125},
      {4.71875, -4.8125}};
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(results[i + 1].dtype(), DType::f32);
    const std::vector<double> got = results[i + 1].to_doubles();
    ASSERT_EQ(got.size(), wanted[i].size());
    for (std::size_t k = 0; k < got.size(); ++k)  // a rounding of bf16 more or less
      EXPECT_NEAR(got[k], wanted[i][k], 0.008 * std::fabs(wanted[i][k]) + 1e-3) << i << " " << k;
  }
}

}  // namespace
}  // namespace systole
