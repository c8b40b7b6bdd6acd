#include "systole/nn/normalization.h"

#include <string>

#include <fmt/format.h>

#include "nn/parameter.h"
#include "systole/base/error.h"
#include "systole/nn/init.h"
#include "systole/tensor/neural.h"
#include "tensor/record.h"

namespace systole::nn {

GroupNorm::GroupNorm(std::int64_t groups, std::int64_t channels, GroupNormOptions options)
    : groups(groups), channels(channels), eps(options.eps) {
  if (groups < 1 || channels % groups != 0)
    throw Error(ErrorKind::kInvalidArgument, "GroupNorm", "the channels do not divide into the groups",
                fmt::format("a multiple of {}", groups), std::to_string(channels));
  if (!options.affine) return;
  weight = new_parameter({channels});
  bias = new_parameter({channels});
  init::ones(weight);
}

Tensor GroupNorm::forward(const Tensor& x) const {
  const Shape& shape = recording::checked(x, "GroupNorm").type.shape;
  if (shape.rank() < 2 || shape[shape.size() - 1] != Dim(channels))
    throw Error(ErrorKind::kShape, "GroupNorm", "x", fmt::format("[batch, …, {}]", channels),
                x.type().to_string());
  if (weight.defined()) return observed(*this, group_norm(x, groups, weight, bias, eps));
  const Type type{recording::as_float(x).dtype(), {channels}};
  return observed(*this, group_norm(x, groups, recording::filled(type, 1), recording::filled(type, 0), eps));
}

RMSNorm::RMSNorm(std::int64_t width, RMSNormOptions options)
    : weight(new_parameter({width})), eps(options.eps) {
  init::ones(weight);
}

Tensor RMSNorm::forward(const Tensor& x) const {
  recording::checked(x, "RMSNorm");
  return observed(*this, rms_norm(x, weight, eps.value_or(epsilon(recording::as_float(x).dtype()))));
}

}  // namespace systole::nn
