// Every built-in composite: its values in f64 against composites_test.py, every other dtype it takes against
// the same numbers within its tolerance, empty operands, text, and what it refuses.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "error_check.h"
#include "eval/eval.h"
#include "systole/ir.h"
#include "systole/ops.h"

namespace systole {
namespace {

using ir::Graph;
using ir::Op;
using ir::Value;
using ir::Values;
using Numbers = std::vector<double>;

double pattern_at(std::int64_t i, int seed) {
  return static_cast<double>((i * i + i * 7 + seed * 5) % 17 - 8) / 8;
}

// Multiples of 1/8 in [-1, 1]: exact in every float dtype.
Literal pattern(DType dtype, const Ints& dims, int seed) {
  Literal out = Literal::uninitialized({dtype, Shape(dims)});
  visit_dtype(dtype, [&]<class T>() {
    std::int64_t i = 0;
    for (T& v : out.mutable_values<T>()) v = static_cast<T>(pattern_at(i++, seed));
  });
  return out;
}

double digest(const Literal& value) {
  double total = 0;
  std::int64_t i = 0;
  for (const double v : value.to_doubles()) total += v * pattern_at(i++, 6);
  return total;
}

// A graph under construction with the values of its inputs.
struct Case {
  DType dtype;
  Graph graph{"main"};
  std::vector<Literal> arguments;

