#include "train/finite.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "systole/tensor/creation.h"
#include "systole/tensor/math.h"
#include "systole/tensor/shaping.h"

namespace systole::training {

using recording::bad_text;
using recording::Badness;
using recording::Look;
using recording::look;

bool holds_class_scores(const Type& output, const Type* target) {
  const Shape& shape = output.shape;
  if (shape.rank() < 2 || shape[shape.size() - 1] == Dim(1)) return false;
  return target == nullptr || !(target->shape == shape);
}

Tensor finite_samples(const Tensor& output, const Tensor& target) {
  if (!is_float(output.dtype()) || output.size() == 0)
    return full({output.rank() == 0 ? 1 : output.size(0)}, true);
  const Type target_type = target.defined() ? target.type() : Type{};
  const bool scores = holds_class_scores(output.type(), target.defined() ? &target_type : nullptr);
  const Tensor finite = is_finite(scores ? output.max(-1) : output);
  if (finite.rank() == 0) return finite.unsqueeze(0);
  return finite.rank() == 1 ? finite : all_true(finite.flatten(1), 1);
}

std::vector<std::int64_t> bad_samples(const Literal& output, const Type* target) {
  if (!is_float(output.dtype()) || output.count() == 0) return {};
  const std::vector<double> numbers = output.to_doubles();
  const std::size_t rows = output.rank() == 0 ? 1 : static_cast<std::size_t>(output.dims()[0]);
  const std::size_t each = numbers.size() / rows;
  const std::size_t classes = holds_class_scores(output.type(), target)
                                  ? static_cast<std::size_t>(output.dims()[output.shape().size() - 1])
                                  : 1;
  std::vector<std::int64_t> bad;
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t i = row * each; i < (row + 1) * each; i += classes) {
      const auto first = numbers.begin() + static_cast<std::ptrdiff_t>(i);
      const auto end = first + static_cast<std::ptrdiff_t>(classes);
      const bool has_nan = std::any_of(first, end, [](double x) { return std::isnan(x); });
      if (!has_nan && std::isfinite(*std::max_element(first, end))) continue;
      bad.push_back(static_cast<std::int64_t>(row));
      break;
    }
  return bad;
}

namespace {

Literal sample_of(const Literal& batch, std::int64_t row) {
  if (batch.rank() == 0) return batch;
  const Shape shape(std::span<const Dim>(batch.shape().begin() + 1, batch.shape().end()));
  const std::size_t bytes = batch.byte_size() / static_cast<std::size_t>(batch.dims()[0]);
  return Literal::copy_of({batch.dtype(), shape},
                          batch.as_bytes().subspan(static_cast<std::size_t>(row) * bytes, bytes));
}

bool is_bad(const Look& seen) { return seen.badness != Badness::finite; }

}  // namespace

void BadSamples::look_at(const Literal& output, const Type* target, const Named& fields,
                         std::int64_t sample) {
  const std::vector<std::int64_t> bad = bad_samples(output, target);
  count_ += static_cast<std::int64_t>(bad.size());
  if (bad.empty() || !first_.empty()) return;
  const Literal row = sample_of(output, bad[0]);
  explain(fmt::format("sample {} of the data is the first: the output is {}", number(sample + bad[0]),
                      bad_text(row, look(row))),
          fields(), bad[0]);
}

void BadSamples::look_at_fields(const std::vector<NamedLiteral>& fields, std::int64_t sample,
                                std::int64_t samples) {
  if (!first_.empty()) return;
  for (std::int64_t row = 0; row < samples; ++row)
    for (const NamedLiteral& field : fields)
      if (is_bad(look(sample_of(field.value, row))))
        return explain(
            fmt::format("sample {} of the data is the first with a bad field", number(sample + row)), fields,
            row);
  explain(fmt::format("the first are among the {} samples from sample {} of the data on", samples,
                      number(sample)),
          {}, 0);
}

std::int64_t BadSamples::number(std::int64_t sample) const {
  return sample < data_.size() ? data_.rows()->origin(sample) : sample;
}

void BadSamples::explain(std::string text, const std::vector<NamedLiteral>& fields, std::int64_t row) {
  first_ = std::move(text);
  for (const NamedLiteral& field : fields) {
    const Literal value = sample_of(field.value, row);
    const Look seen = look(value);
    if (!is_bad(seen)) continue;
    first_ += fmt::format("; its field {} holds {}", field.name, bad_text(value, seen));
    return;
  }
  first_ += "; all its fields are finite";
  for (const NamedLiteral& weight : weights_())
    if (const Look seen = look(weight.value); is_bad(seen)) {
      first_ += fmt::format(", weight {} is {}", weight.name, bad_text(weight.value, seen));
      return;
    }
}

std::string BadSamples::text(std::int64_t samples) const {
  if (count_ == 0) return "the loss is not finite, though all outputs are; " + first_;
  return fmt::format("{} of {} samples have outputs that are not finite; {}", count_, samples, first_);
}

}  // namespace systole::training
