#include "cli/bench/workloads.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "data/counter_hash.h"
#include "systole/tensor/tensor.h"

namespace systole::cli::bench {

namespace {

constexpr std::uint32_t kInputSeed = 1, kTargetSeed = 2;
constexpr std::int64_t kVector = std::int64_t{1} << 26;  // elements of what memory bounds
constexpr std::int64_t kSide = 8192;                     // a matrix of as many

Workload workload(std::string name, std::string model, std::int64_t batch, std::string dtype = "fp32") {
  Workload work;
  work.name = std::move(name);
  work.model = std::move(model);
  work.dtype = std::move(dtype);
  work.batch = batch;
  return work;
}

Workload resnet50(bool accelerator) {
  Workload work = workload("T4", "resnet50", accelerator ? 256 : 8, accelerator ? "bf16" : "fp32");
  work.optimizer = Workload::Optimizer::sgd;
  work.lr = 0.02;
  work.weight_decay = 1e-4;
  return work;
}

Workload lstm(bool accelerator) {
  Workload work = workload("T5", "lstm", accelerator ? 64 : 32);
  work.vocabulary = 10'000;
  work.length = accelerator ? 128 : 64;
  work.embedding = accelerator ? 128 : 64;
  work.hidden = accelerator ? 256 : 128;
  return work;
}

Workload gpt(bool accelerator) {
  Workload work = workload("T6", "gpt", accelerator ? 16 : 4, accelerator ? "bf16" : "fp32");
  work.optimizer = Workload::Optimizer::adamw;
  work.lr = 3e-4;
  work.weight_decay = 0.1;
  work.beta2 = 0.95;
  work.vocabulary = 50'304;
  work.length = accelerator ? 1024 : 128;
  work.layers = accelerator ? 12 : 4;
  work.width = accelerator ? 768 : 256;
  work.heads = accelerator ? 12 : 4;
  return work;
}

// The same model, run forwards.
Workload inference(std::string name, const Workload& model, std::int64_t batch) {
  Workload work = model;
  work.name = std::move(name);
  work.kind = Workload::Kind::infer;
  work.batch = batch;
  return work;
}

Workload kernel(std::string name, std::string model, std::int64_t size, std::string dtype = "fp32") {
  Workload work = workload(std::move(name), std::move(model), size, std::move(dtype));
  work.kind = Workload::Kind::kernel;
  return work;
}

Shape image_shape(const Workload& work) {
  if (work.model == "mlp") return {784};
  if (work.model == "resnet50") return {224, 224, 3};
  return {32, 32, 3};
}

// Every row moved one to the left, its first element to the end: the words to predict.
Literal next_words(const Literal& words) {
  Literal next = words;
  const std::span<std::int32_t> values = next.mutable_values<std::int32_t>();
  const std::size_t length = static_cast<std::size_t>(words.dims().back());
  for (std::size_t row = 0; row < values.size(); row += length)
    std::rotate(values.begin() + static_cast<std::ptrdiff_t>(row),
                values.begin() + static_cast<std::ptrdiff_t>(row + 1),
                values.begin() + static_cast<std::ptrdiff_t>(row + length));
  return next;
}

}  // namespace

bool on_accelerator() {
  const DeviceName device = current_device();
  return device.backend == "cuda" || device.backend == "tpu" ||
         (device.backend == "pjrt" && device.plugin != "cpu");
}

Workload in_dtype(Workload work, const std::string& dtype, bool accelerator) {
  if (!dtype.empty())
    work.dtype = dtype;
  else if (accelerator && work.dtype == "fp32" && work.kind != Workload::Kind::kernel)
    work.dtype = "tf32";  // as the peers
  // What is f32 in a model of small floats may be rounded too.
  const bool tf32 = work.dtype == "tf32" || (dtype_of(work) != DType::f32 && accelerator);
  work.math = tf32 ? runtime::Math::tf32 : runtime::Math::f32;
  return work;
}

DType dtype_of(const Workload& work) {
  if (work.dtype == "bf16") return DType::bf16;
  return work.dtype == "fp16" ? DType::f16 : DType::f32;
}

std::vector<Workload> workloads(bool accelerator) {
  std::vector<Workload> all = {workload("T1", "mlp", 64), workload("T1", "mlp", 512),
                               workload("T2", "cnn2", 64)};
  if (accelerator) all.push_back(workload("T2", "cnn2", 512, "bf16"));
  all.push_back(workload("T3", "cnn3", 128));
  all.push_back(resnet50(accelerator));
  all.push_back(lstm(accelerator));
  all.push_back(gpt(accelerator));

  for (const std::int64_t batch : {1, 64}) all.push_back(inference("I1", workload("", "mlp", 0), batch));
  for (const std::int64_t batch : {1, accelerator ? 64 : 16})
    all.push_back(inference("I2", resnet50(accelerator), batch));
  all.push_back(inference("I3", lstm(accelerator), 1));

  all.push_back(kernel("K1", "vector_add", kVector));
  all.push_back(kernel("K2", "matmul", accelerator ? kSide : 2048, accelerator ? "bf16" : "fp32"));
  all.push_back(kernel("K3", "gelu_chain", kVector));
  all.push_back(kernel("K4", "softmax", kSide));
  all.push_back(kernel("K5", "layernorm", kSide));
  return all;
}

BatchTypes batch_types(const Workload& work, std::int64_t stacked) {
  Shape targets;
  if (stacked != 0) targets.push_back(stacked);
  targets.push_back(work.batch);
  Shape inputs = targets;
  const bool words = work.vocabulary != 0;
  if (words)
    inputs.push_back(work.length);
  else
    for (const Dim& d : image_shape(work)) inputs.push_back(d);
  return {{words ? DType::i32 : DType::f32, inputs}, {DType::i32, work.model == "gpt" ? inputs : targets}};
}

Batch batch_of(const Workload& work, std::int64_t stacked) {
  const auto [x, y] = batch_types(work, stacked);
  if (work.vocabulary != 0) {
    const Literal words =
        data::hashed_integers(kInputSeed, x.shape, static_cast<std::uint32_t>(work.vocabulary));
    return {words, work.model == "gpt" ? next_words(words) : data::hashed_integers(kTargetSeed, y.shape, 10)};
  }
  return {data::hashed_uniform(kInputSeed, x),
          data::hashed_integers(kTargetSeed, y.shape, work.model == "resnet50" ? 1000 : 10)};
}

double weight_deviation(const Workload& work) { return work.model == "gpt" ? 0.02 : 0; }

}  // namespace systole::cli::bench
