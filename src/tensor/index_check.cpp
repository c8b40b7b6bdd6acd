#include "tensor/index_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <variant>

#include "base/env.h"
#include "systole/base/error.h"
#include "systole/ir/composite.h"
#include "systole/ir/rewriter.h"
#include "systole/ops.h"
#include "tensor/bad_op.h"

namespace systole::recording {

namespace {

using ir::Combine;
using ir::Graph;
using ir::Node;
using ir::Op;
using ir::Value;
using ir::Values;

constexpr std::int64_t kNumbers = 3;  // of a site: count, place, value

struct Instrumented {
  Graph graph;
  std::vector<IndexSite> sites;
  std::optional<ir::ValueId> report;  // i64[sites,3]
};

template <class T>
bool holds(const ir::AttrMap& attrs, std::string_view key) {
  const auto found = attrs.find(key);
  return found != attrs.end() && std::holds_alternative<T>(found->second);
}

// Whether it is what a loss passes its labels through; a graph from a file may use the name for something
// else.
bool are_labels(const Node& node, const Values& operands) {
  const auto& composite = node.as<ir::CompositeAttrs>();
  const ir::AttrMap& attrs = composite.attrs;
  return composite.name == kCheckedLabels && operands.size() == 1 && node.types.size() == 1 &&
         operands[0].type() == node.types[0] && is_integer(node.types[0].dtype) &&
         holds<std::string>(attrs, "loss") && holds<std::int64_t>(attrs, "classes") &&
         (!attrs.contains("ignore_index") || holds<std::int64_t>(attrs, "ignore_index"));
}

std::string with_name(const Type& type, const std::string& name) {
  return type.to_string() + (name.empty() ? "" : fmt::format(" ({})", name));
}

Value zeros(Graph& graph, std::int64_t sites) { return ops::full(graph, {DType::i64, {sites, kNumbers}}, 0); }

// The row of a site: `indices` and the highest that is inside, i64 of one shape. The lowest is 0; `allowed`
// is inside, too.
Value row_of(Value indices, Value highest, std::optional<std::int64_t> allowed = {}) {
  const std::int64_t count = indices.shape().count();
  const Value flat = ops::reshape(indices, {count}), top = ops::reshape(highest, {count});
  Value outside = ops::bitwise_or(ops::less(flat, ops::scalar_like(flat, 0)), ops::greater(flat, top));
  if (allowed) {
    const Value one = ops::broadcast_to(flat.graph().constant(Literal::scalar(*allowed)), {count});
    outside = ops::bitwise_and(outside, ops::not_equal(flat, one));
  }
  const Value number = ops::convert(outside, DType::i32);
  const Value at = ops::arg_reduce(number, Combine::max, 0);  // the first of equals
  const Value places = ops::iota(flat.graph(), {DType::i32, {count}}, 0);
  const Value is_first = ops::equal(places, ops::broadcast_to(at, {count}));
  const Value value =
      ops::sum(ops::select(is_first, flat, ops::full(flat.graph(), {DType::i64, {count}}, 0)), {0});
  Values parts;
  for (const Value& part : {ops::sum(number, {0}), at, value})
    parts.push_back(ops::reshape(ops::convert(part, DType::i64), {1, 1}));
  return ops::concat(parts, 1);
}

// The rows of several rounds, [rounds,sites,3], as one: the sum of the counts, the first round's place.
Value over_rounds(Value rounds) {
  const std::int64_t length = rounds.shape()[0].value(), sites = rounds.shape()[1].value();
  if (length == 0) return zeros(rounds.graph(), sites);
  const auto column = [&](std::int64_t c) {
    return ops::reshape(ops::slice_axis(rounds, 2, c, c + 1), {length, sites});
  };
  const Value counts = column(0);
  const Value is_some = ops::greater(counts, ops::scalar_like(counts, 0));
  const Value first = ops::arg_reduce(ops::convert(is_some, DType::i32), Combine::max, 0);  // [sites]
  const Value mine = ops::equal(ops::iota(rounds.graph(), {DType::i32, {length, sites}}, 0),
                                ops::broadcast_to(first, {length, sites}));
  const Value none = ops::full(rounds.graph(), {DType::i64, {length, sites}}, 0);
  Values parts{ops::sum(counts, {0}), ops::sum(ops::select(mine, column(1), none), {0}),
               ops::sum(ops::select(mine, column(2), none), {0})};
  for (Value& part : parts) part = ops::reshape(part, {sites, 1});
  return ops::concat(parts, 1);
}

class Instrument {
 public:
  Instrument(const Graph& graph, std::vector<std::string> names, std::string composite)
      : old_(graph), composite_(std::move(composite)), graph_(graph.name()), inputs_(std::move(names)) {}

