#include "cli/bench/prepared.h"

#include <cmath>

#include "cli/bench/inference.h"
#include "cli/bench/kernels.h"
#include "cli/bench/training.h"
#include "systole/base/literal.h"
#include "systole/tensor/kernels.h"

namespace systole::cli::bench {

Prepared prepare(const Workload& work, const std::string& mode) {
  switch (work.kind) {
    case Workload::Kind::infer: return prepare_inference(work);
    case Workload::Kind::kernel: return prepare_kernel(work);
    case Workload::Kind::train: break;
  }
  return prepare_training(work, mode);
}

ir::Graph graph_of(const Workload& work) {
  switch (work.kind) {
    case Workload::Kind::infer: return forward_graph(work);
    case Workload::Kind::kernel: return kernel_graph(work);
    case Workload::Kind::train: break;
  }
  return step_graph(work);
}

void wait_for(const Tensor& x) {
  const DeviceName device = current_device();
  if (device.backend == "cuda")
    synchronize(device);
  else
    x.literal();
}

// On the host: the sum of many millions of elements wants more digits than a device may give.
Checksums checksums(const Tensor& x) {
  const Literal value = x.to(DType::f32).literal();
  Checksums sums;
  for (const float element : value.values<float>()) {
    const double exact = element;
    sums.magnitude += std::abs(exact);
    sums.square += exact * exact;
  }
  const double count = static_cast<double>(value.count());
  return {sums.magnitude / count, sums.square / count};
}

}  // namespace systole::cli::bench
