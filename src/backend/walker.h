#pragma once

// A Program step by step: where its buffers are, what loops and branches do. The steps themselves, and the
// memory, are a Machine's:
//
//   using Place            where a buffer begins; Place{} for none
//   using Context          what all Machines of a module share
//   struct Compiled        const lower::Program* program; by step: calls, with label and details for the
//                          timeline, and std::vector<std::vector<Compiled>> sub_programs
//   Machine(const Context&, const Compiled&)
//   static Place moved(Place, std::int64_t bytes)
//   Place constant(lower::BufferId) const
//   Place answer() const                    a byte, for a loop's condition
//   bool is_true(Place) const               waits for it
//   void copy(Place from, Place to, std::size_t bytes)
//   void run(std::size_t step, const Walker<Machine>&)   a kernel, a library's call, an evaluation
//   void begin(), enter(step), leave(step), end()        optional: around all steps, and around each
//   void set_turn(std::int64_t)                          optional: of a scan, before its body begins
//
// What a run needs is laid out when the Walker is made; walking allocates nothing.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "compile/program.h"
#include "runtime/timeline.h"

namespace systole::runtime {

template <class Machine>
class Walker {
 public:
  using Place = typename Machine::Place;
  using Compiled = typename Machine::Compiled;

  Walker(const typename Machine::Context& context, const Compiled& compiled)
      : compiled_(&compiled),
        machine_(context, compiled),
        places_(compiled.program->buffers.size()),
        inner_(compiled.program->steps.size()) {
    for (std::size_t b = 0; b < places_.size(); ++b)
      if (info(id(b)).role == Role::constant && info(id(b)).shares < 0) places_[b] = machine_.constant(id(b));
    for (std::size_t s = 0; s < inner_.size(); ++s)
      for (const Compiled& sub : compiled.sub_programs[s]) inner_[s].walkers.emplace_back(context, sub);
  }

  // Memory of inputs and outputs in the signature's order, and of the temporaries.
  void run(std::span<const Place> inputs, std::span<const Place> outputs, Place arena) {
    for (std::size_t b = 0; b < places_.size(); ++b) {
      const lower::BufferInfo& buffer = info(id(b));
      if (buffer.shares >= 0) continue;
      switch (buffer.role) {
        case Role::input: places_[b] = inputs[static_cast<std::size_t>(buffer.position)]; break;
        case Role::output: places_[b] = outputs[static_cast<std::size_t>(buffer.position)]; break;
        case Role::temporary:
          places_[b] = Machine::moved(arena, std::max<std::int64_t>(buffer.offset, 0));
          break;
        case Role::constant: break;
      }
    }
    for (std::size_t b = 0; b < places_.size(); ++b)
      if (info(id(b)).shares >= 0) places_[b] = place(program().memory_of(id(b)));
    // A Machine may send steps different ways.
    constexpr bool kHasWays = requires { machine_.begin(); };
    if constexpr (kHasWays) machine_.begin();
    for (std::size_t s = 0; s < inner_.size(); ++s) {
      if constexpr (kHasWays) machine_.enter(s);
      run_step(s);
      if constexpr (kHasWays) machine_.leave(s);
    }
    if constexpr (kHasWays) machine_.end();
  }

  Machine& machine() { return machine_; }
  const lower::Program& program() const { return *compiled_->program; }
  const lower::BufferInfo& info(lower::BufferId b) const {
    return program().buffers[static_cast<std::size_t>(b)];
  }
  Place place(lower::BufferId b) const { return places_[static_cast<std::size_t>(b)]; }
  Place workspace(const lower::Step& step) const {
    return step.workspace >= 0 ? place(step.workspace) : Place{};
  }

 private:
  using Role = lower::BufferInfo::Role;

  struct Inner {
    std::vector<Walker> walkers;
    std::vector<Place> first, inputs, outputs;  // first: of a scan's slices
    std::vector<unsigned char> is_same;         // of a scan, by input: not another array in every turn
  };

  static lower::BufferId id(std::size_t b) { return static_cast<lower::BufferId>(b); }
  std::size_t bytes(lower::BufferId b) const { return static_cast<std::size_t>(info(b).bytes); }

