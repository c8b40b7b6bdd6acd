#pragma once

// compile(fn): a function of Tensors as one program. The first call with arguments of new types runs fn once
// on stand-ins and records what it does (a trace); every call runs the compiled program: one launch, whatever
// is in it.
//
//   auto step = compile([&](const Tensor& x, const Tensor& y) { …; opt.update(grads); return loss; });
//   Tensor loss = step(x, y);            // one step
//   Tensor losses = step.many(xs, ys);   // a step per entry of the leading axis, one launch
//
// What fn does at trace time happens once: printing, C++ conditions, numbers from the host (constants). What
// may change from call to call is an argument or a Variable. Captured Tensors keep the value they had.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeindex>
#include <utility>
#include <vector>

#include "systole/base/export.h"
#include "systole/tensor/mesh.h"
#include "systole/tensor/tree.h"

namespace systole {

struct FunctionOptions {
  std::string device;  // empty: where the arguments and Variables are
  std::string name = "main";
  std::optional<DeviceMesh> mesh;     // run on all its devices
  std::optional<runtime::Math> math;  // of f32 products; unset: as SYSTOLE_MATH says
  std::optional<bool> deterministic;  // unset: as set_deterministic() or SYSTOLE_DETERMINISTIC say
  // Count indices that lie outside in every call, and throw kInvalidArgument naming the op; Variables stay as
  // they were. Each call then waits for its numbers. Unset: as SYSTOLE_CHECK says when the function is made.
  std::optional<bool> check_indices = {};
  // Refuse a call whose results, or new values of Variables, hold NaN or infinite numbers: kInvalidArgument
  // names the op where they began, and the Variables stay as they were. What a loss of one's own needs to
  // have the Trainer's guard. Variables are kept twice, and each call waits for its numbers.
  bool check_finite = false;
};

namespace recording {

// The part of Compiled that knows no types. `types` are those of the arguments: one list of Tensors may be
// several things.
class SYSTOLE_API CompiledFunction {
 public:
  explicit CompiledFunction(FunctionOptions options);

  struct Call {
    const tree::FlatFunction& fn;
    const Flat& arguments;
    std::type_index types;
  };
  Flat call(const Call& call) const;
  Flat many(const Call& call) const;
  Flat many_at(const Call& call, const Tensor& indices) const;
  Flat repeat(const Call& call, std::int64_t steps) const;
  ir::Graph graph(const Call& call) const;
  std::int64_t traces() const;
  void forget() const;

 private:
  void check_joins() const;
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace recording

// Copies share their traces and programs. Threads may call one at the same time: fn itself runs only while
// tracing, one trace at a time.
template <class F>
class Compiled {
 public:
  explicit Compiled(F fn, FunctionOptions options = {}) : fn_(std::move(fn)), state_(std::move(options)) {}

  // Runs the program; inside another trace or transform, the function itself joins that one, which must be
  // of the same mesh.
  template <class... A>
  auto operator()(const A&... arguments) const {
    return run<A...>([&](const auto& call) { return state_.call(call); }, arguments...);
  }
  // Runs once per entry of the arguments' leading axis, in order, as one program; results are stacked.
  template <class... A>
  auto many(const A&... arguments) const {
    return run<A...>([&](const auto& call) { return state_.many(call); }, arguments...);
  }
  // As many(), with step i on rows indices[i] of the data, which stays where it is. indices: [steps, batch].
  template <class... A>
  auto many_at(const Tensor& indices, const A&... data) const {
    return run<A...>([&](const auto& call) { return state_.many_at(call, indices); }, data...);
  }
  // Runs `steps` times with the same arguments, as one program; results are stacked.
  template <class... A>
  auto repeat(std::int64_t steps, const A&... arguments) const {
    return run<A...>([&](const auto& call) { return state_.repeat(call, steps); }, arguments...);
  }
  // The traced program for arguments of these types, as a graph.
  template <class... A>
  ir::Graph graph(const A&... arguments) const {
    return with_call<A...>([&](const auto& call) { return state_.graph(call); }, arguments...);
  }
  std::int64_t traces() const { return state_.traces(); }  // how often fn was traced
  void forget() const { state_.forget(); }  // drops all traces: the next call sees captured values anew

 private:
  template <class... A, class Do>
  auto with_call(Do&& act, const A&... arguments) const {
    tree::check_callable<F, A...>();
    const Flat flat = tree::flat(static_cast<const tree::Stored<A>&>(tree::Stored<A>(arguments))...);
    return act(recording::CompiledFunction::Call{tree::flat_function<F, A...>(fn_), flat,
                                                 typeid(std::tuple<tree::Stored<A>...>)});
  }
  template <class... A, class Do>
  auto run(Do&& act, const A&... arguments) const {
    return tree::result<tree::ResultOf<F, A...>>(with_call<A...>(act, arguments...));
  }

  mutable F fn_;
  recording::CompiledFunction state_;
};

// A compiled function by its signature, for members: Function<Tensor(const Tensor&)> step{…};
template <class Signature>
using Function = Compiled<std::function<Signature>>;

namespace recording {
SYSTOLE_API void check_one_mesh(const FunctionOptions& options);
}

template <class F>
  requires(!std::is_convertible_v<const F&, const ir::Graph&>)
Compiled<F> compile(F fn, FunctionOptions options = {}) {
  return Compiled<F>(std::move(fn), std::move(options));
}

// For all devices of a mesh: mesh.h.
template <class F>
  requires(!std::is_convertible_v<const F&, const ir::Graph&>)
Compiled<F> compile(F fn, DeviceMesh mesh, FunctionOptions options = {}) {
  recording::check_one_mesh(options);
  options.mesh = std::move(mesh);
  return Compiled<F>(std::move(fn), std::move(options));
}

}  // namespace systole
