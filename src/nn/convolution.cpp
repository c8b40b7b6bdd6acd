#include "systole/nn/convolution.h"

#include <string>
#include <string_view>

#include "nn/parameter.h"
#include "systole/base/error.h"
#include "systole/nn/init.h"

namespace systole::nn {

namespace {

// The sizes of a window, one per spatial axis; throws for a kernel or groups that do not fit.
Ints window_of(std::string_view where, std::size_t spatial, std::int64_t in, std::int64_t out,
               const PerAxis& given, std::int64_t groups) {
  Ints kernel = given.values();
  if (kernel.size() == 1) kernel = Ints(spatial, kernel[0]);
  if (kernel.size() != spatial || groups < 1 || in % groups != 0 || out % groups != 0)
    throw Error(ErrorKind::kInvalidArgument, std::string(where), "the options do not fit",
                std::string(spatial == 1 ? "a kernel of one size" : "a kernel of one or two sizes") +
                    ", channels that divide into the groups",
                std::to_string(in) + " to " + std::to_string(out) + " channels, " + std::to_string(groups) +
                    " groups, a kernel of " + std::to_string(kernel.size()) + " sizes");
  return kernel;
}

Variable new_weight(std::int64_t first, std::int64_t second, const Ints& window) {
  Shape shape{first, second};
  for (const std::int64_t size : window) shape.push_back(size);
  return new_parameter(std::move(shape));
}

// PyTorch's numbers; also for transposed ones, whose fan is by name of the layout, not by what is summed.
void start(const Variable& weight, Variable& bias, bool has_bias, std::int64_t out) {
  const std::int64_t fan = init::fans(weight.shape()).in;
  init_uniform_by_fan(weight, fan);
  if (!has_bias) return;
  bias = new_parameter({out});
  init_uniform_by_fan(bias, fan);
}

Tensor defined_or_none(const Variable& bias) { return bias.defined() ? bias.value() : Tensor(); }

}  // namespace

Conv2d::Conv2d(std::int64_t in, std::int64_t out, Conv2dOptions given)
    : options{given.stride, given.padding, given.dilation, given.groups} {
  const Ints window = window_of("Conv2d", 2, in, out, given.kernel, given.groups);
  weight = new_weight(out, in / given.groups, window);
  start(weight, bias, given.bias, out);
}

Tensor Conv2d::forward(const Tensor& x) const {
  return observed(*this, conv2d(x, weight, defined_or_none(bias), options));
}

Conv1d::Conv1d(std::int64_t in, std::int64_t out, Conv1dOptions given)
    : options{given.stride, given.padding, given.dilation, given.groups} {
  const Ints window = window_of("Conv1d", 1, in, out, given.kernel, given.groups);
  weight = new_weight(out, in / given.groups, window);
  start(weight, bias, given.bias, out);
}

Tensor Conv1d::forward(const Tensor& x) const {
  return observed(*this, conv1d(x, weight, defined_or_none(bias), options));
}

DepthwiseConv2d::DepthwiseConv2d(std::int64_t channels, DepthwiseConv2dOptions given)
    : options{given.stride, given.padding, given.dilation, channels} {
  const std::int64_t out = channels * given.multiplier;
  const Ints window = window_of("DepthwiseConv2d", 2, channels, out, given.kernel, channels);
  weight = new_weight(out, 1, window);
  start(weight, bias, given.bias, out);
}

Tensor DepthwiseConv2d::forward(const Tensor& x) const {
  return observed(*this, conv2d(x, weight, defined_or_none(bias), options));
}

ConvTranspose2d::ConvTranspose2d(std::int64_t in, std::int64_t out, ConvTranspose2dOptions given)
    : options{given.stride, given.padding, given.output_padding, given.dilation, given.groups} {
  const Ints window = window_of("ConvTranspose2d", 2, in, out, given.kernel, given.groups);
  weight = new_weight(in, out / given.groups, window);
  start(weight, bias, given.bias, out);
}

Tensor ConvTranspose2d::forward(const Tensor& x) const {
  return observed(*this, conv_transpose2d(x, weight, defined_or_none(bias), options));
}

ConvTranspose1d::ConvTranspose1d(std::int64_t in, std::int64_t out, ConvTranspose1dOptions given)
    : options{given.stride, given.padding, given.output_padding, given.dilation, given.groups} {
  const Ints window = window_of("ConvTranspose1d", 1, in, out, given.kernel, given.groups);
  weight = new_weight(in, out / given.groups, window);
  start(weight, bias, given.bias, out);
}

Tensor ConvTranspose1d::forward(const Tensor& x) const {
  return observed(*this, conv_transpose1d(x, weight, defined_or_none(bias), options));
}

}  // namespace systole::nn
