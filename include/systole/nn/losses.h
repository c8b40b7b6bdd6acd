#pragma once

// Losses: how far predictions are from what they should be, as a mean over all rows unless options say
// otherwise. Classes are the last axis.
//
//   cross_entropy(logits, labels)                                        // integer labels, or probabilities
//   huber_loss(prediction, target, {.delta = 2})
//   losses::by_name("cross_entropy")(logits, labels)                     // for a name in a file
//
// Functions with PyTorch's names have PyTorch's defaults, those with Keras's names Keras's: cross_entropy
// takes logits, categorical_cross_entropy probabilities unless told. One differs: no label is ignored unless
// ignore_index names it, -100 neither. A label that is no class makes its row, so the mean, and its gradient
// NaN.

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "systole/base/export.h"
#include "systole/tensor/tensor.h"

namespace systole {

enum class Reduction { mean, sum, none };

struct LossOptions {
  Reduction reduction = Reduction::mean;
};

// Of classes.

struct CrossEntropyOptions {
  Reduction reduction = Reduction::mean;
  double label_smoothing = 0;  // the share of each label that is spread over all classes
  Tensor class_weights = {};   // [classes]; the mean over integer labels is weighted by them
  std::optional<std::int64_t> ignore_index = {};  // a label whose rows count nothing, such as PyTorch's -100
};
// -log softmax(logits)[label]: logits […, classes], labels integers […]; or labels of the logits' shape that
// are the probabilities of the classes.
SYSTOLE_API Tensor cross_entropy(const Tensor& logits, const Tensor& labels,
                                 const CrossEntropyOptions& options = {});

// The two forms by themselves, as in Keras: one takes integers […], the other probabilities of the classes
// […, classes], one-hot or not, and each refuses the other's labels by name. Without from_logits the output
// is probabilities, which are scaled to sum to 1 and kept 1e-7 away from 0 and 1; a negative one, which no
// softmax gives, makes the loss NaN.
struct SparseCategoricalOptions {
  Reduction reduction = Reduction::mean;
  bool from_logits = false;
  double label_smoothing = 0;
  Tensor class_weights = {};
  std::optional<std::int64_t> ignore_index = {};
};
SYSTOLE_API Tensor sparse_categorical_cross_entropy(const Tensor& output, const Tensor& labels,
                                                    const SparseCategoricalOptions& options = {});
struct CategoricalOptions {
  Reduction reduction = Reduction::mean;
  bool from_logits = false;
  double label_smoothing = 0;
  Tensor class_weights = {};
};
SYSTOLE_API Tensor categorical_cross_entropy(const Tensor& output, const Tensor& target,
                                             const CategoricalOptions& options = {});

// -log_probabilities[label], of what log_softmax gives; integer labels.
struct NllOptions {
  Reduction reduction = Reduction::mean;
  Tensor class_weights = {};
  std::optional<std::int64_t> ignore_index = {};
};
SYSTOLE_API Tensor nll_loss(const Tensor& log_probabilities, const Tensor& labels,
                            const NllOptions& options = {});

// Of yes and no: targets are 0, 1 or between, of the output's shape.
struct BceLogitsOptions {
  Reduction reduction = Reduction::mean;
  Tensor pos_weight = {};      // counts the positive ones more; broadcasts
  Tensor weight = {};          // of the terms; broadcasts
  double label_smoothing = 0;  // moves targets this share of the way to ½
};
SYSTOLE_API Tensor bce_with_logits(const Tensor& logits, const Tensor& target,
                                   const BceLogitsOptions& options = {});
// Of probabilities, kept `clamp` away from 0 and 1 as Keras does; a probability outside of [0, 1] makes the
// loss NaN.
struct BceOptions {
  Reduction reduction = Reduction::mean;
  Tensor weight = {};
  double label_smoothing = 0;
  double clamp = 1e-7;
};
SYSTOLE_API Tensor binary_cross_entropy(const Tensor& probabilities, const Tensor& target,
                                        const BceOptions& options = {});

// Margins.

// max(0, 1 - target · output), or its square; targets are ±1, or 0 and 1 where all of them are.
struct HingeOptions {
  Reduction reduction = Reduction::mean;
  bool squared = false;
};
SYSTOLE_API Tensor hinge_loss(const Tensor& output, const Tensor& target, const HingeOptions& options = {});
// max(0, 1 + the largest output of a wrong class - the right one's): one-hot targets, as in Keras.
SYSTOLE_API Tensor categorical_hinge(const Tensor& output, const Tensor& target,
                                     const LossOptions& options = {});
// Σ max(0, margin - output[label] + output[i])^p / classes over the wrong classes i: integer labels.
struct MultiMarginOptions {
  Reduction reduction = Reduction::mean;
  int p = 1;  // or 2
  double margin = 1;
  Tensor class_weights = {};
};
SYSTOLE_API Tensor multi_margin_loss(const Tensor& output, const Tensor& labels,
                                     const MultiMarginOptions& options = {});

// Of numbers: prediction and target of one shape.

struct MseOptions {
  Reduction reduction = Reduction::mean;
  bool half = false;  // ½ · (prediction - target)², whose gradient is the difference
};
SYSTOLE_API Tensor mse_loss(const Tensor& prediction, const Tensor& target, const MseOptions& options = {});
SYSTOLE_API Tensor mae_loss(const Tensor& prediction, const Tensor& target, const LossOptions& options = {});
// ½·d² for a difference d up to delta, delta·(|d| - ½·delta) beyond.
struct HuberOptions {
  Reduction reduction = Reduction::mean;
  double delta = 1;
};
SYSTOLE_API Tensor huber_loss(const Tensor& prediction, const Tensor& target,
                              const HuberOptions& options = {});
// ½·d² / beta up to beta, |d| - ½·beta beyond.
struct SmoothL1Options {
  Reduction reduction = Reduction::mean;
  double beta = 1;
};
SYSTOLE_API Tensor smooth_l1_loss(const Tensor& prediction, const Tensor& target,
                                  const SmoothL1Options& options = {});
SYSTOLE_API Tensor log_cosh_loss(const Tensor& prediction, const Tensor& target,
                                 const LossOptions& options = {});

// Of distributions.

// target · (log target - log_probabilities), term by term, as PyTorch's kl_div; 0 where the target is.
struct KlOptions {
  Reduction reduction = Reduction::mean;
  bool log_target = false;  // the target is a logarithm too
  bool batch_mean = false;  // the sum divided by the rows, which is the divergence; the mean is by elements
};
SYSTOLE_API Tensor kl_div(const Tensor& log_probabilities, const Tensor& target,
                          const KlOptions& options = {});
// Σ target · log(target / output) over the last axis, of probabilities, as Keras's kl_divergence.
SYSTOLE_API Tensor kl_divergence(const Tensor& output, const Tensor& target, const LossOptions& options = {});

// Of vectors, over the last axis.

struct CosineEmbeddingOptions {
  Reduction reduction = Reduction::mean;
  double margin = 0;
};
SYSTOLE_API Tensor cosine_similarity(const Tensor& a, const Tensor& b, double eps = 1e-8);
// 1 - cos for pairs with sign 1, max(0, cos - margin) for those with -1: a and b [rows, width], signs [rows].
SYSTOLE_API Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& signs,
                                         const CosineEmbeddingOptions& options = {});
