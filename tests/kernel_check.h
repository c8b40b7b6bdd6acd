#pragma once

// The one kernel that a graph becomes, for tests that read its source.

#include <gtest/gtest.h>

#include "codegen/kernel.h"
#include "compile/program.h"
#include "systole/compile/passes.h"

namespace systole::kernel_check {

class PlainTarget final : public lower::Target {
 public:
  std::string_view name() const override { return "plain"; }
};

inline lower::Step step_of(const ir::Graph& graph) {
  const lower::Program program = lower::make_program(
      passes::run_passes(passes::inline_composites(graph), passes::standard_passes()), PlainTarget());
  EXPECT_EQ(program.steps.size(), 1u) << to_string(program);
  return program.steps[0];
}

inline codegen::Kernel kernel_of(const ir::Graph& graph, codegen::Dialect dialect) {
  return *codegen::make_kernel(step_of(graph), "kernel", dialect);
}

}  // namespace systole::kernel_check
