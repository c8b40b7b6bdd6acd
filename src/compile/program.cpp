#include "compile/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "systole/base/error.h"
#include "systole/ir/text.h"

namespace systole::lower {

namespace {

using Role = BufferInfo::Role;

std::string buffer_text(const Program& program, BufferId id) {
  const BufferInfo& b = program.buffers[static_cast<std::size_t>(id)];
  switch (b.role) {
    case Role::input: return fmt::format("in{}:{}", b.position, b.type.to_string());
    case Role::constant: return fmt::format("const{}:{}", id, b.type.to_string());
    case Role::output:
      return fmt::format("out{}{}:{}", b.position, b.shares >= 0 ? "=" + buffer_text(program, b.shares) : "",
                         b.type.to_string());
    case Role::temporary: break;
  }
  if (b.shares >= 0) return fmt::format("t{}={}", id, buffer_text(program, b.shares));
  return fmt::format("t{}@{}:{}", id, b.offset, b.type.to_string());
}

std::string ops_text(const ir::Graph& graph) {
  std::string text;
  int shown = 0, more = 0;
  for (const ir::Node& node : graph.nodes()) {
    if (node.op == ir::Op::input || node.op == ir::Op::constant) continue;
    if (++shown > 12) {
      ++more;
      continue;
    }
    text += fmt::format("{}{}", text.empty() ? "" : " ", ir::name(node.op));
  }
  return more > 0 ? fmt::format("{} … {} more", text, more) : text;
}

void print(const Program& program, bool regions, const std::string& indent, std::string& out) {
  out += fmt::format("{}program {}: {} steps, arena {} bytes\n", indent, program.name, program.steps.size(),
                     program.arena_bytes);
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    const Step& step = program.steps[s];
    std::string inputs, outputs;
    for (const BufferId b : step.inputs) inputs += (inputs.empty() ? "" : ", ") + buffer_text(program, b);
    for (const BufferId b : step.outputs) outputs += (outputs.empty() ? "" : ", ") + buffer_text(program, b);
    std::string what(name(step.kind));
    if (step.kind == StepKind::kernel) what = name(step.group);
    if (step.domain) what += " " + step.domain->to_string();
    if (!step.implementation.empty()) what += " " + step.implementation;
    if (step.kind == StepKind::scan) what += fmt::format(" {} steps", step.length);
    out += fmt::format("{}  {}. {}", indent, s, what);
    if (step.programs.empty() && step.kind != StepKind::copy)
      out += fmt::format(": {}", ops_text(step.region.graph));
    out += fmt::format("\n{}     ({}) -> ({})\n", indent, inputs, outputs);
    if (regions && step.programs.empty() && step.kind != StepKind::copy) out += ir::print(step.region.graph);
    for (const auto& sub : step.programs) print(*sub, regions, indent + "    ", out);
  }
  std::map<std::string, int> refusals;  // with how often
  for (const Refusal& refusal : program.refusals) ++refusals[refusal.op + " " + refusal.reason];
  for (const auto& [text, times] : refusals)
    out += fmt::format("{}  apart: {}{}\n", indent, text, times > 1 ? fmt::format(" ({} times)", times) : "");
}

[[noreturn]] void broken(const Program& program, std::size_t step, std::string what) {
  throw Error(ErrorKind::kInternal, fmt::format("program {}, step {}", program.name, step), std::move(what));
}

}  // namespace

std::string_view name(StepKind kind) {
  switch (kind) {
    case StepKind::kernel: return "kernel";
    case StepKind::library: return "library";
    case StepKind::special: return "special";
    case StepKind::copy: return "copy";
    case StepKind::scan: return "scan";
    case StepKind::loop: return "while";
    case StepKind::branch: return "cond";
  }
  return "?";
}

BufferId Program::memory_of(BufferId b) const {
  while (buffers[static_cast<std::size_t>(b)].shares >= 0) b = buffers[static_cast<std::size_t>(b)].shares;
  return b;
}

