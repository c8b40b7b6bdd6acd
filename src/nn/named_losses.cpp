// Losses by the names that files and command lines have for them.

#include <string>
#include <string_view>
#include <vector>

#include "nn/named.h"
#include "systole/base/error.h"
#include "systole/nn/losses.h"

namespace systole::losses {

namespace {

enum Field : unsigned {
  kNothing = 0,
  kFromLogits = 1,
  kSmoothing = 2,
  kIgnore = 4,
  kDelta = 8,
  kBeta = 16,
  kMargin = 32,
  kHalf = 64,
  kClassWeights = 128,
  kPosWeight = 256,
};

struct Entry {
  std::string_view name;
  unsigned takes;
  Tensor (*loss)(const Tensor& output, const Tensor& target, const Settings& s);
};

constexpr unsigned kLabels = kSmoothing | kIgnore | kClassWeights;

Tensor cross_entropy_of(const Tensor& y, const Tensor& t, const Settings& s) {
  return cross_entropy(y, t, {s.reduction, s.label_smoothing.value_or(0), s.class_weights, s.ignore_index});
}
Tensor sparse_of(const Tensor& y, const Tensor& t, const Settings& s) {
  return sparse_categorical_cross_entropy(y, t,
                                          {s.reduction, s.from_logits.value_or(false),
                                           s.label_smoothing.value_or(0), s.class_weights, s.ignore_index});
}
Tensor categorical_of(const Tensor& y, const Tensor& t, const Settings& s) {
  return categorical_cross_entropy(
      y, t, {s.reduction, s.from_logits.value_or(false), s.label_smoothing.value_or(0), s.class_weights});
}
Tensor nll_of(const Tensor& y, const Tensor& t, const Settings& s) {
  return nll_loss(y, t, {s.reduction, s.class_weights, s.ignore_index});
}
Tensor bce_logits_of(const Tensor& y, const Tensor& t, const Settings& s) {
  return bce_with_logits(y, t, {s.reduction, s.pos_weight, {}, s.label_smoothing.value_or(0)});
}
Tensor bce_of(const Tensor& y, const Tensor& t, const Settings& s) {
  if (s.from_logits.value_or(false)) return bce_logits_of(y, t, s);
  if (s.pos_weight.defined())
    throw Error(ErrorKind::kInvalidArgument, "binary_cross_entropy", "pos_weight needs logits",
                "from_logits, or no pos_weight");
  return binary_cross_entropy(y, t, {s.reduction, {}, s.label_smoothing.value_or(0)});
}
Tensor mse_of(const Tensor& y, const Tensor& t, const Settings& s) {
  return mse_loss(y, t, {s.reduction, s.half.value_or(false)});
}
Tensor mae_of(const Tensor& y, const Tensor& t, const Settings& s) { return mae_loss(y, t, {s.reduction}); }
Tensor huber_of(const Tensor& y, const Tensor& t, const Settings& s) {
  return huber_loss(y, t, {s.reduction, s.delta.value_or(1)});
}
Tensor smooth_l1_of(const Tensor& y, const Tensor& t, const Settings& s) {
  return smooth_l1_loss(y, t, {s.reduction, s.beta.value_or(1)});
}
Tensor log_cosh_of(const Tensor& y, const Tensor& t, const Settings& s) {
  return log_cosh_loss(y, t, {s.reduction});
}
Tensor hinge_of(const Tensor& y, const Tensor& t, const Settings& s) {
  return hinge_loss(y, t, {s.reduction});
}
Tensor squared_hinge_of(const Tensor& y, const Tensor& t, const Settings& s) {
  return hinge_loss(y, t, {s.reduction, true});
}
Tensor categorical_hinge_of(const Tensor& y, const Tensor& t, const Settings& s) {
  return categorical_hinge(y, t, {s.reduction});
}
Tensor multi_margin_of(const Tensor& y, const Tensor& t, const Settings& s) {
  return multi_margin_loss(y, t, {s.reduction, 1, s.margin.value_or(1), s.class_weights});
}
Tensor kl_div_of(const Tensor& y, const Tensor& t, const Settings& s) { return kl_div(y, t, {s.reduction}); }
Tensor kl_divergence_of(const Tensor& y, const Tensor& t, const Settings& s) {
  return kl_divergence(y, t, {s.reduction});
}

// The functions' own names first, so that they are what a wrong name is near to.
constexpr Entry kLosses[] = {
    {"cross_entropy", kLabels, cross_entropy_of},
    {"categorical_cross_entropy", kFromLogits | kSmoothing | kClassWeights, categorical_of},
    {"sparse_categorical_cross_entropy", kFromLogits | kLabels, sparse_of},
    {"nll", kIgnore | kClassWeights, nll_of},
    {"bce_with_logits", kSmoothing | kPosWeight, bce_logits_of},
    {"binary_cross_entropy", kFromLogits | kSmoothing | kPosWeight, bce_of},
    {"mse", kHalf, mse_of},
    {"mae", kNothing, mae_of},
    {"huber", kDelta, huber_of},
    {"smooth_l1", kBeta, smooth_l1_of},
    {"log_cosh", kNothing, log_cosh_of},
    {"hinge", kNothing, hinge_of},
    {"squared_hinge", kNothing, squared_hinge_of},
    {"categorical_hinge", kNothing, categorical_hinge_of},
    {"multi_margin", kMargin | kClassWeights, multi_margin_of},
    {"kl_div", kNothing, kl_div_of},
    {"kl_divergence", kNothing, kl_divergence_of},
    {"categorical_crossentropy", kFromLogits | kSmoothing | kClassWeights, categorical_of},
    {"sparse_categorical_crossentropy", kFromLogits | kLabels, sparse_of},
    {"binary_crossentropy", kFromLogits | kSmoothing | kPosWeight, bce_of},
    {"bce", kFromLogits | kSmoothing | kPosWeight, bce_of},
    {"mean_squared_error", kHalf, mse_of},
    {"mean_absolute_error", kNothing, mae_of},
    {"l1", kNothing, mae_of},
    {"kld", kNothing, kl_divergence_of},
};

void check_settings(const Entry& entry, const Settings& s) {
  const struct {
    const char* name;
    bool given;
    Field field;
  } fields[] = {{"from_logits", s.from_logits.has_value(), kFromLogits},
                {"label_smoothing", s.label_smoothing.has_value(), kSmoothing},
                {"ignore_index", s.ignore_index.has_value(), kIgnore},
                {"delta", s.delta.has_value(), kDelta},
                {"beta", s.beta.has_value(), kBeta},
                {"margin", s.margin.has_value(), kMargin},
                {"half", s.half.has_value(), kHalf},
                {"class_weights", s.class_weights.defined(), kClassWeights},
                {"pos_weight", s.pos_weight.defined(), kPosWeight}};
  std::string taken = "reduction";
  for (const auto& field : fields)
    if ((entry.takes & field.field) != 0) taken += std::string(", ") + field.name;
  for (const auto& field : fields)
    if (field.given && (entry.takes & field.field) == 0)
      throw Error(ErrorKind::kInvalidArgument, std::string(entry.name),
                  "a setting that this loss does not have", taken, field.name);
}

}  // namespace

namespace {

const Entry& entry_of(std::string_view name) {
  std::string plain = nn::plain_name(name);
  if (plain.ends_with("_loss")) plain.resize(plain.size() - 5);
  return nn::named<Entry>(kLosses, plain, "loss");
}

}  // namespace

Targets targets_of(std::string_view name) {
  const Entry& entry = entry_of(name);
  const auto is_one_of = [&](auto... losses) { return (... || (entry.loss == losses)); };
  if ((entry.takes & kIgnore) != 0 || is_one_of(multi_margin_of)) return Targets::labels;
  if (is_one_of(bce_logits_of, bce_of)) return Targets::binary;
  if (is_one_of(mse_of, mae_of, huber_of, smooth_l1_of, log_cosh_of)) return Targets::numbers;
  return Targets::other;
}

bool takes_labels(std::string_view name) { return targets_of(name) == Targets::labels; }

Loss by_name(std::string_view name, const Settings& settings) {
  const Entry& entry = entry_of(name);
  check_settings(entry, settings);
  return [loss = entry.loss, settings](const Tensor& output, const Tensor& target) {
    return loss(output, target, settings);
  };
}

std::vector<std::string> names() { return nn::names_of<Entry>(kLosses); }

}  // namespace systole::losses
