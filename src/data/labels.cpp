#include "systole/data/labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "systole/base/error.h"

namespace systole::data {

namespace {

constexpr const char* kWhere = "labels";

void check(const LabelCheck& check, std::int64_t label, std::int64_t sample, const std::string& place) {
  if ((label >= 0 && label < check.classes) || (check.ignore_index && label == *check.ignore_index)) return;
  std::string expected = fmt::format("0 to {} ({} classes)", check.classes - 1, check.classes);
  if (check.ignore_index) expected += fmt::format(" or {}, which is ignored", *check.ignore_index);
  throw Error(ErrorKind::kInvalidArgument, kWhere,
              fmt::format("the label of sample {}{} is no class", sample, place), expected,
              std::to_string(label));
}

// `labels` of the samples of these numbers, along axis 0.
void check_column(const LabelCheck& wanted, const Literal& labels, std::span<const std::int64_t> samples) {
  if (labels.count() == 0 || samples.empty()) return;
  const std::int64_t each = labels.count() / static_cast<std::int64_t>(samples.size());
  visit_dtype(labels.dtype(), [&]<class T>() {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      std::int64_t i = 0;
      for (const T value : labels.values<T>()) {
        // An unsigned number above every signed one becomes negative, and so stays outside.
        check(wanted, static_cast<std::int64_t>(value), samples[static_cast<std::size_t>(i / each)],
              labels.rank() > 1 ? fmt::format(" at element {}", i % each) : "");
        ++i;
      }
    } else if constexpr (!std::is_same_v<T, bool>) {
      throw Error(ErrorKind::kDType, kWhere, "labels are whole numbers", "an integer field",
                  labels.type().to_string());
    }
  });
}

const Literal& column(const std::vector<Literal>& arrays, std::size_t field) {
  const std::size_t at = field == kLastField ? arrays.size() - 1 : field;
  if (at >= arrays.size())
    throw Error(ErrorKind::kInvalidArgument, kWhere, "samples have no such field",
                fmt::format("below {}", arrays.size()), std::to_string(field));
  return arrays[at];
}

void check_classes(const LabelCheck& check) {
  if (check.classes < 1)
    throw Error(ErrorKind::kInvalidArgument, kWhere, "no classes", "at least 1",
                std::to_string(check.classes));
}

}  // namespace

void check_labels(const Source& source, const LabelCheck& wanted) {
  check_classes(wanted);
  if (source.empty()) return;
  const std::size_t fields = std::max<std::size_t>(source.info().fields.size(), 1);
  const std::size_t field = wanted.field == kLastField ? fields - 1 : wanted.field;
  if (const auto known = source.rows()->known_labels(field)) {
    for (std::size_t i = 0; i < known->size(); ++i)
      check(wanted, (*known)[i], source.rows()->origin(static_cast<std::int64_t>(i)), "");
    return;
  }
  if (source.in_memory()) {
    std::vector<std::int64_t> samples(static_cast<std::size_t>(source.size()));
    for (std::size_t i = 0; i < samples.size(); ++i)
      samples[i] = source.rows()->origin(static_cast<std::int64_t>(i));
    const std::vector<Literal> columns = source.columns();
    return check_column(wanted, column(columns, field), samples);
  }
  const std::int64_t count = source.rows()->period();
  for (std::int64_t i = 0; i < count; ++i) {
    const Sample sample = source[i];
    const Literal& label = column(sample, field);
    const std::int64_t number = source.rows()->origin(i);
    check_column(wanted, label, std::span(&number, 1));
  }
}

void check_labels(const Batch& batch, const LabelCheck& wanted) {
  check_classes(wanted);
  if (!batch.arrays.empty()) check_column(wanted, column(batch.arrays, wanted.field), batch.indices);
}

}  // namespace systole::data
