#include "systole/nn/module.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/log.h"
#include "systole/base/error.h"
#include "tensor/frame.h"

namespace systole {

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
    return cell.variable->cell()->compiled;
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

void load(const Inventory& found, const std::map<std::string, Tensor>& values, bool strict) {
  std::vector<std::pair<Variable, Tensor>> assignments;
  std::set<std::string_view> known;
  std::vector<std::string> missing, unexpected;
  for (Shared& shared : by_cell(found)) {
    const Tensor* value = nullptr;
    for (const std::string& name : shared.names) {
      const auto at = values.find(name);
      if (at == values.end()) continue;
      known.insert(at->first);
      if (at->second.shape() != shared.variable.shape())
        throw Error(ErrorKind::kShape, "load_state_dict", fmt::format("the value of \"{}\"", name),
                    shared.variable.type().to_string(), at->second.type().to_string());
      if (value == nullptr) value = &at->second;
    }
    if (value == nullptr)
      missing.push_back(shared.names[0]);
    else
      assignments.emplace_back(shared.variable, value->to(shared.variable.dtype()));
  }
  for (const auto& [name, value] : values)
    if (!known.contains(name)) unexpected.push_back(name);
  if (strict && !(missing.empty() && unexpected.empty())) {
    std::string message;
    if (!missing.empty()) message = fmt::format("missing: {}", fmt::join(missing, ", "));
    if (!unexpected.empty())
      message += fmt::format("{}unexpected: {}", message.empty() ? "" : "; ", fmt::join(unexpected, ", "));
    throw Error(ErrorKind::kNotFound, "load_state_dict", std::move(message));
  }
  for (auto& [variable, value] : assignments) variable.assign(value);
}

}  // namespace nn::detail

}  // namespace systole
