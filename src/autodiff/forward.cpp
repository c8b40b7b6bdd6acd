// Forward mode: the graph with the tangent of every active value beside it. A primitive's tangents come from
// its reverse rule: the vjp is linear in its cotangents, and the vjp of that is the jvp. Loops and branches
// carry the tangents of their bodies along, so a while_loop, whose rounds nobody counts, has them too.

#include <algorithm>
#include <array>
#include <utility>

#include "autodiff/activity.h"
#include "autodiff/copier.h"
#include "autodiff/rules.h"
#include "systole/autodiff.h"
#include "systole/ir/composite.h"
#include "systole/ir/rewriter.h"

namespace systole::autodiff {

namespace {

// The results of a node and their tangents; nothing means zero.
struct Dual {
  Values values;
  ir::MaybeValues tangents;
};

struct Call {
  const Node& node;
  Graph& graph;
  const Values& operands;
  const ir::MaybeValues& tangents;  // of the operands
  const Flags& active;              // results
  Flags needed() const {
    Flags out;
    for (const auto& t : tangents) out.push_back(t.has_value());
    return out;
  }
};

// Where the tangent of output i stands among the outputs of a graph's jvp.
std::size_t tangent_position(const Graph& graph, std::size_t i) {
  std::size_t at = graph.outputs().size();
  for (std::size_t k = 0; k < i; ++k) at += is_float(graph.output_type(k).dtype);
  return at;
}

Dual primitive(const Call& c) {
  Graph alone(std::string(name(c.node.op)));
  if (c.graph.mesh()) alone.set_mesh(*c.graph.mesh());
  Values inputs;
  for (const Value& v : c.operands) inputs.push_back(alone.input({}, v.type()));
  for (const Value& v : ir::copy_node(alone, c.node, inputs, c.node.graphs)) alone.output(v);
  const std::vector<int> wrt = positions(c.needed());
  const Graph reverse = vjp(alone, wrt);
  std::vector<int> seeds;
  for (std::size_t i = c.operands.size(); i < reverse.inputs().size(); ++i)
    seeds.push_back(static_cast<int>(i));
  const Graph twice = vjp(reverse, seeds);

  // The inputs are the operands, the seeds, cotangents of the values and, last, those of the gradients.
  Copier copy(twice, c.graph);
  for (std::size_t i = 0; i < c.operands.size(); ++i) copy.set({twice.inputs()[i], 0}, c.operands[i]);
  const std::size_t first = twice.inputs().size() - wrt.size();
  for (std::size_t i = 0; i < wrt.size(); ++i)
    copy.set({twice.inputs()[first + i], 0}, *c.tangents[static_cast<std::size_t>(wrt[i])]);
  Dual out{{}, ir::MaybeValues(c.active.size())};
  for (std::size_t i = 0; i < c.active.size(); ++i) out.values.push_back(copy.get(twice.outputs()[i].value));
  std::size_t next = reverse.outputs().size();
  for (std::size_t i = 0; i < c.active.size(); ++i) {
    if (c.active[i]) out.tangents[i] = copy.get(twice.outputs()[next].value);
    next += is_float(c.node.types[i].dtype);
  }
  return out;
}

// The results of a node whose sub-graphs return them all, then the tangents of the active ones.
Dual taken_apart(const Values& all, const Flags& active) {
  const auto tangents = all.begin() + static_cast<std::ptrdiff_t>(active.size());
  Dual out{Values(all.begin(), tangents), ir::MaybeValues(active.size())};
  std::size_t next = active.size();
  for (std::size_t i = 0; i < active.size(); ++i)
    if (active[i]) out.tangents[i] = all[next++];
  return out;
}

// The branches of cond, or the body of remat, from operand `first` on.
Dual branches(const Call& c, std::size_t first) {
  const Flags needed = c.needed();
  const std::vector<int> wrt =
      positions(Flags(needed.begin() + static_cast<std::ptrdiff_t>(first), needed.end()));
  Values inner(c.operands.begin() + static_cast<std::ptrdiff_t>(first), c.operands.end());
  for (int i : wrt) inner.push_back(*c.tangents[first + static_cast<std::size_t>(i)]);
  std::vector<ir::GraphRef> graphs;
  for (const ir::GraphRef& g : c.node.graphs)
    graphs.push_back(derived_graph(*g, "_forward", inner, [&](const Values& inputs) {
      const Values results = ir::inline_graph(inputs[0].graph(), jvp(*g, wrt), inputs);
      Values out(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(c.active.size()));
      for (std::size_t i = 0; i < c.active.size(); ++i)
        if (c.active[i]) out.push_back(results[tangent_position(*g, i)]);
      return out;
    }));
  Values operands(c.operands.begin(), c.operands.begin() + static_cast<std::ptrdiff_t>(first));
  operands.insert(operands.end(), inner.begin(), inner.end());
  return taken_apart(c.graph.add_multi(c.node.op, operands, c.node.attrs, std::move(graphs)), c.active);
}

// A loop's operands come in groups (carries, xs, constants); the tangents of the active ones join the end of
// their group, and so do the results'.
class Loop {
 public:
  Loop(const Call& c, const Graph& body, std::size_t carries, std::size_t xs)
      : call_(c),
        body_(body),
        carries_(carries),
        xs_(xs),
        active_(loop_activity(body, c.needed(), carries).inputs) {
    ends_ = {carries, carries + xs, c.operands.size()};
  }

