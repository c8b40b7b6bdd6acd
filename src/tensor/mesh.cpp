#include "tensor/mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/log.h"
#include "systole/base/error.h"

namespace systole {

namespace {

bool fits_from(std::string_view pattern, std::string_view text) {
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

// Whether the pattern is the whole name or the part after one of its dots.
bool fits(std::string_view pattern, std::string_view name) {
  if (fits_from(pattern, name)) return true;
  for (std::size_t dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.', dot + 1))
    if (fits_from(pattern, name.substr(dot + 1))) return true;
  return false;
}

ir::MeshAxisNames axis_names(std::string_view list) {
  ir::MeshAxisNames names;
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    names.emplace_back(list.substr(0, comma));
    list = comma == std::string_view::npos ? std::string_view{} : list.substr(comma + 1);
  }
  return names;
}

const ShardingRule* rule_for(const DeviceMesh& mesh, std::string_view name) {
  for (const ShardingRule& rule : mesh.rules)
    if (fits(rule.names, name)) return &rule;
  return nullptr;
}

[[noreturn]] void refuse(ErrorKind kind, std::string message, std::string expected = {},
                         std::string got = {}) {
  throw Error(kind, "DeviceMesh", std::move(message), std::move(expected), std::move(got));
}

void check_even(const ir::Mesh& grid, const ir::Sharding& sharding, const Type& type,
                const std::string& what) {
  for (std::size_t i = 0; i < sharding.dims.size(); ++i) {
    std::int64_t parts = 1;
    for (const std::string& axis : sharding.dims[i]) parts *= grid.axis(axis).size;
    if (type.shape[i].is_static() && type.shape[i].value() % parts != 0)
      refuse(ErrorKind::kShape,
             fmt::format("{} does not split evenly over \"{}\"", what, fmt::join(sharding.dims[i], ",")),
             fmt::format("axis {} a multiple of {}", i, parts), type.to_string());
  }
}

ir::Sharding by_rule(const DeviceMesh& mesh, const ShardingRule& rule, const std::string& what,
                     const Type& type, std::size_t lead) {
  const std::size_t rank = type.shape.size() - lead;
  if (rule.dims.size() > rank)
    refuse(ErrorKind::kShape,
           fmt::format("the rule for \"{}\" has more dimensions than {}", rule.names, what),
           fmt::format("at most {}", rank), std::to_string(rule.dims.size()));
  ir::Sharding sharding{std::vector<ir::MeshAxisNames>(type.shape.size())};
  for (std::size_t i = 0; i < rule.dims.size(); ++i) sharding.dims[lead + i] = axis_names(rule.dims[i]);
  check_even(recording::grid(mesh), sharding, type, what);
  return sharding;
}

}  // namespace

DeviceMesh::DeviceMesh(std::string device, std::vector<ir::Mesh::Axis> axes)
    : device(std::move(device)), axes(std::move(axes)) {}

DeviceMesh& DeviceMesh::rule(std::string names, std::vector<std::string> dims) {
  rules.push_back({std::move(names), std::move(dims)});
  return *this;
}

DeviceMesh& DeviceMesh::column_parallel(std::string_view layer, std::string_view axis) {
  rule(fmt::format("{}.weight", layer), {std::string(axis), ""});
  return rule(fmt::format("{}.bias", layer), {std::string(axis)});
}

DeviceMesh& DeviceMesh::row_parallel(std::string_view layer, std::string_view axis) {
  return rule(fmt::format("{}.weight", layer), {"", std::string(axis)});
}

std::int64_t DeviceMesh::size() const { return ir::Mesh{axes}.size(); }

namespace recording {

ir::Mesh grid(const DeviceMesh& mesh) { return {mesh.axes}; }

void check(const DeviceMesh& mesh) {
  if (mesh.axes.empty()) refuse(ErrorKind::kInvalidArgument, "no axes", "e.g. {{\"data\", 4}}");
  std::set<std::string> names;
  for (const ir::Mesh::Axis& axis : mesh.axes) {
    if (axis.size < 1)
      refuse(ErrorKind::kInvalidArgument, fmt::format("axis \"{}\"", axis.name), "at least 1 device",
             std::to_string(axis.size));
    if (axis.name.empty() || axis.name.find(',') != std::string::npos)
      refuse(ErrorKind::kInvalidArgument, "an axis", "a name without commas",
             fmt::format("\"{}\"", axis.name));
    if (!names.insert(axis.name).second)
      refuse(ErrorKind::kInvalidArgument, fmt::format("axis \"{}\" stands twice", axis.name));
  }
  for (const ShardingRule& rule : mesh.rules) {
    std::set<std::string> used;
    for (const std::string& dim : rule.dims)
      for (const std::string& axis : axis_names(dim)) {
        if (!names.contains(axis))
          refuse(ErrorKind::kNotFound,
                 fmt::format("the rule for \"{}\" names an axis that the mesh lacks", rule.names),
                 fmt::format("one of {}", fmt::join(names, ", ")), axis);
        if (!used.insert(axis).second)
          refuse(ErrorKind::kInvalidArgument,
                 fmt::format("the rule for \"{}\" splits two dimensions over \"{}\"", rule.names, axis));
      }
  }
}

ir::Sharding variable_sharding(const DeviceMesh& mesh, const std::string& name, const Type& type) {
  if (const ShardingRule* rule = rule_for(mesh, name))
    return by_rule(mesh, *rule, fmt::format("Variable \"{}\"", name), type, 0);
  return {std::vector<ir::MeshAxisNames>(type.shape.size())};
}

ir::Sharding batch_sharding(const DeviceMesh& mesh, const std::string& what, const Type& type,
                            std::size_t axis) {
  ir::Sharding sharding{std::vector<ir::MeshAxisNames>(type.shape.size())};
  if (axis >= type.shape.size()) return sharding;
  for (std::string& name : axis_names(mesh.batch_axes))
    if (std::any_of(mesh.axes.begin(), mesh.axes.end(), [&](const auto& a) { return a.name == name; }))
      sharding.dims[axis].push_back(std::move(name));
  check_even(grid(mesh), sharding, type, what);
  return sharding;
}

ir::Sharding argument_sharding(const DeviceMesh& mesh, std::size_t number, const Type& type,
                               std::size_t lead) {
  const std::string what = fmt::format("argument {}", number);
  if (const ShardingRule* rule = rule_for(mesh, fmt::format("arg{}", number)))
    return by_rule(mesh, *rule, what, type, lead);
  return batch_sharding(mesh, what, type, lead);
}

void warn_of_unused_rules(const DeviceMesh& mesh, std::span<const std::string> names,
                          const std::string& function) {
  std::vector<const ShardingRule*> used;
  for (const std::string& name : names) used.push_back(rule_for(mesh, name));
  for (const ShardingRule& rule : mesh.rules)
    if (std::find(used.begin(), used.end(), &rule) == used.end())
      log(LogLevel::warn,
          fmt::format("DeviceMesh: the rule for \"{}\" fits no Variable or argument of \"{}\"", rule.names,
                      function));
}

}  // namespace recording

}  // namespace systole
