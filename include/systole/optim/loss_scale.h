#pragma once

// Training in f16, where a gradient below 6e-8 is zero and one above 65504 infinite. The loss is multiplied
// by a scale before it is differentiated and the gradients are divided by it; a step whose gradients overflow
// changes nothing but the scale, which is halved, and grows again after many steps without.
//
//   optim::LossScale scale;
//   auto step = compile([&](const Tensor& x, const Tensor& y) {
//     auto [loss, grads, finite] = scale.value_and_grad(
//         [&] { return autocast(loss_of, DType::f16)(x, y); }, parameters(m));
//     opt.update(grads, finite);
//     scale.update(finite);
//     return loss;
//   });
//
// The state is Variables and every choice a select, so that the step stays one launch and the host never
// waits. PyTorch's GradScaler has the same numbers.

#include <concepts>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "systole/base/export.h"
#include "systole/nn/module.h"
#include "systole/tensor/transforms.h"
#include "systole/tensor/variable.h"

namespace systole::optim {

struct LossScaleOptions {
  double initial = 65536;
  double growth = 2;             // by which the scale is multiplied …
  std::int32_t interval = 2000;  // … after so many finite steps in a row
  double backoff = 0.5;          // by which it is multiplied after another; it stays at least 1
};

// What f gave, gradients that are unscaled (of small floats in f32), and whether all of them are finite.
template <class R>
struct ScaledGradients {
  R value;
  std::vector<Tensor> grads;
  Tensor finite;
};

class SYSTOLE_API LossScale {
 public:
  explicit LossScale(LossScaleOptions options = {});

  // As systole::value_and_grad, through the scaled loss.
  template <std::invocable F>
  auto value_and_grad(F&& f, std::span<const Variable> variables) const {
    using R = tree::ResultOf<F>;
    auto both = systole::value_and_grad(
        [&] {
          R value = f();
          Tensor scaled = scaled_first(tree::flat(value));
          return std::pair<Tensor, R>(std::move(scaled), std::move(value));
        },
        variables);
    std::vector<Tensor> grads = unscaled(both.grads);
    Tensor finite = all_finite(grads);
    return ScaledGradients<R>{std::move(both.value.second), std::move(grads), std::move(finite)};
  }

  // Once per step, after the optimisers.
  void update(const Tensor& finite);

  Variable scale() const { return scale_; }
  const Parameters& state() const { return state_; }  // "loss_scale.scale", "loss_scale.finite_steps"

  static Tensor all_finite(std::span<const Tensor> tensors);  // one bool

 private:
  Tensor scaled_first(const Flat& value) const;
  std::vector<Tensor> unscaled(std::span<const Tensor> grads) const;

  LossScaleOptions options_;
  Variable scale_, finite_steps_;
  Parameters state_;
};

}  // namespace systole::optim
