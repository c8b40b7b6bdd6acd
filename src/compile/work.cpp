#include "compile/work.h"

#include <algorithm>
#include <vector>

namespace systole::passes {

namespace {

using ir::Op;

// Work left to spend; spending more than there is leaves it exhausted for good. Every node costs at least 1,
// so the walk over sub-graphs that use each other many times ends early too.
class Budget {
 public:
  explicit Budget(std::int64_t limit) : left_(limit) {}
  bool spend(std::int64_t work, std::int64_t times = 1) {
    std::int64_t total;
    if (left_ < 0 || __builtin_mul_overflow(std::max<std::int64_t>(work, 1), times, &total) || total > left_)
      left_ = -1;
    else
      left_ -= total;
    return left_ >= 0;
  }
  std::int64_t left() const { return left_; }

 private:
  std::int64_t left_;
};

bool spend_graph(Budget& budget, const ir::Graph& graph, std::int64_t times);

std::int64_t largest(std::span<const Type> types) {
  std::int64_t n = 0;
  for (const Type& t : types) n = std::max(n, t.shape.count());
  return n;
}

std::int64_t product(const Ints& sizes) {
  std::int64_t n = 1;
  for (std::int64_t s : sizes)
    if (__builtin_mul_overflow(n, s, &n)) return INT64_MAX;
  return n;
}

bool spend_node(Budget& budget, const ir::Node& node, std::span<const Type> in, std::int64_t times) {
  const std::int64_t results = largest(node.types), operands = largest(in);
  const auto each = [&](std::int64_t elements, std::int64_t work) {
    std::int64_t total;
    return !__builtin_mul_overflow(elements, work, &total) && budget.spend(total, times);
  };
  switch (node.op) {
    case Op::dot_general: {
      std::int64_t depth = 1;
      for (std::int64_t axis : node.as<ir::DotAttrs>().a_contract)
        depth *= in[0].shape[static_cast<std::size_t>(axis)].value();
      return each(results, depth);
    }
    case Op::convolution: return each(results, in[1].shape.count());
    case Op::reduce_window: return each(results, product(node.as<ir::WindowAttrs>().window));
    case Op::cholesky:
    case Op::triangular_solve:
      return each(std::max(results, operands), in[0].shape[in[0].shape.size() - 1].value());
    case Op::sort:
    case Op::top_k: return each(operands, 64);
    case Op::scan: {
      const Dim length = node.as<ir::ScanAttrs>().length;
      std::int64_t rounds;
      if (!length.is_static() || __builtin_mul_overflow(times, length.value(), &rounds)) return false;
      return budget.spend(std::max(results, operands), times) &&
             (rounds == 0 || spend_graph(budget, *node.graphs[0], rounds));
    }
    case Op::cond:
      return spend_graph(budget, *node.graphs[0], times) && spend_graph(budget, *node.graphs[1], times);
    case Op::composite: return spend_graph(budget, *node.graphs[0], times);
    case Op::kernel_call: return !node.graphs.empty() && spend_graph(budget, *node.graphs[0], times);
    case Op::while_loop:
    case Op::barrier: return false;
    // These read every element of their operands; the others read what they write.
    case Op::reduce:
    case Op::arg_reduce:
    case Op::cumulative:
    case Op::scatter: return budget.spend(std::max(results, operands), times);
    default: return info(node.op).op_class != ir::OpClass::collective && budget.spend(results, times);
  }
}

bool spend_graph(Budget& budget, const ir::Graph& graph, std::int64_t times) {
  std::vector<Type> operands;
  for (const ir::Node& node : graph.nodes()) {
    operands.clear();
    for (ir::ValueId v : node.operands) operands.push_back(graph.type(v));
    if (!spend_node(budget, node, operands, times)) return false;
  }
  return true;
}

}  // namespace

bool within_work(const ir::Node& node, std::span<const Type> operands, std::int64_t limit) {
  Budget budget(limit);
  return spend_node(budget, node, operands, 1);
}

std::int64_t graph_work(const ir::Graph& graph) {
  constexpr std::int64_t kLimit = std::int64_t{1} << 60;
  std::int64_t work = 0;
  std::vector<Type> operands;
  for (const ir::Node& node : graph.nodes()) {
    operands.clear();
    for (ir::ValueId v : node.operands) operands.push_back(graph.type(v));
    Budget budget(kLimit);
    if (spend_node(budget, node, operands, 1)) work = std::min(work + kLimit - budget.left(), kLimit);
  }
  return work;
}

}  // namespace systole::passes
