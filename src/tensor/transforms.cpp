// Transforms of traced functions: trace, change the graph, record it again where the caller stands.

#include "systole/tensor/transforms.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <unordered_map>

#include <fmt/format.h>

#include "systole/autodiff.h"
#include "systole/compile.h"
#include "systole/ir/composite.h"
#include "systole/ops.h"
#include "systole/tensor/shaping.h"
#include "tensor/gradient_marks.h"
#include "tensor/record.h"
#include "tensor/trace.h"

namespace systole::recording {

namespace {

std::vector<int> numbers(std::size_t count) {
  std::vector<int> all(count);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::vector<int> float_arguments(const Flat& arguments) {
  std::vector<int> floats;
  for (std::size_t i = 0; i < arguments.tensors.size(); ++i)
    if (is_float(arguments.tensors[i].dtype())) floats.push_back(static_cast<int>(i));
  return floats;
}

// Outputs from `first` on as constants to derivatives: what merely comes along must not be differentiated.
ir::Graph with_stopped_outputs(const ir::Graph& graph, std::size_t first) {
  ir::Graph out(graph.name());
  ir::Values inputs;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i)
    inputs.push_back(out.input(graph.input_name(i), graph.input_type(i)));
  const ir::Values results = ir::inline_graph(out, graph, inputs);
  for (std::size_t i = 0; i < results.size(); ++i)
    out.output(i < first ? results[i] : ir::add_composite("stop_gradient", results[i])[0]);
  return out;
}

void append(std::vector<Tensor>& to, std::span<const Tensor> more) {
  to.insert(to.end(), more.begin(), more.end());
}

std::vector<Tensor> chosen(const Flat& arguments, std::span<const int> which) {
  std::vector<Tensor> values;
  for (int i : which) values.push_back(arguments.tensors[static_cast<std::size_t>(i)]);
  return values;
}

// Which Variables a trace uses: their values reach something. `stand_ins` arguments are its first inputs.
class UsesOf {
 public:
  UsesOf(const Traced& traced, std::size_t stand_ins) : traced_(traced) {
    const ir::Graph& graph = traced.graph;
    std::vector<bool> reaches(static_cast<std::size_t>(graph.size()));  // by node
    const auto note = [&](ir::ValueId v) { reaches[static_cast<std::size_t>(v.node)] = true; };
    for (const ir::Output& out : graph.outputs()) note(out.value);
    for (const ir::Node& node : graph.nodes())
      std::for_each(node.operands.begin(), node.operands.end(), note);
    for (std::size_t i = 0; i < traced.bound.size(); ++i)
      bound_.emplace(traced.bound[i].cell.get(),
                     reaches[static_cast<std::size_t>(graph.inputs()[stand_ins + i])]);
  }

  bool operator()(const CellRef& cell) const {
    if (const auto found = bound_.find(cell.get()); found != bound_.end()) return found->second;
    const Tensor value = known_value(cell);
    return value.defined() &&
           std::any_of(traced_.captures.begin(), traced_.captures.end(),
                       [&](const Tensor& x) { return x.record().get() == value.record().get(); });
  }

