// Gradients of every row, in f64 on the device: u·J·v by central differences, by vjp and by jvp must be one
// number, for each float operand alone; where the table says so, the same of the gradient. A row without a
// gradient must be without one for the reason that the table states.

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <random>

#include "conformance.h"
#include "fixture.h"
#include "gradient_cases.h"
#include "systole/autodiff.h"
#include "systole/base/error.h"
#include "systole/ops.h"
#include "systole/runtime.h"

namespace systole::conformance {

namespace {

using Arrays = std::vector<std::vector<Literal>>;  // per device

// A sum with the sum of its magnitudes, from which comes how well it is known.
struct Sum {
  double value = 0, size = 0;
  void add(const Literal& a, const Literal& b) {
    for (std::size_t i = 0; i < a.values<double>().size(); ++i) {
      const double term = a.values<double>()[i] * b.values<double>()[i];
      value += term;
      size += std::fabs(term);
    }
  }
};

std::vector<int> f64_inputs(const ir::Graph& g) {
  std::vector<int> out;
  for (std::size_t i = 0; i < g.inputs().size(); ++i)
    if (g.input_type(i).dtype == DType::f64) out.push_back(static_cast<int>(i));
  return out;
}

std::vector<int> f64_outputs(const ir::Graph& g) {
  std::vector<int> out;
  for (std::size_t i = 0; i < g.outputs().size(); ++i)
    if (g.output_type(i).dtype == DType::f64) out.push_back(static_cast<int>(i));
  return out;
}

Arrays joined(Arrays a, const Arrays& b) {
  for (std::size_t d = 0; d < a.size(); ++d) a[d].insert(a[d].end(), b[d].begin(), b[d].end());
  return a;
}

// u·J·v at one point.
class Derivative {
 public:
  Derivative(const ir::Graph& graph, const Arrays& arguments, const std::string& device)
      : graph_(graph),
        arguments_(arguments),
        device_(device),
        wrt_(f64_inputs(graph)),
        outputs_(f64_outputs(graph)) {
    std::mt19937 random(7);
    const auto fill = [&](Arrays& arrays, const Type& type) {
      for (auto& per_device : arrays) {
        per_device.emplace_back(type);
        for (double& v : per_device.back().mutable_values<double>())
          v = 2 * std::generate_canonical<double, 53>(random) - 1;
      }
    };
    directions_.resize(arguments.size());
    cotangents_.resize(arguments.size());
    for (int i : wrt_) fill(directions_, graph.input_type(static_cast<std::size_t>(i)));
    for (int i : outputs_) fill(cotangents_, graph.output_type(static_cast<std::size_t>(i)));
  }

  const std::vector<int>& wrt() const { return wrt_; }
  const Arrays& cotangents() const { return cotangents_; }

  // Along operand k alone; fourth order, so that truncation and rounding both stay near 1e-12.
  Sum by_difference(std::size_t k) const {
    const CompiledGraph f = compile(graph_, device_);
    const double h = 1e-4;
    const Sum right = along(f, k, h), left = along(f, k, -h);
    const double far = along(f, k, 2 * h).value - along(f, k, -2 * h).value;
    return {(8 * (right.value - left.value) - far) / (12 * h), right.size + left.size};
  }

  // The part of each operand.
  std::vector<Sum> by_vjp() const {
    const Arrays back =
        compile(autodiff::vjp(graph_, wrt_), device_).run_devices(joined(arguments_, cotangents_));
    std::vector<Sum> parts(wrt_.size());
    for (std::size_t d = 0; d < back.size(); ++d)
      for (std::size_t k = 0; k < wrt_.size(); ++k)
        parts[k].add(back[d][graph_.outputs().size() + k], directions_[d][k]);
    return parts;
  }

  Sum by_jvp() const {
    const Arrays there =
        compile(autodiff::jvp(graph_, wrt_), device_).run_devices(joined(arguments_, directions_));
    Sum sum;
    for (std::size_t d = 0; d < there.size(); ++d)
      for (std::size_t i = 0; i < outputs_.size(); ++i)
        sum.add(there[d][graph_.outputs().size() + i], cotangents_[d][i]);
    return sum;
  }

