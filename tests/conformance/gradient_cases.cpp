#include "gradient_cases.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <string_view>
#include <variant>

#include "fixture.h"
#include "systole/ir/attrs_variant.h"
#include "systole/ir/composite.h"
#include "systole/ir/rewriter.h"
#include "systole/ir/text.h"

namespace systole::conformance {

namespace {

constexpr std::int64_t kMostElements = 400;

const std::map<std::string, GradientRow, std::less<>>& special_rows() {
  using enum GradientKind;
  const char *flat = "flat almost everywhere", *integers = "it takes no floats",
             *no_operand = "it has no operands", *a_bool = "a bool has no gradient", *second = "";
  static const std::map<std::string, GradientRow, std::less<>> rows{
      {"sign", {kZero, flat}},
      {"floor", {kZero, flat}},
      {"ceil", {kZero, flat}},
      {"round", {kZero, flat}},
      {"stop_gradient", {kZero, "a constant to derivatives, by its meaning"}},
      {"while_loop",
       {kForwardOnly, "reverse mode needs every round's values, and their number is not known"}},
      {"bitcast", {kRefused, "bits have no gradient"}},
      {"bitwise_not", {kNoFloatOperand, integers}},
      {"bitwise_and", {kNoFloatOperand, integers}},
      {"bitwise_or", {kNoFloatOperand, integers}},
      {"bitwise_xor", {kNoFloatOperand, integers}},
      {"shift_left", {kNoFloatOperand, integers}},
      {"shift_right", {kNoFloatOperand, integers}},
      {"shift_right_logical", {kNoFloatOperand, integers}},
      {"random_bits", {kNoFloatOperand, "its key is no float"}},
      {"constant", {kNoFloatOperand, no_operand}},
      {"iota", {kNoFloatOperand, no_operand}},
      {"dimension", {kNoFloatOperand, no_operand}},
      {"device_index", {kNoFloatOperand, no_operand}},
      {"is_finite", {kNoFloatResult, a_bool}},
      {"equal", {kNoFloatResult, a_bool}},
      {"not_equal", {kNoFloatResult, a_bool}},
      {"less", {kNoFloatResult, a_bool}},
      {"less_equal", {kNoFloatResult, a_bool}},
      {"greater", {kNoFloatResult, a_bool}},
      {"greater_equal", {kNoFloatResult, a_bool}},
      {"arg_reduce", {kNoFloatResult, "an index has no gradient"}},
      {"scatter", {kFull, {}, false, "an element's product may have many updates"}},
      {"max", {kFull, second, true}},  // squared relu
      {"tanh", {kFull, second, true}},
      {"dot_general", {kFull, second, true}},
      {"convolution", {kFull, second, true}},
      {"softmax", {kFull, second, true}},
      {"layer_norm", {kFull, second, true}},
  };
  return rows;
}

// Cases beside the fixtures', whose bodies are too plain to show a derivative.
struct Written {
  const char *row, *name, *text;
};
constexpr Written kWritten[] = {
    {"max", "squared relu", R"(
graph @main(%x: f64[7]) {
  %zero = constant() {value=f64[7](splat 0)}
  %r = max(%x, %zero)
  %y = mul(%r, %r)
  return %y
})"},
    {"scan", "recurrence", R"(
graph @body(%h: f64[3], %x: f64[3], %w: f64[3]) {
  %a = mul(%h, %w)
  %b = add(%a, %x)
  %c = tanh(%b)
  %d = mul(%c, %x)
  return %c, %d
}
graph @main(%h: f64[3], %xs: f64[4,3], %w: f64[3]) {
  %y, %ys = scan(%h, %xs, %w) {length=4, carries=1, xs=1, reverse=true} @body
  return %y, %ys
})"},
    {"scan", "recurrence with remat", R"(
graph @body(%h: f64[3], %x: f64[3], %w: f64[3]) {
  %a = mul(%h, %w)
  %b = add(%a, %x)
  %c = tanh(%b)
  return %c, %a
}
graph @main(%h: f64[3], %xs: f64[4,3], %w: f64[3]) {
  %y, %ys = scan(%h, %xs, %w) {length=4, carries=1, xs=1, remat=true} @body
  return %y, %ys
})"},
    {"cond", "branches that compute", R"(
graph @product(%x: f64[3], %z: f64[3]) {
  %y = mul(%x, %z)
  return %y
}
graph @power(%x: f64[3], %z: f64[3]) {
  %y = exp(%x)
  return %y
}
graph @main(%x: f64[3], %z: f64[3]) {
  %yes = constant() {value=bool[](true)}
  %no = constant() {value=bool[](false)}
  %a = cond(%yes, %x, %z) @product @power
  %b = cond(%no, %x, %z) @product @power
  return %a, %b
})"},
    {"while_loop", "Newton's square root", R"(
graph @far(%y: f64[], %x: f64[]) {
  %s = mul(%y, %y)
  %d = sub(%s, %x)
  %a = abs(%d)
  %limit = constant() {value=f64[](1e-12)}
  %go = greater(%a, %limit)
  return %go
}
graph @step(%y: f64[], %x: f64[]) {
  %q = div(%x, %y)
  %s = add(%y, %q)
  %half = constant() {value=f64[](0.5)}
  %n = mul(%s, %half)
  return %n
}
graph @main(%x: f64[]) {
  %one = constant() {value=f64[](1)}
  %y = while_loop(%one, %x) {carries=1} @far @step
  return %y
})"},
    {"composite", "its own backward", R"(
graph @sine(%x: f64[5]) {
  %y = sin(%x)
  %c = cos(%x)
  return %y, %c
}
graph @sine_back(%x: f64[5], %y: f64[5], %c: f64[5], %dy: f64[5], %dc: f64[5]) {
  %a = mul(%dy, %c)
  %b = mul(%dc, %y)
  %dx = sub(%a, %b)
  return %dx
}
graph @main(%x: f64[5]) {
  %y, %c = composite user.sine(%x) @sine @sine_back
  %z = mul(%y, %c)
  return %z
})"},
    {"composite", "remat", R"(
graph @body(%x: f64[5], %w: f64[5]) {
  %a = mul(%x, %w)
  %y = sin(%a)
  return %y
}
graph @main(%x: f64[5], %w: f64[5]) {
  %y = composite remat(%x, %w) @body
  return %y
})"},
    {"kernel_call", "a body that computes", R"(
graph @body(%x: f64[5]) {
  %e = exp(%x)
  %y = mul(%e, %x)
  return %y
}
graph @main(%x: f64[5]) {
  %y = kernel_call(%x) {name="user_kernel", results=[f64[5]]} @body
  return %y
})"},
    {"convert", "through integers", R"(
graph @main(%x: f64[7]) {
  %i = convert(%x) {dtype=i32}
  %f = convert(%i) {dtype=f64}
  %y = mul(%f, %x)
  return %y
})"},
};

// Where the random points of a row lie, when not in (-1, 1).
struct Domain {
  double low = -1, high = 1;
  bool own_values = false;  // those of the fixture: only special matrices will do
};
Domain domain_of(const std::string& row) {
  static const Domain positive{0.5, 2}, near_one{0.5, 1.5}, wide{-3, 3}, own{0, 0, true};
  static const std::map<std::string, Domain, std::less<>> domains{
      {"log", positive},
      {"log1p", {-0.5, 2}},
      {"sqrt", positive},
      {"rsqrt", positive},
      {"cbrt", positive},
      {"div", positive},
      {"rem", positive},
      {"pow", positive},
      {"while_loop", positive},
      {"convert", wide},
      {"sign", wide},
      {"floor", wide},
      {"ceil", wide},
      {"round", wide},
      {"reduce", near_one},
      {"reduce_window", near_one},
      {"cumulative", near_one},
      {"scatter", near_one},
      {"all_reduce", near_one},
      {"reduce_scatter", near_one},
      {"adam_update", positive},
      {"adamw_update", positive},
      {"batch_norm_grad", positive},
      {"batch_norm_inference", positive},
      {"cholesky", own},
      {"triangular_solve", own},
  };
  const auto found = domains.find(row);
  return found == domains.end() ? Domain{} : found->second;
}

// Fills every f64 argument from one shuffled grid with a little noise: no two numbers of a case are close, so
// that no step of a difference makes another element the largest.
void spread_values(std::vector<std::vector<Literal>>& arguments, const Domain& domain) {
  std::mt19937 random(5);
  std::size_t count = 0;
  for (const auto& device : arguments)
    for (const Literal& l : device)
      if (l.dtype() == DType::f64) count += static_cast<std::size_t>(l.count());
  std::vector<double> grid(count);
  std::iota(grid.begin(), grid.end(), 0.0);
  std::shuffle(grid.begin(), grid.end(), random);
  std::size_t next = 0;
  for (auto& device : arguments)
    for (Literal& l : device) {
      if (l.dtype() != DType::f64) continue;
      for (double& v : l.mutable_values<double>()) {
        const double place = grid[next++] + 0.4 + 0.25 * std::generate_canonical<double, 53>(random);
        v = domain.low + (domain.high - domain.low) * place / static_cast<double>(count);
      }
    }
}

// A case of another float type shows its attributes and shapes in f64 as well.
Type in_f64(Type type) {
  if (is_float(type.dtype)) type.dtype = DType::f64;
  return type;
}

struct FieldsInF64 {
  void operator()(DType& v) const { v = in_f64({v, {}}).dtype; }
  void operator()(std::optional<DType>& v) const {
    if (v) (*this)(*v);
  }
  void operator()(auto&) const {}
};

ir::Values rebuilt(ir::Graph& graph, const ir::Node& node, const ir::Values& operands) {
  if (node.op == ir::Op::composite && ir::find_composite(node.as<ir::CompositeAttrs>().name))
    return ir::add_composite(node.as<ir::CompositeAttrs>().name, operands,
                             node.as<ir::CompositeAttrs>().attrs);
  ir::Attrs attrs = node.attrs;
  std::visit(
      []<class A>(A& a) { A::fields([&](std::string_view, auto member) { FieldsInF64{}(a.*member); }); },
      ir::variant(attrs));
  return graph.add_multi(node.op, operands, std::move(attrs), node.graphs);
}

bool is_f64(const Type& type) { return !is_float(type.dtype) || type.dtype == DType::f64; }

bool fits(const ir::Graph& graph, const ir::Node& node) {
  std::int64_t floats = 0, read = 0, made = 0;
  bool exact = true;
  for (ir::ValueId v : node.operands) {
    const Type& t = graph.type(v);
    read += t.shape.count();
    if (is_float(t.dtype)) floats += t.shape.count();
    exact &= is_f64(t);
  }
  for (const Type& t : node.types) {
    made += t.shape.count();
    exact &= is_f64(t);
  }
  // A body has the types it was written in, and bits are as many as they are.
  const bool widens = node.op == ir::Op::composite
                          ? ir::find_composite(node.as<ir::CompositeAttrs>().name) != nullptr
                          : node.graphs.empty() && node.op != ir::Op::bitcast;
  return floats > 0 && made > 0 && read + made <= kMostElements && (exact || widens);
}

// The node alone, in f64; its operands are inputs with the arguments of the fixture, constants stay.
std::optional<GradientCase> alone(const Fixture& fixture, const ir::Graph& graph, const ir::Node& node) {
  if (!fits(graph, node)) return {};
  GradientCase c{node.debug && !node.debug->names.empty() ? node.debug->names[0] : "", ir::Graph("main"),
                 std::vector<std::vector<Literal>>(fixture.arguments.size())};
  if (graph.mesh()) c.graph.set_mesh(*graph.mesh());
  ir::Values operands;
  for (ir::ValueId v : node.operands) {
    const ir::Node& from = graph.node(v.node);
    if (from.op != ir::Op::input) {
      if (!from.operands.empty() || !is_f64(from.types[0])) return {};
      operands.push_back(ir::copy_node(c.graph, from, {}, from.graphs)[0]);
      continue;
    }
    operands.push_back(c.graph.input({}, in_f64(from.types[0])));
    const auto input =
        std::find(graph.inputs().begin(), graph.inputs().end(), v.node) - graph.inputs().begin();
    for (std::size_t d = 0; d < c.arguments.size(); ++d) {
      const Literal& given = fixture.arguments[d][static_cast<std::size_t>(input)];
      c.arguments[d].push_back(
          is_float(given.dtype()) ? Literal::of<double>(given.shape(), given.to_doubles()) : given);
    }
  }
  for (const ir::Value& v : rebuilt(c.graph, node, operands)) c.graph.output(v);
  return c;
}

}  // namespace

GradientRow gradient_row(const std::string& row) {
  const auto found = special_rows().find(row);
  return found == special_rows().end() ? GradientRow{} : found->second;
}

std::vector<std::string> special_gradient_rows() {
  std::vector<std::string> names;
  for (const auto& entry : special_rows()) names.push_back(entry.first);
  return names;
}

std::vector<GradientCase> gradient_cases(const std::string& row) {
  const Domain domain = domain_of(row);
  const Fixture fixture = load_fixture(row);
  const ir::Graph graph = bound_graph(fixture);
  std::vector<GradientCase> cases;
  const auto known = [&](const ir::Graph& g) {
    return std::any_of(cases.begin(), cases.end(),
                       [&](const GradientCase& other) { return other.graph.same_structure(g); });
  };
  for (const ir::Node& node : graph.nodes())
    if (is_of_row(node, row))
      if (auto c = alone(fixture, graph, node); c && !known(c->graph)) cases.push_back(std::move(*c));
  for (const Written& written : kWritten) {
    if (written.row != row) continue;
    GradientCase c{written.name, ir::parse(std::string("systole.ir 1\n") + written.text, written.name), {{}}};
    for (std::size_t i = 0; i < c.graph.inputs().size(); ++i)
      c.arguments[0].emplace_back(c.graph.input_type(i));
    cases.push_back(std::move(c));
  }
  if (!domain.own_values)
    for (GradientCase& c : cases) spread_values(c.arguments, domain);
  return cases;
}

}  // namespace systole::conformance
