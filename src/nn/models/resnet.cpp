#include "systole/nn/models/resnet.h"

#include <cmath>
#include <string>

#include "systole/base/error.h"
#include "systole/nn/init.h"
#include "systole/tensor/math.h"
#include "systole/tensor/neural.h"

namespace systole::nn::models {

namespace {

Conv2dOptions window(std::int64_t size, std::int64_t stride = 1) {
  return {.kernel = size, .stride = stride, .padding = size / 2, .bias = false};
}

std::int64_t expansion(const ResNetOptions& options) {
  return options.block == ResNetBlock::bottleneck ? 4 : 1;
}

}  // namespace

ResidualBlock::ResidualBlock(std::int64_t in, const ResNetOptions::Stage& stage, std::int64_t stride,
                             const ResNetOptions& options)
    : names_(options.names) {
  const std::int64_t width = stage.width, out = expansion(options) * width;
  const auto add = [&](std::int64_t from, std::int64_t to, const Conv2dOptions& conv) {
    convolutions_.emplace_back(from, to, conv);
    norms_.emplace_back(to);
  };
  if (options.block == ResNetBlock::basic) {
    add(in, width, window(3, stride));
    add(width, width, window(3));
  } else {
    const bool first = options.version == ResNetVersion::v1;
    add(in, width, window(1, first ? stride : 1));
    add(width, width, window(3, first ? 1 : stride));
    add(width, out, window(1));
  }
  if (stride == 1 && in == out) return;
  short_.emplace(in, out, window(1, stride));
  short_norm_.emplace(out);
}

Tensor ResidualBlock::forward(const Tensor& x) const {
  Tensor y = norms_[0](convolutions_[0](x));
  for (std::size_t i = 1; i < convolutions_.size(); ++i) y = norms_[i](convolutions_[i](relu(y)));
  return observed(*this, relu(y + (short_ ? (*short_norm_)((*short_)(x)) : x)));
}

ResNet::ResNet(const ResNetOptions& options)
    : conv1_(options.channels, options.stem, options.small_images ? window(3) : window(7, 2)),
      bn1_(options.stem),
      fc_(options.stages.empty() ? options.stem : expansion(options) * options.stages.back().width,
          options.classes),
      names_(options.names),
      small_images_(options.small_images) {
  std::int64_t in = options.stem;
  for (const ResNetOptions::Stage& stage : options.stages) {
    stage_blocks_.push_back(stage.blocks);
    for (std::int64_t i = 0; i < stage.blocks; ++i) {
      blocks_.emplace_back(in, stage, i == 0 ? stage.stride : 1, options);
      in = blocks_.back().channels();
    }
  }
}

ResNet ResNet::of(int depth, ResNetOptions options) {
  struct Depth {
    int depth;
    ResNetBlock block;
    std::int64_t blocks[4];
  };
  static constexpr Depth kDepths[] = {{18, ResNetBlock::basic, {2, 2, 2, 2}},
                                      {34, ResNetBlock::basic, {3, 4, 6, 3}},
                                      {50, ResNetBlock::bottleneck, {3, 4, 6, 3}},
                                      {101, ResNetBlock::bottleneck, {3, 4, 23, 3}},
                                      {152, ResNetBlock::bottleneck, {3, 8, 36, 3}}};
  for (const Depth& known : kDepths) {
    if (known.depth != depth) continue;
    options.block = known.block;
    options.names = ResNetNames::torchvision;
    options.stages.clear();
    for (std::int64_t i = 0; i < 4; ++i)
      options.stages.push_back({options.stem << i, known.blocks[i], i == 0 ? 1 : 2});
    ResNet net(options);
    // As torchvision starts: the variance of gradients is kept.
    for (const auto& [name, variable] : parameters(net))
      if (variable.rank() == 4)
        init::normal(variable, 0, std::sqrt(2.0 / static_cast<double>(init::fans(variable.shape()).out)));
    return net;
  }
  throw Error(ErrorKind::kInvalidArgument, "ResNet", "the depth", "18, 34, 50, 101 or 152",
              std::to_string(depth));
}

std::string ResNet::block_name(std::size_t i) const {
  if (names_ == ResNetNames::flat) return "blocks." + std::to_string(i);
  std::size_t stage = 0;
  while (i >= static_cast<std::size_t>(stage_blocks_[stage]))
    i -= static_cast<std::size_t>(stage_blocks_[stage++]);
  return "layer" + std::to_string(stage + 1) + "." + std::to_string(i);
}

Tensor ResNet::forward(const Tensor& x) const {
  Tensor y = relu(bn1_(conv1_(x)));
  if (!small_images_) y = max_pool2d(y, 3, {.stride = 2, .padding = 1});
  for (const ResidualBlock& block : blocks_) y = block.forward(y);
  return observed(*this, fc_(global_avg_pool(y)));
}

}  // namespace systole::nn::models
