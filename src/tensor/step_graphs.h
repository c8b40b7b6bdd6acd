#pragma once

// The graphs that a traced step is compiled as: one step, or a scan of many.

#include <cstddef>
#include <span>

#include "systole/ir/graph.h"
#include "systole/tensor/compiled.h"
#include "tensor/trace.h"

namespace systole::recording {

// One step; or a scan of many, whose steps see the arguments, entries of them, or rows of them that an input
// after all others numbers. The results of a scan have an axis of steps before their own.
enum class Form { once, all, entries, rows };

// `graph`, the traced one or a looped one, as it is compiled. Input names: the arguments by number, Variables
// by their names, all different. With a mesh, every input and output has a sharding.
ir::Graph named(const ir::Graph& graph, const Traced& traced, std::size_t arguments,
                const FunctionOptions& options, Form form);

// One scan of `length` steps; `indices` is for Form::rows. There `ahead` lets all steps' rows of a few bytes,
// such as labels, be taken before the scan: a step reads them without waiting for their numbers.
ir::Graph looped(const Traced& traced, std::span<const Type> arguments, Dim length, Form form,
                 const Type* indices = nullptr, bool ahead = false);

}  // namespace systole::recording
