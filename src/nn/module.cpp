#include "systole/nn/module.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/log.h"
#include "nn/parameter.h"
#include "systole/base/error.h"
#include "tensor/frame.h"

namespace systole {

bool nn::same_values(const Tensor& a, const Tensor& b) {
  return a.type() == b.type() && std::ranges::equal(a.literal().as_bytes(), b.literal().as_bytes());
}

void Parameters::add(std::string name, Variable variable) {
  names_.push_back(std::move(name));
  variables_.push_back(std::move(variable));
}

Variable Parameters::at(std::string_view name) const {
  const auto found = std::find(names_.begin(), names_.end(), name);
  if (found == names_.end())
    throw Error(ErrorKind::kNotFound, "parameters", fmt::format("no parameter \"{}\"", name),
                fmt::format("one of {}", fmt::join(names_, ", ")));
  return variables_[static_cast<std::size_t>(found - names_.begin())];
}

std::int64_t Parameters::count() const {
  std::int64_t total = 0;
  for (const Variable& variable : variables_) total += variable.size();
  return total;
}

namespace nn::detail {

namespace {

// The names that each Variable was found by, in order of the first.
struct Shared {
  Variable variable;
  std::vector<std::string> names;
};
std::vector<Shared> by_cell(const Inventory& found) {
  std::vector<Shared> all;
  std::map<const void*, std::size_t> places;
  for (const Inventory::Cell& cell : found.cells) {
    const auto [place, fresh] = places.try_emplace(cell.variable->cell().get(), all.size());
    if (fresh) all.push_back({*cell.variable, {}});
    all[place->second].names.push_back(cell.name);
  }
  return all;
}

}  // namespace

void name_cells(const Inventory& found) {
  for (const Inventory::Cell& cell : found.cells) {
    const std::string& known = cell.variable->name();
    // A module around the one that was asked first gives the fuller name.
    if (known.empty() || cell.name.ends_with("." + known)) cell.variable->set_name(cell.name);
  }
}

Parameters parameters(const Inventory& found, bool all) {
  Parameters list;
  for (Shared& shared : by_cell(found))
    if (all || shared.variable.trainable()) list.add(std::move(shared.names[0]), std::move(shared.variable));
  return list;
}

void set_training(const Inventory& found, bool training) {
  for (const Inventory::Part& part : found.parts) part.mode.set(training);
}

void set_mode(const Inventory& found, bool training) {
  const bool compiled = std::any_of(found.cells.begin(), found.cells.end(), [](const Inventory::Cell& cell) {
    return cell.variable->cell()->compiled.load();
  });
  for (const Inventory::Part& part : found.parts)
    if (compiled && part.mode.flag != nullptr && *part.mode.flag != training)
      log(LogLevel::warn,
          fmt::format(
              "{}: \"bool training\" of {} changes, which functions that are compiled already do not "
              "notice; make it a Setting<bool>, or call forget() on them",
              training ? "nn::train" : "nn::eval",
              part.name.empty() ? std::string(part.type) : fmt::format("{} ({})", part.name, part.type)));
  set_training(found, training);
}

void renew(const Inventory& found, std::optional<DType> dtype) {
  std::map<const void*, Variable> renewed;
  for (const Inventory::Cell& cell : found.cells) {
    Variable& variable = *cell.variable;
    if (dtype && (!is_float(variable.dtype()) || variable.dtype() == *dtype)) continue;
    const auto [place, fresh] = renewed.try_emplace(variable.cell().get());
    if (fresh) place->second = dtype ? variable.clone(*dtype) : variable.clone();
    if (dtype) variable.cell()->replaced_by = place->second.cell();
    variable = place->second;
  }
}

void to(const Inventory& found, std::string_view device) {
  for (Shared& shared : by_cell(found)) shared.variable.move_to(device);
}

std::map<std::string, Tensor> state_dict(const Inventory& found) {
  std::map<std::string, Tensor> values;
  for (const Shared& shared : by_cell(found)) values.emplace(shared.names[0], shared.variable.value());
  return values;
}

namespace {

// The value for a name, or for the name that old checkpoints have in its place.
std::map<std::string, Tensor>::const_iterator value_of(const std::map<std::string, Tensor>& values,
                                                       const std::string& name) {
  constexpr std::pair<std::string_view, std::string_view> kOldNames[] = {{".weight", ".gamma"},
                                                                         {".bias", ".beta"}};
  const auto at = values.find(name);
  if (at != values.end()) return at;
  for (const auto& [now, old] : kOldNames)
    if (name.ends_with(now)) return values.find(name.substr(0, name.size() - now.size()) + std::string(old));
  return at;
}

// "module." where values begin with it and names do not, or the other way round.
std::string difference_of(const std::map<std::string, Tensor>& values,
                          const std::vector<std::string>& names) {
  for (const auto& [theirs, value] : values)
    for (const std::string& ours : names) {
      const auto beginning = [](const std::string& longer, const std::string& shorter) {
        return longer.size() > shorter.size() && longer.ends_with("." + shorter)
                   ? longer.substr(0, longer.size() - shorter.size())
                   : "";
      };
      if (const std::string more = beginning(theirs, ours); !more.empty())
        return fmt::format("; the values' names begin with \"{}\"", more);
      if (const std::string more = beginning(ours, theirs); !more.empty())
        return fmt::format("; the module's names begin with \"{}\"", more);
    }
  return {};
}

}  // namespace

LoadedState load(const Inventory& found, const std::map<std::string, Tensor>& values, bool strict) {
  std::vector<std::pair<Variable, Tensor>> assignments;
  std::set<std::string_view> known;
  LoadedState state;
  for (Shared& shared : by_cell(found)) {
    const Tensor* value = nullptr;
    for (const std::string& name : shared.names) {
      const auto at = value_of(values, name);
      if (at == values.end()) continue;
      if (at->second.shape() != shared.variable.shape())
        throw Error(ErrorKind::kShape, "load_state_dict", fmt::format("the value of \"{}\"", name),
                    shared.variable.type().to_string(), at->second.type().to_string());
      const bool other = value != nullptr && !same_values(*value, at->second);
      if (!other) known.insert(at->first);
      if (value == nullptr) value = &at->second;
      if (other && strict)
        throw Error(ErrorKind::kInvalidArgument, "load_state_dict",
                    fmt::format("\"{}\" and \"{}\" are one Variable and have different values",
                                shared.names[0], name),
                    "one value, or a model in which they are not tied");
    }
    if (value == nullptr) {
      state.missing.push_back(shared.names[0]);
    } else {
      state.taken.push_back(shared.names[0]);
      assignments.emplace_back(shared.variable, value->to(shared.variable.dtype()));
    }
  }
  for (const auto& [name, value] : values)
    if (!known.contains(name)) state.left_over.push_back(name);
  if (strict && !(state.missing.empty() && state.left_over.empty())) {
    std::string message;
    if (!state.missing.empty()) message = fmt::format("missing: {}", fmt::join(state.missing, ", "));
    if (!state.left_over.empty())
      message +=
          fmt::format("{}unexpected: {}", message.empty() ? "" : "; ", fmt::join(state.left_over, ", "));
    if (state.taken.empty()) message += difference_of(values, state.missing);
    throw Error(ErrorKind::kNotFound, "load_state_dict", std::move(message));
  }
  if (state.taken.empty() && !values.empty() && !state.missing.empty())
    throw Error(ErrorKind::kNotFound, "load_state_dict",
                fmt::format("none of the {} values has the name of a Variable of the module{}", values.size(),
                            difference_of(values, state.missing)),
                state.missing[0], values.begin()->first);
  for (auto& [variable, value] : assignments) variable.assign(value);
  return state;
}

}  // namespace nn::detail

}  // namespace systole
