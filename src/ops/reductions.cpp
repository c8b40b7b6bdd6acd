// Builders of reductions, sorts and running sums.

#include <utility>

#include "ops/common.h"
#include "systole/base/error.h"

namespace systole::ops {

using ir::Op;

Value reduce(Value x, Combine kind, Ints axes, bool keep) {
  Graph& graph = graph_of("reduce", {x});
  axes = sorted_axes(std::move(axes), x.rank(), "reduce");
  const Value reduced = graph.add(Op::reduce, {x}, ir::ReduceAttrs{kind, axes});
  if (!keep) return reduced;
  // A broadcast, since a reshape counts elements, and (N+1)*T has no form as a dimension.
  Shape shape = x.shape();
  for (const std::int64_t axis : axes) shape[static_cast<std::size_t>(axis)] = 1;
  return spread(reduced, shape, axes);
}

Value sum(Value x, Ints axes, bool keep) { return reduce(x, Combine::sum, std::move(axes), keep); }

Value mean(Value x, Ints axes, bool keep) {
  Graph& graph = graph_of("mean", {x});
  if (!is_float(x.dtype()))
    throw Error(ErrorKind::kDType, "mean", "an integer mean needs a choice of dtype; convert first",
                "a float dtype", x.type().to_string());
  axes = sorted_axes(std::move(axes), x.rank(), "mean");
  // A sum of small floats overflows long before their mean does.
  const Value total = sum(widen(x), axes, keep);
  return convert(div(total, element_count(graph, x.shape(), axes, total.dtype())), x.dtype());
}

Value arg_reduce(Value x, Combine kind, std::int64_t axis, DType dtype) {
  Graph& graph = graph_of("arg_reduce", {x});
  return graph.add(Op::arg_reduce, {x},
                   ir::ArgReduceAttrs{kind, normalize_axis(axis, x.rank(), "arg_reduce"), dtype});
}

Value reduce_window(Value x, ir::WindowAttrs attrs) {
  Graph& graph = graph_of("reduce_window", {x});
  const std::size_t rank = x.shape().size();
  for (Ints* ones : {&attrs.strides, &attrs.base_dilation, &attrs.window_dilation})
    *ones = filled(*ones, rank, 1);
  for (Ints* zeros : {&attrs.pad_low, &attrs.pad_high}) *zeros = filled(*zeros, rank, 0);
  return graph.add(Op::reduce_window, {x}, std::move(attrs));
}

Value cumulative(Value x, Combine kind, std::int64_t axis, bool reverse) {
  Graph& graph = graph_of("cumulative", {x});
  return graph.add(Op::cumulative, {x},
                   ir::CumulativeAttrs{kind, normalize_axis(axis, x.rank(), "cumulative"), reverse});
}

Values sort(ValueList xs, std::int64_t axis, bool descending) {
  Graph& graph = graph_of("sort", xs);
  return graph.add_multi(Op::sort, xs, ir::SortAttrs{normalize_axis(axis, xs[0].rank(), "sort"), descending});
}

Value sort(Value x, std::int64_t axis, bool descending) { return sort(ValueList(x), axis, descending)[0]; }

std::pair<Value, Value> top_k(Value x, std::int64_t k) {
  Graph& graph = graph_of("top_k", {x});
  const Values results = graph.add_multi(Op::top_k, x, ir::TopKAttrs{k});
  return {results[0], results[1]};
}

}  // namespace systole::ops