  Values operands() const {
    return grouped<Value>([&](std::size_t i) { return call_.operands[i]; },
                          [&](std::size_t i) {
                            return call_.tangents[i] ? *call_.tangents[i]
                                                     : zeros(call_.graph, call_.operands[i].type());
                          });
  }
  std::int64_t count(std::size_t first, std::size_t last) const {
    return static_cast<std::int64_t>(
        last - first + static_cast<std::size_t>(std::count(at(active_, first), at(active_, last), true)));
  }
  std::int64_t carries() const { return count(0, carries_); }
  std::int64_t xs() const { return count(carries_, carries_ + xs_); }

  // `from`, the body or the condition, on the doubled inputs; `build` gets the inputs, then the tangents of
  // the active ones.
  template <class F>
  ir::GraphRef graph(const Graph& from, F&& build) const {
    const auto type = [&](std::size_t i) { return body_.input_type(i); };
    return derived_graph(from, "_forward", grouped<Type>(type, type), [&](const Values& inputs) {
      Values values(active_.size()), tangents(active_.size());
      std::size_t next = 0;
      each_group([&](std::size_t first, std::size_t last) {
        for (std::size_t i = first; i < last; ++i) values[i] = inputs[next++];
        for (std::size_t i = first; i < last; ++i)
          if (active_[i]) tangents[i] = inputs[next++];
      });
      return build(values, tangents);
    });
  }

  ir::GraphRef body() const {
    const Graph derivative = jvp(body_, positions(active_));
    return graph(body_, [&](Values arguments, const Values& tangents) {
      for (std::size_t i = 0; i < active_.size(); ++i)
        if (active_[i]) arguments.push_back(tangents[i]);
      const Values all = ir::inline_graph(arguments[0].graph(), derivative, arguments);
      Values out;
      for (const auto& [first, last] :
           {std::pair(std::size_t{0}, carries_), std::pair(carries_, call_.active.size())}) {
        for (std::size_t i = first; i < last; ++i) out.push_back(all[i]);
        for (std::size_t i = first; i < last; ++i)
          if (call_.active[i]) out.push_back(all[tangent_position(body_, i)]);
      }
      return out;
    });
  }

  Dual results(const Values& all) const {
    Dual out{Values(call_.active.size()), ir::MaybeValues(call_.active.size())};
    std::size_t next = 0;
    for (const auto& [first, last] :
         {std::pair(std::size_t{0}, carries_), std::pair(carries_, call_.active.size())}) {
      for (std::size_t i = first; i < last; ++i) out.values[i] = all[next++];
      for (std::size_t i = first; i < last; ++i)
        if (call_.active[i]) out.tangents[i] = all[next++];
    }
    return out;
  }

 private:
  static Flags::const_iterator at(const Flags& flags, std::size_t i) {
    return flags.begin() + static_cast<std::ptrdiff_t>(i);
  }
  template <class F>
  void each_group(F&& f) const {
    std::size_t first = 0;
    for (std::size_t last : ends_) {
      f(first, last);
      first = last;
    }
  }
  template <class T, class F, class G>
  std::vector<T> grouped(F&& value, G&& tangent) const {
    std::vector<T> out;
    each_group([&](std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i) out.push_back(value(i));
      for (std::size_t i = first; i < last; ++i)
        if (active_[i]) out.push_back(tangent(i));
    });
    return out;
  }

