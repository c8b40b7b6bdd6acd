#include "train/state_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>

#include "base/whole_number.h"
#include "systole/base/error.h"

namespace systole::training {

namespace {

std::string_view next_word(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  const std::string_view word = text.substr(0, std::min(text.find(' '), text.size()));
  text.remove_prefix(word.size());
  return word;
}

std::optional<double> exact_number(std::string_view word) {
  const bool is_negative = word.starts_with('-');
  if (is_negative) word.remove_prefix(1);
  if (word.empty() || word.front() == '-') return std::nullopt;
  const bool is_hex = word.starts_with("0x");
  if (is_hex) word.remove_prefix(2);
  if (is_hex && word.starts_with('-')) return std::nullopt;
  double value = 0;
  const char* const stop = word.data() + word.size();
  const auto [at, error] =
      std::from_chars(word.data(), stop, value, is_hex ? std::chars_format::hex : std::chars_format::general);
  if (error != std::errc() || at != stop) return std::nullopt;
  return is_negative ? -value : value;
}

}  // namespace

std::string exact(std::span<const double> numbers) {
  std::string text;
  for (const double x : numbers) text += fmt::format("{}{:a}", text.empty() ? "" : " ", x);
  return text;
}

std::optional<std::vector<double>> from_exact(std::string_view text) {
  std::vector<double> numbers;
  for (std::string_view word = next_word(text); !word.empty(); word = next_word(text)) {
    const std::optional<double> number = exact_number(word);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

void StateText::fail(const char* expected) const {
  throw Error(ErrorKind::kParse, std::string(what_), "the state in the checkpoint is of another form",
              expected, fmt::format("\"{}\"", whole_.substr(0, 200)));
}

std::string_view StateText::word() { return next_word(rest_); }

std::int64_t StateText::count() {
  const std::optional<std::int64_t> value = whole_number(word());
  if (!value || *value < 0) fail("a whole number of 0 or more");
  return *value;
}

double StateText::number() {
  const std::optional<double> value = exact_number(word());
  if (!value) fail("a number");
  return *value;
}

std::string_view StateText::rest() {
  std::string_view left = rest_;
  left.remove_prefix(std::min(left.find_first_not_of(' '), left.size()));
  rest_ = {};
  return left;
}

void StateText::end() {
  if (!word().empty()) fail("nothing more");
}

std::string WatchState::text() const { return best ? fmt::format("{} {:a} {}", waited, *best, name) : ""; }

WatchState parse_watch_state(std::string_view text, std::string_view what) {
  WatchState state;
  if (text.find_first_not_of(' ') == std::string_view::npos) return state;
  StateText in(text, what);
  state.waited = in.count();
  state.best = in.number();
  state.name = in.rest();
  return state;
}

std::string EarlyStoppingState::text() const {
  return fmt::format("{} {} {}", best_epoch, epochs, watch.text());
}

EarlyStoppingState parse_early_stopping_state(std::string_view text) {
  EarlyStoppingState state;
  if (text.empty()) return state;
  StateText in(text, "early_stopping");
  state.best_epoch = in.count();
  state.epochs = in.count();
  state.watch = parse_watch_state(in.rest(), "early_stopping");
  return state;
}

std::string PlateauState::text() const { return fmt::format("{} {}", cooldown, watch.text()); }

PlateauState parse_plateau_state(std::string_view text) {
  PlateauState state;
  if (text.empty()) return state;
  StateText in(text, "reduce_on_plateau");
  state.cooldown = in.count();
  state.watch = parse_watch_state(in.rest(), "reduce_on_plateau");
  return state;
}

}  // namespace systole::training
