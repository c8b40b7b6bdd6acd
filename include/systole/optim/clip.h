#pragma once

// Limits on gradients, before an optimiser sees them. They work in place on the list that value_and_grad
// gave, and in compiled steps.
//
//   auto [loss, grads] = value_and_grad(…);
//   Tensor norm = optim::clip_by_norm(grads, 1.0);
//   opt.update(grads);

#include <span>
#include <vector>

#include "systole/base/export.h"
#include "systole/tensor/tensor.h"

namespace systole::optim {

// The norm of all gradients as one vector; small floats are summed in f32. `order` as in norm().
SYSTOLE_API Tensor global_norm(std::span<const Tensor> grads, double order = 2);

// Scales all gradients by one factor so that their norm is at most `max_norm`; returns the norm they had.
// torch.nn.utils.clip_grad_norm_ has the same numbers; Keras says global_clipnorm.
SYSTOLE_API Tensor clip_by_norm(std::vector<Tensor>& grads, double max_norm, double order = 2);
// Scales each gradient by itself; returns the norm that all had. Keras's clipnorm.
SYSTOLE_API Tensor clip_each_by_norm(std::vector<Tensor>& grads, double max_norm);
// Every element to [-limit, limit]; returns the norm that all had.
SYSTOLE_API Tensor clip_by_value(std::vector<Tensor>& grads, double limit);

}  // namespace systole::optim
