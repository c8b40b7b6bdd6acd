// From graphs to Programs: which work shares a kernel, where values lie, and that a Program means what its
// graph means, run in the memory that the plan gives.

#include <gtest/gtest.h>

#include <random>

#include "compile/program.h"
#include "program_check.h"
#include "systole/compile/passes.h"
#include "systole/ir/text.h"
#include "systole/systole.h"

namespace systole {
namespace {

using lower::GroupKind;

class Plain : public lower::Target {
 public:
  std::string_view name() const override { return "plain"; }
};

ir::Graph graph_of(const std::string& inputs, const std::string& statements) {
  return ir::parse("systole.ir 1\ngraph @main(" + inputs + ") {\n" + statements + "\n}\n");
}

// The kinds of the steps with their ops, one per line.
std::string steps_of(const lower::Program& program) {
  std::string text;
  for (const lower::Step& step : program.steps) {
    text += step.kind == lower::StepKind::kernel ? name(step.group) : name(step.kind);
    if (step.domain) text += step.domain->to_string();
    for (const ir::Node& node : step.region.graph.nodes())
      if (node.op != ir::Op::input && node.op != ir::Op::constant)
        text += " " + std::string(ir::name(node.op));
    text += "\n";
  }
  return text;
}

lower::Program program_of(const ir::Graph& graph) {
  lower::Program program = lower::make_program(graph, Plain());
  lower::verify(program);
  return program;
}

std::vector<Literal> random_arguments(const ir::Graph& graph) {
  std::mt19937 random(7);
  std::vector<Literal> arguments;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const Type& type = graph.input_type(i);
    Literal value = Literal::uninitialized(type);
    visit_dtype(type.dtype, [&]<class T>() {
      for (T& x : value.mutable_values<T>()) {
        if constexpr (std::is_same_v<T, bool>)
          x = random() % 2 == 0;
        else if constexpr (std::is_integral_v<T>)
          x = static_cast<T>(random() % 5);
        else
          x = static_cast<T>(0.1 + static_cast<double>(random() % 1000) / 1000);
      }
    });
    arguments.push_back(std::move(value));
  }
  return arguments;
}

// The same bits, whatever lies where.
void expect_same_values(const ir::Graph& graph, const lower::Program& program) {
  const std::vector<Literal> arguments = random_arguments(graph), wanted = eval::evaluate(graph, arguments),
                             got = program_check::run(program, arguments);
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i)
    EXPECT_TRUE(std::ranges::equal(got[i].as_bytes(), wanted[i].as_bytes())) << "output " << i << "\n"
                                                                             << lower::to_string(program);
}

// A kernel over rows or with a contraction knows its values at the point only.
TEST(Fusion, AValueThatIsAlsoReadElsewhereIsStored) {
  const std::string inputs = "%x: f32[6,6], %w: f32[6,6]";
  for (const std::string statements : {
           R"(
  %d = dot_general(%x, %w) {a_contract=[1], b_contract=[0]}
  %z = tanh(%d)
  %t = transpose(%z) {permutation=[1,0]}
  %y = add(%z, %t)
  return %y)",
           R"(
  %s = reduce(%x) {axes=[1]}
  %b = broadcast(%s) {shape=[6,6], axes=[0]}
  %z = sub(%x, %b)
  %t = transpose(%z) {permutation=[1,0]}
  %y = add(%z, %t)
  return %y)",
           R"(
  %d = dot_general(%x, %w) {a_contract=[1], b_contract=[0]}
  %z = add(%d, %w)
  %r = slice(%z) {starts=[0,1], limits=[6,6], strides=[1,1]}
  %c = constant() {value=f32[](0)}
  %p = pad(%r, %c) {low=[0,0], high=[0,1], interior=[0,0]}
  %y = sub(%z, %p)
  return %y)"}) {
    const ir::Graph graph = graph_of(inputs, statements);
    const lower::Program program = program_of(graph);
    EXPECT_EQ(program.steps.size(), 2u) << to_string(program);
    for (const char* const device : {"cpu", "opencl:0"}) {
      if (runtime::backend(DeviceName::parse(device).backend_name()).devices().empty()) continue;
      const std::vector<Literal> arguments = random_arguments(graph);
      const std::vector<Literal> want = compile(graph, "reference").run(arguments),
                                 got = compile(graph, device).run(arguments);
      for (std::size_t i = 0; i < 36; ++i)
        ASSERT_NEAR(got[0].values<float>()[i], want[0].values<float>()[i], 1e-5) << device << statements;
    }
  }
}

