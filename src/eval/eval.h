#pragma once

// The value of primitives and graphs on host literals: plain loops, floats computed and accumulated in f64
// and rounded once, integers in 64 bits and wrapped. Constant folding and the reference backend share it, so
// the oracle and the compiler cannot disagree.

#include <cstdint>
#include <span>
#include <vector>

#include "systole/base/literal.h"
#include "systole/ir/graph.h"

namespace systole::eval {

// How the devices of a mesh meet: each collective node hands in its operand and gets those of its whole
// group, in group order. `node` identifies the meeting so that a mismatch between devices is an error, not a
// hang.
class Group {
 public:
  virtual ~Group() = default;
  virtual std::vector<Literal> exchange(const ir::Node& node, const ir::MeshAxisNames& mesh_axes,
                                        const Literal& mine) = 0;
  virtual std::int64_t index(const ir::MeshAxisNames& mesh_axes) const = 0;
};

// One node. Operand types are those the node was built with. Throws kUnsupported for a kernel_call without a
// body and for a collective without a group, kOutOfMemory naming the op when memory runs out.
std::vector<Literal> evaluate(const ir::Node& node, std::span<const Literal> operands,
                              Group* group = nullptr);

// A static graph; arguments are checked against the inputs. Intermediate values are freed after their last
// use. Ops that change part of a value reuse its storage when nothing else holds it: hand arguments over to
// allow that for them.
std::vector<Literal> evaluate(const ir::Graph& graph, std::span<const Literal> arguments,
                              Group* group = nullptr);
std::vector<Literal> evaluate(const ir::Graph& graph, std::vector<Literal>&& arguments,
                              Group* group = nullptr);

// Whether a collective stands in the graph or in one of its sub-graphs: such a graph is what one device of a
// mesh runs.
bool uses_collectives(const ir::Graph& graph);

}  // namespace systole::eval
