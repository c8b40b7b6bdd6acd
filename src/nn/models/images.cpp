#include "systole/nn/models/images.h"

#include <array>
#include <string>

#include "systole/base/error.h"
#include "systole/tensor/neural.h"

namespace systole::nn::models {

namespace {

// The size of an image on its way through convolutions and poolings.
class Plan {
 public:
  Plan(const char* model, const Shape& input) : model_(model), input_(input) {
    if (input.rank() != 3) fail("[height, width, channels]");
    for (const Dim& dim : input)
      if (!dim.is_static() || dim.value() < 1) fail("[height, width, channels], each 1 or more");
    channels_ = input[2].value();
    sides_ = {input[0].value(), input[1].value()};
  }
  Plan& window(std::int64_t size, std::int64_t stride = 1, std::int64_t padding = 0) {
    for (std::int64_t& side : sides_) {
      if (side + 2 * padding < size) fail("an image that the layers do not shrink to nothing");
      side = (side + 2 * padding - size) / stride + 1;
    }
    return *this;
  }
  Plan& conv(std::int64_t channels, std::int64_t size, std::int64_t padding = 0) {
    window(size, 1, padding);
    channels_ = channels;
    return *this;
  }
  Plan& pool() { return window(2, 2); }
  std::int64_t features() const { return sides_[0] * sides_[1] * channels_; }
  const std::array<std::int64_t, 2>& sides() const { return sides_; }
  [[noreturn]] void fail(const char* expected) const {
    throw Error(ErrorKind::kShape, model_, "the shape of an image", expected, input_.to_string());
  }

 private:
  const char* model_;
  Shape input_;
  std::int64_t channels_ = 0;
  std::array<std::int64_t, 2> sides_{};
};

std::int64_t channels(const char* model, const Shape& input) {
  Plan(model, input);  // checks
  return input[2].value();
}

Tensor flat(const Tensor& x) { return Flatten{.channels_first = true}(x); }

Conv2d conv3(std::int64_t in, std::int64_t out, bool padded) {
  return {in, out, {.kernel = 3, .padding = padded ? 1 : 0}};
}

}  // namespace

KerasCnn::KerasCnn(const ImageOptions& options)
    : layers_(
          Conv2d(channels("KerasCnn", options.input), 32), ReLU(), MaxPool2d(), Conv2d(32, 64), ReLU(),
          MaxPool2d(), Conv2d(64, 64), ReLU(), Flatten{.channels_first = true},
          Linear(Plan("KerasCnn", options.input).conv(32, 3).pool().conv(64, 3).pool().conv(64, 3).features(),
                 64),
          ReLU(), Linear(64, options.classes)) {}

Tensor KerasCnn::forward(const Tensor& x) const { return layers_(x); }

Cnn3::Cnn3(const Cnn3Options& options)
    : layers_(conv3(channels("Cnn3", options.input), 32, options.padded), ReLU(), MaxPool2d(),
              conv3(32, 64, options.padded), ReLU(), MaxPool2d(), conv3(64, 128, options.padded), ReLU(),
              MaxPool2d(), Flatten{.channels_first = true},
              Linear(Plan("Cnn3", options.input)
                         .conv(32, 3, options.padded)
                         .pool()
                         .conv(64, 3, options.padded)
                         .pool()
                         .conv(128, 3, options.padded)
                         .pool()
                         .features(),
                     128),
              ReLU(), Linear(128, options.classes)) {}

Tensor Cnn3::forward(const Tensor& x) const { return layers_(x); }

LeNet::LeNet(const ImageOptions& options)
    : conv1(channels("LeNet", options.input), 6, {.kernel = 5}),
      conv2(6, 16, {.kernel = 5}),
      fc1(Plan("LeNet", options.input).conv(6, 5).pool().conv(16, 5).pool().features(), 120),
      fc2(120, 84),
      fc3(84, options.classes) {}

Tensor LeNet::forward(const Tensor& x) const {
  Tensor y = max_pool2d(relu(conv1(x)), 2);
  y = flat(max_pool2d(relu(conv2(y)), 2));
  return observed(*this, fc3(relu(fc2(relu(fc1(y))))));
}

Convnet::Convnet(const ImageOptions& options)
    : conv1(conv3(channels("Convnet", options.input), 32, true)),
      conv2(conv3(32, 64, true)),
      fc1(Plan("Convnet", options.input).conv(32, 3, 1).pool().conv(64, 3, 1).pool().features(), 512),
      fc2(512, options.classes) {}

Tensor Convnet::forward(const Tensor& x) const {
  Tensor y = max_pool2d(relu(conv1(x)), 2);
  y = flat(max_pool2d(relu(conv2(y)), 2));
  return observed(*this, fc2(relu(fc1(y))));
}

namespace {

constexpr std::int64_t kAlexNetSide = 6;  // of what the dense layers get

Conv2d first_conv(const AlexNetOptions& options) {
  const std::int64_t in = channels("AlexNet", options.input);
  if (options.small) return {in, 64, {.kernel = 3, .stride = 2, .padding = 1}};
  return {in, 64, {.kernel = 11, .stride = 4, .padding = 2}};
}

MaxPool2d alex_pool(bool small) {
  return small ? MaxPool2d{} : MaxPool2d{.window = 3, .options = {.stride = 2}};
}

std::int64_t alex_features(const AlexNetOptions& options) {
  Plan plan("AlexNet", options.input);
  const auto pool = [&] { options.small ? plan.window(2, 2) : plan.window(3, 2); };
  options.small ? plan.window(3, 2, 1) : plan.window(11, 4, 2);
  pool();
  pool();  // the other convolutions keep the size
  pool();
  if (options.small) return plan.conv(256, 1).features();
  if (plan.sides()[0] % kAlexNetSide != 0 || plan.sides()[1] % kAlexNetSide != 0)
    plan.fail("an image of about 224×224, whose features are 6×6; for less there is .small");
  return 256 * kAlexNetSide * kAlexNetSide;
}

}  // namespace

AlexNet::AlexNet(const AlexNetOptions& options)
    : small_(options.small),
      features_(first_conv(options), ReLU(), alex_pool(small_),
                Conv2d(64, 192, {.kernel = small_ ? 3 : 5, .padding = small_ ? 1 : 2}), ReLU(),
                alex_pool(small_), conv3(192, 384, true), ReLU(), conv3(384, 256, true), ReLU(),
                conv3(256, 256, true), ReLU(), alex_pool(small_)),
      classifier_(Dropout{options.dropout}, Linear(alex_features(options), options.dense), ReLU(),
                  Dropout{options.dropout}, Linear(options.dense, options.dense), ReLU(),
                  Linear(options.dense, options.classes)) {}

Tensor AlexNet::forward(const Tensor& x) const {
  Tensor y = features_(x);
  if (!small_) y = adaptive_avg_pool2d(y, kAlexNetSide);
  return observed(*this, classifier_(flat(y)));
}

}  // namespace systole::nn::models