TEST(Fusion, GroupsNeverWaitForEachOther) {
  const ir::Graph graph = graph_of("%x: f32[64,64], %w: f32[64,64]", R"(
  %s = reduce(%x) {axes=[1]}
  %e = exp(%w)
  %et = transpose(%e) {permutation=[1,0]}
  %bs = broadcast(%s) {shape=[64,64], axes=[0]}
  %t = sub(%bs, %et)
  %c = sort(%s) {axis=0}
  %bc = broadcast(%c) {shape=[64,64], axes=[0]}
  %y = add(%e, %bc)
  return %t, %y)");
  EXPECT_NO_THROW(program_of(graph));
}

// Inlining again and again what is read at two places would double the kernel every time.
TEST(Fusion, AChainOfStencilsIsAKernelEach) {
  std::string statements = "%k = constant() {value=f32[](0)}\n", last = "%x";
  for (int i = 0; i < 16; ++i) {
    const std::string n = std::to_string(i);
    statements += "%l" + n + " = pad(" + last + ", %k) {low=[1,0], high=[-1,0], interior=[0,0]}\n";
    statements += "%r" + n + " = pad(" + last + ", %k) {low=[0,-1], high=[0,1], interior=[0,0]}\n";
    statements += "%c" + n + " = add(%l" + n + ", %r" + n + ")\n%e" + n + " = tanh(%c" + n + ")\n";
    last = "%e" + n;
  }
  EXPECT_EQ(program_of(graph_of("%x: f32[8,8]", statements + "return " + last)).steps.size(), 16u);
}

TEST(Fusion, LongMovementIsStoredOnTheWay) {
  std::string statements = "%k = constant() {value=f32[](0)}\n", last = "%x";
  for (int i = 0; i < 300; ++i) {
    const std::string n = std::to_string(i);
    statements += "%a" + n + " = slice(" + last + ") {starts=[1], limits=[64], strides=[1]}\n";
    statements += "%c" + n + " = pad(%a" + n + ", %k) {low=[0], high=[1], interior=[0]}\n";
    last = "%c" + n;
  }
  const lower::Program program =
      program_of(graph_of("%x: f32[64]", statements + "%y = exp(" + last + ")\nreturn %y"));
  for (const lower::Step& step : program.steps) EXPECT_LE(step.region.graph.size(), 200);
}

// A library that takes products with a bias, at a price, and softmax whole.
class Library final : public lower::Target {
 public:
  std::string_view name() const override { return "library"; }
  std::vector<lower::Claim> offers(const lower::Region& region) const override {
    const ir::Node& anchor = region.graph.node(region.anchor);
    asked += std::string(ir::name(anchor.op)) + std::to_string(region.graph.size()) + " ";
    if (anchor.op == ir::Op::composite)
      return {anchor.as<ir::CompositeAttrs>().name == "softmax" ? lower::Claim{"lib.softmax", {}, 0, 0}
                                                                : lower::Claim::declined("not known")};
    if (anchor.op != ir::Op::dot_general) return {};
    if (region.graph.type({region.anchor, 0}).dtype != DType::f32)
      return {lower::Claim::declined("lib.slow: f32 is wanted")};
    return {{"lib.slow", {}, 2, 0}, lower::Claim::declined("lib.none: no"), {"lib.fast", {}, 1, 64}};
  }
  mutable std::string asked;
};

TEST(Claims, TheLowestRankOfTheLargestRegionIsTaken) {
  const Library library;
  const ir::Graph graph = graph_of("%x: f32[4,8], %w: f32[8,4], %b: f32[4,4]", R"(
  %d = dot_general(%x, %w) {a_contract=[1], b_contract=[0]}
  %y = add(%d, %b)
  return %y)");
  const lower::Program program = lower::make_program(lower::prepared(graph, library), library);
  ASSERT_EQ(program.steps.size(), 1u);
  EXPECT_EQ(program.steps[0].kind, lower::StepKind::library);
  EXPECT_EQ(program.steps[0].implementation, "lib.fast");
  EXPECT_EQ(program.buffers[static_cast<std::size_t>(program.steps[0].workspace)].bytes, 64);
  EXPECT_EQ(library.asked, "dot_general5 ");  // with the sum, and not again
  EXPECT_EQ(program.steps[0].inputs.size(), 3u);
}

