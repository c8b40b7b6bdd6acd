#pragma once

// Small convolutional networks, and AlexNet. The shape of an image is [height, width, channels]; the dense
// layers fit it. An image that the layers make nothing of is kShape.

#include <cstdint>

#include "systole/base/export.h"
#include "systole/nn/convolution.h"
#include "systole/nn/layers.h"
#include "systole/nn/module.h"

namespace systole::nn::models {

struct ImageOptions {
  Shape input = {32, 32, 3};
  std::int64_t classes = 10;
};

// The convolutional network of the Keras tutorial: 3×3 convolutions of 32, 64 and 64 channels, two poolings,
// dense layers of 64 and 10.
class SYSTOLE_API KerasCnn {
 public:
  explicit KerasCnn(const ImageOptions& options = {});
  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return forward(x); }

  template <class V>
  static void visit(KerasCnn& self, V&& v) {
    self.layers_.visit(self.layers_, v);
  }

 private:
  Sequential<Conv2d, ReLU, MaxPool2d, Conv2d, ReLU, MaxPool2d, Conv2d, ReLU, Flatten, Linear, ReLU, Linear>
      layers_;
};

// Three 3×3 convolutions of 32, 64 and 128 channels, each with a pooling; dense layers of 128 and 10. Padded,
// each stage halves the image; else it loses its border first.
struct Cnn3Options {
  Shape input = {32, 32, 3};
  std::int64_t classes = 10;
  bool padded = true;
};
class SYSTOLE_API Cnn3 {
 public:
  explicit Cnn3(const Cnn3Options& options = {});
  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return forward(x); }

  template <class V>
  static void visit(Cnn3& self, V&& v) {
    self.layers_.visit(self.layers_, v);
  }

 private:
  Sequential<Conv2d, ReLU, MaxPool2d, Conv2d, ReLU, MaxPool2d, Conv2d, ReLU, MaxPool2d, Flatten, Linear, ReLU,
             Linear>
      layers_;
};

// LeNet-5 as in PyTorch's tutorial: 5×5 convolutions of 6 and 16 channels, dense layers of 120, 84 and 10.
class SYSTOLE_API LeNet {
 public:
  explicit LeNet(const ImageOptions& options = {});
  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return forward(x); }

  Conv2d conv1, conv2;
  Linear fc1, fc2, fc3;

  template <class V>
  static void visit(LeNet& self, V&& v) {
    v("conv1", self.conv1);
    v("conv2", self.conv2);
    v("fc1", self.fc1);
    v("fc2", self.fc2);
    v("fc3", self.fc3);
  }
};

// Two padded 3×3 convolutions of 32 and 64 channels, each with a pooling; dense layers of 512 and 10.
class SYSTOLE_API Convnet {
 public:
  explicit Convnet(const ImageOptions& options = {});
  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return forward(x); }

  Conv2d conv1, conv2;
  Linear fc1, fc2;

  template <class V>
  static void visit(Convnet& self, V&& v) {
    v("conv1", self.conv1);
    v("conv2", self.conv2);
    v("fc1", self.fc1);
    v("fc2", self.fc2);
  }
};

// AlexNet as torchvision has it, with its names. The small form is for images of about 32×32: a first
// convolution of 3×3 with stride 2, poolings of 2×2, and no averaging before the dense layers.
struct AlexNetOptions {
  Shape input = {224, 224, 3};
  std::int64_t classes = 1000;
  bool small = false;
  double dropout = 0.5;
  std::int64_t dense = 4096;  // the width of the two hidden dense layers
};
class SYSTOLE_API AlexNet {
 public:
  explicit AlexNet(const AlexNetOptions& options = {});
  Tensor forward(const Tensor& x) const;  // [batch, height, width, channels] to [batch, classes]
  Tensor operator()(const Tensor& x) const { return forward(x); }

  template <class V>
  static void visit(AlexNet& self, V&& v) {
    v("features", self.features_);
    v("classifier", self.classifier_);
  }

 private:
  bool small_;
  Sequential<Conv2d, ReLU, MaxPool2d, Conv2d, ReLU, MaxPool2d, Conv2d, ReLU, Conv2d, ReLU, Conv2d, ReLU,
             MaxPool2d>
      features_;
  Sequential<Dropout, Linear, ReLU, Dropout, Linear, ReLU, Linear> classifier_;
};

}  // namespace systole::nn::models
