#pragma once

// Whether a composite node is what its name promises. Backends, passes and derivatives find a registered
// composite by its name and read its operands by position, so a node from outside must fit the definition.

#include <optional>
#include <span>

#include "systole/base/error.h"
#include "systole/ir/composite.h"

namespace systole::ir {

// Why a composite node does not fit the registered definition of its name: the attributes, what the
// definition's own builder says of the operand types, or result types that are not the builder's. Nothing
// when it fits, when the name is not registered, or when shapes cannot be compared before their symbols have
// numbers. Answers are kept, so asking again is cheap.
std::optional<Error> composite_misfit(const Node& node, std::span<const Type> operands);

// Throws the first misfit of the graph and its sub-graphs, with its place. Much less than verify():
// composites alone are looked at.
void check_composites(const Graph& graph);

// The registered definition that the node fits; null when there is none, or when that is not known yet.
const CompositeDef* definition_of(const Node& composite);

}  // namespace systole::ir
