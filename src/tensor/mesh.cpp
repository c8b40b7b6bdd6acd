#include "tensor/mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "backend/one_device.h"
#include "runtime/registry.h"
#include "systole/base/error.h"
#include "systole/tensor/compiled.h"
#include "tensor/evaluate.h"

namespace systole {

namespace {

bool fits_whole(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0, star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {  // let the last star take one more
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

bool fits_name(std::string_view pattern, std::string_view name) {
  if (pattern.starts_with('/')) return fits_whole(pattern.substr(1), name);
  if (fits_whole(pattern, name)) return true;
  for (std::size_t dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.', dot + 1))
    if (fits_whole(pattern, name.substr(dot + 1))) return true;
  return false;
}

enum class What { variable, argument, result };

bool is_about(const ShardingRule& rule, std::string_view stem) {
  const std::string_view names = rule.names;
  return names.substr(names.starts_with('/') ? 1 : 0).starts_with(stem);
}

// `rank` counts the value's own dimensions.
bool fits(const ShardingRule& rule, What what, std::string_view name, std::size_t rank) {
  if (what != What::variable) {
    // Only a rule that says so means arguments and results: "*" does not.
    if (!is_about(rule, what == What::argument ? "arg" : "result")) return false;
  }
  return fits_name(rule.names, name) && (rule.rank < 0 || static_cast<std::size_t>(rule.rank) == rank);
}

const ShardingRule* rule_for(const DeviceMesh& mesh, What what, std::string_view name, std::size_t rank) {
  for (const ShardingRule& rule : mesh.rules)
    if (fits(rule, what, name, rank)) return &rule;
  return nullptr;
}

[[noreturn]] void refuse(ErrorKind kind, std::string message, std::string expected = {},
                         std::string got = {}) {
  throw Error(kind, "DeviceMesh", std::move(message), std::move(expected), std::move(got));
}

std::int64_t parts(const ir::Mesh& grid, const std::vector<std::string>& axes) {
  std::int64_t count = 1;
  for (const std::string& axis : axes) count *= grid.axis(axis).size;
  return count;
}

void check_even(const ir::Mesh& grid, const ir::Sharding& sharding, const Type& type,
                const std::string& what) {
  for (std::size_t i = 0; i < sharding.dims.size(); ++i) {
    const std::int64_t count = parts(grid, sharding.dims[i]);
    if (type.shape[i].is_static() && type.shape[i].value() % count != 0)
      refuse(ErrorKind::kShape,
             fmt::format("{} does not split evenly over \"{}\"", what, fmt::join(sharding.dims[i], ",")),
             fmt::format("axis {} a multiple of {}", i, count), type.to_string());
  }
}

ir::Sharding whole(const Type& type) { return {std::vector<ir::MeshAxisNames>(type.shape.size())}; }

ir::Sharding by_rule(const DeviceMesh& mesh, const ShardingRule& rule, const std::string& what,
                     const Type& type, std::size_t lead) {
  const ir::Mesh grid = recording::grid(mesh);
  const std::size_t rank = type.shape.size() - lead;
  ir::Sharding sharding = whole(type);
  if (!rule.largest.names.empty()) {
    const std::int64_t count = parts(grid, rule.largest.names);
    std::size_t best = type.shape.size();
    for (std::size_t i = lead; i < type.shape.size(); ++i)
      if (type.shape[i].is_static() && type.shape[i].value() % count == 0 &&
          (best == type.shape.size() || type.shape[i].value() > type.shape[best].value()))
        best = i;
    if (best < type.shape.size()) sharding.dims[best] = rule.largest.names;
    return sharding;
  }
  if (rule.dims.size() > rank)
    refuse(ErrorKind::kShape,
           fmt::format("the rule for \"{}\" has more dimensions than {}", rule.names, what),
           fmt::format("at most {}", rank), std::to_string(rule.dims.size()));
  for (std::size_t i = 0; i < rule.dims.size(); ++i) sharding.dims[lead + i] = rule.dims[i].names;
  check_even(grid, sharding, type, what);
  return sharding;
}

bool is_axis_name(const std::string& name) {
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
         std::all_of(name.begin(), name.end(), [](char c) {
           const auto u = static_cast<unsigned char>(c);
           return u < 128 && (std::isalnum(u) != 0 || c == '_');
         });
}

}  // namespace

MeshAxes::MeshAxes(const char* name) : MeshAxes(std::string(name)) {}
MeshAxes::MeshAxes(std::string name) {
  if (!name.empty()) names.push_back(std::move(name));
}
MeshAxes::MeshAxes(std::initializer_list<const char*> list) : names(list.begin(), list.end()) {}

DeviceMesh::DeviceMesh(std::string device, std::vector<ir::Mesh::Axis> axes)
    : device(std::move(device)), axes(std::move(axes)) {}

DeviceMesh& DeviceMesh::rule(std::string names, std::vector<MeshAxes> dims) {
  rules.push_back({.names = std::move(names), .dims = std::move(dims)});
  return *this;
}

DeviceMesh& DeviceMesh::column_parallel(std::string_view layer, MeshAxes axes) {
  rules.push_back({.names = fmt::format("{}.weight", layer), .dims = {axes, ""}, .rank = 2});
  rules.push_back(
      {.names = fmt::format("{}.bias", layer), .dims = {std::move(axes)}, .rank = 1, .may_miss = true});
  return *this;
}

DeviceMesh& DeviceMesh::row_parallel(std::string_view layer, MeshAxes axes) {
  rules.push_back({.names = fmt::format("{}.weight", layer), .dims = {"", std::move(axes)}, .rank = 2});
  return *this;
}

DeviceMesh& DeviceMesh::shard(std::string_view names, MeshAxes axes) {
  rules.push_back({.names = std::string(names), .largest = std::move(axes)});
  return *this;
}

std::int64_t DeviceMesh::size() const {
  std::int64_t count = 1;
  for (const ir::Mesh::Axis& axis : axes) {
    if (axis.size < 1)
      refuse(ErrorKind::kInvalidArgument, fmt::format("axis \"{}\" has no number of devices", axis.name),
             "at least 1", std::to_string(axis.size));
    if (axis.size > ir::kMaxMeshSize / count)
      refuse(ErrorKind::kLimit, "too many devices", fmt::format("at most {}", ir::kMaxMeshSize));
    count *= axis.size;
  }
  return count;
}

void place(std::span<const Variable> variables, const DeviceMesh& mesh) {
  DeviceMesh lenient = mesh;  // rules for what is not in the list
  for (ShardingRule& rule : lenient.rules) rule.may_miss = true;
  compile(
      [&] {
        for (Variable v : variables) v.assign(v.value());
      },
      std::move(lenient))();
}

runtime::Placement placement(const Tensor& x) {
  recording::run_pending({&x, 1}, "placement");
  return recording::buffer_of(x)->placement();
}

namespace recording {

ir::Mesh grid(const DeviceMesh& mesh) { return {mesh.axes}; }

DeviceMesh checked(DeviceMesh mesh) {
  if (mesh.axes.empty()) refuse(ErrorKind::kInvalidArgument, "no axes", "e.g. {{\"data\", 4}}");
  std::set<std::string> names;
  ir::Mesh::Axis* open = nullptr;
  std::int64_t others = 1;
  for (ir::Mesh::Axis& axis : mesh.axes) {
    if (!is_axis_name(axis.name))
      refuse(ErrorKind::kInvalidArgument, "the name of an axis", "letters, digits and _, no digit first",
             fmt::format("\"{}\"", axis.name));
    if (!names.insert(axis.name).second)
      refuse(ErrorKind::kInvalidArgument, fmt::format("axis \"{}\" stands twice", axis.name));
    if (axis.size == -1 && open == nullptr)
      open = &axis;
    else
      others *= DeviceMesh(mesh.device, {axis}).size();
  }
  if (open != nullptr) {
    const runtime::ResolvedDevice first = runtime::resolve(DeviceName::parse(mesh.device));
    const auto there = static_cast<std::int64_t>(first.backend->devices().size()) - first.name.ordinal;
    if (there % others != 0 || there < others)
      refuse(ErrorKind::kInvalidArgument, fmt::format("axis \"{}\" of what is left", open->name),
             fmt::format("devices in multiples of {}", others), std::to_string(there));
    open->size = there / others;
  }
  if (const std::int64_t devices = mesh.size(); devices > 1) {
    const runtime::ResolvedDevice first = runtime::resolve(DeviceName::parse(mesh.device));
    if (dynamic_cast<const runtime::OneDevice*>(first.backend) != nullptr)
      runtime::refuse_mesh(first.name.to_string(), devices);
  }
  for (const ShardingRule& rule : mesh.rules) {
    std::set<std::string> used;
    std::vector<MeshAxes> dims = rule.dims;
    dims.push_back(rule.largest);
    for (const MeshAxes& dim : dims)
      for (const std::string& axis : dim.names) {
        if (!names.contains(axis))
          refuse(ErrorKind::kNotFound,
                 fmt::format("the rule for \"{}\" names an axis that the mesh lacks", rule.names),
                 fmt::format("one of {}", fmt::join(names, ", ")), axis);
        if (!used.insert(axis).second)
          refuse(ErrorKind::kInvalidArgument,
                 fmt::format("the rule for \"{}\" splits two dimensions over \"{}\"", rule.names, axis));
      }
  }
  return mesh;
}

ir::Sharding variable_sharding(const DeviceMesh& mesh, const std::string& name, const Type& type) {
  if (const ShardingRule* rule = rule_for(mesh, What::variable, name, type.shape.size()))
    return by_rule(mesh, *rule, fmt::format("Variable \"{}\"", name), type, 0);
  return whole(type);
}

ir::Sharding result_sharding(const DeviceMesh& mesh, std::size_t number, const Type& type, std::size_t lead) {
  const std::string name = fmt::format("result{}", number);
  if (const ShardingRule* rule = rule_for(mesh, What::result, name, type.shape.size() - lead))
    return by_rule(mesh, *rule, fmt::format("result {}", number), type, lead);
  return whole(type);
}

ir::Sharding batch_sharding(const DeviceMesh& mesh, const std::string& what, const Type& type,
                            std::size_t axis) {
  ir::Sharding sharding = whole(type);
  if (axis >= type.shape.size()) return sharding;
  for (const std::string& name : mesh.batch_axes.names)
    if (std::any_of(mesh.axes.begin(), mesh.axes.end(), [&](const auto& a) { return a.name == name; }))
      sharding.dims[axis].push_back(name);
  check_even(grid(mesh), sharding, type, what);
  return sharding;
}

ir::Sharding argument_sharding(const DeviceMesh& mesh, std::size_t number, const Type& type,
                               std::size_t lead) {
  const std::string what = fmt::format("argument {}", number);
  if (const ShardingRule* rule =
          rule_for(mesh, What::argument, fmt::format("arg{}", number), type.shape.size() - lead))
    return by_rule(mesh, *rule, what, type, lead);
  return batch_sharding(mesh, what, type, lead);
}

void refuse_argument_rules(const DeviceMesh& mesh) {
  for (const ShardingRule& rule : mesh.rules)
    if (is_about(rule, "arg"))
      refuse(ErrorKind::kInvalidArgument,
             fmt::format("many_at() splits the rows; the rule for \"{}\" cannot be followed", rule.names));
}

void check_use(const DeviceMesh& mesh, const MeshUse& use) {
  std::set<const ShardingRule*> used;
  std::set<std::string> split;
  const auto note = [&](const ir::Sharding& sharding) {
    for (const ir::MeshAxisNames& dim : sharding.dims) split.insert(dim.begin(), dim.end());
  };
  const auto look = [&](What what, const MeshUse::Item& item) {
    const ShardingRule* rule = rule_for(mesh, what, item.name, item.type.shape.size());
    used.insert(rule);
    return rule != nullptr;
  };
  bool expects_a_batch = false;
  for (std::size_t i = 0; i < use.arguments.size(); ++i) {
    const bool ruled = look(What::argument, use.arguments[i]);
    note(argument_sharding(mesh, i, use.arguments[i].type, 0));
    expects_a_batch = expects_a_batch || (!ruled && use.arguments[i].type.shape.rank() > 0);
  }
  for (const MeshUse::Item& item : use.variables) {
    look(What::variable, item);
    note(variable_sharding(mesh, item.name, item.type));
  }
  for (std::size_t i = 0; i < use.results.size(); ++i) {
    look(What::result, use.results[i]);
    note(result_sharding(mesh, i, use.results[i].type, 0));
  }
  for (const ShardingRule& rule : mesh.rules) {
    if (rule.may_miss || used.contains(&rule)) continue;
    std::vector<std::string> names;
    for (const MeshUse::Item& item : use.variables)
      names.push_back(item.name.empty() ? "(unnamed)" : item.name);
    constexpr std::size_t kShown = 12;
    const bool more = names.size() > kShown;
    if (more) names.resize(kShown);
    refuse(ErrorKind::kNotFound, fmt::format("the rule for \"{}\" fits nothing of the function", rule.names),
           fmt::format("a name like {}{}; Variables get names from parameters(module)",
                       fmt::join(names, ", "), more ? ", …" : ""));
  }
  for (const ir::Mesh::Axis& axis : mesh.axes)
    if (expects_a_batch && axis.size > 1 && !split.contains(axis.name))
      refuse(ErrorKind::kInvalidArgument,
             fmt::format("axis \"{}\" splits nothing of the function", axis.name),
             fmt::format("an axis of batch_axes (\"{}\"), or in a rule",
                         fmt::join(mesh.batch_axes.names, "\", \"")));
}

}  // namespace recording

}  // namespace systole
