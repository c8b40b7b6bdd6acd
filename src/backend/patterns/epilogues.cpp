#include "backend/patterns/epilogues.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "backend/patterns/on_result.h"
#include "backend/patterns/pointwise.h"
#include "backend/patterns/product.h"
#include "base/log.h"
#include "compile/strided.h"
#include "systole/ir/rewriter.h"

namespace systole::patterns {

namespace {

using ir::Op;
using ir::ValueId;
using Nodes = std::set<std::int32_t>;

constexpr std::size_t kMostNodes = 64;  // of work on a result

bool moves(Op op) {
  return op == Op::reshape || op == Op::transpose || op == Op::slice || op == Op::broadcast;
}

// A product with its work, cut out of the graph.
struct Found {
  std::int32_t at = -1;         // it stands where this node stood
  std::vector<ValueId> inputs;  // in the graph
  ir::GraphRef body;
  std::map<std::int32_t, std::size_t> results;  // nodes that become results of it
};

class Finder {
 public:
  Finder(const ir::Graph& graph, const Judge& judge)
      : graph_(graph), judge_(judge), readers_(at(graph.size())), leaves_(at(graph.size()), false) {
    for (std::int32_t i = 0; i < graph.size(); ++i)
      for (const ValueId v : graph.node(i).operands) readers_[at(v.node)].push_back(i);
    for (const ir::Output& output : graph.outputs()) leaves_[at(output.value.node)] = true;
  }

  std::vector<Found> run() {
    for (std::int32_t i = 0; i < graph_.size(); ++i) {
      const ir::Node& node = graph_.node(i);
      if (node.op != Op::dot_general || node.types[0].shape.count() == 0) continue;
      if (!find_forward(i) && !find_gelu_gradient(i)) find_operand_sum(i);
    }
    return std::move(found_);
  }

 private:
  static std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }
  const ir::Node& node(std::int32_t i) const { return graph_.node(i); }
  std::int64_t count(std::int32_t i) const { return node(i).types[0].shape.count(); }
  DType dtype(std::int32_t i) const { return node(i).types[0].dtype; }
  bool is_pointwise(std::int32_t i) const {
    return node(i).types.size() == 1 &&
           (node(i).op == Op::reshape || ir::info(node(i).op).op_class == ir::OpClass::elementwise);
  }
  bool is_number(ValueId v) const { return splat_number(graph_, v).has_value(); }

  std::int32_t only_reader(std::int32_t i) const {
    const std::vector<std::int32_t>& all = readers_[at(i)];
    return all.size() == 1 && !leaves_[at(i)] ? all[0] : -1;
  }

  // Whether what reads the node is generated and would do the work that is asked about on the way.
  bool is_read_on_the_way(std::int32_t i) const {
    return !leaves_[at(i)] &&
           std::all_of(readers_[at(i)].begin(), readers_[at(i)].end(), [&](std::int32_t r) {
             if (node(r).op == Op::reshape) return is_read_on_the_way(r);
             return is_pointwise(r) || node(r).op == Op::reduce;
           });
  }

  // The sum with a vector along the columns that alone reads the node; -1: none.
  std::int32_t biased(std::int32_t i) const {
    const std::int32_t sum = only_reader(i);
    if (sum < 0 || node(sum).op != Op::add || node(sum).operands[0] == node(sum).operands[1]) return -1;
    const bool first = node(sum).operands[0].node == i;
    const ir::Node& other = node(node(sum).operands[first ? 1 : 0].node);
    if (other.op != Op::broadcast) return -1;
    const ir::Node& vector = node(other.operands[0].node);
    const auto& axes = other.as<ir::BroadcastAttrs>().axes;
    const auto rank = static_cast<std::int64_t>(node(i).types[0].shape.rank());
    return vector.types[0].shape.rank() == 1 && axes.size() == 1 && axes[0] == rank - 1 ? sum : -1;
  }

  // Elementwise work on the node and on numbers, and on what `other` takes, in the graph's order.
  template <class Other>
  Nodes work_on(std::int32_t i, const Other& other) const {
    Nodes work, waiting(readers_[at(i)].begin(), readers_[at(i)].end());
    while (!waiting.empty() && work.size() < kMostNodes) {
      const std::int32_t next = *waiting.begin();
      waiting.erase(waiting.begin());
      if (!is_pointwise(next) || count(next) != count(i)) continue;
      const auto& operands = node(next).operands;
      if (!std::all_of(operands.begin(), operands.end(), [&](ValueId v) {
            return v.node == i || work.contains(v.node) || is_number(v) || other(v);
          }))
        continue;
      work.insert(next);
      waiting.insert(readers_[at(next)].begin(), readers_[at(next)].end());
    }
    return work;
  }

