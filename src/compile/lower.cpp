// From groups to steps. Every value that one group hands to another gets a buffer; a reshape is a view. Then
// outputs, donated inputs and work in place decide which buffers share memory, and the rest gets its place in
// the arena.

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "compile/in_place.h"
#include "compile/narrow.h"
#include "compile/program.h"
#include "compile/recompute.h"
#include "compile/verifying.h"
#include "systole/base/error.h"
#include "systole/ir/composite.h"
#include "systole/ir/rewriter.h"

namespace systole::lower {

namespace {

using ir::Op;
using ir::ValueId;
using Role = BufferInfo::Role;

// The body with its carries donated: output k is written where input k lies.
ir::Graph carried(const ir::Graph& body, std::int64_t carries) {
  ir::Graph out(body.name());
  ir::Values inputs;
  for (std::size_t i = 0; i < body.inputs().size(); ++i) {
    const auto k = static_cast<std::int64_t>(i);
    inputs.push_back(out.input(body.input_name(i), body.input_type(i), k < carries ? k : -1));
  }
  for (const ir::Value& v : ir::inline_graph(out, body, inputs)) out.output(v);
  return out;
}

// What a body is given and gives may be slices of larger arrays, one after the other.
void find_unaligned(Program& body) {
  constexpr std::int64_t kAligned = 16;
  const auto is_slice = [&](BufferId b) {
    const BufferInfo& memory = body.buffers[static_cast<std::size_t>(body.memory_of(b))];
    return (memory.role == BufferInfo::Role::input || memory.role == BufferInfo::Role::output) &&
           memory.bytes % kAligned != 0;
  };
  for (Step& step : body.steps)
    for (const std::vector<BufferId>* const list : {&step.inputs, &step.outputs})
      for (const BufferId b : *list) step.unaligned.push_back(is_slice(b));
}

class Lowering {
 public:
  Lowering(const ir::Graph& graph, const Target& target) : graph_(graph), target_(target) {}

  Program run(Fusion fusion) {
    program_.name = graph_.name();
    program_.refusals = std::move(fusion.refusals);
    for (std::size_t i = 0; i < graph_.inputs().size(); ++i) {
      const ValueId value{graph_.inputs()[i], 0};
      const BufferId b = add(value, Role::input);
      info(b).position = static_cast<std::int32_t>(i);
      program_.inputs.push_back(b);
    }
    const std::vector<bool> wanted = read_outside(fusion);
    for (const Group& group : fusion.groups) lower(group, wanted);
    give_outputs();
    find_lifetimes();
    donate();
    find_lifetimes();
    work_in_place();
    find_lifetimes();
    plan_memory(program_, target_.limits().room);
    return std::move(program_);
  }

 private:
  BufferInfo& info(BufferId b) { return program_.buffers[static_cast<std::size_t>(b)]; }

  BufferId new_buffer(const Type& type, Role role) {
    BufferInfo made;
    made.role = role;
    made.type = type;
    made.bytes = type.bytes();
    program_.buffers.push_back(std::move(made));
    return static_cast<BufferId>(program_.buffers.size() - 1);
  }

  BufferId add(ValueId value, Role role) {
    return buffers_[{value.node, value.index}] = new_buffer(graph_.type(value), role);
  }

  // The value's buffer; a constant gets one when first asked for.
  BufferId buffer(ValueId value) {
    const auto found = buffers_.find({value.node, value.index});
    if (found != buffers_.end()) return found->second;
    const ir::Node& node = graph_.node(value.node);
    if (node.op != Op::constant)
      throw Error(ErrorKind::kInternal, std::string(ir::name(node.op)), "has no buffer when it is read");
    const BufferId b = add(value, Role::constant);
    info(b).value = std::make_shared<const Literal>(node.as<ir::ConstantAttrs>().value);
    return b;
  }

  std::vector<bool> read_outside(const Fusion& fusion) const {
    std::vector<bool> wanted(static_cast<std::size_t>(graph_.size()), false);
    for (const ir::Output& output : graph_.outputs())
      wanted[static_cast<std::size_t>(output.value.node)] = true;
    for (const Group& group : fusion.groups) {
      std::vector<std::int32_t> inside;
      std::merge(group.nodes.begin(), group.nodes.end(), group.inlined.begin(), group.inlined.end(),
                 std::back_inserter(inside));
      for (const std::int32_t i : inside)
        for (const ValueId v : graph_.node(i).operands)
          if (!std::binary_search(inside.begin(), inside.end(), v.node))
            wanted[static_cast<std::size_t>(v.node)] = true;
    }
    return wanted;
  }

