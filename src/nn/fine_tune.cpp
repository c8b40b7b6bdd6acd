#include "systole/nn/fine_tune.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/nearest.h"
#include "systole/base/error.h"

namespace systole::nn::detail {

namespace {

// Whether stars in the pattern, each standing for anything, make it the name.
bool fits(std::string_view pattern, std::string_view name) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == name;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  pattern.remove_prefix(star + 1);
  for (name.remove_prefix(star);; name.remove_prefix(1)) {
    if (fits(pattern, name)) return true;
    if (name.empty()) return false;
  }
}

bool named(std::string_view pattern, std::string_view name) {
  return fits(pattern, name) ||
         (pattern.find('*') == std::string_view::npos && name.size() > pattern.size() &&
          name.starts_with(pattern) && name[pattern.size()] == '.');
}

bool is_parameter(const Variable& variable) { return variable.trainable() || variable.frozen(); }

// A layer's statistics stay when all its parameters do.
void settle_statistics(const Inventory& found) {
  for (const Inventory::Part& part : found.parts) {
    if (part.frozen == nullptr) continue;
    bool any = false, all = true;
    for (std::size_t i = part.cells; i < part.cells_end; ++i) {
      const Variable& variable = *found.cells[i].variable;
      if (!is_parameter(variable)) continue;
      any = true;
      all = all && variable.frozen();
    }
    *part.frozen = any && all;
  }
}

// Null for a model that does not end with a Linear layer.
const Inventory::Part* last_linear(const Inventory& found) {
  for (auto part = found.parts.rbegin(); part != found.parts.rend(); ++part) {
    if (part->cells == part->cells_end) continue;
    if (part->type == reflect::type_name<Linear> && part->cells_end == found.cells.size()) return &*part;
    break;
  }
  return nullptr;
}

const Inventory::Part& head_part(const Inventory& found) {
  if (const Inventory::Part* part = last_linear(found)) return *part;
  throw Error(ErrorKind::kUnsupported, "fine-tuning", "the model has no head to tell from the rest",
              "a model that ends with a Linear layer",
              found.parts.empty() ? "nothing" : std::string(found.parts.back().type));
}

}  // namespace

std::int64_t set_frozen(const Inventory& found, std::string_view pattern, bool frozen) {
  std::int64_t count = 0;
  std::vector<std::string> names;
  for (const Inventory::Cell& cell : found.cells) {
    Variable& variable = *cell.variable;
    if (!is_parameter(variable)) continue;
    names.push_back(cell.name);
    if (!named(pattern, cell.name)) continue;
    variable.set_frozen(frozen);
    ++count;
  }
  if (count == 0) {
    // The beginnings of names are what a pattern mostly is.
    for (std::size_t i = 0, all = names.size(); i < all; ++i)
      for (std::size_t dot = names[i].find('.'); dot != std::string::npos; dot = names[i].find('.', dot + 1))
        names.push_back(names[i].substr(0, dot));
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    throw unknown_name(frozen ? "freeze" : "unfreeze", "parameter", pattern, names);
  }
  settle_statistics(found);
  return count;
}

std::vector<std::string> head_names(const Inventory& found) {
  std::vector<std::string> names;
  if (const Inventory::Part* part = last_linear(found))
    for (std::size_t i = part->cells; i < part->cells_end; ++i) names.push_back(found.cells[i].name);
  return names;
}

Linear& head(const Inventory& found) {
  return *static_cast<Linear*>(const_cast<void*>(head_part(found).address));
}

std::int64_t freeze_all_but_head(const Inventory& found) {
  const Inventory::Part& part = head_part(found);
  std::int64_t count = 0;
  for (std::size_t i = 0; i < part.cells; ++i) {
    Variable& variable = *found.cells[i].variable;
    if (!is_parameter(variable)) continue;
    variable.set_frozen(true);
    ++count;
  }
  settle_statistics(found);
  return count;
}

void replace_head(const Inventory& found, std::int64_t classes) {
  if (classes < 1)
    throw Error(ErrorKind::kInvalidArgument, "replace_head", "classes", "1 or more", std::to_string(classes));
  Linear& old = head(found);
  Linear fresh(old.weight.size(1), classes, {.bias = old.bias.defined()});
  const auto take = [](Variable& place, const Variable& value) {
    if (!place.defined()) return;
    const std::string name = place.name(), device = place.value().device().to_string();
    place = value.clone(place.dtype());
    place.set_name(name);
    place.move_to(device);
  };
  take(old.weight, fresh.weight);
  take(old.bias, fresh.bias);
}

}  // namespace systole::nn::detail
