// A KernelOp is a kernel_call, or a composite of one and its backward. The graphs of both are made once for
// inputs of the same types.

#include "systole/tensor/kernel_op.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "runtime/source_kernels.h"
#include "systole/base/error.h"
#include "systole/ir/composite.h"
#include "systole/ops.h"
#include "tensor/record.h"
#include "tensor/trace.h"

namespace systole {

namespace {

using recording::StandIn;
using recording::Traced;

std::string key_of(std::span<const Type> types) {
  std::string key;
  for (const Type& type : types) key += type.to_string() + ";";
  return key;
}

// A function of Tensors as a graph that knows nothing but its inputs.
ir::GraphRef closed(const std::string& where, const char* what, std::span<const Type> types,
                    const std::function<std::vector<Tensor>(std::span<const Tensor>)>& fn) {
  std::vector<StandIn> inputs;
  for (const Type& type : types) inputs.push_back({type});
  Traced traced = recording::trace(
      [&](const Flat& flat) {
        Flat out;
        out.tensors = fn(flat.tensors);
        return out;
      },
      inputs, {}, {.purpose = recording::Frame::Purpose::compile});
  if (!traced.captures.empty() || !traced.bound.empty() || !traced.assigned.empty())
    throw Error(ErrorKind::kUnsupported, where,
                fmt::format("the {} uses a Tensor or a Variable that it is not given", what),
                "a function of its arguments and of numbers: make it an input of the kernel");
  return std::make_shared<const ir::Graph>(std::move(traced.graph));
}

Ints ints_of(const Size3& size) {
  if (size.z != 1) return {size.x, size.y, size.z};
  if (size.y != 1) return {size.x, size.y};
  return {size.x};
}

}  // namespace

struct KernelOp::State {
  Options options;
  std::string where;

  // What a call with inputs of some types records.
  struct Made {
    ir::Op op;
    ir::Attrs attrs;
    std::vector<ir::GraphRef> graphs;
    std::vector<Type> results;
  };
  static constexpr std::size_t kMost = 256;  // kept; then they are made anew
  mutable std::mutex mutex;
  mutable std::map<std::string, std::shared_ptr<const Made>> made;