  // What of the work makes the node.
  Nodes cone(std::int32_t result, const Nodes& work) const {
    Nodes inside;
    std::vector<std::int32_t> stack{result};
    while (!stack.empty()) {
      const std::int32_t i = stack.back();
      stack.pop_back();
      if (!work.contains(i) || !inside.insert(i).second) continue;
      for (const ValueId v : node(i).operands) stack.push_back(v.node);
    }
    return inside;
  }
  bool is_read_outside(std::int32_t i, const Nodes& inside) const {
    return leaves_[at(i)] || std::any_of(readers_[at(i)].begin(), readers_[at(i)].end(),
                                         [&](std::int32_t r) { return !inside.contains(r); });
  }

  bool find_forward(std::int32_t dot) {
    const std::int32_t sum = biased(dot), last = sum >= 0 ? sum : dot;
    Nodes own{dot};
    if (sum >= 0) own.insert(sum);
    const std::int64_t bytes = node(dot).types[0].bytes();
    const Nodes work = work_on(last, [](ValueId) { return false; });
    const std::vector<std::int32_t> nodes(work.begin(), work.end());
    const ValueId variable{last, 0};
    const Samples samples(graph_, std::span(&variable, 1), nodes);
    for (const std::int32_t i : nodes) {
      if (dtype(i) != dtype(last)) continue;
      const Pointwise function = samples.function(i);
      if (function == Pointwise::gelu_erf)
        say(dot, "gelu is the one by erf; the library has the one by tanh");
      if (function != Pointwise::relu && function != Pointwise::gelu) continue;
      if (is_read_on_the_way(i)) break;  // nothing would be saved
      const Nodes inside = cone(i, work);
      const bool is_gelu = function == Pointwise::gelu;
      bool wants_before = is_read_outside(last, inside);
      for (const std::int32_t n : inside)
        wants_before = wants_before || (n != i && is_read_outside(n, inside));
      if (wants_before && !is_gelu && !say_same(last, i, work, samples)) {
        say(dot, "relu's operand is wanted too, of which the library keeps only a bit");
        break;
      }
      Nodes all = own;
      all.insert(inside.begin(), inside.end());
      std::vector<std::int32_t> results{i};
      if (wants_before && is_gelu) results.push_back(last);
      if (!take(dot, last, all, results, 2 * bytes)) break;
      if (!is_gelu) found_.back().results[last] = 0;
      if (wants_before && is_gelu) gelu_operands_.insert(last);
      return true;
    }
    if (sum < 0 || is_read_on_the_way(sum)) return false;
    return take(dot, sum, own, {sum}, 2 * bytes);
  }

  // Whether all that is read of a relu's operand is the same of its result.
  bool say_same(std::int32_t operand, std::int32_t result, const Nodes& work, const Samples& samples) const {
    if (is_read_outside(operand, work)) return false;
    return std::all_of(work.begin(), work.end(), [&](std::int32_t i) {
      return i == result || !is_read_outside(i, work) || samples.is_same_of(i, result);
    });
  }

  bool find_gelu_gradient(std::int32_t dot) {
    if (gelu_operands_.empty()) return false;
    std::set<std::int32_t> operands;
    Nodes aside;  // work on gelu's operand
    const auto takes = [&](ValueId v) { return traced(v, operands, aside); };
    const Nodes work = work_on(dot, takes);
    if (operands.size() != 1 || work.empty()) return false;
    Nodes both = work;
    both.insert(aside.begin(), aside.end());
    const std::vector<std::int32_t> nodes(both.begin(), both.end());
    const std::array<ValueId, 2> variables{ValueId{dot, 0}, ValueId{*operands.begin(), 0}};
    const Samples samples(graph_, variables, nodes);
    for (const std::int32_t i : work) {
      if (dtype(i) != dtype(dot) || samples.function(i) != Pointwise::gelu_gradient) continue;
      Nodes inside = cone(i, both), own = cone(i, work);
      if (is_read_outside(dot, own)) return false;
      for (const std::int32_t n : own)
        if (n != i && is_read_outside(n, own)) return false;
      inside.insert(dot);
      const std::int64_t bytes = node(dot).types[0].bytes();
      const std::int32_t sum = sum_of_rows(i);
      if (sum >= 0) {
        Nodes more = inside;
        more.insert(sum);
        if (take(dot, i, more, {i, sum}, 3 * bytes)) return true;
      }
      return take(dot, i, inside, {i}, sum >= 0 ? 2 * bytes : 3 * bytes);
    }
    return false;
  }

