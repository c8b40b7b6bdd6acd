// Which StableHLO each op becomes, and the module around a graph. The switch has no default, so that a new op
// does not compile until it is said here.

#include "codegen/stablehlo.h"

#include <fmt/format.h>

#include "codegen/stablehlo_emitter.h"
#include "eval/eval.h"
#include "systole/base/error.h"

namespace systole::codegen {

namespace hlo {

namespace {

const ir::Sharding* sharding_of(const ir::Node& node, std::size_t result,
                                const std::optional<ir::Mesh>& mesh) {
  const bool split = mesh && mesh->size() > 1;  // partitioners want no annotations for one device
  return split && !node.shardings.empty() && node.shardings[result] ? &*node.shardings[result] : nullptr;
}

// On an argument or result of the function; empty without a sharding.
std::string sharding_attr(const ir::Node& node, std::size_t result, const std::optional<ir::Mesh>& mesh,
                          Partitioner partitioner) {
  const ir::Sharding* sharding = sharding_of(node, result, mesh);
  if (sharding == nullptr) return {};
  return partitioner == Partitioner::gspmd
             ? fmt::format("mhlo.sharding = \"{}\"", gspmd_text(*sharding, *mesh))
             : "sdy.sharding = " + shardy_text(*sharding);
}

// The value under the sharding its node asks for.
Value annotated(Emitter& e, const ir::Node& node, std::size_t result, const std::optional<ir::Mesh>& mesh,
                const Value& value) {
  const ir::Sharding* sharding = sharding_of(node, result, mesh);
  if (sharding == nullptr) return value;
  if (e.options().partitioner == Partitioner::shardy)
    return e.op("sdy.sharding_constraint", {value}, value.type, "sharding = " + shardy_text(*sharding));
  return e.op(
      "custom_call", {value}, value.type,
      fmt::format("call_target_name = \"Sharding\", mhlo.sharding = \"{}\"", gspmd_text(*sharding, *mesh)));
}

Values kernel(Emitter& e, const ir::Node& node, const Values& x) {
  if (node.graphs.empty())
    throw Error(ErrorKind::kUnsupported, "kernel_call",
                fmt::format("StableHLO cannot run the source of {}, and it has no body graph",
                            node.as<ir::KernelAttrs>().name));
  return e.graph(*node.graphs[0], x);
}

}  // namespace

Values Emitter::graph(const ir::Graph& graph, const Values& arguments) {
  std::vector<Values> values(static_cast<std::size_t>(graph.size()));
  for (std::size_t i = 0; i < graph.inputs().size(); ++i)
    values[static_cast<std::size_t>(graph.inputs()[i])] = {arguments[i]};
  const auto at = [&](ir::ValueId id) -> const Value& {
    return values[static_cast<std::size_t>(id.node)][static_cast<std::size_t>(id.index)];
  };
  for (std::int32_t i = 0; i < graph.size(); ++i) {
    const ir::Node& n = graph.node(i);
    if (n.op == ir::Op::input) continue;
    Values operands;
    for (const ir::ValueId id : n.operands) operands.push_back(at(id));
    Values results = node(n, operands, graph.mesh());
    for (std::size_t r = 0; r < results.size(); ++r)
      results[r] = annotated(*this, n, r, graph.mesh(), results[r]);
    values[static_cast<std::size_t>(i)] = std::move(results);
  }
  Values outputs;
  for (const ir::Output& output : graph.outputs()) outputs.push_back(at(output.value));
  return outputs;
}

Values Emitter::node(const ir::Node& node, const Values& x, const std::optional<ir::Mesh>& mesh) {
  using ir::Op;
  Emitter& e = *this;
  switch (node.op) {
    case Op::abs: return {e.arithmetic("abs", x)};
    case Op::neg: return {e.arithmetic("negate", x)};
    case Op::sign: return {e.arithmetic("sign", x)};
    case Op::exp: return {e.arithmetic("exponential", x)};
    case Op::expm1: return {e.arithmetic("exponential_minus_one", x)};
    case Op::log: return {e.arithmetic("log", x)};
    case Op::log1p: return {e.arithmetic("log_plus_one", x)};
    case Op::sqrt: return {e.arithmetic("sqrt", x)};
    case Op::rsqrt: return {e.arithmetic("rsqrt", x)};
    case Op::cbrt: return {cube_root(e, x[0])};
    case Op::sin: return {e.arithmetic("sine", x)};
    case Op::cos: return {e.arithmetic("cosine", x)};
    case Op::tan: return {e.arithmetic("tan", x)};
    case Op::tanh: return {e.arithmetic("tanh", x)};
    case Op::logistic: return {e.arithmetic("logistic", x)};
    case Op::erf: return {e.arithmetic("chlo.erf", x)};
    case Op::floor: return {e.arithmetic("floor", x)};
    case Op::ceil: return {e.arithmetic("ceil", x)};
    case Op::round: return {e.arithmetic("round_nearest_even", x)};
    case Op::is_finite:
      return {e.op("is_finite", {e.cast(x[0], computable(x[0].type.dtype))}, node.types[0])};
    case Op::bitwise_not: return {e.unary("not", x[0])};
    case Op::add: return {e.arithmetic("add", x)};
    case Op::sub: return {e.arithmetic("subtract", x)};
    case Op::mul: return {e.arithmetic("multiply", x)};
    case Op::div: return {divide(e, x[0], x[1])};
    case Op::rem: return {remainder(e, x[0], x[1])};
    case Op::pow: return {power(e, x[0], x[1])};
    case Op::max: return {e.arithmetic("maximum", x)};
    case Op::min: return {e.arithmetic("minimum", x)};
    case Op::atan2: return {arc_tangent(e, x[0], x[1])};
    case Op::bitwise_and: return {e.binary("and", x[0], x[1])};
    case Op::bitwise_or: return {e.binary("or", x[0], x[1])};
    case Op::bitwise_xor: return {e.binary("xor", x[0], x[1])};
    case Op::shift_left:
    case Op::shift_right:
    case Op::shift_right_logical: return {shift(e, node.op, x[0], x[1])};
    case Op::equal: return {hlo::compare(e, "EQ", x[0], x[1])};
    case Op::not_equal: return {hlo::compare(e, "NE", x[0], x[1])};
    case Op::less: return {hlo::compare(e, "LT", x[0], x[1])};
    case Op::less_equal: return {hlo::compare(e, "LE", x[0], x[1])};
    case Op::greater: return {hlo::compare(e, "GT", x[0], x[1])};
    case Op::greater_equal: return {hlo::compare(e, "GE", x[0], x[1])};
    case Op::select: return {e.select(x[0], x[1], x[2])};
    case Op::clamp: return {clamp(e, x[0], x[1], x[2])};
    case Op::convert: return {convert(e, x[0], node.types[0].dtype)};
    case Op::bitcast: return {bitcast(e, x[0], node.types[0].dtype)};

    case Op::input: break;  // stands in the signature
    case Op::constant: return {hlo::constant(e, node.as<ir::ConstantAttrs>().value)};
    case Op::iota: return {hlo::iota(e, node)};
    case Op::dimension: {
      const Literal size = Literal::scalar(node.as<ir::DimensionAttrs>().dim.value());
      return {convert(e, hlo::constant(e, size), node.types[0].dtype)};
    }
    case Op::random_bits: return {random_bits(e, node, x[0])};

    case Op::reshape:
    case Op::transpose:
    case Op::broadcast:
    case Op::slice:
    case Op::pad:
    case Op::concat:
    case Op::reverse: return {movement(e, node, x)};
    case Op::gather: return {gather(e, node, x[0], x[1])};
    case Op::scatter: return {scatter(e, node, x)};
    case Op::dynamic_slice: return {dynamic_slice(e, node, x)};
    case Op::dynamic_update_slice: return {dynamic_update_slice(e, x)};

    case Op::reduce:
      return {hlo::reduce(e, x[0], node.as<ir::ReduceAttrs>().kind, node.as<ir::ReduceAttrs>().axes)};
    case Op::arg_reduce: return {arg_reduce(e, node, x[0])};
    case Op::reduce_window: return {reduce_window(e, node, x[0])};
    case Op::cumulative: return {cumulative(e, node, x[0])};
    case Op::sort: return sort(e, x, node.as<ir::SortAttrs>().axis, node.as<ir::SortAttrs>().descending);
    case Op::top_k: return top_k(e, node, x[0]);

    case Op::dot_general: return {dot_general(e, node, x[0], x[1])};
    case Op::convolution: return {convolution(e, node, x[0], x[1])};
    case Op::cholesky: return {cholesky(e, node, x[0])};
    case Op::triangular_solve: return {triangular_solve(e, node, x[0], x[1])};

    case Op::scan: return scan(e, node, x);
    case Op::while_loop: return while_loop(e, node, x);
    case Op::cond: return cond(e, node, x);
    case Op::composite: return e.graph(*node.graphs[0], x);

    case Op::all_reduce:
    case Op::all_gather:
    case Op::reduce_scatter:
    case Op::all_to_all:
    case Op::collective_permute:
    case Op::device_index: return {collective(e, node, x, mesh.value())};

    case Op::barrier: return e.op_with_regions("optimization_barrier", x, node.types, {}, {});
    case Op::kernel_call: return kernel(e, node, x);
  }
  throw Error(ErrorKind::kInternal, std::string(ir::name(node.op)), "has no StableHLO");
}

}  // namespace hlo

DeviceCounts device_counts(const ir::Graph& graph) {
  if (!graph.mesh()) return {};
  const std::int64_t devices = graph.mesh()->size();
  return eval::uses_collectives(graph) ? DeviceCounts{devices, 1} : DeviceCounts{1, devices};
}

std::string stablehlo(const ir::Graph& graph, const StableHloOptions& options) {
  if (!graph.is_static())
    throw Error(ErrorKind::kInvalidArgument, "stablehlo", "the graph has symbolic sizes; bind them first");
  hlo::Emitter e(options);
  const DeviceCounts counts = device_counts(graph);
  e.line(fmt::format(
      "module @systole attributes {{mhlo.num_partitions = {} : i32, mhlo.num_replicas = {} : i32}} {{",
      counts.partitions, counts.replicas));
  e.indent(1);
  if (counts.partitions > 1 && options.partitioner == Partitioner::shardy)
    e.line(hlo::shardy_mesh_text(*graph.mesh()));

  const auto braced = [](const std::string& attrs) { return attrs.empty() ? attrs : " {" + attrs + "}"; };
  hlo::Values arguments;
  std::string inputs, outputs;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const ir::Node& node = graph.node(graph.inputs()[i]);
    const std::int64_t alias = node.as<ir::InputAttrs>().alias;
    std::string attrs = hlo::sharding_attr(node, 0, graph.mesh(), options.partitioner);
    if (options.donate && alias >= 0)
      attrs += fmt::format("{}tf.aliasing_output = {} : i32", attrs.empty() ? "" : ", ", alias);
    arguments.push_back({fmt::format("%arg{}", i), node.types[0], {}});
    inputs += fmt::format("{}{}: {}{}", i == 0 ? "" : ", ", arguments[i].name, hlo::type_text(node.types[0]),
                          braced(attrs));
  }
  for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
    const ir::ValueId value = graph.outputs()[i].value;
    const std::string attrs = hlo::sharding_attr(
        graph.node(value.node), static_cast<std::size_t>(value.index), graph.mesh(), options.partitioner);
    outputs += fmt::format("{}{}{}", i == 0 ? "" : ", ", hlo::type_text(graph.type(value)), braced(attrs));
  }
  e.line(fmt::format("func.func public @main({}) -> ({}) {{", inputs, outputs));
  e.indent(1);
  const hlo::Values results = e.graph(graph, arguments);
  std::string names, types;
  for (const hlo::Value& v : results) {
    names += (names.empty() ? "" : ", ") + v.name;
    types += (types.empty() ? "" : ", ") + hlo::type_text(v.type);
  }
  e.line(fmt::format("\"func.return\"({}) : ({}) -> ()", names, types));
  e.indent(-1);
  e.line("}");
  e.indent(-1);
  e.line("}");
  return e.take_text();
}

}  // namespace systole::codegen
