#include "tensor/bad_op.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "eval/eval.h"
#include "systole/base/error.h"
#include "systole/ir/graph.h"
#include "systole/runtime.h"

namespace systole::recording {

Look look(const Literal& value) {
  if (!is_float(value.dtype())) return {};
  Look found;
  const std::vector<double> numbers = value.to_doubles();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (std::isnan(numbers[i])) return {Badness::nan, static_cast<std::int64_t>(i)};
    if (found.at < 0 && std::isinf(numbers[i])) found = {Badness::infinite, static_cast<std::int64_t>(i)};
  }
  return found;
}

std::string place_text(const Shape& shape, std::int64_t at) {
  std::vector<std::int64_t> place;
  for (std::size_t i = shape.size(); i-- > 0;) {
    place.insert(place.begin(), at % shape[i].value());
    at /= shape[i].value();
  }
  return fmt::format("[{}]", fmt::join(place, ","));
}

std::string number_text(double number) { return std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf"; }

std::string bad_text(const Literal& value, const Look& seen) {
  const double number = value.to_doubles()[static_cast<std::size_t>(seen.at)];
  return fmt::format("{} at {}", number_text(number), place_text(value.shape(), seen.at));
}

namespace {

// The kernel_call without a body graph that the node is or holds; null: there is none.
const ir::KernelAttrs* own_kernel(const ir::Node& node) {
  if (node.op == ir::Op::kernel_call && node.graphs.empty()) return &node.as<ir::KernelAttrs>();
  // Of a composite only the first graph is run.
  const std::size_t count = node.op == ir::Op::composite ? 1 : node.graphs.size();
  for (std::size_t i = 0; i < std::min(count, node.graphs.size()); ++i)
    for (const ir::Node& inner : node.graphs[i]->nodes())
      if (const ir::KernelAttrs* const found = own_kernel(inner)) return found;
  return nullptr;
}

std::string op_text(const ir::Node& node) {
  if (const ir::KernelAttrs* const kernel = own_kernel(node);
      kernel != nullptr && (node.op == ir::Op::kernel_call || node.op == ir::Op::composite))
    return fmt::format("the KernelOp {}", kernel->name);
  if (node.op == ir::Op::composite) return node.as<ir::CompositeAttrs>().name;
  return std::string(ir::name(node.op));
}

// The operands' elements that made a bad one: at the same place for elementwise ops, else their ranges.
std::string operands_text(const ir::Graph& graph, const ir::Node& node, std::span<const Literal> operands,
                          std::int64_t at) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!is_float(operands[i].dtype()) || operands[i].count() == 0) continue;
    const std::vector<double> numbers = operands[i].to_doubles();
    if (info(node.op).op_class == ir::OpClass::elementwise &&
        operands[i].shape() == graph.type(node.operands[i]).shape &&
        at < static_cast<std::int64_t>(numbers.size())) {
      parts.push_back(fmt::format("{:.6g}", numbers[static_cast<std::size_t>(at)]));
    } else {
      const auto [low, high] = std::minmax_element(numbers.begin(), numbers.end());
      parts.push_back(fmt::format("{} from {:.6g} to {:.6g}", operands[i].type().to_string(), *low, *high));
    }
  }
  return parts.empty() ? "" : fmt::format(", from {}", fmt::join(parts, " and "));
}

// One walk over a graph with its values, which are freed after their last use.
class Walk {
 public:
  Walk(const ir::Graph& graph, std::vector<Literal> inputs, std::vector<std::string> names,
       const std::string& device, const HeldAt& held_at)
      : graph_(graph),
        inputs_(std::move(inputs)),
        names_(std::move(names)),
        device_(device),
        held_at_(held_at) {
    const std::size_t count = graph.nodes().size();
    values_.resize(count);
    uses_.assign(count, 0);
    origin_.resize(count);
    path_.resize(count);
    for (const ir::Node& node : graph.nodes())
      for (const ir::ValueId v : node.operands) ++uses_[static_cast<std::size_t>(v.node)];
    for (const ir::Output& out : graph.outputs()) ++uses_[static_cast<std::size_t>(out.value.node)];
  }