TEST(Claims, WhatIsDeclinedIsGeneratedAndTheReasonTold) {
  const Library library;
  const ir::Graph graph = graph_of("%x: f64[4,8], %w: f64[8,4]", R"(
  %d = dot_general(%x, %w) {a_contract=[1], b_contract=[0]}
  %y = neg(%d)
  return %y)");
  const lower::Program program = lower::make_program(lower::prepared(graph, library), library);
  ASSERT_EQ(program.steps.size(), 1u);
  EXPECT_EQ(program.steps[0].group, GroupKind::contraction);
  EXPECT_EQ(library.asked, "dot_general4 dot_general3 ");
  EXPECT_NE(to_string(program).find("apart: dot_general lib.slow: f32 is wanted (2 times)"),
            std::string::npos)
      << to_string(program);
}

TEST(Claims, ACompositeIsTakenWholeOrInlined) {
  const Library library;
  ir::Graph graph("main");
  const ir::Value x = graph.input("x", {DType::f32, {4, 8}});
  graph.output(ops::softmax(ops::gelu(x)));
  const lower::Program program = lower::make_program(lower::prepared(graph, library), library);
  ASSERT_EQ(program.steps.size(), 2u) << to_string(program);
  EXPECT_EQ(program.steps[0].group, GroupKind::map);
  EXPECT_EQ(program.steps[1].implementation, "lib.softmax");
  EXPECT_EQ(program_of(lower::prepared(graph, Plain())).steps.size(), 1u);
}