  void lower(const Group& group, const std::vector<bool>& wanted) {
    if (is_view(group)) return;
    const std::optional<std::int32_t> between = kept_between_passes(group, wanted);
    GroupRegion region = region_of(
        graph_, group, [&](std::int32_t i) { return wanted[static_cast<std::size_t>(i)] || between == i; });
    Step step;
    step.group = group.kind;
    step.domain = group.domain;
    step.declined = group.declined;
    for (const ValueId v : region.inputs) step.inputs.push_back(buffer(v));
    for (const ValueId v : region.outputs) step.outputs.push_back(add(v, Role::temporary));
    switch (group.kind) {
      case GroupKind::library:
        step.kind = StepKind::library;
        step.implementation = group.claim.implementation;
        if (group.claim.workspace_bytes > 0) step.workspace = scratch(group.claim.workspace_bytes);
        break;
      case GroupKind::special:
        step.kind = StepKind::special;
        if (const std::int64_t bytes = special_scratch(graph_.node(group.anchor)); bytes > 0)
          step.workspace = scratch(bytes);
        break;
      case GroupKind::control: control(step, graph_.node(group.anchor)); break;
      default: step.kind = StepKind::kernel; break;
    }
    if (group.kind == GroupKind::contraction)
      if (const std::int64_t bytes = target_.kernel_scratch(region.region); bytes > 0)
        step.workspace = scratch(bytes);
    if (group.kind == GroupKind::rows && target_.limits().cuts_rows) cut_rows(step, group);
    if (group.kind == GroupKind::contraction)
      for (std::size_t o = 0; o < region.outputs.size(); ++o)
        if (graph_.node(region.outputs[o].node).op == Op::reduce) presume(step.outputs[o]);
    step.region = std::move(region.region);
    program_.steps.push_back(std::move(step));
  }

  // A judgement holds before the first element speaks against it.
  void presume(BufferId judgement) {
    const Type type = info(judgement).type;
    Step step;
    step.outputs = {new_buffer(type, Role::temporary)};
    step.region.graph.output(step.region.graph.constant(Literal::scalar<bool>(true).reshaped(type.shape)));
    info(judgement).shares = step.outputs[0];
    program_.steps.push_back(std::move(step));
  }

  // A value that every pass over cut rows would gather from several padded arrays, the gradient of a pooling:
  // the first pass stores it, and those behind read it.
  std::optional<std::int32_t> kept_between_passes(const Group& group, const std::vector<bool>& wanted) const {
    const KernelLimits limits = target_.limits();
    if (group.kind != GroupKind::rows || !limits.cuts_rows || limits.has_cores ||
        row_chunks(*group.domain, false) == 1)
      return std::nullopt;
    std::vector<std::int32_t> inside;
    std::merge(group.nodes.begin(), group.nodes.end(), group.inlined.begin(), group.inlined.end(),
               std::back_inserter(inside));
    struct Known {
      int pads = 0, stage = 1;
      bool is_made_of_it = false;  // at its own point
    };
    std::map<std::int32_t, Known> known;
    const auto is_at_the_point = [&](std::int32_t i) {
      return ir::info(graph_.node(i).op).op_class == ir::OpClass::elementwise &&
             graph_.node(i).types[0].shape.count() == group.domain->full_count();
    };
    std::optional<std::int32_t> found;
    for (const std::int32_t i : inside) {
      const ir::Node& node = graph_.node(i);
      Known& own = known[i];
      own.pads = node.op == Op::pad ? 1 : 0;
      for (const ValueId v : node.operands)
        if (const auto operand = known.find(v.node); operand != known.end()) {
          own.pads += operand->second.pads;
          own.stage =
              std::max(own.stage, operand->second.stage + (graph_.node(v.node).op == Op::reduce ? 1 : 0));
        }
      const bool is_inner = std::binary_search(group.nodes.begin(), group.nodes.end(), i);
      const DType dtype = node.types[0].dtype;
      if (is_inner && own.stage == 1 && own.pads > 1 && is_at_the_point(i) && is_float(dtype) &&
          (!found || size_of(dtype) <= size_of(graph_.node(*found).types[0].dtype)))
        found = i;
    }
    if (!found || wanted[static_cast<std::size_t>(*found)]) return std::nullopt;
    known[*found].is_made_of_it = true;
    for (const std::int32_t i : inside) {
      if (i <= *found || !is_at_the_point(i)) continue;
      for (const ValueId v : graph_.node(i).operands)
        if (const auto operand = known.find(v.node); operand != known.end() && operand->second.is_made_of_it)
          known[i].is_made_of_it = true;
      if (known[i].is_made_of_it && known[i].stage > 1 && wanted[static_cast<std::size_t>(i)]) return found;
    }
    return std::nullopt;
  }