  std::string run() {
    std::size_t input = 0;
    std::string infinite;           // the first op that made an infinite number
    std::vector<std::string> held;  // by inputs, where they may be meant, as in a mask
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      const ir::Node& node = graph_.nodes()[i];
      if (node.op == ir::Op::input) {
        values_[i] = {inputs_[input]};
        path_[i] = names_[input++];
        const Look seen = look(values_[i][0]);
        if (seen.badness == Badness::finite) continue;
        std::string text = held_at_ ? held_at_(input - 1, values_[i][0], seen) : "";
        if (text.empty())
          text = fmt::format("{} holds {} before the step", path_[i], bad_text(values_[i][0], seen));
        if (seen.badness == Badness::nan) return text;
        origin_[i] = text;
        held.push_back(text);
        continue;
      }
      if (const std::string found = step(i, node); !found.empty()) return found;
      if (infinite.empty() && origin_[i] && std::find(held.begin(), held.end(), *origin_[i]) == held.end())
        infinite = *origin_[i];
    }
    if (!infinite.empty() || held.empty()) return infinite;
    const bool reaches_the_end =
        std::any_of(graph_.outputs().begin(), graph_.outputs().end(), [&](const ir::Output& out) {
          const ir::ValueId v = out.value;
          return look(values_[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.index)]).badness !=
                 Badness::finite;
        });
    return reaches_the_end ? held[0] : "";
  }

 private:
  // A sentence when this op makes the first NaN.
  std::string step(std::size_t i, const ir::Node& node) {
    std::vector<Literal> operands;
    Badness worst = Badness::finite;
    std::optional<std::string> origin;
    for (const ir::ValueId v : node.operands) {
      const auto from = static_cast<std::size_t>(v.node);
      operands.push_back(values_[from][static_cast<std::size_t>(v.index)]);
      worst = std::max(worst, look(operands.back()).badness);
      if (!origin && origin_[from]) origin = origin_[from];
      if (is_parameter(from)) path_[i] = path_[from];
      if (path_[i].empty()) path_[i] = path_[from];
    }
    const ir::KernelAttrs* const kernel = own_kernel(node);
    if (kernel == nullptr) {
      values_[i] = eval::evaluate(node, operands);
    } else {
      try {
        values_[i] = on_the_device(node, operands);
      } catch (const Error& error) {
        return fmt::format("{}the search ends at the KernelOp {}, which could not be run again: {}",
                           origin ? *origin + "; " : "", kernel->name, error.what());
      }
    }
    std::string sentence;
    for (const Literal& value : values_[i]) {
      const Look seen = look(value);
      if (seen.badness == Badness::finite || node.op == ir::Op::constant) continue;
      const std::string text =
          fmt::format("{} of {} gives {}{}{}", op_text(node), value.type().to_string(), bad_text(value, seen),
                      operands_text(graph_, node, operands, seen.at),
                      path_[i].empty() ? "" : fmt::format("; the last parameter before it is {}", path_[i]));
      if (worst == Badness::finite) origin_[i] = text;
      if (seen.badness == Badness::nan && worst != Badness::nan)
        sentence = worst == Badness::infinite && origin ? text + "; before that, " + *origin : text;
    }
    if (!origin_[i]) origin_[i] = origin;
    for (const ir::ValueId v : node.operands)
      if (const auto from = static_cast<std::size_t>(v.node); --uses_[from] == 0) values_[from].clear();
    return sentence;
  }

  std::vector<Literal> on_the_device(const ir::Node& node, std::span<const Literal> operands) const {
    ir::Graph graph("op");
    ir::Values inputs;
    for (std::size_t i = 0; i < operands.size(); ++i)
      inputs.push_back(graph.input(fmt::format("x{}", i), operands[i].type()));
    for (const ir::Value& y : graph.add_multi(node.op, inputs, node.attrs, node.graphs)) graph.output(y);
    return compile(graph, device_).run(operands);
  }

  bool is_parameter(std::size_t node) const {
    return graph_.nodes()[node].op == ir::Op::input && path_[node].find('.') != std::string::npos;
  }

  const ir::Graph& graph_;
  std::vector<Literal> inputs_;
  std::vector<std::string> names_;  // of the inputs
  const std::string& device_;
  const HeldAt& held_at_;
  std::vector<std::vector<Literal>> values_;
  std::vector<std::int64_t> uses_;
  std::vector<std::optional<std::string>> origin_;  // of an infinite number in this value
  std::vector<std::string> path_;                   // the last parameter that went into it
};

}  // namespace

std::string first_bad_op(const ir::Graph& graph, std::vector<Literal> inputs, std::vector<std::string> names,
                         const std::string& device, const HeldAt& held_at) {
  return Walk(graph, std::move(inputs), std::move(names), device, held_at).run();
}

}  // namespace systole::recording