  Value in(Literal value) {
    arguments.push_back(value);
    return graph.input("x" + std::to_string(arguments.size()), value.type());
  }
  Value in(const Ints& dims, int seed) { return in(pattern(dtype, dims, seed)); }
  Value positive(const Ints& dims, int seed, double more) {
    Literal value = pattern(dtype, dims, seed);
    visit_dtype(dtype, [&]<class T>() {
      for (T& v : value.mutable_values<T>()) v = static_cast<T>(std::fabs(static_cast<double>(v)) + more);
    });
    return in(value);
  }
  Value number(double value) { return in(Literal::full({dtype, {}}, value)); }
  Value indices(const Ints& dims, std::vector<std::int32_t> values) {
    return in(Literal::of<std::int32_t>(Shape(dims), std::span<const std::int32_t>(values)));
  }
  std::vector<Literal> run(const Values& results) {
    for (const Value& v : results) graph.output(v);
    ir::verify(graph);
    return eval::evaluate(graph, arguments);
  }
};

struct Expectation {
  std::string name;
  std::function<Values(Case&)> build;
  std::vector<Numbers> results;  // of composites_test.py
};

void PrintTo(const Expectation& e, std::ostream* out) { *out << e.name; }

std::vector<Expectation> expectations() {
  using namespace ops;
  return {
      {"softmax",
       [](Case& c) { return Values{softmax(c.in({2, 3}, 1))}; },
       {{0.20612478011030594, 0.5603052441689611, 0.2335699757207329, 0.08450926772877267, 0.4863172582192799,
         0.4291734740519474}}},
      {"softmax_axis_0",
       [](Case& c) { return Values{softmax(c.in({2, 3}, 1), -2)}; },
       {{0.6224593312018546, 0.4378234991142019, 0.2689414213699951, 0.37754066879814546, 0.5621765008857981,
         0.7310585786300049}}},
      {"log_softmax",
       [](Case& c) { return Values{log_softmax(c.in({2, 3}, 1))}; },
       {{-1.5792735648813254, -0.5792735648813254, -1.4542735648813254, -2.4708940733695384,
         -0.7208940733695385, -0.8458940733695385}}},
      {"gelu",
       [](Case& c) { return Values{gelu(c.in({5}, 2))}; },
       {{0.14967658142073093, -0.16693858374594683, 0.2423136625022714, -0.10032341857926907,
         -0.16624095565543784}}},
      {"gelu_tanh",
       [](Case& c) { return Values{gelu(c.in({5}, 2), true)}; },
       {{0.149675350701685, -0.16704731946154494, 0.24230776689151162, -0.100324649298315,
         -0.16627885004239945}}},
      {"layer_norm",
       [](Case& c) { return Values{layer_norm(c.in({2, 3}, 1), c.in({3}, 2), c.in({3}, 3))}; },
       {{0.6642735159433142, -1.4792378236640005, 0.7892735159433142, 0.5221746242146139, -0.9360493418049175,
         1.2352169171902574}}},
      {"layer_norm_two_axes",
       [](Case& c) {
         return Values{layer_norm(c.in({2, 2, 2}, 1), c.in({2, 2}, 2), c.in({2, 2}, 3), 1e-3, 2)};
       },
       {{0.8028341029294492, -1.6139354546334101, 0.9783502308788348, 0.6780967676963134, 1.03290012565857,
         -0.6552769891903298, 1.236850188487855, 0.8065936768000914}}},
      {"layer_norm_grad",
       [](Case& c) {
         const auto g = layer_norm_grad(c.in({2, 3}, 4), c.in({2, 3}, 1), c.in({3}, 2));
         return Values{g.x, g.scale, g.bias};
       },
       {{0.01078993241953452, 0.0015284907875058318, -0.012318423207040463, -0.032502181984793474,
         -0.42261196289266495, 0.4551141448774584},
        {-0.88448529299983, 1.0168514542880842, 0.5945912016625909},
        {0.375, 1.0, 0.0}}},
      {"batch_norm_train",
       [](Case& c) {
         const auto r = batch_norm_train(c.in({3, 2, 2}, 1), c.in({2}, 2), c.in({2}, 3));
         return Values{r.y, r.mean, r.variance};
       },
       {{0.6711596634980012, -0.7197207126777708, 0.7267524825440008, 0.971273852962204, 1.227087853957998,
         -0.8606369264811021, 1.227087853957998, 0.971273852962204, 0.7267524825440008, -0.7197207126777708,
         0.6711596634980012, -1.1424693540877646},
        {0.08333333333333333, 0.20833333333333331},
        {0.3159722222222222, 0.6024305555555556}}},
      {"batch_norm_train_axis_1",
       [](Case& c) {
         const auto r = batch_norm_train(c.in({3, 2, 2}, 1), c.in({2}, 2), c.in({2}, 3), 1e-5, 1);
         return Values{r.y, r.mean, r.variance};
       },
       {{0.4960393759133382, 1.0013202080288872, -0.0579142112971745, 0.662407496338421, 1.1276404160577744,
         1.0644803120433308, -1.3544932850412466, 0.662407496338421, 0.5591994799277819, 1.0013202080288872,
         0.08615013022994461, -1.4985576265683656},
        {0.375, -0.08333333333333333},
        {0.24479166666666666, 0.576388888888889}}},
      {"batch_norm_inference",
       [](Case& c) {
         return Values{batch_norm_inference(c.in({3, 2, 2}, 1), c.in({2}, 2), c.in({2}, 3), c.in({2}, 4),
                                            c.positive({2}, 5, 0.5))};
       },
       {{0.9633874637781, -0.4286080317188266, 1.00758119566715, 0.6430401585941329, 1.4053247826686,
         -0.5179120475782399, 1.4053247826686, 0.6430401585941329, 1.00758119566715, -0.4286080317188266,
         0.9633874637781, -0.6965200792970665}}},
      {"attention",
       [](Case& c) {
         return Values{attention(c.in({1, 2, 2, 3}, 1), c.in({1, 2, 3, 3}, 2), c.in({1, 2, 3, 2}, 3))};
       },
       {{0.5848615180819616, 0.024984787229350894, 0.43970138719943397, -0.0446956723221551,
         0.5867344064002131, 0.13914095584124744, 0.7343706825731635, 0.02838719183366649}}},
      {"attention_causal",
       [](Case& c) {
         return Values{attention(c.in({1, 2, 2, 3}, 1), c.in({1, 2, 3, 3}, 2), c.in({1, 2, 3, 2}, 3), true)};
       },
       {{0.9486555884382556, 0.11827794219127781, 0.43970138719943397, -0.0446956723221551,
         0.3595425243193725, 0.1502859223003922, 0.7343706825731635, 0.02838719183366649}}},
      {"attention_causal_scaled",
       [](Case& c) {
         return Values{
             attention(c.in({1, 2, 2, 3}, 1), c.in({1, 2, 3, 3}, 2), c.in({1, 2, 3, 2}, 3), true, 0.25)};
       },
       {{0.9423729025859606, 0.08686451292980256, 0.5472457177236209, -0.019660868694166993,
         0.4378234991142019, 0.1013603130536238, 0.6757536769352144, 0.058089468005348414}}},
      {"cross_entropy",
       [](Case& c) { return Values{cross_entropy(c.in({2, 3}, 1), c.indices({2}, {2, 0}))}; },
       {{1.4542735648813254, 2.4708940733695384}}},
      {"cross_entropy_rows_of_rank_2",
       [](Case& c) { return Values{cross_entropy(c.in({2, 2, 3}, 1), c.indices({2, 2}, {0, 1, 2, 1}))}; },
       {{1.5792735648813254, 0.7208940733695385, 1.5294154979993428, 2.037754401072827}}},
      {"embedding",
       [](Case& c) { return Values{embedding(c.in({3, 2}, 1), c.indices({3}, {2, 0, 2}))}; },
       {{0.875, 0.75, -0.375, 0.625, 0.875, 0.75}}},
      {"lstm",
       [](Case& c) {
         const auto r = lstm(c.in({2, 1, 3}, 1), c.in({1, 2}, 2), c.in({1, 2}, 3), c.in({8, 3}, 4),
                             c.in({8, 2}, 5), c.in({8}, 6), c.in({8}, 7));
         return Values{r.y, r.h, r.c};
       },
       {{0.11413633337700597, 0.1298230175781364, 0.11887254805789711, 0.03530294541015801},
        {0.11887254805789711, 0.03530294541015801},
        {0.21085676985089336, 0.04387021431501076}}},
      {"gru",
       [](Case& c) {
         const auto r = gru(c.in({2, 1, 3}, 1), c.in({1, 2}, 2), c.in({6, 3}, 4), c.in({6, 2}, 5),
                            c.in({6}, 6), c.in({6}, 7));
         return Values{r.y, r.h};
       },
       {{0.0783818887687134, -0.29813907058886924, -0.14009510895103605, -0.25991474795294883},
        {-0.14009510895103605, -0.25991474795294883}}},
      {"max_pool",
       [](Case& c) { return Values{max_pool(c.in({1, 4, 3, 1}, 1), {2, 2}, {2, 1}, {1, 0}, {0, 1})}; },
       {{0.625, 0.625, -0.25, 0.875, 0.875, 0.75}}},
      {"avg_pool",
       [](Case& c) { return Values{avg_pool(c.in({1, 4, 3, 1}, 1), {2, 2}, {2, 1}, {1, 0}, {0, 1})}; },
       {{0.0625, 0.09375, -0.0625, 0.0, 0.125, 0.125}}},
      {"avg_pool_elements_only",
       [](Case& c) { return Values{avg_pool(c.in({1, 4, 3, 1}, 1), {2, 2}, {2, 1}, {1, 0}, {0, 1}, false)}; },
       {{0.125, 0.1875, -0.25, 0.0, 0.125, 0.25}}},
      {"sgd_update",
       [](Case& c) { return Values{sgd_update(c.in({3}, 1), c.in({3}, 2), c.number(0.125), 0.1)}; },
       {{-0.4015625, 0.7265625, -0.29375}}},
      {"momentum_update",
       [](Case& c) {
         const auto r = momentum_update(c.in({3}, 1), c.in({3}, 2), c.in({3}, 3), c.number(0.125), 0.9, 0.1);
         return Values{r.parameter, r.velocity};
       },
       {{-0.5, 0.7546875, -0.40625}, {1.0, -1.0375, 1.25}}},
      {"momentum_update_nesterov",
       [](Case& c) {
         const auto r =
             momentum_update(c.in({3}, 1), c.in({3}, 2), c.in({3}, 3), c.number(0.125), 0.9, 0.1, true);
         return Values{r.parameter, r.velocity};
       },
       {{-0.5140625, 0.84328125, -0.434375}, {1.0, -1.0375, 1.25}}},
      {"adam_update",
       [](Case& c) {
         const auto r = adam_update(c.in({3}, 1), c.in({3}, 2), c.in({3}, 3), c.positive({3}, 4, 0),
                                    c.number(0.125), c.number(3), 0.9, 0.999, 1e-8, 0.1);
         return Values{r.parameter, r.m, r.v};
       },
       {{-0.40084401608258996, 0.6376234937555814, -0.2834021777283402},
        {0.80875, -0.30625, 0.935},
        {0.62442015625, 0.37528515625, 0.4996225}}},
      {"adamw_update",
       [](Case& c) {
         const auto r = adamw_update(c.in({3}, 1), c.in({3}, 2), c.in({3}, 3), c.positive({3}, 4, 0),
                                     c.number(0.125), c.number(3));
         return Values{r.parameter, r.m, r.v};
       },
       {{-0.4004947386574684, 0.6370980564279783, -0.2831783808886231},
        {0.8125, -0.3125, 0.9375},
        {0.6244375, 0.375390625, 0.499640625}}},
  };
}

const ir::Node& composite_node(const Graph& graph) {
  const auto& nodes = graph.nodes();
  const auto it =
      std::find_if(nodes.begin(), nodes.end(), [](const ir::Node& n) { return n.op == Op::composite; });
  EXPECT_NE(it, nodes.end());
  return *it;
}

void expect_primitives_only(const Graph& graph) {
  for (const ir::Node& node : graph.nodes()) {
    EXPECT_NE(node.op, Op::composite);
    for (const ir::GraphRef& g : node.graphs) expect_primitives_only(*g);
  }
}

class Composite : public testing::TestWithParam<Expectation> {};

TEST_P(Composite, GivesTheNumbersOfTheFixtureScriptInF64) {
  Case c{DType::f64};
  const std::vector<Literal> got = c.run(GetParam().build(c));
  ASSERT_EQ(got.size(), GetParam().results.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const Numbers values = got[i].to_doubles(), &wanted = GetParam().results[i];
    ASSERT_EQ(values.size(), wanted.size());
    for (std::size_t j = 0; j < values.size(); ++j) EXPECT_NEAR(values[j], wanted[j], 1e-14) << i << " " << j;
  }
}

TEST_P(Composite, StaysWithinItsToleranceInEveryFloat) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f8e4m3fn, DType::f8e5m2}) {
    Case c{dtype};
    const Values results = GetParam().build(c);
    const ir::CompositeDef& def = *ir::find_composite(composite_node(c.graph).as<ir::CompositeAttrs>().name);
    const std::vector<Literal> got = c.run(results);
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].dtype(), dtype);
      const Numbers values = got[i].to_doubles(), &wanted = GetParam().results[i];
      // Half an eps is the rounding of the result itself; f32 shows whether the arithmetic before it is
      // sound.
      const double c_eps = (dtype == DType::f32 ? def.tolerance : 2) * epsilon(dtype);
      for (std::size_t j = 0; j < values.size(); ++j)
        EXPECT_NEAR(values[j], wanted[j], c_eps * std::max(1.0, std::fabs(wanted[j])))
            << name(dtype) << " " << j;
    }
  }
}