 private:
  const Traced& traced_;
  std::unordered_map<const Cell*, bool> bound_;
};

// Throws when the function uses what nn::cast put in the place of one of the Variables, or none of them: an
// optimiser would be given zeros and train nothing, silently. One that is not used has a gradient of zeros.
void check_used(std::span<const Variable> variables, const UsesOf& uses, bool has_arguments) {
  const auto refuse_replaced = [](const Variable& v) {
    throw Error(
        ErrorKind::kInvalidArgument, "gradient",
        fmt::format("Variable \"{}\" was replaced by nn::cast, and the function does not use it", v.name()),
        "parameters(module) and an optimiser that are made after nn::cast");
  };
  bool is_any_used = has_arguments;
  for (const Variable& v : variables) {
    if (uses(v.cell())) {
      is_any_used = true;
      continue;
    }
    for (CellRef next = v.cell()->replaced_by.lock(); next; next = next->replaced_by.lock())
      if (uses(next)) refuse_replaced(v);
  }
  if (is_any_used) return;
  for (const Variable& v : variables)
    if (!v.cell()->replaced_by.expired()) refuse_replaced(v);
  throw Error(ErrorKind::kInvalidArgument, "gradient", "the function uses none of these Variables",
              "Variables that it reads: the parameters of the module that it calls",
              fmt::format("{}, the first is \"{}\"", variables.size(), variables[0].name()));
}

}  // namespace

Gradients value_and_grad(const tree::FlatFunction& fn, const Flat& arguments, const std::vector<int>& wrt,
                         std::span<const Variable> variables) {
  for (int i : wrt)
    if (const Type& type = checked(arguments.tensors[static_cast<std::size_t>(i)], "gradient").type;
        !is_float(type.dtype))
      throw Error(ErrorKind::kDType, "gradient", fmt::format("argument {} has no gradient", i), "a float",
                  type.to_string());
  if (wrt.empty() && variables.empty())
    throw Error(ErrorKind::kInvalidArgument, "gradient", "there is nothing to differentiate by",
                "at least one Variable or argument; parameters(module) leaves frozen ones out",
                "an empty list");
  const Traced traced = trace(fn, arguments, wrt, {.bind = variables});
  if (traced.results.tensors.empty())
    throw Error(ErrorKind::kShape, "gradient", "the function returns nothing", "a float scalar");
  const Type& loss = traced.graph.output_type(0);
  if (loss.shape.rank() != 0 || !is_float(loss.dtype))
    throw Error(ErrorKind::kShape, "gradient", "the function must return one number",
                "a float scalar; reduce with sum or mean", loss.to_string());
  if (!variables.empty()) check_used(variables, UsesOf{traced, wrt.size()}, !wrt.empty());
  const ir::Graph graph =
      autodiff::vjp(with_stopped_outputs(traced.graph, 1), numbers(wrt.size() + traced.bound.size()));
  std::vector<Tensor> inputs = chosen(arguments, wrt);
  append(inputs, surroundings(traced));
  // Cotangents: 1 for the loss; the others lead nowhere.
  inputs.push_back(filled(loss, 1));
  while (inputs.size() < graph.inputs().size()) inputs.push_back(filled(graph.input_type(inputs.size()), 0));
  const std::vector<Tensor> outputs = replay(graph, inputs);
  const std::size_t grads = outputs.size() - wrt.size() - traced.bound.size();
  Gradients result;
  result.value = committed(traced, std::span(outputs).first(grads));
  for (std::size_t i = 0; i < wrt.size(); ++i) result.grads.push_back(outputs[grads + i]);
  // A Variable may be listed more than once: tied parameters.
  std::unordered_map<const Cell*, std::size_t> place;
  for (std::size_t i = 0; i < traced.bound.size(); ++i) place.emplace(traced.bound[i].cell.get(), i);
  for (const Variable& v : variables) {
    const std::size_t at = place.at(v.cell().get());
    result.grads.push_back(outputs[grads + wrt.size() + at]);
    mark_gradient(result.grads.back(), v, inputs);
  }
  return result;
}

std::pair<Flat, FlatPullback> vjp(const tree::FlatFunction& fn, const Flat& arguments) {
  const std::vector<int> wrt = float_arguments(arguments);
  const Traced traced = trace(fn, arguments, wrt);
  const auto graph = std::make_shared<const ir::Graph>(
      autodiff::vjp(with_stopped_outputs(traced.graph, traced.results.tensors.size()), numbers(wrt.size())));
  // The way forward is recorded now and kept by the pullback, which records only the way back.
  auto forward = std::make_shared<Replay>(*graph);
  std::vector<Tensor> inputs = chosen(arguments, wrt);
  append(inputs, surroundings(traced));
  for (std::size_t i = 0; i < inputs.size(); ++i) forward->give(i, inputs[i]);
  forward->advance();
  const std::size_t outputs = traced.graph.outputs().size();
  std::vector<Tensor> values;
  for (std::size_t i = 0; i < outputs; ++i) values.push_back(forward->output(i));
  Flat value = committed(traced, values);

  std::vector<Type> types;  // of the results
  for (const Tensor& x : value.tensors) types.push_back(x.type());
  std::vector<Type> argument_types;
  for (const Tensor& x : arguments.tensors) argument_types.push_back(x.type());
  FlatPullback pullback = [=, first = inputs.size()](std::span<const Tensor> cotangents) {
    if (cotangents.size() != types.size())
      throw Error(ErrorKind::kInvalidArgument, "pullback", "one cotangent per result",
                  std::to_string(types.size()), std::to_string(cotangents.size()));
    Replay back = *forward;
    std::size_t next = first;
    for (std::size_t i = 0; i < types.size(); ++i) {
      if (!is_float(types[i].dtype)) continue;
      const Tensor given = as_dtype(cotangents[i], types[i].dtype);
      if (!(given.type() == types[i]))
        throw Error(ErrorKind::kShape, "pullback", fmt::format("cotangent {} is not of the result's type", i),
                    types[i].to_string(), given.type().to_string());
      back.give(next++, given);
    }
    for (; next < graph->inputs().size(); ++next) back.give(next, filled(graph->input_type(next), 0));
    back.advance();
    std::vector<Tensor> grads;
    for (const Type& type : argument_types) grads.push_back(filled(type, 0));
    for (std::size_t i = 0; i < wrt.size(); ++i)
      grads[static_cast<std::size_t>(wrt[i])] = back.output(outputs + i);
    return grads;
  };
  return {std::move(value), std::move(pullback)};
}

std::pair<Flat, std::vector<Tensor>> jvp(const tree::FlatFunction& fn, const Flat& arguments,
                                         std::span<const Tensor> tangents) {
  if (tangents.size() != arguments.tensors.size())
    throw Error(ErrorKind::kInvalidArgument, "jvp", "one tangent per argument",
                std::to_string(arguments.tensors.size()), std::to_string(tangents.size()));
  const std::vector<int> wrt = float_arguments(arguments);
  const Traced traced = trace(fn, arguments, wrt);
  const std::size_t results = traced.results.tensors.size();
  const ir::Graph graph = autodiff::jvp(with_stopped_outputs(traced.graph, results), numbers(wrt.size()));
  std::vector<Tensor> inputs = chosen(arguments, wrt);
  append(inputs, surroundings(traced));
  for (int i : wrt) {
    const Tensor& x = arguments.tensors[static_cast<std::size_t>(i)];
    const Tensor tangent = as_dtype(tangents[static_cast<std::size_t>(i)], x.dtype());
    if (!(tangent.type() == x.type()))
      throw Error(ErrorKind::kShape, "jvp", fmt::format("tangent {} is not of the argument's type", i),
                  x.type().to_string(), tangent.type().to_string());
    inputs.push_back(tangent);
  }
  const std::vector<Tensor> outputs = replay(graph, inputs);
  std::pair<Flat, std::vector<Tensor>> result;
  result.first = committed(traced, outputs);
  std::size_t next = traced.graph.outputs().size();
  for (std::size_t i = 0; i < results; ++i) {
    const Type& type = traced.graph.output_type(i);
    result.second.push_back(is_float(type.dtype) ? outputs[next++] : filled(type, 0));
  }
  return result;
}

Flat vmap(const tree::FlatFunction& fn, const Flat& arguments, const std::vector<int>& in_axes,
          int out_axis) {
  std::optional<Dim> size;
  std::vector<StandIn> stand_ins;
  std::vector<bool> batched;
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < arguments.tensors.size(); ++i) {
    const Tensor& x = arguments.tensors[i];
    checked(x, "vmap");
    batched.push_back(in_axes[i] != kNotMapped);
    if (!batched.back()) {
      stand_ins.push_back({x.type()});
      inputs.push_back(x);
      continue;
    }
    if (x.rank() == 0)
      throw Error(ErrorKind::kShape, "vmap", fmt::format("argument {} has no axis to map over", i),
                  "at least 1 axis, or kNotMapped", x.type().to_string());
    const std::int64_t axis = normalize_axis(in_axes[i], x.rank(), "vmap");
    const Dim mapped = x.shape()[static_cast<std::size_t>(axis)];
    if (size && !(*size == mapped))
      throw Error(ErrorKind::kShape, "vmap", fmt::format("argument {} has another number of entries", i),
                  size->to_string(), mapped.to_string());
    size = mapped;
    inputs.push_back(move_axis(x, axis, 0));
    Type type{x.dtype(), {}};
    for (int k = 1; k < x.rank(); ++k)
      type.shape.push_back(inputs.back().shape()[static_cast<std::size_t>(k)]);
    stand_ins.push_back({type});
  }
  if (!size) throw Error(ErrorKind::kInvalidArgument, "vmap", "no argument is mapped");
  const Traced traced = trace(fn, stand_ins, arguments);
  append(inputs, surroundings(traced));
  batched.resize(inputs.size(), false);
  const autodiff::Batched mapped = autodiff::vmap(traced.graph, batched, *size);
  std::vector<Tensor> outputs = replay(mapped.graph, inputs);
  const std::size_t results = traced.results.tensors.size();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (i >= results) {
      if (mapped.outputs[i])
        throw Error(ErrorKind::kUnsupported, "vmap",
                    fmt::format("Variable \"{}\" is assigned a value that differs from example to example",
                                traced.assigned[i - results].cell->name),
                    "a value that depends on no mapped argument");
      continue;
    }
    Tensor& y = outputs[i];
    if (!mapped.outputs[i]) {
      Shape shape{*size};
      for (const Dim& d : y.shape()) shape.push_back(d);
      y = built({y}, [&](const ir::Values& v) { return ops::broadcast_to(v[0], shape); });
    }
    y = move_axis(y, 0, normalize_axis(out_axis, y.rank(), "vmap"));
  }
  return committed(traced, outputs);
}

