#pragma once

// Residual networks.
//
//   models::ResNet net = models::ResNet::of(50, {.classes = 1000});   // torchvision's resnet50
//   load_state_dict(net, io::load_safetensors("resnet50.safetensors"));
//   nn::replace_head(net, 10);

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "systole/base/export.h"
#include "systole/nn/convolution.h"
#include "systole/nn/layers.h"
#include "systole/nn/module.h"

namespace systole::nn::models {

// A basic block is two 3×3 convolutions of `width` channels; a bottleneck is 1×1, 3×3 and 1×1 of width, width
// and 4 · width channels.
enum class ResNetBlock { basic, bottleneck };
// Where a bottleneck has its stride: in the first convolution (the paper), or in the 3×3 one (torchvision).
// Basic blocks have no such choice.
enum class ResNetVersion { v1, v1_5 };
// torchvision's names are layer1.0.conv1.weight, layer1.0.downsample.0.weight …; flat ones
// blocks.0.conv1.weight, blocks.0.short.weight, blocks.0.bns.weight …
enum class ResNetNames { flat, torchvision };

// The defaults make ResNet-50 v1.5.
struct ResNetOptions {
  struct Stage {
    std::int64_t width, blocks, stride;
  };
  std::vector<Stage> stages = {{64, 3, 1}, {128, 4, 2}, {256, 6, 2}, {512, 3, 2}};
  std::int64_t stem = 64;
  std::int64_t classes = 1000;
  std::int64_t channels = 3;  // of the image
  ResNetBlock block = ResNetBlock::bottleneck;
  ResNetVersion version = ResNetVersion::v1_5;
  ResNetNames names = ResNetNames::flat;
  bool small_images = false;  // a stem of one 3×3 convolution without pooling, for 32×32
};

class SYSTOLE_API ResidualBlock {
 public:
  ResidualBlock(std::int64_t in, const ResNetOptions::Stage& stage, std::int64_t stride,
                const ResNetOptions& options);
  Tensor forward(const Tensor& x) const;
  std::int64_t channels() const { return convolutions_.back().weight.size(0); }  // of the output

  template <class V>
  static void visit(ResidualBlock& self, V&& v) {
    for (std::size_t i = 0; i < self.convolutions_.size(); ++i) {
      v("conv" + std::to_string(i + 1), self.convolutions_[i]);
      v("bn" + std::to_string(i + 1), self.norms_[i]);
    }
    const bool flat = self.names_ == ResNetNames::flat;
    v(flat ? "short" : "downsample.0", self.short_);
    v(flat ? "bns" : "downsample.1", self.short_norm_);
  }

 private:
  std::vector<Conv2d> convolutions_;
  std::vector<BatchNorm> norms_;
  std::optional<Conv2d> short_;  // where the shape changes
  std::optional<BatchNorm> short_norm_;
  ResNetNames names_;
};

class SYSTOLE_API ResNet {
 public:
  explicit ResNet(const ResNetOptions& options = {});
  // ResNet-18, -34, -50, -101 or -152 with torchvision's names and initial weights; of the options, stages,
  // block and names do not count.
  static ResNet of(int depth, ResNetOptions options = {});
  Tensor forward(const Tensor& x) const;  // [batch, height, width, channels] to [batch, classes]
  Tensor operator()(const Tensor& x) const { return forward(x); }

  template <class V>
  static void visit(ResNet& self, V&& v) {
    v("conv1", self.conv1_);
    v("bn1", self.bn1_);
    for (std::size_t i = 0; i < self.blocks_.size(); ++i) v(self.block_name(i), self.blocks_[i]);
    v("fc", self.fc_);
  }

 private:
  std::string block_name(std::size_t i) const;  // "blocks.3", or "layer2.0"

  Conv2d conv1_;
  BatchNorm bn1_;
  std::vector<ResidualBlock> blocks_;
  Linear fc_;
  std::vector<std::int64_t> stage_blocks_;
  ResNetNames names_;
  bool small_images_;
};

}  // namespace systole::nn::models
