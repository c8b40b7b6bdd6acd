// What would train nothing, or the wrong thing, without a word: empty lists of parameters, gradients of
// another network, an optimiser from before nn::cast, and modes that compiled functions do not notice.

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "error_check.h"
#include "systole/systole.h"
#include "tensor/gradient_marks.h"
#include "warnings_check.h"

namespace systole {
namespace {

struct Net {
  nn::Linear fc{3, 2};
  Tensor forward(const Tensor& x) const { return fc(x); }
};

Tensor loss_of(const Net& net) { return sum(square(net.forward(ones({4, 3})))); }

std::string refused(const std::function<void()>& body) { return error_of(ErrorKind::kInvalidArgument, body); }
void expect_all(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(EmptyParameters, AreRefusedByOptimisersAndGradients) {
  for (const char* name : {"sgd", "adam", "adamw", "lion", "lamb", "adagrad", "rmsprop", "muon"}) {
    const auto names = optim::optimizer_names();
    if (std::find(names.begin(), names.end(), name) == names.end()) continue;
    expect_all(refused([&] { optim::make(name, Parameters()); }), {"no parameters"});
  }
  Net frozen;
  for (Variable& v : std::vector{frozen.fc.weight, frozen.fc.bias}) v.set_frozen(true);
  expect_all(refused([&] { optim::Adam opt(parameters(frozen)); }), {"adam", "frozen"});
  expect_all(refused([&] { value_and_grad([&] { return loss_of(frozen); }, parameters(frozen)); }),
             {"nothing to differentiate by"});
  refused([&] { grad([&] { return loss_of(frozen); }, std::vector<Variable>()); });
  refused([] { optim::Ema average{Parameters()}; });
  refused([] { optim::Accumulation sum(Parameters(), 2); });
}

TEST(UnusedParameters, OfAnotherNetworkAreRefusedAndASingleOneIsLegal) {
  Net a, b;
  expect_all(refused([&] { value_and_grad([&] { return loss_of(a); }, parameters(b)); }),
             {"gradient", "uses none of these Variables", "\"fc.weight\""});
  const auto step = compile([&](const Tensor& x) {
    return value_and_grad([&] { return sum(a.forward(x)); }, parameters(b)).value;
  });
  expect_all(refused([&] { step(ones({4, 3})); }), {"uses none of these Variables"});
  const std::vector<Variable> both{a.fc.weight, b.fc.weight};
  const std::vector<Tensor> grads = grad([&] { return sum(a.forward(ones({4, 3}))); }, both);
  EXPECT_EQ(grads[0].to_vector<float>(), std::vector<float>(6, 4));
  EXPECT_EQ(grads[1].to_vector<float>(), std::vector<float>(6, 0));
}

TEST(UnusedParameters, OfTheTrainersOptimiserAreRefused) {
  Net a, b;
  const auto trainer = [&](const Parameters& list, training::TrainerOptions options = {}) {
    training::Trainer(a, optim::SGD(list), std::move(options));
  };
  trainer(parameters(a));
  expect_all(refused([&] { trainer(parameters(b)); }), {"Trainer", "none of the optimiser's parameters"});
  const Net copy = nn::clone(a);
  expect_all(refused([&] { trainer(parameters(copy)); }), {"nothing would be trained"});
  // A part of the model, and what a step of one's own trains.
  Parameters part;
  part.add("bias", a.fc.bias);
  trainer(part);
  trainer(parameters(b), {.step = [&](std::span<const Tensor> fields) {
            return training::Outcome{sum(b.forward(fields[0])), {}, {}};
          }});
  const Parameters before = parameters(a);
  nn::cast(a, DType::f64);
  expect_all(refused([&] { trainer(before); }), {"nn::cast", "after nn::cast"});
}

TEST(MarkedGradients, OfAnotherNetworkAreRefused) {
  Net a, b;
  optim::SGD opt(parameters(a), {.lr = 0.1});
  const auto of = [](const Net& net) {
    return value_and_grad([&] { return loss_of(net); }, parameters(net)).grads;
  };
  const std::vector<float> before = a.fc.weight.to_vector<float>();
  expect_all(refused([&] { opt.update(of(b)); }), {"sgd", "fc.weight", "another Variable"});
  expect_all(refused([&] { opt.update(of(b), Tensor(true)); }), {"another Variable"});
  std::vector<Tensor> turned = of(a);
  EXPECT_EQ(a.fc.weight.to_vector<float>(), before);
  const auto step = compile([&](const Tensor& x) {
    auto [loss, grads] = value_and_grad([&] { return sum(b.forward(x)); }, parameters(b));
    opt.update(grads);
    return loss;
  });
  refused([&] { step(ones({4, 3})); });
  opt.update(turned);
  EXPECT_NE(a.fc.weight.to_vector<float>(), before);
}

// What a scale gives back, divided, still is the gradient of its Variable.
TEST(MarkedGradients, OfAnotherNetworkAreRefusedThroughALossScaleToo) {
  Net a, b;
  const optim::LossScale scale({.initial = 1024});
  optim::SGD opt(parameters(a), {.lr = 0.1});
  const auto of = [&](const Net& net) {
    return scale.value_and_grad([&] { return loss_of(net); }, parameters(net));
  };
  const std::vector<float> before = a.fc.weight.to_vector<float>();
  const auto theirs = of(b), own = of(a);
  expect_all(refused([&] { opt.update(theirs.grads, theirs.finite); }), {"fc.weight", "another Variable"});
  const auto step = compile([&](const Tensor& x) {
    auto [loss, grads, finite] = scale.value_and_grad([&] { return sum(b.forward(x)); }, parameters(b));
    opt.update(grads, finite);
    return loss;
  });
  expect_all(refused([&] { step(ones({4, 3})); }), {"another Variable"});
  EXPECT_EQ(a.fc.weight.to_vector<float>(), before);
  opt.update(own.grads, own.finite);
  EXPECT_NE(a.fc.weight.to_vector<float>(), before);
}

TEST(MarkedGradients, InAnotherOrderAreRefused) {
  nn::Linear one(2, 2, {.bias = false}), two(2, 2, {.bias = false});
  const std::vector<Variable> both{one.weight, two.weight}, turned{two.weight, one.weight};
  Parameters list;
  list.add("one", one.weight);
  list.add("two", two.weight);
  optim::SGD opt(list);
  const auto loss = [&] { return sum(square(two(one(ones({1, 2}))))); };
  opt.update(grad(loss, both));
  expect_all(refused([&] { opt.update(grad(loss, turned)); }), {"\"one\"", "another Variable"});
}

TEST(MarkedGradients, ThatWereChangedOrMadeByHandPass) {
  Net a, b;
  optim::Adam opt(parameters(a));
  std::vector<Tensor> grads = grad([&] { return loss_of(b); }, parameters(b));
  for (Tensor& g : grads) g = g * 0.5;
  opt.update(grads);  // computed from them: taken as it stands
  opt.update(std::vector<Tensor>{ones({2, 3}), ones({2})});
  std::vector<Tensor> clipped = grad([&] { return loss_of(a); }, parameters(a));
  optim::clip_by_norm(clipped, 1.0);
  opt.update(clipped);
  // One gradient that belongs to two Variables has no one owner.
  Variable p(ones({2}), "p"), q(ones({2}), "q");
  Parameters p_only, q_only;
  p_only.add("p", p);
  q_only.add("q", q);
  const std::vector<Tensor> shared =
      grad([&] { return sum(square(p.value() + q.value())); }, std::vector<Variable>{p, q});
  optim::SGD(p_only).update(std::vector<Tensor>{shared[0]});
  optim::SGD(q_only).update(std::vector<Tensor>{shared[1]});
  // Tied parameters are one Variable.
  const std::vector<Tensor> tied = grad([&] { return sum(square(p.value())); }, std::vector<Variable>{p, p});
  optim::SGD(p_only).update(std::vector<Tensor>{tied[1]});
  // A value of the program that happens to be a gradient is not marked.
  const Tensor x = (ones({2}) * 3).eval();
  grad([&] { return sum(p.value() * x); }, std::vector<Variable>{p});
  optim::SGD(q_only).update(std::vector<Tensor>{x});
}

TEST(Cast, AnOptimiserFromBeforeSaysSo) {
  const auto grads_of = [](const Net& net) { return grad([&] { return loss_of(net); }, parameters(net)); };
  Net net;
  optim::SGD opt(parameters(net));
  nn::cast(net, DType::f64);
  expect_all(refused([&] { opt.update(grads_of(net)); }), {"nn::cast", "fc.weight"});
  std::vector<Tensor> clipped = grads_of(net);
  optim::clip_by_value(clipped, 1.0);
  expect_all(refused([&] { opt.update(clipped); }), {"nn::cast"});
  expect_all(refused([&] { grad([&] { return loss_of(net); }, opt.parameters()); }),
             {"fc.weight", "nn::cast"});
  optim::SGD after(parameters(net));
  after.update(grads_of(net));
  // A copy that is cast leaves the module and its optimiser alone.
  Net full;
  optim::SGD own(parameters(full));
  Net half = full;
  nn::cast(half, DType::f64);
  own.update(grads_of(full));
  // Nor does a loss that leaves one of its parameters unused blame the cast of the copy.
  const auto weight_alone = [&] { return sum(square(full.fc.weight.value())); };
  own.update(grad(weight_alone, own.parameters()));
  const auto step = compile([&] { return value_and_grad(weight_alone, own.parameters()).value; });
  step();
  // One that uses the copy's does.
  const auto mixed = [&] { return sum(full.fc.weight.value()) + sum(half.fc.bias.value().to(DType::f32)); };
  expect_all(refused([&] { grad(mixed, own.parameters()); }), {"fc.bias", "nn::cast"});
  const auto wrong = compile([&] { return value_and_grad(mixed, own.parameters()).value; });
  expect_all(refused([&] { wrong(); }), {"fc.bias", "nn::cast"});
}

struct PlainMode {
  nn::Linear fc{3, 2};
  bool training = true;
  Tensor forward(const Tensor& x) const { return training ? fc(x) * 2 : fc(x); }
};
struct SettingMode {
  nn::Linear fc{3, 2};
  Setting<bool> training = true;
  Tensor forward(const Tensor& x) const { return training ? fc(x) * 2 : fc(x); }
};

TEST(Modes, AFlippedBoolWarnsAfterATrace) {
  PlainMode plain;
  EXPECT_TRUE(warnings_of([&] { nn::eval(plain); }).empty());  // nothing is compiled yet
  nn::train(plain);
  const auto run = compile([&](const Tensor& x) { return plain.forward(x); });
  run(ones({1, 3}));
  const std::vector<std::string> lines = warnings_of([&] { nn::eval(plain); });
  ASSERT_EQ(lines.size(), 1U);
  expect_all(lines[0], {"nn::eval", "bool training", "PlainMode", "Setting<bool>"});
  EXPECT_TRUE(warnings_of([&] { nn::eval(plain); }).empty());  // it is what it was
  SettingMode setting;
  const auto other = compile([&](const Tensor& x) { return setting.forward(x); });
  other(ones({1, 3}));
  EXPECT_TRUE(warnings_of([&] { nn::eval(setting); }).empty());
}

// For the thread sanitizer: what a trace notes on the Variables that it uses.
TEST(Modes, TwoThreadsMayTraceOverTheSameVariables) {
  const Net net;
  const Parameters list = parameters(net);
  const auto trace = [&](std::int64_t rows) {
    for (std::int64_t i = 0; i < 3; ++i) {
      const auto run = compile([&](const Tensor& x) { return net.forward(x); });
      run(ones({rows + i, 3})).eval();
      const std::vector<Tensor> grads = grad([&] { return loss_of(net); }, list);
      EXPECT_FALSE(recording::other_variable(grads[0], net.fc.weight).exists);
      EXPECT_TRUE(recording::other_variable(grads[0], net.fc.bias).exists);
    }
  };
  std::thread other([&] { trace(10); });
  trace(1);
  other.join();
}

}  // namespace
}  // namespace systole
