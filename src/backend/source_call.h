#pragma once

// A kernel_call inside a Program that runs its source in the backend's language.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "compile/program.h"
#include "runtime/source_kernels.h"

namespace systole::runtime {

struct SourceCall {
  struct Slot {
    bool is_result = false;
    std::int32_t position = -1;  // among the step's inputs or outputs; -1: a result that nobody wants
    std::size_t bytes = 0;
  };
  std::shared_ptr<const SourceKernel> kernel;
  Launch launch;
  std::vector<Slot> slots;  // by argument
  bool zeroes = false;      // the results, before the kernel runs
};

// Null unless the step is a kernel_call with source in the dialect; one with neither source nor body graph
// throws kUnsupported. `build` compiles a source that knows the number of elements of result 0 as S_COUNT;
// what it throws names the call. Throws kInvalidArgument or kDType when the kernel's parameters are not the
// node's operands, const, and results.
struct NamedSource {
  const std::string &text, &name;
  bool is_portable;  // by its words
};
using SourceBuild =
    std::function<std::shared_ptr<const SourceProgram>(const NamedSource&, const SourceOptions&)>;
std::shared_ptr<const SourceCall> source_call(const lower::Step& step, codegen::Dialect dialect,
                                              const SourceBuild& build);

// The graph with bodies in the place of kernel_calls that have no source in the dialect.
ir::Graph with_bodies(const ir::Graph& graph, codegen::Dialect dialect);

}  // namespace systole::runtime
