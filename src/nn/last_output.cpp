#include "nn/last_output.h"

#include "systole/ops.h"
#include "tensor/record.h"

namespace systole::nn {

Tensor last_output(const Tensor& y, const Tensor& h, bool bidirectional) {
  if (!bidirectional)
    return recording::built({y}, [](const ir::Values& v) {
      const std::int64_t length = v[0].shape()[1].value();
      const ir::Value step = ops::slice_axis(v[0], 1, length - 1, length);
      return ops::reshape(step, {step.shape()[0], step.shape()[2]});
    });
  return recording::built({h}, [](const ir::Values& v) {
    const std::int64_t rows = v[0].shape()[0].value();
    const ir::Value last = ops::transpose(ops::slice_axis(v[0], 0, rows - 2, rows), {1, 0, 2});
    return ops::reshape(last, {last.shape()[0], last.shape()[1] * last.shape()[2]});
  });
}

}  // namespace systole::nn
