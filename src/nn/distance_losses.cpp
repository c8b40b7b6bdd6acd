// Losses of numbers, distributions and vectors.

#include <cmath>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "nn/loss_common.h"
#include "systole/tensor/neural.h"

namespace systole {

namespace {

Tensor difference(std::string_view where, const Tensor& prediction, const Tensor& target) {
  check_same_shape(where, prediction, target);
  return recording::as_float(prediction) - recording::as_float(target);
}

void check_positive(std::string_view where, const char* what, double value, bool zero_too) {
  if (!(value > 0 || (zero_too && value == 0)))
    throw Error(ErrorKind::kInvalidArgument, std::string(where), what, zero_too ? "0 or more" : "more than 0",
                fmt::format("{}", value));
}

}  // namespace

Tensor mse_loss(const Tensor& prediction, const Tensor& target, const MseOptions& options) {
  const Tensor terms = square(difference("mse_loss", prediction, target));
  const Tensor loss = reduced(terms, options.reduction);
  return options.half ? 0.5 * loss : loss;
}

Tensor mae_loss(const Tensor& prediction, const Tensor& target, const LossOptions& options) {
  return reduced(abs(difference("mae_loss", prediction, target)), options.reduction);
}

Tensor huber_loss(const Tensor& prediction, const Tensor& target, const HuberOptions& options) {
  check_positive("huber_loss", "delta", options.delta, false);
  const Tensor d = difference("huber_loss", prediction, target), size = abs(d);
  const Tensor terms =
      where(size <= options.delta, 0.5 * square(d), options.delta * (size - 0.5 * options.delta));
  return reduced(terms, options.reduction);
}

Tensor smooth_l1_loss(const Tensor& prediction, const Tensor& target, const SmoothL1Options& options) {
  check_positive("smooth_l1_loss", "beta", options.beta, true);
  const Tensor d = difference("smooth_l1_loss", prediction, target), size = abs(d);
  if (options.beta == 0) return reduced(size, options.reduction);
  const Tensor terms =
      where(size < options.beta, (0.5 / options.beta) * square(d), size - 0.5 * options.beta);
  return reduced(terms, options.reduction);
}

Tensor log_cosh_loss(const Tensor& prediction, const Tensor& target, const LossOptions& options) {
  const Tensor d = difference("log_cosh_loss", prediction, target);
  return reduced(d + softplus(-2 * d) - std::log(2.0), options.reduction);
}

Tensor kl_div(const Tensor& log_probabilities, const Tensor& target, const KlOptions& options) {
  check_same_shape("kl_div", log_probabilities, target);
  const Tensor t = beside(log_probabilities, target), log_q = recording::as_float(log_probabilities);
  const Tensor some = t > 0;
  const Tensor terms =
      options.log_target ? exp(t) * (t - log_q)
                         : where(some, t * (log(where(some, t, 1)) - log_q), recording::constant_like(t, 0));
  if (!options.batch_mean) return reduced(terms, options.reduction);
  if (terms.rank() == 0)
    throw Error(ErrorKind::kShape, "kl_div", "batch_mean has no rows to count", "[rows, …]",
                terms.type().to_string());
  return sum(terms) / static_cast<double>(terms.size(0));
}

Tensor kl_divergence(const Tensor& output, const Tensor& target, const LossOptions& options) {
  constexpr double kAway = 1e-7;
  check_classes("kl_divergence", "the output", output);
  check_same_shape("kl_divergence", output, target);
  const Tensor p = clip(beside(output, target), kAway, 1), q = clip(output, kAway, 1);
  const Tensor nan = recording::constant_like(q, std::numeric_limits<double>::quiet_NaN());
  const Tensor is_none = any(output < 0, -1, true);  // what is below 0 is no probability
  return reduced(sum(where(is_none, nan, p * log(p / q)), -1), options.reduction);
}

Tensor cosine_similarity(const Tensor& a, const Tensor& b, double eps) {
  check_same_shape("cosine_similarity", a, b);
  const auto size = [&](const Tensor& x) { return sqrt(max(sum(square(x), -1), eps * eps)); };
  return sum(a * b, -1) / (size(a) * size(b));
}

Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& signs,
                             const CosineEmbeddingOptions& options) {
  constexpr std::string_view kWhere = "cosine_embedding_loss";
  constexpr double kEps = 1e-12;  // PyTorch's, under the root
  check_classes(kWhere, "the vectors", a);
  check_same_shape(kWhere, a, b);
  if (recording::checked(signs, kWhere).type.shape != rows_of(a))
    throw Error(ErrorKind::kShape, std::string(kWhere), "the signs", rows_of(a).to_string(),
                signs.type().to_string());
  const Tensor cosine = sum(a * b, -1) / sqrt((sum(square(a), -1) + kEps) * (sum(square(b), -1) + kEps));
  const Tensor zero = recording::constant_like(cosine, 0);
  const Tensor terms =
      where(signs == 1, 1 - cosine, zero) + where(signs == -1, relu(cosine - options.margin), zero);
  return reduced(terms, options.reduction);
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletOptions& options) {
  constexpr std::string_view kWhere = "triplet_margin_loss";
  check_classes(kWhere, "the vectors", anchor);
  check_same_shape(kWhere, anchor, positive);
  check_same_shape(kWhere, anchor, negative);
  check_positive(kWhere, "p", options.p, false);
  const auto distance = [&](const Tensor& a, const Tensor& b) {
    constexpr double kEps = 1e-6;  // PyTorch's: keeps equal vectors off the point without a gradient
    return norm(a - b + kEps, -1, {.order = options.p});
  };
  Tensor far = distance(anchor, negative);
  if (options.swap) far = min(far, distance(positive, negative));
  return reduced(relu(options.margin + distance(anchor, positive) - far), options.reduction);
}

}  // namespace systole