  void run_step(std::size_t s) {
    const lower::Step& step = program().steps[s];
    const timeline::Span span("step", compiled_->calls[s].label, compiled_->calls[s].details);
    switch (step.kind) {
      case lower::StepKind::copy:
        machine_.copy(place(step.inputs[0]), place(step.outputs[0]), bytes(step.outputs[0]));
        return;
      case lower::StepKind::scan: scan(step, inner_[s]); return;
      case lower::StepKind::loop: loop(step, inner_[s]); return;
      case lower::StepKind::branch: branch(step, inner_[s]); return;
      default: machine_.run(s, *this); return;
    }
  }

  // The operands in the node's order; carries are moved to where they stay.
  void take_operands(const lower::Step& step, Inner& inner) {
    const ir::Graph& graph = step.region.graph;
    inner.inputs.clear();
    for (const ir::ValueId v : graph.node(step.region.anchor).operands) {
      const auto position = std::find(graph.inputs().begin(), graph.inputs().end(), v.node);
      inner.inputs.push_back(place(step.inputs[static_cast<std::size_t>(position - graph.inputs().begin())]));
    }
    for (std::size_t k = 0; k < static_cast<std::size_t>(step.carries); ++k) {
      const Place to = place(step.outputs[k]);
      if (!(to == inner.inputs[k])) machine_.copy(inner.inputs[k], to, bytes(step.outputs[k]));
      inner.inputs[k] = to;
    }
  }

  void scan(const lower::Step& step, Inner& inner) {
    const lower::Program& body = *step.programs[0];
    const auto slice = [&](Place whole, lower::BufferId b, std::int64_t i) {
      return Machine::moved(whole, i * body.buffers[static_cast<std::size_t>(b)].bytes);
    };
    take_operands(step, inner);
    inner.first = inner.inputs;
    inner.outputs.resize(body.outputs.size());
    const auto carries = static_cast<std::size_t>(step.carries);
    const ir::Node& node = step.region.graph.node(step.region.anchor);
    const std::size_t sliced = carries + static_cast<std::size_t>(node.as<ir::ScanAttrs>().xs);
    constexpr bool kKeeps = requires(Machine& machine) { machine.set_same({}); };
    if constexpr (kKeeps) {
      inner.is_same.assign(body.inputs.size(), 0);
      std::fill(inner.is_same.begin() + static_cast<std::ptrdiff_t>(sliced), inner.is_same.end(), 1);
    }
    for (std::int64_t n = 0; n < step.length; ++n) {
      const std::int64_t i = step.reverse ? step.length - 1 - n : n;
      for (std::size_t k = carries; k < sliced; ++k)
        inner.inputs[k] = slice(inner.first[k], body.inputs[k], i);
      for (std::size_t k = 0; k < body.outputs.size(); ++k)
        inner.outputs[k] = slice(place(step.outputs[k]), body.outputs[k], k < carries ? 0 : i);
      if constexpr (kKeeps) {
        if (n == 0)
          inner.walkers[0].machine().set_same({});
        else
          inner.walkers[0].machine().set_same(inner.is_same);
      }
      if constexpr (requires(Machine& machine) { machine.set_turn(n); })
        inner.walkers[0].machine().set_turn(n);
      inner.walkers[0].run(inner.inputs, inner.outputs, workspace(step));
    }
  }

  void loop(const lower::Step& step, Inner& inner) {
    take_operands(step, inner);
    inner.outputs.clear();
    for (std::size_t k = 0; k < static_cast<std::size_t>(step.carries); ++k)
      inner.outputs.push_back(place(step.outputs[k]));
    const Place answer = machine_.answer();
    for (;;) {
      inner.walkers[0].run(inner.inputs, {&answer, 1}, workspace(step));
      if (!machine_.is_true(answer)) return;
      inner.walkers[1].run(inner.inputs, inner.outputs, workspace(step));
    }
  }

  void branch(const lower::Step& step, Inner& inner) {
    take_operands(step, inner);
    inner.outputs.clear();
    for (const lower::BufferId b : step.outputs) inner.outputs.push_back(place(b));
    inner.walkers[machine_.is_true(inner.inputs[0]) ? 0 : 1].run(
        std::span<const Place>(inner.inputs).subspan(1), inner.outputs, workspace(step));
  }

  const Compiled* compiled_;
  Machine machine_;
  std::vector<Place> places_;  // by buffer
  std::vector<Inner> inner_;   // by step
};

}  // namespace systole::runtime
