// A U-Net finds lesions: ellipses a little lighter or darker than the noisy tissue around them, of which each
// picture has up to three. Dice = 2|A∩B| / (|A| + |B|) and IoU = |A∩B| / |A∪B| say how well the predicted
// area A and the true one B agree, over all pixels of the test pictures.
//
//   unet [--train 400] [--test 100] [--epochs 8] [--batch 16] [--width 8] [--side 48] [--device auto]
//        [--out lesions.png]          a picture of inputs, true and predicted lesions

#include <systole/systole.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <iostream>

#include "options.h"
#include "pictures.h"

namespace {

using namespace systole;

struct DoubleConv {
  std::int64_t in, out;
  nn::Conv2d conv1{in, out, {.padding = 1, .bias = false}}, conv2{out, out, {.padding = 1, .bias = false}};
  nn::BatchNorm norm1{out}, norm2{out};
  Tensor operator()(const Tensor& x) const { return relu(norm2(conv2(relu(norm1(conv1(x)))))); }
};

struct UNet {
  std::int64_t width;
  DoubleConv down1{1, width}, down2{width, 2 * width}, bottom{2 * width, 4 * width};
  nn::ConvTranspose2d up2{4 * width, 2 * width, {.kernel = 2, .stride = 2}};
  nn::ConvTranspose2d up1{2 * width, width, {.kernel = 2, .stride = 2}};
  DoubleConv join2{4 * width, 2 * width}, join1{2 * width, width};
  nn::Conv2d head{width, 1, {.kernel = 1}};

  Tensor forward(const Tensor& image) const {             // [n, side, side, 1]
    const Tensor fine = down1(image);                     // [n, side, side, width]
    const Tensor middle = down2(max_pool2d(fine, 2));     // [n, side/2, side/2, 2·width]
    const Tensor coarse = bottom(max_pool2d(middle, 2));  // [n, side/4, side/4, 4·width]
    const Tensor y = join2(concat({up2(coarse), middle}, -1));
    return head(join1(concat({up1(y), fine}, -1)));  // logits [n, side, side, 1]
  }
};

// Pictures f32[side, side, 1] and masks of the same shape, 1 in a lesion.
data::Source lesions(std::int64_t count, std::int64_t side, std::uint64_t seed) {
  Literal pictures({DType::f32, {count, side, side, 1}}), masks({DType::f32, {count, side, side, 1}});
  float* pixel = pictures.mutable_values<float>().data();
  float* mask = masks.mutable_values<float>().data();
  Chance chance(seed);
  for (std::int64_t i = 0; i < count; ++i, mask += side * side, pixel += side * side) {
    const double slope_x = chance(-0.3, 0.3), slope_y = chance(-0.3, 0.3), base = chance(0.3, 0.6);
    const auto each = [&](const auto& f) {
      for (std::int64_t y = 0; y < side; ++y)
        for (std::int64_t x = 0; x < side; ++x)
          f(y * side + x, static_cast<double>(x), static_cast<double>(y));
    };
    for (int n = static_cast<int>(chance(1, 4)); n > 0; --n) {
      const double s = static_cast<double>(side), a = chance(0.07, 0.2) * s, b = chance(0.07, 0.2) * s;
      const double cx = chance(0.15, 0.85) * s, cy = chance(0.15, 0.85) * s, turn = chance(0, 3.14159);
      const float shade = static_cast<float>(chance(0.15, 0.3) * (chance(0, 1) < 0.7 ? 1 : -1));
      each([&](std::int64_t at, double x, double y) {
        const double u = (x - cx) * std::cos(turn) + (y - cy) * std::sin(turn);
        const double v = (y - cy) * std::cos(turn) - (x - cx) * std::sin(turn);
        if (std::hypot(u / a, v / b) > 1) return;
        mask[at] = 1;
        pixel[at] = shade;
      });
    }
    each([&](std::int64_t at, double x, double y) {
      const double tissue =
          base + (slope_x * x + slope_y * y) / static_cast<double>(side) + chance(-0.15, 0.15);
      pixel[at] += static_cast<float>(tissue);
    });
  }
  return data::arrays(pictures, masks).named("lesions", {"picture", "mask"});
}

// Of probabilities or decisions; over the batch, so that pictures without a lesion count as well.
Tensor dice(const Tensor& a, const Tensor& b) { return (2 * sum(a * b) + 1) / (sum(a) + sum(b) + 1); }

}  // namespace

int main(int argc, char** argv) try {
  const Options options(argc, argv,
                        {{"train", "400"},
                         {"test", "100"},
                         {"epochs", "8"},
                         {"batch", "16"},
                         {"width", "8"},
                         {"side", "48"},
                         {"device", "auto"},
                         {"out", ""}});
  const DeviceScope device(options["device"]);
  random::seed(1);
  const std::int64_t side = options.integer("side");
  const data::Source train = lesions(options.integer("train"), side, 1);
  const data::Source test = lesions(options.integer("test"), side, 2);
  UNet model{options.integer("width")};
  std::cout << train.info().to_string() << "; " << parameters(model).count() << " parameters on "
            << current_device().to_string() << "\n";

  const auto loss = [](const Tensor& logits, const Tensor& mask) {
    return bce_with_logits(logits, mask) + (1 - dice(sigmoid(logits), mask));
  };
  const auto dice_of = [](const Tensor& logits, const Tensor& mask) {
    return dice((logits > 0).to(DType::f32), mask);
  };
  training::Trainer trainer(model, optim::Adam(model, {.lr = 5e-3}),
                            {.loss = loss, .metrics = {metrics::mean_of("dice", dice_of, true)}});
  trainer.fit(train, {.epochs = options.integer("epochs"),
                      .batch = options.integer("batch"),
                      .validation = test,
                      .augment = {}});

  const std::vector<Literal> columns = test.columns();
  const Tensor pictures(columns[0]), masks(columns[1]);
  const Tensor found = (trainer.predict(test) > 0).to(DType::f32);
  const double both = sum(found * masks).item<double>(), sizes = sum(found + masks).item<double>();
  std::printf("test dice %.4f iou %.4f\n", 2 * both / sizes, both / (sizes - both));

  if (options.has("out")) {
    const std::int64_t shown = std::min<std::int64_t>(6, test.size());
    const Tensor sheet = concat({pictures, masks, found}, 2)[slice(0, shown)];  // [shown, side, 3·side, 1]
    io::save_png(options["out"],
                 (clip(sheet, 0, 1) * 255).to(DType::u8).reshape({shown * side, 3 * side}).literal());
  }
} catch (const std::exception& error) {
  std::cerr << "unet: " << error.what() << "\n";
  return 1;
}
