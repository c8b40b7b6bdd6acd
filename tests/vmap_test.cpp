// vmap against the same graph run example by example: an oracle that knows nothing of batching. Every fixture
// of the conformance suite is mapped in many ways, so that each primitive and composite is met with each set
// of operands; then models, transforms of transforms, and the corners.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <set>

#include "error_check.h"
#include "eval/eval.h"
#include "systole/autodiff.h"
#include "systole/ir/composite.h"
#include "systole/ir/text.h"
#include "systole/ops.h"
#include "systole/runtime.h"

namespace systole::autodiff {
namespace {

using ir::Graph;
using ir::GraphRef;
using ir::Value;
using ir::Values;
using Flags = std::vector<bool>;
using Literals = std::vector<Literal>;

Literal random_literal(const Type& type, std::mt19937& random) {
  Literal out(type);
  std::uniform_real_distribution<double> real(-1.5, 1.5);
  visit_dtype(type.dtype, [&]<class T>() {
    for (T& v : out.mutable_values<T>()) {
      if constexpr (std::is_same_v<T, bool>)
        v = random() % 2;
      else if constexpr (std::is_unsigned_v<T>)
        v = static_cast<T>(random() % 7);
      else if constexpr (std::is_integral_v<T>)
        v = static_cast<T>(static_cast<int>(random() % 10) - 3);
      else
        v = static_cast<T>(real(random));
    }
  });
  return out;
}

Type with_axis(std::int64_t size, const Type& type) {
  Type out{type.dtype, {size}};
  for (const Dim& d : type.shape) out.shape.push_back(d);
  return out;
}

Literal example(const Literal& all, std::int64_t i) {
  const Ints dims = all.dims();
  const std::size_t bytes = all.byte_size() / static_cast<std::size_t>(dims[0]);
  return Literal::copy_of({all.dtype(), Shape(std::span<const std::int64_t>(dims.begin() + 1, dims.end()))},
                          all.as_bytes().subspan(static_cast<std::size_t>(i) * bytes, bytes));
}

// Up to the rounding of sums taken in another order.
void expect_close(const Literal& got, const Literal& wanted, const std::string& where) {
  ASSERT_EQ(got.type().to_string(), wanted.type().to_string()) << where;
  const std::vector<double> a = got.to_doubles(), b = wanted.to_doubles();
  const std::size_t width = size_of(got.dtype());
  const double eps = !is_float(got.dtype()) ? 0
                     : width == 8           ? 1e-13
                     : width == 4           ? 1e-6
                     : width == 2           ? 1e-2
                                            : 0.25;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    ASSERT_LE(std::abs(a[i] - b[i]), eps * std::max(1.0, std::abs(b[i]))) << where << " element " << i;
  }
}

Literals random_arguments(const Graph& graph, const Flags& batched, std::int64_t size, unsigned seed = 1) {
  std::mt19937 random(seed);
  Literals out;
  for (std::size_t i = 0; i < batched.size(); ++i)
    out.push_back(
        random_literal(batched[i] ? with_axis(size, graph.input_type(i)) : graph.input_type(i), random));
  return out;
}

Literals arguments_of(const Literals& all, const Flags& batched, std::int64_t i) {
  Literals out;
  for (std::size_t k = 0; k < all.size(); ++k) out.push_back(batched[k] ? example(all[k], i) : all[k]);
  return out;
}

void check(const Graph& graph, const Flags& batched, const Literals& arguments, std::int64_t size,
           const std::string& where) {
  const Batched mapped = vmap(graph, batched, size);
  ir::verify(mapped.graph);
  ASSERT_TRUE(ir::parse(ir::print(mapped.graph)).same_structure(mapped.graph)) << where;
  ASSERT_EQ(mapped.outputs.size(), graph.outputs().size());
  const Literals got = eval::evaluate(mapped.graph, std::span<const Literal>(arguments));
  for (std::size_t o = 0; o < got.size(); ++o) {
    const Type& type = graph.output_type(o);
    ASSERT_EQ(got[o].type(), mapped.outputs[o] ? with_axis(size, type) : type) << where << " output " << o;
  }
  for (std::int64_t i = 0; i < size; ++i) {
    const Literals wanted = eval::evaluate(graph, arguments_of(arguments, batched, i));
    for (std::size_t o = 0; o < got.size(); ++o)
      expect_close(mapped.outputs[o] ? example(got[o], i) : got[o], wanted[o],
                   where + " output " + std::to_string(o) + " example " + std::to_string(i));
  }
}

void check(const Graph& graph, const Flags& batched, std::int64_t size = 3, const std::string& where = {}) {
  check(graph, batched, random_arguments(graph, batched, size), size, where);
}

// Every choice of mapped inputs.
void check_all(const Graph& graph, std::int64_t size = 3) {
  const std::size_t inputs = graph.inputs().size();
  for (std::size_t bits = 1; bits < std::size_t{1} << inputs; ++bits) {
    Flags batched(inputs);
    for (std::size_t i = 0; i < inputs; ++i) batched[i] = bits >> i & 1;
    check(graph, batched, size, "inputs " + std::to_string(bits));
  }
}

Graph parse(const std::string& text) { return ir::parse("systole.ir 1\n" + text); }

bool contains(const Graph& graph, ir::Op op) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [&](const ir::Node& n) { return n.op == op; });
}

