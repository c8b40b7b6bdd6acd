#include "eval/planner.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace systole::eval {

namespace {

using ir::Node;
using ir::Op;

// A select by one scalar passes an operand on as it is.
bool is_choice(const ir::Graph& graph, const Node& node) {
  return node.op == Op::select && graph.type(node.operands[0]).shape.rank() == 0;
}

// Elementwise ops write the result over an operand of its type …
bool writes_over(const ir::Graph& graph, const Node& node) {
  return ir::info(node.op).op_class == ir::OpClass::elementwise && node.op != Op::convert &&
         node.op != Op::bitcast && !is_choice(graph, node);
}

// … and all but clamp, which takes scalars anyway, read operands through a broadcast.
bool reads_views(const ir::Graph& graph, const Node& node) {
  return writes_over(graph, node) && node.op != Op::clamp;
}

// Ops that change part of operand 0.
bool updates(Op op) { return op == Op::dynamic_update_slice || op == Op::scatter; }

// Whether result i is operand i under another type, in the same storage.
bool passes_on(const ir::Graph& graph, const Node& node) {
  switch (node.op) {
    case Op::reshape:
    case Op::bitcast:
    case Op::barrier: return true;
    case Op::convert: return graph.type(node.operands[0]).dtype == node.types[0].dtype;
    case Op::transpose: {
      const Ints& permutation = node.as<ir::TransposeAttrs>().permutation;
      return std::is_sorted(permutation.begin(), permutation.end());
    }
    default: return false;
  }
}

// The `inner` by which a broadcast can be read through, or 0: the operand's axes that are not stretched must
// lie behind each other in the result.
std::int64_t view_of_broadcast(const Node& node, const Type& operand) {
  const Ints dims = node.types[0].shape.dims(), from = operand.shape.dims();
  const Ints& axes = node.as<ir::BroadcastAttrs>().axes;
  std::vector<char> walked(dims.size(), 0);
  std::size_t end = 0, count = 0;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (from[i] == 1) continue;
    walked[static_cast<std::size_t>(axes[i])] = 1;
    end = static_cast<std::size_t>(axes[i]) + 1;
    ++count;
  }
  std::int64_t inner = 1;
  for (std::int64_t d : dims)
    if (d == 0) return 0;
  for (std::size_t i = end; i < dims.size(); ++i) inner *= dims[i];
  for (std::size_t i = end; i-- > 0 && count > 0;) {
    if (walked[i] != 0)
      --count;
    else if (dims[i] != 1)
      return 0;
  }
  return inner;
}

}  // namespace

void Planner::plan() {
  number_slots();
  find_views();
  make_steps();
  do {
    mark_last_uses();
    place_storage();
  } while (settle_homes());
}

void Planner::number_slots() {
  first_slot_.reserve(static_cast<std::size_t>(graph_.size()));
  for (const Node& node : graph_.nodes()) {
    first_slot_.push_back(plan_.slots_);
    plan_.slots_ += static_cast<std::int32_t>(node.types.size());
    for (const Type& type : node.types) types_.push_back(&type);
  }
  const auto slots = static_cast<std::size_t>(plan_.slots_);
  kept_.assign(slots, 0);
  home_.assign(slots, -1);
  is_home_.assign(slots, 0);
  for (const ir::Output& output : graph_.outputs()) kept_[static_cast<std::size_t>(slot(output.value))] = 1;
  std::vector<char> taken(graph_.outputs().size(), 0);
  for (std::size_t i = 0; i < graph_.inputs().size(); ++i) {
    const std::int32_t at = slot({graph_.inputs()[i], 0});
    plan_.input_slots_.push_back(at);
    const std::int64_t alias = graph_.node(graph_.inputs()[i]).as<ir::InputAttrs>().alias;
    if (alias < 0) continue;
    const auto output = static_cast<std::size_t>(alias);
    if (std::exchange(taken[output], 1) != 0) continue;
    plan_.homes_.push_back({i, output});
    is_home_[static_cast<std::size_t>(at)] = 1;
    home_[static_cast<std::size_t>(slot(graph_.outputs()[output].value))] = at;
  }
}