  // Without a report when there is nothing to check; then the graph is of no use.
  Instrumented run(std::size_t position) {
    graph_.set_comments(old_.comments());
    if (old_.mesh()) graph_.set_mesh(*old_.mesh());
    mapped_.resize(static_cast<std::size_t>(old_.size()));
    names_.resize(static_cast<std::size_t>(old_.size()));
    std::size_t input = 0;
    for (std::int32_t i = 0; i < old_.size(); ++i) {
      const Node& node = old_.node(i);
      const auto at = static_cast<std::size_t>(i);
      if (node.op == Op::input) {
        const auto& attrs = node.as<ir::InputAttrs>();
        const Value value = graph_.input(attrs.name, node.types[0], attrs.alias);
        if (!node.shardings.empty() && node.shardings[0]) graph_.set_sharding(value, *node.shardings[0]);
        mapped_[at] = {value};
        if (input < inputs_.size()) names_[at] = inputs_[input];
        ++input;
        continue;
      }
      Values operands;
      std::vector<std::string> names;
      for (const ir::ValueId v : node.operands) {
        operands.push_back(mapped_[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.index)]);
        names.push_back(names_[static_cast<std::size_t>(v.node)]);
        if (names_[at].empty()) names_[at] = names.back();
      }
      mapped_[at] = visit(node, operands, names);
    }
    std::optional<Value> report;
    if (!rows_.empty()) report = rows_.size() == 1 ? rows_[0] : ops::concat(rows_, 0);
    const std::vector<ir::Output>& outputs = old_.outputs();
    for (std::size_t k = 0; k <= outputs.size(); ++k) {
      if (k == position && report) graph_.output(*report);
      if (k == outputs.size()) break;
      const ir::ValueId v = outputs[k].value;
      graph_.output(mapped_[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.index)],
                    outputs[k].name);
    }
    Instrumented done{std::move(graph_), std::move(sites_), {}};
    if (report) done.report = report->id();
    return done;
  }

 private:
  Values visit(const Node& node, const Values& operands, const std::vector<std::string>& names) {
    switch (node.op) {
      case Op::gather: {
        const auto& g = node.as<ir::GatherAttrs>();
        Ints highest;
        for (const std::int64_t axis : g.start_index_map)
          highest.push_back(room(operands[0], axis, g.slice_sizes[static_cast<std::size_t>(axis)]));
        vectors(node, operands, names, 1, g.index_vector_axis, highest);
        break;
      }
      case Op::scatter: {
        const auto& s = node.as<ir::ScatterAttrs>();
        Ints highest;
        for (const std::int64_t axis : s.index_map)
          highest.push_back(room(operands[0], axis, window_size(s, operands, axis)));
        vectors(node, operands, names, 1, s.index_vector_axis, highest);
        break;
      }
      case Op::dynamic_slice:
      case Op::dynamic_update_slice: {
        const std::size_t first = node.op == Op::dynamic_slice ? 1 : 2;
        const Shape& block =
            node.op == Op::dynamic_slice ? node.as<ir::DynamicSliceAttrs>().sizes : operands[1].shape();
        for (std::size_t i = first; i < operands.size(); ++i)
          scalar(node, operands, names, i,
                 room(operands[0], static_cast<std::int64_t>(i - first), block[i - first]));
        break;
      }
      case Op::composite: return composite(node, operands, names);
      case Op::scan: return scan(node, operands, names);
      case Op::while_loop: return while_loop(node, operands, names);
      case Op::cond: return cond(node, operands, names);
      default: break;
    }
    return ir::copy_node(graph_, node, operands, node.graphs);
  }

