// Densities, entropies and divergences by torch.distributions 2.x in f64; samples by their means.

#include "systole/tensor/distributions.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "error_check.h"
#include "systole/tensor/creation.h"
#include "systole/tensor/math.h"
#include "systole/tensor/random.h"
#include "systole/tensor/shaping.h"
#include "systole/tensor/transforms.h"
#include "tensor_check.h"

namespace systole {
namespace {

using namespace distributions;

const DType f32 = DType::f32, f64 = DType::f64;
constexpr double kInf = std::numeric_limits<double>::infinity();

Tensor vec(std::initializer_list<double> values) { return tensor(values, f64); }

TEST(Distributions, Normal) {
  const Normal a(vec({0.5, -1, 2}), vec({1, 0.25, 3})), b(vec({0, -1.5, 2}), vec({2, 0.5, 1}));
  expect_tensor(a.log_prob(vec({0, -1.25, 7})), {f64, {3}},
                {-1.0439385332046727, -0.0326441720847821, -3.406439710761671}, 1e-14);
  expect_tensor(a.entropy(), {f64, {3}}, {1.4189385332046727, 0.0326441720847821, 2.5175508218727822}, 1e-14);
  expect_tensor(kl(a, b), {f64, {3}}, {0.3493971805599453, 0.8181471805599453, 2.90138771133189}, 1e-14);
  expect_tensor(kl(a, a), {f64, {3}}, {0, 0, 0}, 1e-15);
  // Numbers and broadcasting; integers are f32.
  expect_tensor(Normal(0, 1).log_prob(tensor({0, 1})), {f32, {2}}, {-0.9189385, -1.4189385}, 1e-6);
  EXPECT_EQ(Normal(ones({3, 1}), ones({2})).shape(), (Shape{3, 2}));
  error_of(ErrorKind::kShape, [] { Normal(ones({3}), ones({2})); });
}

TEST(Distributions, NormalSamplesHaveMeanAndDeviationAndDerivatives) {
  const Normal d(vec({-3, 10}), vec({0.5, 4}));
  const Tensor x = d.sample(random::key(1), {20000});
  EXPECT_EQ(x.type().to_string(), "f64[20000,2]");
  expect_tensor(mean(x, 0), {f64, {2}}, {-3, 10}, 0.1);
  expect_tensor(stddev(x, 0), {f64, {2}}, {0.5, 4}, 0.1);
  EXPECT_EQ(d.sample(random::key(1)).shape(), (Shape{2}));
  // A sample is mean + stddev · noise: the slope by the mean is 1 for rsample, and 0 for sample.
  const auto slope = [](bool through) {
    return grad([through](const Tensor& m) {
      const Normal moved(m, 2.0);
      return sum(through ? moved.rsample(random::key(2)) : moved.sample(random::key(2)));
    })(vec({1, 2}));
  };
  expect_tensor(slope(true), {f64, {2}}, {1, 1});
  expect_tensor(slope(false), {f64, {2}}, {0, 0});
}

TEST(Distributions, Bernoulli) {
  const auto a = Bernoulli::of_probs(vec({0.2, 0.5, 0.9})), b = Bernoulli::of_probs(vec({0.6, 0.5, 0.1}));
  expect_tensor(a.log_prob(vec({1, 0, 1})), {f64, {3}},
                {-1.6094379124341003, -0.6931471805599453, -0.10536051565782628}, 1e-14);
  expect_tensor(a.log_prob(tensor({true, false, true})), {f64, {3}},
                {-1.6094379124341003, -0.6931471805599453, -0.10536051565782628}, 1e-14);
  expect_tensor(a.entropy(), {f64, {3}}, {0.5004024235381879, 0.6931471805599453, 0.3250829733914482}, 1e-14);
  expect_tensor(kl(a, b), {f64, {3}}, {0.3347952867143343, 0, 1.7577796618689754}, 1e-14);
  const auto far = Bernoulli::of_logits(vec({-40, 0.3, 40}));
  expect_tensor(far.log_prob(vec({1, 1, 0})), {f64, {3}}, {-40, -0.5543552444685271, -40}, 1e-14);
  expect_tensor(far.entropy(), {f64, {3}}, {0, 0.6820224894250294, 0}, 1e-14);
  // Certain ones, by hand: log 1, log 0, 0 · log 0; and no NaN behind a derivative.
  const auto certain = Bernoulli::of_probs(vec({0, 1}));
  expect_tensor(certain.log_prob(vec({0, 0})), {f64, {2}}, {0, -kInf});
  expect_tensor(certain.entropy(), {f64, {2}}, {0, 0});
  expect_tensor(kl(certain, certain), {f64, {2}}, {0, 0});
  expect_tensor(kl(certain, Bernoulli::of_probs(vec({1, 1}))), {f64, {2}}, {kInf, 0});
  const Tensor slope =
      grad([](const Tensor& p) { return sum(Bernoulli::of_probs(p).log_prob(vec({0, 1}))); })(vec({0, 1}));
  expect_tensor(slope, {f64, {2}}, {-1, 1});
  const Tensor x = a.sample(random::key(3), {20000});
  EXPECT_EQ(x.type().to_string(), "bool[20000,3]");
  expect_tensor(mean(x, 0).to(f64), {f64, {3}}, {0.2, 0.5, 0.9}, 0.02);
}

TEST(Distributions, Categorical) {
  const auto a = Categorical::of_probs(tensor({{1.0, 2.0, 7.0}, {0.25, 0.5, 0.25}}, f64)),
             b = Categorical::of_logits(tensor({{0.1, -0.3, 2.0}, {1.0, 0.0, -1.0}}, f64));
  EXPECT_EQ(a.shape(), (Shape{2}));
  expect_tensor(a.probs(), {f64, {2, 3}}, {0.1, 0.2, 0.7, 0.25, 0.5, 0.25}, 1e-15);
  expect_tensor(b.probs(), {f64, {2, 3}},
                {0.11967141358067955, 0.08021814746055116, 0.8001104389587692, 0.6652409557748218,
                 0.2447284710547976, 0.09003057317038045},
                1e-14);
  expect_tensor(a.log_prob(tensor({2, 0})), {f64, {2}}, {-0.35667494393873245, -1.3862943611198906}, 1e-14);
  // A value for each of two draws; a class that is none has no probability.
  expect_tensor(b.log_prob(tensor({{0, 1}, {2, 2}})), {f64, {2, 2}},
                {-2.123005512143593, -1.4076059644443804, -0.223005512143593, -2.4076059644443806}, 1e-14);
  expect_tensor(b.log_prob(tensor({-1, 3})), {f64, {2}}, {-kInf, -kInf});
  expect_tensor(a.entropy(), {f64, {2}}, {0.8018185525433373, 1.0397207708399179}, 1e-14);
  expect_tensor(b.entropy(), {f64, {2}}, {0.6348829371061517, 0.8323955818399387}, 1e-14);
  expect_tensor(kl(a, b), {f64, {2}}, {0.07118695960025566, 0.3678851936044625}, 1e-14);
  const auto certain = Categorical::of_probs(vec({0, 3}));
  expect_tensor(certain.entropy(), {f64, {}}, {0});
  expect_tensor(kl(certain, certain), {f64, {}}, {0});
  expect_tensor(certain.log_prob(tensor({0, 1, 1})), {f64, {3}}, {-kInf, 0, 0});
  const Tensor x = a.sample(random::key(4), {20000});
  EXPECT_EQ(x.type().to_string(), "i32[20000,2]");
  expect_tensor(mean((x == 2).to(f64), 0), {f64, {2}}, {0.7, 0.25}, 0.02);
  expect_tensor(certain.sample(random::key(5), {4}), {DType::i32, {4}}, {1, 1, 1, 1});
  error_of(ErrorKind::kShape, [] { Categorical::of_logits(1.0); });
  error_of(ErrorKind::kDType, [&] { a.log_prob(vec({0, 1})); });
}

TEST(Distributions, GradientsOfTheirLogarithms) {
  const auto loss = [](const Tensor& x) {
    return Categorical::of_logits(x).log_prob(tensor(1)) + Normal(x[0], exp(x[1])).log_prob(0.5) +
           sum(Bernoulli::of_logits(x).entropy());
  };
  expect_tensor(loss(vec({0.3, -0.7})), {f64, {}}, {-0.2958271222670179}, 1e-14);
  expect_tensor(grad(loss)(vec({0.3, -0.7})), {f64, {2}}, {0.006643921231706318, 0.0484655886089681}, 1e-14);
}

}  // namespace
}  // namespace systole
