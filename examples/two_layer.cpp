// Article S0, section 4.5: two layers worked through by hand, here with automatic differentiation. The
// article's own numbers are wrong from Z1 on (1·1 + 2·2 + 3·3 is 14, not 11), it takes y - ŷ for the error of
// the output, and it applies the activation's slope of the wrong layer; these are right.
//
//   x = [1, 2, 3] → Z1 = W1·x → A1 = relu(Z1) → Z2 = W2·A1 → ŷ = relu(Z2) → C = ½ Σ (ŷ - y)²

#include <systole/systole.h>

#include <iostream>
#include <vector>

#include "options.h"

int main(int argc, char** argv) try {
  answer_help(argc, argv, "[DEVICE]");
  using namespace systole;
  const DeviceScope device(argc > 1 ? argv[1] : "auto");

  const Tensor x = tensor({1., 2., 3.}, DType::f64), y = tensor({2., 5.}, DType::f64);
  Variable w1(tensor({{1., 2., 3.}, {4., 5., 6.}}, DType::f64), "W1");
  Variable w2(tensor({{0.1, 0.2}, {0.3, 0.4}}, DType::f64), "W2");

  const auto cost = [&](const Tensor& z2) { return sum(square(relu(z2) - y)) / 2; };
  const auto output = [&](const Tensor& z1) { return matmul(w2, relu(z1)); };

  const Tensor z1 = matmul(w1, x), z2 = output(z1);
  std::cout << "Z1 = " << z1 << "\nZ2 = " << z2 << "\nC  = " << cost(z2) << "\n";

  // What the article calls δ: the gradient by a layer's sum, before its activation.
  std::cout << "δ2 = " << grad(cost)(z2) << "\n";
  std::cout << "δ1 = " << grad([&](const Tensor& z) { return cost(output(z)); })(z1) << "\n";

  const std::vector<Variable> weights = {w1, w2};
  const auto [loss, grads] = value_and_grad([&] { return cost(output(matmul(w1, x))); }, weights);
  std::cout << "∇W2 =\n" << grads[1] << "\n∇W1 =\n" << grads[0] << "\n";

  const double rate = 0.001;
  for (std::size_t i = 0; i < weights.size(); ++i) Variable(weights[i]).assign(weights[i] - rate * grads[i]);
  std::cout << "C after one step of " << rate << " = " << cost(output(matmul(w1, x))) << "\n";
} catch (const systole::Error& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
