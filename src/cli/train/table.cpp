#include "cli/train/table.h"

#include <algorithm>
#include <utility>

#include "data/open.h"

namespace systole::cli {

std::string option_of(std::string_view spec, std::string_view name) {
  for (std::string_view rest = data::parts_of(spec).options; !rest.empty();) {
    const std::string_view one = rest.substr(0, rest.find('&'));
    if (one.substr(0, one.find('=')) == name)
      return one.size() > name.size() ? std::string(one.substr(name.size() + 1)) : "true";
    rest.remove_prefix(std::min(one.size() + 1, rest.size()));
  }
  return {};
}

Value to_value(const Features& features) {
  Value::List list;
  for (const data::CsvFeature& feature : features) {
    Value::List categories;
    for (const std::string& word : feature.categories) categories.push_back({word});
    list.push_back({Table{
        {"name", {feature.name}}, {"categories", {std::move(categories)}}, {"one_hot", {feature.one_hot}}}});
  }
  return {std::move(list)};
}

Features features_of(const Value& value) {
  Features features;
  const Value::List* list = value.get<Value::List>();
  if (list == nullptr) return features;
  for (const Value& one : *list) {
    data::CsvFeature feature;
    const Table* table = one.get<Table>();
    if (table == nullptr) continue;
    if (const Value* name = find(*table, "name"))
      if (const std::string* text = name->get<std::string>()) feature.name = *text;
    if (const Value* words = find(*table, "categories"))
      if (const Value::List* all = words->get<Value::List>())
        for (const Value& word : *all)
          if (const std::string* text = word.get<std::string>()) feature.categories.push_back(*text);
    if (const Value* one_hot = find(*table, "one_hot"))
      if (const bool* is = one_hot->get<bool>()) feature.one_hot = *is;
    features.push_back(std::move(feature));
  }
  return features;
}

}  // namespace systole::cli
