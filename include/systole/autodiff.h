#pragma once

// Derivatives as graph transforms: a graph goes in, a graph that also computes derivatives comes out.
// Everything differentiable is differentiable again, since a derivative is a graph like any other.

#include <vector>

#include "systole/base/export.h"
#include "systole/ir/graph.h"

namespace systole::autodiff {

// Reverse mode. The inputs are those of `graph`, then a cotangent for each floating-point output; the outputs
// are those of `graph`, then the gradient by each input in `wrt` (positions), of that input's type. Throws
// kUnsupported naming the op when the way from an input to an output goes through one without a gradient,
// kDType when an input is no float.
SYSTOLE_API ir::Graph vjp(const ir::Graph& graph, const std::vector<int>& wrt);

// The value of a graph with one scalar output, and its gradients: vjp with the cotangent 1.
SYSTOLE_API ir::Graph value_and_grad(const ir::Graph& graph, const std::vector<int>& wrt);

// Forward mode, through while loops too. The inputs are those of `graph`, then a tangent for each input in
// `wrt`; the outputs are those of `graph`, then the tangent of each floating-point output.
SYSTOLE_API ir::Graph jvp(const ir::Graph& graph, const std::vector<int>& wrt);

// A graph mapped over a new axis, and which of its outputs have that axis.
struct Batched {
  ir::Graph graph;
  std::vector<bool> outputs;
};

// Maps over a new leading axis of `size`: the inputs flagged in `batched` get it, and so does every output
// that depends on one of them; the others are as before, once for all examples. Symbols may be used for
// `size`. Throws kUnsupported for a kernel without a body graph.
SYSTOLE_API Batched vmap(const ir::Graph& graph, const std::vector<bool>& batched, Dim size);

}  // namespace systole::autodiff