struct TripletOptions {
  Reduction reduction = Reduction::mean;
  double margin = 1;
  double p = 2;       // the norm of distances
  bool swap = false;  // take the negative's distance from the positive where that is smaller
};
SYSTOLE_API Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                                       const TripletOptions& options = {});

// Of sequences that are not aligned: -log of the probability of all paths that give the target once repeats
// and blanks are left out. log_probabilities [length, batch, classes], targets integers [batch, labels];
// lengths integers [batch], of which the rest of a row is not read. The mean is of the losses divided by
// their targets' lengths, as in PyTorch.
struct CtcOptions {
  Reduction reduction = Reduction::mean;
  std::int64_t blank = 0;
  bool zero_infinity = false;  // a target that does not fit into its input counts 0 instead of infinity
};
SYSTOLE_API Tensor ctc_loss(const Tensor& log_probabilities, const Tensor& targets,
                            const Tensor& input_lengths, const Tensor& target_lengths,
                            const CtcOptions& options = {});

// LossOptions stand for the options of these too.
template <std::same_as<LossOptions> O>
Tensor cross_entropy(const Tensor& logits, const Tensor& labels, const O& options) {
  return cross_entropy(logits, labels, CrossEntropyOptions{.reduction = options.reduction});
}
template <std::same_as<LossOptions> O>
Tensor nll_loss(const Tensor& log_probabilities, const Tensor& labels, const O& options) {
  return nll_loss(log_probabilities, labels, NllOptions{.reduction = options.reduction});
}
template <std::same_as<LossOptions> O>
Tensor mse_loss(const Tensor& prediction, const Tensor& target, const O& options) {
  return mse_loss(prediction, target, MseOptions{.reduction = options.reduction});
}

namespace losses {

using Loss = std::function<Tensor(const Tensor& output, const Tensor& target)>;

// What may be set of a loss that is named; a setting that it does not have is an error.
struct Settings {
  Reduction reduction = Reduction::mean;
  std::optional<bool> from_logits = {};
  std::optional<double> label_smoothing = {};
  std::optional<std::int64_t> ignore_index = {};
  std::optional<double> delta = {};   // of huber
  std::optional<double> beta = {};    // of smooth_l1
  std::optional<double> margin = {};  // of multi_margin
  std::optional<bool> half = {};      // of mse
  Tensor class_weights = {}, pos_weight = {};
};

// "cross_entropy", "mse", "mae", "bce_with_logits" …, and Keras's and PyTorch's other names for them. An
// unknown one throws kNotFound with the nearest.
SYSTOLE_API Loss by_name(std::string_view name, const Settings& settings = {});
SYSTOLE_API std::vector<std::string> names();
// What the targets of a loss are.
enum class Targets {
  labels,   // integers that number classes, so that each must be below their number
  binary,   // 0 and 1, or probabilities between them
  numbers,  // what the output should be
  other,    // one-hot rows, distributions, signs
};
SYSTOLE_API Targets targets_of(std::string_view name);
// Whether integer targets of this loss number classes.
SYSTOLE_API bool takes_labels(std::string_view name);

}  // namespace losses

}  // namespace systole
