#include "cli/train/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "data/set_files.h"
#include "systole/base/error.h"
#include "systole/data/sets.h"

namespace systole::cli {

namespace {

std::vector<std::string> words_of(std::string_view list) {  // "a,b"
  std::vector<std::string> words;
  while (!list.empty()) {
    const std::string_view word = list.substr(0, list.find(','));
    words.emplace_back(word);
    list.remove_prefix(std::min(word.size() + 1, list.size()));
  }
  return words;
}

// The table, with words where training had words: a column of them may hold nothing but numbers here.
data::Table read_table(const std::filesystem::path& file, const Features& features) {
  const data::Table found = data::read_csv(file);
  data::CsvOptions options;
  for (const FeatureColumn& feature : features)
    if (!feature.categories.empty())
      options.types.push_back(
          {found.columns[data::column_place(feature.name, found, file.string())].name, data::CsvType::kText});
  return options.types.empty() ? found : data::read_csv(file, options);
}

float number_in(const data::Column& from, const std::vector<double>& values, std::size_t row,
                const FeatureColumn& wanted, const std::string& file) {
  const double value = values[row];
  if (wanted.categories.empty()) return static_cast<float>(value);
  const std::string& word = from.categories.at(static_cast<std::size_t>(value));
  const auto at = std::find(wanted.categories.begin(), wanted.categories.end(), word);
  if (at == wanted.categories.end())
    throw Error(ErrorKind::kInvalidArgument, fmt::format("{}: row {}", file, row + 1),
                fmt::format("{} was never {} in training", wanted.name, in_quotes(word)),
                fmt::format("one of {}", fmt::join(wanted.categories, ", ")));
  return static_cast<float>(at - wanted.categories.begin());
}

}  // namespace

std::filesystem::path place_of(std::string_view spec) {
  const std::size_t colon = spec.find(':');
  if (colon == std::string_view::npos) return {};
  return std::string(spec.substr(colon + 1, spec.find('?', colon) - colon - 1));
}

std::string option_of(std::string_view spec, std::string_view name) {
  std::size_t at = spec.find('?');
  while (at != std::string_view::npos) {
    const std::size_t end = spec.find('&', at + 1);
    const std::string_view one = spec.substr(at + 1, end == std::string_view::npos ? end : end - at - 1);
    if (one.substr(0, one.find('=')) == name)
      return one.size() > name.size() ? std::string(one.substr(name.size() + 1)) : "true";
    at = end;
  }
  return {};
}

Features csv_features(std::string_view spec) {
  if (!spec.starts_with("csv:")) return {};
  const std::filesystem::path file = place_of(spec);
  const data::Table table = data::read_csv(file);
  const auto column = [&](const std::string& name) { return data::column_place(name, table, file.string()); };
  std::vector<std::size_t> places;
  const std::vector<std::string> wanted = words_of(option_of(spec, "features"));
  for (const std::string& name : wanted) places.push_back(column(name));
  if (wanted.empty()) {
    const std::string label = option_of(spec, "label");
    std::vector<std::size_t> left_out{label.empty() ? table.columns.size() - 1 : column(label)};
    for (const std::string& name : words_of(option_of(spec, "drop"))) left_out.push_back(column(name));
    for (std::size_t i = 0; i < table.columns.size(); ++i)
      if (std::find(left_out.begin(), left_out.end(), i) == left_out.end()) places.push_back(i);
  }
  Features features;
  for (const std::size_t place : places)
    features.push_back({table.columns[place].name, table.columns[place].categories});
  return features;
}

Value to_value(const Features& features) {
  Value::List list;
  for (const FeatureColumn& feature : features) {
    Value::List categories;
    for (const std::string& word : feature.categories) categories.push_back({word});
    list.push_back({Table{{"name", {feature.name}}, {"categories", {std::move(categories)}}}});
  }
  return {std::move(list)};
}

Features features_of(const Value& value) {
  Features features;
  const Value::List* list = value.get<Value::List>();
  if (list == nullptr) return features;
  for (const Value& one : *list) {
    FeatureColumn feature;
    const Table* table = one.get<Table>();
    if (table == nullptr) continue;
    if (const Value* name = find(*table, "name"))
      if (const std::string* text = name->get<std::string>()) feature.name = *text;
    if (const Value* words = find(*table, "categories"))
      if (const Value::List* all = words->get<Value::List>())
        for (const Value& word : *all)
          if (const std::string* text = word.get<std::string>()) feature.categories.push_back(*text);
    features.push_back(std::move(feature));
  }
  return features;
}

Literal read_features(const std::filesystem::path& file, const Features& features) {
  const data::Table table = read_table(file, features);
  const auto width = static_cast<std::int64_t>(features.size());
  Literal rows({DType::f32, {table.rows, width}});
  const std::span<float> out = rows.mutable_values<float>();
  for (std::size_t f = 0; f < features.size(); ++f) {
    const data::Column& from = table.columns[data::column_place(features[f].name, table, file.string())];
    if (features[f].categories.empty() && !from.categories.empty())
      throw Error(ErrorKind::kDType, file.string(), fmt::format("column {} has words", features[f].name),
                  "numbers, as in training", in_quotes(from.categories[0]));
    const std::vector<double> values = from.values.to_doubles();
    for (std::size_t row = 0; row < values.size(); ++row)
      out[row * features.size() + f] = number_in(from, values, row, features[f], file.string());
  }
  return rows;
}

}  // namespace systole::cli