Tally tally(const Program& program) {
  Tally sum;
  for (const Step& step : program.steps) {
    switch (step.kind) {
      case StepKind::kernel:
      case StepKind::special: ++sum.kernels; break;
      case StepKind::library: ++sum.library_calls; break;
      case StepKind::copy: ++sum.copies; break;
      default: ++sum.loops_and_branches; break;
    }
    for (const auto& sub : step.programs) {
      const Tally inner = tally(*sub);
      sum.kernels += inner.kernels;
      sum.library_calls += inner.library_calls;
      sum.copies += inner.copies;
      sum.loops_and_branches += inner.loops_and_branches;
    }
  }
  for (const BufferInfo& b : program.buffers) {
    if (b.shares >= 0) continue;
    if (b.role == Role::input) sum.input_bytes += b.bytes;
    if (b.role == Role::constant) sum.constant_bytes += b.bytes;
    if (b.role == Role::output) sum.output_bytes += b.bytes;
  }
  return sum;
}

std::string to_string(const Program& program, bool regions) {
  const Tally t = tally(program);
  std::string out = fmt::format(
      "{} kernels, {} library calls, {} copies, {} loops and branches\n"
      "peak {} bytes: inputs {}, constants {}, outputs {}, arena {}\n",
      t.kernels, t.library_calls, t.copies, t.loops_and_branches,
      t.input_bytes + t.constant_bytes + t.output_bytes + program.arena_bytes, t.input_bytes,
      t.constant_bytes, t.output_bytes, program.arena_bytes);
  print(program, regions, "", out);
  return out;
}

void verify(const Program& program) {
  std::vector<bool> written(program.buffers.size(), false);
  const auto at = [&](BufferId b) -> const BufferInfo& {
    return program.buffers[static_cast<std::size_t>(b)];
  };
  // By memory: the buffer whose values lie there. A view has those of what it is a view of.
  std::vector<BufferId> holder(program.buffers.size());
  std::iota(holder.begin(), holder.end(), 0);
  std::set<BufferId> made;
  for (const Step& step : program.steps) made.insert(step.outputs.begin(), step.outputs.end());
  const auto values_of = [&](BufferId b) {
    while (!made.contains(b) && at(b).shares >= 0) b = at(b).shares;
    return b;
  };
  for (std::size_t b = 0; b < program.buffers.size(); ++b)
    if (program.buffers[b].role == Role::input || program.buffers[b].role == Role::constant)
      written[b] = true;
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    const Step& step = program.steps[s];
    for (const BufferId b : step.inputs)
      if (!written[static_cast<std::size_t>(program.memory_of(b))])
        broken(program, s, fmt::format("reads {} before it is written", buffer_text(program, b)));
    for (const BufferId b : step.inputs)
      if (const BufferId held = holder[static_cast<std::size_t>(program.memory_of(b))]; held != values_of(b))
        broken(program, s,
               fmt::format("reads {}, which {} has replaced", buffer_text(program, b),
                           buffer_text(program, held)));
    for (const BufferId b : step.outputs) {
      if (at(program.memory_of(b)).role == Role::constant)
        broken(program, s, fmt::format("writes the constant {}", buffer_text(program, b)));
      written[static_cast<std::size_t>(program.memory_of(b))] = true;
      holder[static_cast<std::size_t>(program.memory_of(b))] = b;
    }
    for (const auto& sub : step.programs) verify(*sub);
  }
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    const BufferInfo& a = program.buffers[i];
    if (a.role != Role::temporary || a.shares >= 0 || a.first < 0) continue;
    if (a.offset < 0 || a.offset + a.bytes > program.arena_bytes)
      broken(program, static_cast<std::size_t>(a.first), fmt::format("t{} lies outside the arena", i));
    for (std::size_t k = i + 1; k < program.buffers.size(); ++k) {
      const BufferInfo& b = program.buffers[k];
      if (b.role != Role::temporary || b.shares >= 0 || b.first < 0) continue;
      const bool together = a.first <= b.last && b.first <= a.last;
      if (together && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes && a.bytes > 0 &&
          b.bytes > 0)
        broken(program, static_cast<std::size_t>(a.first), fmt::format("t{} and t{} overlap", i, k));
    }
  }
  for (const BufferId b : program.outputs)
    if (!written[static_cast<std::size_t>(program.memory_of(b))])
      broken(program, program.steps.size(), fmt::format("{} is never written", buffer_text(program, b)));
}

}  // namespace systole::lower