Tensor jacobian(const tree::FlatFunction& fn, const Tensor& x) {
  const auto [value, pullback] = vjp(fn, tree::flat(x));
  if (value.tensors.size() != 1)
    throw Error(ErrorKind::kInvalidArgument, "jacobian", "the function must return one Tensor");
  const Type type = value.tensors[0].type();
  const Dim count = type.shape.elements();
  Shape basis{count}, result = type.shape;
  for (const Dim& d : type.shape) basis.push_back(d);
  for (const Dim& d : x.shape()) result.push_back(d);
  const Tensor rows = record_built({}, [&](ir::Graph& graph, const ir::Values&) {
    const ir::Value i = ops::iota(graph, {DType::i32, {count}}, 0);
    return ir::Values{ops::reshape(ops::one_hot(i, count.value(), type.dtype), basis)};
  })[0];
  const tree::FlatFunction pull = [&](const Flat& row) { return Flat{pullback(row.tensors), {}, {}}; };
  const Tensor stacked = vmap(pull, tree::flat(rows), {0}, 0).tensors[0];
  return built({stacked}, [&](const ir::Values& v) { return ops::reshape(v[0], result); });
}

Flat autocast(const tree::FlatFunction& fn, const Flat& arguments, DType dtype) {
  const std::vector<int> all = numbers(arguments.tensors.size());
  const Traced traced = trace(fn, arguments, all);
  std::vector<Tensor> inputs = arguments.tensors;
  append(inputs, surroundings(traced));
  if (dtype == DType::f32)  // told to whoever casts what it is part of
    return committed(traced, record_multi(ir::Op::composite, inputs,
                                          ir::CompositeAttrs{std::string(passes::kFullPrecision), {}},
                                          {std::make_shared<const ir::Graph>(traced.graph)}));
  return committed(traced, replay(passes::autocast(traced.graph, dtype), inputs));
}