  // Whether the value is work on the operand of a gelu that was taken: which one, and the nodes between.
  bool traced(ValueId v, std::set<std::int32_t>& operands, Nodes& between) const {
    if (gelu_operands_.contains(v.node)) {
      operands.insert(v.node);
      return true;
    }
    if (is_number(v) || between.contains(v.node)) return true;
    if (!is_pointwise(v.node) || between.size() > kMostNodes || node(v.node).operands.empty()) return false;
    for (const ValueId operand : node(v.node).operands)
      if (!traced(operand, operands, between)) return false;
    between.insert(v.node);
    return true;
  }

  // The sum over all axes but the last.
  std::int32_t sum_of_rows(std::int32_t i) const {
    const auto rank = static_cast<std::int64_t>(node(i).types[0].shape.rank());
    for (const std::int32_t reader : readers_[at(i)])
      if (is_sum(reader) && dtype(reader) == dtype(i)) {
        Ints axes = node(reader).as<ir::ReduceAttrs>().axes;
        std::sort(axes.begin(), axes.end());
        if (static_cast<std::int64_t>(axes.size()) == rank - 1 && axes.back() == rank - 2) return reader;
      }
    return -1;
  }
  bool is_sum(std::int32_t i) const {
    return node(i).op == Op::reduce && node(i).as<ir::ReduceAttrs>().kind == ir::Combine::sum &&
           !node(i).as<ir::ReduceAttrs>().axes.empty() && !taken_.contains(i);
  }

  // The gradient of a bias beside that of a weight: an operand summed over what is contracted.
  void find_operand_sum(std::int32_t dot) {
    const auto& attrs = node(dot).as<ir::DotAttrs>();
    for (std::size_t k = 0; k < 2; ++k) {
      const ValueId operand = node(dot).operands[k];
      Ints contracted = k == 0 ? attrs.a_contract : attrs.b_contract;
      std::sort(contracted.begin(), contracted.end());
      for (const std::int32_t sum : readers_[at(operand.node)]) {
        if (!is_sum(sum) || !(node(sum).operands[0] == operand) || dtype(sum) != dtype(dot)) continue;
        Ints axes = node(sum).as<ir::ReduceAttrs>().axes;
        std::sort(axes.begin(), axes.end());
        if (axes != contracted) continue;
        const bool known = std::all_of(node(dot).operands.begin(), node(dot).operands.end(),
                                       [&](ValueId v) { return v.node < sum; });
        if (sum < dot && !known) continue;
        if (take(dot, std::min(sum, dot), {dot, sum}, {dot, sum}, graph_.type(operand).bytes())) return;
      }
    }
  }

  // Whether the judge takes it: nodes of the graph as a composite that stands at `place`.
  bool take(std::int32_t dot, std::int32_t place, Nodes inside, const std::vector<std::int32_t>& results,
            std::int64_t saved) {
    Found made;
    made.at = place;
    add_movement(dot, inside);
    const lower::Region whole = cut(dot, inside, results, made.inputs);
    Nodes alone{dot};
    add_movement(dot, alone);
    std::vector<ValueId> unused;
    const lower::Region bare = cut(dot, alone, {dot}, unused);
    if (const std::string reason = judge_(whole, bare, saved); !reason.empty()) {
      say(dot, reason);
      return false;
    }
    made.body = std::make_shared<ir::Graph>(whole.graph);
    for (std::size_t k = 0; k < results.size(); ++k) made.results[results[k]] = k;
    taken_.insert(results.begin(), results.end());
    found_.push_back(std::move(made));
    return true;
  }

  // What a product reads where it lies is not put in order for it.
  void add_movement(std::int32_t dot, Nodes& inside) const {
    for (std::size_t k = 0; k < 2; ++k) {
      const ValueId operand = node(dot).operands[k];
      const auto view = lower::strided(graph_, operand, [&](std::int32_t i) { return !moves(node(i).op); });
      if (!view || !is_matrix(node(dot), k, *view)) continue;
      for (std::int32_t i = operand.node; moves(node(i).op); i = node(i).operands[0].node) inside.insert(i);
    }
  }

