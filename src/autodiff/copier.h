#pragma once

// Copies what some values of one graph need into another, and nothing else.

#include <cstdint>
#include <unordered_map>
#include <unordered_set>

#include "systole/ir/graph.h"

namespace systole::autodiff {

class Copier {
 public:
  Copier(const ir::Graph& from, ir::Graph& into) : from_(from), into_(into) {}

  // `v` is already there, as `to`.
  void set(ir::ValueId v, ir::Value to) { mapped_[key(v)] = to; }
  // The value in the other graph. An input that was not set is zero.
  ir::Value get(ir::ValueId wanted);

 private:
  static std::int64_t key(ir::ValueId v) { return static_cast<std::int64_t>(v.node) << 32 | v.index; }

  const ir::Graph& from_;
  ir::Graph& into_;
  std::unordered_map<std::int64_t, ir::Value> mapped_;
  std::unordered_set<std::int32_t> copied_;
};

}  // namespace systole::autodiff