  // What the parts of a row know goes through memory.
  void cut_rows(Step& step, const Group& group) {
    step.chunks = row_chunks(*group.domain, target_.limits().has_cores);
    if (step.chunks == 1) return;
    const auto sums = std::count_if(group.nodes.begin(), group.nodes.end(),
                                    [&](std::int32_t i) { return graph_.node(i).op == Op::reduce; });
    step.workspace = scratch(bytes_of(bytes_of(8 * sums, step.chunks + 1), group.domain->row_count()));
  }

  static std::int64_t bytes_of(std::int64_t size, std::int64_t count) {
    return checked_mul(size, count, "memory of the graph", "a kernel's scratch");
  }

  // What a kernel for the primitive wants beside operands and results: two lists of i32 to sort with, one for
  // the largest, numbers at full precision in place of small floats.
  std::int64_t special_scratch(const ir::Node& node) const {
    const auto count = [&](std::size_t operand) { return graph_.type(node.operands[operand]).shape.count(); };
    const std::int64_t wide =
        std::max<std::int64_t>(4, static_cast<std::int64_t>(size_of(node.types[0].dtype)));
    switch (node.op) {
      case Op::sort: return bytes_of(8, count(0));
      case Op::top_k: return bytes_of(4, node.types[0].shape.count());
      case Op::cholesky: return bytes_of(wide, count(0));
      case Op::triangular_solve: return bytes_of(wide, count(1));
      default: return 0;
    }
  }

  BufferId scratch(std::int64_t bytes) { return new_buffer({DType::u8, {bytes}}, Role::temporary); }

  // The same elements in the same order need no work.
  bool is_view(const Group& group) {
    if (group.nodes.size() != 1) return false;
    const ir::Node& node = graph_.node(group.nodes[0]);
    if (node.op != Op::barrier && (node.op != Op::reshape || !group.inlined.empty())) return false;
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      const BufferId from = buffer(node.operands[i]);
      info(add({group.nodes[0], static_cast<std::int32_t>(i)}, Role::temporary)).shares = from;
    }
    return true;
  }

  void control(Step& step, const ir::Node& node) {
    const auto sub = [&](const ir::Graph& graph) {
      Program program = make_program(graph, target_);
      find_unaligned(program);
      step.programs.push_back(std::make_shared<const Program>(std::move(program)));
    };
    switch (node.op) {
      case Op::scan: {
        const auto& a = node.as<ir::ScanAttrs>();
        step.kind = StepKind::scan;
        step.length = a.length.value();
        step.carries = static_cast<std::int32_t>(a.carries);
        step.reverse = a.reverse;
        sub(carried(*node.graphs[0], a.carries));
        break;
      }
      case Op::while_loop: {
        const std::int64_t carries = node.as<ir::WhileAttrs>().carries;
        step.kind = StepKind::loop;
        step.carries = static_cast<std::int32_t>(carries);
        sub(*node.graphs[0]);
        sub(carried(*node.graphs[1], carries));
        break;
      }
      case Op::cond:
        step.kind = StepKind::branch;
        for (const ir::GraphRef& branch : node.graphs) sub(*branch);
        break;
      default:
        throw Error(ErrorKind::kInternal, std::string(ir::name(node.op)),
                    "reached the Program: a composite is claimed or inlined before");
    }
    std::int64_t bytes = 0;
    for (const auto& program : step.programs) bytes = std::max(bytes, program->arena_bytes);
    if (bytes > 0) step.workspace = scratch(bytes);
  }

  BufferId copied(BufferId from, const Type& type, Role role) {
    const BufferId to = new_buffer(type, role);
    Step step;
    step.kind = StepKind::copy;
    step.inputs = {from};
    step.outputs = {to};
    program_.steps.push_back(std::move(step));
    return to;
  }

  // A temporary that is an output takes the caller's memory; everything else that leaves is copied.
  void give_outputs() {
    for (std::size_t k = 0; k < graph_.outputs().size(); ++k) {
      BufferId b = buffer(graph_.outputs()[k].value);
      const BufferId memory = program_.memory_of(b);
      const bool own_input = info(memory).role == Role::input &&
                             graph_.node(graph_.inputs()[static_cast<std::size_t>(info(memory).position)])
                                     .as<ir::InputAttrs>()
                                     .alias == static_cast<std::int64_t>(k);
      if (info(memory).role == Role::temporary) {
        info(memory).role = Role::output;
        info(memory).position = static_cast<std::int32_t>(k);
      } else if (!own_input) {
        b = copied(b, graph_.output_type(k), Role::output);
        info(b).position = static_cast<std::int32_t>(k);
      }
      program_.outputs.push_back(b);
    }
  }

