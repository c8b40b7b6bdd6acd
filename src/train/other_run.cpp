#include "train/other_run.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <sstream>
#include <vector>

namespace systole::training {

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