void Planner::find_views() {
  views_.assign(static_cast<std::size_t>(graph_.size()), 0);
  for (std::int32_t i = 0; i < graph_.size(); ++i)
    if (const Node& node = graph_.node(i); node.op == Op::broadcast)
      views_[static_cast<std::size_t>(i)] = view_of_broadcast(node, graph_.type(node.operands[0]));
}

Use Planner::use_of(ir::ValueId v) const {
  Use use;
  if (const Node& node = graph_.node(v.node); node.op == Op::constant)
    use.constant = &node.as<ir::ConstantAttrs>().value;
  else
    use.slot = slot(v);
  return use;
}

// Constants are read where they stand, and a broadcast that everyone reads through is not made.
void Planner::make_steps() {
  std::vector<char> made(static_cast<std::size_t>(graph_.size()), 1);
  for (std::int32_t i = 0; i < graph_.size(); ++i) {
    const Op op = graph_.node(i).op;
    if (op == Op::input || op == Op::constant || views_[static_cast<std::size_t>(i)] != 0)
      made[static_cast<std::size_t>(i)] = 0;
  }
  for (const Node& node : graph_.nodes())
    if (!reads_views(graph_, node))
      for (ir::ValueId v : node.operands)
        if (views_[static_cast<std::size_t>(v.node)] != 0) made[static_cast<std::size_t>(v.node)] = 1;
  for (const ir::Output& output : graph_.outputs())
    if (views_[static_cast<std::size_t>(output.value.node)] != 0)
      made[static_cast<std::size_t>(output.value.node)] = 1;

  for (std::int32_t i = 0; i < graph_.size(); ++i) {
    if (made[static_cast<std::size_t>(i)] == 0) continue;
    const Node& node = graph_.node(i);
    Plan::Step step{&node, static_cast<std::uint32_t>(plan_.uses_.size()),
                    static_cast<std::uint32_t>(node.operands.size()), slot({i, 0})};
    for (ir::ValueId v : node.operands) {
      const std::int64_t view = reads_views(graph_, node) ? views_[static_cast<std::size_t>(v.node)] : 0;
      Use use = use_of(view != 0 ? graph_.node(v.node).operands[0] : v);
      use.inner = view;
      plan_.uses_.push_back(use);
    }
    for (const ir::GraphRef& graph : node.graphs) {
      PlanRef& body = memo_[graph.get()];
      if (!body) body = std::make_shared<const Plan>(*graph, memo_);
      step.bodies.push_back(body);
    }
    plan_.steps_.push_back(std::move(step));
  }
  for (const ir::Output& output : graph_.outputs()) plan_.outputs_.push_back(use_of(output.value));
}

// Backward, so that the first use met of a slot is its last.
void Planner::mark_last_uses() {
  std::vector<char> read(kept_.begin(), kept_.end());
  for (auto step = plan_.steps_.rbegin(); step != plan_.steps_.rend(); ++step)
    for (std::size_t k = step->use_count; k-- > 0;) {
      Use& use = plan_.uses_[step->first_use + k];
      if (use.slot >= 0) use.last = std::exchange(read[static_cast<std::size_t>(use.slot)], 1) == 0;
    }
  plan_.unused_.resize(read.size());
  for (std::size_t i = 0; i < read.size(); ++i) plan_.unused_[i] = read[i] == 0;
  for (Plan::Step& step : plan_.steps_) {
    step.drops = false;
    for (std::size_t i = 0; i < step.node->types.size(); ++i)
      step.drops |= plan_.unused_[static_cast<std::size_t>(step.result) + i] != 0;
  }
  std::vector<char> moved(read.size(), 0);
  for (const Plan::Home& home : plan_.homes_)
    if (home.copied) moved[static_cast<std::size_t>(plan_.input_slots_[home.input])] = 1;
  for (auto use = plan_.outputs_.rbegin(); use != plan_.outputs_.rend(); ++use)
    if (use->slot >= 0) use->last = std::exchange(moved[static_cast<std::size_t>(use->slot)], 1) == 0;
}

