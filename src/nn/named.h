#pragma once

// Things that text names: the table they stand in and the error for a name that is not there.

#include <algorithm>
#include <cctype>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/nearest.h"
#include "systole/base/error.h"

namespace systole::nn {

// A name as tables have it: "HeNormal", "he_normal", "he-normal" and "he_normal_" are one, and "MSELoss" is
// "mse_loss".
inline std::string plain_name(std::string_view name) {
  const auto is_upper = [](char c) { return std::isupper(static_cast<unsigned char>(c)) != 0; };
  const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  const auto is_lower = [](char c) { return std::islower(static_cast<unsigned char>(c)) != 0; };
  std::string plain;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    const bool ends_capitals = i + 1 < name.size() && is_lower(name[i + 1]);
    if (i > 0 && is_upper(c) && is_word(name[i - 1]) && (!is_upper(name[i - 1]) || ends_capitals))
      plain += '_';
    plain += c == '-' || c == ' ' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  while (!plain.empty() && plain.back() == '_') plain.pop_back();
  return plain;
}

// The entry of a table of {name, thing}, each a `kind`; throws kNotFound with the nearest name.
template <class Entry>
const Entry& named(std::span<const Entry> table, std::string_view name, std::string_view kind) {
  const std::string plain = plain_name(name);
  const auto at = std::find_if(table.begin(), table.end(), [&](const Entry& e) { return e.name == plain; });
  if (at != table.end()) return *at;
  std::vector<std::string_view> names;
  for (const Entry& entry : table) names.push_back(entry.name);
  Error error = unknown_name({}, kind, name, names);
  if (plain != name && nearest(name, names).empty()) error = unknown_name({}, kind, plain, names);
  throw error;
}

template <class Entry>
std::vector<std::string> names_of(std::span<const Entry> table) {
  std::vector<std::string> names;
  for (const Entry& entry : table) names.emplace_back(entry.name);
  return names;
}

}  // namespace systole::nn
