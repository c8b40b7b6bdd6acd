// The switch over all ops, and the frame around each evaluation: arguments and results checked, failed
// allocations turned into typed errors.

#include "eval/eval.h"

#include <new>
#include <stdexcept>
#include <utility>

#include "eval/internal.h"
#include "eval/plan.h"

#pragma GCC diagnostic error "-Wswitch"  // an op without an evaluation does not compile

namespace systole::eval {

namespace {

using ir::Node;
using ir::Op;

Results one(Literal value) {
  Results results;
  results.push_back(std::move(value));
  return results;
}

Results kernel_body(const Node& node, Operands x, Group* group) {
  if (node.graphs.empty())
    throw Error(
        ErrorKind::kUnsupported, "kernel_call",
        "\"" + node.as<ir::KernelAttrs>().name + "\" has no body graph, and no kernel source runs here");
  return Plan(*node.graphs[0]).run(std::move(x), group);
}

Results dispatch(const Node& node, Operands x, Group* group) {
  switch (node.op) {
#define SYSTOLE_UNARY(name, ...) case Op::name:
#define SYSTOLE_BINARY(name, ...) case Op::name:
#include "systole/ir/ops.def"
    return one(elementwise(node, x));
    case Op::select: return one(select(node, x));
    case Op::clamp: return one(clamp(node, x));
    case Op::convert: return one(convert(node, x));
    case Op::bitcast: return one(bitcast(node, x));

    case Op::input: break;
    case Op::constant: return one(node.as<ir::ConstantAttrs>().value);
    case Op::iota: return one(iota(node));
    case Op::dimension: return one(dimension(node));
    case Op::random_bits: return one(random_bits(node, x));

    case Op::reshape: return one(reshape(node, x));
    case Op::transpose: return one(transpose(node, x));
    case Op::broadcast: return one(broadcast(node, x));
    case Op::slice: return one(slice(node, x));
    case Op::pad: return one(pad(node, x));
    case Op::concat: return one(concat(node, x));
    case Op::reverse: return one(reverse(node, x));
    case Op::gather: return one(gather(node, x));
    case Op::scatter: return one(scatter(node, x));
    case Op::dynamic_slice: return one(dynamic_slice(node, x));
    case Op::dynamic_update_slice: return one(dynamic_update_slice(node, x));

    case Op::reduce: return one(reduce(node, x));
    case Op::arg_reduce: return one(arg_reduce(node, x));
    case Op::reduce_window: return one(reduce_window(node, x));
    case Op::cumulative: return one(cumulative(node, x));
    case Op::sort: return sort(node, x);
    case Op::top_k: return top_k(node, x);

    case Op::dot_general: return one(dot_general(node, x));
    case Op::convolution: return one(convolution(node, x));
    case Op::cholesky: return one(cholesky(node, x));
    case Op::triangular_solve: return one(triangular_solve(node, x));

    case Op::scan: return scan(node, std::move(x), group);
    case Op::while_loop: return while_loop(node, std::move(x), group);
    case Op::cond: return cond(node, std::move(x), group);
    case Op::composite: return Plan(*node.graphs[0]).run(std::move(x), group);

    case Op::all_reduce:
    case Op::all_gather:
    case Op::reduce_scatter:
    case Op::all_to_all:
    case Op::collective_permute:
    case Op::device_index: return one(collective(node, x, group));

    case Op::barrier: return x;
    case Op::kernel_call: return kernel_body(node, std::move(x), group);
  }
  throw Error(ErrorKind::kInternal, std::string(name(node.op)), "an argument of the graph has no evaluation");
}

// Runs f with every failure to allocate turned into kOutOfMemory naming `where`.
template <class F>
Results guarded(std::string_view where, F&& f) {
  try {
    return f();
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::kOutOfMemory) throw e.within(where);
    throw;
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
  }
  throw Error(ErrorKind::kOutOfMemory, std::string(where), "no memory for a working buffer");
}

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

Results evaluate_node(const Node& node, Operands operands, Group* group) {
  Results results = guarded(name(node.op), [&] { return dispatch(node, std::move(operands), group); });
  // Later nodes index by the inferred types: a group of another size than the mesh says must not get that
  // far.
  for (std::size_t i = 0; i < results.size(); ++i)
    if (results.size() != node.types.size() || !(results[i].type() == node.types[i]))
      throw Error(ErrorKind::kInternal, std::string(name(node.op)), "the value is not of the inferred type",
                  node.types[i].to_string(), results[i].type().to_string());
  return results;
}

std::vector<Literal> evaluate(const Node& node, std::span<const Literal> operands, Group* group) {
  return evaluate_node(node, Operands(operands.begin(), operands.end()), group);
}

std::vector<Literal> evaluate(const ir::Graph& graph, std::vector<Literal>&& arguments, Group* group) {
  check_arguments(graph, arguments);
  return guarded("graph " + graph.name(), [&] { return Plan(graph).run(std::move(arguments), group); });
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
