#include "cli/bench/training.h"

#include <memory>
#include <utility>
#include <vector>

#include "cli/bench/models.h"
#include "systole/nn/losses.h"
#include "systole/nn/module.h"
#include "systole/optim.h"
#include "systole/tensor/compiled.h"
#include "systole/tensor/tensor.h"
#include "systole/tensor/transforms.h"

namespace systole::cli::bench {

namespace {

constexpr std::size_t kFirstLosses = 3;

std::shared_ptr<optim::Optimizer> make_optimizer(const Workload& work, const Parameters& parameters) {
  switch (work.optimizer) {
    case Workload::Optimizer::sgd:
      return std::make_shared<optim::SGD>(
          parameters, optim::SGDOptions{.lr = work.lr, .momentum = 0.9, .weight_decay = work.weight_decay});
    case Workload::Optimizer::adam:
      return std::make_shared<optim::Adam>(parameters,
                                           optim::AdamOptions{.lr = work.lr, .beta2 = work.beta2});
    case Workload::Optimizer::adamw: break;
  }
  return std::make_shared<optim::AdamW>(
      parameters, optim::AdamWOptions{.lr = work.lr, .beta2 = work.beta2, .weight_decay = work.weight_decay});
}

// Model, optimiser and what one step does with them.
template <class Model>
struct Training {
  std::shared_ptr<Model> model;
  Parameters all;

  Training(Model made) : model(std::make_shared<Model>(std::move(made))), all(parameters(*model)) {}

  // A function of inputs and targets that holds everything it needs.
  auto step(const Workload& work) const {
    const DType dtype = dtype_of(work);
    auto loss_of = [model = model](const Tensor& x, const Tensor& y) {
      return cross_entropy(model->forward(x), y);
    };
    // So small a scale that no first step is lost to finding it.
    const optim::LossScaleOptions scaling{.initial = 1024};
    return [=, all = all, optimizer = make_optimizer(work, all),
            scale = std::make_shared<optim::LossScale>(scaling)](const Tensor& x, const Tensor& y) {
      const auto loss_now = [&] {
        return dtype == DType::f32 ? loss_of(x, y) : autocast(loss_of, dtype)(x, y);
      };
      if (dtype == DType::f16) {
        auto [loss, grads, finite] = scale->value_and_grad(loss_now, all.variables());
        optimizer->update(grads, finite);
        scale->update(finite);
        return loss;
      }
      auto [loss, grads] = value_and_grad(loss_now, all.variables());
      optimizer->update(grads);
      return loss;
    };
  }
};

template <class Model>
Prepared train(const Workload& work, const std::string& mode, Model made) {
  const Training<Model> training(std::move(made));
  set_hashed(work, training.all);
  const bool many = mode == kManySteps;
  auto update = training.step(work);
  auto step = std::make_shared<Compiled<decltype(update)>>(compile(update, {.math = work.math}));
  const Batch batch = batch_of(work, many ? kStackedBatches : 0);
  const Tensor x(batch.x), y(batch.y);

  Prepared prepared;
  prepared.steps_per_call = many ? kStackedBatches : 1;
  if (many) {
    const std::vector<float> losses = step->many(x, y).template to_vector<float>();
    prepared.first_losses.assign(losses.begin(), losses.begin() + kFirstLosses);
  } else {
    for (std::size_t i = 0; i < kFirstLosses; ++i)
      prepared.first_losses.push_back((*step)(x, y).template item<double>());
  }
  prepared.run = [step, x, y, many](std::int64_t calls) {
    Tensor losses;
    for (std::int64_t i = 0; i < calls; ++i) losses = many ? step->many(x, y) : (*step)(x, y);
    if (losses.defined()) losses.literal();  // waits for it
  };
  return prepared;
}

}  // namespace

Prepared prepare_training(const Workload& work, const std::string& mode) {
  return with_model(work, [&](auto model) { return train(work, mode, std::move(model)); });
}

ir::Graph step_graph(const Workload& work, const FunctionOptions& options) {
  const BatchTypes types = batch_types(work);
  return with_model(work, [&](auto model) {
    const Training training(std::move(model));
    return compile(training.step(work), options).graph(Tensor(Literal(types.x)), Tensor(Literal(types.y)));
  });
}

ir::Graph step_graph(const Workload& work, const DeviceMesh& mesh) {
  return step_graph(work, {.mesh = mesh});
}
ir::Graph step_graph(const Workload& work) { return step_graph(work, FunctionOptions{}); }

}  // namespace systole::cli::bench
