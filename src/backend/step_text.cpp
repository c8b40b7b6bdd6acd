#include "backend/step_text.h"

#include <algorithm>
#include <vector>

#include "compile/flops.h"
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
  if (seen.empty() && step.kind == lower::StepKind::copy) text += " copy";
  if (seen.empty() && step.kind == lower::StepKind::kernel) text += " constant";  // a judgement presumed
  return text;
}

namespace {

// Of a value that the graph reads: of one that is only looked up in, what is found, reshaped or not.
std::int64_t bytes_read(const ir::Graph& graph, std::int32_t from, std::int64_t all) {
  std::int64_t found = 0;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(graph.size()); ++i) {
    const ir::Node& node = graph.node(i);
    for (std::size_t k = 0; k < node.operands.size(); ++k) {
      if (node.operands[k].node != from) continue;
      const bool looks_up = k == 0 && (node.op == ir::Op::gather || node.op == ir::Op::dynamic_slice ||
                                       node.op == ir::Op::slice);
      if (node.op == ir::Op::reshape)
        found += bytes_read(graph, i, all);
      else if (looks_up)
        found += node.types[0].bytes();
      else
        return all;
    }
  }
  for (const ir::Output& output : graph.outputs())
    if (output.value.node == from) return all;
  return std::min(found, all);
}

}  // namespace

std::int64_t step_bytes(const lower::Program& program, const lower::Step& step) {
  const auto whole = [&](lower::BufferId b) { return program.buffers[static_cast<std::size_t>(b)].bytes; };
  const ir::Graph& graph = step.region.graph;
  const bool has_region = graph.inputs().size() == step.inputs.size();
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < step.inputs.size(); ++i)
    bytes += has_region ? bytes_read(graph, graph.inputs()[i], whole(step.inputs[i])) : whole(step.inputs[i]);
  for (const lower::BufferId b : step.outputs) bytes += whole(b);
  return bytes;
}

std::string step_details(const lower::Program& program, const lower::Step& step, std::int64_t items,
                         bool tf32) {
  const bool is_kernel = step.kind == lower::StepKind::kernel;
  const bool has_work = step.programs.empty() && step.kind != lower::StepKind::copy;
  std::string declined;
  for (const std::string& reason : step.declined) declined += (declined.empty() ? "" : "\n") + reason;
  const double flops = has_work ? passes::flops(step.region.graph) : 0;
  const DType dtype = has_work ? passes::flops_dtype(step.region.graph) : DType::f32;
  return timeline::details({{"kind", is_kernel ? lower::name(step.group) : lower::name(step.kind)},
                            {"ran", step.implementation.empty() ? "generated" : step.implementation},
                            {"dtype", systole::name(dtype)},
                            {"math", tf32 && dtype == DType::f32 ? "tf32" : ""},
                            {"bytes", step_bytes(program, step)},
                            {"flops", static_cast<std::int64_t>(std::min(flops, 9e18))},
                            {"items", items},
                            {"declined", declined}});
}

}  // namespace systole::runtime
