#pragma once

// What a DeviceMesh says of a traced program's inputs.

#include <span>
#include <string>

#include "systole/ir/graph.h"
#include "systole/tensor/mesh.h"

namespace systole::recording {

// Throws for axes that repeat or have no devices and for rules of axes that the mesh lacks.
void check(const DeviceMesh& mesh);
ir::Mesh grid(const DeviceMesh& mesh);

// Whole on every device unless a rule fits the name.
ir::Sharding variable_sharding(const DeviceMesh& mesh, const std::string& name, const Type& type);
// Of argument `number`, which has `lead` axes before its own: they are not split. Without a rule its leading
// axis is split over the batch axes.
ir::Sharding argument_sharding(const DeviceMesh& mesh, std::size_t number, const Type& type,
                               std::size_t lead);
// The axis `axis` of an array split over the batch axes.
ir::Sharding batch_sharding(const DeviceMesh& mesh, const std::string& what, const Type& type,
                            std::size_t axis);

// Tells in the log of rules that fit none of the names.
void warn_of_unused_rules(const DeviceMesh& mesh, std::span<const std::string> names,
                          const std::string& function);

}  // namespace systole::recording
