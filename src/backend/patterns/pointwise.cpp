#include "backend/patterns/pointwise.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>

#include "eval/eval.h"
#include "systole/base/literal.h"
#include "systole/ops.h"

namespace systole::patterns {

namespace {

using ir::Op;

// Both signs, no pattern; then what tells a function from one that is cut off, far out or close to 0.
constexpr double kPoints[] = {-7.3,   -4.1,   -3.05,  -2.71, -2.2,  -1.77,  -1.31, -0.93,  -0.59, -0.3,
                              -0.113, -0.017, 0.0021, 0.041, 0.137, 0.38,   0.66,  0.97,   1.29,  1.83,
                              2.17,   2.63,   3.19,   4.4,   6.8,   0,      1e-30, -1e-30, 1e-7,  -1e-7,
                              20.5,   -20.5,  100.25, -100,  1e4,   -1.1e4, 1e30,  -1e30,  3e38,  -3e38};
constexpr double kFactors[] = {-2.3, -0.71, 0.19, 1, 3.7, 0, 1e-7, -103, 1e30};

double cubic(double x) { return std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x); }
double relu(double x) { return std::max(x, 0.0); }
double gelu(double x) { return x / 2 * (1 + std::tanh(cubic(x))); }
double gelu_erf(double x) { return x / 2 * (1 + std::erf(x / std::numbers::sqrt2)); }
double gelu_slope(double x) {
  const double t = std::tanh(cubic(x)), inner = std::sqrt(2 / std::numbers::pi) * (1 + 0.134145 * x * x);
  return (1 + t) / 2 + x / 2 * (1 - t * t) * inner;
}

bool is_equal(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// Numbers of f32 stand in the graph. `rounding`: of 1 + tanh where that is almost 0.
bool is_close(double got, double wanted, double rounding) {
  return is_equal(got, wanted) || std::abs(got - wanted) <= rounding + 1e-5 * std::abs(wanted);
}

bool keeps_elements(Op op) { return op == Op::reshape || op == Op::convert; }

}  // namespace

std::string_view name(Pointwise function) {
  switch (function) {
    case Pointwise::identity: return "identity";
    case Pointwise::relu: return "relu";
    case Pointwise::gelu: return "gelu";
    case Pointwise::gelu_erf: return "gelu by erf";
    case Pointwise::gelu_gradient: return "gelu gradient";
    case Pointwise::other: return "other";
  }
  return "?";
}

std::optional<double> splat_number(const ir::Graph& graph, ir::ValueId v) {
  const ir::Node* node = &graph.node(v.node);
  while (node->op == Op::broadcast || node->op == Op::transpose || keeps_elements(node->op)) {
    if (node->op == Op::convert && !is_float(node->types[0].dtype)) return std::nullopt;
    node = &graph.node(node->operands[0].node);
  }
  if (node->op != Op::constant) return std::nullopt;
  const Literal& value = node->as<ir::ConstantAttrs>().value;
  constexpr std::int64_t kMostSearched = 1024;
  if (value.count() == 0 || value.count() > kMostSearched) return std::nullopt;
  const std::vector<double> numbers = value.to_doubles();
  for (const double number : numbers)
    if (number != numbers[0]) return std::nullopt;
  return numbers[0];
}

Samples::Samples(const ir::Graph& graph, std::span<const ir::ValueId> variables,
                 std::span<const std::int32_t> nodes)
    : graph_(graph),
      variables_(variables.begin(), variables.end()),
      nodes_(nodes.begin(), nodes.end()),
      points_(variables.size()) {
  if (variables_.size() == 1) {
    points_[0].assign(std::begin(kPoints), std::end(kPoints));
  } else {
    for (const double factor : kFactors)
      for (const double point : kPoints) {
        points_[0].push_back(factor);
        points_[1].push_back(point);
      }
  }
  values_ = at(points_);
}

std::vector<std::optional<Samples::Numbers>> Samples::at(std::span<const Numbers> variables) const {
  ir::Graph wide("samples");
  const Shape shape{static_cast<std::int64_t>(variables[0].size())};
  std::map<std::int32_t, ir::Value> made;
  std::vector<Literal> arguments;
  std::vector<ir::Value> inputs;
  for (const Numbers& numbers : variables) {
    inputs.push_back(wide.input({}, {DType::f64, shape}));
    arguments.push_back(Literal::of<double>(shape, numbers));
  }
  const auto value = [&](ir::ValueId v) -> std::optional<ir::Value> {
    for (std::size_t k = 0; k < variables_.size(); ++k)
      if (variables_[k] == v) return inputs[k];
    if (const auto found = made.find(v.node); found != made.end()) return found->second;
    if (const std::optional<double> number = splat_number(graph_, v))
      return wide.constant(Literal::full({DType::f64, shape}, *number));
    return std::nullopt;
  };
  const auto make = [&](const ir::Node& node) -> std::optional<ir::Value> {
    ir::Values operands;
    for (const ir::ValueId v : node.operands) {
      const std::optional<ir::Value> operand = value(v);
      if (!operand) return std::nullopt;
      operands.push_back(*operand);
    }
    if (node.op == Op::reshape) return operands[0];
    if (ir::info(node.op).op_class != ir::OpClass::elementwise || node.types.size() != 1) return std::nullopt;
    const DType dtype = node.types[0].dtype;
    if (node.op == Op::convert)
      return is_float(dtype) ? std::optional(ops::convert(operands[0], DType::f64)) : std::nullopt;
    if (!is_float(dtype) && dtype != DType::boolean) return std::nullopt;
    return wide.add(node.op, operands, node.attrs);
  };
  std::vector<std::size_t> places;  // in nodes_, by output
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    if (const std::optional<ir::Value> result = make(graph_.node(nodes_[i]))) {
      made[nodes_[i]] = *result;
      wide.output(*result);
      places.push_back(i);
    }
  std::vector<std::optional<Numbers>> values(nodes_.size());
  const std::vector<Literal> results = eval::evaluate(wide, arguments);
  for (std::size_t k = 0; k < places.size(); ++k) values[places[k]] = results[k].to_doubles();
  return values;
}

const std::optional<Samples::Numbers>* Samples::values_of(std::int32_t node) const {
  const auto found = std::find(nodes_.begin(), nodes_.end(), node);
  return found == nodes_.end() ? nullptr : &values_[static_cast<std::size_t>(found - nodes_.begin())];
}

Pointwise Samples::function(std::int32_t node) const {
  const std::optional<Numbers>* const values = values_of(node);
  if (values == nullptr || !*values || !is_float(graph_.node(node).types[0].dtype)) return Pointwise::other;
  const auto all = [&](auto holds) {
    for (std::size_t i = 0; i < (*values)->size(); ++i)
      if (!holds(i, (**values)[i])) return false;
    return true;
  };
  constexpr double kRounding = 1e-13;
  const Numbers& x = points_.back();
  if (variables_.size() == 2) {
    const Numbers& factor = points_[0];
    return all([&](std::size_t i, double got) {
      return is_close(got, factor[i] * gelu_slope(x[i]), kRounding * std::abs(factor[i]));
    })
               ? Pointwise::gelu_gradient
               : Pointwise::other;
  }
  const auto is_exactly = [&](auto wanted) {
    return all([&](std::size_t i, double got) { return is_equal(got, wanted(x[i])); });
  };
  const auto is_about = [&](auto wanted) {
    return all([&](std::size_t i, double got) {
      return is_close(got, wanted(x[i]), kRounding * std::min(std::abs(x[i]), 1.0));
    });
  };
  if (is_exactly([](double each) { return each; })) return Pointwise::identity;
  if (is_exactly(relu)) return Pointwise::relu;
  if (is_about(gelu)) return Pointwise::gelu;
  if (is_about(gelu_erf)) return Pointwise::gelu_erf;
  return Pointwise::other;
}

bool Samples::is_same_of(std::int32_t node, std::int32_t inner) const {
  const std::optional<Numbers>*const values = values_of(node), *const inside = values_of(inner);
  if (values == nullptr || inside == nullptr || !*values || !*inside) return false;
  const std::vector<std::optional<Numbers>> again = at(std::span(&**inside, 1));
  const std::optional<Numbers>& other = again[static_cast<std::size_t>(values - values_.data())];
  return other && std::equal(other->begin(), other->end(), (*values)->begin(), (*values)->end(), is_equal);
}

}  // namespace systole::patterns