  const Call& call_;
  const Graph& body_;
  std::size_t carries_, xs_;
  Flags active_;  // inputs of the body
  std::array<std::size_t, 3> ends_;
};

Dual scan(const Call& c) {
  ir::ScanAttrs attrs = c.node.as<ir::ScanAttrs>();
  const Loop loop(c, *c.node.graphs[0], static_cast<std::size_t>(attrs.carries),
                  static_cast<std::size_t>(attrs.xs));
  attrs.carries = loop.carries();
  attrs.xs = loop.xs();
  return loop.results(c.graph.add_multi(Op::scan, loop.operands(), attrs, {loop.body()}));
}

Dual while_loop(const Call& c) {
  const Loop loop(c, *c.node.graphs[1], static_cast<std::size_t>(c.node.as<ir::WhileAttrs>().carries), 0);
  const Graph& condition = *c.node.graphs[0];
  const ir::GraphRef test = loop.graph(condition, [&](const Values& inputs, const Values&) {
    return ir::inline_graph(inputs[0].graph(), condition, inputs);
  });
  return loop.results(c.graph.add_multi(Op::while_loop, loop.operands(), ir::WhileAttrs{loop.carries()},
                                        {test, loop.body()}));
}

Dual differentiate(const Call& c) {
  if (c.node.op == Op::scan) return scan(c);
  if (c.node.op == Op::while_loop) return while_loop(c);
  if (c.node.op == Op::cond) return branches(c, 1);
  if (is_remat(c.node)) return branches(c, 0);
  return primitive(c);
}

}  // namespace

Graph jvp(const Graph& graph, const std::vector<int>& wrt) {
  const Flags inputs = checked_inputs(graph, wrt);
  const Graph old = opened(graph, inputs);
  const std::vector<Flags> active = active_values(old, inputs);
  Graph out(graph.name());
  if (graph.mesh()) out.set_mesh(*graph.mesh());
  std::vector<Dual> done(static_cast<std::size_t>(old.size()));
  for (std::size_t i = 0; i < inputs.size(); ++i)
    done[static_cast<std::size_t>(old.inputs()[i])] = {{out.input(old.input_name(i), old.input_type(i))},
                                                       ir::MaybeValues(1)};
  for (int i : wrt) {
    const auto input = static_cast<std::size_t>(i);
    const Value given = out.input({}, old.input_type(input));
    std::optional<Value>& tangent = done[static_cast<std::size_t>(old.inputs()[input])].tangents[0];
    tangent = tangent ? ops::add(*tangent, given) : given;
  }
  for (std::int32_t i = 0; i < old.size(); ++i) {
    const Node& node = old.node(i);
    if (node.op == Op::input) continue;
    Values operands;
    ir::MaybeValues tangents;
    for (ir::ValueId v : node.operands) {
      operands.push_back(done[static_cast<std::size_t>(v.node)].values[static_cast<std::size_t>(v.index)]);
      tangents.push_back(done[static_cast<std::size_t>(v.node)].tangents[static_cast<std::size_t>(v.index)]);
    }
    const Flags& flags = active[static_cast<std::size_t>(i)];
    done[static_cast<std::size_t>(i)] =
        std::find(flags.begin(), flags.end(), true) == flags.end()
            ? Dual{ir::copy_node(out, node, operands, node.graphs), ir::MaybeValues(flags.size())}
            : differentiate({node, out, operands, tangents, flags});
  }
  for (const ir::Output& o : old.outputs())
    out.output(done[static_cast<std::size_t>(o.value.node)].values[static_cast<std::size_t>(o.value.index)],
               o.name);
  for (const ir::Output& o : old.outputs()) {
    const Type& type = old.type(o.value);
    if (!is_float(type.dtype)) continue;
    const auto& tangent =
        done[static_cast<std::size_t>(o.value.node)].tangents[static_cast<std::size_t>(o.value.index)];
    out.output(tangent ? *tangent : zeros(out, type));
  }
  return out;
}

}  // namespace systole::autodiff
