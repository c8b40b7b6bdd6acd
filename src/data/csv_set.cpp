// A table as a set: its columns as features, one of them as the label.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "base/log.h"
#include "base/naming_file.h"
#include "data/csv_columns.h"
#include "data/set_files.h"
#include "systole/base/error.h"
#include "systole/data/sets.h"

namespace systole::data {

namespace {

std::string place_of(const Table& table, std::int64_t row, const Column& column, std::string_view file) {
  return cell_place(file, table.lines[static_cast<std::size_t>(row)], column.name);
}

bool is_missing_at(const Column& column, std::size_t row, const std::vector<double>& values) {
  return column.values.dtype() == DType::i32
             ? is_missing(column.categories[static_cast<std::size_t>(values[row])])
             : std::isnan(values[row]);
}

// The rows that have a label. Throws kInvalidArgument for the others, unless they are to be left out.
std::vector<std::int64_t> labelled_rows(const Table& table, const Column& label, const CsvOptions& options,
                                        const std::string& file) {
  const std::vector<double> values = label.values.to_doubles();
  std::vector<std::int64_t> rows;
  std::int64_t first = -1;
  for (std::int64_t row = 0; row < table.rows; ++row) {
    if (!is_missing_at(label, static_cast<std::size_t>(row), values))
      rows.push_back(row);
    else if (first < 0)
      first = row;
  }
  const std::int64_t missing = table.rows - std::ssize(rows);
  if (missing == 0) return rows;
  if (!options.skip_unlabelled)
    throw Error(ErrorKind::kInvalidArgument, place_of(table, first, label, file), "the label is missing",
                "a label in every row, or skip_unlabelled to leave such rows out",
                missing == 1 ? "an empty cell" : fmt::format("{} rows without one", missing));
  log(LogLevel::warn,
      fmt::format("{}: {} of {} rows have no {} and are left out", file, missing, table.rows, label.name));
  return rows;
}

// The label's classes, and each row's among them.
Literal classes_of(const Column& label, const Table& table, std::span<const std::int64_t> rows,
                   std::string_view file, std::vector<std::string>& classes) {
  const std::vector<double> numbers = label.values.to_doubles();
  const bool text = label.values.dtype() == DType::i32;
  std::set<double> distinct;
  for (const std::int64_t row : rows) {
    const double number = numbers[static_cast<std::size_t>(row)];
    if (std::abs(number) > 0x1p53 || number != std::floor(number))
      throw Error(ErrorKind::kInvalidArgument, place_of(table, row, label, file), "the label is no class",
                  "whole numbers or text, or regression set", fmt::format("{}", number));
    distinct.insert(number);
  }
  std::map<double, std::int32_t> places;
  for (const double value : distinct) {
    places.emplace(value, static_cast<std::int32_t>(places.size()));
    classes.push_back(text ? label.categories[static_cast<std::size_t>(value)]
                           : fmt::format("{}", static_cast<std::int64_t>(value)));
  }
  if (table.classes.size() == classes.size()) classes = table.classes;
  Literal result = Literal::uninitialized({DType::i32, {std::ssize(rows)}});
  std::int32_t* out = result.mutable_values<std::int32_t>().data();
  for (const std::int64_t row : rows) *out++ = places.find(numbers[static_cast<std::size_t>(row)])->second;
  return result;
}

Literal numbers_of(const Column& label, const Table& table, std::span<const std::int64_t> rows,
                   const std::string& file) {
  if (label.values.dtype() == DType::i32) throw not_numbers(table, label, file);
  const std::vector<double> values = label.values.to_doubles();
  Literal y = Literal::uninitialized({DType::f32, {std::ssize(rows)}});
  float* out = y.mutable_values<float>().data();
  for (const std::int64_t row : rows) *out++ = static_cast<float>(values[static_cast<std::size_t>(row)]);
  return y;
}

void warn_of_columns(const CsvPlan& plan, const std::string& file) {
  for (const CsvColumn& column : plan.columns)
    if (!column.nearly_numbers.empty())
      log(LogLevel::warn,
          fmt::format("{}: column {} is text, {}: {}; correct the cell, or empty it where the number is "
                      "missing; text={} says that the column is text",
                      file, column.name,
                      column.use == ColumnUse::kLabel ? "and its values are classes"
                                                      : fmt::format("one-hot of {} values", column.distinct),
                      column.nearly_numbers, column.name));
  for (const CsvColumn& column : plan.columns)
    if (!column.identifier.empty())
      log(LogLevel::warn,
          fmt::format(
              "{}: column {} looks like an identifier ({}), of which nothing can be learned for other "
              "samples; drop={} leaves it out",
              file, column.name, column.identifier, column.name));
}

// Infinite cells of the columns that are used. A model that is trained already may be asked about them.
void look_for_infinities(const Table& table, const CsvFeatures& features, const Column* label,
                         const std::string& file, bool trained) {
  std::vector<const Column*> used;
  for (const CsvFeature& feature : features)
    used.push_back(&table.columns[column_place(feature.name, table, file)]);
  if (label != nullptr) used.push_back(label);
  for (const Column* column : used) {
    if (!column->infinite) continue;
    const Error error(
        ErrorKind::kInvalidArgument, place_of(table, column->infinite->row, *column, file), "",
        fmt::format("a finite number of f32; empty the cell if it is missing, leave the column out (drop={}) "
                    "or take such cells (allow_infinite)",
                    column->name),
        column->infinite->text);
    if (!trained) throw error;
    log(LogLevel::warn, error.what());
  }
}

// Where a number of x is missing, the first of the first such column.
std::string first_missing(const Table& table, const CsvFeatures& features, std::span<const std::int64_t> rows,
                          const std::string& file) {
  for (const CsvFeature& feature : features) {
    const Column& column = table.columns[column_place(feature.name, table, file)];
    if (column.values.dtype() != DType::f32) continue;
    const std::span<const float> values = column.values.values<float>();
    for (const std::int64_t row : rows)
      if (std::isnan(values[static_cast<std::size_t>(row)])) return place_of(table, row, column, file);
  }
  return {};
}

}  // namespace

CsvSet csv_set(const std::filesystem::path& file, const CsvOptions& options, const CsvFeatures* like) {
  const std::string where = file.string();
  const Table table = like != nullptr ? read_csv_like(file, options, *like) : read_csv(file, options);
  const CsvPlan plan = plan_csv(table, options, where);
  std::vector<std::int64_t> rows(static_cast<std::size_t>(table.rows));
  std::iota(rows.begin(), rows.end(), 0);
  if (!options.unlabelled) require_one_column(table, table.columns[plan.label].name, where);
  if (!options.unlabelled) rows = labelled_rows(table, table.columns[plan.label], options, where);
  CsvSet set;
  set.features = like != nullptr ? *like : features_of(table, plan, options, where);
  if (like == nullptr) warn_of_columns(plan, where);
  const bool has_label = !options.unlabelled && options.regression;
  if (!options.allow_infinite)
    look_for_infinities(table, set.features, has_label ? &table.columns[plan.label] : nullptr, where,
                        like != nullptr);
  Budget budget = csv_budget(file);
  const Literal x = encode(table, set.features, rows, where, budget);
  set.missing = first_missing(table, set.features, rows, where);
  const std::string name = file.filename().string();
  if (options.unlabelled) {
    set.source = arrays(x).named(name);
  } else if (const Column& label = table.columns[plan.label]; options.regression) {
    set.source = arrays(x, numbers_of(label, table, rows, where)).named(name, {"x", label.name});
  } else {
    std::vector<std::string> classes;
    const Literal y = classes_of(label, table, rows, where, classes);
    set.source = arrays(x, y).named(name, {}, classes);
  }
  return set;
}

Literal read_features(const std::filesystem::path& file, const CsvFeatures& features) {
  const Table table = read_csv_like(file, {}, features);
  std::vector<std::int64_t> rows(static_cast<std::size_t>(table.rows));
  std::iota(rows.begin(), rows.end(), 0);
  look_for_infinities(table, features, nullptr, file.string(), true);
  Budget budget = csv_budget(file);
  return encode(table, features, rows, file.string(), budget);
}

Source csv(const std::filesystem::path& file, const CsvOptions& options) {
  return naming_file(file, [&] { return csv_set(file, options).source; });
}

}  // namespace systole::data