TEST_P(Composite, HasABodyOfPrimitives) {
  Case c{DType::bf16};
  GetParam().build(c);
  const ir::Node& node = composite_node(c.graph);
  ASSERT_EQ(node.graphs.size(), 1u);
  ir::verify(*node.graphs[0]);
  expect_primitives_only(*node.graphs[0]);
}

TEST_P(Composite, SurvivesPrintingAndParsing) {
  Case c{DType::f16};
  for (const Value& v : GetParam().build(c)) c.graph.output(v);
  const std::string text = ir::print(c.graph);
  const Graph parsed = ir::parse(text);
  EXPECT_TRUE(parsed.same_structure(c.graph)) << text;
  EXPECT_EQ(ir::print(parsed), text);
}

INSTANTIATE_TEST_SUITE_P(BuiltIn, Composite, testing::ValuesIn(expectations()),
                         [](const auto& info) { return info.param.name; });

TEST(Composites, AreAllRegistered) {
  std::set<std::string> names;
  for (const ir::CompositeDef* def : ir::all_composites()) {
    names.insert(def->name);
    EXPECT_FALSE(def->semantics.empty()) << def->name;
    EXPECT_LE(def->tolerance, 16) << def->name;
  }
  for (const char* name : {"softmax",
                           "log_softmax",
                           "gelu",
                           "layer_norm",
                           "layer_norm_grad",
                           "batch_norm_train",
                           "batch_norm_inference",
                           "batch_norm_grad",
                           "attention",
                           "attention_grad",
                           "cross_entropy",
                           "embedding",
                           "lstm",
                           "lstm_grad",
                           "gru",
                           "gru_grad",
                           "max_pool",
                           "avg_pool",
                           "conv_input_grad",
                           "conv_weight_grad",
                           "sgd_update",
                           "momentum_update",
                           "adam_update",
                           "adamw_update"})
    EXPECT_TRUE(names.contains(name)) << name;
}