  static std::int64_t room(const Value& x, std::int64_t axis, Dim size) {
    return x.shape()[static_cast<std::size_t>(axis)].value() - size.value();
  }

  // Of a scatter's window along an axis of x.
  static Dim window_size(const ir::ScatterAttrs& s, const Values& operands, std::int64_t axis) {
    const auto is_in = [](const Ints& list, std::int64_t a) {
      return std::find(list.begin(), list.end(), a) != list.end();
    };
    if (is_in(s.inserted_axes, axis)) return 1;
    std::size_t window = 0;
    for (std::int64_t a = 0; a < axis; ++a)
      window += !is_in(s.inserted_axes, a) && !is_in(s.operand_batch_axes, a);
    return operands[2].shape()[static_cast<std::size_t>(s.update_window_axes[window])];
  }

  void note(const Node& node, const Value& x, const std::string& name, const Value& indices,
            const std::string& index_name, std::string expected) {
    std::string op = composite_;
    if (op.empty())
      op = node.op == Op::composite ? node.as<ir::CompositeAttrs>().name : std::string(ir::name(node.op));
    sites_.push_back({fmt::format("{} of {}", op, with_name(x.type(), name)),
                      with_name(indices.type(), index_name), std::move(expected), indices.shape()});
  }

  // Labels of a loss, which pass through.
  Values labels(const Node& node, const Values& operands, const std::vector<std::string>& names) {
    const ir::AttrMap& attrs = node.as<ir::CompositeAttrs>().attrs;
    const Value& given = operands[0];
    const std::int64_t classes = ir::get_int(attrs, "classes");
    std::optional<std::int64_t> ignored;
    if (attrs.contains("ignore_index")) ignored = ir::get_int(attrs, "ignore_index");
    if (!given.shape().is_static() || given.shape().count() == 0) return operands;
    const Value wide = ops::convert(given, DType::i64);
    const Value top = ops::broadcast_to(graph_.constant(Literal::scalar(classes - 1)), given.shape());
    rows_.push_back(row_of(wide, top, ignored));
    sites_.push_back({fmt::format("{} of {} classes", ir::get_string(attrs, "loss"), classes),
                      with_name(given.type(), names[0]),
                      fmt::format("0 to {}", classes - 1) +
                          (ignored ? fmt::format(" or {}, which is ignored", *ignored) : ""),
                      given.shape()});
    return operands;
  }

  // Operand `which` holds index vectors along an axis, or scalars.
  void vectors(const Node& node, const Values& operands, const std::vector<std::string>& names,
               std::size_t which, std::int64_t axis, const Ints& highest) {
    const Value& indices = operands[which];
    if (!indices.shape().is_static() || indices.shape().count() == 0 || highest.empty()) return;
    const Value wide = ops::convert(indices, DType::i64);
    Value top =
        graph_.constant(Literal::of<std::int64_t>({static_cast<std::int64_t>(highest.size())}, highest));
    if (axis < indices.rank())
      top = ops::broadcast(top, indices.shape(), {axis});
    else
      top = ops::broadcast_to(ops::reshape(top, {}), indices.shape());
    rows_.push_back(row_of(wide, top));
    std::string expected;
    for (const std::int64_t h : highest)
      expected += fmt::format("{}0 to {}", expected.empty() ? "" : ", ", h);
    note(node, operands[0], names[0], indices, names[which], std::move(expected));
  }