 private:
  Sum along(const CompiledGraph& f, std::size_t k, double step) const {
    Arrays at = arguments_;
    const auto input = static_cast<std::size_t>(wrt_[k]);
    for (std::size_t d = 0; d < at.size(); ++d)
      for (std::size_t i = 0; i < directions_[d][k].values<double>().size(); ++i)
        at[d][input].mutable_values<double>()[i] += step * directions_[d][k].values<double>()[i];
    const Arrays results = f.run_devices(at);
    Sum sum;
    for (std::size_t d = 0; d < results.size(); ++d)
      for (std::size_t i = 0; i < outputs_.size(); ++i)
        sum.add(results[d][static_cast<std::size_t>(outputs_[i])], cotangents_[d][i]);
    return sum;
  }

  const ir::Graph& graph_;
  const Arrays& arguments_;
  const std::string& device_;
  std::vector<int> wrt_, outputs_;
  Arrays directions_, cotangents_;
};

// Whether the case was looked at: a point where the op is infinite or undefined shows nothing.
bool check_derivative(const GradientCase& c, const std::string& device, bool reverse) {
  const Derivative d(c.graph, c.arguments, device);
  std::vector<Sum> differences;
  double difference = 0, rounding = 0;
  for (std::size_t k = 0; k < d.wrt().size(); ++k) {
    differences.push_back(d.by_difference(k));
    difference += differences[k].value;
    rounding += 1e-10 * differences[k].size;
  }
  if (!std::isfinite(rounding)) return false;
  const Sum forward = d.by_jvp();
  EXPECT_NEAR(forward.value, difference, 1e-6 * forward.size + rounding) << c.name << ": jvp";
  if (!reverse) return true;
  const std::vector<Sum> parts = d.by_vjp();
  Sum back;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    EXPECT_NEAR(parts[k].value, differences[k].value, 1e-6 * parts[k].size + 1e-10 * differences[k].size)
        << c.name << ": vjp by input " << d.wrt()[k];
    back.value += parts[k].value;
    back.size += parts[k].size;
  }
  EXPECT_NEAR(forward.value, back.value, 1e-11 * (forward.size + back.size)) << c.name << ": jvp and vjp";
  return true;
}

// The gradient as a graph, at the same point.
GradientCase gradient_of(const GradientCase& c, const std::string& device) {
  const Derivative d(c.graph, c.arguments, device);
  return {c.name + ", twice", autodiff::vjp(c.graph, d.wrt()), joined(c.arguments, d.cotangents())};
}

std::string refused(const GradientCase& c) {
  try {
    autodiff::vjp(c.graph, f64_inputs(c.graph));
    return {};
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kUnsupported) << e.what();
    return e.what();
  }
}

void expect_zero_gradient(const GradientCase& c, const std::string& device) {
  const Derivative d(c.graph, c.arguments, device);
  for (const Sum& part : d.by_vjp()) EXPECT_EQ(part.size, 0) << c.name;
  EXPECT_EQ(d.by_jvp().size, 0) << c.name;
}

// The results as floats: the way through them is cut.
GradientCase with_float_results(const GradientCase& c) {
  GradientCase out{c.name, c.graph, c.arguments};
  for (const ir::Output& o : c.graph.outputs())
    out.graph.output(ops::convert(out.graph.value(o.value), DType::f64));
  return out;
}

bool has_float_result(const GradientCase& c) { return !f64_outputs(c.graph).empty(); }

void check_full(const std::string& row, const GradientRow& expected, const std::string& device) {
  int checked = 0;
  for (const GradientCase& c : gradient_cases(row)) {
    if (!has_float_result(c)) continue;
    if (const std::string why = refused(c); !why.empty()) {
      EXPECT_TRUE(!expected.sometimes.empty() && why.find(expected.sometimes) != why.npos)
          << c.name << ": " << why;
      continue;
    }
    checked += check_derivative(c, device, true);
  }
  EXPECT_GT(checked, 0) << row << " has no f64 case where its gradient can be seen";
}

