#include "eval/plan.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "eval/planner.h"

namespace systole::eval {

Plan::Plan(const ir::Graph& graph) : graph_(graph) {
  Memo memo;
  Planner(*this, memo).plan();
}

Plan::Plan(const ir::Graph& graph, Memo& memo) : graph_(graph) { Planner(*this, memo).plan(); }

Results Plan::run(Results arguments, Group* group, std::span<const int> donated) const {
  const ir::Node* current = nullptr;
  const auto where = [&] {
    return current == nullptr ? "graph " + graph_.name() : std::string(name(current->op));
  };
  Results results;
  with_typed_errors(where, [&] {
    std::vector<Slot> slots(static_cast<std::size_t>(slots_));
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const auto at = static_cast<std::size_t>(input_slots_[i]);
      if (unused_[at] == 0) slots[at] = std::move(arguments[i]);
    }
    arguments.clear();
    for (const Step& step : steps_) {
      current = step.node;
      run_step(step, slots, group);
    }
    results.reserve(outputs_.size());
    const Operands values(slots.data(), outputs_);
    for (std::size_t i = 0; i < outputs_.size(); ++i) results.push_back(values.take(i));
    if (!homes_.empty() && !donated.empty()) bring_home(slots, results, donated);
  });
  return results;
}

void Plan::run_step(const Step& step, std::vector<Slot>& slots, Group* group) const {
  const std::span<const Use> uses(uses_.data() + step.first_use, step.use_count);
  Slot* results = slots.data() + step.result;
  dispatch(*step.node, {slots.data(), uses, step.reused}, {group, step.bodies}, results);
  for (const Use& use : uses)
    if (use.last) slots[static_cast<std::size_t>(use.slot)].reset();
  if (!step.drops) return;
  for (std::size_t i = 0; i < step.node->types.size(); ++i)
    if (unused_[static_cast<std::size_t>(step.result) + i] != 0) results[i].reset();
}

// Results that share storage with a kept input leave it first: several outputs may stand in each other's
// homes, and an output that is an input's old value must not see the new one.
void Plan::bring_home(std::vector<Slot>& slots, Results& results, std::span<const int> donated) const {
  const auto is_donated = [&](const Home& home) {
    return home.copied &&
           std::find(donated.begin(), donated.end(), static_cast<int>(home.input)) != donated.end();
  };
  const auto input = [&](const Home& home) -> Literal& {
    return *slots[static_cast<std::size_t>(input_slots_[home.input])];
  };
  std::vector<const std::byte*> storages;
  for (const Home& home : homes_)
    if (is_donated(home)) storages.push_back(input(home).bytes());
  std::sort(storages.begin(), storages.end());
  for (Literal& result : results)
    if (std::binary_search(storages.begin(), storages.end(), result.bytes()))
      result = Literal::copy_of(result.type(), result.as_bytes());
  for (const Home& home : homes_) {
    if (!is_donated(home)) continue;
    Literal& target = input(home);
    Literal& result = results[home.output];
    if (result.byte_size() != 0) std::memcpy(target.mutable_bytes(), result.bytes(), result.byte_size());
    result = std::move(target);
  }
}

}  // namespace systole::eval
