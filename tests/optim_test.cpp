// What optimisers and their company do; tests/optim_parity_test.cpp compares their numbers with PyTorch's.
// Here five steps of three against its formulas in NumPy (f64): the gradient of parameter i at step
// t is p/2 + wave(shape, 0.3·t + i).

#include "systole/optim.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "error_check.h"
#include "systole/nn.h"
#include "systole/tensor/compiled.h"
#include "systole/tensor/creation.h"
#include "systole/tensor/math.h"
#include "systole/tensor/random.h"
#include "systole/tensor/shaping.h"
#include "systole/tensor/transforms.h"
#include "waves.h"

namespace systole {
namespace {

struct Two {
  Variable a{wave({3, 2}, 0.1)}, b{wave({4}, 0.2)};
};

std::vector<Tensor> gradients(const Two& two, int step) {
  const double phase = 0.3 * step;
  return {two.a * 0.5 + wave({3, 2}, phase), two.b * 0.5 + wave({4}, phase + 1)};
}

void expect_after_five_steps(const std::function<std::unique_ptr<optim::Optimizer>(const Two&)>& make,
                             double a, double b) {
  const Two two;
  const auto optimizer = make(two);
  for (int step = 1; step <= 5; ++step) optimizer->update(gradients(two, step));
  EXPECT_NEAR(checksum(two.a), a, 1e-12);
  EXPECT_NEAR(checksum(two.b), b, 1e-12);
  EXPECT_EQ(optimizer->step().value().item<int>(), 5);
}

template <class Optimizer, class Options>
auto made(Options options) {
  return [options](const Two& two) { return std::make_unique<Optimizer>(two, options); };
}

TEST(Sgd, FollowsPyTorch) {
  using Options = optim::SGDOptions;
  expect_after_five_steps(made<optim::SGD>(Options{.lr = 0.1}), 0.880445818116387, 1.64376981214703);
  expect_after_five_steps(made<optim::SGD>(Options{.lr = 0.1, .weight_decay = 0.1}), 0.809515332012891,
                          1.55791129433074);
  expect_after_five_steps(made<optim::SGD>(Options{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1}),
                          -1.73343612121045, -0.333401598697706);
  expect_after_five_steps(
      made<optim::SGD>(Options{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true}),
      -2.23782312505227, -0.490912164733802);
}

TEST(Adam, FollowsPyTorch) {
  using Options = optim::AdamOptions;
  expect_after_five_steps(made<optim::Adam>(Options{.lr = 0.1}), 0.859711325519058, 1.27790370359588);
  expect_after_five_steps(
      made<optim::Adam>(Options{.lr = 0.1, .beta1 = 0.8, .beta2 = 0.95, .weight_decay = 0.1}),
      0.870387579767255, 1.27113361862221);
}

TEST(AdamW, FollowsPyTorch) {
  expect_after_five_steps(made<optim::AdamW>(optim::AdamWOptions{.lr = 0.1}), 0.851361527619119,
                          1.26875732197846);
}

TEST(Optimizers, RunInACompiledStep) {
  const Two two;
  optim::Adam optimizer(parameters(two), {.lr = 0.1});
  auto step = compile([&](const Tensor& ga, const Tensor& gb) {
    optimizer.update(std::vector<Tensor>{two.a * 0.5 + ga, two.b * 0.5 + gb});
  });
  for (int t = 1; t <= 5; ++t) step(wave({3, 2}, 0.3 * t), wave({4}, 0.3 * t + 1));
  EXPECT_NEAR(checksum(two.a), 0.859711325519058, 1e-12);
  EXPECT_NEAR(checksum(two.b), 1.27790370359588, 1e-12);
  EXPECT_EQ(step.traces(), 1);
}

TEST(Optimizers, ANewLearningRateNeedsNoNewTrace) {
  struct One {
    Variable x{tensor({1.0}, DType::f64)};
  } one;
  optim::SGD optimizer(one, {.lr = 0.5});
  auto step = compile([&](const Tensor& g) { optimizer.update(std::vector<Tensor>{g}); });
  step(tensor({1.0}, DType::f64));
  EXPECT_DOUBLE_EQ(one.x.value().item<double>(), 0.5);
  optimizer.set_lr(0.125);
  step(tensor({1.0}, DType::f64));
  EXPECT_DOUBLE_EQ(one.x.value().item<double>(), 0.375);
  EXPECT_EQ(step.traces(), 1);
  EXPECT_DOUBLE_EQ(optimizer.lr().value().item<double>(), 0.125);
}

TEST(Optimizers, ListTheirStateByName) {
  const Two two;
  const optim::Adam adam(two);
  EXPECT_EQ(adam.state().names(), (std::vector<std::string>{"adam.lr", "adam.step", "adam.m.a", "adam.m.b",
                                                            "adam.v.a", "adam.v.b"}));
  EXPECT_EQ(adam.state().at("adam.m.a").name(), "adam.m.a");
  EXPECT_EQ(adam.state().at("adam.v.b").shape(), Shape{4});
  EXPECT_EQ(optim::SGD(two).state().names(), (std::vector<std::string>{"sgd.lr", "sgd.step"}));
  EXPECT_EQ(optim::SGD(two, {.momentum = 0.9}).state().names(),
            (std::vector<std::string>{"sgd.lr", "sgd.step", "sgd.velocity.a", "sgd.velocity.b"}));
}

TEST(Optimizers, GoOnFromASavedState) {
  const Two first, second;
  optim::Adam before(first, {.lr = 0.1}), after(second, {.lr = 0.3});
  for (int step = 1; step <= 3; ++step) before.update(gradients(first, step));
  for (const auto& [name, variable] : before.state()) after.state().at(name).assign(variable);
  Variable a = second.a, b = second.b;
  a.assign(first.a);
  b.assign(first.b);
  for (int step = 4; step <= 5; ++step) after.update(gradients(second, step));
  EXPECT_NEAR(checksum(second.a), 0.859711325519058, 1e-12);
}

TEST(Optimizers, UpdateSmallFloats) {
  struct One {
    Variable x{tensor({1.0, 2.0}).to(DType::bf16)};
  } one;
  optim::AdamW optimizer(one, {.lr = 0.5, .weight_decay = 0});
  optimizer.update(std::vector<Tensor>{tensor({1.0, -1.0})});  // a gradient of f32
  EXPECT_EQ(one.x.dtype(), DType::bf16);
  const std::vector<float> x = one.x.value().to(DType::f32).to_vector<float>();
  EXPECT_NEAR(x[0], 0.5, 1e-2);
  EXPECT_NEAR(x[1], 2.5, 1e-2);
}

TEST(Optimizers, NameTheParameterThatAGradientDoesNotFit) {
  const Two two;
  optim::SGD optimizer(two);
  const std::string few =
      error_of(ErrorKind::kInvalidArgument, [&] { optimizer.update(std::vector<Tensor>{wave({3, 2}, 0)}); });
  EXPECT_NE(few.find("\"b\""), std::string::npos) << few;
  const std::string shape = error_of(
      ErrorKind::kShape, [&] { optimizer.update(std::vector<Tensor>{wave({3, 2}, 0), wave({5}, 0)}); });
  EXPECT_NE(shape.find("\"b\""), std::string::npos) << shape;
  EXPECT_NE(shape.find("f64[4]"), std::string::npos) << shape;
  EXPECT_EQ(optimizer.step().value().item<int>(), 0);
}

TEST(Optimizers, RefuseImpossibleOptions) {
  const Two two;
  error_of(ErrorKind::kInvalidArgument, [&] { optim::Adam(two, {.beta1 = 1}); });
  error_of(ErrorKind::kInvalidArgument, [&] { optim::SGD(two, {.lr = -1}); });
  error_of(ErrorKind::kInvalidArgument, [&] { optim::SGD(two, {.nesterov = true}); });
  error_of(ErrorKind::kInvalidArgument, [&] { optim::SGD(two).set_lr(std::nan("")); });
}

TEST(Optimizers, AreMadeByName) {
  const Two two;
  for (const std::string_view name : optim::optimizer_names()) {
    const auto optimizer = optim::make(name, parameters(two));
    EXPECT_EQ(optimizer->lr().item<double>(), optim::default_lr(name)) << name;
    optimizer->update(gradients(two, 1));
  }
  const auto adam = optim::make("adam", parameters(two), {{"learning_rate", 0.1}});
  EXPECT_EQ(adam->name(), "adam");
  EXPECT_EQ(adam->lr().item<double>(), 0.1);
  EXPECT_EQ(optim::default_lr("pytorch:rmsprop"), 1e-2);
  EXPECT_EQ(optim::default_lr("keras:rmsprop"), 1e-3);
  EXPECT_EQ(optim::keras::rmsprop().alpha, 0.9);
  EXPECT_EQ(optim::pytorch::rmsprop().alpha, 0.99);
}

TEST(Optimizers, UnknownNamesAndOptionsGiveTheNearest) {
  const Parameters all = parameters(Two());
  const auto expect = [](const std::string& message, const std::string& part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect(error_of(ErrorKind::kNotFound, [&] { optim::make("admaw", all); }), "did you mean 'adamw'?");
  expect(error_of(ErrorKind::kNotFound, [&] { optim::make("keras:rmsporp", all); }), "'keras:rmsprop'?");
  expect(error_of(ErrorKind::kNotFound, [&] { optim::make("adam", all, {{"weight_decya", 0.1}}); }),
         "'weight_decay'?");
  expect(error_of(ErrorKind::kNotFound, [&] { optim::make("sgd", all, {{"rho", 0.1}}); }), "'rho'");
  expect(error_of(ErrorKind::kInvalidArgument, [&] { optim::make("adam", all, {{"amsgrad", 1}}); }),
         "true or false");
  expect(error_of(ErrorKind::kInvalidArgument, [&] { optim::make("adam", all, {{"eps", "small"}}); }),
         "a number");
  expect(error_of(ErrorKind::kInvalidArgument,
                  [&] { optim::make("adam", all, {{"lr", 0.1}, {"learning_rate", 0.2}}); }),
         "twice");
  expect(error_of(ErrorKind::kNotFound, [&] { optim::make("muon", all, {{"adjust_lr", "orignal"}}); }),
         "'original'?");
  expect(error_of(ErrorKind::kNotFound, [&] { optim::make_schedule("cosin", 0.1); }), "'cosine'?");
  expect(error_of(ErrorKind::kNotFound, [&] { optim::make_schedule("cosine", 0.1, {{"step", 3}}); }),
         "'steps'?");
  expect(error_of(ErrorKind::kInvalidArgument, [&] { optim::make_schedule("cosine", 0.1); }), "\"steps\"");
  expect(error_of(ErrorKind::kInvalidArgument, [&] { optim::make_schedule("step", 0.1, {{"size", 2.5}}); }),
         "a whole number");
}

TEST(Groups, NameParametersByPattern) {
  struct Net {
    nn::Linear fc{2, 3}, head{3, 2};
  } net;
  nn::cast(net, DType::f64);
  const std::vector<Tensor> zero_grads{zeros({3, 2}, DType::f64), zeros({3}, DType::f64),
                                       zeros({2, 3}, DType::f64), zeros({2}, DType::f64)};
  const auto before = state_dict(net);
  optim::SGD optimizer(
      net,
      {.lr = 0.5, .weight_decay = 0.5, .groups = {optim::no_decay(net), {.names = {"head.*"}, .lr = 0.25}}});
  EXPECT_EQ(optimizer.state().names(), (std::vector<std::string>{"sgd.lr", "sgd.step", "sgd.groups.1.lr"}));
  optimizer.update(zero_grads);
  const auto after = state_dict(net);
  for (const auto& [name, factor] : {std::pair("fc.weight", 0.75), std::pair("fc.bias", 1.0),
                                     std::pair("head.weight", 0.875), std::pair("head.bias", 1.0)})
    EXPECT_TRUE(allclose(after.at(name), before.at(name) * factor, 1e-15, 0)) << name;

  const std::string wrong = error_of(ErrorKind::kNotFound, [&] {
    optim::SGD(net, {.groups = {{.names = {"haed.weight"}, .weight_decay = 0}}});
  });
  EXPECT_NE(wrong.find("'head.weight'?"), std::string::npos) << wrong;
}

TEST(Schedules, AreRefusedWhenImpossible) {
  using namespace optim::schedules;
  error_of(ErrorKind::kInvalidArgument, [] { cosine(-1, 10); });
  error_of(ErrorKind::kInvalidArgument, [] { cosine(1, 0); });
  error_of(ErrorKind::kInvalidArgument, [] { exponential(1, 0); });
  error_of(ErrorKind::kInvalidArgument, [] { multi_step(1, {5, 3}); });
  error_of(ErrorKind::kInvalidArgument, [] { one_cycle(1, 10, {.peak = 1}); });
  error_of(ErrorKind::kInvalidArgument, [] { sequence({constant(1), constant(2)}, {}); });
  error_of(ErrorKind::kInvalidArgument, [] { constant(1).at(-1); });
  error_of(ErrorKind::kInvalidArgument, [] { cosine(1, 10).at(tensor(0.5)); });
}

TEST(Schedules, KeepTheirLastRate) {
  using namespace optim::schedules;
  EXPECT_DOUBLE_EQ(cosine(1, 10, 0.25).at(1000), 0.25);
  EXPECT_DOUBLE_EQ(polynomial(1, 10, 2, 0.5).at(1000), 0.5);
  EXPECT_DOUBLE_EQ(one_cycle(1, 10).at(1000), one_cycle(1, 10).at(9));
  EXPECT_DOUBLE_EQ(one_cycle(1, 10, {.peak = 0}).at(9), 1 / 25e4);
  EXPECT_DOUBLE_EQ(constant(0.5).after_warmup(4).at(1), 0.125);
  EXPECT_DOUBLE_EQ(constant(0.5).after_warmup(4).at(4), 0.5);
}

TEST(Schedules, ArePartOfACompiledStep) {
  struct One {
    Variable x{tensor({0.0}, DType::f64)};
  } one;
  optim::SGD optimizer(one, {.lr = optim::schedules::step(0.5, 2, 0.5)});
  auto step = compile([&](const Tensor& apply) {
    optimizer.update(std::vector<Tensor>{tensor({-1.0}, DType::f64)}, apply);
    return Tensor(optimizer.lr());
  });
  // A step that is left out does not count.
  const Tensor rates = step.many(tensor({true, true, false, true, true}));
  EXPECT_EQ(rates.to_vector<double>(), (std::vector<double>{0.5, 0.5, 0.5, 0.25, 0.25}));
  EXPECT_DOUBLE_EQ(one.x.item<double>(), 1.5);
  EXPECT_EQ(optimizer.step().item<int>(), 4);
  error_of(ErrorKind::kInvalidArgument, [&] { optimizer.set_lr(0.1); });
  error_of(ErrorKind::kInvalidArgument, [&] { optim::Plateau plateau(optimizer); });

  optimizer.set_schedule(optim::schedules::exponential(1, 0.5));
  step(tensor(true));
  EXPECT_DOUBLE_EQ(optimizer.lr().item<double>(), 0.0625);
  optimizer.set_schedule(0.125);
  EXPECT_FALSE(optimizer.has_schedule());
  step(tensor(true));
  EXPECT_DOUBLE_EQ(optimizer.lr().item<double>(), 0.125);
  optimizer.set_lr(0.25);
  step(tensor(true));
  EXPECT_DOUBLE_EQ(one.x.item<double>(), 1.5 + 0.0625 + 0.125 + 0.25);
}

// A user's own schedule: the same function twice.
TEST(Schedules, CanBeWrittenByHand) {
  const optim::Schedule inverse([](std::int64_t step) { return 1 / (1.0 + static_cast<double>(step)); },
                                [](const Tensor& step, DType dtype) { return 1 / (1 + step.to(dtype)); });
  EXPECT_DOUBLE_EQ(inverse.at(3), 0.25);
  EXPECT_DOUBLE_EQ(inverse.at(tensor(3), DType::f64).item<double>(), 0.25);
}

class OnDevice : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(On, OnDevice, testing::Values("reference", "cpu"),
                         [](const auto& info) { return std::string(info.param); });

// Four small batches are one large one: the gradient of a mean is the mean of the gradients.
TEST_P(OnDevice, FourMicroBatchesAreOneLargeBatch) {
  const DeviceScope device(GetParam());
  struct Net {
    nn::Linear fc1{3, 5}, fc2{5, 2};
    Tensor forward(const Tensor& x) const { return fc2(tanh(fc1(x))); }
  };
  Net large, small;
  for (Net* net : {&large, &small}) nn::cast(*net, DType::f64);
  for (const auto& [name, variable] : parameters(large))
    Variable(variable).assign(wave(variable.shape(), 0.1 * static_cast<double>(variable.size())));
  load_state_dict(small, state_dict(large));
  const auto gradient = [](Net& net, const Tensor& x, const Tensor& y) {
    return value_and_grad([&] { return mean(square(net.forward(x) - y)); }, parameters(net)).grads;
  };
  optim::Adam large_optimizer(large, {.lr = 0.1}), small_optimizer(small, {.lr = 0.1});
  optim::Accumulation accumulation(small, 4);
  auto large_step = compile([&](const Tensor& x, const Tensor& y) {
    std::vector<Tensor> grads = gradient(large, x, y);
    const Tensor norm = optim::clip_by_norm(grads, 0.5);
    large_optimizer.update(grads);
    return norm;
  });
  auto small_step = compile([&](const Tensor& x, const Tensor& y, const Tensor& finite) {
    auto [grads, due] = accumulation.add(gradient(small, x, y), finite);
    const Tensor norm = optim::clip_by_norm(grads, 0.5);
    small_optimizer.update(grads, due);
    return norm;
  });
  const Tensor x = wave({5, 8, 3}, 0.3), y = wave({5, 8, 2}, 0.7);  // five batches of eight
  const Tensor norms = large_step.many(x, y);
  EXPECT_GT(max(norms).item<double>(), 0.5);
  // Twenty of two; one more that overflowed, in the middle of a batch, changes nothing.
  const Tensor xs = x.reshape({20, 2, 3}), ys = y.reshape({20, 2, 2});
  small_step.many(xs[{slice(0, 6)}], ys[{slice(0, 6)}], tensor(std::vector<bool>(6, true)));
  small_step(xs[0] + std::numeric_limits<double>::infinity(), ys[0], tensor(false));
  EXPECT_EQ(accumulation.count().item<int>(), 2);
  small_step.many(xs[{slice(6, 20)}], ys[{slice(6, 20)}], tensor(std::vector<bool>(14, true)));

  EXPECT_EQ(small_optimizer.step().item<int>(), 5);
  EXPECT_EQ(accumulation.count().item<int>(), 0);
  for (const auto& [name, variable] : parameters(large))
    EXPECT_TRUE(allclose(variable, parameters(small).at(name), 0, 1e-14)) << name;
  EXPECT_EQ(accumulation.state().names(),
            (std::vector<std::string>{"accumulation.count", "accumulation.sum.fc1.weight",
                                      "accumulation.sum.fc1.bias", "accumulation.sum.fc2.weight",
                                      "accumulation.sum.fc2.bias"}));
}

TEST(Accumulation, StartsAnewAfterReset) {
  const Two two;
  optim::Accumulation accumulation(two, 2);
  EXPECT_FALSE(accumulation.add(gradients(two, 1)).due.item<bool>());
  accumulation.reset();
  EXPECT_FALSE(accumulation.add(gradients(two, 2)).due.item<bool>());
  const auto [grads, due] = accumulation.add(gradients(two, 2));
  EXPECT_TRUE(due.item<bool>());
  EXPECT_TRUE(allclose(grads[0], gradients(two, 2)[0]));
  error_of(ErrorKind::kInvalidArgument, [&] { accumulation.add(std::vector<Tensor>{}); });
  error_of(ErrorKind::kInvalidArgument, [&] { optim::Accumulation(two, 0); });
}

TEST(Ema, IsSwappedInForATest) {
  struct One {
    Variable x{tensor({1.0, 2.0})};
  } one;
  optim::Ema ema(one, {.decay = 0.5});
  auto step = compile([&] {
    one.x += 1.0;
    ema.update();
  });
  step();  // 2, 3: copied
  step();  // 3, 4
  {
    const auto averaged = ema.averaged();
    EXPECT_EQ(one.x.to_vector<float>(), (std::vector<float>{2.5f, 3.5f}));
    error_of(ErrorKind::kInvalidArgument, [&] { ema.update(); });
  }
  EXPECT_EQ(one.x.to_vector<float>(), (std::vector<float>{3, 4}));
  step();
  EXPECT_EQ(ema.averages().at("x").to_vector<float>(), (std::vector<float>{3.25f, 4.25f}));
  ema.update(tensor(false));
  EXPECT_EQ(ema.updates().item<int>(), 3);
  EXPECT_EQ(ema.state().names(), (std::vector<std::string>{"ema.updates", "ema.average.x"}));
}

TEST(Ema, OfSmallFloatsIsKeptInF32) {
  struct One {
    Variable x{tensor({1.0}).to(DType::bf16)};
  } one;
  optim::Ema ema(one, {.decay = 0.999});
  ema.update();
  one.x += 1.0;
  for (int i = 0; i < 10; ++i) ema.update();
  EXPECT_NEAR(ema.averages().at("x").item<double>(), 2 - std::pow(0.999, 10), 1e-6);
  ema.swap();
  EXPECT_EQ(one.x.dtype(), DType::bf16);
  ema.swap();
  EXPECT_EQ(one.x.item<double>(), 2);
}

// bf16 parameters, f32 gradients: each step is about as long as in f64.
TEST(Optimizers, AllUpdateSmallFloats) {
  for (const std::string_view name : optim::optimizer_names()) {
    struct Net {
      Variable w{wave({4, 3}, 0.1)}, b{wave({3}, 0.2)};
    } exact, small;
    for (Variable* v : {&small.w, &small.b}) *v = Variable(v->to(DType::bf16));
    const auto one = optim::make(name, parameters(exact), {{"lr", 0.1}});
    const auto other = optim::make(name, parameters(small), {{"lr", 0.1}});
    one->update(std::vector<Tensor>{wave({4, 3}, 0.4), wave({3}, 0.5)});
    other->update(std::vector<Tensor>{wave({4, 3}, 0.4).to(DType::f32), wave({3}, 0.5).to(DType::f32)});
    EXPECT_EQ(small.w.dtype(), DType::bf16);
    EXPECT_TRUE(allclose(small.w.to(DType::f64), exact.w, 0, 0.02)) << name;
    EXPECT_TRUE(allclose(small.b.to(DType::f64), exact.b, 0, 0.02)) << name;
  }
}

TEST(Muon, TakesKernelsAsMatricesAndLeavesWhatIsNamedToAdamW) {
  struct Flat {
    Variable kernel{wave({4, 6}, 0.1)}, table{wave({3, 2}, 0.2)};
  } flat;
  struct Deep {
    Variable kernel{wave({4, 2, 3, 1}, 0.1)}, table{wave({3, 2}, 0.2)};
  } deep;
  struct Table {
    Variable table{wave({3, 2}, 0.2)};
  } alone;
  optim::Muon a(flat, {.lr = 0.1}), b(deep, {.lr = 0.1, .adamw = {"table"}, .adam_lr_ratio = 0.5});
  optim::AdamW c(alone, {.lr = 0.05});
  a.update(std::vector<Tensor>{wave({4, 6}, 0.3), wave({3, 2}, 0.4)});
  b.update(std::vector<Tensor>{wave({4, 2, 3, 1}, 0.3), wave({3, 2}, 0.4)});
  c.update(std::vector<Tensor>{wave({3, 2}, 0.4)});
  EXPECT_TRUE(allclose(deep.kernel.value().reshape({4, 6}), flat.kernel, 0, 1e-14));
  EXPECT_TRUE(allclose(deep.table, alone.table, 0, 1e-14));
  EXPECT_EQ(b.state().names(), (std::vector<std::string>{"muon.lr", "muon.step", "muon.m.kernel",
                                                         "muon.m.table", "muon.v.table"}));
  error_of(ErrorKind::kNotFound, [&] { optim::Muon(flat, {.adamw = {"head.*"}}); });
}

// Keras: matrices alone, and of those no embeddings.
TEST(Muon, LeavesMoreToAdamWInKerassForm) {
  Parameters all;
  all.add("fc.weight", Variable(zeros({2, 3}), "fc.weight"));
  all.add("conv.weight", Variable(zeros({2, 3, 3, 3}), "conv.weight"));
  all.add("embedding.weight", Variable(zeros({5, 3}), "embedding.weight"));
  const optim::Muon muon(all, optim::keras::muon());
  EXPECT_EQ(
      muon.state().names(),
      (std::vector<std::string>{"muon.lr", "muon.step", "muon.m.fc.weight", "muon.m.conv.weight",
                                "muon.v.conv.weight", "muon.m.embedding.weight", "muon.v.embedding.weight"}));
}

TEST(Muon, CanIterateInBf16AsPyTorchDoes) {
  struct One {
    Variable w{wave({4, 6}, 0.1)};
  } exact, small;
  optim::Muon a(exact, {.lr = 0.1}), b(small, {.lr = 0.1, .ns_dtype = DType::bf16});
  a.update(std::vector<Tensor>{wave({4, 6}, 0.3)});
  b.update(std::vector<Tensor>{wave({4, 6}, 0.3)});
  EXPECT_TRUE(allclose(exact.w, small.w, 0, 2e-3));
  EXPECT_FALSE(allclose(exact.w, small.w, 0, 1e-9));
}

// What a checkpoint has to keep is in state(): a run that is interrupted goes on to the same bits.
TEST(Optimizers, EveryStateGoesOnFromACheckpoint) {
  const auto run = [](const Two& two, optim::Optimizer& optimizer, int first, int last) {
    for (int t = first; t <= last; ++t) optimizer.update(gradients(two, t));
  };
  const optim::Schedule lr = optim::schedules::cosine(0.1, 20).after_warmup(3);
  const std::vector<optim::Group> groups{{.names = {"b"}, .lr = optim::schedules::exponential(0.1, 0.9)}};
  for (const std::string_view name : optim::optimizer_names()) {
    const Two whole, first, second;
    const auto at_once = optim::make(name, parameters(whole), lr, {}, groups);
    run(whole, *at_once, 1, 8);
    const auto before = optim::make(name, parameters(first), lr, {}, groups);
    run(first, *before, 1, 5);
    const auto after = optim::make(name, parameters(second), lr, {}, groups);
    for (const auto& [key, variable] : before->state()) after->state().at(key).assign(variable);
    for (const auto& [key, variable] : parameters(first)) parameters(second).at(key).assign(variable);
    run(second, *after, 6, 8);
    EXPECT_EQ(second.a.to_vector<double>(), whole.a.to_vector<double>()) << name;
    EXPECT_EQ(second.b.to_vector<double>(), whole.b.to_vector<double>()) << name;
  }
}

TEST(Clipping, KeepsDtypesAndRefusesLimitsBelowZero) {
  std::vector<Tensor> grads{tensor({3.0}).to(DType::bf16), tensor({4.0}, DType::f64)};
  EXPECT_DOUBLE_EQ(optim::clip_by_norm(grads, 1).item<double>(), 5);
  EXPECT_EQ(grads[0].dtype(), DType::bf16);
  EXPECT_NEAR(grads[0].item<double>(), 0.6, 4e-3);
  EXPECT_NEAR(grads[1].item<double>(), 0.8, 1e-6);
  std::vector<Tensor> none;
  EXPECT_EQ(optim::clip_by_norm(none, 1).item<double>(), 0);
  error_of(ErrorKind::kInvalidArgument, [&] { optim::clip_by_norm(grads, 0); });
  error_of(ErrorKind::kInvalidArgument, [&] { optim::clip_by_value(grads, -1); });
}

// The program of the first page: a step is one launch, many steps are one scan.
TEST(Training, AModelLearnsByCompiledSteps) {
  struct Mlp {
    nn::Linear fc1{2, 16}, fc2{16, 2};
    Tensor forward(const Tensor& x) const { return fc2(relu(fc1(x))); }
  };
  random::seed(1);
  Mlp m;
  optim::Adam opt(parameters(m), {.lr = 1e-2});
  auto step = compile([&](const Tensor& x, const Tensor& y) {
    auto [loss, grads] = value_and_grad([&] { return cross_entropy(m.forward(x), y); }, parameters(m));
    opt.update(grads);
    return loss;
  });
  // Exclusive or.
  const Tensor x = tensor({{0.0, 0.0}, {0.0, 1.0}, {1.0, 0.0}, {1.0, 1.0}}), y = tensor({0, 1, 1, 0});
  const float first = step(x, y).item<float>();
  const Tensor losses = step.many(x + zeros({400, 1, 1}), y + zeros({400, 1}, DType::i32));
  EXPECT_EQ(losses.shape(), Shape{400});
  EXPECT_LT(step(x, y).item<float>(), 0.05f * first);
  EXPECT_EQ(opt.step().value().item<int>(), 402);
  EXPECT_EQ(argmax(m.forward(x), 1).to_vector<std::int32_t>(), (std::vector<std::int32_t>{0, 1, 1, 0}));
}

}  // namespace
}  // namespace systole