  void find_lifetimes() {
    for (BufferInfo& b : program_.buffers) b.first = b.last = -1;
    for (std::size_t s = 0; s < program_.steps.size(); ++s) {
      const Step& step = program_.steps[s];
      const auto touch = [&](BufferId b) {
        if (b < 0) return;
        for (const BufferId each : {b, program_.memory_of(b)}) {
          if (info(each).first < 0) info(each).first = static_cast<std::int32_t>(s);
          info(each).last = static_cast<std::int32_t>(s);
        }
      };
      for (const BufferId b : step.inputs) touch(b);
      for (const BufferId b : step.outputs) touch(b);
      touch(step.workspace);
    }
  }

  // The step that writes the buffer's memory first.
  std::int32_t writer(BufferId b) {
    for (std::size_t s = 0; s < program_.steps.size(); ++s)
      for (const BufferId output : program_.steps[s].outputs)
        if (output == b) return static_cast<std::int32_t>(s);
    return -1;
  }

  // An output that takes the memory of a donated input: written where it lies once nobody reads it any more,
  // else computed elsewhere and copied last.
  void donate() {
    for (std::size_t i = 0; i < graph_.inputs().size(); ++i) {
      const std::int64_t alias = graph_.node(graph_.inputs()[i]).as<ir::InputAttrs>().alias;
      if (alias < 0) continue;
      const BufferId input = program_.inputs[i];
      BufferId& output = program_.outputs[static_cast<std::size_t>(alias)];
      const BufferId memory = program_.memory_of(output);
      if (memory == input) continue;
      const std::int32_t written = writer(memory);
      if (info(memory).role == Role::output && written >= 0 && may_overwrite(input, written, memory)) {
        info(memory).shares = input;
        continue;
      }
      BufferId from = memory;
      if (info(memory).role == Role::output) info(memory).role = Role::temporary;
      const Type type = info(output).type;
      output = copied(from, type, Role::output);
      info(output).position = static_cast<std::int32_t>(alias);
      info(output).shares = input;
    }
  }

  // Whether the step may write `output` into the memory that `input` has: all who read it are done, or it is
  // this step, which reads each element before it writes it.
  bool may_overwrite(BufferId input, std::int32_t step, BufferId output) {
    if (info(input).last < step) return true;
    return info(input).last == step && info(input).bytes == info(output).bytes &&
           writes_in_place(program_.steps[static_cast<std::size_t>(step)], program_, input, output);
  }

  void work_in_place() {
    for (std::size_t s = 0; s < program_.steps.size(); ++s) {
      Step& step = program_.steps[s];
      for (const BufferId output : step.outputs) {
        if (info(output).role != Role::temporary || info(output).shares >= 0) continue;
        for (const BufferId input : step.inputs) {
          const BufferId memory = program_.memory_of(input);
          if (info(memory).role != Role::temporary || taken_.contains({memory, s})) continue;
          if (info(memory).bytes != info(output).bytes || info(memory).last != static_cast<std::int32_t>(s))
            continue;
          if (!writes_in_place(step, program_, memory, output)) continue;
          info(output).shares = memory;
          taken_.insert({memory, s});
          // The memory is needed as long as what lies in it now.
          info(memory).last = std::max(info(memory).last, info(output).last);
          break;
        }
      }
    }
  }

  const ir::Graph& graph_;
  const Target& target_;
  Program program_;
  std::map<std::pair<std::int32_t, std::int32_t>, BufferId> buffers_;
  std::set<std::pair<BufferId, std::size_t>> taken_;  // memory that a step gave to one of its outputs
};

void find_overwritten(Program& program) {
  for (Step& step : program.steps)
    for (const BufferId input : step.inputs) {
      const auto found = std::find_if(step.outputs.begin(), step.outputs.end(), [&](BufferId output) {
        return program.memory_of(output) == program.memory_of(input);
      });
      step.overwritten.push_back(
          found == step.outputs.end() ? -1 : static_cast<std::int32_t>(found - step.outputs.begin()));
    }
}

}  // namespace

Program make_program(const ir::Graph& whole, const Target& target) {
  const ir::Graph graph = with_narrow_nodes(whole);
  Fusion fusion = fuse(graph, target);
  const std::optional<Recomputed> thrifty = recomputed(graph, fusion, target);
  Program program =
      thrifty ? Lowering(thrifty->graph, target).run(fuse(thrifty->graph, target, thrifty->repeated))
              : Lowering(graph, target).run(std::move(fusion));
  find_overwritten(program);
  if (passes::verify_wanted()) verify(program);
  return program;
}

}  // namespace systole::lower