  void scalar(const Node& node, const Values& operands, const std::vector<std::string>& names,
              std::size_t which, std::int64_t highest) {
    const Value wide = ops::convert(operands[which], DType::i64);
    rows_.push_back(row_of(wide, graph_.constant(Literal::scalar(highest))));
    note(node, operands[0], names[0], operands[which], names[which],
         fmt::format("0 to {} along axis {}", highest, which - (node.op == Op::dynamic_slice ? 1 : 2)));
  }

  Values composite(const Node& node, const Values& operands, const std::vector<std::string>& names) {
    const std::string& name = node.as<ir::CompositeAttrs>().name;
    if (name == "cross_entropy" && operands.size() == 2 && operands[0].rank() > 0) {
      const Dim classes = operands[0].shape()[operands[0].shape().size() - 1];
      if (classes.is_static() && is_integer(operands[1].type().dtype))
        vectors(node, operands, names, 1, operands[1].rank(), {classes.value() - 1});
    }
    if (are_labels(node, operands)) return labels(node, operands, names);
    if (node.graphs.empty()) return ir::copy_node(graph_, node, operands, node.graphs);
    const std::string outer = composite_.empty() ? name : composite_;
    Instrumented body = Instrument(*node.graphs[0], names, outer).run(node.graphs[0]->outputs().size());
    if (!body.report) return ir::copy_node(graph_, node, operands, node.graphs);
    Values results = ir::inline_graph(graph_, body.graph, operands);
    take_report(results.back(), body);
    results.pop_back();
    return results;
  }

  void take_report(const Value& report, const Instrumented& body) {
    rows_.push_back(report);
    sites_.insert(sites_.end(), body.sites.begin(), body.sites.end());
  }

  Values scan(const Node& node, const Values& operands, const std::vector<std::string>& names) {
    const auto& attrs = node.as<ir::ScanAttrs>();
    Instrumented body = Instrument(*node.graphs[0], names, composite_).run(node.graphs[0]->outputs().size());
    if (!body.report || !attrs.length.is_static()) return ir::copy_node(graph_, node, operands, node.graphs);
    Values results =
        graph_.add_multi(Op::scan, operands, attrs, {std::make_shared<const Graph>(std::move(body.graph))});
    take_report(over_rounds(results.back()), body);
    results.pop_back();
    return results;
  }

  // The report is one more carry. The condition's own indices are not looked at.
  Values while_loop(const Node& node, const Values& operands, const std::vector<std::string>& names) {
    const auto carries = static_cast<std::size_t>(node.as<ir::WhileAttrs>().carries);
    Instrumented body = Instrument(*node.graphs[1], names, composite_).run(node.graphs[1]->outputs().size());
    if (!body.report) return ir::copy_node(graph_, node, operands, node.graphs);
    const auto sites = static_cast<std::int64_t>(body.sites.size());
    const auto at = static_cast<std::ptrdiff_t>(carries);
    std::vector<Type> types;
    for (const Value& x : operands) types.push_back(x.type());
    types.insert(types.begin() + at, Type{DType::i64, {sites, kNumbers}});
    const auto without = [&](Values x) {
      x.erase(x.begin() + at);
      return x;
    };
    const ir::GraphRef condition = ir::make_graph("cond", types, [&](const Values& x) {
      return ir::inline_graph(x[0].graph(), *node.graphs[0], without(x));
    });
    const ir::GraphRef round = ir::make_graph("body", types, [&](const Values& x) {
      Values y = ir::inline_graph(x[0].graph(), body.graph, without(x));
      const Shape one{1, sites, kNumbers};
      y.back() = over_rounds(ops::concat({ops::reshape(x[carries], one), ops::reshape(y.back(), one)}, 0));
      return y;
    });
    Values given = operands;
    given.insert(given.begin() + at, zeros(graph_, sites));
    Values results = graph_.add_multi(
        Op::while_loop, given, ir::WhileAttrs{static_cast<std::int64_t>(carries) + 1}, {condition, round});
    take_report(results.back(), body);
    results.pop_back();
    return results;
  }

