// Where the time of a training step goes: a table in the terminal, a page to look at, a trace for Perfetto.
//
//   profile_step [--device auto] [--steps 50] [--out profile]

#include <systole/systole.h>

#include <exception>
#include <iostream>

#include "options.h"

int main(int argc, char** argv) try {
  using namespace systole;
  const Options options(argc, argv, {{"device", "auto"}, {"steps", "50"}, {"out", "profile"}});
  const DeviceScope device(options["device"]);
  random::seed(1);

  nn::Sequential model{nn::Linear(784, 128), nn::ReLU(), nn::Linear(128, 10)};
  optim::Adam adam(model);
  const Tensor x = full({64, 784}, 0.5).eval(), y = zeros({64}, DType::i32).eval();
  const auto step = compile([&] {
    const auto [loss, gradients] =
        value_and_grad([&] { return cross_entropy(model(x), y); }, parameters(model));
    adam.update(gradients);
    return loss;
  });

  Tensor loss;
  const Profile p = profile([&] { loss = step(); },
                            {.steps = options.integer("steps"), .profile = {.title = "a small network"}});
  std::cout << p.table(10) << "the last loss is " << loss.item<float>() << "\n";
  p.save(options["out"]);
  std::cout << "wrote " << options["out"] << "/index.html\n";
} catch (const std::exception& error) {
  std::cerr << "profile_step: " << error.what() << "\n";
  return 1;
}
