// What --explain prints for whole models: how many kernels a step takes, what is fused into what, and how
// much memory it needs, which is what the executor then takes.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/cpu/executor.h"
#include "backend/cpu/target.h"
#include "backend/cuda/schedule.h"
#include "compile/program.h"
#include "generated_only.h"
#include "golden_check.h"
#include "systole/compile/passes.h"
#include "systole/systole.h"

#ifdef SYSTOLE_COMMAND
#include "cli/bench/training.h"
#include "cli/bench/workloads.h"
#endif

namespace systole {
namespace {

lower::Program program_of(const ir::Graph& graph) {
  lower::Program program = lower::make_program(lower::prepared(graph, cpu::target()), cpu::target());
  lower::verify(program);
  return program;
}

// One block of a GPT: normalisation, causal attention, normalisation, two layers with GELU between them.
struct Block {
  nn::LayerNorm first, second;
  nn::Linear queries, keys, values, mixed, up, down;
  explicit Block(std::int64_t width)
      : first(width),
        second(width),
        queries(width, width),
        keys(width, width),
        values(width, width),
        mixed(width, width),
        up(width, 4 * width),
        down(4 * width, width) {}

  Tensor operator()(const Tensor& x) const {
    const Shape heads{x.shape()[0], x.shape()[1], 4, x.shape()[2].value() / 4};
    const auto split = [&](const Tensor& y) { return transpose(reshape(y, heads), {0, 2, 1, 3}); };
    const Tensor h = first(x);
    const Tensor a = attention(split(queries(h)), split(keys(h)), split(values(h)), {.causal = true});
    const Tensor y = x + mixed(reshape(transpose(a, {0, 2, 1, 3}), x.shape()));
    return y + down(gelu(up(second(y))));
  }
};

TEST(Explain, ElementwiseWorkOfAGptBlockIsInsideItsNeighbours) {
  const Block block(64);
  const ir::Graph graph = compile([&](const Tensor& x) { return block(x); }).graph(zeros({2, 16, 64}));
  const lower::Program program = program_of(graph);
  for (const lower::Step& step : program.steps)
    EXPECT_NE(step.group, lower::GroupKind::map) << lower::to_string(program);
  expect_golden("gpt_block.txt", lower::to_string(program));
}

// Memory as the executor uses it: a run over an arena full of marks changes its last bytes and none behind.
std::int64_t measured_arena(const ir::Graph& graph) {
  constexpr std::byte kMark{0xA5};
  const std::shared_ptr<const cpu::Module> module = cpu::make_module(graph);
  const lower::Program& program = module->program;
  const auto made = [&](const std::vector<lower::BufferId>& list) {
    std::vector<std::vector<std::byte>> memory;
    for (const lower::BufferId b : list)
      memory.emplace_back(static_cast<std::size_t>(program.buffers[static_cast<std::size_t>(b)].bytes));
    return memory;
  };
  std::vector<std::vector<std::byte>> inputs = made(program.inputs), outputs = made(program.outputs);
  std::vector<std::byte*> in, out;
  for (auto& memory : inputs) in.push_back(memory.data());
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const lower::BufferInfo& memory =
        program.buffers[static_cast<std::size_t>(program.memory_of(program.outputs[o]))];
    out.push_back(memory.role == lower::BufferInfo::Role::input
                      ? in[static_cast<std::size_t>(memory.position)]
                      : outputs[o].data());
  }
  const auto planned = static_cast<std::size_t>(program.arena_bytes), room = planned + 4096;
  std::vector<std::byte> arena(room + 64, kMark);
  std::byte* const first = arena.data() + (64 - reinterpret_cast<std::uintptr_t>(arena.data()) % 64) % 64;
  cpu::Executor(module->compiled).run(in, out, first);
  std::size_t used = room;
  while (used > 0 && first[used - 1] == kMark) --used;
  return static_cast<std::int64_t>(used);
}

TEST(Explain, ThePredictedArenaIsTheMeasuredOne) {
  const Block block(64);
  const ir::Graph forward = compile([&](const Tensor& x) { return block(x); }).graph(zeros({2, 16, 64}));
  EXPECT_EQ(measured_arena(forward), program_of(forward).arena_bytes);
  const auto loss = [&](const Tensor& x) { return sum(block(x)); };
  const ir::Graph backward = compile(grad(loss)).graph(zeros({2, 16, 64}));
  EXPECT_EQ(measured_arena(backward), program_of(backward).arena_bytes);
}

#ifdef SYSTOLE_COMMAND

TEST(Explain, AStepOfT1TakesAtMostTwelveKernels) {
  for (const cli::bench::Workload& work : cli::bench::workloads(false)) {
    if (work.name != "T1" || work.batch != 64) continue;
    const lower::Program program = program_of(cli::bench::step_graph(work));
    const lower::Tally tally = lower::tally(program);
    EXPECT_LE(tally.kernels + tally.library_calls + tally.copies, 12);
    expect_golden("t1.txt", lower::to_string(program));
  }
}

// What a GPU is told, without one and without its libraries.
class Gpu final : public lower::Target {
 public:
  std::string_view name() const override { return "gpu"; }
  lower::KernelLimits limits() const override {
    return {.nodes = 400, .buffers = 500, .cuts_rows = true, .room = std::int64_t{64} << 20};
  }
};

bool has(const lower::Step& step, ir::Op op) {
  const auto& nodes = step.region.graph.nodes();
  return std::any_of(nodes.begin(), nodes.end(), [&](const ir::Node& node) { return node.op == op; });
}

// The gradient of the hidden layer is masked where it is multiplied: the sums for its bias and the product
// for its weights read that, and run beside each other.
TEST(Explain, AGradientOfWeightsDoesNotWaitForThatOfTheBias) {
  for (const cli::bench::Workload& work : cli::bench::workloads(false)) {
    if (work.name != "T1" && work.name != "T2" && work.name != "T3") continue;
    SCOPED_TRACE(work.name + "@" + std::to_string(work.batch));
    const std::int64_t hidden = work.name == "T2" ? 64 : 128;
    const Gpu gpu;
    const lower::Program program =
        lower::make_program(lower::prepared(cli::bench::step_graph(work), gpu), gpu);
    const Shape layer{work.batch, hidden};
    std::vector<std::size_t> masks, sums, products;
    lower::BufferId masked = -1;
    for (std::size_t s = 0; s < program.steps.size(); ++s) {
      const lower::Step& step = program.steps[s];
      const auto shape = [&](lower::BufferId b) {
        return program.buffers[static_cast<std::size_t>(b)].type.shape;
      };
      const auto reads = [&](lower::BufferId b) {
        return std::find(step.inputs.begin(), step.inputs.end(), b) != step.inputs.end();
      };
      if (masked >= 0 && reads(masked)) {
        if (step.group == lower::GroupKind::rows) sums.push_back(s);
        if (step.group == lower::GroupKind::contraction && step.outputs.size() == 3) products.push_back(s);
      }
      // The layer itself has a mask among its results.
      if (step.group == lower::GroupKind::contraction && step.outputs.size() == 1 &&
          shape(step.outputs[0]) == layer && has(step, ir::Op::select)) {
        masks.push_back(s);
        masked = step.outputs[0];
      }
    }
    ASSERT_EQ(masks.size(), 1u) << lower::to_string(program);
    ASSERT_EQ(sums.size(), 1u) << lower::to_string(program);
    ASSERT_EQ(products.size(), 1u) << lower::to_string(program);
    EXPECT_FALSE(has(program.steps[sums[0]], ir::Op::select));
    const cuda::Schedule schedule = cuda::make_schedule(program);
    EXPECT_NE(schedule.lane[sums[0]], schedule.lane[products[0]]);
    const auto waits = [&](std::size_t step, std::size_t for_which) {
      const std::vector<std::int32_t>& list = schedule.waits[step];
      return std::find(list.begin(), list.end(), static_cast<std::int32_t>(for_which)) != list.end();
    };
    EXPECT_FALSE(waits(products[0], sums[0]) || waits(sums[0], products[0]));
  }
}

// The choice whether to update waits for all gradients; what it chooses between must not wait in memory.
TEST(Explain, LossScalingKeepsNoSecondCopyOfWeightsAndMoments) {
  for (cli::bench::Workload work : cli::bench::workloads(false)) {
    if (work.name != "T1" || work.batch != 64) continue;
    work.dtype = "bf16";
    const lower::Program plain = program_of(cli::bench::step_graph(work));
    work.dtype = "fp16";
    const lower::Program scaled = program_of(cli::bench::step_graph(work));
    EXPECT_LT(scaled.arena_bytes, plain.arena_bytes + 32 * 1024)
        << lower::to_string(scaled);  // weights: 407 KB
    EXPECT_EQ(lower::tally(scaled).loops_and_branches, 0);
  }
}

#endif

}  // namespace
}  // namespace systole
