#include "train/fit_state.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <utility>

#include "base/whole_number.h"
#include "systole/base/error.h"
#include "train/state_text.h"

namespace systole::training {

void add_to(io::Metadata& metadata, const FitState& state) {
  std::vector<double> sums = state.sums;
  sums.push_back(state.samples);
  metadata["epoch"] = std::to_string(state.epoch);
  metadata["done"] = std::to_string(state.done);
  metadata["sums"] = exact(sums);
  metadata["history"] = state.history.to_csv();
}

FitState parse_fit_state(const io::Metadata& metadata, std::size_t sums, std::int64_t steps,
                         const std::string& where) {
  const auto text = [&](const char* key) {
    const auto found = metadata.find(key);
    return found == metadata.end() ? std::string() : found->second;
  };
  const auto check_entry = [&](bool holds, const char* key, const std::string& expected) {
    if (!holds)
      throw Error(ErrorKind::kParse, where, fmt::format("the metadata \"{}\"", key), expected,
                  fmt::format("\"{}\"", text(key).substr(0, 200)));
  };
  const auto count = [&](const char* key, std::int64_t least, std::int64_t most) {
    const std::optional<std::int64_t> value = whole_number(text(key));
    check_entry(value && *value >= least && *value <= most, key,
                fmt::format("a whole number from {} to {}", least, most));
    return *value;
  };
  constexpr std::int64_t kMostEpochs = std::int64_t{1} << 53;
  FitState state;
  state.epoch = count("epoch", 1, kMostEpochs);
  state.done = count("done", 0, steps);
  std::optional<std::vector<double>> numbers = from_exact(text("sums"));
  check_entry(numbers && numbers->size() == sums + 1, "sums", fmt::format("{} numbers", sums + 1));
  state.samples = numbers->back();
  check_entry(std::isfinite(state.samples) && state.samples >= 0, "sums", "a number of samples at the end");
  numbers->pop_back();
  state.sums = *std::move(numbers);
  state.history = History::parse_csv(text("history"), where);
  return state;
}

}  // namespace systole::training