const ir::Node* composite_in(const Graph& graph, std::string_view name) {
  for (const ir::Node& node : graph.nodes())
    if (node.op == ir::Op::composite && node.as<ir::CompositeAttrs>().name == name) return &node;
  return nullptr;
}

const std::filesystem::path kFixtures =
    std::filesystem::path(SYSTOLE_SOURCE_DIR) / "tests/conformance/fixtures";

std::vector<std::string> rows(bool with_mesh) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFixtures)) {
    if (entry.path().extension() != ".sir") continue;
    std::ifstream stream(entry.path());
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    if ((text.find("mesh(") != std::string::npos) == with_mesh) names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Graph load(const std::string& row) {
  std::ifstream stream(kFixtures / (row + ".sir"));
  return ir::parse(std::string{std::istreambuf_iterator<char>(stream), {}}, row);
}

// A fixture holds many cases, the inputs of which are named "case.operand": the same operand is mapped in
// all. Every set of up to three operands; of more, all, one, or all but one.
std::vector<Flags> choices(const Graph& graph) {
  std::vector<std::string> operand;
  std::set<std::string> distinct;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const std::string& name = graph.input_name(i);
    operand.push_back(name.substr(name.rfind('.') + 1));
    distinct.insert(operand.back());
  }
  std::vector<Flags> out;
  for (std::size_t bits = 1; bits < std::size_t{1} << distinct.size(); ++bits) {
    const auto count = static_cast<std::size_t>(__builtin_popcountll(bits));
    if (distinct.size() > 3 && count > 1 && count + 1 < distinct.size()) continue;
    Flags flags;
    for (const std::string& name : operand)
      flags.push_back(bits >> std::distance(distinct.begin(), distinct.find(name)) & 1);
    out.push_back(std::move(flags));
  }
  return out;
}

TEST(Vmap, OfEveryOpOverEverySetOfOperandsEqualsOneByOne) {
  for (const std::string& row : rows(false))
    if (const Graph graph = load(row); graph.is_static())
      for (const Flags& batched : choices(graph)) check(graph, batched, 2, row);
}

TEST(Vmap, OfEveryOpOverAnEmptyBatchIsEmpty) {
  for (const std::string& row : rows(false))
    if (const Graph graph = load(row); graph.is_static())
      check(graph, Flags(graph.inputs().size(), true), 0, row);
}

