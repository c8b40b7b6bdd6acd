#include "train/fit_state.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <sstream>
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

namespace {

// What stands under the same name on two sides; empty where there is nothing.
struct Side {
  std::string name, there, here;
};

std::vector<Side> sides_of(const Checkpoint& checkpoint, const Parameters& state, bool of_model) {
  const auto is_wanted = [&](std::string_view name) {
    return (name.starts_with("model.") || name.starts_with("beside.")) == of_model &&
           !name.starts_with("callback.");
  };
  std::vector<Side> sides;
  std::set<std::string> known;
  for (const auto& [name, variable] : state) {
    if (!is_wanted(name)) continue;
    const auto found = checkpoint.values.find(name);
    sides.push_back({name, found == checkpoint.values.end() ? "" : found->second.type().to_string(),
                     variable.type().to_string()});
    known.insert(name);
  }
  for (const auto& [name, value] : checkpoint.values)
    if (is_wanted(name) && !known.contains(name)) sides.push_back({name, value.type().to_string(), ""});
  return sides;
}

// "batch 32 metrics [accuracy]" in its parts.
std::vector<Side> sides_of(std::string_view there, std::string_view here) {
  const auto parts = [](std::string_view text) {
    std::map<std::string, std::string> values;
    std::istringstream words{std::string(text)};
    for (std::string name, value; words >> name >> value;) values[name] = value;
    return values;
  };
  std::map<std::string, std::string> others = parts(there);
  std::vector<Side> sides;
  for (const auto& [name, value] : parts(here)) {
    Side& side = sides.emplace_back(Side{name, others[name], value});
    if (name == "precision")  // which is kept as a number
      for (std::string* text : {&side.there, &side.here})
        *text = *text == "0" ? "f32" : *text == "1" ? "bf16" : *text == "2" ? "f16" : *text;
  }
  return sides;
}

std::vector<std::string> differences(const std::vector<Side>& sides) {
  constexpr std::size_t kShown = 6;
  std::vector<std::string> texts;
  std::size_t more = 0;
  for (const Side& side : sides) {
    if (side.there == side.here || side.name == "content") continue;
    if (texts.size() == kShown) {
      ++more;
      continue;
    }
    texts.push_back(fmt::format("{} was {} and is {}", side.name, side.there.empty() ? "missing" : side.there,
                                side.here.empty() ? "missing" : side.here));
  }
  if (more > 0) texts.push_back(fmt::format("{} more differ", more));
  return texts;
}

}  // namespace

std::string why_another_run(const Checkpoint& checkpoint, std::string_view settings_there,
                            const Parameters& state, std::string_view settings) {
  std::vector<std::string> found = differences(sides_of(checkpoint, state, true));
  std::string_view of = "another model";
  const std::vector<std::string> others = differences(sides_of(settings_there, settings));
  if (found.empty()) of = "a run with other settings";
  found.insert(found.end(), others.begin(), others.end());
  if (found.empty()) {
    of = "another optimiser";
    found = differences(sides_of(checkpoint, state, false));
  }
  if (found.empty()) {
    of = "other data";
    found = {"the samples are not the same"};
  }
  return fmt::format("its checkpoints are of {}: {}", of, fmt::join(found, "; "));
}

}  // namespace systole::training
