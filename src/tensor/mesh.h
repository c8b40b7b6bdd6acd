#pragma once

// What a DeviceMesh says of a traced program's inputs and outputs.

#include <cstddef>
#include <span>
#include <string>

#include "systole/ir/graph.h"
#include "systole/tensor/mesh.h"

namespace systole::recording {

// The mesh with every size a number. Throws for axes that repeat or have no devices and for rules of axes
// that the mesh lacks.
DeviceMesh checked(DeviceMesh mesh);
ir::Mesh grid(const DeviceMesh& mesh);

// Whole on every device unless a rule fits.
ir::Sharding variable_sharding(const DeviceMesh& mesh, const std::string& name, const Type& type);
ir::Sharding result_sharding(const DeviceMesh& mesh, std::size_t number, const Type& type, std::size_t lead);
// Of argument `number`, which has `lead` axes before its own: they are not split. Without a rule its leading
// axis is split over the batch axes.
ir::Sharding argument_sharding(const DeviceMesh& mesh, std::size_t number, const Type& type,
                               std::size_t lead);
// The axis `axis` of an array split over the batch axes.
ir::Sharding batch_sharding(const DeviceMesh& mesh, const std::string& what, const Type& type,
                            std::size_t axis);

// In many_at() the rows are split, so a rule for the data they are taken from would do nothing.
void refuse_argument_rules(const DeviceMesh& mesh);

// What a traced function has, to find rules and axes that do nothing.
struct MeshUse {
  struct Item {
    std::string name;
    Type type;
  };
  std::vector<Item> arguments, variables, results;
};
// Throws kNotFound for a rule that fits nothing, kInvalidArgument for an axis that splits nothing.
void check_use(const DeviceMesh& mesh, const MeshUse& use);

}  // namespace systole::recording
