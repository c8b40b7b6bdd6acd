// The handle: checks, descriptions, and what a kind of data does when it says nothing else.

#include "systole/data/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>

#include "data/gather.h"
#include "systole/base/error.h"

namespace systole::data {

namespace {

std::string field_name(std::size_t i) { return i == 0 ? "x" : i == 1 ? "y" : fmt::format("field{}", i); }

void check_index(const Source& source, std::int64_t i) {
  if (i < 0 || i >= source.size())
    throw Error(ErrorKind::kInvalidArgument, "data::Source", "there is no such sample",
                source.size() == 0 ? "nothing: the set is empty" : fmt::format("0 to {}", source.size() - 1),
                fmt::format("{}", i));
}

}  // namespace

std::string Info::to_string() const {
  std::string text = size == kEndless ? fmt::format("{}: samples without end", name)
                                      : fmt::format("{}: {} samples", name, size);
  for (const Field& field : fields) {
    text += fmt::format(", {} {}", field.name, field.type.to_string());
    if (!field.classes.empty()) text += fmt::format(" of {} classes", field.classes.size());
  }
  return text;
}

Rows::~Rows() = default;

Info Rows::info() const {
  Info info{"data", {}, size()};
  if (size() == 0) return info;
  for (const Literal& field : get(0))
    info.fields.push_back({field_name(info.fields.size()), field.type(), {}});
  return info;
}

std::vector<Literal> Rows::read(std::span<const std::int64_t> indices) const {
  std::vector<Sample> samples;
  samples.reserve(indices.size());
  for (const std::int64_t i : indices) samples.push_back(naming_sample(i, [&] { return get(i); }));
  return stacked(samples, indices);
}

std::vector<Literal> Rows::columns() const {
  if (size() == kEndless)
    throw Error(ErrorKind::kLimit, "data::Source::columns", "all samples of an endless repetition",
                "take(count) of it");
  std::vector<std::int64_t> all(static_cast<std::size_t>(size()));
  std::iota(all.begin(), all.end(), 0);
  return read(all);
}

std::optional<std::vector<std::int64_t>> Rows::known_labels(std::size_t) const { return {}; }

Info Source::info() const { return rows_ ? rows_->info() : Info{"none", {}, 0}; }

Sample Source::operator[](std::int64_t i) const {
  check_index(*this, i);
  return naming_sample(i, [&] { return rows_->get(i); });
}

std::vector<Literal> Source::read(std::span<const std::int64_t> indices) const {
  for (const std::int64_t i : indices) check_index(*this, i);
  return rows_ ? rows_->read(indices) : std::vector<Literal>{};
}

std::vector<Literal> Source::columns() const { return rows_ ? rows_->columns() : std::vector<Literal>{}; }

std::vector<std::int64_t> Source::labels(std::size_t field) const {
  if (!rows_ || empty()) return {};
  if (field == kLastField) field = std::max<std::size_t>(info().fields.size(), 1) - 1;
  if (std::optional<std::vector<std::int64_t>> known = rows_->known_labels(field)) return *std::move(known);
  if (endless()) (void)rows_->columns();  // refuses
  const auto label_of = [&](const std::vector<Literal>& arrays, std::vector<std::int64_t>& out) {
    if (field >= arrays.size())
      throw Error(ErrorKind::kInvalidArgument, "data::Source::labels", "samples have no such field",
                  fmt::format("0 to {}", arrays.size() - 1), fmt::format("{}", field));
    const Literal& column = arrays[field];
    if ((!is_integer(column.dtype()) && column.dtype() != DType::boolean) || column.rank() != 1)
      throw Error(ErrorKind::kDType, "data::Source::labels", "labels are one whole number per sample",
                  "an integer field of rank 0",
                  Type{column.dtype(), without_leading(column.shape())}.to_string());
    visit_dtype(column.dtype(), [&]<class T>() {
      if constexpr (std::is_integral_v<T>)
        for (const T value : column.values<T>()) out.push_back(static_cast<std::int64_t>(value));
    });
  };
  std::vector<std::int64_t> labels;
  labels.reserve(static_cast<std::size_t>(size()));
  if (in_memory()) {
    label_of(columns(), labels);
    return labels;
  }
  for (std::int64_t i = 0; i < size(); ++i) {  // one at a time: inputs may differ in size, and be large
    Sample sample = (*this)[i];
    for (Literal& value : sample) value = value.reshaped(with_leading(1, value.shape()));
    label_of(sample, labels);
  }
  return labels;
}

}  // namespace systole::data
