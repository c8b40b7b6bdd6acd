#pragma once

// Options by name, as a configuration file or a command line gives them.
//
//   optim::make("adam", model, {{"lr", 3e-4}, {"amsgrad", true}})

#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "systole/base/export.h"

namespace systole::optim {

// A number, a bool, a text, or a list of numbers or of texts.
class SYSTOLE_API OptionValue {
 public:
  using Value = std::variant<double, bool, std::string, std::vector<double>, std::vector<std::string>>;
  template <class T>
    requires std::is_arithmetic_v<T>
  OptionValue(T number) {
    if constexpr (std::is_same_v<T, bool>)
      value_ = number;
    else
      value_ = static_cast<double>(number);
  }
  OptionValue(const char* text) : value_(std::string(text)) {}
  OptionValue(std::string text) : value_(std::move(text)) {}
  OptionValue(std::vector<double> numbers) : value_(std::move(numbers)) {}
  OptionValue(std::vector<std::string> texts) : value_(std::move(texts)) {}

  const Value& value() const { return value_; }
  std::string to_string() const;  // for messages

 private:
  Value value_;
};

struct Option {
  std::string name;
  OptionValue value;
};
using Options = std::vector<Option>;

}  // namespace systole::optim
