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

TEST(Fuse, AKernelHasNoMoreBuffersThanTheTargetAllows) {
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

TEST(Fusion, TwoSumsOfOneArrayTakeOnePass) {
  const ir::Graph graph = graph_of("%x: f32[64, 8], %g: f32[64, 8]", R"(
  %p = mul(%x, %g)
  %a = reduce(%p) {kind=sum, axes=[0]}
  %b = reduce(%g) {kind=sum, axes=[0]}
  return %a, %b)");
  EXPECT_EQ(steps_of(program_of(graph)), "rows[*64, 8] mul reduce reduce\n");
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

}  // namespace
}  // namespace systole
