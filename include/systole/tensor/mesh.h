#pragma once

// Many devices as one: a function compiled for a mesh runs on all its devices at once, and its numbers are
// those of one device: a batch norm's statistics and a loss's mean are of the whole batch, dropout draws what
// it would draw on one. The batch is split among the devices; a Variable is whole on each or split by a rule.
//
//   DeviceMesh mesh("tpu", {{"data", 4}});
//   auto step = compile(fn, mesh);             // data parallel: the arguments' leading axis is split in 4
//
//   DeviceMesh grid("tpu", {{"data", 2}, {"model", 4}});
//   grid.column_parallel("fc").row_parallel("fc2");
//   auto step = compile(fn, grid);             // and these Linear layers in 4, with their optimiser state
//
//   DeviceMesh sharded("tpu", {{"data", -1}}); // all devices there are
//   sharded.shard("*");                        // every Variable in parts: memory of one device is no limit
//
// Variables stay on the devices of the mesh between calls; read elsewhere, they are put together, and
// move_to() or nn::to() brings them back to one device. What is split must divide evenly. The devices are
// those of this process, numbered in a row. "reference" does the work of all devices by itself.

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "systole/base/export.h"
#include "systole/ir/graph.h"
#include "systole/runtime.h"
#include "systole/tensor/tensor.h"
#include "systole/tensor/variable.h"

namespace systole {

// The mesh axes that split a dimension: "model", {"data", "model"}, or "" for none.
struct SYSTOLE_API MeshAxes {
  std::vector<std::string> names;
  MeshAxes() = default;
  MeshAxes(const char* name);
  MeshAxes(std::string name);
  MeshAxes(std::initializer_list<const char*> names);
  bool operator==(const MeshAxes&) const = default;
};

// How Variables, arguments or results are split. `names` is a name or its end after a dot, and * stands for
// any text: "fc.weight" means "h.0.fc.weight" and "adam.m.h.0.fc.weight" too, "/fc.weight" that name alone. A
// Variable has the name that parameters() of the outermost module asked gives it. Arguments are "arg0",
// "arg1", …, results "result0", …, counted over the Tensors in them.
struct SYSTOLE_API ShardingRule {
  std::string names;
  std::vector<MeshAxes> dims = {};  // those left out are whole
  MeshAxes largest = {};            // instead of dims: the largest dimension that divides evenly, if any
  int rank = -1;                    // only what has this many dimensions; -1: any
  bool may_miss = false;            // whether it may fit nothing, which is refused otherwise
  bool operator==(const ShardingRule&) const = default;
};

struct SYSTOLE_API DeviceMesh {
  std::string device;                // the first; the others have the numbers after it
  std::vector<ir::Mesh::Axis> axes;  // in row-major order of devices; one size may be -1: all that are left
  std::vector<ShardingRule> rules;   // the first that fits counts
  // What splits the leading axis of an argument without a rule. The mesh may lack some of these, but an axis
  // that splits nothing at all is refused. In many() it is the axis after that of the steps; in many_at() the
  // rows are split, and the data whole on each device.
  MeshAxes batch_axes = "data";

  DeviceMesh(std::string device, std::vector<ir::Mesh::Axis> axes);

  DeviceMesh& rule(std::string names, std::vector<MeshAxes> dims);
  // The Linear layers so called, split by outputs, or by inputs. A column-parallel layer and a row-parallel
  // one after it exchange data once.
  DeviceMesh& column_parallel(std::string_view layer, MeshAxes axes = "model");
  DeviceMesh& row_parallel(std::string_view layer, MeshAxes axes = "model");
  // Every Variable so called along its largest dimension that divides evenly: fully sharded training with
  // "*", sharded optimiser state with "adam.*". Arguments and results are not meant.
  DeviceMesh& shard(std::string_view names, MeshAxes axes = "data");

  std::int64_t size() const;  // devices; throws kInvalidArgument while a size is -1
  bool operator==(const DeviceMesh&) const = default;
};

// Puts Variables where functions of this mesh want them, before the first call.
SYSTOLE_API void place(std::span<const Variable> variables, const DeviceMesh& mesh);

// Where a value lies; runs what is pending.
SYSTOLE_API runtime::Placement placement(const Tensor& x);

}  // namespace systole
