#include "compile/in_place.h"

#include <algorithm>
#include <vector>

namespace systole::lower {

namespace {

using ir::Op;

// Whether what is read of input `i` is only ever the element of the point.
bool read_at_the_point(const ir::Graph& graph, std::int32_t input) {
  std::vector<bool> same(static_cast<std::size_t>(graph.size()), false);
  same[static_cast<std::size_t>(input)] = true;
  const std::int64_t count = graph.node(input).types[0].shape.count();
  for (std::int32_t i = 0; i < graph.size(); ++i) {
    const ir::Node& node = graph.node(i);
    for (const ir::ValueId v : node.operands) {
      if (!same[static_cast<std::size_t>(v.node)]) continue;
      if (node.op == Op::reduce) continue;  // done with the row before anything of it is written
      const bool elementwise =
          ir::info(node.op).op_class == ir::OpClass::elementwise && node.types[0].shape.count() == count;
      if (!elementwise && node.op != Op::reshape) return false;
      same[static_cast<std::size_t>(i)] = true;
    }
  }
  return true;
}

}  // namespace

bool writes_in_place(const Step& step, const Program& program, BufferId memory, BufferId output) {
  if (step.kind == StepKind::scan || step.kind == StepKind::loop) {
    // A carry starts as its operand.
    for (std::int32_t k = 0; k < step.carries; ++k)
      if (step.outputs[static_cast<std::size_t>(k)] == output) {
        const auto uses = std::count_if(step.inputs.begin(), step.inputs.end(),
                                        [&](BufferId b) { return program.memory_of(b) == memory; });
        // The region's operands stand in the node's order, each once.
        const ir::Node& node = step.region.graph.node(step.region.anchor);
        const std::int32_t first = node.operands[static_cast<std::size_t>(k)].node;
        const auto position = static_cast<std::size_t>(
            std::find(step.region.graph.inputs().begin(), step.region.graph.inputs().end(), first) -
            step.region.graph.inputs().begin());
        const auto twice = std::count_if(node.operands.begin(), node.operands.end(),
                                         [&](ir::ValueId v) { return v.node == first; });
        return uses == 1 && twice == 1 && program.memory_of(step.inputs[position]) == memory;
      }
    return false;
  }
  if (step.kind == StepKind::special) {
    const ir::Node& node = step.region.graph.node(step.region.anchor);
    if (node.op != Op::dynamic_update_slice && node.op != Op::scatter) return false;
    // The array itself, and not also its indices or updates.
    const auto uses = std::count_if(step.inputs.begin(), step.inputs.end(),
                                    [&](BufferId b) { return program.memory_of(b) == memory; });
    return uses == 1 && program.memory_of(step.inputs[0]) == memory && node.operands[0].node == 0;
  }
  if (step.kind != StepKind::kernel) return false;
  const ir::Graph& graph = step.region.graph;
  const auto k = static_cast<std::size_t>(std::find(step.outputs.begin(), step.outputs.end(), output) -
                                          step.outputs.begin());
  const ir::ValueId written = graph.outputs()[k].value;
  if (step.domain) {
    const std::vector<int> stage = stages(graph);
    int last = 1;
    for (const ir::Output& each : graph.outputs())
      last = std::max(last, stage[static_cast<std::size_t>(each.value.node)]);
    if (stage[static_cast<std::size_t>(written.node)] != last) return false;
  }
  for (std::size_t i = 0; i < step.inputs.size(); ++i) {
    if (program.memory_of(step.inputs[i]) != memory) continue;
    const std::int32_t input = graph.inputs()[i];
    // Of another dtype it is not: compilers take pointers to different types for different memory.
    const Type& old = graph.node(input).types[0];
    if (graph.type(written).shape.count() != old.shape.count() || graph.type(written).dtype != old.dtype)
      return false;
    if (!read_at_the_point(graph, input)) return false;
  }
  return true;
}

}  // namespace systole::lower
