#include "codegen/row_passes.h"

namespace systole::codegen {

std::set<std::int32_t> read_again(const ir::Graph& graph, std::int64_t full_count,
                                  const std::vector<std::vector<std::int32_t>>& wanted,
                                  const std::function<bool(const ir::Node&)>& is_keepable) {
  std::set<std::int32_t> known, found;
  for (std::vector<std::int32_t> stack : wanted) {
    std::set<std::int32_t> visited;
    while (!stack.empty()) {
      const std::int32_t i = stack.back();
      stack.pop_back();
      if (known.contains(i)) {
        found.insert(i);
        continue;
      }
      const ir::Node& node = graph.node(i);
      if (node.types[0].shape.count() != full_count || !visited.insert(i).second) continue;
      if (ir::info(node.op).op_class == ir::OpClass::elementwise || node.op == ir::Op::reshape)
        for (const ir::ValueId v : node.operands) stack.push_back(v.node);
    }
    for (const std::int32_t i : visited)
      if (is_keepable(graph.node(i))) known.insert(i);
  }
  return found;
}

}  // namespace systole::codegen
