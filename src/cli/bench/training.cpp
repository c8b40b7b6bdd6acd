#include "cli/bench/training.h"

#include <memory>
#include <utility>

#include "data/counter_hash.h"
#include "systole/base/error.h"
#include "systole/nn/losses.h"
#include "systole/nn/models.h"
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

// Model and optimiser live as long as the step that uses them.
template <class Model>
Prepared train(const Workload& work, const std::string& mode, Model made) {
  auto model = std::make_shared<Model>(std::move(made));
  const Parameters all = parameters(*model);
  for (std::size_t i = 0; i < all.size(); ++i) {
    auto [name, variable] = all[i];
    variable.assign(Tensor(data::hashed_parameter(name, variable.type(), weight_deviation(work))));
  }
  const bool half = work.dtype == "bf16", many = mode == kManySteps;
  auto loss_of = [model](const Tensor& x, const Tensor& y) { return cross_entropy(model->forward(x), y); };
  auto update = [=, optimizer = make_optimizer(work, all)](const Tensor& x, const Tensor& y) {
    auto [loss, grads] = value_and_grad(
        [&] { return half ? autocast(loss_of, DType::bf16)(x, y) : loss_of(x, y); }, all.variables());
    optimizer->update(grads);
    return loss;
  };
  auto step = std::make_shared<Compiled<decltype(update)>>(compile(update));
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

Prepared prepare(const Workload& work, const std::string& mode) {
  namespace models = nn::models;
  if (work.model == "mlp") return train(work, mode, models::Mlp());
  if (work.model == "cnn2") return train(work, mode, models::KerasCnn());
  if (work.model == "cnn3") return train(work, mode, models::Cnn3());
  if (work.model == "resnet50") return train(work, mode, models::ResNet());
  if (work.model == "lstm")
    return train(work, mode,
                 models::LstmClassifier{
                     {.vocabulary = work.vocabulary, .embedding = work.embedding, .hidden = work.hidden}});
  if (work.model == "gpt")
    return train(work, mode,
                 models::Gpt2{{.layers = work.layers,
                               .width = work.width,
                               .heads = work.heads,
                               .vocabulary = work.vocabulary,
                               .length = work.length}});
  throw Error(ErrorKind::kNotFound, work.name, "no such model", "", work.model);
}

}  // namespace systole::cli::bench
