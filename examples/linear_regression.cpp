// A line through noisy points, by gradient descent and in closed form: both find the slopes 3 and -2 and the
// offset 0.5 that the points were made with, up to the noise.

#include <systole/systole.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "options.h"

int main(int argc, char** argv) try {
  answer_help(argc, argv, "[STEPS]");
  using namespace systole;
  const std::int64_t steps = argc > 1 ? whole_number("STEPS", argv[1]) : 300;
  const std::int64_t points = 200;

  const std::vector<Tensor> keys = random::split(random::key(1));
  const Tensor x = random::normal(keys[0], {points, 2});
  const Tensor noise = random::normal(keys[1], {points}, 0, 0.1);
  const Tensor y = matmul(x, tensor({3.f, -2.f})) + 0.5 + noise;

  Variable slope(zeros({2}), "slope"), offset(zeros({}), "offset");
  const std::vector<Variable> parameters = {slope, offset};
  auto step = compile([&](const Tensor& x, const Tensor& y) {
    auto [loss, grads] =
        value_and_grad([&] { return mean(square(matmul(x, slope) + offset - y)); }, parameters);
    slope.assign(slope - 0.05 * grads[0]);
    offset.assign(offset - 0.05 * grads[1]);
    return loss;
  });
  for (int i = 0; i < steps; ++i) {
    const Tensor loss = step(x, y);
    if (i % 50 == 0 || i + 1 == steps)
      std::cout << "step " << i << ": mean squared error " << loss.item<float>() << "\n";
  }
  std::cout << "gradient descent: slope " << slope.value() << ", offset " << offset.value() << "\n";

  // The normal equations, with a column of ones for the offset.
  const Tensor a = concat({x, ones({points, 1})}, 1);
  const Tensor exact = solve(matmul(transpose(a), a), matmul(transpose(a), y));
  std::cout << "normal equations: " << exact << "\n";
} catch (const systole::Error& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
