// A table as a set: its numbers as features, one column as the label.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "base/naming_file.h"
#include "data/set_files.h"
#include "systole/base/error.h"
#include "systole/data/sets.h"

namespace systole::data {

namespace {

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

// The label's classes, and each row's among them.
Literal classes_of(const Column& label, const Table& table, std::string_view file,
                   std::vector<std::string>& classes) {
  if (!label.categories.empty()) {
    classes = label.categories;
    return label.values;
  }
  const std::vector<double> numbers = label.values.to_doubles();
  std::set<double> distinct;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (std::isnan(numbers[i]) || std::abs(numbers[i]) > 0x1p53 || numbers[i] != std::floor(numbers[i]))
      throw Error(ErrorKind::kInvalidArgument, fmt::format("{}: sample {}: column {}", file, i, label.name),
                  "the label is no class", "whole numbers or text, or regression set",
                  fmt::format("{}", numbers[i]));
    distinct.insert(numbers[i]);
  }
  std::map<double, std::int32_t> places;
  for (const double value : distinct) {
    const std::int32_t place = static_cast<std::int32_t>(places.size());
    places.emplace(value, place);
    classes.push_back(fmt::format("{}", static_cast<std::int64_t>(value)));
  }
  if (table.classes.size() == classes.size()) classes = table.classes;
  Literal result = Literal::uninitialized({DType::i32, {table.rows}});
  std::int32_t* out = result.mutable_values<std::int32_t>().data();
  for (const double value : numbers) *out++ = places.find(value)->second;
  return result;
}

}  // namespace

std::size_t column_place(std::string_view name, const Table& table, std::string_view where) {
  for (std::size_t i = 0; i < table.columns.size(); ++i)
    if (table.columns[i].name == name) return i;
  const std::optional<std::int64_t> number = whole_number(name);
  const std::int64_t count = std::ssize(table.columns);
  if (number && *number >= -count && *number < count)
    return static_cast<std::size_t>(*number < 0 ? *number + count : *number);
  no_column(name, table, where);
}

namespace {

Source read_set(const std::filesystem::path& file, const CsvOptions& options) {
  const Table table = read_csv(file, options);
  const std::string where = file.string();
  const std::size_t none = table.columns.size();
  const std::size_t label = options.unlabelled      ? none
                            : options.label.empty() ? none - 1
                                                    : column_place(options.label, table, where);
  std::set<std::size_t> dropped{label};
  for (const std::string& name : options.drop) dropped.insert(column_place(name, table, where));
  std::vector<std::size_t> features;
  for (const std::string& name : options.features) features.push_back(column_place(name, table, where));
  if (features.empty())
    for (std::size_t i = 0; i < table.columns.size(); ++i)
      if (!dropped.contains(i)) features.push_back(i);
  if (features.empty())
    throw Error(ErrorKind::kShape, where, "no columns are left to learn from",
                "a label and at least one feature");
  const std::size_t width = features.size();
  Literal x = Literal::uninitialized({DType::f32, {table.rows, static_cast<std::int64_t>(width)}});
  float* const out = x.mutable_values<float>().data();
  for (std::size_t f = 0; f < width; ++f) {
    const std::vector<double> values = table.columns[features[f]].values.to_doubles();
    for (std::size_t row = 0; row < values.size(); ++row)
      out[row * width + f] = static_cast<float>(values[row]);
  }
  const std::string name = file.filename().string();
  if (options.unlabelled) return arrays(x).named(name);
  const Column& column = table.columns[label];
  if (options.regression) {
    if (!column.categories.empty())
      throw Error(ErrorKind::kInvalidArgument, fmt::format("{}: column {}", where, column.name),
                  "the label of a regression is a number", "numbers", "text");
    Literal y = Literal::uninitialized({DType::f32, {table.rows}});
    const std::vector<double> values = column.values.to_doubles();
    std::transform(values.begin(), values.end(), y.mutable_values<float>().begin(),
                   [](double value) { return static_cast<float>(value); });
    return arrays(x, y).named(name, {"x", column.name});
  }
  std::vector<std::string> classes;
  const Literal y = classes_of(column, table, where, classes);
  return arrays(x, y).named(name, {}, classes);
}

}  // namespace

Source csv(const std::filesystem::path& file, const CsvOptions& options) {
  return naming_file(file, [&] { return read_set(file, options); });
}

}  // namespace systole::data
