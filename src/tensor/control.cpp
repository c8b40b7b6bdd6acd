// Control flow on Tensors. A traced body has its inputs in the order of the trace; the ops want carries
// first, so each body is put into a graph of the right signature.

#include "systole/tensor/control.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "systole/ir/composite.h"
#include "systole/ops.h"
#include "tensor/control_body.h"
#include "tensor/record.h"
#include "tensor/trace.h"

namespace systole::recording {

namespace {

constexpr TraceOptions kBody{.variables = Frame::Variables::bind};

std::vector<StandIn> types_of(std::span<const Tensor> tensors) {
  std::vector<StandIn> types;
  for (const Tensor& x : tensors) types.push_back({checked(x, "loop").type});
  return types;
}

// A loop's state keeps its type.
void check_carries(std::string_view where, const ir::Graph& graph, std::size_t carries) {
  for (std::size_t i = 0; i < carries; ++i)
    if (!(graph.output_type(i) == graph.input_type(i)))
      throw Error(
          graph.output_type(i).dtype == graph.input_type(i).dtype ? ErrorKind::kShape : ErrorKind::kDType,
          std::string(where), fmt::format("carry {} changes its type from one round to the next", i),
          graph.input_type(i).to_string(), graph.output_type(i).to_string());
}

}  // namespace

Signature::Signature(const Traced& traced, std::size_t stand_ins) {
  for (std::size_t i = 0; i < traced.bound.size(); ++i)
    (traced.bound[i].assigned ? carried : constant).push_back(stand_ins + i);
  for (std::size_t i = 0; i < traced.captures.size(); ++i)
    constant.push_back(stand_ins + traced.bound.size() + i);
}

ir::GraphRef with_inputs(const ir::Graph& graph, std::span<const std::size_t> order,
                         std::span<const std::size_t> outputs) {
  auto out = std::make_shared<ir::Graph>("body");
  ir::Values inputs(graph.inputs().size());
  for (std::size_t i : order) inputs[i] = out->input({}, graph.input_type(i));
  const ir::Values results = ir::inline_graph(*out, graph, inputs);
  for (std::size_t i : outputs) out->output(results[i]);
  return out;
}

Flat scan(const ScanBody& body, const Flat& carry, const Flat& xs, std::int64_t length, ScanOptions options) {
  const std::size_t carries = carry.tensors.size(), entries = xs.tensors.size();
  Flat structure;
  structure.structure = carry.structure;
  structure.structure.insert(structure.structure.end(), xs.structure.begin(), xs.structure.end());
  structure.keys = carry.keys;
  structure.keys.insert(structure.keys.end(), xs.keys.begin(), xs.keys.end());
  std::vector<Tensor> initial = carry.tensors;
  std::vector<StandIn> seen = types_of(initial);
  for (std::size_t i = 0; i < carries; ++i) seen[i].weak = initial[i].record()->weak;
  std::optional<Dim> steps;
  if (length >= 0) steps = length;
  for (std::size_t i = 0; i < entries; ++i) {
    const Type& type = checked(xs.tensors[i], "scan").type;
    if (type.shape.rank() == 0)
      throw Error(ErrorKind::kShape, "scan", fmt::format("xs {} has no axis to go along", i),
                  "at least 1 axis", type.to_string());
    if (steps && !(*steps == type.shape[0]))
      throw Error(ErrorKind::kShape, "scan", fmt::format("xs {} has another length", i), steps->to_string(),
                  type.shape[0].to_string());
    steps = type.shape[0];
    seen.push_back({entry_type(type)});
  }
  if (!steps) throw Error(ErrorKind::kInvalidArgument, "scan", "no xs and no length");
  const tree::FlatFunction both = [&](const Flat& given) {
    auto [next, ys] = body(given);
    if (next.tensors.size() != carries || next.structure != carry.structure || next.keys != carry.keys)
      throw Error(ErrorKind::kInvalidArgument, "scan",
                  "the carry changes its structure from one round to the next: the length of a vector, or an "
                  "integer in it, which a Tensor could carry");
    for (std::size_t i = 0; i < carries; ++i)  // a number is of the carry's dtype
      if (checked(next.tensors[i], "scan").weak)
        next.tensors[i] = as_dtype(next.tensors[i], seen[i].type.dtype);
    next.tensors.insert(next.tensors.end(), ys.tensors.begin(), ys.tensors.end());
    next.structure.insert(next.structure.end(), ys.structure.begin(), ys.structure.end());
    next.keys.insert(next.keys.end(), ys.keys.begin(), ys.keys.end());
    return next;
  };
  Traced traced = trace(both, seen, structure, kBody);
  // A number to start from takes the dtype that the body makes of it.
  bool changed = false;
  for (std::size_t i = 0; i < carries; ++i) {
    const DType made = traced.graph.output_type(i).dtype;
    if (!initial[i].record()->weak || made == seen[i].type.dtype) continue;
    initial[i] = as_dtype(initial[i], made);
    seen[i] = {initial[i].type()};
    changed = true;
  }
  if (changed) traced = trace(both, seen, structure, kBody);
  check_carries("scan", traced.graph, carries);

  const Signature signature(traced, seen.size());
  const std::size_t results = traced.results.tensors.size();
  std::vector<std::size_t> order, outputs;
  for (std::size_t i = 0; i < carries; ++i) order.push_back(i), outputs.push_back(i);
  for (std::size_t i : signature.carried) order.push_back(i);
  for (std::size_t i = 0; i < traced.assigned.size(); ++i) outputs.push_back(results + i);
  for (std::size_t i = carries; i < carries + entries; ++i) order.push_back(i);
  for (std::size_t i : signature.constant) order.push_back(i);
  for (std::size_t i = carries; i < results; ++i) outputs.push_back(i);

  std::vector<Tensor> inputs = initial;
  inputs.insert(inputs.end(), xs.tensors.begin(), xs.tensors.end());
  const std::vector<Tensor> around = surroundings(traced);
  inputs.insert(inputs.end(), around.begin(), around.end());
  std::vector<Tensor> operands;
  for (std::size_t i : order) operands.push_back(inputs[i]);
  const std::size_t all_carries = carries + signature.carried.size();
  ir::ScanAttrs attrs{*steps, static_cast<std::int64_t>(all_carries), static_cast<std::int64_t>(entries),
                      options.reverse, options.remat};
  const std::vector<Tensor> values =
      record_multi(ir::Op::scan, operands, attrs, {with_inputs(traced.graph, order, outputs)});
  // Back to the order of the trace: carries, ys, assigned Variables.
  std::vector<Tensor> sorted(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(carries));
  sorted.insert(sorted.end(), values.begin() + static_cast<std::ptrdiff_t>(all_carries), values.end());
  sorted.insert(sorted.end(), values.begin() + static_cast<std::ptrdiff_t>(carries),
                values.begin() + static_cast<std::ptrdiff_t>(all_carries));
  return committed(traced, sorted);
}

Flat while_loop(const tree::FlatFunction& condition, const tree::FlatFunction& body, const Flat& carry) {
  const std::size_t carries = carry.tensors.size();
  const std::vector<StandIn> seen = types_of(carry.tensors);
  const Traced traced = trace(body, seen, carry, kBody);
  if (traced.results.tensors.size() != carries || traced.results.structure != carry.structure ||
      traced.results.keys != carry.keys)
    throw Error(ErrorKind::kInvalidArgument, "while_loop",
                "the carry changes its structure from one round to the next: the length of a vector, or an "
                "integer in it, which a Tensor could carry");
  check_carries("while_loop", traced.graph, carries);
  const Traced test = trace(condition, seen, carry, kBody);
  if (!test.assigned.empty())
    throw Error(ErrorKind::kUnsupported, "while_loop", "the condition assigns a Variable",
                "assignments in the body");
  if (test.results.tensors.size() != 1 || !(test.graph.output_type(0) == Type{DType::boolean, {}}))
    throw Error(ErrorKind::kShape, "while_loop", "the condition gives no truth value", "bool[]",
                test.results.tensors.empty() ? "nothing" : test.graph.output_type(0).to_string());

  // Operands: carries, assigned Variables, what the body needs, what the condition needs. A Variable that
  // the body assigns is seen by the condition as carried.
  const Signature signature(traced, carries);
  std::vector<Tensor> operands = carry.tensors;
  const std::vector<Tensor> around = surroundings(traced), test_around = surroundings(test);
  for (std::size_t i : signature.carried) operands.push_back(around[i - carries]);
  const std::size_t all_carries = operands.size();
  for (std::size_t i : signature.constant) operands.push_back(around[i - carries]);
  std::vector<std::size_t> test_place(test_around.size());
  for (std::size_t i = 0; i < test_around.size(); ++i) {
    test_place[i] = operands.size();
    if (i < test.bound.size())
      for (std::size_t k = 0; k < traced.assigned.size(); ++k)
        if (traced.assigned[k].cell == test.bound[i].cell) test_place[i] = carries + k;
    if (test_place[i] == operands.size()) operands.push_back(test_around[i]);
  }
  std::vector<Type> types;
  for (const Tensor& x : operands) types.push_back(x.type());
  const ir::GraphRef body_graph = ir::make_graph("body", types, [&](const ir::Values& x) {
    ir::Values inputs(traced.graph.inputs().size());
    std::size_t next = 0;
    for (std::size_t i = 0; i < carries; ++i) inputs[i] = x[next++];
    for (std::size_t i : signature.carried) inputs[i] = x[next++];
    for (std::size_t i : signature.constant) inputs[i] = x[next++];
    return ir::inline_graph(x[0].graph(), traced.graph, inputs);
  });
  const ir::GraphRef test_graph = ir::make_graph("condition", types, [&](const ir::Values& x) {
    ir::Values inputs(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(carries));
    for (std::size_t place : test_place) inputs.push_back(x[place]);
    return ir::inline_graph(x[0].graph(), test.graph, inputs);
  });
  return committed(
      traced, record_multi(ir::Op::while_loop, operands,
                           ir::WhileAttrs{static_cast<std::int64_t>(all_carries)}, {test_graph, body_graph}));
}

Flat cond(const Tensor& predicate, const tree::FlatFunction& on_true, const tree::FlatFunction& on_false,
          const Flat& operands) {
  const Tensor test = as_dtype(predicate, DType::boolean);
  if (test.rank() != 0)
    throw Error(ErrorKind::kShape, "cond",
                "the predicate must be one truth value; where() chooses per element", "bool[]",
                predicate.type().to_string());
  const std::vector<StandIn> seen = types_of(operands.tensors);
  const Traced yes = trace(on_true, seen, operands, kBody), no = trace(on_false, seen, operands, kBody);
  if (yes.results.tensors.size() != no.results.tensors.size() ||
      yes.results.structure != no.results.structure || yes.results.keys != no.results.keys)
    throw Error(ErrorKind::kInvalidArgument, "cond", "the branches return different structures");
  for (std::size_t i = 0; i < yes.results.tensors.size(); ++i)
    if (!(yes.graph.output_type(i) == no.graph.output_type(i)))
      throw Error(ErrorKind::kShape, "cond", fmt::format("result {} differs between the branches", i),
                  yes.graph.output_type(i).to_string(), no.graph.output_type(i).to_string());

  // Operands: the predicate, the operands, the surroundings of both. Results: the branches', then every
  // Variable that one of them assigns.
  std::vector<Tensor> given = operands.tensors;
  const std::vector<Tensor> around_yes = surroundings(yes), around_no = surroundings(no);
  given.insert(given.end(), around_yes.begin(), around_yes.end());
  given.insert(given.end(), around_no.begin(), around_no.end());
  std::vector<CellRef> cells;
  for (const Traced* branch : {&yes, &no})
    for (const Frame::Binding& b : branch->assigned)
      if (std::find(cells.begin(), cells.end(), b.cell) == cells.end()) cells.push_back(b.cell);
  std::vector<Tensor> before;
  for (const CellRef& cell : cells) before.push_back(read_variable(cell));
  given.insert(given.end(), before.begin(), before.end());
  std::vector<Type> types;
  for (const Tensor& x : given) types.push_back(x.type());

  const std::size_t count = operands.tensors.size(), results = yes.results.tensors.size();
  const auto branch = [&](const Traced& traced, std::size_t first, const char* name) {
    auto graph = std::make_shared<ir::Graph>(name);
    ir::Values x;
    for (const Type& type : types) x.push_back(graph->input({}, type));
    ir::Values inputs(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(count));
    for (std::size_t i = 0; i < traced.bound.size() + traced.captures.size(); ++i)
      inputs.push_back(x[first + i]);
    const ir::Values outputs = ir::inline_graph(*graph, traced.graph, inputs);
    for (std::size_t i = 0; i < results; ++i) graph->output(outputs[i]);
    for (std::size_t c = 0; c < cells.size(); ++c) {
      ir::Value value = x[x.size() - cells.size() + c];
      for (std::size_t k = 0; k < traced.assigned.size(); ++k)
        if (traced.assigned[k].cell == cells[c]) value = outputs[results + k];
      graph->output(value);
    }
    return ir::GraphRef(graph);
  };
  const ir::GraphRef then_graph = branch(yes, count, "on_true");
  const ir::GraphRef else_graph = branch(no, count + around_yes.size(), "on_false");
  given.insert(given.begin(), test);
  const std::vector<Tensor> values =
      record_multi(ir::Op::cond, given, ir::NoAttrs{}, {then_graph, else_graph});
  for (std::size_t c = 0; c < cells.size(); ++c) assign_variable(cells[c], values[results + c]);
  Flat out{{}, yes.results.structure, yes.results.keys};
  out.tensors.assign(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(results));
  return out;
}

}  // namespace systole::recording
