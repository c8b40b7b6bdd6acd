#pragma once

// Numbers that are not finite: where they stand in an array, which samples of a batch have scores that decide
// nothing by them, and what of a sample explains it.

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "systole/base/literal.h"
#include "systole/data/source.h"
#include "systole/tensor/tensor.h"
#include "tensor/bad_op.h"

namespace systole::training {

// Whether -inf beside finite numbers of the last axis is meant, as in scores of classes that are ruled out. A
// target of the output's own shape holds numbers to meet, and there every element must be finite.
bool holds_class_scores(const Type& output, const Type* target);

// bool[n]: whether the output of each sample is finite; `target` may be undefined.
Tensor finite_samples(const Tensor& output, const Tensor& target);
// The samples for which it is not.
std::vector<std::int64_t> bad_samples(const Literal& output, const Type* target);

struct NamedLiteral {
  std::string name;
  Literal value;
};

// The samples of a data set whose outputs are not finite: how many, and why the first is not.
class BadSamples {
 public:
  using Named = std::function<std::vector<NamedLiteral>()>;  // is called when something is bad

  // The weights are looked at when every field of the first sample is finite. Of a part of a data set samples
  // are named by their numbers in the whole.
  explicit BadSamples(Named weights, data::Source data = {})
      : weights_(std::move(weights)), data_(std::move(data)) {}

  // A batch of samples from number `sample` on. Of the output, where there is one, the bad samples count;
  // where there is none the loss alone is not finite, and the first sample with a bad field is named.
  void look_at(const Literal& output, const Type* target, const Named& fields, std::int64_t sample);
  void look_at_fields(const std::vector<NamedLiteral>& fields, std::int64_t sample, std::int64_t samples);
  void add(std::int64_t count) { count_ += count; }

  std::int64_t count() const { return count_; }
  bool empty() const { return first_.empty(); }
  // "2 of 50 samples have outputs that are not finite; sample 3 of the data is the first: the output is nan
  // at [1]; field x of it holds inf at [2]"
  std::string text(std::int64_t samples) const;

 private:
  void explain(std::string text, const std::vector<NamedLiteral>& fields, std::int64_t row);

  std::int64_t number(std::int64_t sample) const;  // in the data set

  Named weights_;
  data::Source data_;
  std::int64_t count_ = 0;
  std::string first_;
};

}  // namespace systole::training
