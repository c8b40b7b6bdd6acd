// FunctionOptions::check_finite: a step of one's own that refuses NaN and infinite numbers, names the op
// where they began, as the Trainer does, and leaves its Variables as they were.

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "error_check.h"
#include "systole/systole.h"

namespace systole {
namespace {

class FiniteCheck : public testing::TestWithParam<const char*> {
 protected:
  DeviceScope device{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Devices, FiniteCheck, testing::Values("reference", "cpu"));

void expect_all(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST_P(FiniteCheck, NamesTheOpOfALossAndKeepsTheVariables) {
  Variable w(tensor({1., 2.}, DType::f32), "net.w"), calls(Tensor(0), "calls", false);
  Parameters list;
  list.add("net.w", w);
  optim::Adam opt(list);
  const auto step = compile(
      [&](const Tensor& x) {
        calls.assign(calls + 1);
        auto [loss, grads] = value_and_grad([&] { return sum(log(w * x)); }, list);
        opt.update(grads);
        return loss;
      },
      {.name = "step", .check_finite = true});
  step(tensor({1., 1.}, DType::f32));
  const std::vector<float> before = w.to_vector<float>();
  EXPECT_EQ(calls.item<int>(), 1);
  for (int i = 0; i < 2; ++i)  // and again: nothing was spoiled
    expect_all(error_of(ErrorKind::kInvalidArgument, [&] { step(tensor({1., -1.}, DType::f32)); }),
               {"step", "result 0", "log of f32[2] gives nan at [1]", "net.w"});
  EXPECT_EQ(w.to_vector<float>(), before);
  EXPECT_EQ(calls.item<int>(), 1);
  EXPECT_EQ(opt.step().item<int>(), 1);
  step(tensor({1., 1.}, DType::f32));
  EXPECT_EQ(calls.item<int>(), 2);
}

// sqrt has an infinite derivative at 0, which a finite loss does not show.
TEST_P(FiniteCheck, SeesGradientsThatALossDoesNotShow) {
  Variable w(tensor({0., 4.}, DType::f32), "net.w");
  Parameters list;
  list.add("net.w", w);
  optim::SGD opt(list);
  const auto step = compile(
      [&] {
        auto [loss, grads] = value_and_grad([&] { return sum(sqrt(w.value())); }, list);
        opt.update(grads);
        return loss;
      },
      {.check_finite = true});
  expect_all(error_of(ErrorKind::kInvalidArgument, [&] { step(); }),
             {"the new value of \"net.w\"", "inf at [0]"});
  EXPECT_EQ(w.to_vector<float>(), (std::vector<float>{0, 4}));
}

TEST_P(FiniteCheck, RefusesALaunchOfManyStepsWithTheStep) {
  Variable sum_of(tensor({0.}, DType::f32), "sum", false);
  const auto step = compile(
      [&](const Tensor& x) {
        sum_of.assign(sum_of + x);
        return sum(log(x));
      },
      {.check_finite = true});
  step.many(tensor({{1.}, {2.}}, DType::f32));
  expect_all(
      error_of(ErrorKind::kInvalidArgument, [&] { step.many(tensor({{1.}, {2.}, {-1.}}, DType::f32)); }),
      {"step 2 of the launch"});
  error_of(ErrorKind::kInvalidArgument, [&] { step.many(tensor({{-1.}}, DType::f32)); });
  EXPECT_EQ(sum_of.to_vector<float>(), (std::vector<float>{3}));
}

TEST_P(FiniteCheck, IsNoPartOfAProgramWithoutIt) {
  const auto f = [](const Tensor& x) { return x + 1; };
  const Tensor x = ones({2});
  EXPECT_EQ(compile(f).graph(x).outputs().size(), 1U);
  EXPECT_EQ(compile(f, {.check_finite = true}).graph(x).outputs().size(), 2U);
  const auto whole = [](const Tensor& i) { return i + 1; };  // integers are always finite
  EXPECT_EQ(compile(whole, {.check_finite = true}).graph(tensor({1})).outputs().size(), 1U);
  // Together with the check of indices.
  const auto both = compile([](const Tensor& t, const Tensor& i) { return log(embedding(t, i)); },
                            {.check_indices = true, .check_finite = true});
  both(ones({3, 1}), tensor({1}));
  expect_all(error_of(ErrorKind::kInvalidArgument, [&] { both(ones({3, 1}), tensor({3})); }), {"3 at [0]"});
  expect_all(error_of(ErrorKind::kInvalidArgument, [&] { both(zeros({3, 1}) - 1, tensor({0})); }),
             {"log of f32[1,1] gives nan"});
}

}  // namespace
}  // namespace systole