TEST(Vmap, OfEveryCollectiveEqualsOneByOne) {
  for (const std::string& row : rows(true)) {
    const Graph graph = load(row);
    const Flags batched(graph.inputs().size(), true);
    const Batched mapped = vmap(graph, batched, 2);
    ir::verify(mapped.graph);
    std::vector<Literals> all, first, second;  // per device
    for (std::int64_t d = 0; d < graph.mesh()->size(); ++d) {
      all.push_back(random_arguments(graph, batched, 2, static_cast<unsigned>(d)));
      first.push_back(arguments_of(all.back(), batched, 0));
      second.push_back(arguments_of(all.back(), batched, 1));
    }
    const auto got = compile(mapped.graph, "reference").run_devices(all);
    const CompiledGraph one = compile(graph, "reference");
    const std::vector<Literals> wanted[] = {one.run_devices(first), one.run_devices(second)};
    for (std::size_t d = 0; d < got.size(); ++d)
      for (std::size_t o = 0; o < got[d].size(); ++o)
        for (std::int64_t i = 0; i < 2; ++i)
          expect_close(mapped.outputs[o] ? example(got[d][o], i) : got[d][o], wanted[i][d][o], row);
  }
}

TEST(Vmap, NeedsNoLoopForArithmeticMovementReductionsAndProducts) {
  for (const std::string& row : rows(false)) {
    const auto op = ir::find_op(row);
    if (!op) continue;
    const ir::OpClass kind = ir::info(*op).op_class;
    if (kind == ir::OpClass::control || kind == ir::OpClass::source || kind == ir::OpClass::opaque) continue;
    const Graph graph = load(row);
    for (const Flags& batched : choices(graph))
      EXPECT_FALSE(contains(vmap(graph, batched, 2).graph, ir::Op::scan)) << row;
  }
}

TEST(Vmap, ConvolutionWithGroupsInAnyLayoutAndSetOfOperands) {
  const auto convolution = [](const std::string& features, const std::string& groups) {
    return parse("graph @main(%x: f64[2,5," + features +
                 ",6], %k: f64[9,2,2,2]) {\n"
                 "%y = convolution(%x, %k) {layout=\"01fb_o01i->f10b\", strides=[1,2], pad_low=[0,1], "
                 "pad_high=[1,0], " +
                 groups + "}\nreturn %y\n}\n");
  };
  check_all(convolution("2", "feature_groups=1"));
  check_all(convolution("6", "feature_groups=3"));
  check_all(convolution("2", "batch_groups=3"));
}

