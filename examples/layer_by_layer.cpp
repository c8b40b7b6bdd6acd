// Article S0, section 3.1: forward propagation, backward propagation and the update of the weights, which it
// gives as three pseudocodes. Every layer keeps what its backward step needs; nothing is differentiated
// automatically. The pseudocode runs backward inside the loop that still runs forward: here all layers go
// forward first, then all go backward, then all are updated. The numbers are those of section 4.5.

#include <systole/systole.h>

#include <cstdlib>
#include <iostream>
#include <ranges>
#include <vector>

#include "options.h"

namespace {

using namespace systole;

struct Layer {
  Tensor weight;                               // (out, in)
  Tensor input = {}, sum = {}, gradient = {};  // of the last forward and backward step

  Tensor forward(const Tensor& x) {
    input = x;
    sum = matmul(weight, x);
    return relu(sum);
  }
  // From the gradient by this layer's output to the one by its input.
  Tensor backward(const Tensor& by_output) {
    const Tensor delta = by_output * (sum > 0);  // relu's slope: 1 above 0, else 0
    gradient = outer(delta, input);
    return matmul(transpose(weight), delta);
  }
  void update(double rate) { weight = weight - rate * gradient; }
};

}  // namespace

int main(int argc, char** argv) try {
  answer_help(argc, argv, "[EPOCHS]");
  const std::int64_t epochs = argc > 1 ? whole_number("EPOCHS", argv[1]) : 20;
  const Tensor x = tensor({1., 2., 3.}, DType::f64), y = tensor({2., 5.}, DType::f64);
  std::vector<Layer> network = {{tensor({{1., 2., 3.}, {4., 5., 6.}}, DType::f64)},
                                {tensor({{0.1, 0.2}, {0.3, 0.4}}, DType::f64)}};

  for (int epoch = 0; epoch < epochs; ++epoch) {
    Tensor output = x;
    for (Layer& layer : network) output = layer.forward(output);
    const Tensor cost = systole::sum(square(output - y)) / 2;

    Tensor gradient = output - y;  // of the cost by the output
    for (Layer& layer : network | std::views::reverse) gradient = layer.backward(gradient);

    if (epoch == 0) {
      std::cout << "Z1 = " << network[0].sum << "\nZ2 = " << network[1].sum << "\n∇W2 =\n"
                << network[1].gradient << "\n∇W1 =\n"
                << network[0].gradient << "\n";
    }
    std::cout << "epoch " << epoch << ": C = " << cost << "\n";
    for (Layer& layer : network) layer.update(0.0005);
  }
} catch (const systole::Error& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
