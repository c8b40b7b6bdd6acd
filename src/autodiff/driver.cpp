// The one driver of reverse mode: copies the graph forward, then walks it backward, asking each op's rule for
// the operands' cotangents and adding up what arrives. A composite or kernel that has no rule of its own is
// opened where a derivative passes through it.

#include <fmt/format.h>
#include <algorithm>

#include "autodiff/activity.h"
#include "autodiff/rules.h"
#include "systole/autodiff.h"
#include "systole/ir/composite.h"
#include "systole/ir/rewriter.h"

namespace systole::autodiff {

namespace {

class Driver {
 public:
  Driver(const Graph& graph, const std::vector<int>& wrt)
      : inputs_(checked_inputs(graph, wrt)), old_(opened(graph, inputs_)), new_(graph.name()), wrt_(wrt) {
    if (graph.mesh()) new_.set_mesh(*graph.mesh());
    active_ = active_values(old_, inputs_);
  }

  Graph run() {
    forward();
    backward();
    for (std::size_t i = 0; i < old_.outputs().size(); ++i)
      new_.output(mapped(old_.outputs()[i].value), old_.outputs()[i].name);
    for (int i : wrt_) {
      const ir::ValueId v{old_.inputs()[static_cast<std::size_t>(i)], 0};
      const std::optional<Value>& cotangent = cotangents_[static_cast<std::size_t>(v.node)][0];
      new_.output(cotangent ? *cotangent : zeros(new_, old_.type(v)));
    }
    return std::move(new_);
  }

 private:
  Value mapped(ir::ValueId v) const {
    return values_[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.index)];
  }
  bool active(ir::ValueId v) const {
    return active_[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.index)];
  }
  Flags needed(const Node& node) const {
    Flags out;
    for (ir::ValueId v : node.operands) out.push_back(active(v));
    return out;
  }

  void forward() {
    const auto size = static_cast<std::size_t>(old_.size());
    values_.resize(size);
    augmented_.resize(size);
    for (std::size_t i = 0; i < old_.inputs().size(); ++i) {
      const Node& node = old_.node(old_.inputs()[i]);
      values_[static_cast<std::size_t>(old_.inputs()[i])] = {
          new_.input(node.as<ir::InputAttrs>().name, node.types[0])};
    }
    for (std::size_t i = 0; i < old_.outputs().size(); ++i)
      if (is_float(old_.output_type(i).dtype)) seeds_.emplace_back(i, new_.input({}, old_.output_type(i)));
    for (std::int32_t i = 0; i < old_.size(); ++i) {
      const Node& node = old_.node(i);
      if (node.op == Op::input) continue;
      Values operands;
      for (ir::ValueId v : node.operands) operands.push_back(mapped(v));
      Values& results = values_[static_cast<std::size_t>(i)];
      const Flags& flags = active_[static_cast<std::size_t>(i)];
      if (is_augmented(node) && std::find(flags.begin(), flags.end(), true) != flags.end()) {
        Augmented& a = augmented_[static_cast<std::size_t>(i)];
        a = augment(node, new_, operands, needed(node));
        results = a.results;
      } else {
        results = ir::copy_node(new_, node, operands, node.graphs);
      }
    }
  }

  void accumulate(ir::ValueId v, Value cotangent) {
    if (!active(v)) return;
    std::optional<Value>& slot =
        cotangents_[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.index)];
    if (!(cotangent.type() == old_.type(v)))
      throw Error(ErrorKind::kInternal, std::string(name(old_.node(v.node).op)),
                  "a gradient of the wrong type", old_.type(v).to_string(), cotangent.type().to_string());
    slot = slot ? ops::add(*slot, cotangent) : cotangent;
  }

  void backward() {
    for (const Node& node : old_.nodes()) cotangents_.emplace_back(node.types.size());
    for (const auto& [output, seed] : seeds_) accumulate(old_.outputs()[output].value, seed);
    for (std::int32_t i = old_.size(); i-- > 0;) {
      const Node& node = old_.node(i);
      const Cotangents& arrived = cotangents_[static_cast<std::size_t>(i)];
      if (node.op == Op::input ||
          std::none_of(arrived.begin(), arrived.end(), [](const auto& c) { return c.has_value(); }))
        continue;
      Values operands;
      for (ir::ValueId v : node.operands) operands.push_back(mapped(v));
      const Flags flags = needed(node);
      const Adjoint adjoint{node, new_, operands, values_[static_cast<std::size_t>(i)], arrived, flags};
      const bool control = node.op == Op::scan || node.op == Op::cond || node.op == Op::while_loop;
      const Cotangents given =
          control ? control_rule(adjoint, augmented_[static_cast<std::size_t>(i)]) : pull_back(adjoint);
      for (std::size_t k = 0; k < given.size(); ++k)
        if (given[k]) accumulate(node.operands[k], *given[k]);
    }
  }

  const Flags inputs_;  // asked for
  const Graph old_;
  Graph new_;
  const std::vector<int>& wrt_;
  std::vector<Flags> active_;
  std::vector<Values> values_;  // of the old nodes, in the new graph
  std::vector<Augmented> augmented_;
  std::vector<std::pair<std::size_t, Value>> seeds_;  // output, its cotangent
  std::vector<Cotangents> cotangents_;
};

}  // namespace

