#pragma once

// Models by name.
//
//   nn::AnyModule net = nn::zoo::make("resnet18", {.input = {32, 32, 3}, .classes = 10});
//   nn::AnyModule mlp = nn::zoo::make("mlp", {.input = {28, 28}, .options = {{"hidden", {512, 256}}}});
//   for (const auto& entry : nn::zoo::entries()) std::cout << entry.name << "  " << entry.about << '\n';
//
// Networks for images take f32 [batch, height, width, channels] whatever the form of `input`: {28, 28} is
// {28, 28, 1}. An mlp flattens what it gets. Networks for text take i32 [batch, length].

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "systole/base/export.h"
#include "systole/base/shape.h"
#include "systole/nn/any_module.h"

namespace systole::nn::zoo {

// The value of an option: a number, a word, true or false, a list of numbers; or the text of one, as it
// stands in a configuration file: "[512, 256]".
class SYSTOLE_API Value {
 public:
  Value(std::string text) : text_(std::move(text)) {}
  Value(std::string_view text) : text_(text) {}
  Value(const char* text) : text_(text) {}
  template <class T>
    requires std::is_arithmetic_v<T>
  Value(T value) : Value(text_of(value)) {}
  Value(std::initializer_list<std::int64_t> values) : Value(std::vector<std::int64_t>(values)) {}
  Value(const std::vector<std::int64_t>& values);

  const std::string& text() const { return text_; }

 private:
  template <class T>
  static std::string text_of(T value) {
    if constexpr (std::same_as<T, bool>)
      return value ? "true" : "false";
    else if constexpr (std::is_floating_point_v<T>)
      return number_text(static_cast<double>(value));
    else
      return std::to_string(value);
  }
  static std::string number_text(double value);

  std::string text_;
};
using Settings = std::map<std::string, Value>;

struct Options {
  Shape input = {};          // of one example, without the batch; empty: what the model was made for
  std::int64_t classes = 0;  // 0: what the model was made for; of language models the vocabulary
  Settings options = {};     // the model's own: see entries()
};

struct OptionEntry {
  std::string name, standard, about;  // "hidden", "[128]", "sizes of the hidden layers"
};
struct Entry {
  std::string name, about;
  std::vector<OptionEntry> options;
  Shape input;        // what it was made for
  bool text = false;  // whether it takes words instead of numbers
};

// Throws kNotFound with the nearest name for an unknown model or option, kInvalidArgument for a value that an
// option cannot have, kShape for an input that is too small.
SYSTOLE_API AnyModule make(std::string_view name, const Options& options = {});

SYSTOLE_API const std::vector<Entry>& entries();
SYSTOLE_API const Entry& entry(std::string_view name);
SYSTOLE_API std::vector<std::string> names();

}  // namespace systole::nn::zoo
