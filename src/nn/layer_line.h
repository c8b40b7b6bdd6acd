#pragma once

// One line of a model written as a list of layers: its words, read one after the other, and the shape that
// comes in. Every error says which line, and on which shape.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "systole/base/error.h"
#include "systole/base/shape.h"
#include "systole/nn/any_module.h"
#include "systole/tensor/neural.h"

namespace systole::nn {

using ActivationFunction = std::function<Tensor(const Tensor&)>;
std::string without_bars(std::string_view word);  // "leaky_relu" as "leakyrelu"
std::optional<ActivationFunction> find_activation(std::string_view word);
std::vector<std::string> activation_words();

class Line {
 public:
  Line(std::size_t number, std::string_view text, Shape shape);

  const std::string& where() const { return where_; }
  const Shape& shape() const { return shape_; }
  std::int64_t channels() const { return shape_[shape_.size() - 1].value(); }
  void axes(int least, int most, std::string_view expected) const;  // the shape must have so many

  // What comes next, in small letters; `what` says what was expected where the line ends.
  bool done() const { return at_ == words_.size(); }
  std::string word(std::string_view what);
  std::int64_t integer(std::string_view what, std::int64_t least = 1);
  double probability(std::string_view what);
  PerAxis window(std::string_view what, int axes, std::int64_t least = 1);  // "3", or "3x5" for two axes
  Padding padding(int axes);                                                // same, valid or a size

  // The words that may follow in any order; the last may be an activation.
  struct Word {
    std::string_view name;
    std::function<void()> read;
  };
  void options(const std::vector<Word>& known, bool activated = false);
  const ActivationFunction& activation() const { return activation_; }  // empty: none

 private:
  [[noreturn]] void fail(std::string_view message, std::string_view expected, std::string_view got,
                         ErrorKind kind = ErrorKind::kInvalidArgument) const;

  std::string where_;
  Shape shape_;
  std::vector<std::string> words_;
  std::size_t at_ = 0;
  ActivationFunction activation_;
};

}  // namespace systole::nn
