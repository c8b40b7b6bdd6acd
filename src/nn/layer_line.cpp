#include "nn/layer_line.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "base/nearest.h"
#include "systole/nn/activations.h"

namespace systole::nn {

namespace {

template <class T>
std::optional<T> number_in(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::string without_bars(std::string_view word) {
  std::string plain;
  for (const char c : word)
    if (c != '_') plain += c;
  return plain;
}

std::optional<ActivationFunction> find_activation(std::string_view word) {
  for (const std::string& name : activation_names())
    if (without_bars(name) == without_bars(word)) return activation(name);
  return std::nullopt;
}

std::vector<std::string> activation_words() {
  std::vector<std::string> words;
  for (const std::string& name : activation_names())  // hardsigmoid and hard_sigmoid are one word
    if (std::string word = without_bars(name); std::find(words.begin(), words.end(), word) == words.end())
      words.push_back(std::move(word));
  return words;
}

Line::Line(std::size_t number, std::string_view text, Shape shape)
    : where_(fmt::format("layer {} \"{}\" on {}", number, text, shape.to_string())),
      shape_(std::move(shape)) {
  constexpr std::string_view kBetween = " \t,";
  std::size_t at = 0;
  while ((at = text.find_first_not_of(kBetween, at)) != std::string_view::npos) {
    const std::size_t end = std::min(text.find_first_of(kBetween, at), text.size());
    std::string word(text.substr(at, end - at));
    for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    words_.push_back(std::move(word));
    at = end;
  }
}

void Line::fail(std::string_view message, std::string_view expected, std::string_view got,
                ErrorKind kind) const {
  throw Error(kind, where_, std::string(message), std::string(expected), std::string(got));
}

void Line::axes(int least, int most, std::string_view expected) const {
  if (shape_.rank() < least || shape_.rank() > most)
    fail("the shape that comes in", expected, shape_.to_string(), ErrorKind::kShape);
}

std::string Line::word(std::string_view what) {
  if (done()) fail("the line ends too early", what, "nothing");
  return words_[at_++];
}

std::int64_t Line::integer(std::string_view what, std::int64_t least) {
  const std::string text = word(what);
  const std::optional<std::int64_t> value = number_in<std::int64_t>(text);
  if (!value || *value < least) fail(what, fmt::format("a whole number of at least {}", least), text);
  return *value;
}

double Line::probability(std::string_view what) {
  const std::string text = word(what);
  const std::optional<double> value = number_in<double>(text);
  if (!value || !(*value >= 0 && *value < 1)) fail(what, "a number from 0 to less than 1", text);
  return *value;
}

PerAxis Line::window(std::string_view what, int axes, std::int64_t least) {
  const std::string text = word(what);
  Ints values;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('x', at), text.size());
    const std::optional<std::int64_t> value =
        number_in<std::int64_t>(std::string_view(text).substr(at, end - at));
    if (!value || *value < least) fail(what, "a size such as 3 or 3x3", text);
    values.push_back(*value);
    at = end + 1;
  }
  if (values.size() > 1 && static_cast<int>(values.size()) != axes)
    fail(what, axes == 1 ? "one size, for a sequence" : "one or two sizes, for an image", text);
  return PerAxis(values);
}

Padding Line::padding(int axes) {
  static constexpr std::string_view kNames[] = {"same", "valid"};
  if (!done()) {
    const std::string& next = words_[at_];
    if (std::isdigit(static_cast<unsigned char>(next[0])) == 0) {
      if (std::find(std::begin(kNames), std::end(kNames), next) == std::end(kNames))
        throw unknown_name(where_, "padding", next, kNames);
      ++at_;
      return Padding(std::string_view(next));
    }
  }
  const PerAxis both = window("the padding", axes, 0);
  return Padding(both, both);
}

void Line::options(const std::vector<Word>& known, bool activated) {
  while (!done()) {
    const std::string next = words_[at_++];
    const auto at =
        std::find_if(known.begin(), known.end(), [&](const Word& word) { return word.name == next; });
    if (at != known.end()) {
      at->read();
      continue;
    }
    if (activated && done())
      if (auto function = find_activation(next)) {
        activation_ = std::move(*function);
        return;
      }
    std::vector<std::string> names;
    for (const Word& word : known) names.emplace_back(word.name);
    if (activated)
      for (std::string& word : activation_words()) names.push_back(std::move(word));
    throw unknown_name(where_, "word", next, names);
  }
}

}  // namespace systole::nn
