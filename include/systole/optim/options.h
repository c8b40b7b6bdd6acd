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
  OptionValue(T number) : OptionValue(static_cast<double>(number), std::is_same_v<T, bool>) {}
  OptionValue(const char* text);
  OptionValue(std::string text);
  OptionValue(std::vector<double> numbers);
  OptionValue(std::vector<std::string> texts);
  OptionValue(const OptionValue&);
  OptionValue(OptionValue&&) noexcept;
  OptionValue& operator=(const OptionValue&);
  OptionValue& operator=(OptionValue&&) noexcept;
  ~OptionValue();

  const Value& value() const { return value_; }
  std::string to_string() const;  // for messages

 private:
  OptionValue(double number, bool is_flag);

  Value value_;
};

struct Option {
  std::string name;
  OptionValue value;
};
using Options = std::vector<Option>;

}  // namespace systole::optim
