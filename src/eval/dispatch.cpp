// The switch over all ops.

#include <string>
#include <utility>

#include "eval/internal.h"
#include "systole/base/error.h"

#pragma GCC diagnostic error "-Wswitch"  // an op without an evaluation does not compile

namespace systole::eval {

namespace {

using ir::Node;
using ir::Op;

void put(Results values, Slot* results) {
  for (Literal& value : values) *results++ = std::move(value);
}

// Later nodes index by the inferred types: a group of another size than the mesh says must not get that far.
Literal checked(const Node& node, Literal value) {
  if (!(value.type() == node.types[0]))
    throw Error(ErrorKind::kInternal, std::string(name(node.op)), "the value is not of the inferred type",
                node.types[0].to_string(), value.type().to_string());
  return value;
}

}  // namespace

void dispatch(const Node& node, const Operands& x, const Context& context, Slot* results) {
  Slot& result = results[0];
  switch (node.op) {
#define SYSTOLE_UNARY(name, ...) case Op::name:
#define SYSTOLE_BINARY(name, ...) case Op::name:
#include "systole/ir/ops.def"
    return elementwise(node, x, result);
    case Op::select: return select(node, x, result);
    case Op::clamp: return clamp(node, x, result);
    case Op::convert: return convert(node, x, result);
    case Op::bitcast: result = bitcast(node, x); return;

    case Op::input: break;
    case Op::constant: result = node.as<ir::ConstantAttrs>().value; return;
    case Op::iota: result = iota(node); return;
    case Op::dimension: result = dimension(node); return;
    case Op::random_bits: result = random_bits(node, x); return;

    case Op::reshape: result = reshape(node, x); return;
    case Op::transpose: result = transpose(node, x); return;
    case Op::broadcast: result = broadcast(node, x); return;
    case Op::slice: result = slice(node, x); return;
    case Op::pad: result = pad(node, x); return;
    case Op::concat: result = concat(node, x); return;
    case Op::reverse: result = reverse(node, x); return;
    case Op::gather: result = gather(node, x); return;
    case Op::scatter: result = scatter(node, x); return;
    case Op::dynamic_slice: result = dynamic_slice(node, x); return;
    case Op::dynamic_update_slice: result = dynamic_update_slice(node, x); return;

    case Op::reduce: result = reduce(node, x); return;
    case Op::arg_reduce: result = arg_reduce(node, x); return;
    case Op::reduce_window: result = reduce_window(node, x); return;
    case Op::cumulative: result = cumulative(node, x); return;
    case Op::sort: put(sort(node, x), results); return;
    case Op::top_k: put(top_k(node, x), results); return;

    case Op::dot_general: result = dot_general(node, x); return;
    case Op::convolution: result = convolution(node, x); return;
    case Op::cholesky: result = cholesky(node, x); return;
    case Op::triangular_solve: result = triangular_solve(node, x); return;

    case Op::scan: put(scan(node, x, context), results); return;
    case Op::while_loop: put(while_loop(node, x, context), results); return;
    case Op::cond: put(cond(x, context), results); return;
    case Op::composite: put(call(x, context), results); return;

    case Op::all_reduce:
    case Op::all_gather:
    case Op::reduce_scatter:
    case Op::all_to_all:
    case Op::collective_permute:
    case Op::device_index: result = checked(node, collective(node, x, context.group)); return;

    case Op::barrier:
      for (std::size_t i = 0; i < x.size(); ++i) results[i] = x.take(i);
      return;
    case Op::kernel_call:
      if (node.graphs.empty())
        throw Error(
            ErrorKind::kUnsupported, "kernel_call",
            "\"" + node.as<ir::KernelAttrs>().name + "\" has no body graph, and no kernel source runs here");
      put(call(x, context), results);
      return;
  }
  throw Error(ErrorKind::kInternal, std::string(name(node.op)), "an argument of the graph has no evaluation");
}

}  // namespace systole::eval