Flat no_grad(const tree::FlatFunction& fn) {
  const Traced traced = trace(fn, {}, std::span<const int>());
  return committed(traced, replay(with_stopped_outputs(traced.graph, 0), surroundings(traced)));
}

Flat remat(const tree::FlatFunction& fn, const Flat& arguments) {
  const Traced traced = trace(fn, arguments, numbers(arguments.tensors.size()));
  std::vector<Tensor> inputs = arguments.tensors;
  append(inputs, surroundings(traced));
  return committed(traced, record_multi(ir::Op::composite, inputs, ir::CompositeAttrs{"remat", {}},
                                        {std::make_shared<const ir::Graph>(traced.graph)}));
}

Flat custom_gradient(const tree::FlatFunction& forward, const tree::FlatFunction& backward,
                     const Flat& arguments, const std::size_t& results) {
  const std::size_t count = arguments.tensors.size();
  if (count == 0) throw Error(ErrorKind::kInvalidArgument, "custom_gradient", "a function of no Tensor");
  const Traced body = trace(forward, arguments, numbers(count));
  if (!body.assigned.empty())
    throw Error(ErrorKind::kUnsupported, "custom_gradient",
                "the function assigns Variable \"" + body.assigned[0].cell->name + "\"",
                "a function of its arguments");
  // The way back sees the residuals and the cotangents of the results.
  std::vector<StandIn> seen;
  const std::size_t outputs = body.results.tensors.size();
  for (std::size_t i = results; i < outputs; ++i) seen.push_back({body.graph.output_type(i)});
  for (std::size_t i = 0; i < results; ++i) {
    if (!is_float(body.graph.output_type(i).dtype))
      throw Error(ErrorKind::kDType, "custom_gradient", fmt::format("result {} has no gradient", i),
                  "a float", body.graph.output_type(i).to_string());
    seen.push_back({body.graph.output_type(i)});
  }
  const Traced back = trace(backward, seen, {});
  if (!back.assigned.empty())
    throw Error(ErrorKind::kUnsupported, "custom_gradient",
                "the backward function assigns Variable \"" + back.assigned[0].cell->name + "\"",
                "a function of residuals and cotangents");
  const std::vector<int> wrt = float_arguments(arguments);
  if (back.results.tensors.size() != count && back.results.tensors.size() != wrt.size())
    throw Error(ErrorKind::kInvalidArgument, "custom_gradient",
                "the backward function returns a gradient for each argument", std::to_string(count),
                std::to_string(back.results.tensors.size()));

  // Operands: the arguments, what forward captured, what backward captured.
  std::vector<Tensor> operands = arguments.tensors;
  append(operands, surroundings(body));
  const std::size_t own = operands.size();
  append(operands, surroundings(back));
  std::vector<Type> types;
  for (const Tensor& x : operands) types.push_back(x.type());
  const ir::GraphRef body_graph = ir::make_graph("forward", types, [&](const ir::Values& x) {
    return ir::inline_graph(x[0].graph(), body.graph, std::span(x).first(own));
  });
  // Inputs of the way back: operands, results, cotangents of the float results.
  const std::size_t operand_count = types.size();
  std::vector<std::size_t> cotangent_at(outputs);
  for (std::size_t i = 0; i < outputs; ++i) types.push_back(body.graph.output_type(i));
  for (std::size_t i = 0; i < outputs; ++i)
    if (is_float(body.graph.output_type(i).dtype)) {
      cotangent_at[i] = types.size();
      types.push_back(body.graph.output_type(i));
    }
  const ir::GraphRef back_graph = ir::make_graph("backward", types, [&](const ir::Values& x) {
    ir::Values given(x.begin() + static_cast<std::ptrdiff_t>(operand_count + results),
                     x.begin() + static_cast<std::ptrdiff_t>(operand_count + outputs));
    for (std::size_t i = 0; i < results; ++i) given.push_back(x[cotangent_at[i]]);
    given.insert(given.end(), x.begin() + static_cast<std::ptrdiff_t>(own),
                 x.begin() + static_cast<std::ptrdiff_t>(operand_count));
    const ir::Values grads = ir::inline_graph(x[0].graph(), back.graph, given);
    ir::Values by_operand;
    std::size_t next = 0;
    for (std::size_t i = 0; i < operand_count; ++i) {
      const bool differentiable = is_float(types[i].dtype);
      if (i < count && (differentiable || grads.size() == count)) {
        const ir::Value grad = grads[next++];
        if (!differentiable) continue;
        if (!(grad.type() == types[i]))
          throw Error(ErrorKind::kShape, "custom_gradient",
                      fmt::format("the gradient of argument {} is not of its type", i), types[i].to_string(),
                      grad.type().to_string());
        by_operand.push_back(grad);
      } else if (differentiable) {
        by_operand.push_back(ops::full(x[0].graph(), types[i], 0));
      }
    }
    return by_operand;
  });
  const std::vector<Tensor> values = record_multi(
      ir::Op::composite, operands, ir::CompositeAttrs{"custom_gradient", {}}, {body_graph, back_graph});
  Flat value{{}, body.results.structure, body.results.keys};
  value.tensors.assign(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(results));
  return value;
}

}  // namespace systole::recording

namespace systole {

Tensor stop_gradient(const Tensor& x) {
  return recording::built({x},
                          [](const ir::Values& v) { return ir::add_composite("stop_gradient", v[0])[0]; });
}

}  // namespace systole
