// The table of summary(), and the notes that layers leave while it runs the model.

#include "systole/nn/summary.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace systole::nn {

struct detail::Observation::Notes {
  // A struct and its first member share an address; the type tells them apart.
  std::map<std::pair<const void*, std::string_view>, Type> outputs;
};

namespace {

thread_local detail::Observation* current = nullptr;

}  // namespace

detail::Observation::Observation() : notes_(std::make_unique<Notes>()), outer_(current) { current = this; }
detail::Observation::~Observation() { current = outer_; }

Tensor observed(const void* layer, std::string_view type, Tensor output) {
  if (current != nullptr) current->notes_->outputs[{layer, type}] = output.type();
  return output;
}

namespace detail {

Tensor stand_in(Shape shape, DType dtype) { return Tensor(Literal({dtype, std::move(shape)})); }

namespace {

std::string grouped(std::int64_t number) {
  std::string text = std::to_string(number);
  for (int at = static_cast<int>(text.size()) - 3; at > 0; at -= 3)
    text.insert(static_cast<std::size_t>(at), ",");
  return text;
}

// "systole::nn::Sequential<systole::nn::Linear, …>" as "Sequential".
std::string short_type(std::string_view type) {
  type = type.substr(0, type.find('<'));
  const std::size_t colon = type.rfind(':');
  return std::string(colon == std::string_view::npos ? type : type.substr(colon + 1));
}

std::size_t width_of(std::string_view text) {  // in characters, not bytes
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

using Row = std::array<std::string, 4>;  // layer, type, output, parameters

std::string table(const std::vector<Row>& rows) {
  std::array<std::size_t, 4> widths{};
  for (const Row& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  const bool shapes =
      std::any_of(rows.begin() + 1, rows.end(), [](const Row& row) { return !row[2].empty(); });
  std::string line, text;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    if (i == 2 && !shapes) continue;
    for (std::size_t j = 0; j < widths[i]; ++j) line += "─";
    if (i != 3) line += "──";
  }
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t i = 0; i < widths.size(); ++i) {
      if (i == 2 && !shapes) continue;
      const std::string fill(widths[i] - width_of(rows[r][i]), ' ');
      text += i == 3 ? fill + rows[r][i] : rows[r][i] + fill + "  ";
    }
    text += '\n';
    if (r == 0) text += line + '\n';
  }
  return text + line + '\n';
}

}  // namespace

std::string summary_table(const Inventory& found, const Observation* seen, const Tensor* output) {
  std::vector<Row> rows{{"layer", "type", "output", "parameters"}};
  std::set<const void*> counted;  // a tied parameter counts where it is met first
  std::vector<std::int64_t> sizes;
  std::int64_t total = 0, trainable = 0;
  double bytes = 0;
  for (const Inventory::Cell& cell : found.cells) {
    const bool first = counted.insert(cell.variable->cell().get()).second;
    const std::int64_t size = cell.variable->size();
    const bool trains = cell.variable->trainable();
    sizes.push_back(first && trains ? size : 0);
    if (!first) continue;
    total += size;
    trainable += trains ? size : 0;
    bytes += static_cast<double>(cell.variable->type().bytes());
  }
  for (const Inventory::Part& part : found.parts) {
    std::string shape;
    if (seen != nullptr) {
      const auto note = seen->notes_->outputs.find({part.address, part.type});
      if (note != seen->notes_->outputs.end()) shape = note->second.shape.to_string();
    }
    if (part.depth == 0 && output != nullptr) shape = output->shape().to_string();
    if (part.depth > 0 && part.cells == part.cells_end && shape.empty()) continue;
    std::int64_t size = 0;
    for (std::size_t i = part.cells; i < part.cells_end; ++i) size += sizes[i];
    const std::string name = part.name.empty() ? "(model)" : part.name;
    rows.push_back({name, short_type(part.type), shape, size > 0 ? grouped(size) : "–"});
  }
  return table(rows) + fmt::format("{} trainable parameters, {} other numbers, {:.2f} MB\n",
                                   grouped(trainable), grouped(total - trainable), bytes / 1e6);
}

}  // namespace detail

}  // namespace systole::nn
