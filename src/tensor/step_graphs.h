#pragma once

// The graphs that a traced step is compiled as: one step, or a scan of many.

#include <cstddef>
#include <span>

#include "systole/ir/graph.h"
#include "systole/tensor/compiled.h"
#include "tensor/trace.h"

namespace systole::recording {

// What each step of a program sees: its arguments, entries of them, or rows of them that an input after all
// others numbers.
enum class Sees { all, entries, rows };

// `graph`, the traced one or a looped one, as it is compiled. Input names: the arguments by number, Variables
// by their names, all different. With a mesh, every input and output has a sharding.
ir::Graph named(const ir::Graph& graph, const Traced& traced, std::size_t arguments,
                const FunctionOptions& options, Sees sees);

// One scan of `length` steps; `indices` is for Sees::rows.
ir::Graph looped(const Traced& traced, std::span<const Type> arguments, Dim length, Sees sees,
                 const Type* indices = nullptr);

}  // namespace systole::recording
