#pragma once

// Models that benchmarks, tests and examples share. Parameters have the names, order and layouts of the same
// models in PyTorch; images are channels-last.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "systole/base/export.h"
#include "systole/nn/convolution.h"
#include "systole/nn/layers.h"
#include "systole/nn/module.h"
#include "systole/nn/recurrent.h"
#include "systole/nn/transformer.h"

namespace systole::nn::models {

// 784-128-10 with ReLU: [batch, 784] to [batch, 10].
class SYSTOLE_API Mlp {
 public:
  explicit Mlp(std::int64_t in = 784, std::int64_t hidden = 128, std::int64_t classes = 10);
  Tensor forward(const Tensor& x) const { return layers_(x); }

  template <class V>
  static void visit(Mlp& self, V&& v) {
    self.layers_.visit(self.layers_, v);
  }

 private:
  Sequential<Linear, ReLU, Linear> layers_;
};

// The convolutional network of the Keras tutorial for 32×32 images: three 3×3 convolutions, two dense layers.
class SYSTOLE_API KerasCnn {
 public:
  KerasCnn();
  Tensor forward(const Tensor& x) const { return layers_(x); }

  template <class V>
  static void visit(KerasCnn& self, V&& v) {
    self.layers_.visit(self.layers_, v);
  }

 private:
  Sequential<Conv2d, ReLU, MaxPool2d, Conv2d, ReLU, MaxPool2d, Conv2d, ReLU, Flatten, Linear, ReLU, Linear>
      layers_;
};

// Three padded convolutions of 32, 64 and 128 channels, each halving a 32×32 image; two dense layers.
class SYSTOLE_API Cnn3 {
 public:
  Cnn3();
  Tensor forward(const Tensor& x) const { return layers_(x); }

  template <class V>
  static void visit(Cnn3& self, V&& v) {
    self.layers_.visit(self.layers_, v);
  }

 private:
  Sequential<Conv2d, ReLU, MaxPool2d, Conv2d, ReLU, MaxPool2d, Conv2d, ReLU, MaxPool2d, Flatten, Linear, ReLU,
             Linear>
      layers_;
};

// Residual networks of bottleneck blocks; the defaults make ResNet-50 v1.5 (the stride is in the 3×3
// convolution).
struct ResNetOptions {
  struct Stage {
    std::int64_t width, blocks, stride;  // a block has width, width and 4 · width channels
  };
  std::vector<Stage> stages = {{64, 3, 1}, {128, 4, 2}, {256, 6, 2}, {512, 3, 2}};
  std::int64_t stem = 64;
  std::int64_t classes = 1000;
};

class SYSTOLE_API Bottleneck {
 public:
  Bottleneck(std::int64_t in, std::int64_t width, std::int64_t stride);
  Tensor forward(const Tensor& x) const;

  template <class V>
  static void visit(Bottleneck& self, V&& v) {
    v("conv1", self.conv1_);
    v("bn1", self.bn1_);
    v("conv2", self.conv2_);
    v("bn2", self.bn2_);
    v("conv3", self.conv3_);
    v("bn3", self.bn3_);
    v("short", self.short_);
    v("bns", self.bns_);
  }

 private:
  Conv2d conv1_;
  BatchNorm bn1_;
  Conv2d conv2_;
  BatchNorm bn2_;
  Conv2d conv3_;
  BatchNorm bn3_;
  std::optional<Conv2d> short_;  // where the shape changes
  std::optional<BatchNorm> bns_;
};

class SYSTOLE_API ResNet {
 public:
  explicit ResNet(const ResNetOptions& options = {});
  Tensor forward(const Tensor& x) const;  // [batch, height, width, 3] to [batch, classes]

  template <class V>
  static void visit(ResNet& self, V&& v) {
    v("conv1", self.conv1_);
    v("bn1", self.bn1_);
    v("blocks", self.blocks_);
    v("fc", self.fc_);
  }

 private:
  Conv2d conv1_;
  BatchNorm bn1_;
  std::vector<Bottleneck> blocks_;
  Linear fc_;
};

// Words in, classes out: embedding, one LSTM layer, a dense layer on its last output.
struct LstmClassifierOptions {
  std::int64_t vocabulary = 10000, embedding = 64, hidden = 128, classes = 10;
};
struct SYSTOLE_API LstmClassifier {
  LstmClassifierOptions options;
  Embedding emb{options.vocabulary, options.embedding};
  LSTM lstm{options.embedding, options.hidden, {.batch_first = true}};
  Linear fc{options.hidden, options.classes};

  Tensor forward(const Tensor& words) const;  // i32 [batch, length] to [batch, classes]
};

// GPT-2: pre-norm blocks, tanh GELU, learned positions, the output layer tied to the word embedding.
struct Gpt2Options {
  std::int64_t layers = 12, width = 768, heads = 12, vocabulary = 50304, length = 1024;
};
struct SYSTOLE_API Gpt2Layer {
  std::int64_t width, heads;
  LayerNorm ln1{width};
  Linear qkv{width, 3 * width}, proj{width, width};
  LayerNorm ln2{width};
  Linear fc{width, 4 * width}, fc2{4 * width, width};

  Tensor forward(const Tensor& x) const;
};
struct SYSTOLE_API Gpt2 {
  Gpt2Options options;
  Embedding wte{options.vocabulary, options.width}, wpe{options.length, options.width};
  std::vector<Gpt2Layer> h = make_layers(options);
  LayerNorm lnf{options.width};

  Tensor forward(const Tensor& words) const;  // i32 [batch, length] to logits [batch, length, vocabulary]

 private:
  static std::vector<Gpt2Layer> make_layers(const Gpt2Options& options);
};

}  // namespace systole::nn::models
