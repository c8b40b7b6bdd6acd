// Evaluation of one node or one graph, with arguments checked.

#include "eval/eval.h"

#include <utility>

#include "eval/internal.h"
#include "eval/plan.h"

namespace systole::eval {

namespace {

using ir::Node;

void check_arguments(const ir::Graph& graph, std::span<const Literal> arguments) {
  const std::string where = "graph " + graph.name();
  if (!graph.is_static())
    throw Error(ErrorKind::kShape, where, "a graph with symbols must be bound to numbers first");
  if (arguments.size() != graph.inputs().size())
    throw Error(ErrorKind::kInvalidArgument, where, "wrong number of arguments",
                std::to_string(graph.inputs().size()), std::to_string(arguments.size()));
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Type &wanted = graph.input_type(i), &got = arguments[i].type();
    if (got == wanted) continue;
    throw Error(got.dtype == wanted.dtype ? ErrorKind::kShape : ErrorKind::kDType, where,
                "argument " + std::to_string(i) + " (" + graph.input_name(i) + ")", wanted.to_string(),
                got.to_string());
  }
}

}  // namespace

std::vector<Literal> evaluate(const Node& node, std::span<const Literal> operands, Group* group) {
  std::vector<Slot> slots(operands.begin(), operands.end());
  std::vector<Use> uses(operands.size());
  for (std::size_t i = 0; i < uses.size(); ++i)
    uses[i] = {.slot = static_cast<std::int32_t>(i), .last = true};
  std::vector<PlanRef> bodies;
  for (const ir::GraphRef& graph : node.graphs) bodies.push_back(std::make_shared<const Plan>(*graph));
  std::vector<Slot> results(node.types.size());
  with_typed_errors([&] { return name(node.op); },
                    [&] { dispatch(node, {slots.data(), uses}, {group, bodies}, results.data()); });
  std::vector<Literal> values;
  for (Slot& result : results) values.push_back(*std::move(result));
  return values;
}

std::vector<Literal> evaluate(const ir::Graph& graph, std::vector<Literal>&& arguments, Group* group) {
  check_arguments(graph, arguments);
  return Plan(graph).run(std::move(arguments), group);
}

std::vector<Literal> evaluate(const ir::Graph& graph, std::span<const Literal> arguments, Group* group) {
  return evaluate(graph, std::vector<Literal>(arguments.begin(), arguments.end()), group);
}

bool uses_collectives(const ir::Graph& graph) {
  for (const Node& node : graph.nodes()) {
    if (info(node.op).op_class == ir::OpClass::collective) return true;
    for (const ir::GraphRef& sub : node.graphs)
      if (uses_collectives(*sub)) return true;
  }
  return false;
}

}  // namespace systole::eval