TEST(Verify, AValueThatWasReplacedIsNotRead) {
  lower::Program program = program_of(graph_of("%x: f32[4], %y: f32[4]", R"(
  %a = sort(%x) {axis=0}
  %b = sort(%y) {axis=0}
  %c = reverse(%a) {axes=[0]}
  %d = sub(%b, %c)
  return %d)"));
  program.buffers[static_cast<std::size_t>(program.steps[1].outputs[0])].shares =
      program.memory_of(program.steps[0].outputs[0]);
  EXPECT_THROW(lower::verify(program), Error);
}

TEST(Fusion, AKernelHasNoMoreBuffersThanTheTargetAllows) {
  class Narrow final : public lower::Target {
    std::string_view name() const override { return "narrow"; }
    lower::KernelLimits limits() const override { return {.buffers = 4}; }
  };
  const ir::Graph graph = graph_of("%a: f32[9], %b: f32[9], %c: f32[9], %d: f32[9], %e: f32[9]", R"(
  %1 = mul(%a, %b)
  %2 = mul(%1, %c)
  %3 = mul(%2, %d)
  %4 = mul(%3, %e)
  return %4)");
  const lower::Program program = lower::make_program(graph, Narrow());
  lower::verify(program);
  EXPECT_EQ(steps_of(program), "map mul mul\nmap mul mul\n");
  for (const lower::Step& step : program.steps) EXPECT_LE(step.inputs.size() + step.outputs.size(), 4u);
}

TEST(Fusion, SoftmaxIsOneKernel) {
  const ir::Graph graph = graph_of("%x: f32[8, 16]", R"(
  %m = reduce(%x) {kind=max, axes=[1]}
  %mb = broadcast(%m) {shape=[8, 16], axes=[0]}
  %c = sub(%x, %mb)
  %e = exp(%c)
  %s = reduce(%e) {kind=sum, axes=[1]}
  %sb = broadcast(%s) {shape=[8, 16], axes=[0]}
  %y = div(%e, %sb)
  return %y)");
  const lower::Program program = program_of(graph);
  EXPECT_EQ(steps_of(program), "rows[8, *16] reduce broadcast sub exp reduce broadcast div\n");
  EXPECT_EQ(program.arena_bytes, 0);
  expect_same_values(graph, program);
}

TEST(Fusion, WhoReadsRowsInAnotherOrderWaitsForThem) {
  const ir::Graph graph = passes::inline_composites(
      graph_of("%x: f32[8,8]",
               "%s = composite softmax(%x) {axis=1}\n%t = transpose(%s) {permutation=[1,0]}\n"
               "%y = add(%s, %t)\nreturn %y"));
  EXPECT_EQ(steps_of(program_of(graph)),
            "rows[8, *8] reduce broadcast sub exp reduce broadcast div\nmap transpose add\n");
  const std::vector<Literal> arguments = random_arguments(graph);
  const Literal wanted = eval::evaluate(graph, arguments)[0], got = compile(graph, "cpu").run(arguments)[0];
  for (std::size_t i = 0; i < 64; ++i)
    EXPECT_NEAR(got.values<float>()[i], wanted.values<float>()[i], 1e-6) << i;
}

TEST(Fusion, MovementIsReadThrough) {
  const ir::Graph graph = graph_of("%x: f32[4, 6], %y: f32[6, 4]", R"(
  %t = transpose(%x) {permutation=[1, 0]}
  %a = add(%t, %y)
  %s = slice(%a) {starts=[1, 0], limits=[5, 4], strides=[2, 1]}
  %r = neg(%s)
  return %r)");
  const lower::Program program = program_of(graph);
  EXPECT_EQ(steps_of(program), "map transpose add slice neg\n");
  expect_same_values(graph, program);
}

TEST(Fusion, WorkOnAProductIsItsEpilogue) {
  const ir::Graph graph = graph_of("%x: f32[4, 6], %w: f32[6, 3], %b: f32[3]", R"(
  %d = dot_general(%x, %w) {a_contract=[1], b_contract=[0]}
  %bb = broadcast(%b) {shape=[4, 3], axes=[1]}
  %y = add(%d, %bb)
  %z = tanh(%y)
  return %z)");
  const lower::Program program = program_of(graph);
  EXPECT_EQ(steps_of(program), "contraction dot_general broadcast add tanh\n");
  expect_same_values(graph, program);
}

// A layer's gradient is masked, then summed for its bias and multiplied for its weights.
ir::Graph masked_gradient(const std::string& mask, const std::string& rest) {
  return graph_of("%g: f32[8,3], %w: f32[3,6], %x: f32[8,5], %h: f32[8,6]", R"(
  %d = dot_general(%g, %w) {a_contract=[1], b_contract=[0]}
  %zero = constant() {value=f32[](0)}
  %z = broadcast(%zero) {shape=[8,6]}
  )" + mask + R"(
  %off = less_equal(%m, %z)
  %y = select(%off, %z, %d)
  %b = reduce(%y) {axes=[0]}
  )" + rest);
}

TEST(Fusion, WhatSumsAndOthersReadOfAProductIsMadeWithIt) {
  const ir::Graph graph = masked_gradient("%m = neg(%h)", R"(
  %v = dot_general(%x, %y) {a_contract=[0], b_contract=[0]}
  return %b, %v)");
  const lower::Program program = program_of(graph);
  EXPECT_EQ(steps_of(program),
            "contraction dot_general broadcast neg less_equal select\nrows[*8, 6] reduce\n"
            "contraction dot_general\n");
  ASSERT_EQ(program.steps.size(), 3u);
  EXPECT_EQ(program.steps[0].outputs.size(), 1u);
  EXPECT_EQ(program.steps[1].inputs, program.steps[0].outputs);  // and nothing else
  EXPECT_EQ(program.steps[2].inputs[1], program.steps[0].outputs[0]);
  expect_same_values(graph, program);
}

TEST(Fusion, SumsKeepTheWorkOnAProductThatIsNotBetterMadeWithIt) {
  const std::string multiplied = R"(
  %v = dot_general(%x, %y) {a_contract=[0], b_contract=[0]}
  return %b, %v)";
  const std::string sums = "rows[*8, 6] broadcast less_equal select reduce\n",
                    bare = "contraction dot_general\n";
  const auto expect_steps = [](const ir::Graph& graph, const std::string& steps) {
    const lower::Program program = program_of(graph);
    EXPECT_EQ(steps_of(program), steps);
    expect_same_values(graph, program);
  };
  // Nobody else reads it.
  expect_steps(masked_gradient("%m = neg(%h)", "return %b"),
               bare + "rows[*8, 6] broadcast neg less_equal select reduce\n");
  // The product would wait for what it does not need.
  expect_steps(masked_gradient("%m = sort(%h) {axis=0}", multiplied), bare + "special sort\n" + sums + bare);
  // What the mask leaves is read in another order.
  expect_steps(graph_of("%g: f32[6,3], %w: f32[3,6], %x: f32[6,5], %h: f32[6,6]", R"(
  %d = dot_general(%g, %w) {a_contract=[1], b_contract=[0]}
  %t = transpose(%d) {permutation=[1,0]}
  %y = mul(%h, %t)
  %b = reduce(%y) {axes=[0]}
  %v = dot_general(%x, %y) {a_contract=[0], b_contract=[0]}
  return %b, %v)"),
               bare + "rows[*6, 6] transpose mul reduce\n" + bare);
  // It takes a sum of the same rows.
  expect_steps(graph_of("%g: f32[8,3], %w: f32[3,6], %x: f32[8,5]", R"(
  %d = dot_general(%g, %w) {a_contract=[1], b_contract=[0]}
  %s = reduce(%d) {axes=[1]}
  %sb = broadcast(%s) {shape=[8,6], axes=[0]}
  %y = sub(%d, %sb)
  %b = reduce(%y) {axes=[1]}
  %v = dot_general(%x, %y) {a_contract=[0], b_contract=[0]}
  return %b, %v)"),
               bare + "rows[8, *6] reduce broadcast sub reduce\n" + bare);
  // The rows want another value of it, too, which is not stored now.
  expect_steps(graph_of("%g: f32[8,3], %w: f32[3,6], %x: f32[8,5]", R"(
  %d = dot_general(%g, %w) {a_contract=[1], b_contract=[0]}
  %e = exp(%d)
  %y = neg(%e)
  %b = reduce(%y) {axes=[0]}
  %c = reduce(%e) {axes=[0]}
  %v = dot_general(%x, %y) {a_contract=[0], b_contract=[0]}
  return %b, %c, %v)"),
               bare + "rows[*8, 6] exp neg reduce reduce\n" + bare);
  // A kernel of both would have too many buffers.
  class Narrow final : public lower::Target {
    std::string_view name() const override { return "narrow"; }
    lower::KernelLimits limits() const override { return {.buffers = 4}; }
  };
  const ir::Graph large = masked_gradient("%m = neg(%h)", R"(
  %v = dot_general(%x, %y) {a_contract=[0], b_contract=[0]}
  %t = tanh(%d)
  return %b, %v, %t)");
  EXPECT_EQ(steps_of(lower::make_program(large, Narrow())),
            "contraction dot_general tanh\nrows[*8, 6] broadcast neg less_equal select reduce\n" + bare);
  EXPECT_EQ(steps_of(program_of(large)),
            "contraction dot_general broadcast neg less_equal select tanh\nrows[*8, 6] reduce\n" + bare);
  // A library makes the product.
  const Library library;
  const ir::Graph claimed = masked_gradient("%m = neg(%h)", multiplied);
  const lower::Program program = lower::make_program(claimed, library);
  EXPECT_EQ(steps_of(program),
            "library dot_general\nrows[*8, 6] broadcast neg less_equal select reduce\nlibrary dot_general\n");
  EXPECT_EQ(library.asked, "dot_general3 dot_general3 ");
}