TEST(Vmap, DynamicSlicesClampStartsOfEveryDTypeAndEveryExample) {
  const Graph graph = parse(
      "graph @main(%x: f64[5,4], %u: f64[2,3], %i: i8[], %j: u64[]) {\n"
      "%s = dynamic_slice(%x, %i, %j) {sizes=[2,3]}\n"
      "%t = dynamic_update_slice(%x, %u, %i, %j)\n"
      "return %s, %t\n}\n");
  for (unsigned bits = 1; bits < 16; ++bits) {
    const Flags batched{(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0};
    Literals arguments = random_arguments(graph, batched, 4);
    if (batched[2]) arguments[2] = Literal::of<std::int8_t>({4}, {-128, 1, 3, 127});
    if (batched[3])
      arguments[3] = Literal::of<std::uint64_t>({4}, {0, 1, ~std::uint64_t{0}, std::uint64_t{1} << 63});
    check(graph, batched, arguments, 4, std::to_string(bits));
  }
}

TEST(Vmap, ScanGivesTheAxisToCarriesThatGetItInALaterRound) {
  const Graph graph = parse(
      "graph @body(%a: f64[], %b: f64[], %c: f64[], %x: f64[2], %k: f64[]) {\n"
      "%s = reduce(%x) {axes=[0]}\n%d = add(%c, %k)\n%y = add(%a, %c)\nreturn %b, %s, %d, %y, %d\n}\n"
      "graph @main(%a: f64[], %b: f64[], %c: f64[], %xs: f64[4,2], %k: f64[]) {\n"
      "%r, %s, %t, %y, %z = scan(%a, %b, %c, %xs, %k) {length=4, carries=3, xs=1, reverse=true} @body\n"
      "return %r, %s, %t, %y, %z\n}\n");
  check_all(graph);
  // The third carry and its stack never meet xs.
  EXPECT_EQ(vmap(graph, {false, false, false, true, false}, 3).outputs,
            Flags({true, true, false, true, false}));
}

TEST(Vmap, WhileRunsUntilEveryExampleHasStopped) {
  const Graph graph = parse(
      "graph @more(%n: i32[], %v: f64[2], %k: f64[]) {\n"
      "%zero = constant() {value=i32[](0)}\n%go = greater(%n, %zero)\nreturn %go\n}\n"
      "graph @step(%n: i32[], %v: f64[2], %k: f64[]) {\n"
      "%one = constant() {value=i32[](1)}\n%m = sub(%n, %one)\n"
      "%w = broadcast(%k) {shape=[2], axes=[]}\n%u = mul(%v, %w)\nreturn %m, %u\n}\n"
      "graph @main(%n: i32[], %v: f64[2], %k: f64[]) {\n"
      "%m, %u = while_loop(%n, %v, %k) {carries=2} @more @step\nreturn %m, %u\n}\n");
  for (unsigned bits = 1; bits < 8; ++bits) {
    const Flags batched{(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0};
    Literals arguments = random_arguments(graph, batched, 4);
    arguments[0] =
        batched[0] ? Literal::of<std::int32_t>({4}, {3, 0, 5, -2}) : Literal::scalar<std::int32_t>(3);
    check(graph, batched, arguments, 4, std::to_string(bits));
  }
  // A count that is the same for all stays without the axis.
  EXPECT_EQ(vmap(graph, {false, true, false}, 4).outputs, Flags({false, true}));
}

TEST(Vmap, CondStaysABranchUnlessTheExamplesDiffer) {
  const Graph graph = parse(
      "graph @then(%x: f64[2], %y: f64[2]) {\nreturn %x, %y\n}\n"
      "graph @else(%x: f64[2], %y: f64[2]) {\n%s = mul(%x, %x)\n%c = constant() {value=f64[2](5, 6)}\n"
      "return %s, %c\n}\n"
      "graph @main(%p: bool[], %x: f64[2], %y: f64[2]) {\n"
      "%a, %b = cond(%p, %x, %y) @then @else\nreturn %a, %b\n}\n");
  check_all(graph, 5);
  EXPECT_TRUE(contains(vmap(graph, {false, true, false}, 2).graph, ir::Op::cond));
  EXPECT_EQ(vmap(graph, {false, true, false}, 2).outputs, Flags({true, false}));
  EXPECT_FALSE(contains(vmap(graph, {true, false, false}, 2).graph, ir::Op::cond));
}

TEST(Vmap, RandomBitsOfOneKeyAreSharedAndOfManyKeysDiffer) {
  const Graph graph = parse(
      "graph @main(%key: u32[2], %x: f64[]) {\n%b = random_bits(%key) {shape=[3,2]}\nreturn %b, %x\n}\n");
  check_all(graph);
  EXPECT_EQ(vmap(graph, {false, true}, 3).outputs, Flags({false, true}));
}

// x [features] to a hidden layer and cross-entropy with a label.
Graph mlp() {
  Graph g;
  const Value x = g.input("x", {DType::f64, {4}}), label = g.input("label", {DType::i32, {}});
  const Value w1 = g.input("w1", {DType::f64, {4, 5}}), b1 = g.input("b1", {DType::f64, {5}});
  const Value w2 = g.input("w2", {DType::f64, {5, 3}});
  g.output(ops::cross_entropy(ops::matmul(ops::tanh(ops::matmul(x, w1) + b1), w2), label), "loss");
  return g;
}

Graph conv_net() {
  Graph g;
  const Value x = g.input("x", {DType::f64, {2, 6, 6, 2}});
  const Value k = g.input("k", {DType::f64, {3, 3, 2, 4}}), w = g.input("w", {DType::f64, {16, 3}});
  ir::ConvolutionAttrs same{.layout = "b01f_01io->b01f", .pad_low = {1, 1}, .pad_high = {0, 0}};
  const Value h = ops::max_pool(ops::relu(ops::convolution(x, k, same)), {2, 2}, {2, 2});
  const Value logits = ops::matmul(ops::reshape(h, {2, 16}), w);
  g.output(ops::sum(ops::square(ops::log_softmax(logits)), {0, 1}));
  return g;
}

Graph lstm_net() {
  Graph g;
  const Value x = g.input("x", {DType::f64, {3, 2, 2}}), h = g.input("h", {DType::f64, {2, 3}});
  const Value c = g.input("c", {DType::f64, {2, 3}}), w = g.input("w", {DType::f64, {12, 2}});
  const Value r = g.input("r", {DType::f64, {12, 3}}), b = g.input("b", {DType::f64, {12}});
  g.output(ops::sum(ops::square(ops::lstm(x, h, c, w, r, b, b).y), {0, 1, 2}));
  return g;
}

TEST(Vmap, GivesPerExampleGradients) {
  check(value_and_grad(mlp(), {0, 2, 3, 4}), {true, true, false, false, false}, 4, "mlp");
  check(value_and_grad(mlp(), {2, 4}), {true, true, true, true, true}, 4, "mlp of many weights");
  check(value_and_grad(conv_net(), {0, 1, 2}), {true, false, false}, 3, "conv");
  check(value_and_grad(conv_net(), {0, 1, 2}), {false, true, false}, 3, "conv of many kernels");
  check(value_and_grad(conv_net(), {0, 1, 2}), {true, true, true}, 3, "conv of everything");
  check(value_and_grad(lstm_net(), {0, 1, 3, 4, 5}), {true, false, false, false, false, false}, 3, "lstm");
  check(value_and_grad(lstm_net(), {0, 1, 3, 4, 5}), {false, true, true, true, true, true}, 3,
        "lstm of many");
}

// One column per tangent, one row per cotangent: of sin(a·x) it is diag(cos(a·x))·a.
TEST(Vmap, MakesJacobiansOfBothModes) {
  Graph graph;
  const Value x = graph.input("x", {DType::f64, {2}}), a = graph.input("a", {DType::f64, {3, 2}});
  graph.output(ops::sin(ops::matmul(a, x)));
  const Literal at = Literal::of<double>({2}, {0.5, -1}),
                matrix = Literal::of<double>({3, 2}, {1, 2, 3, 4, 5, 6});
  const auto unit = [](std::int64_t n) {
    Literal out(Type{DType::f64, {n, n}});
    for (std::int64_t i = 0; i < n; ++i)
      out.mutable_values<double>()[static_cast<std::size_t>(i * (n + 1))] = 1;
    return out;
  };
  const Literals rows =
      eval::evaluate(vmap(vjp(graph, {0}), {false, false, true}, 3).graph, Literals{at, matrix, unit(3)});
  const Literals columns =
      eval::evaluate(vmap(jvp(graph, {0}), {false, false, true}, 2).graph, Literals{at, matrix, unit(2)});
  ASSERT_EQ(rows[1].type().to_string(), "f64[3,2]");
  ASSERT_EQ(columns[1].type().to_string(), "f64[2,3]");
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 2; ++j) {
      const double row[] = {1.0 + 2.0 * static_cast<double>(i), 2.0 + 2.0 * static_cast<double>(i)};
      const double wanted = std::cos(row[0] * 0.5 - row[1]) * row[j];
      EXPECT_NEAR(rows[1].values<double>()[i * 2 + j], wanted, 1e-14);
      EXPECT_NEAR(columns[1].values<double>()[j * 3 + i], wanted, 1e-14);
    }
}

// The sum of a mapped graph's one output over all examples.
Graph total(const Graph& mapped) {
  Graph g;
  Values arguments;
  for (std::size_t i = 0; i < mapped.inputs().size(); ++i)
    arguments.push_back(g.input(mapped.input_name(i), mapped.input_type(i)));
  g.output(ops::sum(ir::inline_graph(g, mapped, arguments)[0], {0}));
  return g;
}

// The gradient of the sum by what is shared is the sum of gradients, by what is not each example's own.
void check_gradient_of_map(const Graph& graph, const Flags& batched, const std::vector<int>& wrt) {
  const std::int64_t size = 3;
  const Literals arguments = random_arguments(graph, batched, size);
  const Literals got = eval::evaluate(value_and_grad(total(vmap(graph, batched, size).graph), wrt),
                                      std::span<const Literal>(arguments));
  const Graph one = value_and_grad(graph, wrt);
  Literals sums;
  for (std::int64_t i = 0; i < size; ++i) {
    const Literals part = eval::evaluate(one, arguments_of(arguments, batched, i));
    for (std::size_t o = 0; o < part.size(); ++o) {
      if (i == 0) sums.push_back(Literal(part[o].type()));
      for (std::size_t k = 0; k < part[o].values<double>().size(); ++k)
        sums[o].mutable_values<double>()[k] += part[o].values<double>()[k];
      if (o > 0 && batched[static_cast<std::size_t>(wrt[o - 1])])
        expect_close(example(got[o], i), part[o], "own");
    }
  }
  for (std::size_t o = 0; o < got.size(); ++o)
    if (o == 0 || !batched[static_cast<std::size_t>(wrt[o - 1])]) expect_close(got[o], sums[o], "shared");
}

TEST(Vmap, CanBeDifferentiated) {
  check_gradient_of_map(mlp(), {true, true, false, false, false}, {0, 2, 3, 4});
  check_gradient_of_map(conv_net(), {true, true, false}, {0, 1, 2});
  check_gradient_of_map(lstm_net(), {true, false, true, false, true, false}, {0, 1, 2, 3, 4, 5});
}

TEST(Vmap, OfVmapEqualsTwoLoops) {
  for (const Graph& graph : {mlp(), conv_net()}) {
    const std::size_t inputs = graph.inputs().size();
    Flags first(inputs), outer(inputs);
    first[0] = outer[inputs - 1] = outer[0] = true;
    check(vmap(graph, first, 2).graph, outer, 3, "outer");
    check(value_and_grad(total(vmap(graph, first, 2).graph), {0, static_cast<int>(inputs) - 1}), outer, 3,
          "gradient");
  }
}

TEST(Vmap, TakesASymbolForItsSize) {
  for (const Graph& graph : {mlp(), value_and_grad(conv_net(), {0, 1, 2}), lstm_net()}) {
    Flags batched(graph.inputs().size());
    batched[0] = batched[1] = true;
    const Batched mapped = vmap(graph, batched, Dim::symbol("N"));
    ir::verify(mapped.graph);
    SymbolValues values;
    values.set("N", 3);
    const Literals arguments = random_arguments(graph, batched, 3);
    const Literals got =
        eval::evaluate(ir::bind_symbols(mapped.graph, values), std::span<const Literal>(arguments));
    for (std::int64_t i = 0; i < 3; ++i) {
      const Literals wanted = eval::evaluate(graph, arguments_of(arguments, batched, i));
      for (std::size_t o = 0; o < got.size(); ++o)
        expect_close(mapped.outputs[o] ? example(got[o], i) : got[o], wanted[o], "symbol");
    }
  }
}

TEST(Vmap, OfAGraphWithSymbolsLeavesThemOpen) {
  Graph graph;
  const Value x = graph.input("x", {DType::f64, {Dim::symbol("n"), 2}});
  graph.output(ops::mean(x, {0}));
  graph.output(ops::softmax(x, 0));
  const Batched mapped = vmap(graph, {true}, 3);
  ir::verify(mapped.graph);
  SymbolValues values;
  values.set("n", 4);
  const Graph one = ir::bind_symbols(graph, values);
  const Literals arguments = random_arguments(one, {true}, 3);
  const Literals got =
      eval::evaluate(ir::bind_symbols(mapped.graph, values), std::span<const Literal>(arguments));
  for (std::int64_t i = 0; i < 3; ++i) {
    const Literals wanted = eval::evaluate(one, arguments_of(arguments, {true}, i));
    for (std::size_t o = 0; o < 2; ++o) expect_close(example(got[o], i), wanted[o], "n");
  }
}

TEST(Vmap, KeepsCompositesThatTakeMoreExamplesAsTheyAre) {
  const Graph mapped = vmap(lstm_net(), {true, true, true, false, false, false}, 3).graph;
  EXPECT_NE(composite_in(mapped, "lstm"), nullptr);
  EXPECT_EQ(composite_in(vmap(lstm_net(), {true, true, true, true, false, false}, 3).graph, "lstm"), nullptr);
  const Graph net = vmap(conv_net(), {true, false, true}, 3).graph;
  EXPECT_NE(composite_in(net, "max_pool"), nullptr);
  EXPECT_NE(composite_in(net, "log_softmax"), nullptr);
}

TEST(Vmap, KeepsStopGradientAndRemat) {
  Graph graph;
  const Value x = graph.input("x", {DType::f64, {2}}), w = graph.input("w", {DType::f64, {2}});
  const std::vector<Type> types(2, x.type());
  const GraphRef body =
      ir::make_graph("product", types, [](const Values& in) -> Values { return {ops::sin(in[0] * in[1])}; });
  graph.output(ops::sum(ops::remat(body, {x, w})[0] * ops::stop_gradient(x), {0}));
  check_all(graph);
  const Graph mapped = vmap(graph, {true, false}, 3).graph;
  EXPECT_NE(composite_in(mapped, ir::kStopGradient), nullptr);
  EXPECT_NE(composite_in(mapped, ir::kRemat), nullptr);
  check_gradient_of_map(graph, {true, false}, {0, 1});
}

// x² with the gradient 5·cotangent, which no derivative of the body is.
GraphRef odd_backward(const Type& type) {
  return ir::make_graph("odd_backward", std::vector<Type>(3, type),
                        [](const Values& in) -> Values { return {in[2] * 5.0}; });
}

TEST(Vmap, KeepsGradientsThatACompositeBringsAlong) {
  Graph graph;
  const Value x = graph.input("x", {DType::f64, {2}});
  const GraphRef body = ir::make_graph("square", std::vector<Type>{x.type()},
                                       [](const Values& in) -> Values { return {in[0] * in[0]}; });
  const Value y =
      graph.add(ir::Op::composite, {x}, ir::CompositeAttrs{"odd_square", {}}, {body, odd_backward(x.type())});
  graph.output(ops::sum(y, {0}));
  check_all(graph);
  const Literals got = eval::evaluate(value_and_grad(total(vmap(graph, {true}, 2).graph), {0}),
                                      Literals{Literal::of<double>({2, 2}, {1, 2, 3, 4})});
  EXPECT_EQ(got[0].item<double>(), 30);
  EXPECT_EQ(got[1].to_doubles(), std::vector<double>({5, 5, 5, 5}));
}

TEST(Vmap, KeepsGradientsOfRegisteredCompositesItOpens) {
  ir::CompositeDef def{.name = "test_odd_square", .semantics = "x² with a gradient of 5"};
  def.build = [](Graph&, const Values& in, const ir::AttrMap&) -> Values { return {in[0] * in[0]}; };
  def.backward = [](const Values&, const Values&, const ir::MaybeValues& cotangents,
                    const ir::AttrMap&) -> ir::MaybeValues { return {*cotangents[0] * 5.0}; };
  ir::register_composite(std::move(def));
  Graph graph;
  const Value x = graph.input("x", {DType::f64, {2}});
  graph.output(ops::sum(ir::add_composite("test_odd_square", {x})[0], {0}));
  check_all(graph);
  const Batched twice = vmap(vmap(graph, {true}, 1).graph, {true}, 2);
  EXPECT_EQ(composite_in(twice.graph, "test_odd_square"), nullptr);  // its name promises one example
  const Literals got = eval::evaluate(value_and_grad(total(vmap(graph, {true}, 2).graph), {0}),
                                      Literals{Literal::of<double>({2, 2}, {1, 2, 3, 4})});
  EXPECT_EQ(got[1].to_doubles(), std::vector<double>({5, 5, 5, 5}));
}

TEST(Vmap, RunsTheBodyOfAKernelAndRefusesOneWithout) {
  const auto kernel = [](GraphRef body) {
    Graph graph;
    const Value x = graph.input("x", {DType::f64, {2}});
    graph.output(
        ops::kernel_call(graph, {x}, {.name = "twice", .c = "…", .results = {x.type()}}, std::move(body))[0]);
    return graph;
  };
  const std::vector<Type> types{{DType::f64, {2}}};
  check_all(
      kernel(ir::make_graph("twice", types, [](const Values& in) -> Values { return {in[0] + in[0]}; })));
  const std::string message = error_of(ErrorKind::kUnsupported, [&] { vmap(kernel({}), {true}, 2); });
  EXPECT_NE(message.find("vmap of kernel_call"), std::string::npos) << message;
  EXPECT_EQ(vmap(kernel({}), {false}, 2).outputs, Flags({false}));  // the same for all: nothing to map
}

TEST(Vmap, RefusesWrongFlagsAndSizes) {
  error_of(ErrorKind::kInvalidArgument, [] { vmap(mlp(), {true}, 2); });
  error_of(ErrorKind::kInvalidArgument, [] { vmap(mlp(), Flags(5, true), -1); });
}

TEST(Vmap, KeepsNamesPlacesAndShardings) {
  const Graph graph = parse(
      "graph @main(%x: f32[4,2] sharding([\"d\"], []), %v: f32[]) mesh(d=2) {\n"
      "%y = pad(%x, %v) {low=[1,0], high=[1,0], interior=[0,0]} : f32[6,2] sharding([\"d\"], []) "
      "loc(scope=\"net/pad\")\nreturn out: %y\n}\n");
  const Graph mapped = vmap(graph, {false, true}, 3).graph;
  ir::verify(mapped);
  EXPECT_EQ(mapped.input_name(1), "v");
  EXPECT_EQ(mapped.outputs()[0].name, "out");
  const ir::Node& last = mapped.node(mapped.outputs()[0].value.node);
  EXPECT_EQ(last.shardings[0]->dims, std::vector<ir::MeshAxisNames>({{}, {"d"}, {}}));
  for (const ir::Node& node : mapped.nodes()) {
    if (node.op == ir::Op::input) continue;
    ASSERT_NE(node.debug, nullptr) << ir::name(node.op);
    EXPECT_EQ(node.debug->scope, "net/pad") << ir::name(node.op);
  }
}

TEST(Vmap, SharesTheMappedFormOfASharedBody) {
  const std::vector<Type> types{{DType::f64, {}}, {DType::f64, {}}};
  const GraphRef body =
      ir::make_graph("body", types, [](const Values& in) -> Values { return {in[0] * in[1]}; });
  Graph graph;
  Value x = graph.input("x", {DType::f64, {}});
  const Value xs = graph.input("xs", {DType::f64, {3}});
  for (int i = 0; i < 2; ++i) x = ops::scan(body, {x}, {xs}, {}, 3)[0];
  graph.output(x);
  check_all(graph);
  const Graph mapped = vmap(graph, {true, true}, 2).graph;
  std::set<const Graph*> bodies;
  for (const ir::Node& node : mapped.nodes())
    if (node.op == ir::Op::scan) bodies.insert(node.graphs[0].get());
  EXPECT_EQ(bodies.size(), 1u);
}

}  // namespace
}  // namespace systole::autodiff
