// What a training step needs at its peak: of temporaries hardly more than those that must be there at one
// time, which no placement can do without.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "backend/cpu/target.h"
#include "compile/program.h"
#include "generated_only.h"
#include "systole/nn/losses.h"
#include "systole/nn/models.h"
#include "systole/optim.h"
#include "systole/systole.h"

namespace systole {
namespace {

// The most bytes of temporaries that one step and those around it keep.
std::int64_t least_arena(const lower::Program& program) {
  std::int64_t most = 0;
  for (std::int32_t step = 0; step < static_cast<std::int32_t>(program.steps.size()); ++step) {
    std::int64_t alive = 0;
    for (const lower::BufferInfo& b : program.buffers)
      if (b.role == lower::BufferInfo::Role::temporary && b.shares < 0 && b.first >= 0 && b.first <= step &&
          step <= b.last)
        alive += b.bytes;
    most = std::max(most, alive);
  }
  return most;
}

TEST(PlanMemory, AStepOfAResidualNetworkNeedsHardlyMoreThanIsAliveAtOneTime) {
  nn::models::ResNet model({.stages = {{8, 2, 1}, {16, 2, 2}, {32, 2, 2}}, .stem = 8, .classes = 10});
  optim::SGD sgd(parameters(model), {.lr = 0.1, .momentum = 0.9});
  const auto variables = parameters(model).variables();
  const ir::Graph graph = compile([&](const Tensor& x, const Tensor& y) {
                            const auto loss_of = [&] { return cross_entropy(model.forward(x), y); };
                            auto [loss, grads] = value_and_grad(loss_of, variables);
                            sgd.update(grads);
                            return loss;
                          }).graph(zeros({4, 64, 64, 3}), zeros({4}, DType::i32));
  const lower::Program program = lower::make_program(lower::prepared(graph, cpu::target()), cpu::target());
  const std::int64_t least = least_arena(program);
  ASSERT_GT(least, 0);
  EXPECT_LE(static_cast<double>(program.arena_bytes), 1.1 * static_cast<double>(least));
}

}  // namespace
}  // namespace systole
