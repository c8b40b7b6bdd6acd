#include "systole/ir/composite.h"

#include <fmt/format.h>
#include <map>
#include <mutex>

#include "base/lasting.h"
#include "systole/ir/rewriter.h"

namespace systole::ir {

// Defined in ops/, which stands below: the built-in composites are the only thing this registry needs from
// there.
void register_builtin_composites(void (*add)(CompositeDef));

namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, CompositeDef, std::less<>> defs;  // entries never move and are never removed
};

void add(Registry& registry, CompositeDef def) {
  std::lock_guard lock(registry.mutex);
  if (def.name.empty() || !def.build)
    throw Error(ErrorKind::kInvalidArgument, "composite", "a definition needs a name and a body");
  if (find_op(def.name) || def.name == kRemat || registry.defs.contains(def.name))
    throw Error(ErrorKind::kInvalidArgument, "composite " + def.name, "the name is taken");
  std::string name = def.name;
  registry.defs.emplace(std::move(name), std::move(def));
}

Registry& empty_registry() {
  static Registry& registry = lasting<Registry>();
  return registry;
}

Registry& registry() {
  static Registry& filled = [&]() -> Registry& {
    register_builtin_composites([](CompositeDef def) { add(empty_registry(), std::move(def)); });
    return empty_registry();
  }();
  return filled;
}

}  // namespace

void register_composite(CompositeDef def) { add(registry(), std::move(def)); }

const CompositeDef* find_composite(std::string_view name) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  const auto it = r.defs.find(name);
  return it == r.defs.end() ? nullptr : &it->second;
}

std::vector<const CompositeDef*> all_composites() {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  std::vector<const CompositeDef*> all;
  for (const auto& [name, def] : r.defs) all.push_back(&def);
  return all;
}

GraphRef composite_body(const CompositeDef& def, std::span<const Type> operands, AttrMap& attrs) {
  for (const auto& [key, value] : attrs)
    if (!def.defaults.contains(key)) {
      std::string known;
      for (const auto& entry : def.defaults) known += (known.empty() ? "" : ", ") + entry.first;
      throw Error(ErrorKind::kInvalidArgument, "composite " + def.name, "no such attribute",
                  known.empty() ? "none" : "one of " + known, fmt::format("'{}'", key));
    }
  for (const auto& [key, value] : def.defaults) attrs.emplace(key, value);
  // A body is fresh for each use; printing merges equal ones.
  auto body = std::make_shared<Graph>(def.name);
  Values inputs;
  for (const Type& type : operands) inputs.push_back(body->input({}, type));
  try {
    if (!operands.empty() && !def.dtypes.contains(operands[0].dtype))
      throw Error(ErrorKind::kDType, {}, "a dtype it does not take", {}, operands[0].to_string());
    for (const Value& result : def.build(*body, inputs, attrs)) body->output(result);
  } catch (const Error& e) {
    throw e.within("composite " + def.name);
  }
  return body;
}

Values add_composite(std::string_view name, ValueList operands, AttrMap attrs) {
  const CompositeDef* def = find_composite(name);
  if (def == nullptr) throw Error(ErrorKind::kNotFound, "composite " + std::string(name), "not registered");
  if (operands.empty() || !operands[0].valid())
    throw Error(ErrorKind::kInvalidArgument, "composite " + std::string(name), "needs an operand");
  std::vector<Type> types;
  for (const Value& v : operands) {
    if (!v.valid())
      throw Error(ErrorKind::kInvalidArgument, "composite " + std::string(name), "an operand has no graph");
    types.push_back(v.type());
  }
  GraphRef body = composite_body(*def, types, attrs);
  return operands[0].graph().add_multi(
      Op::composite, operands, CompositeAttrs{std::string(name), std::move(attrs)}, {std::move(body)});
}

Values inline_graph(Graph& into, const Graph& body, ValueList arguments) {
  if (arguments.size() != body.inputs().size())
    throw Error(ErrorKind::kInvalidArgument, "graph @" + body.name(), "wrong number of arguments",
                std::to_string(body.inputs().size()), std::to_string(arguments.size()));
  std::vector<Values> mapped(static_cast<std::size_t>(body.size()));
  for (std::size_t i = 0; i < arguments.size(); ++i)
    mapped[static_cast<std::size_t>(body.inputs()[i])] = {arguments[i]};
  const auto find = [&](ValueId v) {
    return mapped[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.index)];
  };
  for (std::int32_t i = 0; i < body.size(); ++i) {
    const Node& node = body.node(i);
    if (node.op == Op::input) continue;
    Values operands;
    for (ValueId v : node.operands) operands.push_back(find(v));
    mapped[static_cast<std::size_t>(i)] = copy_node(into, node, operands, node.graphs);
  }
  Values results;
  for (const Output& o : body.outputs()) results.push_back(find(o.value));
  return results;
}

}  // namespace systole::ir
