#pragma once

// Losses: how far predictions are from what they should be, as a mean over all rows unless options say
// otherwise.

#include "systole/base/export.h"
#include "systole/tensor/tensor.h"

namespace systole {

enum class Reduction { mean, sum, none };

struct LossOptions {
  Reduction reduction = Reduction::mean;
};

// -log softmax(logits)[label]: logits […, classes], labels integers […]; or labels of the logits' shape that
// are the probabilities of the classes.
SYSTOLE_API Tensor cross_entropy(const Tensor& logits, const Tensor& labels, const LossOptions& options = {});
// The same for log-probabilities, as log_softmax gives them; integer labels.
SYSTOLE_API Tensor nll_loss(const Tensor& log_probabilities, const Tensor& labels,
                            const LossOptions& options = {});
// (prediction - target)²; both of one shape.
SYSTOLE_API Tensor mse_loss(const Tensor& prediction, const Tensor& target, const LossOptions& options = {});

}  // namespace systole
