#include "tensor/trace.h"

#include <fmt/format.h>

#include "systole/base/error.h"
#include "tensor/record.h"

namespace systole::recording {

namespace {

Traced finish(Frame& frame, Flat results) {
  Traced traced;
  std::vector<Tensor> outputs = results.tensors;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (!outputs[i].defined())
      throw Error(ErrorKind::kInvalidArgument, "traced function",
                  fmt::format("result {} is an undefined Tensor", i));
  for (const Frame::Binding& binding : frame.bindings()) {
    if (binding.placeholder.defined()) traced.bound.push_back(binding);
    if (!binding.assigned) continue;
    traced.assigned.push_back(binding);
    outputs.push_back(binding.current);
  }
  Frame::Cut cut = frame.cut(outputs);
  traced.graph = std::move(cut.graph);
  traced.captures = std::move(cut.captures);
  traced.settings = frame.settings();
  traced.results = std::move(results);
  frame.leave();
  return traced;
}

void bind_all(Frame& frame, std::span<const Variable> variables) {
  for (const Variable& v : variables) {
    if (!v.defined()) throw Error(ErrorKind::kInvalidArgument, "gradient", "an undefined Variable");
    frame.bind(v.cell());
  }
}

}  // namespace

Traced trace(const tree::FlatFunction& fn, const Flat& arguments, std::span<const int> stand_in,
             const TraceOptions& options) {
  Frame frame(options.variables, options.purpose);
  Flat given = arguments;
  for (const Tensor& x : arguments.tensors) checked(x, "argument of a traced function");
  for (int i : stand_in) {
    Tensor& x = given.tensors[static_cast<std::size_t>(i)];
    x = frame.placeholder(x.type());
  }
  bind_all(frame, options.bind);
  return finish(frame, fn(given));
}

Traced trace(const tree::FlatFunction& fn, std::span<const StandIn> arguments, const Flat& structure,
             const TraceOptions& options) {
  Frame frame(options.variables, options.purpose);
  Flat given;
  given.structure = structure.structure;
  given.keys = structure.keys;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    given.tensors.push_back(frame.placeholder(arguments[i].type));
    given.tensors.back().record()->weak = arguments[i].weak;
  }
  bind_all(frame, options.bind);
  try {
    return finish(frame, fn(given));
  } catch (...) {
    if (options.unfinished != nullptr) {
      options.unfinished->settings = frame.settings();
      for (const Frame::Binding& binding : frame.bindings())
        options.unfinished->bound.push_back({binding.cell, {}, {}});
    }
    throw;
  }
}

std::vector<Tensor> surroundings(const Traced& traced) {
  std::vector<Tensor> values;
  for (const Frame::Binding& binding : traced.bound) values.push_back(read_variable(binding.cell));
  values.insert(values.end(), traced.captures.begin(), traced.captures.end());
  return values;
}

Flat committed(const Traced& traced, std::span<const Tensor> outputs) {
  Flat results{{}, traced.results.structure, traced.results.keys};
  const std::size_t count = traced.results.tensors.size();
  results.tensors.assign(outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(count));
  for (std::size_t i = 0; i < traced.assigned.size(); ++i)
    assign_variable(traced.assigned[i].cell, outputs[count + i]);
  return results;
}

}  // namespace systole::recording
