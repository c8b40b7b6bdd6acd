// A variational autoencoder of digits. The encoder gives a normal distribution N(μ, σ²) over a code of a few
// numbers, the decoder the probability of ink at each pixel. What is made small is the bound on -log p(x), in
// nats a picture:
//
//   -Σ log p(x | z)  +  KL(N(μ, σ²) ‖ N(0, 1)),  z = μ + σ·ε
//
//   vae [--data DIR] [--train 0] [--test 0] [--epochs 5] [--code 8] [--device auto] [--out vae.png]
//
// The picture has rows of new digits, decoded from codes of N(0, 1).

#include <systole/systole.h>

#include <cstdio>
#include <exception>
#include <iostream>

#include "options.h"
#include "pictures.h"

namespace {

using namespace systole;

constexpr std::int64_t kBatch = 64;

struct Vae {
  std::int64_t code;
  nn::Linear hidden{784, 256}, moments{256, 2 * code};
  nn::Linear widen{code, 256}, pixels{256, 784};

  Tensor decode(const Tensor& z) const { return pixels(relu(widen(z))); }  // logits [n, 784]

  // The bound of each picture, [n].
  Tensor bound(const Tensor& x, const Tensor& key) const {
    const auto parts = split(moments(relu(hidden(x))), 2, -1);
    const distributions::Normal codes(parts[0], exp(parts[1] / 2)), usual(0.0, 1.0);  // [n, code]
    const Tensor missing = bce_with_logits(decode(codes.rsample(key)), x, {.reduction = Reduction::none});
    return sum(missing, -1) + sum(kl(codes, usual), -1);
  }
};

}  // namespace

int main(int argc, char** argv) try {
  const Options options(argc, argv,
                        {{"data", ""},
                         {"train", "0"},
                         {"test", "0"},
                         {"epochs", "5"},
                         {"code", "8"},
                         {"device", "auto"},
                         {"out", "vae.png"}});
  const DeviceScope device(options["device"]);
  random::seed(1);
  const Tensor images = digit_images(options, kBatch).reshape({-1, 784});
  const std::int64_t count = images.size(0), steps = count / kBatch;

  Vae model{options.integer("code")};
  optim::Adam adam(model, {.lr = 1e-3});
  auto bound_of = compile([&](const Tensor& x) { return mean(model.bound(x, random::next_key())); });
  auto step = compile([&](const Tensor& x) {
    const Tensor key = random::next_key();
    auto [loss, grads] = value_and_grad([&] { return mean(model.bound(x, key)); }, parameters(model));
    adam.update(grads);
    return loss;
  });

  std::printf("%lld pictures, a code of %lld numbers, on %s\n", static_cast<long long>(count),
              static_cast<long long>(model.code), current_device().to_string().c_str());
  std::printf("untrained: %.1f nats a picture; even odds at each pixel are 784·ln 2 = 543.4\n",
              bound_of(images[slice(0, kBatch)]).item<double>());
  for (std::int64_t epoch = 1; epoch <= options.integer("epochs"); ++epoch) {
    const Tensor order = random::permutation(random::next_key(), count)[slice(0, steps * kBatch)];
    const double loss = mean(step.many_at(order.reshape({steps, kBatch}), images)).item<double>();
    std::printf("epoch %lld: %.1f nats\n", static_cast<long long>(epoch), loss);
    std::fflush(stdout);
  }

  const Tensor codes = random::normal(random::next_key(), {100, model.code});
  io::save_png(options["out"], tiled(sigmoid(model.decode(codes)).reshape({100, 28, 28, 1}), 10));
  std::cout << "new digits: " << options["out"] << "\n";
} catch (const std::exception& error) {
  std::cerr << "vae: " << error.what() << "\n";
  return 1;
}
