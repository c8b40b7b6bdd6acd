// A GAN of digits after DCGAN: a generator of transposed convolutions makes pictures of noise, a
// discriminator of strided ones says which are real, and each learns against the other. Both updates are one
// compiled step.
//
//   dcgan [--data DIR] [--train 0] [--test 0] [--epochs 3] [--batch 64] [--device auto] [--out dcgan.png]
//
// At the beginning the discriminator guesses: its loss is 2·ln 2 = 1.386, the generator's ln 2 = 0.693.

#include <systole/systole.h>

#include <cstdio>
#include <exception>
#include <iostream>
#include <utility>

#include "options.h"
#include "pictures.h"

namespace {

using namespace systole;

constexpr std::int64_t kNoise = 64;

struct Generator {
  nn::Linear start{kNoise, 7 * 7 * 64};
  nn::ConvTranspose2d up1{64, 32, {.kernel = 4, .stride = 2, .padding = 1}};
  nn::ConvTranspose2d up2{32, 1, {.kernel = 4, .stride = 2, .padding = 1}};
  nn::BatchNorm norm0{64}, norm1{32};

  Tensor forward(const Tensor& noise) const {                            // [n, kNoise]
    const Tensor x = relu(norm0(start(noise).reshape({-1, 7, 7, 64})));  // [n, 7, 7, 64]
    return sigmoid(up2(relu(norm1(up1(x)))));                            // [n, 28, 28, 1]
  }
};

struct Discriminator {
  nn::Conv2d down1{1, 32, {.kernel = 4, .stride = 2, .padding = 1}};
  nn::Conv2d down2{32, 64, {.kernel = 4, .stride = 2, .padding = 1}};
  nn::Linear head{7 * 7 * 64, 1};

  Tensor forward(const Tensor& image) const {  // logits [n, 1]: above 0 is real
    const Tensor x = leaky_relu(down2(leaky_relu(down1(image), 0.2)), 0.2);
    return head(x.reshape({-1, 7 * 7 * 64}));
  }
};

// How far from "all of them are real" (or not) the logits are.
Tensor distance(const Tensor& logits, bool real) { return mean(softplus(real ? -logits : logits)); }

}  // namespace

int main(int argc, char** argv) try {
  const Options options(argc, argv,
                        {{"data", ""},
                         {"train", "0"},
                         {"test", "0"},
                         {"epochs", "3"},
                         {"batch", "64"},
                         {"device", "auto"},
                         {"out", "dcgan.png"}});
  const DeviceScope device(options["device"]);
  random::seed(1);
  const std::int64_t batch = options.integer("batch");
  const Tensor images = digit_images(options, batch);
  const std::int64_t count = images.size(0), steps = count / batch;

  Generator generator;
  Discriminator discriminator;
  optim::Adam learn_to_draw(generator, {.lr = 2e-4, .beta1 = 0.5});
  optim::Adam learn_to_tell(discriminator, {.lr = 2e-4, .beta1 = 0.5});
  auto step = compile([&](const Tensor& real) {
    const auto keys = random::split(random::next_key());
    const Shape noise{batch, kNoise};
    auto [told, grads] = value_and_grad(
        [&] {
          const Tensor drawn = stop_gradient(generator.forward(random::normal(keys[0], noise)));
          return distance(discriminator.forward(real), true) + distance(discriminator.forward(drawn), false);
        },
        parameters(discriminator));
    learn_to_tell.update(grads);
    auto [drew, more] = value_and_grad(
        [&] {
          return distance(discriminator.forward(generator.forward(random::normal(keys[1], noise))), true);
        },
        parameters(generator));
    learn_to_draw.update(more);
    return std::pair{told, drew};
  });

  std::printf("%lld pictures on %s\n", static_cast<long long>(count), current_device().to_string().c_str());
  const auto [told, drew] = step(images[slice(0, batch)]);
  std::printf("first step: discriminator %.3f, generator %.3f\n", told.item<double>(), drew.item<double>());
  for (std::int64_t epoch = 1; epoch <= options.integer("epochs"); ++epoch) {
    const Tensor order = random::permutation(random::next_key(), count)[slice(0, steps * batch)];
    const auto [tell, draw] = step.many_at(order.reshape({steps, batch}), images);
    std::printf("epoch %lld: discriminator %.3f, generator %.3f\n", static_cast<long long>(epoch),
                mean(tell).item<double>(), mean(draw).item<double>());
    std::fflush(stdout);
  }

  nn::eval(generator);
  io::save_png(options["out"],
               tiled(generator.forward(random::normal(random::next_key(), {100, kNoise})), 10));
  std::cout << "drawn digits: " << options["out"] << "\n";
} catch (const std::exception& error) {
  std::cerr << "dcgan: " << error.what() << "\n";
  return 1;
}
