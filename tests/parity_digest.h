#pragma once

// Layers and losses against PyTorch: tests/parity/fixture.py in C++. On the reference in f64, to 1e-10 of
// values and 1e-9 of gradients; on the other devices in f32.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model_devices.h"
#include "systole/nn/module.h"
#include "systole/tensor/math.h"
#include "systole/tensor/transforms.h"
#include "waves.h"

namespace systole {

inline nlohmann::json parity_fixture(const std::string& file, const std::string& name) {
  std::ifstream in(std::string(SYSTOLE_SOURCE_DIR) + "/tests/parity/" + file);
  const nlohmann::json all = nlohmann::json::parse(in, nullptr, false);
  return all.is_object() && all.contains(name) ? all.at(name) : nlohmann::json();
}

// The three sums of a fixture; each may cancel, so errors count against the bound √(n · squares).
inline void expect_digest(const std::string& what, const Tensor& x, const nlohmann::json& wanted,
                          double tolerance) {
  ASSERT_EQ(x.shape(), shape_of(wanted.at("shape").get<std::vector<std::int64_t>>())) << what;
  const std::vector<double> values = x.literal().to_doubles();
  double sums[3] = {};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto place = static_cast<double>(i);
    sums[0] += values[i] * std::cos(0.3 * place);
    sums[1] += values[i] * std::sin(1.1 * place + 0.4);
    sums[2] += values[i] * values[i];
  }
  const std::vector<double> expected = wanted.at("sums");
  const double bound = std::max(1.0, std::sqrt(static_cast<double>(values.size()) * std::abs(expected[2])));
  const double bounds[] = {bound, bound, std::max(1.0, expected[2])};
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_NEAR(sums[i], expected[i], tolerance * bounds[i]) << what << ", sum " << i;
}

class ParityDevice : public ModelDevice {
 protected:
  DType dtype() const { return GetParam() == "reference" ? DType::f64 : DType::f32; }
  Tensor number(Tensor x) const { return x.to(dtype()); }

  // `run(inputs)` gives all outputs; they and the gradients by inputs and parameters are compared.
  template <class F>
  void expect_parity(const std::string& file, const std::string& name, const std::vector<Shape>& shapes,
                     const Parameters& list, const F& run) {
    const nlohmann::json wanted = parity_fixture(file, name);
    ASSERT_TRUE(wanted.is_object()) << name << " is not in " << file << ": run the script in tests/parity";
    std::vector<Variable> variables;
    for (std::size_t i = 0; i < shapes.size(); ++i)
      variables.emplace_back(number(wave(shapes[i], 0.3 + 0.2 * static_cast<double>(i))));
    std::vector<std::string> names = list.names();
    std::sort(names.begin(), names.end());
    if (wanted.contains("parameters")) {
      EXPECT_EQ(names, wanted.at("parameters").get<std::vector<std::string>>()) << name;
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
      Variable v = list.at(names[i]);
      v.assign(number(wave(v.shape(), 0.1 * static_cast<double>(i), 0.5)));
      variables.push_back(v);
    }
    const auto both = value_and_grad(
        [&] {
          const std::vector<Tensor> inputs(variables.begin(),
                                           variables.begin() + static_cast<std::ptrdiff_t>(shapes.size()));
          const std::vector<Tensor> outputs = run(inputs);
          Tensor total = number(tensor(0.0));
          for (std::size_t k = 0; k < outputs.size(); ++k)
            total += sum(outputs[k] * number(wave(outputs[k].shape(), 0.9 + static_cast<double>(k))));
          return std::pair{total, outputs};
        },
        variables);
    checks_.push_back({name, names, wanted, both.value.second, both.grads, shapes.size()});
  }

  // All cases of a test are one run: a device that compiles does so once.
  void TearDown() override {
    std::vector<Tensor> all;
    for (const Check& check : checks_) {
      all.insert(all.end(), check.outputs.begin(), check.outputs.end());
      all.insert(all.end(), check.grads.begin(), check.grads.end());
    }
    if (all.empty()) return;
    evaluate(std::span<const Tensor>(all));
    for (const Check& check : checks_) expect(check);
  }

 private:
  struct Check {
    std::string name;
    std::vector<std::string> names;  // of parameters
    nlohmann::json wanted;
    std::vector<Tensor> outputs, grads;
    std::size_t inputs;
  };

  void expect(const Check& check) const {
    SCOPED_TRACE(check.name);
    const double values = dtype() == DType::f64 ? 1e-10 : 2e-6, grads = dtype() == DType::f64 ? 1e-9 : 1e-5;
    ASSERT_EQ(check.outputs.size(), check.wanted.at("outputs").size());
    for (std::size_t i = 0; i < check.outputs.size(); ++i)
      expect_digest("output " + std::to_string(i), check.outputs[i], check.wanted.at("outputs")[i], values);
    ASSERT_EQ(check.grads.size(), check.wanted.at("grads").size());
    for (std::size_t i = 0; i < check.grads.size(); ++i)
      expect_digest(i < check.inputs ? "gradient by input " + std::to_string(i)
                                     : "gradient by " + check.names[i - check.inputs],
                    check.grads[i], check.wanted.at("grads")[i], grads);
    expect_here(check.outputs[0]);
  }

  std::vector<Check> checks_;
};

inline auto parity_devices() { return testing::Values("reference", "cpu", "cuda:0"); }

}  // namespace systole
