#include "systole/nn/models.h"

#include <string>
#include <vector>

#include "systole/base/error.h"
#include "systole/ops.h"
#include "systole/tensor/math.h"
#include "systole/tensor/neural.h"
#include "tensor/record.h"

namespace systole::nn::models {

namespace {

using recording::built;

Conv2d padded_conv(std::int64_t in, std::int64_t out) { return {in, out, {.kernel = 3, .padding = 1}}; }

}  // namespace

Mlp::Mlp(std::int64_t in, std::int64_t hidden, std::int64_t classes)
    : layers_(Linear(in, hidden), ReLU(), Linear(hidden, classes)) {}

KerasCnn::KerasCnn()
    : layers_(Conv2d(3, 32), ReLU(), MaxPool2d(), Conv2d(32, 64), ReLU(), MaxPool2d(), Conv2d(64, 64), ReLU(),
              Flatten{.channels_first = true}, Linear(1024, 64), ReLU(), Linear(64, 10)) {}

Cnn3::Cnn3()
    : layers_(padded_conv(3, 32), ReLU(), MaxPool2d(), padded_conv(32, 64), ReLU(), MaxPool2d(),
              padded_conv(64, 128), ReLU(), MaxPool2d(), Flatten{.channels_first = true}, Linear(2048, 128),
              ReLU(), Linear(128, 10)) {}

Bottleneck::Bottleneck(std::int64_t in, std::int64_t width, std::int64_t stride)
    : conv1_(in, width, {.kernel = 1, .bias = false}),
      bn1_(width),
      conv2_(width, width, {.kernel = 3, .stride = stride, .padding = 1, .bias = false}),
      bn2_(width),
      conv3_(width, 4 * width, {.kernel = 1, .bias = false}),
      bn3_(4 * width) {
  if (stride == 1 && in == 4 * width) return;
  short_.emplace(in, 4 * width, Conv2dOptions{.kernel = 1, .stride = stride, .bias = false});
  bns_.emplace(4 * width);
}

Tensor Bottleneck::forward(const Tensor& x) const {
  const Tensor inner = relu(bn2_(conv2_(relu(bn1_(conv1_(x))))));
  const Tensor y = bn3_(conv3_(inner));
  return observed(*this, relu(y + (short_ ? (*bns_)((*short_)(x)) : x)));
}

ResNet::ResNet(const ResNetOptions& options)
    : conv1_(3, options.stem, {.kernel = 7, .stride = 2, .padding = 3, .bias = false}),
      bn1_(options.stem),
      fc_(options.stages.empty() ? options.stem : 4 * options.stages.back().width, options.classes) {
  std::int64_t in = options.stem;
  for (const ResNetOptions::Stage& stage : options.stages)
    for (std::int64_t i = 0; i < stage.blocks; ++i) {
      blocks_.emplace_back(in, stage.width, i == 0 ? stage.stride : 1);
      in = 4 * stage.width;
    }
}

Tensor ResNet::forward(const Tensor& x) const {
  Tensor y = max_pool2d(relu(bn1_(conv1_(x))), 3, {.stride = 2, .padding = 1});
  for (const Bottleneck& block : blocks_) y = block.forward(y);
  return observed(*this, fc_(global_avg_pool(y)));
}

Tensor LstmClassifier::forward(const Tensor& words) const {
  const Tensor y = lstm(emb(words)).y;  // [batch, length, hidden]
  const Tensor last = built({y}, [](const ir::Values& v) {
    const std::int64_t length = v[0].shape()[1].value();
    const ir::Value step = ops::slice_axis(v[0], 1, length - 1, length);
    return ops::reshape(step, {step.shape()[0], step.shape()[2]});
  });
  return observed(*this, fc(last));
}

Tensor Gpt2Layer::forward(const Tensor& x) const {
  const Tensor all = qkv(ln1(x));  // [batch, length, 3 · width]
  const auto part = [&](std::int64_t i) {
    const Tensor third = built(
        {all}, [&](const ir::Values& v) { return ops::slice_axis(v[0], -1, i * width, (i + 1) * width); });
    return split_heads(third, heads);
  };
  const Tensor q = part(0), k = part(1), v = part(2);
  const Tensor attended = x + proj(merge_heads(attention(q, k, v, {.causal = true})));
  return observed(*this, attended + fc2(gelu(fc(ln2(attended)), GeluForm::tanh)));
}

std::vector<Gpt2Layer> Gpt2::make_layers(const Gpt2Options& options) {
  std::vector<Gpt2Layer> layers;
  for (std::int64_t i = 0; i < options.layers; ++i) layers.push_back(Gpt2Layer{options.width, options.heads});
  return layers;
}

Tensor Gpt2::forward(const Tensor& words) const {
  if (recording::checked(words, "Gpt2").type.shape.rank() != 2 || words.size(1) > options.length)
    throw Error(ErrorKind::kShape, "Gpt2", "the words",
                "[batch, length] of at most " + std::to_string(options.length) + " words",
                words.type().to_string());
  const std::int64_t length = words.size(1);
  const Tensor positions =
      built({wpe.weight}, [&](const ir::Values& v) { return ops::slice_axis(v[0], 0, 0, length); });
  Tensor x = wte(words) + positions;
  for (const Gpt2Layer& layer : h) x = layer.forward(x);
  return observed(*this, linear(lnf(x), wte.weight));
}

}  // namespace systole::nn::models