TEST(Fusion, TwoSumsOfOneArrayTakeOnePass) {
  const ir::Graph graph = graph_of("%x: f32[64, 8], %g: f32[64, 8]", R"(
  %p = mul(%x, %g)
  %a = reduce(%p) {kind=sum, axes=[0]}
  %b = reduce(%g) {kind=sum, axes=[0]}
  return %a, %b)");
  EXPECT_EQ(steps_of(program_of(graph)), "rows[*64, 8] mul reduce reduce\n");
}

// %n is made again from %x, which others read anyway, and from a number of its row.
TEST(Fusion, WhatAStoredArrayMakesCheaplyIsNotStoredBesideIt) {
  const ir::Graph graph = graph_of("%r: f32[256, 512], %a: bf16[256, 512]", R"(
  %c = convert(%a) {dtype=f32}
  %x = add(%r, %c)
  %s = reduce(%x) {kind=sum, axes=[1]}
  %m = broadcast(%s) {shape=[256, 512], axes=[0]}
  %n = sub(%x, %m)
  %e = exp(%n)
  %t = sort(%e) {axis=1}
  %p = mul(%t, %n)
  %u = reduce(%p) {kind=sum, axes=[0]}
  %z = add(%x, %t)
  return %u, %z)");
  const lower::Program program = program_of(graph);
  const ir::Graph& first = program.steps.at(0).region.graph;
  std::int64_t arrays = 0;
  for (const ir::Output& output : first.outputs())
    arrays += first.type(output.value).shape.rank() == 2 ? 1 : 0;
  EXPECT_EQ(arrays, 2) << steps_of(program);  // %x and %e
  expect_same_values(graph, program);
}

