#pragma once

// Probability distributions: samples, densities, entropies and divergences, as PyTorch's of these names.
//
//   auto policy = distributions::Categorical::of_logits(net(state));    // [batch, actions]
//   Tensor action = policy.sample(random::next_key());                  // i32 [batch]
//   Tensor loss = -mean(policy.log_prob(action) * advantage);           // REINFORCE
//
// Parameters are Tensors of any joint shape, one distribution for each element (of Categorical, for each row
// of the last axis). sample(key, {n}) draws n for each: [n, shape…]. Parameters are not checked: a negative
// stddev or a probability above 1 gives NaN.

#include "systole/base/export.h"
#include "systole/base/shape.h"
#include "systole/tensor/tensor.h"

namespace systole::distributions {

class SYSTOLE_API Normal {
 public:
  Normal(const Tensor& mean, const Tensor& stddev);  // they broadcast

  const Tensor& mean() const { return mean_; }
  const Tensor& stddev() const { return stddev_; }
  const Shape& shape() const { return mean_.shape(); }

  Tensor sample(const Tensor& key, const Shape& leading = {}) const;   // a constant to derivatives
  Tensor rsample(const Tensor& key, const Shape& leading = {}) const;  // derivatives reach mean and stddev
  Tensor log_prob(const Tensor& value) const;                          // of the density
  Tensor entropy() const;

 private:
  Tensor mean_, stddev_;
};

// 1 with probability p, else 0.
class SYSTOLE_API Bernoulli {
 public:
  static Bernoulli of_probs(const Tensor& p);
  static Bernoulli of_logits(const Tensor& logits);  // p = sigmoid(logits), exact where p is near 0 or 1

  const Tensor& probs() const { return p_; }
  const Shape& shape() const { return p_.shape(); }

  Tensor sample(const Tensor& key, const Shape& leading = {}) const;  // bool
  Tensor log_prob(const Tensor& value) const;                         // of bools, or of 0 and 1
  Tensor entropy() const;

 private:
  friend SYSTOLE_API Tensor kl(const Bernoulli&, const Bernoulli&);
  Tensor p_, q_, log_p_, log_q_;  // q = 1 - p
};

// Class i with the probability at place i of the last axis.
class SYSTOLE_API Categorical {
 public:
  static Categorical of_probs(const Tensor& p);        // not negative; each row is divided by its sum
  static Categorical of_logits(const Tensor& logits);  // p = softmax(logits)

  const Tensor& probs() const { return p_; }
  Tensor logits() const { return log_p_; }  // log p
  Shape shape() const;                      // without the axis of classes

  Tensor sample(const Tensor& key, const Shape& leading = {}) const;  // i32 classes
  Tensor log_prob(const Tensor& classes) const;                       // of integers; -inf outside the classes
  Tensor entropy() const;

 private:
  friend SYSTOLE_API Tensor kl(const Categorical&, const Categorical&);
  Tensor p_, log_p_;
};

// The Kullback-Leibler divergence of b from a, the mean under a of log a - log b: infinite where b excludes
// what a does not.
SYSTOLE_API Tensor kl(const Normal& a, const Normal& b);
SYSTOLE_API Tensor kl(const Bernoulli& a, const Bernoulli& b);
SYSTOLE_API Tensor kl(const Categorical& a, const Categorical& b);

}  // namespace systole::distributions
