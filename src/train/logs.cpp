#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/nearest.h"
#include "systole/base/error.h"
#include "systole/train/callback.h"

namespace systole::training {

namespace {

auto found(auto& values, std::string_view name) {
  return std::find_if(values.begin(), values.end(), [&](const auto& value) { return value.first == name; });
}

}  // namespace

void Logs::set(std::string_view name, double value) {
  if (const auto at = found(values_, name); at != values_.end())
    at->second = value;
  else
    values_.emplace_back(name, value);
}

bool Logs::contains(std::string_view name) const { return found(values_, name) != values_.end(); }

double Logs::at(std::string_view name) const {
  if (const auto at = found(values_, name); at != values_.end()) return at->second;
  std::vector<std::string_view> names;
  for (const auto& [known, value] : values_) names.push_back(known);
  throw Error(ErrorKind::kNotFound, std::string(name), "no such number was measured",
              fmt::format("one of {}", fmt::join(names, ", ")));
}

std::string Logs::to_string() const {
  std::string text;
  for (const auto& [name, value] : values_)
    text += fmt::format("{}{} {:.4f}", text.empty() ? "" : "  ", name, value);
  return text;
}

}  // namespace systole::training
