#include "train/samples.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "systole/base/error.h"

namespace systole::metrics {

namespace {

Shape without_last(const Shape& shape) {
  return Shape(std::span<const Dim>(shape.begin(), shape.size() - (shape.empty() ? 0 : 1)));
}

// [n,1] is [n].
bool same_samples(const Shape& target, const Shape& samples) {
  return target == samples ||
         (!target.empty() && target[target.size() - 1] == Dim(1) && without_last(target) == samples);
}

// The first of equals.
std::int64_t largest(std::span<const double> row) {
  return std::max_element(row.begin(), row.end()) - row.begin();
}

// Labels of all samples, ignored ones included.
std::vector<std::int64_t> labels_of(std::string_view where, const Numbers& target, const Layout& layout,
                                    const Options& options) {
  std::vector<std::int64_t> labels;
  const std::span<const double> values = target.values();
  if (layout.one_hot) {
    const std::size_t classes = static_cast<std::size_t>(target.shape()[target.shape().size() - 1].value());
    for (std::size_t at = 0; classes > 0 && at < values.size(); at += classes) {
      if (!decides(values.subspan(at, classes)))
        throw Error(ErrorKind::kInvalidArgument, std::string(where),
                    fmt::format("row {} of the target is no class", at / classes), "finite numbers",
                    fmt::format("{}", fmt::join(values.subspan(at, classes), ", ")));
      labels.push_back(largest(values.subspan(at, classes)));
    }
    return labels;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool whole = values[i] == std::floor(values[i]) && std::abs(values[i]) < 0x1p53;
    const std::int64_t label = whole ? static_cast<std::int64_t>(values[i]) : 0;
    const bool ignored = whole && options.ignore_index && label == *options.ignore_index;
    const bool known = layout.form == Form::labels || (label >= 0 && label < layout.classes);
    if (!ignored && !(whole && known))
      throw Error(ErrorKind::kInvalidArgument, std::string(where), fmt::format("label {} is no class", i),
                  layout.form == Form::labels ? "an integer" : fmt::format("0 to {}", layout.classes - 1),
                  fmt::format("{}", values[i]));
    labels.push_back(label);
  }
  return labels;
}

bool ignored(const Options& options, std::int64_t label) {
  return options.ignore_index && label == *options.ignore_index;
}

}  // namespace

bool decides(std::span<const double> scores) {
  double top = -std::numeric_limits<double>::infinity();
  for (const double x : scores) {
    if (std::isnan(x)) return false;
    top = std::max(top, x);
  }
  return std::isfinite(top);
}

Layout layout_of(std::string_view where, const Type& output) {
  const Shape& shape = output.shape;
  if (!is_float(output.dtype)) return {Form::labels, shape};
  if (shape.empty())
    throw Error(ErrorKind::kShape, std::string(where), "an output without samples", "[n] or [n,classes]",
                output.to_string());
  const Dim last = shape[shape.size() - 1];
  if (shape.size() == 1) return {Form::binary, shape, 2};
  if (last == Dim(1)) return {Form::binary, without_last(shape), 2};
  if (!last.is_static() || last.value() < 1)
    throw Error(ErrorKind::kShape, std::string(where), "an output without classes", "[n,classes]",
                output.to_string());
  return {Form::classes, without_last(shape), last.value()};
}

Layout layout_of(std::string_view where, const Type& output, const Type& target) {
  Layout layout = layout_of(where, output);
  if (same_samples(target.shape, layout.samples)) return layout;
  layout.one_hot = layout.form == Form::classes
                       ? target.shape == output.shape
                       : layout.form == Form::labels && target.shape.size() == layout.samples.size() + 1 &&
                             without_last(target.shape) == layout.samples;
  if (layout.one_hot) return layout;
  throw Error(
      ErrorKind::kShape, std::string(where), "outputs and targets are not of the same samples",
      fmt::format("targets {}{} for outputs {}", layout.samples.to_string(),
                  layout.form == Form::classes ? " or " + output.shape.to_string() : "", output.to_string()),
      target.to_string());
}

Decisions decisions(std::string_view where, const Numbers& output, const Numbers& target,
                    const Options& options) {
  const Layout layout = layout_of(where, output.type(), target.type());
  const std::vector<std::int64_t> labels = labels_of(where, target, layout, options);
  const std::span<const double> values = output.values();
  const double threshold = options.from_logits ? 0 : 0.5;
  Decisions found;
  found.classes = layout.classes;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (ignored(options, labels[i])) continue;
    found.truth.push_back(labels[i]);
    if (layout.form == Form::classes) {
      const std::size_t classes = static_cast<std::size_t>(layout.classes);
      const std::span<const double> row = values.subspan(i * classes, classes);
      found.predicted.push_back(decides(row) ? largest(row) : kUndecided);
    } else if (layout.form == Form::binary) {
      found.predicted.push_back(!decides(values.subspan(i, 1)) ? kUndecided : values[i] > threshold ? 1 : 0);
    } else {
      found.predicted.push_back(static_cast<std::int64_t>(values[i]));
    }
  }
  return found;
}

Scores scores(std::string_view where, const Numbers& output, const Numbers& target, const Options& options) {
  const Layout layout = layout_of(where, output.type(), target.type());
  if (layout.form == Form::labels)
    throw Error(ErrorKind::kDType, std::string(where), "labels have no order to rank by",
                "floating-point scores", output.type().to_string());
  const std::vector<std::int64_t> labels = labels_of(where, target, layout, options);
  Scores found;
  found.columns = layout.form == Form::binary ? 1 : layout.classes;
  found.from_logits = options.from_logits;
  const std::size_t columns = static_cast<std::size_t>(found.columns);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (ignored(options, labels[i])) continue;
    found.truth.push_back(labels[i]);
    const auto row = output.values().subspan(i * columns, columns);
    if (decides(row)) {
      found.values.insert(found.values.end(), row.begin(), row.end());
      continue;
    }
    found.values.insert(found.values.end(), columns, std::numeric_limits<double>::quiet_NaN());
    if (found.undecided_at < 0) found.undecided_at = static_cast<std::int64_t>(i);
  }
  return found;
}

}  // namespace systole::metrics