  // The nodes as a graph of their own. What they read is its input, but numbers and what is repeated.
  lower::Region cut(std::int32_t dot, Nodes inside, const std::vector<std::int32_t>& results,
                    std::vector<ValueId>& inputs) const {
    std::vector<std::int32_t> stack(inside.begin(), inside.end());
    while (!stack.empty()) {
      const std::int32_t i = stack.back();
      stack.pop_back();
      for (const ValueId v : node(i).operands) {
        const bool repeats = node(v.node).op == Op::broadcast && i != dot;
        if ((repeats || is_number(v)) && inside.insert(v.node).second) stack.push_back(v.node);
      }
    }
    lower::Region region;
    region.graph.set_name("product");
    std::map<std::pair<std::int32_t, std::int32_t>, ir::Value> known;
    for (const std::int32_t i : inside)
      for (const ValueId v : node(i).operands)
        if (!inside.contains(v.node) && !known.contains({v.node, v.index})) {
          known[{v.node, v.index}] = region.graph.input(fmt::format("i{}", inputs.size()), graph_.type(v));
          inputs.push_back(v);
        }
    for (const std::int32_t i : inside) {
      ir::Values operands;
      for (const ValueId v : node(i).operands) operands.push_back(known.at({v.node, v.index}));
      const ir::Values made = ir::copy_node(region.graph, node(i), operands, node(i).graphs);
      known[{i, 0}] = made[0];
      if (i == dot) region.anchor = made[0].id().node;
    }
    for (const std::int32_t i : results) region.graph.output(known.at({i, 0}));
    return region;
  }

  void say(std::int32_t dot, const std::string& reason) const {
    if (log_enabled(LogLevel::info))
      log(LogLevel::info,
          fmt::format("product {} without the work on it: {}", node(dot).types[0].to_string(), reason));
  }

  const ir::Graph& graph_;
  const Judge& judge_;
  std::vector<std::vector<std::int32_t>> readers_;  // by node
  std::vector<bool> leaves_;                        // the graph, by node
  std::vector<Found> found_;
  Nodes taken_;          // that a composite makes
  Nodes gelu_operands_;  // that a composite stores
};

}  // namespace

ir::Graph with_epilogues(const ir::Graph& graph, const Judge& judge) {
  const std::vector<Found> found = Finder(graph, judge).run();
  std::map<std::int32_t, std::vector<const Found*>> places;
  std::map<std::int32_t, std::pair<const Found*, std::size_t>> replaced;
  for (const Found& each : found) {
    places[each.at].push_back(&each);
    for (const auto& [node, result] : each.results) replaced[node] = {&each, result};
  }
  std::map<std::pair<std::int32_t, std::int32_t>, ir::Value> known;
  std::map<const Found*, ir::Values> made;
  return ir::rewrite(
      graph,
      [&](const ir::Rewrite& r) -> std::optional<ir::Values> {
        for (std::size_t k = 0; k < r.operands.size(); ++k)
          known.try_emplace({r.node.operands[k].node, r.node.operands[k].index}, r.operands[k]);
        if (const auto here = places.find(r.index); here != places.end())
          for (const Found* const each : here->second) {
            ir::Values operands;
            for (const ValueId v : each->inputs) operands.push_back(known.at({v.node, v.index}));
            made[each] =
                r.graph.add_multi(Op::composite, operands,
                                  ir::CompositeAttrs{std::string(kProductComposite), {}}, {each->body});
          }
        if (const auto result = replaced.find(r.index); result != replaced.end()) {
          known[{r.index, 0}] = made.at(result->second.first)[result->second.second];
          return ir::Values{known[{r.index, 0}]};
        }
        std::vector<ir::GraphRef> graphs = r.node.graphs;
        if (r.node.op == Op::scan || r.node.op == Op::while_loop || r.node.op == Op::cond)
          for (ir::GraphRef& sub : graphs) sub = std::make_shared<ir::Graph>(with_epilogues(*sub, judge));
        ir::Values results = ir::copy_node(r.graph, r.node, r.operands, std::move(graphs));
        for (std::size_t k = 0; k < results.size(); ++k)
          known[{r.index, static_cast<std::int32_t>(k)}] = results[k];
        return results;
      },
      {.subgraphs = false});
}

}  // namespace systole::patterns
