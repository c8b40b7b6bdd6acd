// What each column of a table is and what is made of it.

#include "data/csv_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <iterator>
#include <optional>
#include <set>

#include "data/set_files.h"
#include "systole/base/error.h"

namespace systole::data {

namespace {

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

// "CustomerID", "customer_id", "id", "index", "Unnamed: 0" (the index that pandas writes); not "PAID".
bool is_identifiers_name(std::string_view name) {
  constexpr std::size_t kLength = 2;
  if (name.ends_with("ID") || name.ends_with("Id")) {
    const bool is_whole = name.size() == kLength;
    if (is_whole || std::isupper(static_cast<unsigned char>(name[name.size() - kLength - 1])) == 0)
      return true;
  }
  std::string lower;
  for (const char c : name) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  constexpr std::string_view kNames[] = {"id", "idx", "index", "uuid", "guid", "rowid", "unnamed: 0"};
  constexpr std::string_view kEndings[] = {"_id", "-id", " id", ".id", "_uuid", "_guid", "_index"};
  return std::find(std::begin(kNames), std::end(kNames), lower) != std::end(kNames) ||
         std::any_of(std::begin(kEndings), std::end(kEndings),
                     [&](std::string_view ending) { return lower.ends_with(ending); });
}

// Why a column looks like an identifier. A small table has no repetitions by chance, so it takes some rows.
std::string identifier_of(const CsvColumn& column, const std::vector<double>& values) {
  constexpr std::int64_t kRowsOfCounter = 10, kRowsOfNumbers = 100, kRowsOfText = 10;
  constexpr std::int64_t kYesOrNo = 2;  // values: too few to tell rows apart
  const std::int64_t rows = std::ssize(values);
  const bool all_differ = column.distinct == rows;
  if (column.type == CsvType::kText)
    return all_differ && rows >= kRowsOfText ? fmt::format("another text in each of {} rows", rows) : "";
  if (column.type != CsvType::kInteger) return "";
  if (is_identifiers_name(column.name) && column.distinct > kYesOrNo) return "by its name";
  if (!all_differ) return "";
  const bool counts = std::adjacent_find(values.begin(), values.end(),
                                         [](double a, double b) { return b != a + 1; }) == values.end();
  if (counts && rows >= kRowsOfCounter) return "it counts the rows";
  if (rows >= kRowsOfNumbers) return fmt::format("another whole number in each of {} rows", rows);
  return "";
}

// Whether a column of text is numbers but for a few cells, as a slip of the finger makes it.
std::string nearly_numbers_of(const Column& column, const std::vector<double>& values, const Table& table) {
  constexpr std::int64_t kInTen = 9;
  std::vector<bool> numbers, missing;
  for (const std::string& category : column.categories) {
    numbers.push_back(is_number(category));
    missing.push_back(is_missing(category));
  }
  std::int64_t count = 0, there = 0;
  for (const double value : values) {
    const auto category = static_cast<std::size_t>(value);
    if (missing[category]) continue;
    ++there;
    count += numbers[category] ? 1 : 0;
  }
  const std::optional<CsvCell> cell = first_no_number(column);
  if (!cell || count * 10 < there * kInTen) return "";
  return fmt::format("line {} holds {}, and {} of {} cells are numbers",
                     table.lines[static_cast<std::size_t>(cell->row)], cell_text(cell->text), count, there);
}

CsvColumn described(const Column& column, ColumnUse use, const Table& table, const CsvOptions& options) {
  CsvColumn result{.name = column.name, .use = use};
  const std::vector<double> values = column.values.to_doubles();
  if (column.values.dtype() == DType::i32) {
    result.type = CsvType::kText;
    std::vector<bool> missing;
    for (const std::string& category : column.categories) missing.push_back(is_missing(category));
    result.distinct = std::count(missing.begin(), missing.end(), false);
    for (const double value : values) result.missing += missing.at(static_cast<std::size_t>(value)) ? 1 : 0;
    const bool is_wanted = std::any_of(options.types.begin(), options.types.end(),
                                       [&](const CsvTypeOf& wanted) { return wanted.column == column.name; });
    if (use != ColumnUse::kLeftOut && !is_wanted)
      result.nearly_numbers = nearly_numbers_of(column, values, table);
    if (use == ColumnUse::kFeature)
      result.use = result.distinct > options.one_hot ? ColumnUse::kTooManyValues : ColumnUse::kOneHot;
  } else {
    result.type = column.values.dtype() == DType::i64 ? CsvType::kInteger : CsvType::kNumber;
    std::vector<double> there;
    std::copy_if(values.begin(), values.end(), std::back_inserter(there),
                 [](double x) { return !std::isnan(x); });
    result.missing = std::ssize(values) - std::ssize(there);
    std::sort(there.begin(), there.end());
    result.distinct = std::unique(there.begin(), there.end()) - there.begin();
    if (column.infinite)
      result.infinite = fmt::format("{} in line {}", column.infinite->text,
                                    table.lines[static_cast<std::size_t>(column.infinite->row)]);
  }
  if (result.use == ColumnUse::kFeature || result.use == ColumnUse::kOneHot ||
      result.use == ColumnUse::kTooManyValues)
    result.identifier = identifier_of(result, values);
  return result;
}

// The numbers of one column, to every `stride`-th place of `out`.
void write_feature(const Column& from, const CsvFeature& feature, const Table& table,
                   std::span<const std::int64_t> rows, float* out, std::size_t stride,
                   const std::string& where) {
  const std::vector<double> values = from.values.to_doubles();
  const bool text = feature.one_hot || !feature.categories.empty();
  if (!text && from.values.dtype() == DType::i32) throw not_numbers(table, from, where);
  // For each category of this table its place among the training's; -1: missing.
  std::vector<std::int64_t> places;
  for (std::size_t c = 0; text && c < from.categories.size(); ++c) {
    const std::string& category = from.categories[c];
    const auto at = std::find(feature.categories.begin(), feature.categories.end(), category);
    if (at != feature.categories.end()) {
      places.push_back(at - feature.categories.begin());
    } else if (feature.one_hot && is_missing(category)) {
      places.push_back(-1);
    } else {
      const auto row = std::find(values.begin(), values.end(), static_cast<double>(c)) - values.begin();
      throw Error(ErrorKind::kInvalidArgument,
                  cell_place(where, table.lines.at(static_cast<std::size_t>(row)), feature.name),
                  "the training had no such value",
                  fmt::format("one of {}", fmt::join(feature.categories, ", ")), cell_text(category));
    }
  }
  for (const std::int64_t row : rows) {
    const double value = values[static_cast<std::size_t>(row)];
    const std::int64_t place = text ? places[static_cast<std::size_t>(value)] : 0;
    if (!text)
      *out = static_cast<float>(value);
    else if (!feature.one_hot)
      *out = static_cast<float>(place);
    else if (place >= 0)
      out[place] = 1;
    out += stride;
  }
}

}  // namespace

void require_one_column(const Table& table, std::string_view name, const std::string& where) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < table.columns.size(); ++i)
    if (table.columns[i].name == name) places.push_back(i);
  if (places.size() < 2) return;
  throw Error(
      ErrorKind::kInvalidArgument, where,
      fmt::format("columns {} are all named '{}'", fmt::join(places, ", "), name),
      fmt::format("another name for each; rename them in the file, or leave them out (drop={0})", name));
}