// Separate from the table: the first column's gradient is all cancellation, so only f64 can be compared.
TEST(BatchNormGrad, MatchesJaxThroughTheStatistics) {
  Case c{DType::f64};
  const Value x = c.in({3, 2, 2}, 1), scale = c.in({2}, 2), bias = c.in({2}, 3), grad = c.in({3, 2, 2}, 8);
  const auto forward = ops::batch_norm_train(x, scale, bias);
  const auto g = ops::batch_norm_grad(grad, x, scale, forward.mean, forward.variance);
  const std::vector<Literal> got = c.run({g.x, g.scale, g.bias});
  const std::vector<Numbers> wanted = {
      {-6.451006486052346e-06, -0.6178831862781838, -4.691641080759035e-06, 0.16915090352929937,
       1.1142647566853014e-05, -0.6834693604288075, 1.1142647566853014e-05, 0.16915090352929937,
       -4.691641080759035e-06, -0.6178831862781838, -6.451006486052346e-06, 1.5809339259265764},
      {3.3726310221239806, 2.489519777192185},
      {1.25, -0.125}};
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < wanted[i].size(); ++j)
      EXPECT_NEAR(got[i].to_doubles()[j], wanted[i][j], 1e-13) << i << " " << j;
}

TEST(Softmax, OfMinusInfinityOnlyIsNaNAndOfLargeValuesIsExact) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  Case c{DType::f32};
  const Value x = c.in(Literal::of<float>({3, 2}, {-inf, -inf, 3e38f, 3e38f, -inf, 1}));
  const std::vector<Literal> got = c.run({ops::softmax(x), ops::log_softmax(x)});
  const auto p = got[0].values<float>(), l = got[1].values<float>();
  EXPECT_TRUE(std::isnan(p[0]) && std::isnan(p[1]) && std::isnan(l[0]));
  EXPECT_EQ(p[2], 0.5f);
  EXPECT_EQ(p[4], 0.0f);
  EXPECT_EQ(p[5], 1.0f);
  EXPECT_EQ(l[4], -inf);
  EXPECT_EQ(l[5], 0.0f);
}

// By JAX's logsumexp; small floats have theirs in f32.
TEST(Attention, GivesTheLogSumExpOfItsScores) {
  const Numbers wanted = {1.0301199782997057, 1.0309584746865754, 0.8404448464686398, 0.9883366306421248};
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    Case c{dtype};
    const Values operands{c.in({1, 2, 2, 3}, 1), c.in({1, 2, 3, 3}, 2), c.in({1, 2, 3, 2}, 3)};
    const std::vector<Literal> got = c.run(ir::add_composite("attention", operands, {{"scale", 0.25}}));
    EXPECT_EQ(got[1].dtype(), dtype == DType::f64 ? DType::f64 : DType::f32);
    EXPECT_EQ(got[1].shape(), (Shape{1, 2, 2}));
    for (std::size_t i = 0; i < wanted.size(); ++i)
      EXPECT_NEAR(got[1].to_doubles()[i], wanted[i], dtype == DType::f64 ? 1e-14 : 1e-6);
  }
}

// By JAX's vjp of the formula.
TEST(Attention, GradientIsThatOfTheFormula) {
  const std::vector<Numbers> wanted = {
      {-0.010917124457522215, 0.00545856222876114, -0.024563530029424973, -0.04628113648977233,
       0.03113617594008205, -0.020178676302430698, -0.005193258849728814, 0.025966294248643912,
       0.05712584734701657, -0.0017704398521491069, -0.04658806027435096, -0.0057252795968581235},
      {0.061195205267057545, -0.06665376749581867, -0.03997631942030964, -0.023882369356143313,
       0.029340931584904414, 0.007993888639526037, -0.03731283591091425, 0.03731283591091425,
       0.03198243078078364, -0.04520501120884703, 0.04166413150454879, -0.0037770011177354085,
       0.02000489323834862, -0.02654406072224976, -0.036543187635062105, 0.025200117970498433,
       -0.015120070782299058, 0.04032018875279749},
      {-0.3807632719614974, 0.4021156629907837, -0.47959257340731654, 0.4435960277468441, -0.2646441546311861,
       0.5292883092623722, 0.536733490839035, 0.5385448475021424, 0.47670047033592555, 0.5829494903777946,
       0.23656603882503935, 0.378505662120063}};
  for (const auto& [dtype, tolerance] :
       {std::pair{DType::f64, 1e-14}, {DType::f32, 1e-6}, {DType::f16, 2e-3}, {DType::bf16, 1e-2}}) {
    Case c{dtype};
    Values operands{c.in({1, 2, 2, 3}, 1), c.in({1, 2, 3, 3}, 2), c.in({1, 2, 3, 2}, 3)};
    const Values forward = ir::add_composite("attention", operands, {{"causal", true}});
    operands.insert(operands.end(), {forward[0], forward[1], c.in({1, 2, 2, 2}, 4)});
    const Values grads = ir::add_composite("attention_grad", operands, {{"causal", true}});
    const ir::Node& node = c.graph.node(grads[0].id().node);
    expect_primitives_only(*node.graphs[0]);
    const std::vector<Literal> got = c.run(grads);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(got[i].dtype(), dtype);
      const Numbers values = got[i].to_doubles();
      ASSERT_EQ(values.size(), wanted[i].size());
      for (std::size_t j = 0; j < values.size(); ++j) EXPECT_NEAR(values[j], wanted[i][j], tolerance);
    }
  }
}

