#include "systole/nn/convolution.h"

#include <string>

#include "nn/parameter.h"
#include "systole/base/error.h"
#include "systole/nn/init.h"

namespace systole::nn {

Conv2d::Conv2d(std::int64_t in, std::int64_t out, Conv2dOptions given)
    : options{given.stride, given.padding, given.dilation, given.groups} {
  Ints kernel = given.kernel.values();
  if (kernel.size() == 1) kernel.push_back(kernel[0]);
  if (kernel.size() != 2 || given.groups < 1 || in % given.groups != 0 || out % given.groups != 0)
    throw Error(ErrorKind::kInvalidArgument, "Conv2d", "the options do not fit",
                "a kernel of one or two sizes, channels that divide into the groups",
                std::to_string(in) + " to " + std::to_string(out) + " channels, " +
                    std::to_string(given.groups) + " groups, a kernel of " + std::to_string(kernel.size()) +
                    " sizes");
  weight = new_parameter({out, in / given.groups, kernel[0], kernel[1]});
  const std::int64_t fan = init::fans(weight.shape()).in;
  init_uniform_by_fan(weight, fan);
  if (!given.bias) return;
  bias = new_parameter({out});
  init_uniform_by_fan(bias, fan);
}

Tensor Conv2d::forward(const Tensor& x) const {
  return observed(*this, conv2d(x, weight, bias.defined() ? bias.value() : Tensor(), options));
}

}  // namespace systole::nn