std::optional<CsvCell> first_no_number(const Column& column) {
  const std::span<const std::int32_t> cells = column.values.values<std::int32_t>();
  for (std::size_t row = 0; row < cells.size(); ++row)
    if (const std::string& cell = column.categories[static_cast<std::size_t>(cells[row])];
        !is_missing(cell) && !is_number(cell))
      return CsvCell{static_cast<std::int64_t>(row), cell};
  return {};
}

Error not_numbers(const Table& table, const Column& column, std::string_view file) {
  if (const std::optional<CsvCell> cell = first_no_number(column))
    return {ErrorKind::kDType,
            cell_place(file, table.lines[static_cast<std::size_t>(cell->row)], column.name), "", "a number",
            cell_text(cell->text)};
  return {ErrorKind::kDType, fmt::format("{}, column '{}'", file, column.name), "", "numbers", "text"};
}

Table read_csv_like(const std::filesystem::path& file, CsvOptions options, const CsvFeatures& features) {
  // By the names of the features it is seen whether the first line has names.
  if (options.features.empty())
    for (const CsvFeature& feature : features) options.features.push_back(feature.name);
  Table found = read_csv(file, options);
  bool again = false;
  for (const CsvFeature& feature : features) {
    if (feature.categories.empty() && !feature.one_hot) continue;
    const Column& column = found.columns[column_place(feature.name, found, file.string())];
    if (column.values.dtype() == DType::i32) continue;
    options.types.push_back({column.name, CsvType::kText});
    again = true;
  }
  return again ? read_csv(file, options) : found;
}