TEST(Attention, GradientRefusesALogSumExpOfAnotherKind) {
  Graph graph;
  const auto in = [&](DType dtype, Shape shape) { return graph.input({}, {dtype, std::move(shape)}); };
  const Value x = in(DType::bf16, {1, 2, 3, 4});
  const auto refused = [&](ErrorKind kind, Value lse) {
    return error_of(kind, [&] { ir::add_composite("attention_grad", Values{x, x, x, x, lse, x}); });
  };
  EXPECT_NE(refused(ErrorKind::kDType, in(DType::bf16, {1, 2, 3})).find("lse"), std::string::npos);
  refused(ErrorKind::kShape, in(DType::f32, {1, 2, 4}));
}

TEST(Attention, OfAQueryThatSeesNoKeyIsNaN) {
  Case c{DType::f32};
  const Value y = ops::attention(c.in({1, 1, 3, 2}, 1), c.in({1, 1, 2, 2}, 2), c.in({1, 1, 2, 1}, 3), true);
  const std::vector<Literal> got = c.run({y});
  const auto v = got[0].values<float>();
  EXPECT_TRUE(std::isnan(v[0]));
  EXPECT_EQ(v[1], static_cast<float>(pattern_at(0, 3)));  // the first key only
  EXPECT_FALSE(std::isnan(v[2]));
}

TEST(CrossEntropy, IsNaNForLabelsThatAreNoClassesInEveryIntegerDtype) {
  const auto loss = [](const Literal& label) {
    Case c{DType::f64};
    const Value x = c.in({1, 3}, 1);
    return c.run({ops::cross_entropy(x, c.in(label))})[0].to_doubles()[0];
  };
  for (const DType dtype : {DType::i8, DType::u8, DType::i32, DType::u64}) {
    for (const int label : {3, 100})
      EXPECT_TRUE(std::isnan(loss(Literal::full({dtype, {1}}, label)))) << name(dtype) << " " << label;
    EXPECT_FALSE(std::isnan(loss(Literal::full({dtype, {1}}, 2)))) << name(dtype);
  }
  EXPECT_TRUE(std::isnan(loss(Literal::of<std::int8_t>({1}, {-1}))));
  EXPECT_TRUE(std::isnan(loss(Literal::of<std::uint64_t>({1}, {~std::uint64_t{0}}))));
}

TEST(CrossEntropy, IsInfiniteForAnImpossibleLabelAndFiniteBesideOne) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  Case c{DType::f32};
  const Value x = c.in(Literal::of<float>({2, 2}, {-inf, 0, -inf, 0}));
  const std::vector<Literal> got = c.run({ops::cross_entropy(x, c.indices({2}, {0, 1}))});
  EXPECT_EQ(got[0].values<float>()[0], inf);
  EXPECT_EQ(got[0].values<float>()[1], 0);
}

TEST(MaxPool, LetsNaNWinAndPaddingNever) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  Case c{DType::f32};
  const std::vector<Literal> got =
      c.run({ops::max_pool(c.in(Literal::of<float>({1, 3, 1}, {-5, -7, nan})), {2}, {1}, {1}, {0}),
             ops::max_pool(c.in(Literal::of<std::int8_t>({1, 2, 1}, {-128, -3})), {2}, {1}, {1}, {0})});
  EXPECT_EQ(got[0].values<float>()[0], -5);
  EXPECT_EQ(got[0].values<float>()[1], -5);
  EXPECT_TRUE(std::isnan(got[0].values<float>()[2]));
  EXPECT_EQ(got[1].values<std::int8_t>()[0], -128);
  EXPECT_EQ(got[1].values<std::int8_t>()[1], -3);
}

TEST(Adam, KeepsItsDigitsInTheFirstF32Step) {
  Case c{DType::f32};
  const Value zero = c.in(Literal::full({DType::f32, {3}}, 0));
  const auto r = ops::adam_update(c.in({3}, 1), c.in({3}, 2), zero, zero, c.number(0.125), c.number(1));
  const Numbers got = c.run({r.parameter})[0].to_doubles();
  // With 0.999^1 rounded to f32 before the subtraction the error would be 8e-7.
  const Numbers wanted = {-0.4999999950000002, 0.7499999985714285, -0.3749999966666667};
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(got[i], wanted[i], 1.2e-7);
}

