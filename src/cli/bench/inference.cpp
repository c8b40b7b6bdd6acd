#include "cli/bench/inference.h"

#include <memory>
#include <utility>

#include "cli/bench/models.h"
#include "systole/tensor/compiled.h"
#include "systole/tensor/tensor.h"

namespace systole::cli::bench {

namespace {

// The model in the workload's dtype, in which weights and images are kept, compiled.
template <class Model>
auto forward_of(const Workload& work, const std::shared_ptr<Model>& model) {
  nn::eval(*model);
  if (const DType dtype = dtype_of(work); dtype != DType::f32) nn::cast(*model, dtype);
  return compile([model](const Tensor& input) { return model->forward(input); }, {.math = work.math});
}

DType input_dtype(const Workload& work, DType dtype) { return dtype == DType::f32 ? dtype_of(work) : dtype; }

template <class Model>
Prepared forwards(const Workload& work, Model made) {
  const auto model = std::make_shared<Model>(std::move(made));
  set_hashed(work, parameters(*model));
  const auto forward = forward_of(work, model);
  Tensor x(batch_of(work).x);
  x = x.to(input_dtype(work, x.dtype()));
  x.eval();

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

ir::Graph forward_graph(const Workload& work) {
  Type type = batch_types(work).x;
  type.dtype = input_dtype(work, type.dtype);
  return with_model(work, [&]<class Model>(Model made) {
    return forward_of(work, std::make_shared<Model>(std::move(made))).graph(Tensor(Literal(type)));
  });
}

}  // namespace systole::cli::bench
