#include "cli/bench/end_to_end.h"

#include "data/counter_hash.h"
#include "systole/data/sets.h"
#include "systole/nn/models.h"
#include "systole/optim.h"
#include "systole/tensor/math.h"
#include "systole/train/trainer.h"

namespace systole::cli::bench {

namespace {

constexpr std::int64_t kEpochs = 5;
constexpr double kMean = 0.1307, kDeviation = 0.3081;  // of MNIST's pixels

// The same numbers as the peers', made of the file's bytes in the step: a quarter of the memory to gather.
Tensor prepared(const Tensor& x) { return (x.reshape({-1, 784}).to(DType::f32) / 255 - kMean) / kDeviation; }

}  // namespace

EndToEnd run_end_to_end(const std::filesystem::path& mnist, std::int64_t batch, runtime::Math math) {
  const data::TrainTest sets = data::mnist(mnist);
  nn::models::Mlp model;
  for (auto [name, variable] : parameters(model))
    variable.assign(Tensor(data::hashed_parameter(name, variable.type(), 0)));
  training::Trainer trainer(model, optim::Adam(model),
                            {.metrics = {"accuracy"}, .prepare = prepared, .math = math});
  const training::FitResult result =
      trainer.fit(sets.train, {.epochs = kEpochs, .batch = batch, .drop_last = true, .verbose = 0});
  return {result["seconds"], trainer.evaluate(sets.test)["accuracy"], sets.test.size()};
}

}  // namespace systole::cli::bench