TEST(Adam, UpdatesBf16ParametersWithF32Moments) {
  Case c{DType::bf16};
  const Value parameter = c.in({3}, 1), grad = c.in({3}, 2);
  c.dtype = DType::f32;
  const auto r = ops::adamw_update(parameter, grad, c.in({3}, 3), c.positive({3}, 4, 0), c.number(0.125),
                                   c.number(1000));
  EXPECT_EQ(r.parameter.dtype(), DType::bf16);
  EXPECT_EQ(r.m.dtype(), DType::f32);
  EXPECT_EQ(r.v.dtype(), DType::f32);
  EXPECT_NEAR(c.run({r.m})[0].to_doubles()[0], 0.8125, 1e-6);
}

struct Convolution {
  Ints x, kernel;
  ir::ConvolutionAttrs attrs;
  double y, by_x, by_kernel;  // digests of composites_test.py
};

std::vector<Convolution> convolutions() {
  return {
      {{2, 5, 4, 3}, {3, 2, 3, 2}, {.layout = "b01f_01io->b01f"}, 9.388671875, 8.736328125, -5.318359375},
      {{2, 5, 7, 3},
       {3, 2, 3, 2},
       {.layout = "b01f_01io->b01f", .strides = {2, 3}, .pad_low = {1, 0}, .pad_high = {2, 1}},
       2.28125,
       4.7265625,
       -0.5625},
      {{2, 4, 6, 5},
       {6, 2, 3, 3},
       {.layout = "bf01_oi01->bf01",
        .strides = {2, 2},
        .pad_low = {1, 1},
        .pad_high = {1, 0},
        .feature_groups = 2},
       9.255859375,
       1.771484375,
       -0.3984375},
      {{1, 5, 5, 4},
       {2, 3, 1, 8},
       {.layout = "b01f_01io->b01f",
        .strides = {1, 3},
        .pad_low = {2, -1},
        .pad_high = {-1, 3},
        .operand_dilation = {1, 2},
        .kernel_dilation = {2, 1},
        .feature_groups = 4},
       -1.333984375,
       1.66015625,
       0.3828125},
      {{3, 6, 5, 2},
       {2, 3, 3, 2},
       {.layout = "f01b_o0i1->01bf",
        .strides = {3, 2},
        .pad_low = {4, 0},
        .pad_high = {0, 3},
        .kernel_dilation = {1, 3},
        .reverse = {1, 0}},
       3.9140625,
       6.509765625,
       -1.873046875},
      {{2, 4, 9},
       {4, 2, 4},
       {.layout = "bf0_oi0->bf0",
        .strides = {4},
        .pad_low = {2},
        .operand_dilation = {2},
        .kernel_dilation = {2},
        .reverse = {1},
        .feature_groups = 2},
       -6.869140625,
       8.93359375,
       0.798828125},
  };
}

TEST(ConvolutionGrads, MatchJaxForStridesPaddingDilationGroupsAndLayouts) {
  for (const Convolution& conv : convolutions()) {
    SCOPED_TRACE(conv.attrs.layout);
    for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
      Case c{dtype};
      const Value x = c.in(conv.x, 1), kernel = c.in(conv.kernel, 2);
      const Type operands[] = {x.type(), kernel.type()};
      const Value grad =
          c.in(ir::infer_types(Op::convolution, operands, conv.attrs, {}, {})[0].shape.dims(), 3);
      const Value y = ops::convolution(x, kernel, conv.attrs);
      const std::vector<Literal> got = c.run({y, ops::conv_input_grad(grad, kernel, x.shape(), conv.attrs),
                                              ops::conv_weight_grad(grad, x, kernel.shape(), conv.attrs)});
      EXPECT_EQ(got[1].type(), x.type());
      EXPECT_EQ(got[2].type(), kernel.type());
      // Sums of multiples of 1/64: exact but for the rounding of bf16 results.
      const double slack = dtype == DType::bf16 ? 0.25 : 0;
      EXPECT_NEAR(digest(got[0]), conv.y, slack);
      EXPECT_NEAR(digest(got[1]), conv.by_x, slack);
      EXPECT_NEAR(digest(got[2]), conv.by_kernel, slack);
      EXPECT_TRUE(ir::parse(ir::print(c.graph)).same_structure(c.graph));
      for (const ir::Node& node : c.graph.nodes())
        for (const ir::GraphRef& body : node.graphs) expect_primitives_only(*body);
    }
  }
}

TEST(ConvolutionGrads, OfAWideResultReturnTheNarrowOperandsDtype) {
  Case c{DType::f8e4m3fn};
  const Value x = c.in({1, 4, 1}, 1), kernel = c.in({2, 1, 1}, 2);
  const ir::ConvolutionAttrs attrs{.layout = "b0f_0io->b0f", .dtype = DType::f32};
  const Value y = ops::convolution(x, kernel, attrs);
  EXPECT_EQ(y.dtype(), DType::f32);
  EXPECT_EQ(ops::conv_input_grad(y, kernel, x.shape(), attrs).type(), x.type());
  EXPECT_EQ(ops::conv_weight_grad(y, x, kernel.shape(), attrs).type(), kernel.type());
}

TEST(ConvolutionGrads, AreZeroWhereNothingWasComputed) {
  Case c{DType::f32};
  const ir::ConvolutionAttrs attrs{.layout = "b0f_0io->b0f"};
  // A kernel longer than the image gives no result elements.
  const Value grad = c.in({2, 0, 1}, 1), x = c.in({2, 2, 3}, 1), kernel = c.in({5, 3, 1}, 1);
  const std::vector<Literal> got = c.run({ops::conv_input_grad(grad, kernel, x.shape(), attrs),
                                          ops::conv_weight_grad(grad, x, kernel.shape(), attrs)});
  EXPECT_TRUE(got[0].same_bits(Literal({DType::f32, {2, 2, 3}})));
  EXPECT_TRUE(got[1].same_bits(Literal({DType::f32, {5, 3, 1}})));
}

