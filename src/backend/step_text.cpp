#include "backend/step_text.h"

#include <algorithm>
#include <vector>

#include "runtime/timeline.h"

namespace systole::runtime {

// The ops it does, each once, in order.
std::string step_label(const lower::Step& step, std::string_view name) {
  std::string text(name);
  std::vector<ir::Op> seen;
  for (const ir::Node& node : step.region.graph.nodes()) {
    if (node.op == ir::Op::input || node.op == ir::Op::constant) continue;
    if (std::find(seen.begin(), seen.end(), node.op) != seen.end()) continue;
    text += seen.empty() ? " " : "+";
    text += ir::name(node.op);
    if (node.op == ir::Op::kernel_call) text += " " + node.as<ir::KernelAttrs>().name;
    seen.push_back(node.op);
  }
  return text;
}

std::string step_details(const lower::Program& program, const lower::Step& step, std::int64_t items) {
  std::int64_t bytes = 0;
  for (const auto* list : {&step.inputs, &step.outputs})
    for (const lower::BufferId b : *list) bytes += program.buffers[static_cast<std::size_t>(b)].bytes;
  const bool is_kernel = step.kind == lower::StepKind::kernel;
  return timeline::details({{"kind", is_kernel ? lower::name(step.group) : lower::name(step.kind)},
                            {"bytes", bytes},
                            {"items", items}});
}

}  // namespace systole::runtime
