// Rules of control flow and of kernels. A loop's body is mapped; a while_loop whose examples stop at
// different times runs until all have stopped and keeps what a stopped one had; a cond whose examples differ
// runs both branches.

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "autodiff/batch/batch.h"
#include "systole/ir/composite.h"

namespace systole::autodiff::batch {

namespace {

Value swap_leading(Value x) { return move_axis(x, 1, 0); }

// a where the example's predicate, bool[size], holds; else b.
Value choose(const Mapped& m, Value predicate, Value a, Value b) {
  const Shape example(std::span<const Dim>(a.shape().begin() + 1, a.shape().end()));
  return ops::select(m.spread(predicate, true, example), a, b);
}

}  // namespace

Values map_scan(const Mapped& m) {
  const auto& a = m.as<ir::ScanAttrs>();
  const auto carries = static_cast<std::size_t>(a.carries),
             constants = carries + static_cast<std::size_t>(a.xs);
  const Flags in = m.mapper.loop_inputs(*m.node.graphs[0], m.batched, carries);
  Values operands;
  for (std::size_t i = 0; i < m.x.size(); ++i) {
    const bool cut = i >= carries && i < constants;
    operands.push_back(!in[i] ? m.x[i] : cut ? swap_leading(m.x[i]) : m.spread(i));
  }
  Values results =
      m.graph.add_multi(Op::scan, operands, a, {m.mapper.subgraph(m.node.graphs[0], in, m.results)});
  for (std::size_t i = carries; i < results.size(); ++i)
    if (m.results[i]) results[i] = swap_leading(results[i]);
  return results;
}

Values map_while_loop(const Mapped& m) {
  const Mapper::While flow = m.mapper.while_inputs(m.node, m.batched);
  const GraphRef condition = m.mapper.subgraph(m.node.graphs[0], flow.inputs, {flow.predicate});
  const GraphRef body = m.mapper.subgraph(m.node.graphs[1], flow.inputs, m.results);
  const auto carries = m.as<ir::WhileAttrs>().carries;
  Values operands;
  for (std::size_t i = 0; i < m.x.size(); ++i) operands.push_back(flow.inputs[i] ? m.spread(i) : m.x[i]);
  if (!flow.predicate) return m.graph.add_multi(Op::while_loop, operands, m.node.attrs, {condition, body});

  // One more carry, first: which examples still run.
  operands.insert(operands.begin(), ir::inline_graph(m.graph, *condition, operands)[0]);
  std::vector<Type> types;
  for (const Value& v : operands) types.push_back(v.type());
  const GraphRef any_runs = ir::make_graph("any_runs", types, [](const Values& in) -> Values {
    return {ops::reduce(in[0], ir::Combine::bitwise_or, {0})};
  });
  const GraphRef step = ir::make_graph(body->name(), types, [&](const Values& in) -> Values {
    Graph& graph = in[0].graph();
    Values state(in.begin() + 1, in.end());
    const Values next = ir::inline_graph(graph, *body, state);
    for (std::size_t i = 0; i < next.size(); ++i) state[i] = choose(m, in[0], next[i], state[i]);
    Values out{ir::inline_graph(graph, *condition, state)[0]};
    out.insert(out.end(), state.begin(), state.begin() + carries);
    return out;
  });
  Values results = m.graph.add_multi(Op::while_loop, operands, ir::WhileAttrs{carries + 1}, {any_runs, step});
  results.erase(results.begin());
  return results;
}

Values map_cond(const Mapped& m) {
  const Flags in(m.batched.begin() + 1, m.batched.end());
  const GraphRef on_true = m.mapper.subgraph(m.node.graphs[0], in, m.results);
  const GraphRef on_false = m.mapper.subgraph(m.node.graphs[1], in, m.results);
  const Values operands(m.x.begin() + 1, m.x.end());
  if (!m.batched[0]) return ops::cond(m.x[0], on_true, on_false, operands);
  const Values a = ir::inline_graph(m.graph, *on_true, operands);
  const Values b = ir::inline_graph(m.graph, *on_false, operands);
  Values results;
  for (std::size_t i = 0; i < a.size(); ++i) results.push_back(choose(m, m.x[0], a[i], b[i]));
  return results;
}

Values map_kernel_call(const Mapped& m) {
  if (m.node.graphs.empty())
    throw Error(
        ErrorKind::kUnsupported, fmt::format("vmap of kernel_call {}", m.node.as<ir::KernelAttrs>().name),
        "it is written for one example and has no graph that could be mapped", "a KernelOp with a .fallback");
  return ir::inline_graph(m.graph, *m.mapper.subgraph(m.node.graphs[0], m.batched, m.results), m.x);
}

}  // namespace systole::autodiff::batch