TEST(Composites, TakeEmptyOperands) {
  Case c{DType::f32};
  const Value pixels = c.in({0, 4, 4, 2}, 1), feature = c.in({2}, 1), rows = c.in({0, 3}, 1),
              row = c.in({3}, 1);
  const auto bn = ops::batch_norm_train(pixels, feature, feature);
  const auto ln = ops::layer_norm_grad(rows, rows, row);
  const auto lstm = ops::lstm(c.in({0, 2, 3}, 1), c.in({2, 2}, 2), c.in({2, 2}, 3), c.in({8, 3}, 1),
                              c.in({8, 2}, 1), c.in({8}, 1), c.in({8}, 1));
  const auto gru = ops::gru(c.in({3, 0, 3}, 1), c.in({0, 2}, 1), c.in({6, 3}, 1), c.in({6, 2}, 1),
                            c.in({6}, 1), c.in({6}, 1));
  const Value no_keys = ops::attention(c.in({1, 1, 2, 3}, 1), c.in({1, 1, 0, 3}, 1), c.in({1, 1, 0, 2}, 1));
  const Value empty = c.in({0}, 1);
  const auto adam = ops::adam_update(empty, empty, empty, empty, c.number(1), c.number(1));
  const ir::ConvolutionAttrs attrs{.layout = "b01f_01io->b01f"};
  const Value kernel = c.in({3, 3, 2, 5}, 1), grad = c.in({0, 2, 2, 5}, 1);
  const std::vector<Literal> got = c.run({ops::softmax(rows),
                                          ops::softmax(c.in({3, 0}, 1)),
                                          ops::gelu(rows),
                                          ln.x,
                                          ln.scale,
                                          bn.y,
                                          lstm.y,
                                          lstm.h,
                                          lstm.c,
                                          gru.y,
                                          gru.h,
                                          no_keys,
                                          ops::max_pool(pixels, {2, 2}, {2, 2}),
                                          ops::avg_pool(pixels, {2, 2}, {2, 2}, {}, {}, false),
                                          adam.parameter,
                                          ops::cross_entropy(rows, c.indices({0}, {})),
                                          ops::embedding(c.in({3, 2}, 1), c.indices({0, 4}, {})),
                                          ops::conv_input_grad(grad, kernel, pixels.shape(), attrs),
                                          ops::conv_weight_grad(grad, pixels, kernel.shape(), attrs),
                                          ops::log_softmax(rows, 0)});
  const std::vector<Shape> shapes = {{0, 3},       {3, 0},       {0, 3},       {0, 3},       {3},
                                     {0, 4, 4, 2}, {0, 2, 2},    {2, 2},       {2, 2},       {3, 0, 2},
                                     {0, 2},       {1, 1, 2, 2}, {0, 2, 2, 2}, {0, 2, 2, 2}, {0},
                                     {0},          {0, 4, 2},    {0, 4, 4, 2}, {3, 3, 2, 5}, {0, 3}};
  ASSERT_EQ(got.size(), shapes.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i].shape(), shapes[i]) << i;
  EXPECT_EQ(got[4].to_doubles(), Numbers(3, 0.0));
  EXPECT_EQ(got[7].to_doubles(), pattern(DType::f32, {2, 2}, 2).to_doubles());  // no step leaves the state
  EXPECT_EQ(got[8].to_doubles(), pattern(DType::f32, {2, 2}, 3).to_doubles());
  EXPECT_EQ(got[11].to_doubles(), Numbers(4, 0.0));
  EXPECT_EQ(got[18].to_doubles(), Numbers(90, 0.0));
}

TEST(Composites, CarryASymbolicBatchAndBindIt) {
  const Dim n = Dim::symbol("N");
  Graph graph;
  const Value x = graph.input("x", {DType::f32, {n, 4, 4, 2}}), s = graph.input("s", {DType::f32, {2}});
  const Value kernel = graph.input("k", {DType::f32, {3, 3, 2, 2}});
  const ir::ConvolutionAttrs attrs{
      .layout = "b01f_01io->b01f", .strides = {2, 2}, .pad_low = {1, 1}, .pad_high = {1, 1}};
  const Value y = ops::convolution(x, kernel, attrs);
  EXPECT_EQ(y.shape(), (Shape{n, 2, 2, 2}));
  const auto bn = ops::batch_norm_train(x, s, s);
  EXPECT_EQ(bn.y.shape(), x.shape());
  EXPECT_EQ(ops::layer_norm(x, s, s).shape(), x.shape());
  EXPECT_EQ(ops::softmax(x).shape(), x.shape());
  EXPECT_EQ(ops::max_pool(x, {2, 2}, {2, 2}).shape(), (Shape{n, 2, 2, 2}));
  EXPECT_EQ(ops::avg_pool(x, {3, 3}, {1, 1}, {1, 1}, {1, 1}, false).shape(), (Shape{n, 4, 4, 2}));
  const Value by_x = ops::conv_input_grad(y, kernel, x.shape(), attrs);
  EXPECT_EQ(by_x.shape(), x.shape());
  EXPECT_EQ(ops::conv_weight_grad(y, x, kernel.shape(), attrs).shape(), kernel.shape());
  graph.output(bn.mean);
  graph.output(bn.variance);
  graph.output(by_x);
  ir::verify(graph);
  EXPECT_TRUE(ir::parse(ir::print(graph)).same_structure(graph));

  SymbolValues three;
  three.set("N", 3);
  const Graph bound = ir::bind_symbols(graph, three);
  EXPECT_TRUE(bound.is_static());
  const std::vector<Literal> arguments = {pattern(DType::f32, {3, 4, 4, 2}, 1), pattern(DType::f32, {2}, 2),
                                          pattern(DType::f32, {3, 3, 2, 2}, 2)};
  const std::vector<Literal> got = eval::evaluate(bound, arguments);
  double mean = 0;
  for (std::int64_t i = 0; i < 96; i += 2) mean += pattern_at(i, 1) / 48;
  EXPECT_NEAR(got[0].to_doubles()[0], mean, 1e-6);
  EXPECT_EQ(got[2].shape(), (Shape{3, 4, 4, 2}));
}