// The sums of %p over rows and over columns are two kernels, and %p is stored for neither.
TEST(Fusion, AProductIsMadeAgainForSumsWhoseKernelReadsItsFactorsAnyway) {
  const ir::Graph graph = graph_of("%g: bf16[256, 512], %n: f32[256, 512]", R"(
  %f = convert(%g) {dtype=f32}
  %p = mul(%f, %n)
  %s = reduce(%p) {kind=sum, axes=[1]}
  %u = reduce(%p) {kind=sum, axes=[0]}
  %k = reduce(%f) {kind=sum, axes=[0]}
  %w = reduce(%n) {kind=sum, axes=[0]}
  return %s, %u, %k, %w)");
  const lower::Program program = program_of(graph);
  EXPECT_EQ(program.steps.size(), 2u) << steps_of(program);
  for (const lower::Step& step : program.steps)
    for (const ir::Output& output : step.region.graph.outputs())
      EXPECT_EQ(step.region.graph.type(output.value).shape.rank(), 1u) << steps_of(program);
  expect_same_values(graph, program);
}

TEST(Fusion, NoTwoGroupsWaitForEachOther) {
  // y joins x's group only if the product between them does not.
  const ir::Graph graph = graph_of("%x: f32[4, 4]", R"(
  %a = exp(%x)
  %d = dot_general(%a, %a) {a_contract=[1], b_contract=[0]}
  %y = add(%a, %d)
  return %y)");
  const lower::Program program = program_of(graph);
  EXPECT_EQ(steps_of(program), "map exp\ncontraction dot_general add\n");
  expect_same_values(graph, program);
}

TEST(Fusion, UpdatesOfManyTensorsShareAKernel) {
  const ir::Graph graph = graph_of("%a: f32[8] {alias=0}, %b: f32[3, 5] {alias=1}, %c: f32[] {alias=2}", R"(
  %x = add(%a, %a)
  %y = mul(%b, %b)
  %z = neg(%c)
  return %x, %y, %z)");
  const lower::Program program = program_of(graph);
  EXPECT_EQ(steps_of(program), "map add mul neg\n");
  expect_same_values(graph, program);
}

TEST(Program, DonatedInputsAreWrittenWhereTheyLie) {
  const ir::Graph graph = graph_of("%v: f32[8] {alias=0}, %g: f32[8]", R"(
  %n = add(%v, %g)
  return %n)");
  const lower::Program program = program_of(graph);
  EXPECT_EQ(program.memory_of(program.outputs[0]), program.inputs[0]);
  EXPECT_EQ(program.steps.size(), 1U);
  expect_same_values(graph, program);
}

TEST(Program, AnInputThatIsStillReadIsOverwrittenLast) {
  // The new value is needed before the old one has been read for the last time.
  const ir::Graph graph = graph_of("%v: f32[4, 4] {alias=0}", R"(
  %n = neg(%v)
  %d = dot_general(%n, %v) {a_contract=[1], b_contract=[0]}
  return %n, %d)");
  const lower::Program program = program_of(graph);
  EXPECT_EQ(program.memory_of(program.outputs[0]), program.inputs[0]);
  EXPECT_EQ(program.steps.back().kind, lower::StepKind::copy);
  expect_same_values(graph, program);
}

TEST(Program, SwappedInputsKeepTheirValues) {
  const ir::Graph graph = graph_of("%a: f32[4] {alias=0}, %b: f32[4] {alias=1}", "return %b, %a");
  expect_same_values(graph, program_of(graph));
}

TEST(Program, AReshapeIsAView) {
  const ir::Graph graph = graph_of("%x: f32[4, 6], %w: f32[8, 3]", R"(
  %e = exp(%x)
  %r = reshape(%e) {shape=[3, 8]}
  %d = dot_general(%r, %w) {a_contract=[1], b_contract=[0]}
  return %d)");
  const lower::Program program = program_of(graph);
  EXPECT_EQ(program.steps.size(), 2U);
  expect_same_values(graph, program);
}

