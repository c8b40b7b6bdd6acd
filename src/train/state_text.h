#pragma once

// What checkpoints keep as text: numbers and words with a space between. A checkpoint may come from anywhere,
// so a text of another form is kParse, and nothing is read half.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace systole::training {

// Numbers without loss, "0x1.8p+1 inf", and back; nothing when the text is not all numbers.
std::string exact(std::span<const double> numbers);
std::optional<std::vector<double>> from_exact(std::string_view text);

// Words of a text, one after another.
class StateText {
 public:
  StateText(std::string_view text, std::string_view what) : whole_(text), rest_(text), what_(what) {}

  std::int64_t count();  // of 0 or more
  double number();       // as exact() writes it
  std::string_view rest();
  void end();  // nothing more may come

 private:
  std::string_view word();
  [[noreturn]] void fail(const char* expected) const;

  std::string_view whole_, rest_, what_;
};

// The best value of a number so far, and for how many epochs there was no better one: "2 0x1.8p-3 val_loss".
// An empty text is a state without a best value.
struct WatchState {
  std::int64_t waited = 0;
  std::optional<double> best;
  std::string name;

  std::string text() const;
};
WatchState parse_watch_state(std::string_view text, std::string_view what);

// Of the callbacks that have a state.
struct EarlyStoppingState {
  std::int64_t best_epoch = 0, epochs = 0;
  WatchState watch;

  std::string text() const;
};
EarlyStoppingState parse_early_stopping_state(std::string_view text);
struct PlateauState {
  std::int64_t cooldown = 0;
  WatchState watch;

  std::string text() const;
};
PlateauState parse_plateau_state(std::string_view text);

}  // namespace systole::training
