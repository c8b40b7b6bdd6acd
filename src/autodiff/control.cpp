// Reverse mode of scan and cond. A scan's body is differentiated as a graph; the values of its forward half
// that the backward half reads (the residuals) become stacked results of the forward loop, and the backward
// loop runs the other way over them. With `remat` only the carries are kept and the body runs again. cond
// runs its branch again.

#include <algorithm>

#include "autodiff/activity.h"
#include "autodiff/copier.h"
#include "autodiff/rules.h"
#include "systole/autodiff.h"
#include "systole/ir/composite.h"
#include "systole/ir/rewriter.h"

namespace systole::autodiff {

namespace {

// Everything about a scan that both directions need.
struct Loop {
  const ir::ScanAttrs& attrs;
  const Graph& body;
  std::size_t carries, xs, inputs;
  Flags active;          // inputs of the body
  std::vector<int> wrt;  // their positions
  std::vector<int> float_outputs;

  Loop(const Node& node, const Flags& needed)
      : attrs(node.as<ir::ScanAttrs>()),
        body(*node.graphs[0]),
        carries(static_cast<std::size_t>(attrs.carries)),
        xs(static_cast<std::size_t>(attrs.xs)),
        inputs(body.inputs().size()),
        active(loop_activity(body, needed, carries).inputs),
        wrt(positions(active)) {
    for (std::size_t i = 0; i < body.outputs().size(); ++i)
      if (is_float(body.output_type(i).dtype)) float_outputs.push_back(static_cast<int>(i));
  }
  bool is_carry(std::size_t i) const { return i < carries; }
  bool is_x(std::size_t i) const { return i >= carries && i < carries + xs; }
};

// The values of the body's vjp that its backward half, the nodes that depend on a cotangent, reads from the
// rest.
std::vector<ir::ValueId> residuals_of(const Loop& loop, const Graph& g) {
  std::vector<ir::ValueId> residuals;
  std::vector<bool> backward(static_cast<std::size_t>(g.size())),
      is_carry(static_cast<std::size_t>(g.size()));
  for (std::size_t i = 0; i < g.inputs().size(); ++i) {
    const auto node = static_cast<std::size_t>(g.inputs()[i]);
    backward[node] = i >= loop.inputs;
    is_carry[node] = loop.is_carry(i);
  }
  // What the backward loop is given anyway, or makes again for nothing, is not worth keeping.
  const auto given = [&](ir::ValueId v) {
    const Node& node = g.node(v.node);
    if (node.op == Op::input) return !is_carry[static_cast<std::size_t>(v.node)];
    if (node.op == Op::broadcast) return g.node(node.operands[0].node).op == Op::constant;
    return node.op == Op::constant || node.op == Op::iota;
  };
  const auto keep = [&](ir::ValueId v) {
    if (backward[static_cast<std::size_t>(v.node)] || given(v)) return;
    if (std::find(residuals.begin(), residuals.end(), v) == residuals.end()) residuals.push_back(v);
  };
  for (std::int32_t i = 0; i < g.size(); ++i) {
    const auto& operands = g.node(i).operands;
    const auto depends = [&](ir::ValueId v) { return backward[static_cast<std::size_t>(v.node)]; };
    if (!std::any_of(operands.begin(), operands.end(), depends)) continue;
    backward[static_cast<std::size_t>(i)] = true;
    std::for_each(operands.begin(), operands.end(), keep);
  }
  // A gradient may depend on no cotangent.
  for (std::size_t i = loop.body.outputs().size(); i < g.outputs().size(); ++i) keep(g.outputs()[i].value);
  return residuals;
}

Augmented augment_scan(const Node& node, Graph& graph, const Values& operands, const Flags& needed) {
  const Loop loop(node, needed);
  auto body = std::make_shared<Graph>(loop.body.name() + "_forward");
  if (loop.body.mesh()) body->set_mesh(*loop.body.mesh());
  Values inputs;
  for (std::size_t i = 0; i < loop.inputs; ++i) inputs.push_back(body->input({}, loop.body.input_type(i)));
  Augmented out;
  out.body_vjp = std::make_shared<const Graph>(vjp(loop.body, loop.wrt));
  const Graph& derivative = *out.body_vjp;
  std::size_t kept = loop.carries;
  if (loop.attrs.remat) {
    for (const Value& v : ir::inline_graph(*body, loop.body, inputs)) body->output(v);
    for (std::size_t i = 0; i < loop.carries; ++i) body->output(inputs[i]);
  } else {
    out.residual_values = residuals_of(loop, derivative);
    Copier copy(derivative, *body);
    for (std::size_t i = 0; i < loop.inputs; ++i) copy.set({derivative.inputs()[i], 0}, inputs[i]);
    for (std::size_t i = 0; i < loop.body.outputs().size(); ++i)
      body->output(copy.get(derivative.outputs()[i].value));
    for (ir::ValueId v : out.residual_values) body->output(copy.get(v));
    kept = out.residual_values.size();
  }
  const Values all = graph.add_multi(Op::scan, operands, loop.attrs, {body});
  out.results.assign(all.begin(), all.end() - static_cast<std::ptrdiff_t>(kept));
  out.residuals.assign(all.end() - static_cast<std::ptrdiff_t>(kept), all.end());
  return out;
}

Cotangents scan_rule(const Adjoint& a, const Augmented& forward) {
  const Loop loop(a.node, a.needed);
  const Graph& v = *forward.body_vjp;
  const auto element = [&](Value stacked) {
    return Type{stacked.dtype(),
                Shape(std::span<const Dim>(stacked.shape().begin() + 1, stacked.shape().end()))};
  };

  // The backward body: carries are the cotangents of the active carries and the sums for the active
  // constants; xs are the cotangents of the stacked results, the residuals and the forward xs; constants are
  // the forward ones.
  auto body = std::make_shared<Graph>(loop.body.name() + "_backward");
  if (loop.body.mesh()) body->set_mesh(*loop.body.mesh());
  Values carries, xs, constants;  // of the backward scan
  std::vector<Value> carry_cotangent(loop.carries), constant_sum(loop.inputs),
      result_cotangent(loop.body.outputs().size()), residual, given(loop.inputs);
  for (std::size_t i = 0; i < loop.carries; ++i)
    if (loop.active[i]) {
      carry_cotangent[i] = body->input({}, loop.body.input_type(i));
      carries.push_back(a.dy(i));
    }
  for (std::size_t i = loop.carries + loop.xs; i < loop.inputs; ++i)
    if (loop.active[i]) {
      constant_sum[i] = body->input({}, loop.body.input_type(i));
      carries.push_back(zeros(a.graph, loop.body.input_type(i)));
    }
  for (int i : loop.float_outputs)
    if (static_cast<std::size_t>(i) >= loop.carries) {
      result_cotangent[static_cast<std::size_t>(i)] =
          body->input({}, loop.body.output_type(static_cast<std::size_t>(i)));
      xs.push_back(a.dy(static_cast<std::size_t>(i)));
    }
  for (const Value& r : forward.residuals) {
    residual.push_back(body->input({}, element(r)));
    xs.push_back(r);
  }
  for (std::size_t i = loop.carries; i < loop.carries + loop.xs; ++i) {
    given[i] = body->input({}, loop.body.input_type(i));
    xs.push_back(a.x[i]);
  }
  for (std::size_t i = loop.carries + loop.xs; i < loop.inputs; ++i) {
    given[i] = body->input({}, loop.body.input_type(i));
    constants.push_back(a.x[i]);
  }

  Copier copy(v, *body);
  for (std::size_t i = loop.carries; i < loop.inputs; ++i) copy.set({v.inputs()[i], 0}, given[i]);
  if (loop.attrs.remat)
    for (std::size_t i = 0; i < loop.carries; ++i) copy.set({v.inputs()[i], 0}, residual[i]);
  else
    for (std::size_t i = 0; i < residual.size(); ++i) copy.set(forward.residual_values[i], residual[i]);
  for (std::size_t i = 0; i < loop.float_outputs.size(); ++i) {
    const auto o = static_cast<std::size_t>(loop.float_outputs[i]);
    const Value cotangent = o >= loop.carries ? result_cotangent[o]
                            : loop.active[o]  ? carry_cotangent[o]
                                              : zeros(*body, loop.body.output_type(o));
    copy.set({v.inputs()[loop.inputs + i], 0}, cotangent);
  }
  std::vector<Value> gradient(loop.inputs);
  for (std::size_t i = 0; i < loop.wrt.size(); ++i)
    gradient[static_cast<std::size_t>(loop.wrt[i])] =
        copy.get(v.outputs()[loop.body.outputs().size() + i].value);
  for (std::size_t i = 0; i < loop.carries; ++i)
    if (loop.active[i]) body->output(gradient[i]);
  for (std::size_t i = loop.carries + loop.xs; i < loop.inputs; ++i)
    if (loop.active[i]) body->output(ops::add(constant_sum[i], gradient[i]));
  for (std::size_t i = loop.carries; i < loop.carries + loop.xs; ++i)
    if (loop.active[i]) body->output(gradient[i]);

  const Values results = ops::scan(body, carries, xs, constants, loop.attrs.length, !loop.attrs.reverse);
  Cotangents out(loop.inputs);
  std::size_t next = 0;
  for (std::size_t i = 0; i < loop.carries; ++i)
    if (loop.active[i]) out[i] = results[next++];
  for (std::size_t i = loop.carries + loop.xs; i < loop.inputs; ++i)
    if (loop.active[i]) out[i] = results[next++];
  for (std::size_t i = loop.carries; i < loop.carries + loop.xs; ++i)
    if (loop.active[i]) out[i] = results[next++];
  return out;
}

// The branches' vjps, each with the gradients alone as results.
Cotangents cond_rule(const Adjoint& a) {
  const Flags inner(a.needed.begin() + 1, a.needed.end());
  const std::vector<int> wrt = positions(inner);
  Values operands(a.x.begin() + 1, a.x.end());
  const std::size_t count = operands.size();
  for (std::size_t i = 0; i < a.y.size(); ++i)
    if (is_float(a.y[i].dtype())) operands.push_back(a.dy(i));
  const auto branch = [&](const Graph& g) {
    return derived_graph(g, "_backward", operands, [&](const Values& inputs) {
      const Values results = ir::inline_graph(inputs[0].graph(), vjp(g, wrt), inputs);
      return Values(results.begin() + static_cast<std::ptrdiff_t>(g.outputs().size()), results.end());
    });
  };
  const Values gradients = ops::cond(a.x[0], branch(*a.node.graphs[0]), branch(*a.node.graphs[1]), operands);
  Cotangents out(count + 1);
  for (std::size_t i = 0; i < wrt.size(); ++i) out[static_cast<std::size_t>(wrt[i]) + 1] = gradients[i];
  return out;
}

}  // namespace

bool is_augmented(const Node& node) { return node.op == Op::scan; }

Augmented augment(const Node& node, Graph& graph, const Values& operands, const Flags& needed) {
  return augment_scan(node, graph, operands, needed);
}

Cotangents control_rule(const Adjoint& a, const Augmented& forward) {
  switch (a.node.op) {
    case Op::scan: return scan_rule(a, forward);
    case Op::cond: return cond_rule(a);
    case Op::while_loop:
      a.refuse(
          "reverse mode needs every round's values, and their number is not known: use scan with a length, "
          "or jvp");
    default: a.refuse("it is no control flow");
  }
}

}  // namespace systole::autodiff