void Planner::place_storage() {
  const auto slots = static_cast<std::size_t>(plan_.slots_);
  storage_.resize(slots);
  for (std::size_t i = 0; i < slots; ++i) storage_[i] = static_cast<std::int32_t>(i);
  sole_.assign(slots, 1);
  for (std::int32_t at : plan_.input_slots_)
    sole_[static_cast<std::size_t>(at)] = is_home_[static_cast<std::size_t>(at)];
  for (Plan::Step& step : plan_.steps_) {
    const auto result = static_cast<std::size_t>(step.result);
    const Use* uses = plan_.uses_.data() + step.first_use;
    step.reused = -1;
    const Op op = step.node->op;
    if (writes_over(graph_, *step.node))
      step.reused = storage_to_reuse(step);
    else if (updates(op) && uses[0].last && sole_[static_cast<std::size_t>(uses[0].slot)] != 0)
      step.reused = 0;
    if (step.reused >= 0) storage_[result] = storage_[static_cast<std::size_t>(uses[step.reused].slot)];
    const bool chooses = is_choice(graph_, *step.node), passes = passes_on(graph_, *step.node);
    if (chooses) sole_[result] = 0;
    // Other devices may still read what was handed in to a meeting.
    const bool shares = chooses || ir::info(op).op_class == ir::OpClass::collective;
    for (std::size_t k = 0; k < step.use_count; ++k) {
      if (uses[k].slot < 0) continue;
      const auto at = static_cast<std::size_t>(uses[k].slot);
      if (shares) sole_[at] = 0;
      if (!passes) continue;
      storage_[result + k] = storage_[at];
      sole_[result + k] = sole_[at] != 0 && uses[k].last;
      if (!uses[k].last) sole_[at] = 0;
    }
  }
}

// The operand at home where the result belongs, else one whose storage is nobody's home, else any.
std::int32_t Planner::storage_to_reuse(const Plan::Step& step) const {
  const std::int32_t wanted = home_[static_cast<std::size_t>(step.result)];
  std::int32_t best = -1;
  int best_rank = 0;
  for (std::size_t k = 0; k < step.use_count; ++k) {
    const Use& use = plan_.uses_[step.first_use + k];
    if (!use.last || use.inner != 0 || sole_[static_cast<std::size_t>(use.slot)] == 0 ||
        !(*types_[static_cast<std::size_t>(use.slot)] == step.node->types[0]))
      continue;
    const std::int32_t storage = storage_[static_cast<std::size_t>(use.slot)];
    const int rank = storage == wanted ? 3 : is_home_[static_cast<std::size_t>(storage)] != 0 ? 1 : 2;
    if (rank > best_rank) {
      best = static_cast<std::int32_t>(k);
      best_rank = rank;
    }
  }
  return best;
}

// Inputs whose output does not end in their storage are kept for the end; then uses must be marked anew.
bool Planner::settle_homes() {
  bool changed = false;
  for (Plan::Home& home : plan_.homes_) {
    const std::int32_t input = plan_.input_slots_[home.input];
    const Use& output = plan_.outputs_[home.output];
    const bool placed = output.slot >= 0 && storage_[static_cast<std::size_t>(output.slot)] == input &&
                        (output.slot == input || kept_[static_cast<std::size_t>(input)] == 0);
    if (home.copied || placed) continue;
    home.copied = true;
    kept_[static_cast<std::size_t>(input)] = 1;
    changed = true;
  }
  return changed;
}

}  // namespace systole::eval
