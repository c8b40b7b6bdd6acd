#pragma once

// What losses share: their reduction and the checks of their operands.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "systole/base/error.h"
#include "systole/nn/losses.h"
#include "systole/tensor/creation.h"
#include "systole/tensor/math.h"
#include "systole/tensor/shaping.h"
#include "tensor/record.h"

namespace systole {

inline Tensor reduced(const Tensor& terms, Reduction reduction) {
  switch (reduction) {
    case Reduction::mean: return mean(terms);
    case Reduction::sum: return sum(terms);
    case Reduction::none: return terms;
  }
  __builtin_unreachable();
}

inline void check_same_shape(std::string_view where, const Tensor& output, const Tensor& target) {
  recording::checked(output, where);
  recording::checked(target, where);
  const std::size_t rank = output.shape().size();
  const bool are_classes = is_integer(target.dtype()) && rank > 1 && target.shape().size() + 1 == rank &&
                           output.shape()[rank - 1] != Dim(1) &&
                           std::equal(target.shape().begin(), target.shape().end(), output.shape().begin());
  if (are_classes)
    throw Error(
        ErrorKind::kShape, std::string(where),
        "the target holds class numbers, which this loss does not take",
        fmt::format("{}, as one_hot() of the classes gives it, or a loss of class numbers (cross_entropy, "
                    "nll, multi_margin)",
                    output.type().to_string()),
        target.type().to_string());
  if (output.shape() != target.shape())
    throw Error(ErrorKind::kShape, std::string(where), "prediction and target differ in shape",
                output.type().to_string(), target.type().to_string());
}

// The target beside an output: in its dtype, so that a target in f64 or in integers changes nothing.
inline Tensor beside(const Tensor& output, const Tensor& target) {
  return recording::as_dtype(target, recording::as_float(output).dtype());
}

// [classes] of a loss that counts classes differently.
inline Tensor checked_weights(std::string_view where, const Tensor& output, const Tensor& weights) {
  if (recording::checked(weights, where).type.shape != Shape{output.shape()[output.shape().size() - 1]})
    throw Error(ErrorKind::kShape, std::string(where), "class_weights",
                "[" + std::to_string(output.size(-1)) + "]", weights.type().to_string());
  return beside(output, weights);
}

// The shape without its last axis.
inline Shape rows_of(const Tensor& x) {
  return Shape(std::span<const Dim>(x.shape().begin(), x.shape().end() - 1));
}

// Throws unless `output` is floating-point numbers with a class axis.
void check_classes(std::string_view where, std::string_view what, const Tensor& output);
// Throws unless `labels` are integers, one for each row.
void check_labels(std::string_view where, const Tensor& output, const Tensor& labels);
// The labels of a loss as they are. A program that checks indices (SYSTOLE_CHECK) counts those outside the
// classes, which are not `ignored`, and names the loss.
Tensor checked_labels(std::string_view loss, const Tensor& labels, std::int64_t classes,
                      std::optional<std::int64_t> ignored = {});
// True at each row's label: […, classes].
Tensor label_mask(const Tensor& labels, std::int64_t classes);
// A factor for each row: 1, and NaN where the label is no class and is not ignored, as the composite has it.
Tensor nan_unless_labelled(const Tensor& output, const Tensor& picked, const Tensor& ignored = {});

}  // namespace systole
