#include "ir/composite_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/lasting.h"
#include "ir/hash.h"

namespace systole::ir {

namespace {

using Types = std::vector<Type>;

constexpr std::size_t kMostKept = 4096;  // answers

struct Answer {
  CompositeAttrs attrs;
  Types operands, results;
  std::optional<Error> misfit;
};

struct Answers {
  std::mutex mutex;
  std::unordered_multimap<std::uint64_t, Answer> all;
};

Answers& answers() {
  static Answers& kept = lasting<Answers>();
  return kept;
}

bool is_static(std::span<const Type> types) {
  return std::all_of(types.begin(), types.end(), [](const Type& t) { return t.shape.is_static(); });
}

// An integer stands for a number, and a list of integers for a shape, as get_double and get_shape take them.
bool is_of_kind(const AttrValue& value, const AttrValue& pattern) {
  const auto is_list = [](const AttrValue& v) {
    return std::holds_alternative<Ints>(v) || std::holds_alternative<Shape>(v);
  };
  if (value.index() == pattern.index() || (is_list(value) && is_list(pattern))) return true;
  return std::holds_alternative<std::int64_t>(value) && std::holds_alternative<double>(pattern);
}

std::string text(const Types& types) {
  std::string made;
  for (const Type& t : types) made += (made.empty() ? "" : ", ") + t.to_string();
  return made.empty() ? "none" : made;
}

std::optional<Error> compared(const CompositeDef& def, const CompositeAttrs& attrs, const Types& operands,
                              const Types& results) {
  const auto misfit = [&](ErrorKind kind, std::string message, std::string expected = {},
                          std::string got = {}) {
    return Error(kind, "composite " + def.name, std::move(message), std::move(expected), std::move(got));
  };
  for (const auto& [key, pattern] : def.defaults) {
    const auto found = attrs.attrs.find(key);
    if (found == attrs.attrs.end())
      return misfit(ErrorKind::kInvalidArgument, fmt::format("the attribute {} is missing", key));
    if (!is_of_kind(found->second, pattern))
      return misfit(ErrorKind::kInvalidArgument, fmt::format("the attribute {} is of another kind", key));
  }
  if (operands.empty()) return misfit(ErrorKind::kInvalidArgument, "it has no operands");
  try {
    AttrMap given = attrs.attrs;
    const GraphRef body = composite_body(def, operands, given);
    Types made;
    for (std::size_t i = 0; i < body->outputs().size(); ++i) made.push_back(body->output_type(i));
    if (made != results)
      return misfit(ErrorKind::kShape, "the results are not those of its definition", text(made),
                    text(results));
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

std::optional<Error> answer_to(const CompositeDef& def, const Node& node, std::span<const Type> operands) {
  const auto& attrs = node.as<CompositeAttrs>();
  Hasher hasher;
  hasher.add(hash_attrs(node.attrs));
  for (const Type& t : operands) add_type(hasher, t);
  for (const Type& t : node.types) add_type(hasher, t);
  Answer answer{attrs, {operands.begin(), operands.end()}, node.types, {}};
  Answers& kept = answers();
  {
    std::lock_guard lock(kept.mutex);
    const auto [begin, end] = kept.all.equal_range(hasher.result());
    for (auto it = begin; it != end; ++it)
      if (it->second.attrs == attrs && it->second.operands == answer.operands &&
          it->second.results == answer.results)
        return it->second.misfit;
  }
  answer.misfit = compared(def, attrs, answer.operands, answer.results);
  std::optional<Error> misfit = answer.misfit;
  std::lock_guard lock(kept.mutex);
  if (kept.all.size() >= kMostKept) kept.all.clear();
  kept.all.emplace(hasher.result(), std::move(answer));
  return misfit;
}

void check_composites(const Graph& graph, std::set<const Graph*>& done) {
  if (!done.insert(&graph).second) return;
  for (std::int32_t i = 0; i < graph.size(); ++i) {
    const Node& node = graph.node(i);
    for (const GraphRef& g : node.graphs) check_composites(*g, done);
    if (node.op != Op::composite) continue;
    Types operands;
    for (const ValueId v : node.operands) operands.push_back(graph.type(v));
    if (const std::optional<Error> misfit = composite_misfit(node, operands))
      throw misfit->within(fmt::format("graph @{}, node {}", graph.name(), i));
  }
}

}  // namespace

void check_composites(const Graph& graph) {
  std::set<const Graph*> done;
  check_composites(graph, done);
}

std::optional<Error> composite_misfit(const Node& node, std::span<const Type> operands) {
  const CompositeDef* const def = find_composite(node.as<CompositeAttrs>().name);
  if (def == nullptr) return std::nullopt;
  std::optional<Error> misfit = answer_to(*def, node, operands);
  // A definition may need numbers where a graph has symbols; the graph is checked again when it is bound.
  if (misfit && misfit->kind() == ErrorKind::kShape && !is_static(operands)) return std::nullopt;
  return misfit;
}

const CompositeDef* definition_of(const Node& composite) {
  const CompositeDef* const def = find_composite(composite.as<CompositeAttrs>().name);
  if (def == nullptr) return nullptr;
  Types operands;
  const Graph& body = *composite.graphs[0];
  for (std::size_t i = 0; i < body.inputs().size(); ++i) operands.push_back(body.input_type(i));
  return answer_to(*def, composite, operands) ? nullptr : def;
}

}  // namespace systole::ir