  std::shared_ptr<const Made> for_types(const std::vector<Type>& inputs) const;
  std::vector<Type> results_of(const std::vector<Type>& inputs) const;
  ir::KernelAttrs attrs_of(const KernelTypes& types) const;
  ir::GraphRef backward_of(const KernelTypes& types) const;
};

std::vector<Type> KernelOp::State::results_of(const std::vector<Type>& inputs) const {
  if (!options.results.rule_ && inputs.empty())
    throw Error(ErrorKind::kInvalidArgument, where, "the type of its result is not said",
                "an input, which it is like, or .results");
  std::vector<Type> results =
      options.results.rule_ ? options.results.rule_(inputs) : std::vector<Type>{inputs[0]};
  if (results.empty()) throw Error(ErrorKind::kInvalidArgument, where, "a kernel has a result or more");
  return results;
}

ir::KernelAttrs KernelOp::State::attrs_of(const KernelTypes& types) const {
  Defines defines = options.defines.rule_ ? options.defines.rule_(types) : Defines();
  ir::KernelAttrs attrs{.name = options.name, .results = {types.results.begin(), types.results.end()}};
  if (options.launch.rule_) {
    const Launch launch = options.launch.rule_(types);
    runtime::check_launch(where, launch);
    if (launch.stream.state() != nullptr)
      throw Error(ErrorKind::kInvalidArgument, where, "its launch has a stream",
                  "none: it runs where its graph does");
    const bool is_empty = launch.grid.x == 0 || launch.grid.y == 0 || launch.grid.z == 0;
    if (is_empty && options.zeroed)
      defines.emplace_back("S_EMPTY", "1");
    else if (is_empty && types.results[0].shape.count() > 0)
      throw Error(ErrorKind::kInvalidArgument, where, "its launch is empty and its result is not",
                  "a grid that writes every element", runtime::to_string(launch.grid));
    if (!is_empty) {
      attrs.grid = ints_of(launch.grid);
      attrs.block = ints_of(launch.block);
    }
    attrs.shared_bytes = static_cast<std::int64_t>(launch.shared_bytes);
    if (launch.items > 0) defines.emplace_back("S_ITEMS", std::to_string(launch.items));
  }
  if (options.zeroed) defines.emplace_back("S_ZEROED", "1");
  std::string head;
  for (const auto& [word, value] : defines) head += fmt::format("#define {} {}\n", word, value);
  const auto source = [&](const std::string& own) {
    const std::string& text = own.empty() ? options.sources.portable : own;
    if (text.empty()) return text;
    // Which of the sources it was is told by its words, unless a text of the device's has them by chance.
    const bool is_told = own.empty() || !runtime::is_portable_text(own);
    const std::string before = is_told ? head : head + "#define S_OWN_LANGUAGE 1\n";
    if (before.empty()) return text;
    return before + fmt::format("#line 1 \"{}\"\n", runtime::source_name({})) + text;
  };
  attrs.c = source(options.sources.c);
  attrs.cuda = source(options.sources.cuda);
  attrs.opencl = source(options.sources.opencl);
  return attrs;
}

// Its inputs are those of the kernel, its results, and a gradient for each float result; its outputs a
// gradient for each float input.
ir::GraphRef KernelOp::State::backward_of(const KernelTypes& types) const {
  std::vector<Type> seen(types.inputs.begin(), types.inputs.end());
  seen.insert(seen.end(), types.results.begin(), types.results.end());
  for (const Type& type : types.results)
    if (is_float(type.dtype)) seen.push_back(type);
  const std::size_t inputs = types.inputs.size(), results = types.results.size();
  const auto floats = static_cast<std::size_t>(std::count_if(
      types.inputs.begin(), types.inputs.end(), [](const Type& type) { return is_float(type.dtype); }));
  return closed(where, "backward", seen, [&](std::span<const Tensor> all) {
    const std::vector<Tensor> given = options.backward.rule_(
        {all.first(inputs), all.subspan(inputs, results), all.subspan(inputs + results)});
    if (given.size() != inputs && given.size() != floats)
      throw Error(ErrorKind::kInvalidArgument, where, "the backward gives a gradient for each input",
                  std::to_string(inputs), std::to_string(given.size()));
    std::vector<Tensor> wanted;
    for (std::size_t i = 0, next = 0; i < inputs; ++i) {
      const Type& type = types.inputs[i];
      if (!is_float(type.dtype)) {
        next += given.size() == inputs ? 1 : 0;
        continue;
      }
      const Tensor& gradient = given[next++];
      if (gradient.defined() && !(gradient.type() == type))
        throw Error(ErrorKind::kShape, where, fmt::format("the gradient of input {} is not of its type", i),
                    type.to_string(), gradient.type().to_string());
      wanted.push_back(gradient.defined() ? gradient : recording::filled(type, 0));
    }
    return wanted;
  });
}

std::shared_ptr<const KernelOp::State::Made> KernelOp::State::for_types(
    const std::vector<Type>& inputs) const {
  const std::string key = key_of(inputs);
  {
    const std::lock_guard lock(mutex);
    if (const auto known = made.find(key); known != made.end()) return known->second;
  }
  const std::vector<Type> results = results_of(inputs);
  const KernelTypes types{inputs, results};
  const ir::KernelAttrs attrs = attrs_of(types);
  ir::GraphRef fallback;
  if (options.fallback.body_) {
    fallback = closed(where, "fallback", inputs, options.fallback.body_);
    bool fits = fallback->outputs().size() == results.size();
    for (std::size_t i = 0; fits && i < results.size(); ++i) fits = fallback->output_type(i) == results[i];
    if (!fits)
      throw Error(ErrorKind::kShape, where, "the fallback gives other results than the kernel",
                  key_of(results));
  }
  const auto graphs = [](const ir::GraphRef& body) {
    return body ? std::vector<ir::GraphRef>{body} : std::vector<ir::GraphRef>();
  };
  std::shared_ptr<const Made> call;
  if (!options.backward.rule_ || inputs.empty()) {
    call = std::make_shared<const Made>(Made{ir::Op::kernel_call, attrs, graphs(fallback), results});
  } else {
    const ir::GraphRef forward = ir::make_graph("forward", inputs, [&](const ir::Values& in) {
      return ops::kernel_call(in[0].graph(), in, attrs, fallback);
    });
    call = std::make_shared<const Made>(Made{ir::Op::composite,
                                             ir::CompositeAttrs{"kernel_" + options.name, {}},
                                             {forward, backward_of(types)},
                                             results});
  }
  const std::lock_guard lock(mutex);
  if (made.size() >= kMost) made.clear();
  return made.try_emplace(key, std::move(call)).first->second;
}

KernelOp::KernelOp(Options options) {
  auto state = std::make_shared<State>();
  state->where = fmt::format("KernelOp {}", options.name);
  if (options.name.empty())
    throw Error(ErrorKind::kInvalidArgument, "KernelOp", "it has no name",
                "the name of the kernel in its sources");
  const KernelSources& s = options.sources;
  if (s.portable.empty() && s.cuda.empty() && s.opencl.empty() && s.c.empty() && !options.fallback.body_)
    throw Error(ErrorKind::kInvalidArgument, state->where, "there is nothing that it could run",
                "a source, or a fallback");
  state->options = std::move(options);
  state_ = std::move(state);
}

KernelOp::Gradient::Gradient(const KernelOp& op)
    : rule_([op](const Backward& b) {
        std::vector<Tensor> all(b.inputs.begin(), b.inputs.end());
        all.insert(all.end(), b.results.begin(), b.results.end());
        all.insert(all.end(), b.gradients.begin(), b.gradients.end());
        return op.call(all);
      }) {}

const std::string& KernelOp::name() const { return state_->options.name; }

std::vector<Tensor> KernelOp::call(std::span<const Tensor> inputs) const {
  std::vector<Type> types;
  for (const Tensor& x : inputs) types.push_back(recording::checked(x, state_->where).type);
  const std::shared_ptr<const State::Made> made = state_->for_types(types);
  return recording::record_multi(made->op, inputs, made->attrs, made->graphs);
}

Tensor KernelOp::only(std::vector<Tensor> results) const {
  if (results.size() != 1)
    throw Error(ErrorKind::kInvalidArgument, state_->where, "it has several results",
                "call({…}), which gives all of them", std::to_string(results.size()));
  return std::move(results[0]);
}

}  // namespace systole