std::size_t column_place(std::string_view name, const Table& table, std::string_view where) {
  for (std::size_t i = 0; i < table.columns.size(); ++i)
    if (table.columns[i].name == name) return i;
  const std::optional<std::int64_t> number = whole_number(name);
  const std::int64_t count = std::ssize(table.columns);
  if (number && *number >= -count && *number < count)
    return static_cast<std::size_t>(*number < 0 ? *number + count : *number);
  no_column(name, table, where);
}

CsvPlan plan_csv(const Table& table, const CsvOptions& options, std::string_view where) {
  const std::size_t none = table.columns.size();
  CsvPlan plan;
  plan.label = options.unlabelled      ? none
               : options.label.empty() ? none - 1
                                       : column_place(options.label, table, where);
  std::set<std::size_t> left_out{plan.label};
  for (const std::string& name : options.drop) {
    left_out.insert(column_place(name, table, where));
    for (std::size_t i = 0; i < none; ++i)  // two columns may have the name
      if (table.columns[i].name == name) left_out.insert(i);
  }
  for (const std::string& name : options.features) plan.features.push_back(column_place(name, table, where));
  if (plan.features.empty())
    for (std::size_t i = 0; i < none; ++i)
      if (!left_out.contains(i)) plan.features.push_back(i);
  for (std::size_t i = 0; i < none; ++i) {
    const bool used = std::find(plan.features.begin(), plan.features.end(), i) != plan.features.end();
    plan.columns.push_back(described(table.columns[i],
                                     used              ? ColumnUse::kFeature
                                     : i == plan.label ? ColumnUse::kLabel
                                                       : ColumnUse::kLeftOut,
                                     table, options));
  }
  return plan;
}

std::vector<CsvColumn> csv_columns(const std::filesystem::path& file, const CsvOptions& options) {
  return plan_csv(read_csv(file, options), options, file.string()).columns;
}

CsvFeatures features_of(const Table& table, const CsvPlan& plan, const CsvOptions& options,
                        const std::string& where) {
  CsvFeatures features;
  for (const std::size_t place : plan.features) {
    const Column& column = table.columns[place];
    const CsvColumn& about = plan.columns[place];
    if (about.use == ColumnUse::kTooManyValues && !about.nearly_numbers.empty())
      throw not_numbers(table, column, where);
    if (about.use == ColumnUse::kTooManyValues)
      throw Error(ErrorKind::kInvalidArgument, fmt::format("{}: column {}", where, column.name),
                  "text of too many different values to learn from",
                  fmt::format("at most {}; leave the column out (drop={}), give it numbers that mean "
                              "something, or allow more (one_hot={})",
                              options.one_hot, column.name, about.distinct),
                  fmt::format("{} values, such as \"{}\"", about.distinct, column.categories.back()));
    CsvFeature feature{.name = column.name, .one_hot = about.use == ColumnUse::kOneHot};
    if (feature.one_hot)
      std::remove_copy_if(column.categories.begin(), column.categories.end(),
                          std::back_inserter(feature.categories), is_missing);
    features.push_back(std::move(feature));
  }
  return features;
}

Literal encode(const Table& table, const CsvFeatures& features, std::span<const std::int64_t> rows,
               const std::string& where, Budget& budget) {
  std::size_t width = 0;
  for (const CsvFeature& feature : features) {
    require_one_column(table, feature.name, where);
    width += feature.width();
  }
  if (width == 0)
    throw Error(ErrorKind::kShape, where, "no columns are left to learn from",
                "a label and at least one feature");
  budget.take(rows.size() * width * sizeof(float),
              fmt::format("a table of {} rows, each {} numbers,", rows.size(), width));
  Literal x({DType::f32, {std::ssize(rows), static_cast<std::int64_t>(width)}});  // zeros
  float* out = x.mutable_values<float>().data();
  for (const CsvFeature& feature : features) {
    write_feature(table.columns[column_place(feature.name, table, where)], feature, table, rows, out, width,
                  where);
    out += feature.width();
  }
  return x;
}

}  // namespace systole::data
