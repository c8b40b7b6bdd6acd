// Distributions by their logarithms, which stay exact where a probability is too small beside 1. What has
// probability 0 adds nothing, although its logarithm is infinite: 0 · log 0 = 0.

#include "systole/tensor/distributions.h"

#include <array>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "systole/base/error.h"
#include "systole/tensor/creation.h"
#include "systole/tensor/math.h"
#include "systole/tensor/neural.h"
#include "systole/tensor/random.h"
#include "systole/tensor/shaping.h"
#include "systole/tensor/transforms.h"
#include "tensor/functions.h"
#include "tensor/record.h"

namespace systole::distributions {

namespace {

const double kHalfLogTwoPi = 0.91893853320467274178;  // log(2π) / 2

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// -inf of 0, with a derivative of 0 there.
Tensor log_of(const Tensor& p) { return where(p == 0, -kInfinity, log(where(p == 0, 1.0, p))); }

// p · x, 0 where p is.
Tensor weighted(const Tensor& p, const Tensor& x) { return p * where(p == 0, 0.0, x); }

Shape joined(const Shape& leading, const Shape& shape) {
  Shape all = leading;
  for (const Dim& d : shape) all.push_back(d);
  return all;
}

}  // namespace

Normal::Normal(const Tensor& mean, const Tensor& stddev) {
  const std::array both{recording::as_float(mean), recording::as_float(stddev)};
  const std::vector<Tensor> same = recording::promoted(both, "Normal");
  const Shape shape = recording::joint_shape(same, "Normal");
  mean_ = broadcast_to(same[0], shape);
  stddev_ = broadcast_to(same[1], shape);
}

Tensor Normal::rsample(const Tensor& key, const Shape& leading) const {
  return mean_ + stddev_ * random::normal(key, joined(leading, shape()), 0, 1, mean_.dtype());
}

Tensor Normal::sample(const Tensor& key, const Shape& leading) const {
  return stop_gradient(rsample(key, leading));
}

Tensor Normal::log_prob(const Tensor& value) const {
  return -0.5 * square((value - mean_) / stddev_) - log(stddev_) - kHalfLogTwoPi;
}

Tensor Normal::entropy() const { return log(stddev_) + (0.5 + kHalfLogTwoPi); }

Tensor kl(const Normal& a, const Normal& b) {
  const Tensor ratio = square(a.stddev() / b.stddev()), shift = square((a.mean() - b.mean()) / b.stddev());
  return 0.5 * (ratio + shift - 1 - log(ratio));
}

Bernoulli Bernoulli::of_probs(const Tensor& p) {
  Bernoulli made;
  made.p_ = recording::as_float(p);
  made.q_ = 1 - made.p_;
  made.log_p_ = log_of(made.p_);
  made.log_q_ = log_of(made.q_);
  return made;
}

Bernoulli Bernoulli::of_logits(const Tensor& logits) {
  const Tensor x = recording::as_float(logits);
  Bernoulli made;
  made.p_ = sigmoid(x);
  made.q_ = sigmoid(-x);
  made.log_p_ = -softplus(-x);
  made.log_q_ = -softplus(x);
  return made;
}

Tensor Bernoulli::sample(const Tensor& key, const Shape& leading) const {
  return random::bernoulli(key, stop_gradient(p_), joined(leading, shape()));
}

Tensor Bernoulli::log_prob(const Tensor& value) const { return where(value != 0, log_p_, log_q_); }

Tensor Bernoulli::entropy() const { return -(weighted(p_, log_p_) + weighted(q_, log_q_)); }

Tensor kl(const Bernoulli& a, const Bernoulli& b) {
  return weighted(a.p_, a.log_p_ - b.log_p_) + weighted(a.q_, a.log_q_ - b.log_q_);
}

namespace {

Tensor with_classes(const Tensor& x) {
  if (recording::checked(x, "Categorical").type.shape.rank() == 0)
    throw Error(ErrorKind::kShape, "Categorical", "the classes", "[…, classes]", x.type().to_string());
  return recording::as_float(x);
}

}  // namespace

Categorical Categorical::of_probs(const Tensor& p) {
  const Tensor x = with_classes(p);
  Categorical made;
  made.p_ = x / sum(x, -1, true);
  made.log_p_ = log_of(made.p_);
  return made;
}

Categorical Categorical::of_logits(const Tensor& logits) {
  Categorical made;
  made.log_p_ = log_softmax(with_classes(logits), -1);
  made.p_ = exp(made.log_p_);
  return made;
}

Shape Categorical::shape() const {
  Shape shape;
  for (std::size_t i = 0; i + 1 < p_.shape().size(); ++i) shape.push_back(p_.shape()[i]);
  return shape;
}

Tensor Categorical::sample(const Tensor& key, const Shape& leading) const {
  return random::categorical(key, broadcast_to(stop_gradient(log_p_), joined(leading, p_.shape())), -1);
}

Tensor Categorical::log_prob(const Tensor& classes) const {
  const DType dtype = recording::checked(classes, "Categorical").type.dtype;
  if (!is_integer(dtype))
    throw Error(ErrorKind::kDType, "Categorical", "the classes", "integers", classes.type().to_string());
  const std::array shapes{classes, entropy()};
  const Shape joint = recording::joint_shape(shapes, "Categorical");
  const Dim count = p_.shape()[p_.shape().size() - 1];
  const Tensor at = broadcast_to(classes.to(is_unsigned_integer(dtype) ? DType::u64 : DType::i64), joint);
  const Tensor rows = broadcast_to(log_p_, joined(joint, {count}));
  const Tensor found = squeeze(take_along_axis(rows, unsqueeze(at, -1), -1), -1);
  return where(at >= 0 && at < count.value(), found, -kInfinity);
}

Tensor Categorical::entropy() const { return -sum(weighted(p_, log_p_), -1); }

Tensor kl(const Categorical& a, const Categorical& b) { return sum(weighted(a.p_, a.log_p_ - b.log_p_), -1); }

}  // namespace systole::distributions
