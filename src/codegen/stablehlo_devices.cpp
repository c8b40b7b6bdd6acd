// Many devices. A graph with collectives is what each device runs: they are the replicas of one partition,
// and a collective lists its groups of replicas. A graph with shardings is one program over all devices,
// which the plugin's partitioner splits: GSPMD's annotations name the tile of every device, Shardy's the mesh
// axes that split a dimension.

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "codegen/stablehlo_emitter.h"
#include "ir/text_literal.h"
#include "systole/base/error.h"

namespace systole::codegen::hlo {

namespace {

// Devices of the mesh as rows: one row per setting of the other axes, along a row the named axes in their
// order, row-major.
struct Groups {
  Ints devices;
  std::int64_t size = 1;
};

Groups groups_of(const ir::Mesh& mesh, const ir::MeshAxisNames& named) {
  struct Axis {
    std::int64_t size, stride;
  };
  std::vector<Axis> outer, inner(named.size());
  std::int64_t stride = mesh.size();
  for (const ir::Mesh::Axis& axis : mesh.axes) {
    stride /= axis.size;
    const auto found = std::find(named.begin(), named.end(), axis.name);
    if (found == named.end())
      outer.push_back({axis.size, stride});
    else
      inner[static_cast<std::size_t>(found - named.begin())] = {axis.size, stride};
  }
  Groups groups;
  for (const Axis& axis : inner) groups.size *= axis.size;
  std::vector<Axis> order = outer;
  order.insert(order.end(), inner.begin(), inner.end());
  for (std::int64_t i = 0; i < mesh.size(); ++i) {
    std::int64_t rest = i, device = 0;
    for (std::size_t k = order.size(); k-- > 0;) {
      device += rest % order[k].size * order[k].stride;
      rest /= order[k].size;
    }
    groups.devices.push_back(device);
  }
  return groups;
}

std::string replica_groups(const Groups& groups) {
  return "replica_groups = " + table_text(groups.devices, static_cast<std::size_t>(groups.size));
}

// Replica r's position in its group, by a table.
Value device_index(Emitter& e, const Groups& groups) {
  Literal table(Type{DType::u32, {static_cast<std::int64_t>(groups.devices.size())}});
  const std::span<std::uint32_t> positions = table.mutable_values<std::uint32_t>();
  for (std::size_t i = 0; i < groups.devices.size(); ++i)
    positions[static_cast<std::size_t>(groups.devices[i])] =
        static_cast<std::uint32_t>(static_cast<std::int64_t>(i) % groups.size);
  const Value replica = e.cast(e.op("replica_id", {}, {DType::u32, {}}), DType::i32);
  const Value row = e.op("dynamic_slice", {e.constant(table), replica}, {DType::u32, {1}},
                         "slice_sizes = " + array_text({1}));
  return e.reshape(row, {});
}

// The operands of a group stacked along a new first axis.
Value stacked(Emitter& e, const Value& x, const Groups& groups) {
  Shape one{1};
  for (const Dim& d : x.type.shape) one.push_back(d);
  Shape all = one;
  all[0] = groups.size;
  return e.op("all_gather", {e.reshape(x, one)}, {x.type.dtype, all},
              "all_gather_dim = 0 : i64, " + replica_groups(groups));
}

// Plugins reduce with arithmetic only; bits are exchanged and combined here.
bool exchanges(ir::Combine kind) {
  return kind == ir::Combine::bitwise_and || kind == ir::Combine::bitwise_or;
}

Value reducing(Emitter& e, std::string_view name, const Value& x, const Type& type, ir::Combine kind,
               const std::string& attrs) {
  const DType computed = computable(x.type.dtype);
  const Values result = e.op_with_regions(name, {e.cast(x, computed)}, {with_dtype(type, computed)}, attrs,
                                          {combination(e, kind, computed)});
  return e.cast(result[0], type.dtype);
}

Value all_reduce(Emitter& e, const ir::Node& node, const Value& x, const ir::Mesh& mesh) {
  const auto& a = node.as<ir::AllReduceAttrs>();
  const Groups groups = groups_of(mesh, a.mesh_axes);
  if (exchanges(a.kind)) return reduce(e, stacked(e, x, groups), a.kind, {0});
  return reducing(e, "all_reduce", x, node.types[0], a.kind, replica_groups(groups));
}

Value all_to_all(Emitter& e, const Value& x, const Type& type, std::int64_t split_axis,
                 std::int64_t concat_axis, const Groups& groups) {
  return e.op(
      "all_to_all", {x}, type,
      fmt::format("split_dimension = {} : i64, concat_dimension = {} : i64, split_count = {} : i64, {}",
                  split_axis, concat_axis, groups.size, replica_groups(groups)));
}

Value reduce_scatter(Emitter& e, const ir::Node& node, const Value& x, const ir::Mesh& mesh) {
  const auto& a = node.as<ir::ReduceScatterAttrs>();
  const Groups groups = groups_of(mesh, a.mesh_axes);
  const Type& type = node.types[0];
  if (!exchanges(a.kind))
    return reducing(e, "reduce_scatter", x, type, a.kind,
                    fmt::format("scatter_dimension = {} : i64, {}", a.axis, replica_groups(groups)));
  Shape one{1}, shares{groups.size};
  for (const Dim& d : x.type.shape) one.push_back(d);
  for (const Dim& d : type.shape) shares.push_back(d);
  const Value parts = all_to_all(e, e.reshape(x, one), {type.dtype, shares}, a.axis + 1, 0, groups);
  return reduce(e, parts, a.kind, {0});
}

Value permute(Emitter& e, const ir::Node& node, const Value& x, const ir::Mesh& mesh) {
  const auto& a = node.as<ir::PermuteAttrs>();
  const Groups groups = groups_of(mesh, a.mesh_axes);
  Ints pairs;
  for (std::size_t first = 0; first < groups.devices.size(); first += static_cast<std::size_t>(groups.size))
    for (std::size_t i = 0; i < a.sources.size(); ++i) {
      pairs.push_back(groups.devices[first + static_cast<std::size_t>(a.sources[i])]);
      pairs.push_back(groups.devices[first + static_cast<std::size_t>(a.targets[i])]);
    }
  return e.op("collective_permute", {x}, node.types[0], "source_target_pairs = " + table_text(pairs, 2));
}

}  // namespace

Value collective(Emitter& e, const ir::Node& node, const Values& x, const ir::Mesh& mesh) {
  using ir::Op;
  const Type& type = node.types[0];
  if (type.shape.count() == 0) return e.splat(type, "");  // StableHLO refuses some that are empty
  switch (node.op) {
    case Op::all_reduce: return all_reduce(e, node, x[0], mesh);
    case Op::all_gather: {
      const auto& a = node.as<ir::AllGatherAttrs>();
      return e.op(
          "all_gather", x, type,
          fmt::format("all_gather_dim = {} : i64, {}", a.axis, replica_groups(groups_of(mesh, a.mesh_axes))));
    }
    case Op::reduce_scatter: return reduce_scatter(e, node, x[0], mesh);
    case Op::all_to_all: {
      const auto& a = node.as<ir::AllToAllAttrs>();
      return all_to_all(e, x[0], type, a.split_axis, a.concat_axis, groups_of(mesh, a.mesh_axes));
    }
    case Op::collective_permute: return permute(e, node, x[0], mesh);
    case Op::device_index: return device_index(e, groups_of(mesh, node.as<ir::MeshAxesAttrs>().mesh_axes));
    default: throw Error(ErrorKind::kInternal, std::string(ir::name(node.op)), "is no collective");
  }
}

std::string gspmd_text(const ir::Sharding& sharding, const ir::Mesh& mesh) {
  Ints tiles;
  ir::MeshAxisNames used;
  std::int64_t split = 1;
  for (const ir::MeshAxisNames& axes : sharding.dims) {
    std::int64_t tile = 1;
    for (const std::string& axis : axes) {
      tile *= mesh.axis(axis).size;
      used.push_back(axis);
    }
    tiles.push_back(tile);
    split *= tile;
  }
  if (split == 1) return "{replicated}";
  // The axes that split nothing come last: devices along them hold the same tile.
  for (const ir::Mesh::Axis& axis : mesh.axes)
    if (std::find(used.begin(), used.end(), axis.name) == used.end()) used.push_back(axis.name);
  const std::int64_t copies = mesh.size() / split;
  if (copies > 1) tiles.push_back(copies);
  return fmt::format("{{devices=[{}]{}{}}}", fmt::join(tiles, ","),
                     fmt::join(groups_of(mesh, used).devices, ","),
                     copies > 1 ? " last_tile_dim_replicate" : "");
}

std::string shardy_text(const ir::Sharding& sharding) {
  std::string dims;
  for (const ir::MeshAxisNames& axes : sharding.dims) {
    std::string names;
    for (const std::string& axis : axes) names += (names.empty() ? "" : ", ") + ir::quoted_text(axis);
    dims += fmt::format("{}{{{}}}", dims.empty() ? "" : ", ", names);
  }
  return fmt::format("#sdy.sharding<@mesh, [{}]>", dims);
}

std::string shardy_mesh_text(const ir::Mesh& mesh) {
  std::string axes;
  for (const ir::Mesh::Axis& axis : mesh.axes)
    axes += fmt::format("{}{}={}", axes.empty() ? "" : ", ", ir::quoted_text(axis.name), axis.size);
  return fmt::format("\"sdy.mesh\"() {{sym_name = \"mesh\", mesh = #sdy.mesh<[{}]>}} : () -> ()", axes);
}

}  // namespace systole::codegen::hlo
