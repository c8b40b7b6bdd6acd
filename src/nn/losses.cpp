// Losses of classes. With integer labels and nothing else asked for, cross_entropy is the composite, which
// devices have kernels for; every other form goes through the logarithms of the probabilities.

#include "systole/nn/losses.h"

#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "nn/loss_common.h"
#include "systole/ops.h"
#include "systole/tensor/neural.h"
#include "tensor/index_check.h"
#include "tensor/thread_state.h"

namespace systole {

using recording::built;
using recording::checked;

void check_classes(std::string_view where, std::string_view what, const Tensor& output) {
  if (!is_float(checked(output, where).type.dtype))
    throw Error(ErrorKind::kDType, std::string(where), std::string(what), "floating-point numbers",
                output.type().to_string());
  if (output.rank() == 0)
    throw Error(ErrorKind::kShape, std::string(where), fmt::format("{} have no class axis", what),
                "[…, classes]", output.type().to_string());
}

void check_labels(std::string_view where, const Tensor& output, const Tensor& labels) {
  const Shape rows = rows_of(output);
  if (!is_integer(checked(labels, where).type.dtype))
    throw Error(ErrorKind::kDType, std::string(where), "the labels", "integers of shape " + rows.to_string(),
                labels.type().to_string());
  if (labels.shape() != rows)
    throw Error(ErrorKind::kShape, std::string(where),
                "the labels do not fit the output " + output.type().to_string(), rows.to_string(),
                labels.type().to_string());
}

Tensor checked_labels(std::string_view loss, const Tensor& labels, std::int64_t classes,
                      std::optional<std::int64_t> ignored) {
  if (!recording::checks_indices(recording::thread_state().check_indices)) return labels;
  ir::AttrMap attrs{{"loss", std::string(loss)}, {"classes", classes}};
  if (ignored) attrs.emplace("ignore_index", *ignored);
  const ir::GraphRef identity =
      ir::make_graph("labels", std::span(&labels.type(), 1), [](const ir::Values& x) { return x; });
  return recording::record_multi(ir::Op::composite, std::span(&labels, 1),
                                 ir::CompositeAttrs{std::string(recording::kCheckedLabels), std::move(attrs)},
                                 {identity})[0];
}

Tensor label_mask(const Tensor& labels, std::int64_t classes) {
  return built({labels}, [&](const ir::Values& v) { return ops::one_hot(v[0], classes, DType::boolean); });
}

Tensor nan_unless_labelled(const Tensor& output, const Tensor& picked, const Tensor& ignored) {
  const Tensor nan = recording::constant_like(output, std::numeric_limits<double>::quiet_NaN());
  Tensor known = any(picked, -1);
  if (ignored.defined()) known = known || ignored;
  return where(known, recording::constant_like(output, 1), nan);
}

namespace {

void check_smoothing(std::string_view where, double share) {
  if (!(share >= 0 && share <= 1))
    throw Error(ErrorKind::kInvalidArgument, std::string(where), "label_smoothing", "in [0, 1]",
                fmt::format("{}", share));
}

// The mean of rows that count `weights`; the sum of those is what it is divided by.
Tensor weighted(const Tensor& terms, const Tensor& weights, Reduction reduction) {
  if (reduction != Reduction::mean) return reduced(terms, reduction);
  return sum(terms) / sum(weights);
}

struct LabelOptions {
  Reduction reduction;
  double label_smoothing = 0;
  Tensor class_weights;
  std::optional<std::int64_t> ignore_index;
};

// Of integer labels: the output is log p […, classes].
Tensor of_labels(std::string_view where, const Tensor& output, const Tensor& given,
                 const LabelOptions& options) {
  check_smoothing(where, options.label_smoothing);
  const Tensor labels = checked_labels(where, given, output.size(-1), options.ignore_index);
  const Tensor picked = label_mask(labels, output.size(-1));
  Tensor ignored;
  if (options.ignore_index) {
    // Small and unsigned integers do not have every number that is ignored.
    const DType wide = size_of(labels.dtype()) > 4 ? DType::i64 : DType::i32;
    ignored = labels.to(wide) == recording::scalar(*options.ignore_index, wide, false);
  }
  const Tensor labelled = nan_unless_labelled(output, picked, ignored);
  const Tensor log_p = output * unsqueeze(labelled, -1);  // for the gradient
  const Tensor zero = recording::constant_like(log_p, 0);
  Tensor terms = -sum(systole::where(picked, log_p, zero), -1) * labelled;
  Tensor counts = recording::filled(terms.type(), 1);
  Tensor all = log_p;  // what smoothing spreads over
  if (options.class_weights.defined()) {
    const Tensor weights = checked_weights(where, log_p, options.class_weights);
    counts = sum(systole::where(picked, weights, zero), -1);
    terms = terms * counts;
    all = all * weights;
  }
  if (options.label_smoothing > 0) {
    const double spread = options.label_smoothing / static_cast<double>(log_p.size(-1));
    terms = (1 - options.label_smoothing) * terms - spread * sum(all, -1);
  }
  if (ignored.defined()) {
    terms = systole::where(ignored, zero, terms);
    counts = systole::where(ignored, zero, counts);
  }
  return weighted(terms, counts, options.reduction);
}

// Of the classes' probabilities.
Tensor of_distributions(std::string_view where, const Tensor& log_p, const Tensor& target,
                        const LabelOptions& options) {
  check_smoothing(where, options.label_smoothing);
  if (options.ignore_index)
    throw Error(ErrorKind::kInvalidArgument, std::string(where), "ignore_index is one of integer labels",
                "integer labels, or no ignore_index", target.type().to_string());
  Tensor wanted = beside(log_p, target);
  if (options.label_smoothing > 0)
    wanted = (1 - options.label_smoothing) * wanted +
             options.label_smoothing / static_cast<double>(log_p.size(-1));
  if (options.class_weights.defined()) wanted = wanted * checked_weights(where, log_p, options.class_weights);
  return reduced(-sum(wanted * log_p, -1), options.reduction);
}

// The logarithm of probabilities as Keras takes it. What has a negative number is no distribution, logits
// most likely, and training on would hide that: it is NaN.
Tensor log_of_probabilities(const Tensor& p) {
  constexpr double kAway = 1e-7;
  const Tensor whole = p / sum(p, -1, true);
  const Tensor nan = recording::constant_like(p, std::numeric_limits<double>::quiet_NaN());
  return where(any(p < 0, -1, true), nan, log(clip(whole, kAway, 1 - kAway)));
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& labels, const CrossEntropyOptions& options) {
  check_classes("cross_entropy", "the logits", logits);
  const LabelOptions all{options.reduction, options.label_smoothing, options.class_weights,
                         options.ignore_index};
  if (is_float(checked(labels, "cross_entropy").type.dtype) && labels.shape() == logits.shape())
    return of_distributions("cross_entropy", log_softmax(logits), labels, all);
  if (!is_integer(labels.dtype()))
    throw Error(
        ErrorKind::kDType, "cross_entropy", "the labels",
        "integers of shape " + rows_of(logits).to_string() + ", or class probabilities of the logits' shape",
        labels.type().to_string());
  check_labels("cross_entropy", logits, labels);
  if (options.label_smoothing != 0 || options.class_weights.defined() || options.ignore_index)
    return of_labels("cross_entropy", log_softmax(logits), labels, all);
  const Tensor terms =
      built({logits, labels}, [](const ir::Values& v) { return ops::cross_entropy(v[0], v[1]); });
  return reduced(terms, options.reduction);
}

Tensor sparse_categorical_cross_entropy(const Tensor& output, const Tensor& labels,
                                        const SparseCategoricalOptions& options) {
  constexpr std::string_view kWhere = "sparse_categorical_cross_entropy";
  check_classes(kWhere, "the output", output);
  const Shape rows = rows_of(output);
  if (!is_integer(checked(labels, kWhere).type.dtype) || labels.shape() == output.shape())
    throw Error(ErrorKind::kDType, std::string(kWhere),
                "these labels are no class numbers; one-hot labels and probabilities are for "
                "categorical_cross_entropy",
                "integers of shape " + rows.to_string(), labels.type().to_string());
  Shape column = rows;
  column.push_back(1);
  const Tensor numbers = labels.shape() == column ? labels.reshape(rows) : labels;
  if (options.from_logits)
    return cross_entropy(
        output, numbers,
        {options.reduction, options.label_smoothing, options.class_weights, options.ignore_index});
  check_labels(kWhere, output, numbers);
  return of_labels(kWhere, log_of_probabilities(output), numbers,
                   {options.reduction, options.label_smoothing, options.class_weights, options.ignore_index});
}

Tensor categorical_cross_entropy(const Tensor& output, const Tensor& target,
                                 const CategoricalOptions& options) {
  constexpr std::string_view kWhere = "categorical_cross_entropy";
  check_classes(kWhere, "the output", output);
  if (checked(target, kWhere).type.shape != output.shape()) {
    const bool numbers = is_integer(target.dtype());
    throw Error(numbers ? ErrorKind::kDType : ErrorKind::kShape, std::string(kWhere),
                numbers ? "integer labels are for sparse_categorical_cross_entropy"
                        : "the target does not have the output's shape",
                "probabilities of the classes, one-hot or not, of shape " + output.shape().to_string(),
                target.type().to_string());
  }
  const Tensor log_p = options.from_logits ? log_softmax(output) : log_of_probabilities(output);
  return of_distributions(kWhere, log_p, target,
                          {options.reduction, options.label_smoothing, options.class_weights, {}});
}

Tensor nll_loss(const Tensor& log_probabilities, const Tensor& labels, const NllOptions& options) {
  check_classes("nll_loss", "the log-probabilities", log_probabilities);
  check_labels("nll_loss", log_probabilities, labels);
  return of_labels("nll_loss", log_probabilities, labels,
                   {options.reduction, 0, options.class_weights, options.ignore_index});
}

namespace {

Tensor smoothed(std::string_view where, const Tensor& target, double share) {
  check_smoothing(where, share);
  return share > 0 ? target * (1 - share) + 0.5 * share : target;
}

void check_broadcast(std::string_view where, const Tensor& terms, const Tensor& output) {
  if (terms.shape() != output.shape())
    throw Error(ErrorKind::kShape, std::string(where), "the weights make the terms larger",
                "what broadcasts to " + output.type().to_string(), terms.type().to_string());
}

}  // namespace

Tensor bce_with_logits(const Tensor& logits, const Tensor& target, const BceLogitsOptions& options) {
  constexpr std::string_view kWhere = "bce_with_logits";
  check_same_shape(kWhere, logits, target);
  const Tensor t = smoothed(kWhere, beside(logits, target), options.label_smoothing);
  Tensor tail = softplus(-logits);  // -log sigmoid(logits)
  if (options.pos_weight.defined()) tail = tail * (1 + (beside(logits, options.pos_weight) - 1) * t);
  Tensor terms = (1 - t) * logits + tail;
  if (options.weight.defined()) terms = terms * beside(logits, options.weight);
  check_broadcast(kWhere, terms, logits);
  return reduced(terms, options.reduction);
}

Tensor binary_cross_entropy(const Tensor& probabilities, const Tensor& target, const BceOptions& options) {
  constexpr std::string_view kWhere = "binary_cross_entropy";
  check_same_shape(kWhere, probabilities, target);
  const Tensor p = recording::as_float(probabilities);
  const Tensor t = smoothed(kWhere, beside(p, target), options.label_smoothing);
  // Each by itself: the larger bound is 1 in bf16 and f16, and 1 minus it would be 0.
  const auto log_of = [&](const Tensor& x) { return log(clip(x, options.clamp, 1 - options.clamp)); };
  const Tensor yes = log_of(p), no = log_of(1 - p);
  const Tensor nan = recording::constant_like(p, std::numeric_limits<double>::quiet_NaN());
  Tensor terms = where(p < 0 || p > 1, nan, -(t * yes + (1 - t) * no));
  if (options.weight.defined()) terms = terms * beside(p, options.weight);
  check_broadcast(kWhere, terms, p);
  return reduced(terms, options.reduction);
}

Tensor hinge_loss(const Tensor& output, const Tensor& target, const HingeOptions& options) {
  check_same_shape("hinge_loss", output, target);
  const Tensor t = beside(output, target);
  const Tensor signs = where(all_true(t == 0 || t == 1), 2 * t - 1, t);
  const Tensor terms = relu(1 - signs * output);
  return reduced(options.squared ? square(terms) : terms, options.reduction);
}

Tensor categorical_hinge(const Tensor& output, const Tensor& target, const LossOptions& options) {
  check_classes("categorical_hinge", "the output", output);
  check_same_shape("categorical_hinge", output, target);
  const Tensor t = beside(output, target);
  return reduced(relu(1 + amax((1 - t) * output, -1) - sum(t * output, -1)), options.reduction);
}

Tensor multi_margin_loss(const Tensor& output, const Tensor& labels, const MultiMarginOptions& options) {
  constexpr std::string_view kWhere = "multi_margin_loss";
  check_classes(kWhere, "the output", output);
  check_labels(kWhere, output, labels);
  if (options.p != 1 && options.p != 2)
    throw Error(ErrorKind::kInvalidArgument, std::string(kWhere), "p", "1 or 2", std::to_string(options.p));
  const Tensor picked = label_mask(checked_labels(kWhere, labels, output.size(-1)), output.size(-1));
  const Tensor zero = recording::constant_like(output, 0);
  const Tensor known = output * unsqueeze(nan_unless_labelled(output, picked), -1);
  const Tensor right = sum(where(picked, known, zero), -1, true);
  Tensor over = relu(options.margin - right + known);
  if (options.p == 2) over = square(over);
  if (options.class_weights.defined())
    over = over * sum(where(picked, checked_weights(kWhere, output, options.class_weights), zero), -1, true);
  const Tensor terms = sum(where(picked, zero, over), -1) / static_cast<double>(output.size(-1));
  return reduced(terms, options.reduction);
}

}  // namespace systole