Value zeros(Graph& graph, const Type& type) { return ops::full(graph, type, 0); }
Value zeros_like(Value x) { return zeros(x.graph(), x.type()); }
Value where(Value predicate, Value x) { return ops::select(predicate, x, zeros_like(x)); }

Value Adjoint::dy(std::size_t i) const {
  return cotangents[i] ? *cotangents[i] : zeros(graph, node.types[i]);
}

void Adjoint::refuse(std::string why) const {
  throw Error(ErrorKind::kUnsupported, fmt::format("gradient of {}", name(node.op)), std::move(why));
}

Cotangents pull_back(const Adjoint& a) {
  switch (info(a.node.op).op_class) {
    case ir::OpClass::elementwise: return elementwise_rule(a);
    case ir::OpClass::movement: return movement_rule(a);
    case ir::OpClass::reduction: return reduction_rule(a);
    case ir::OpClass::contraction: return contraction_rule(a);
    case ir::OpClass::collective: return collective_rule(a);
    case ir::OpClass::source: return Cotangents(a.x.size());
    case ir::OpClass::opaque:
      if (a.node.op == Op::barrier) {
        Values arrived;
        for (const auto& c : a.cotangents)
          if (c) arrived.push_back(*c);
        const Values passed = ops::barrier(arrived);
        Cotangents out(a.x.size());
        for (std::size_t i = 0, next = 0; i < out.size(); ++i)
          if (a.cotangents[i]) out[i] = passed[next++];
        return out;
      }
      throw Error(ErrorKind::kUnsupported,
                  fmt::format("gradient of kernel_call {}", a.node.as<ir::KernelAttrs>().name),
                  "a kernel has no gradient of its own", "a KernelOp with .backward or .fallback");
    case ir::OpClass::control:
      if (a.node.op == Op::composite) return composite_rule(a);
  }
  a.refuse("control flow is differentiated by the driver");
}

Flags checked_inputs(const Graph& graph, const std::vector<int>& wrt) {
  Flags inputs(graph.inputs().size());
  for (int i : wrt) {
    const auto input = static_cast<std::size_t>(i);
    if (i < 0 || input >= inputs.size())
      throw Error(ErrorKind::kInvalidArgument, "gradient", "no such input",
                  fmt::format("0 to {}", static_cast<int>(inputs.size()) - 1), std::to_string(i));
    const Type& type = graph.input_type(input);
    if (!is_float(type.dtype))
      throw Error(ErrorKind::kDType, fmt::format("gradient by input {} \"{}\"", i, graph.input_name(input)),
                  "only floats have gradients", "a float", type.to_string());
    inputs[input] = true;
  }
  return inputs;
}

Graph vjp(const Graph& graph, const std::vector<int>& wrt) { return Driver(graph, wrt).run(); }

Graph value_and_grad(const Graph& graph, const std::vector<int>& wrt) {
  if (graph.outputs().size() != 1 || graph.output_type(0).shape.rank() != 0 ||
      !is_float(graph.output_type(0).dtype))
    throw Error(ErrorKind::kShape, "gradient of graph @" + graph.name(), "the graph must return one number",
                "one float scalar", graph.outputs().empty() ? "nothing" : graph.output_type(0).to_string());
  const Graph v = vjp(graph, wrt);
  Graph out(graph.name());
  if (graph.mesh()) out.set_mesh(*graph.mesh());
  Values arguments;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i)
    arguments.push_back(out.input(graph.input_name(i), graph.input_type(i)));
  arguments.push_back(ops::full(out, graph.output_type(0), 1));
  const Values results = ir::inline_graph(out, v, arguments);
  for (std::size_t i = 0; i < results.size(); ++i) out.output(results[i], v.outputs()[i].name);
  return out;
}

}  // namespace systole::autodiff