  Values cond(const Node& node, const Values& operands, const std::vector<std::string>& names) {
    const std::vector<std::string> given(names.begin() + 1, names.end());
    std::vector<Instrumented> branches;
    for (const ir::GraphRef& graph : node.graphs)
      branches.push_back(Instrument(*graph, given, composite_).run(graph->outputs().size()));
    std::int64_t all = 0;
    for (const Instrumented& branch : branches) all += static_cast<std::int64_t>(branch.sites.size());
    if (all == 0) return ir::copy_node(graph_, node, operands, node.graphs);
    std::vector<Type> types;
    for (std::size_t i = 1; i < operands.size(); ++i) types.push_back(operands[i].type());
    std::vector<ir::GraphRef> graphs;
    for (std::size_t b = 0; b < branches.size(); ++b) {
      auto graph = std::make_shared<Graph>(node.graphs[b]->name());
      Values x;
      for (const Type& type : types) x.push_back(graph->input({}, type));
      Values y = ir::inline_graph(*graph, branches[b].graph, x), rows;
      std::optional<Value> own;
      if (branches[b].report) {
        own = y.back();
        y.pop_back();
      }
      for (std::size_t k = 0; k < branches.size(); ++k)
        if (const auto sites = static_cast<std::int64_t>(branches[k].sites.size()); sites > 0)
          rows.push_back(k == b ? *own : zeros(*graph, sites));
      y.push_back(rows.size() == 1 ? rows[0] : ops::concat(rows, 0));
      for (const Value& value : y) graph->output(value);
      graphs.push_back(std::move(graph));
    }
    Values results = graph_.add_multi(Op::cond, operands, node.attrs, std::move(graphs));
    rows_.push_back(results.back());
    for (const Instrumented& branch : branches)
      sites_.insert(sites_.end(), branch.sites.begin(), branch.sites.end());
    results.pop_back();
    return results;
  }

  const Graph& old_;
  const std::string composite_;  // that this graph is the body of; empty: none
  Graph graph_;
  std::vector<std::string> inputs_, names_;  // of inputs; of nodes: the first input behind them that has one
  std::vector<Values> mapped_;
  Values rows_;  // [sites,3] each
  std::vector<IndexSite> sites_;
};

}  // namespace

bool checks_indices(std::optional<bool> setting) { return setting ? *setting : env::flag("SYSTOLE_CHECK"); }

IndexChecked with_index_counts(const Graph& graph, std::vector<std::string> names, std::size_t position) {
  if (!graph.is_static()) return {graph, {}};
  Instrumented done = Instrument(graph, std::move(names), "").run(position);
  if (!done.report) return {graph, {}};
  return {std::move(done.graph), std::move(done.sites)};
}

void refuse_outside(std::string_view where, std::span<const IndexSite> sites, const Literal& report) {
  const std::span<const std::int64_t> numbers = report.values<std::int64_t>();
  for (std::size_t at = 0; at < numbers.size(); at += kNumbers) {
    if (numbers[at] == 0) continue;
    const std::size_t row = at / kNumbers;
    const IndexSite& site = sites[row % sites.size()];
    const std::string step = numbers.size() > sites.size() * kNumbers
                                 ? fmt::format(", in step {} of the launch", row / sites.size())
                                 : "";
    const std::string count = numbers[at] == 1 ? "an index" : fmt::format("{} indices", numbers[at]);
    throw Error(ErrorKind::kInvalidArgument, std::string(where),
                fmt::format("{}: {} in {} {} outside{}", site.op, count, site.operand,
                            numbers[at] == 1 ? "is" : "are", step),
                site.expected,
                fmt::format("{} at {}", numbers[at + 2], place_text(site.shape, numbers[at + 1])));
  }
}

}  // namespace systole::recording
