#include "cli/bench/inference.h"

#include <memory>
#include <utility>

#include "cli/bench/models.h"
#include "systole/tensor/compiled.h"
#include "systole/tensor/tensor.h"

namespace systole::cli::bench {

namespace {

template <class Model>
Prepared forwards(const Workload& work, Model made) {
  const auto model = std::make_shared<Model>(std::move(made));
  set_hashed(work, parameters(*model));
  nn::eval(*model);
  Tensor x(batch_of(work).x);
  if (const DType dtype = dtype_of(work); dtype != DType::f32) {  // weights and images are kept in it
    nn::cast(*model, dtype);
    if (x.dtype() == DType::f32) x = x.to(dtype);
  }
  x.eval();
  const auto forward =
      compile([model](const Tensor& input) { return model->forward(input); }, {.math = work.math});

  Prepared prepared;
  prepared.checksums = checksums(forward(x));
  prepared.run = [forward, x](std::int64_t calls) {
    Tensor y;
    for (std::int64_t i = 0; i < calls; ++i) y = forward(x);
    if (y.defined()) wait_for(y);
  };
  return prepared;
}

}  // namespace

Prepared prepare_inference(const Workload& work) {
  return with_model(work, [&](auto model) { return forwards(work, std::move(model)); });
}

}  // namespace systole::cli::bench
