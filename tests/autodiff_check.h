#pragma once

// What tests of derivatives share: cases in text, and u·J·v by differences in f64, by vjp and by jvp.

#include <gtest/gtest.h>

#include <cmath>
#include <ostream>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "eval/eval.h"
#include "systole/autodiff.h"
#include "systole/ir/text.h"

namespace systole::autodiff {

using ir::Graph;

struct Case {
  const char* name;
  const char* inputs;
  const char* statements;  // ending in return
  const char* graphs = "";
  double low = -1, high = 1;  // of the random inputs
};

inline void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

inline std::string test_name(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.name;
  for (char& c : name)
    if (c == ' ') c = '_';
  return name;
}

inline Graph graph_of(const Case& c) {
  return ir::parse(
      std::string("systole.ir 1\n") + c.graphs + "graph @main(" + c.inputs + ") {\n" + c.statements + "\n}\n",
      c.name);
}

inline Literal random_literal(const Type& type, std::mt19937& random, double low, double high) {
  Literal out(type);
  std::uniform_real_distribution<double> real(low, high);
  visit_dtype(type.dtype, [&]<class T>() {
    for (T& v : out.mutable_values<T>()) {
      if constexpr (std::is_same_v<T, bool>)
        v = random() % 2;
      else if constexpr (std::is_integral_v<T>)
        v = static_cast<T>(random() % 3);
      else
        v = static_cast<T>(real(random));
    }
  });
  return out;
}

inline double dot(const Literal& a, const Literal& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.values<double>().size(); ++i)
    sum += a.values<double>()[i] * b.values<double>()[i];
  return sum;
}

inline Literal moved(const Literal& x, const Literal& direction, double step) {
  Literal out = x;
  for (std::size_t i = 0; i < out.values<double>().size(); ++i)
    out.mutable_values<double>()[i] += step * direction.values<double>()[i];
  return out;
}

inline std::vector<int> float_inputs(const Graph& g) {
  std::vector<int> out;
  for (std::size_t i = 0; i < g.inputs().size(); ++i)
    if (g.input_type(i).dtype == DType::f64) out.push_back(static_cast<int>(i));
  return out;
}

// Random inputs, cotangents u and directions v, and u·J·v three ways.
class Derivative {
 public:
  Derivative(const Graph& graph, double low, double high) : graph_(graph), wrt_(float_inputs(graph)) {
    std::mt19937 random(3);
    for (std::size_t i = 0; i < graph.inputs().size(); ++i)
      x_.push_back(random_literal(graph.input_type(i), random, low, high));
    for (int i : wrt_)
      directions_.push_back(random_literal(graph.input_type(static_cast<std::size_t>(i)), random, -1, 1));
    for (std::size_t i = 0; i < graph.outputs().size(); ++i)
      if (graph.output_type(i).dtype == DType::f64)
        cotangents_.push_back(random_literal(graph.output_type(i), random, -1, 1));
  }

  // Fourth order: truncation and rounding both stay near 1e-10.
  double by_difference() const {
    const double h = 1e-5;
    return (8 * (along(h) - along(-h)) - (along(2 * h) - along(-2 * h))) / (12 * h);
  }

  double by_vjp() const {
    const Graph reverse = vjp(graph_, wrt_);
    ir::verify(reverse);
    std::vector<Literal> arguments = x_;
    arguments.insert(arguments.end(), cotangents_.begin(), cotangents_.end());
    const std::vector<Literal> back = eval::evaluate(reverse, arguments);
    double sum = 0;
    for (std::size_t k = 0; k < wrt_.size(); ++k) {
      const Literal& gradient = back[graph_.outputs().size() + k];
      EXPECT_EQ(gradient.type(), graph_.input_type(static_cast<std::size_t>(wrt_[k])));
      sum += dot(gradient, directions_[k]);
    }
    return sum;
  }

  double by_jvp() const {
    const Graph forward = jvp(graph_, wrt_);
    ir::verify(forward);
    std::vector<Literal> arguments = x_;
    arguments.insert(arguments.end(), directions_.begin(), directions_.end());
    const std::vector<Literal> there = eval::evaluate(forward, arguments);
    double sum = 0;
    for (std::size_t i = 0; i < cotangents_.size(); ++i)
      sum += dot(there[graph_.outputs().size() + i], cotangents_[i]);
    return sum;
  }

 private:
  double along(double step) const {
    std::vector<Literal> at = x_;
    for (std::size_t k = 0; k < wrt_.size(); ++k)
      at[static_cast<std::size_t>(wrt_[k])] =
          moved(x_[static_cast<std::size_t>(wrt_[k])], directions_[k], step);
    double sum = 0;
    std::size_t next = 0;
    for (const Literal& y : eval::evaluate(graph_, at))
      if (y.dtype() == DType::f64) sum += dot(y, cotangents_[next++]);
    return sum;
  }

  const Graph& graph_;
  std::vector<int> wrt_;
  std::vector<Literal> x_, directions_, cotangents_;
};

inline void check_gradient(const Graph& graph, double low, double high) {
  const Derivative d(graph, low, high);
  const double by_vjp = d.by_vjp(), by_difference = d.by_difference();
  EXPECT_NEAR(by_vjp, by_difference, 2e-7 * (1 + std::fabs(by_difference)));
  EXPECT_NEAR(d.by_jvp(), by_vjp, 1e-10 * (1 + std::fabs(by_vjp)));
}

inline void check_tangents(const Graph& graph, double low, double high) {
  const Derivative d(graph, low, high);
  const double by_difference = d.by_difference();
  EXPECT_NEAR(d.by_jvp(), by_difference, 2e-7 * (1 + std::fabs(by_difference)));
}

// sin(n·x) with its cosine as a second result, and their gradient.
#define SYSTOLE_SINE                                                                                        \
  "graph @sine(%n: i32[3], %x: f64[3]) { %f = convert(%n) {dtype=f64} %a = mul(%f, %x) %y = sin(%a) %c = "  \
  "cos(%a) return %y, %c }\n"                                                                               \
  "graph @sine_back(%n: i32[3], %x: f64[3], %y: f64[3], %c: f64[3], %dy: f64[3], %dc: f64[3]) {\n"          \
  "  %f = convert(%n) {dtype=f64} %a = mul(%dy, %c) %b = mul(%dc, %y) %d = sub(%a, %b) %dx = mul(%d, %f)\n" \
  "  return %dx }\n"
inline constexpr const char* kSine = SYSTOLE_SINE;
inline constexpr const char* kSineInScan = SYSTOLE_SINE
    "graph @body(%h: f64[3], %x: f64[3], %n: i32[3]) { %a = add(%h, %x) %y, %c = composite user.sine(%n, %a) "
    "@sine @sine_back %z = mul(%c, %x) return %y, %z }\n";
#undef SYSTOLE_SINE

}  // namespace systole::autodiff
