#pragma once

// Large batches in small pieces: gradients of several micro-batches are added up, and the optimiser steps
// once for all of them, with their mean.
//
//   optim::Accumulation accumulation(parameters(m), 4);
//   auto step = compile([&](const Tensor& x, const Tensor& y) {
//     auto [loss, grads] = value_and_grad([&] { return loss_of(m, x, y); }, parameters(m));
//     auto [mean, due] = accumulation.add(grads);
//     optim::clip_by_norm(mean, 1.0);
//     opt.update(mean, due);
//     return loss;
//   });
//
// The sums and the count are Variables and every choice a select, so that the step stays one launch, and
// step.many(…) may hold any number of micro-batches.

#include <cstdint>
#include <span>
#include <vector>

#include "systole/base/export.h"
#include "systole/nn/module.h"
#include "systole/tensor/tensor.h"
#include "systole/tensor/variable.h"

namespace systole::optim {

struct Accumulated {
  std::vector<Tensor> grads;  // the mean of what was added since the last time it was due
  Tensor due;                 // one bool: whether these were all
};

class SYSTOLE_API Accumulation {
 public:
  Accumulation(Parameters parameters, std::int32_t batches);
  template <nn::Module M>
  Accumulation(const M& module, std::int32_t batches) : Accumulation(nn::parameters(module), batches) {}

  // Once per micro-batch. When they are due, the sums begin anew.
  Accumulated add(std::span<const Tensor> grads);
  // The same where `apply` (one bool) holds; a micro-batch that overflowed is left out and not counted.
  Accumulated add(std::span<const Tensor> grads, const Tensor& apply);

  std::int32_t batches() const { return batches_; }
  Variable count() const { return count_; }  // of micro-batches in the sums, i32
  void reset();                              // forgets what was added
  const Parameters& state() const {
    return state_;
  }  // "accumulation.count", "accumulation.sum.fc1.weight", …

 private:
  Accumulated add_where(std::span<const Tensor> grads, const Tensor* apply);

  Parameters parameters_;
  std::int32_t batches_;
  Variable count_;
  std::vector<Variable> sums_;  // small floats in f32
  Parameters state_;
};

}  // namespace systole::optim
