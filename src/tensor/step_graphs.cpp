#include "tensor/step_graphs.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "systole/ir/composite.h"
#include "systole/ops.h"
#include "tensor/control_body.h"
#include "tensor/mesh.h"

namespace systole::recording {

namespace {

// The value under a sharding; one that has another is passed on under the new one.
ir::Value under(ir::Graph& graph, const ir::Value& value, const ir::Sharding& sharding) {
  const ir::Node& node = graph.node(value.id().node);
  const auto index = static_cast<std::size_t>(value.id().index);
  const bool taken = !node.shardings.empty() && node.shardings[index];
  if (taken && *node.shardings[index] == sharding) return value;
  const ir::Value own =
      taken ? graph.add(ir::Op::reshape, {value}, ir::ReshapeAttrs{value.type().shape}) : value;
  graph.set_sharding(own, sharding);
  return own;
}

}  // namespace

ir::Graph named(const ir::Graph& graph, const Traced& traced, std::size_t arguments,
                const FunctionOptions& options, Form form) {
  ir::Graph out(options.name);
  if (options.mesh) out.set_mesh(grid(*options.mesh));
  const auto sharding = [&](std::size_t i) -> ir::Sharding {
    const Type& type = graph.input_type(i);
    const bool rows = form == Form::rows;
    if (i < arguments && !rows) return argument_sharding(*options.mesh, i, type, form == Form::entries);
    if (rows && i + 1 == graph.inputs().size()) return batch_sharding(*options.mesh, "indices", type, 1);
    if (i >= arguments && i < arguments + traced.bound.size())
      return variable_sharding(*options.mesh, traced.bound[i - arguments].cell->name, type);
    return {std::vector<ir::MeshAxisNames>(type.shape.size())};
  };
  std::map<const Cell*, std::size_t> assigned;
  for (std::size_t k = 0; k < traced.assigned.size(); ++k) assigned.emplace(traced.assigned[k].cell.get(), k);
  std::set<std::string> taken;
  std::map<std::string, int> next;  // number of a name that is taken
  ir::Values inputs;
  std::vector<ir::Sharding> shardings;  // of the inputs
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    std::string label;
    std::int64_t alias = -1;
    if (i < arguments) {
      label = fmt::format("arg{}", i);
    } else if (i < arguments + traced.bound.size()) {
      const Frame::Binding& binding = traced.bound[i - arguments];
      label = binding.cell->name.empty() ? fmt::format("variable{}", i - arguments) : binding.cell->name;
      if (const auto found = assigned.find(binding.cell.get()); found != assigned.end())
        alias = static_cast<std::int64_t>(traced.results.tensors.size() + found->second);
    } else {
      label = fmt::format("captured{}", i - arguments - traced.bound.size());
    }
    for (const std::string base = label; !taken.insert(label).second;)
      label = fmt::format("{}.{}", base, ++next.try_emplace(base, 1).first->second);
    inputs.push_back(out.input(label, graph.input_type(i), alias));
    if (!options.mesh) continue;
    shardings.push_back(sharding(i));
    out.set_sharding(inputs.back(), shardings.back());
  }
  ir::Values outputs = ir::inline_graph(out, graph, inputs);
  if (options.mesh) {
    const std::size_t results = traced.results.tensors.size();
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      const std::size_t lead = form == Form::once ? 0 : 1;
      ir::Sharding wanted =
          k < results - traced.reports()
              ? result_sharding(*options.mesh, k, outputs[k].type(), lead)
              : ir::Sharding{std::vector<ir::MeshAxisNames>(outputs[k].type().shape.size())};
      for (std::size_t b = 0; k >= results && b < traced.bound.size(); ++b)
        if (traced.bound[b].cell == traced.assigned[k - results].cell) wanted = shardings[arguments + b];
      outputs[k] = under(out, outputs[k], wanted);
    }
  }
  for (const ir::Value& v : outputs) out.output(v);
  return out;
}

ir::Graph looped(const Traced& traced, std::span<const Type> arguments, Dim length, Form form,
                 const Type* indices, bool ahead) {
  const std::size_t count = arguments.size(), results = traced.results.tensors.size();
  const Signature signature(traced, count);
  ir::Graph graph;
  ir::Values inputs;
  for (const Type& type : arguments) inputs.push_back(graph.input({}, type));
  for (std::size_t i = count; i < traced.graph.inputs().size(); ++i)
    inputs.push_back(graph.input({}, traced.graph.input_type(i)));
  ir::Values carries, xs, constants;
  for (std::size_t i : signature.carried) carries.push_back(inputs[i]);
  if (form == Form::rows) xs.push_back(graph.input({}, *indices));
  const auto is_taken_ahead = [&](std::size_t i) {
    constexpr std::int64_t kFewBytes = 16;
    return ahead && entry_type(arguments[i]).bytes() <= kFewBytes;
  };
  for (std::size_t i = 0; i < count; ++i)
    if (form == Form::rows && is_taken_ahead(i))
      xs.push_back(ops::take(inputs[i], xs[0], 0));
    else
      (form == Form::entries ? xs : constants).push_back(inputs[i]);
  for (std::size_t i : signature.constant) constants.push_back(inputs[i]);

  std::vector<Type> types;
  for (const ir::Value& v : carries) types.push_back(v.type());
  for (const ir::Value& v : xs) types.push_back(entry_type(v.type()));
  for (const ir::Value& v : constants) types.push_back(v.type());
  auto body = std::make_shared<ir::Graph>("step");
  ir::Values x;
  for (const Type& type : types) x.push_back(body->input({}, type));
  ir::Values given(traced.graph.inputs().size());
  std::size_t next = 0;
  for (std::size_t i : signature.carried) given[i] = x[next++];
  if (form == Form::rows) {
    const ir::Value rows = x[next++];
    for (std::size_t i = 0; i < count; ++i)
      if (is_taken_ahead(i)) given[i] = x[next++];
    for (std::size_t i = 0; i < count; ++i)
      if (!is_taken_ahead(i)) given[i] = ops::take(x[next++], rows, 0);
  } else {
    for (std::size_t i = 0; i < count; ++i) given[i] = x[next++];
  }
  for (std::size_t i : signature.constant) given[i] = x[next++];
  const ir::Values outputs = ir::inline_graph(*body, traced.graph, given);
  for (std::size_t i = results; i < outputs.size(); ++i) body->output(outputs[i]);
  for (std::size_t i = 0; i < results; ++i) body->output(outputs[i]);

  ir::Values operands = carries;
  operands.insert(operands.end(), xs.begin(), xs.end());
  operands.insert(operands.end(), constants.begin(), constants.end());
  const ir::Values values = graph.add_multi(
      ir::Op::scan, operands,
      ir::ScanAttrs{length, static_cast<std::int64_t>(carries.size()), static_cast<std::int64_t>(xs.size())},
      {body});
  for (std::size_t i = 0; i < results; ++i) graph.output(values[carries.size() + i]);
  for (std::size_t i = 0; i < carries.size(); ++i) graph.output(values[i]);
  return graph;
}

}  // namespace systole::recording
