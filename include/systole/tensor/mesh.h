#pragma once

// Many devices as one: a function compiled for a mesh runs on all its devices at once, and its numbers are
// those of one device. The batch is split among the devices; a Variable is whole on each or split by a rule.
//
//   DeviceMesh mesh("tpu", {{"data", 4}});
//   auto step = compile(fn, mesh);             // data parallel: the arguments' leading axis is split in 4
//
//   DeviceMesh grid("tpu", {{"data", 2}, {"model", 4}});
//   grid.column_parallel("qkv").row_parallel("proj").column_parallel("fc").row_parallel("fc2");
//   auto step = compile(fn, grid);             // and the named Linear layers in 4, optimiser state included
//
// Variables stay on the devices of the mesh between calls. Read elsewhere, they are put together.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "systole/base/export.h"
#include "systole/ir/graph.h"

namespace systole {

// How a Variable or an argument is split. `names`: all that ends so at a dot, and * stands for any text, so
// "fc.weight" means "h.0.fc.weight" and "adam.m.h.0.fc.weight" too; arguments are "arg0", "arg1", …. `dims`:
// for each dimension the mesh axis that splits it, several as "data,model", or "" for none; dimensions left
// out are whole.
struct ShardingRule {
  std::string names;
  std::vector<std::string> dims;
  bool operator==(const ShardingRule&) const = default;
};

struct SYSTOLE_API DeviceMesh {
  std::string device = "auto";       // the first; the others have the numbers after it
  std::vector<ir::Mesh::Axis> axes;  // in row-major order of devices
  std::vector<ShardingRule> rules;   // the first that fits counts
  std::string batch_axes = "data";  // what splits the leading axis of arguments without a rule; axes that the
                                    // mesh lacks do not

  DeviceMesh(std::string device, std::vector<ir::Mesh::Axis> axes);

  DeviceMesh& rule(std::string names, std::vector<std::string> dims);
  // The Linear layers so called, split by outputs, or by inputs. A column-parallel layer and a row-parallel
  // one after it exchange data once.
  DeviceMesh& column_parallel(std::string_view layer, std::string_view axis = "model");
  DeviceMesh& row_parallel(std::string_view layer, std::string_view axis = "model");

  std::int64_t size() const;  // devices
  bool operator==(const DeviceMesh&) const = default;
};

}  // namespace systole
