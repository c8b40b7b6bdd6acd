#pragma once

// A kernel as an op on Tensors: what torch.library.custom_op, torch.autograd.Function with a CUDA kernel in
// it, and cpp_extension.load_inline are used for.
//
//   const KernelOp swish_grad({.name = "swish_grad", .sources = {.portable = …}});
//   const KernelOp swish({
//       .name = "swish",
//       .sources = {.portable = R"(
//         S_ENTRY swish(S_GLOBAL const float* x, S_GLOBAL float* y) {
//           if (S_THREAD < S_COUNT) y[S_THREAD] = x[S_THREAD] / (1 + s_exp(-x[S_THREAD]));
//         })"},
//       .backward = [=](const KernelOp::Backward& b) { return swish_grad(b.inputs[0], b.gradients[0]); },
//   });
//   Tensor y = swish(x);                                            // x of any shape
//   Tensor dx = grad([&](const Tensor& x) { return sum(swish(x)); })(x);
//
// The kernel's parameters are pointers to the inputs, const, then to the results, and nothing else; it writes
// every element of them, unless they are `zeroed`. S_COUNT is the number of elements of the first result;
// other numbers come by `defines`. It is compiled when a graph that has it is, and is part of that graph: of
// a compiled function's CUDA Graph, of derivatives, of timelines and of saved models. So it must give the
// same results for the same inputs and may not be relied on for anything else: calls whose results nobody
// uses do not happen.
//
// A KernelOp is a value; threads may share it.

#include <array>
#include <concepts>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "systole/base/export.h"
#include "systole/base/literal.h"
#include "systole/runtime/launch.h"
#include "systole/tensor/tensor.h"

namespace systole {

// Types of a call, for rules.
struct KernelTypes {
  std::span<const Type> inputs;
  std::span<const Type> results;
};

class SYSTOLE_API KernelOp {
 public:
  using Defines = std::vector<std::pair<std::string, std::string>>;

  // The types of the results: a list, or a function of the inputs' types that gives one or a list.
  class Results {
   public:
    Results() = default;  // one, like the first input
    Results(std::initializer_list<Type> types) : Results(std::vector<Type>(types)) {}
    Results(std::vector<Type> types) : rule_([types](std::span<const Type>) { return types; }) {}
    template <class F>
      requires std::is_invocable_v<const F&, std::span<const Type>>
    Results(F rule)
        : rule_([rule = std::move(rule)](std::span<const Type> inputs) {
            if constexpr (std::is_convertible_v<decltype(rule(inputs)), Type>)
              return std::vector<Type>{rule(inputs)};
            else
              return std::vector<Type>(rule(inputs));
          }) {}

   private:
    friend class KernelOp;
    std::function<std::vector<Type>(std::span<const Type>)> rule_;
  };

  // How it is launched: as a Launch, or as a function of the types. A thread for each element of the first
  // result unless it is given. Streams are the graph's affair.
  class LaunchRule {
   public:
    LaunchRule() = default;
    LaunchRule(const Launch& launch) : rule_([launch](const KernelTypes&) { return launch; }) {}
    template <class F>
      requires std::is_invocable_r_v<Launch, const F&, const KernelTypes&>
    LaunchRule(F rule) : rule_(std::move(rule)) {}

   private:
    friend class KernelOp;
    std::function<Launch(const KernelTypes&)> rule_;
  };

  // #defines before the source: a list, or a function of the types that gives one.
  class DefineRule {
   public:
    DefineRule() = default;
    DefineRule(std::initializer_list<Defines::value_type> all) : DefineRule(Defines(all)) {}
    DefineRule(Defines all) : rule_([all](const KernelTypes&) { return all; }) {}
    template <class F>
      requires std::is_invocable_r_v<Defines, const F&, const KernelTypes&>
    DefineRule(F rule) : rule_(std::move(rule)) {}

   private:
    friend class KernelOp;
    std::function<Defines(const KernelTypes&)> rule_;
  };

  // What the way back sees. `gradients` are those of the float results, in order.
  struct Backward {
    std::span<const Tensor> inputs, results, gradients;
  };
  // The gradients of the inputs: a Tensor, or a list with one for each input or for each float one. A Tensor
  // that is undefined stands for zeros. Or a KernelOp of inputs, results and gradients, in this order.
  class Gradient {
   public:
    Gradient() = default;  // none: derivatives go through `fallback`, or are refused
    template <class F>
      requires std::is_invocable_v<const F&, const Backward&>
    Gradient(F rule)
        : rule_([rule = std::move(rule)](const Backward& b) {
            if constexpr (std::is_convertible_v<decltype(rule(b)), Tensor>)
              return std::vector<Tensor>{rule(b)};
            else
              return std::vector<Tensor>(rule(b));
          }) {}
    Gradient(const KernelOp& op);

   private:
    friend class KernelOp;
    std::function<std::vector<Tensor>(const Backward&)> rule_;
  };

  // The same numbers by Tensor ops: for devices that the sources have nothing for, for vmap, and for
  // derivatives where there is no `backward`.
  class Fallback {
   public:
    Fallback() = default;
    template <class F>
      requires std::is_invocable_v<const F&, std::span<const Tensor>>
    Fallback(F body)
        : body_([body = std::move(body)](std::span<const Tensor> inputs) {
            if constexpr (std::is_convertible_v<decltype(body(inputs)), Tensor>)
              return std::vector<Tensor>{body(inputs)};
            else
              return std::vector<Tensor>(body(inputs));
          }) {}

   private:
    friend class KernelOp;
    std::function<std::vector<Tensor>(std::span<const Tensor>)> body_;
  };

  struct Options {
    std::string name{};       // of the kernel in every source
    KernelSources sources{};  // a device takes its own language, else the portable one
    Results results{};
    bool zeroed = false;  // the results are zeros when the kernel begins, for one that adds to them
    LaunchRule launch{};
    DefineRule defines{};
    Gradient backward{};
    Fallback fallback{};
  };

  // Throws kInvalidArgument without a name, or with neither a source nor a fallback.
  explicit KernelOp(Options options);
  const std::string& name() const;

  // The result of a kernel that has one; kInvalidArgument for others.
  template <std::convertible_to<Tensor>... X>
  Tensor operator()(const X&... inputs) const {
    const std::array<Tensor, sizeof...(X)> all{Tensor(inputs)...};
    return only(call(all));
  }
  // All results.
  std::vector<Tensor> call(std::span<const Tensor> inputs) const;
  std::vector<Tensor> call(std::initializer_list<Tensor> inputs) const {
    return call(std::span(inputs.begin(), inputs.size()));
  }

 private:
  struct State;
  Tensor only(std::vector<Tensor> results) const;
  std::shared_ptr<const State> state_;
};

}  // namespace systole