// Why the device cannot run the row, or empty.
std::string absence(const std::string& row, const std::string& device) {
  std::string reason;
  const runtime::Backend* const backend = available(device, reason);
  return backend == nullptr ? reason : refusal(*backend, load_fixture(row).graph);
}

void check_row_gradient(const std::string& row, const std::string& device) {
  if (const std::string reason = absence(row, device); !reason.empty()) GTEST_SKIP() << reason;
  const GradientRow expected = gradient_row(row);
  switch (expected.kind) {
    case GradientKind::kFull: check_full(row, expected, device); return;
    case GradientKind::kZero:
      for (const GradientCase& c : gradient_cases(row)) expect_zero_gradient(c, device);
      return;
    case GradientKind::kNoFloatResult:
      for (const GradientCase& c : gradient_cases(row)) {
        EXPECT_FALSE(has_float_result(c)) << c.name;
        expect_zero_gradient(with_float_results(c), device);
      }
      return;
    case GradientKind::kForwardOnly:
      for (const GradientCase& c : gradient_cases(row)) {
        EXPECT_NE(refused(c).find(expected.why), std::string::npos) << c.name << ": " << refused(c);
        EXPECT_TRUE(check_derivative(c, device, false)) << c.name;
      }
      return;
    case GradientKind::kRefused:
      for (const GradientCase& c : gradient_cases(row)) {
        const std::string why = refused(c);
        EXPECT_EQ(has_float_result(c), why.find(expected.why) != why.npos) << c.name << ": " << why;
      }
      return;
    case GradientKind::kNoFloatOperand: EXPECT_TRUE(gradient_cases(row).empty()) << row; return;
  }
}

void check_second_gradient(const std::string& row, const std::string& device) {
  if (const std::string reason = absence(row, device); !reason.empty()) GTEST_SKIP() << reason;
  int checked = 0;
  for (const GradientCase& c : gradient_cases(row))
    checked += check_derivative(gradient_of(c, device), device, true);
  EXPECT_GT(checked, 0) << row;
}

class GradientTest : public Conformance {
 public:
  using Check = void (*)(const std::string& row, const std::string& device);
  GradientTest(Check check, std::string row, std::string device)
      : check_(check), row_(std::move(row)), device_(std::move(device)) {}
  void TestBody() override { check_(row_, device_); }

 private:
  Check check_;
  std::string row_, device_;
};

}  // namespace

void register_gradient_tests(const std::string& device) {
  const auto add = [&](const char* prefix, GradientTest::Check check, const std::string& row) {
    testing::RegisterTest("Conformance", test_name(fmt::format("{}_{}", prefix, row), device).c_str(),
                          nullptr, nullptr, __FILE__, __LINE__,
                          [=]() -> Conformance* { return new GradientTest(check, row, device); });
  };
  for (const std::string& row : fixture_names()) {
    add("Gradient", check_row_gradient, row);
    if (gradient_row(row).twice) add("SecondGradient", check_second_gradient, row);
  }
}

TEST_F(Conformance, EveryGradientOrItsReasonIsStated) {
  const std::vector<std::string> fixtures = fixture_names();
  for (const std::string& row : special_gradient_rows())
    EXPECT_TRUE(std::binary_search(fixtures.begin(), fixtures.end(), row)) << row << " is no row";
  for (const std::string& row : fixtures) {
    const GradientRow stated = gradient_row(row);
    const std::vector<GradientCase> cases = gradient_cases(row);
    if (stated.kind == GradientKind::kFull)
      EXPECT_TRUE(std::any_of(cases.begin(), cases.end(), has_float_result))
          << row << " has no f64 case for its gradient, and gradient_cases.cpp states no reason";
    else
      EXPECT_FALSE(stated.why.empty()) << row;
  }
}

}  // namespace systole::conformance
