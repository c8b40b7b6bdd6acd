#pragma once

// The workloads of the peers' suite, with its sizes, optimisers and starting values, so that speeds and
// results can be compared: T1 to T6 train a model, I1 to I3 run one forwards, K1 to K5 are single kernels.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "systole/base/literal.h"
#include "systole/runtime.h"

namespace systole::cli::bench {

struct Workload {
  std::string name, model, dtype;  // dtype: fp32, tf32, bf16 or fp16, the peers' spelling
  enum class Kind { train, infer, kernel } kind = Kind::train;
  std::int64_t batch = 0;  // of a kernel: a vector's elements, or the side of a square matrix
  runtime::Math math = runtime::Math::f32;  // of f32 products
  enum class Optimizer { sgd, adam, adamw } optimizer = Optimizer::adam;
  double lr = 1e-3, weight_decay = 0, beta2 = 0.999;
  std::int64_t vocabulary = 0, length = 0;        // of sequences
  std::int64_t embedding = 0, hidden = 0;         // of the lstm
  std::int64_t layers = 0, width = 0, heads = 0;  // of the gpt
};

DType dtype_of(const Workload& work);  // of arrays, and of what a model computes in

bool on_accelerator();  // whether the current device is one

// In the sizes for an accelerator or for a processor.
std::vector<Workload> workloads(bool accelerator);

// The workload in this dtype, or if empty in the one the peers run it in there.
Workload in_dtype(Workload work, const std::string& dtype, bool accelerator);

// Inputs and targets of one batch of a model, or of `stacked` batches with a leading axis when that is not 0;
// the first of these is the single one. Images are [batch, height, width, channels].
struct Batch {
  Literal x, y;
};
Batch batch_of(const Workload& work, std::int64_t stacked = 0);
struct BatchTypes {
  Type x, y;
};
BatchTypes batch_types(const Workload& work, std::int64_t stacked = 0);

double weight_deviation(const Workload& work);  // for data::hashed_parameter

}  // namespace systole::cli::bench