TEST(Program, AnArrayOfAnotherDTypeIsNotWrittenOver) {
  const lower::Program program =
      program_of(graph_of("%x: i64[8]",
                          "%a = cumulative(%x) {kind=sum, axis=0}\n%b = convert(%a) {dtype=f64}\n"
                          "%y = cumulative(%b) {kind=sum, axis=0}\nreturn %y"));
  ASSERT_EQ(program.steps.size(), 3u);
  EXPECT_NE(program.memory_of(program.steps[1].outputs[0]), program.memory_of(program.steps[1].inputs[0]));
}

TEST(Program, MemoryIsUsedAgain) {
  // A chain of products: two buffers are enough for any length.
  std::string statements;
  std::string last = "%x";
  for (int i = 0; i < 8; ++i) {
    statements +=
        "  %d" + std::to_string(i) + " = dot_general(" + last + ", %w) {a_contract=[1], b_contract=[0]}\n";
    last = "%d" + std::to_string(i);
  }
  const ir::Graph graph = graph_of("%x: f32[16, 16], %w: f32[16, 16]", statements + "  return " + last);
  const lower::Program program = program_of(graph);
  EXPECT_EQ(program.steps.size(), 8U);
  EXPECT_EQ(program.arena_bytes, 2 * 16 * 16 * 4);
  expect_same_values(graph, program);
}

// Whole training steps, as users write them.
template <class Model>
ir::Graph step_of(Model& model, const Type& x, const Type& y) {
  optim::Adam opt(parameters(model), {.lr = 1e-3});
  auto step = compile([&](const Tensor& a, const Tensor& b) {
    auto [loss, grads] =
        value_and_grad([&] { return cross_entropy(model.forward(a), b); }, parameters(model));
    opt.update(grads);
    return loss;
  });
  const ir::Graph graph = step.graph(Tensor(Literal(x)), Tensor(Literal(y)));
  return passes::run_passes(passes::inline_composites(graph), passes::standard_passes());
}

TEST(Program, AnMlpStepIsTenKernels) {
  nn::models::Mlp model;
  const ir::Graph graph = step_of(model, {DType::f32, {64, 784}}, {DType::i32, {64}});
  const lower::Program program = program_of(graph);
  EXPECT_LE(program.steps.size(), 10U) << lower::to_string(program);
  for (const lower::Step& step : program.steps) EXPECT_EQ(step.kind, lower::StepKind::kernel);
}

TEST(Program, ModelsMeanTheSame) {
  nn::models::Mlp mlp(20, 16, 10);
  nn::models::LstmClassifier lstm{{.vocabulary = 50, .embedding = 8, .hidden = 8, .classes = 10}};
  nn::models::Gpt2 gpt{{.layers = 2, .width = 16, .heads = 2, .vocabulary = 50, .length = 8}};
  nn::models::ResNet resnet({.stages = {{4, 1, 1}, {4, 1, 2}}, .stem = 4, .classes = 10});
  const Type words{DType::i32, {2, 8}}, labels{DType::i32, {2}};
  for (const ir::Graph& graph :
       {step_of(mlp, {DType::f32, {8, 20}}, {DType::i32, {8}}), step_of(lstm, words, labels),
        step_of(gpt, words, words), step_of(resnet, {DType::f32, {2, 32, 32, 3}}, labels)})
    expect_same_values(graph, program_of(graph));
}

class Roomy final : public lower::Target {
 public:
  explicit Roomy(std::int64_t room) : room_(room) {}
  std::string_view name() const override { return "roomy"; }
  lower::KernelLimits limits() const override { return {.room = room_}; }

 private:
  const std::int64_t room_;
};

// a·b·b·b·b: three products in between, of which two are needed at one time.
TEST(Memory, WithRoomTemporariesHaveMemoryOfTheirOwn) {
  ir::Graph graph("chain");
  const Type type{DType::f32, {64, 64}};
  const ir::Value b = graph.input("b", type);
  ir::Value x = graph.input("a", type);
  for (int i = 0; i < 4; ++i) x = ops::dot_general(x, b, {1}, {0});
  graph.output(x);
  constexpr std::int64_t kBytes = 64 * 64 * 4;
  EXPECT_EQ(lower::make_program(graph, Roomy(0)).arena_bytes, 2 * kBytes);
  EXPECT_EQ(lower::make_program(graph, Roomy(3 * kBytes)).arena_bytes, 3 * kBytes);
  EXPECT_EQ(lower::make_program(graph, Roomy(3 * kBytes - 1)).arena_bytes, 2 * kBytes);
}

}  // namespace
}  // namespace systole