TEST(Composites, CarrySymbolicLengths) {
  const Dim b = Dim::symbol("B"), t = Dim::symbol("T"), u = Dim::symbol("U");
  Graph graph;
  const auto in = [&](Shape shape) { return graph.input({}, {DType::bf16, std::move(shape)}); };
  EXPECT_EQ(ops::attention(in({b, 2, t, 8}), in({b, 2, u, 8}), in({b, 2, u, 4}), true).shape(),
            (Shape{b, 2, t, 4}));
  const auto r = ops::lstm(in({t, b, 3}), in({b, 2}), in({b, 2}), in({8, 3}), in({8, 2}), in({8}), in({8}));
  EXPECT_EQ(r.y.shape(), (Shape{t, b, 2}));
  const Value labels = graph.input({}, {DType::i32, {b, t}});
  EXPECT_EQ(ops::cross_entropy(in({b, t, 7}), labels).shape(), (Shape{b, t}));
  EXPECT_EQ(ops::embedding(in({7, 3}), labels).shape(), (Shape{b, t, 3}));
  ir::verify(graph);
}

TEST(Composites, RefuseWithTheirNameAndTheOperands) {
  Graph graph;
  const auto in = [&](DType dtype, Shape shape) { return graph.input({}, {dtype, std::move(shape)}); };
  const Value x = in(DType::f32, {2, 3}), ints = in(DType::i32, {2, 3}), wide = in(DType::f64, {3});
  const auto contains = [](const std::string& text, std::initializer_list<const char*> parts) {
    for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
  };
  contains(error_of(ErrorKind::kInvalidArgument, [&] { ops::softmax(x, 2); }), {"softmax", "axis"});
  contains(error_of(ErrorKind::kDType, [&] { ops::softmax(ints); }), {"softmax", "i32[2,3]"});
  contains(error_of(ErrorKind::kShape, [&] { ops::layer_norm(x, x, x); }), {"layer_norm", "[3]", "f32[2,3]"});
  contains(error_of(ErrorKind::kDType, [&] { ops::layer_norm(x, wide, wide); }), {"layer_norm", "f64[3]"});
  contains(error_of(ErrorKind::kInvalidArgument, [&] { ops::layer_norm(x, x, x, 1e-5, 3); }),
           {"layer_norm", "axes=3"});
  contains(error_of(ErrorKind::kShape, [&] { ops::attention(x, x, x); }), {"attention", "rank"});
  contains(error_of(ErrorKind::kShape, [&] { ops::cross_entropy(x, ints); }),
           {"cross_entropy", "[2]", "i32[2,3]"});
  contains(error_of(ErrorKind::kDType, [&] { ops::cross_entropy(x, x); }), {"cross_entropy"});
  contains(error_of(ErrorKind::kShape, [&] { ops::embedding(wide, ints); }), {"embedding", "f64[3]"});
  contains(error_of(ErrorKind::kShape, [&] { ops::max_pool(x, {2, 2}, {1, 1}); }), {"max_pool", "f32[2,3]"});
  contains(error_of(ErrorKind::kShape, [&] { ops::sgd_update(x, x, x); }), {"sgd_update", "[]"});
  const Value image = in(DType::f32, {1, 4, 4, 3}), kernel = in(DType::f32, {3, 3, 3, 2});
  ir::ConvolutionAttrs attrs{.layout = "b01f_01io->b01f"};
  contains(error_of(ErrorKind::kShape, [&] { ops::conv_input_grad(image, kernel, image.shape(), attrs); }),
           {"conv_input_grad", "[1,2,2,2]", "f32[1,4,4,3]"});
  attrs.batch_groups = 2;
  contains(
      error_of(ErrorKind::kUnsupported, [&] { ops::conv_weight_grad(image, image, kernel.shape(), attrs); }),
      {"conv_weight_grad", "batch_groups"});
  attrs = {.layout = "b01f_01io->b01f", .strides = {0, 1}};
  contains(error_of(ErrorKind::kInvalidArgument,
                    [&] { ops::conv_input_grad(image, kernel, image.shape(), attrs); }),
           {"conv_input_grad", "stride"});
  contains(error_of(ErrorKind::kInvalidArgument, [&] { ir::add_composite("gelu", {x, x}); }), {"gelu", "1"});
  contains(error_of(ErrorKind::kInvalidArgument, [&] { ir::add_composite("lstm", x); }), {"lstm", "7"});
  contains(error_of(ErrorKind::kInvalidArgument, [&] { ir::add_composite("softmax", x, {{"axis", 0.5}}); }),
           {"softmax", "axis"});
}

}  // namespace
}  // namespace systole
