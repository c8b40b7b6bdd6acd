#pragma once

// A graph made ready to be evaluated many times: which use of each value is the last, so that operands are
// handed over then, intermediate values are freed at once and in-place ops find storage that nobody else
// holds.

#include <cstdint>
#include <vector>

#include "eval/internal.h"

namespace systole::eval {

class Plan {
 public:
  explicit Plan(const ir::Graph& graph);  // the graph must outlive the plan

  // Argument types are the caller's business.
  Results run(Operands arguments, Group* group) const;

 private:
  std::int32_t slot(ir::ValueId v) const { return first_slot_[static_cast<std::size_t>(v.node)] + v.index; }

  const ir::Graph& graph_;
  std::vector<std::int32_t> first_slot_;  // of each node's results
  std::vector<std::int32_t> last_use_;    // by slot: the last node that reads it; kUnused, kOutput
  static constexpr std::int32_t kUnused = -1, kOutput = INT32_MAX;
};

}  // namespace systole::eval
