#pragma once

// Runs a Program by evaluating each step's region, in the very memory the plan gives: what overlaps or is
// read too late shows in the numbers. Steps may be done by other means.

#include <cstring>
#include <functional>
#include <map>
#include <vector>

#include "compile/program.h"
#include "eval/eval.h"

namespace systole::program_check {

using lower::BufferId;
using lower::BufferInfo;
using lower::Program;
using lower::Step;
using lower::StepKind;

// Does the step on its inputs, outputs and workspace, or says no.
using OtherMeans = std::function<bool(const Program&, const Step&, const std::vector<std::byte*>&)>;

class Runner {
 public:
  // The memory of inputs and outputs is the caller's; a donated input's is its output's.
  Runner(const Program& program, std::vector<std::byte*> inputs, std::vector<std::byte*> outputs,
         std::byte* arena, const OtherMeans* other_means = nullptr)
      : program_(program),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)),
        arena_(arena),
        other_means_(other_means) {}

  void run() {
    for (const Step& step : program_.steps) run(step);
  }

 private:
  const BufferInfo& info(BufferId b) const { return program_.buffers[static_cast<std::size_t>(b)]; }

  std::byte* memory(BufferId id) {
    const BufferInfo& b = info(program_.memory_of(id));
    switch (b.role) {
      case BufferInfo::Role::input: return inputs_[static_cast<std::size_t>(b.position)];
      case BufferInfo::Role::output: return outputs_[static_cast<std::size_t>(b.position)];
      case BufferInfo::Role::constant: return const_cast<std::byte*>(b.value->bytes());
      case BufferInfo::Role::temporary: return arena_ + b.offset;
    }
    return nullptr;
  }
  Literal read(BufferId b) {
    return Literal::copy_of(info(b).type, {memory(b), static_cast<std::size_t>(info(b).bytes)});
  }
  void write(BufferId b, const Literal& value) { std::memcpy(memory(b), value.bytes(), value.byte_size()); }

  // The step's inputs in the order of the anchor's operands.
  std::vector<std::byte*> operands(const Step& step) {
    const ir::Graph& graph = step.region.graph;
    std::map<std::int32_t, BufferId> buffers;
    for (std::size_t i = 0; i < step.inputs.size(); ++i) buffers[graph.inputs()[i]] = step.inputs[i];
    std::vector<std::byte*> out;
    for (const ir::ValueId v : graph.node(step.region.anchor).operands)
      out.push_back(memory(buffers.at(v.node)));
    return out;
  }

  void start_carries(const Step& step, std::vector<std::byte*>& operands) {
    for (std::size_t k = 0; k < static_cast<std::size_t>(step.carries); ++k) {
      std::byte* const to = memory(step.outputs[k]);
      if (to != operands[k])
        std::memcpy(to, operands[k], static_cast<std::size_t>(info(step.outputs[k]).bytes));
      operands[k] = to;
    }
  }

  void run(const Step& step) {
    std::byte* const arena = step.workspace >= 0 ? memory(step.workspace) : nullptr;
    switch (step.kind) {
      case StepKind::copy: write(step.outputs[0], read(step.inputs[0])); return;
      case StepKind::scan: {
        std::vector<std::byte*> given = operands(step);
        start_carries(step, given);
        const Program& body = *step.programs[0];
        const auto carries = static_cast<std::size_t>(step.carries);
        const auto xs =
            static_cast<std::size_t>(step.region.graph.node(step.region.anchor).as<ir::ScanAttrs>().xs);
        for (std::int64_t n = 0; n < step.length; ++n) {
          const std::int64_t i = step.reverse ? step.length - 1 - n : n;
          std::vector<std::byte*> in = given, out;
          for (std::size_t k = carries; k < carries + xs; ++k)
            in[k] += i * body.buffers[static_cast<std::size_t>(body.inputs[k])].bytes;
          for (std::size_t k = 0; k < body.outputs.size(); ++k) {
            std::byte* to = memory(step.outputs[k]);
            if (k >= carries) to += i * body.buffers[static_cast<std::size_t>(body.outputs[k])].bytes;
            out.push_back(to);
          }
          Runner(body, in, out, arena, other_means_).run();
        }
        return;
      }
      case StepKind::loop: {
        std::vector<std::byte*> given = operands(step);
        start_carries(step, given);
        std::vector<std::byte*> out;
        for (std::size_t k = 0; k < static_cast<std::size_t>(step.carries); ++k)
          out.push_back(memory(step.outputs[k]));
        for (;;) {
          std::byte go{0};
          Runner(*step.programs[0], given, {&go}, arena, other_means_).run();
          if (go == std::byte{0}) return;
          Runner(*step.programs[1], given, out, arena, other_means_).run();
        }
      }
      case StepKind::branch: {
        std::vector<std::byte*> given = operands(step), out;
        const bool first = *given[0] != std::byte{0};
        given.erase(given.begin());
        for (const BufferId b : step.outputs) out.push_back(memory(b));
        Runner(*step.programs[first ? 0 : 1], given, out, arena, other_means_).run();
        return;
      }
      default: break;
    }
    if (other_means_ != nullptr) {
      std::vector<std::byte*> buffers;
      for (const auto* list : {&step.inputs, &step.outputs})
        for (const BufferId b : *list) buffers.push_back(memory(b));
      if (arena != nullptr) buffers.push_back(arena);
      if ((*other_means_)(program_, step, buffers)) return;
    }
    std::vector<Literal> arguments;
    for (const BufferId b : step.inputs) arguments.push_back(read(b));
    const std::vector<Literal> results = eval::evaluate(step.region.graph, arguments);
    for (std::size_t i = 0; i < results.size(); ++i) write(step.outputs[i], results[i]);
  }

  const Program& program_;
  const std::vector<std::byte*> inputs_, outputs_;
  std::byte* const arena_;
  const OtherMeans* const other_means_;
};

// What the Program makes of the arguments.
inline std::vector<Literal> run(const Program& program, std::span<const Literal> arguments) {
  std::vector<Literal> held(arguments.begin(), arguments.end());
  std::vector<std::byte*> inputs, outputs;
  for (Literal& x : held) {
    x = Literal::copy_of(x.type(), x.as_bytes());
    inputs.push_back(x.mutable_bytes());
  }
  std::vector<Literal> results;
  for (const BufferId b : program.outputs)
    results.push_back(Literal(program.buffers[static_cast<std::size_t>(b)].type));
  for (std::size_t i = 0; i < results.size(); ++i) {
    const BufferInfo& memory =
        program.buffers[static_cast<std::size_t>(program.memory_of(program.outputs[i]))];
    outputs.push_back(memory.role == BufferInfo::Role::input
                          ? inputs[static_cast<std::size_t>(memory.position)]
                          : results[i].mutable_bytes());
  }
  std::vector<std::byte> arena(static_cast<std::size_t>(program.arena_bytes), std::byte{0xab});
  Runner(program, inputs, outputs, arena.data()).run();
  for (std::size_t i = 0; i < results.size(); ++i)
    if (outputs[i] != results[i].bytes())
      results[i] = Literal::copy_of(results[i].type(), {outputs[i], results[i].byte_size()});
  return results;
}

}  // namespace systole::program_check
