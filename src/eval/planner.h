#pragma once

// Makes a Plan of a graph.

#include <cstdint>
#include <vector>

#include "eval/plan.h"

namespace systole::eval {

class Planner {
 public:
  Planner(Plan& plan, Plan::Memo& memo) : plan_(plan), graph_(plan.graph_), memo_(memo) {}
  void plan();

 private:
  std::int32_t slot(ir::ValueId v) const { return first_slot_[static_cast<std::size_t>(v.node)] + v.index; }
  Use use_of(ir::ValueId v) const;
  void number_slots();
  void find_views();
  void make_steps();
  void mark_last_uses();
  void place_storage();
  std::int32_t storage_to_reuse(const Plan::Step& step) const;
  bool settle_homes();

  Plan& plan_;
  const ir::Graph& graph_;
  Plan::Memo& memo_;
  std::vector<std::int32_t> first_slot_;  // of each node's results
  std::vector<const Type*> types_;        // by slot
  std::vector<std::int64_t> views_;  // by node: the `inner` of a broadcast that can be read through, or 0
  std::vector<char> kept_;           // by slot: an output, or an input kept for the end
  // By slot: the slot whose storage the value stands in, whether nobody else holds that storage, and the
  // input that the value is to come home to (-1: none).
  std::vector<std::int32_t> storage_, home_;
  std::vector<char> sole_, is_home_;
};

}  // namespace systole::eval
