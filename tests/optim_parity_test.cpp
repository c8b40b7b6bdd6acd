// Optimisers, schedules, clipping and averages in f64 against PyTorch, or numpy where PyTorch has none:
// tests/parity/make_optim.py makes the numbers. The gradient of parameter i at step t is p/2 + wave(shape,
// 0.3·t + i).

#include <gtest/gtest.h>

#if __has_include(<nlohmann/json.hpp>)

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "systole/optim.h"
#include "systole/tensor.h"
#include "waves.h"

namespace systole {
namespace {

using nlohmann::json;

constexpr int kSteps = 20;
constexpr double kTolerance = 1e-10;

const json& fixture() {
  static const json value = [] {
    std::ifstream in(std::string(SYSTOLE_SOURCE_DIR) + "/tests/parity/optim.json");
    return json::parse(in);
  }();
  return value;
}

const std::vector<std::pair<std::string, Shape>>& shapes() {
  static const std::vector<std::pair<std::string, Shape>> all{
      {"tall.weight", {5, 3}}, {"tall.bias", {5}}, {"wide.weight", {3, 6}}};
  return all;
}

Parameters new_parameters() {
  Parameters result;
  double phase = 0;
  for (const auto& [name, shape] : shapes()) result.add(name, Variable(wave(shape, phase += 0.1), name));
  return result;
}

// What the gradients of each parameter have beside p/2, for all steps: [kSteps, shape…]
std::vector<Tensor> waves() {
  std::vector<Tensor> result;
  for (std::size_t i = 0; i < shapes().size(); ++i) {
    std::vector<Tensor> steps;
    for (int t = 1; t <= kSteps; ++t)
      steps.push_back(wave(shapes()[i].second, 0.3 * t + static_cast<double>(i)));
    result.push_back(stack(steps, 0));
  }
  return result;
}

std::vector<Tensor> gradients(const Parameters& parameters, const std::vector<Tensor>& waves) {
  std::vector<Tensor> result;
  for (std::size_t i = 0; i < waves.size(); ++i) result.push_back(parameters.variables()[i] * 0.5 + waves[i]);
  return result;
}

optim::OptionValue option_value(const json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array()) return value.get<std::vector<double>>();
  return value.get<double>();
}

optim::Options options_of(const json& object) {
  optim::Options result;
  for (const auto& [name, value] : object.items()) result.push_back({name, option_value(value)});
  return result;
}

// The optimiser of a case; its rates, the groups' too, are multiplied by `decay` after each step.
std::unique_ptr<optim::Optimizer> optimizer_of(const json& c, const Parameters& parameters) {
  const double decay = c.at("decay");
  const auto rate = [&](double lr) {
    return decay == 1 ? optim::Schedule(lr) : optim::schedules::exponential(lr, decay);
  };
  std::vector<optim::Group> groups;
  for (const json& g : c.at("groups")) {
    optim::Group group{.names = g.at("names")};
    if (g.contains("lr")) group.lr = rate(g.at("lr"));
    if (g.contains("weight_decay")) group.weight_decay = g.at("weight_decay");
    groups.push_back(std::move(group));
  }
  const std::string name = c.at("name");
  if (decay == 1) return optim::make(name, parameters, options_of(c.at("options")), groups);
  json rest = c.at("options");
  double lr = optim::default_lr(name);
  for (const char* key : {"lr", "learning_rate"})
    if (rest.contains(key)) {
      lr = rest.at(key);
      rest.erase(key);
    }
  return optim::make(name, parameters, rate(lr), options_of(rest), groups);
}

void expect_near(const Tensor& x, const std::vector<double>& wanted, double tolerance,
                 const std::string& what) {
  const std::vector<double> values = x.literal().to_doubles();
  ASSERT_EQ(values.size(), wanted.size()) << what;
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_NEAR(values[i], wanted[i], tolerance) << what << ", element " << i;
}

void expect_final(const json& c, const Parameters& parameters) {
  for (const auto& [name, variable] : parameters)
    expect_near(variable, c.at("final").at(name), kTolerance, c.at("title").get<std::string>() + ": " + name);
}

TEST(OptimParity, EveryOptimizerStepByStep) {
  const DeviceScope device("reference");
  const std::vector<Tensor> all = waves();
  for (const json& c : fixture().at("optimizers")) {
    const Parameters parameters = new_parameters();
    const auto optimizer = optimizer_of(c, parameters);
    for (int t = 0; t < kSteps; ++t) {
      std::vector<Tensor> now;
      for (const Tensor& x : all) now.push_back(x[t]);
      optimizer->update(gradients(parameters, now));
    }
    expect_final(c, parameters);
    EXPECT_EQ(optimizer->step().item<int>(), kSteps);
  }
}

// All of them in one program, and all steps in one launch.
class OptimParityOn : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(On, OptimParityOn, testing::Values("reference", "cpu"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(OptimParityOn, EveryOptimizerInACompiledStep) {
  const DeviceScope device(GetParam());
  std::vector<Parameters> parameters;
  std::vector<std::unique_ptr<optim::Optimizer>> optimizers;
  for (const json& c : fixture().at("optimizers")) {
    parameters.push_back(new_parameters());
    optimizers.push_back(optimizer_of(c, parameters.back()));
  }
  auto step = compile([&](const std::vector<Tensor>& now) {
    for (std::size_t i = 0; i < optimizers.size(); ++i) optimizers[i]->update(gradients(parameters[i], now));
  });
  step.many(waves());
  EXPECT_EQ(parameters[0].variables()[0].value().device(), DeviceName::parse(GetParam()));
  for (std::size_t i = 0; i < parameters.size(); ++i)
    expect_final(fixture().at("optimizers")[i], parameters[i]);
  EXPECT_EQ(step.traces(), 1);
}

TEST(OptimParity, SchedulesOnTheHost) {
  for (const json& c : fixture().at("schedules")) {
    const optim::Schedule schedule =
        optim::make_schedule(c.at("name").get<std::string>(), c.at("lr"), options_of(c.at("options")));
    const std::vector<double> wanted = c.at("values");
    ASSERT_EQ(wanted.size(), 100u);
    for (std::size_t t = 0; t < wanted.size(); ++t)
      EXPECT_NEAR(schedule.at(static_cast<std::int64_t>(t)), wanted[t], 1e-12)
          << c.at("name") << c.at("options") << " step " << t;
  }
}

TEST_P(OptimParityOn, SchedulesAsTensorArithmetic) {
  const DeviceScope device(GetParam());
  std::vector<optim::Schedule> schedules;
  for (const json& c : fixture().at("schedules"))
    schedules.push_back(
        optim::make_schedule(c.at("name").get<std::string>(), c.at("lr"), options_of(c.at("options"))));
  for (const auto& [dtype, tolerance] : {std::pair(DType::f64, 1e-12), std::pair(DType::f32, 1e-7)}) {
    Variable count(tensor(0));
    auto rates = compile([&] {
      std::vector<Tensor> result;
      for (const optim::Schedule& schedule : schedules) result.push_back(schedule.at(count, dtype));
      count += 1;
      return stack(result, 0);
    });
    const Tensor values = rates.repeat(100);  // [100, schedules]
    ASSERT_EQ(values.dtype(), dtype);
    for (std::size_t i = 0; i < schedules.size(); ++i) {
      const json& c = fixture().at("schedules")[i];
      expect_near(values[{all, static_cast<std::int64_t>(i)}], c.at("values"), tolerance,
                  c.at("name").get<std::string>() + c.at("options").dump());
    }
  }
}

TEST(OptimParity, ASequenceOfSchedules) {
  using namespace optim::schedules;
  const optim::Schedule schedule = sequence({constant(0.01), exponential(0.1, 0.9), step(0.1, 10)}, {20, 60});
  const std::vector<double> wanted = fixture().at("sequence");
  for (std::size_t t = 0; t < wanted.size(); ++t) {
    const auto now = static_cast<std::int64_t>(t);
    EXPECT_NEAR(schedule.at(now), wanted[t], 1e-12) << t;
    EXPECT_NEAR(schedule.at(tensor(static_cast<int>(t)), DType::f64).item<double>(), wanted[t], 1e-12) << t;
  }
}

TEST(OptimParity, ARateThatFallsOnAPlateau) {
  const json& plateau = fixture().at("plateau");
  const std::vector<double> measured = plateau.at("measured");
  for (const json& c : plateau.at("cases")) {
    optim::PlateauOptions o;
    const json& given = c.at("options");
    o.larger_is_better = given.value("larger_is_better", o.larger_is_better);
    o.factor = given.value("factor", o.factor);
    o.patience = given.value("patience", o.patience);
    o.threshold = given.value("threshold", o.threshold);
    o.absolute = given.value("absolute", o.absolute);
    o.cooldown = given.value("cooldown", o.cooldown);
    o.min_lr = given.value("min_lr", o.min_lr);
    o.eps = given.value("eps", o.eps);
    optim::SGD optimizer(new_parameters(), {.lr = 0.1, .groups = {{.names = {"wide.*"}, .lr = 0.05}}});
    optim::Plateau lowering(optimizer, o);
    for (std::size_t t = 0; t < measured.size(); ++t) {
      lowering.update(measured[t]);
      const std::vector<double> wanted = c.at("values")[t];
      for (std::size_t i = 0; i < wanted.size(); ++i)
        EXPECT_NEAR(optimizer.lrs()[i].item<double>(), wanted[i], 1e-12) << given << " epoch " << t;
    }
  }
}

TEST_P(OptimParityOn, Clipping) {
  const DeviceScope device(GetParam());
  // Of every case the norm, then the gradients.
  auto clipped = compile([&](const std::vector<Tensor>& given) {
    std::vector<Tensor> results;
    for (const json& c : fixture().at("clip")) {
      std::vector<Tensor> grads = given;
      const std::string by = c.at("by");
      const double limit = c.at("limit");
      if (by == "norm") {
        const bool is_max = c.at("order") == "inf";
        const double order = is_max ? std::numeric_limits<double>::infinity() : c.at("order").get<double>();
        results.push_back(optim::clip_by_norm(grads, limit, order));
      } else if (by == "value") {
        results.push_back(optim::clip_by_value(grads, limit));
      } else {
        results.push_back(optim::clip_each_by_norm(grads, limit));
      }
      results.insert(results.end(), grads.begin(), grads.end());
    }
    return results;
  });
  std::vector<Tensor> given;
  for (std::size_t i = 0; i < shapes().size(); ++i)
    given.push_back(wave(shapes()[i].second, 0.5 + static_cast<double>(i)));
  const std::vector<Tensor> results = clipped(given);
  auto result = results.begin();
  for (const json& c : fixture().at("clip")) {
    const std::string what = c.at("by").get<std::string>() + " " + c.at("limit").dump();
    expect_near(*result++, {c.at("norm").get<double>()}, 1e-12, what);
    for (const json& wanted : c.at("grads")) expect_near(*result++, wanted, 1e-12, what);
  }
  EXPECT_TRUE(result == results.end());
}

TEST_P(OptimParityOn, AveragesOfTheWeights) {
  const DeviceScope device(GetParam());
  const Parameters parameters = new_parameters();
  optim::SGD optimizer(parameters, {.lr = 0.1});
  optim::Ema ema(parameters, {.decay = fixture().at("average").at("decay")});
  auto step = compile([&](const std::vector<Tensor>& now) {
    optimizer.update(gradients(parameters, now));
    ema.update();
  });
  step.many(waves());
  for (std::size_t i = 0; i < parameters.size(); ++i)
    expect_near(ema.averages().variables()[i], fixture().at("average").at("values")[i], 1e-12,
                parameters.names()[i]);
  EXPECT_EQ(ema.updates().item<int>(), kSteps);
}

}  // namespace
}  // namespace systole

#endif
