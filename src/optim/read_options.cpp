#include "optim/read_options.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/nearest.h"
#include "optim/common.h"

namespace systole::optim {

namespace {

std::string shown(bool value) { return value ? "true" : "false"; }
std::string shown(double value) { return fmt::format("{}", value); }
std::string shown(const std::string& value) { return fmt::format("\"{}\"", value); }
template <class T>
std::string shown(const std::vector<T>& values) {
  std::vector<std::string> texts;
  for (const T& value : values) texts.push_back(shown(value));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

[[noreturn]] void refuse_value(std::string_view where, const Option& option, const char* expected) {
  refuse(where, fmt::format("option \"{}\"", option.name), expected, option.value.to_string());
}

// An integer below 2^53, which a double holds.
std::int64_t as_integer(std::string_view where, const Option& option, double value) {
  if (value != std::floor(value) || std::abs(value) >= 9007199254740992.0)
    refuse_value(where, option, "a whole number");
  return static_cast<std::int64_t>(value);
}

}  // namespace

OptionValue::OptionValue(double number, bool is_flag) : value_(number) {
  if (is_flag) value_ = number != 0;
}
OptionValue::OptionValue(const char* text) : value_(std::string(text)) {}
OptionValue::OptionValue(std::string text) : value_(std::move(text)) {}
OptionValue::OptionValue(std::vector<double> numbers) : value_(std::move(numbers)) {}
OptionValue::OptionValue(std::vector<std::string> texts) : value_(std::move(texts)) {}
OptionValue::OptionValue(const OptionValue&) = default;
OptionValue::OptionValue(OptionValue&&) noexcept = default;
OptionValue& OptionValue::operator=(const OptionValue&) = default;
OptionValue& OptionValue::operator=(OptionValue&&) noexcept = default;
OptionValue::~OptionValue() = default;

std::string OptionValue::to_string() const {
  return std::visit([](const auto& value) { return shown(value); }, value_);
}

double as_number(std::string_view where, const Option& option) {
  if (const double* number = std::get_if<double>(&option.value.value())) return *number;
  refuse_value(where, option, "a number");
}

std::int64_t as_integer(std::string_view where, const Option& option) {
  return as_integer(where, option, as_number(where, option));
}

bool as_flag(std::string_view where, const Option& option) {
  if (const bool* flag = std::get_if<bool>(&option.value.value())) return *flag;
  refuse_value(where, option, "true or false");
}

std::string as_text(std::string_view where, const Option& option) {
  if (const std::string* text = std::get_if<std::string>(&option.value.value())) return *text;
  refuse_value(where, option, "a text");
}

std::vector<std::int64_t> as_integers(std::string_view where, const Option& option) {
  const auto* numbers = std::get_if<std::vector<double>>(&option.value.value());
  if (numbers == nullptr) return {as_integer(where, option)};
  std::vector<std::int64_t> result;
  for (const double number : *numbers) result.push_back(as_integer(where, option, number));
  return result;
}

std::vector<std::string> as_texts(std::string_view where, const Option& option) {
  const auto* texts = std::get_if<std::vector<std::string>>(&option.value.value());
  return texts != nullptr ? *texts : std::vector<std::string>{as_text(where, option)};
}

void check_names(std::string_view where, const Options& options, std::span<const std::string_view> names) {
  for (std::size_t i = 0; i < options.size(); ++i) {
    const std::string& name = options[i].name;
    if (std::find(names.begin(), names.end(), name) == names.end())
      throw unknown_name(std::string(where), "option", name, names);
    for (std::size_t j = 0; j < i; ++j)
      if (options[j].name == name) refuse(where, fmt::format("option \"{}\"", name), "it once", "it twice");
  }
}

}  // namespace systole::optim
