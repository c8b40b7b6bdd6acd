#include "tensor/gradient_marks.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

#include "base/lasting.h"
#include "tensor/frame.h"
#include "tensor/record.h"

namespace systole::recording {

namespace {

constexpr std::uint32_t kSeveral = std::numeric_limits<std::uint32_t>::max();  // equal gradients, of several

// The Variables that had gradients, by number - 1.
struct Registry {
  std::mutex mutex;
  std::vector<std::weak_ptr<Cell>> cells;
};
Registry& registry() {
  static Registry& instance = lasting<Registry>();
  return instance;
}

std::uint32_t number_of(const CellRef& cell) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  if (cell->gradient_number == 0) {
    all.cells.push_back(cell);
    cell->gradient_number = static_cast<std::uint32_t>(all.cells.size());
  }
  return cell->gradient_number;
}

}  // namespace

void mark_gradient(const Tensor& gradient, const Variable& variable, std::span<const Tensor> leaves) {
  Record& record = *gradient.record();
  const bool is_leaf =
      std::any_of(leaves.begin(), leaves.end(), [&](const Tensor& x) { return x.record().get() == &record; });
  if (is_leaf || !record.pending()) return;
  const std::uint32_t number = number_of(variable.cell());
  std::uint32_t old = 0;
  if (!record.gradient_of.compare_exchange_strong(old, number) && old != number)
    record.gradient_of = kSeveral;
}

void copy_gradient_mark(const Tensor& from, const Tensor& to) {
  to.record()->gradient_of = from.record()->gradient_of.load();
}

OtherVariable other_variable(const Tensor& gradient, const Variable& variable) {
  const std::uint32_t number = gradient.record()->gradient_of;
  if (number == 0 || number == kSeveral) return {};
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  if (number == variable.cell()->gradient_number) return {};
  const CellRef other = all.cells[number - 1].lock();
  return {true, other ? other->name : "", other && other == variable.cell()->replaced_by.lock()};
}

}  // namespace systole::recording
