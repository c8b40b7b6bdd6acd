// Functions with a gradient of their own. Rounding has slope 0 everywhere, so nothing before it can learn;
// with the slope of the identity in its place (a straight-through estimate) it can. log(1 + eˣ) shows the
// other use: a gradient that is exact where the one by the chain rule would be inf / inf.

#include <systole/systole.h>

#include <iostream>
#include <tuple>
#include <utility>

#include "options.h"

int main(int argc, char** argv) try {
  answer_help(argc, argv, "");
  using namespace systole;

  auto rounded = custom_gradient([](const Tensor& x) { return std::pair{round(x), std::tuple<>{}}; },
                                 [](const std::tuple<>&, const Tensor& g) { return g; });
  const Tensor x = tensor({0.2, 1.7, -2.4});
  std::cout << "round(x):             " << rounded(x) << "\n";
  std::cout << "slope of round:       " << grad([](const Tensor& x) { return sum(round(x)); })(x) << "\n";
  std::cout << "slope straight through: " << grad([&](const Tensor& x) { return sum(rounded(x)); })(x)
            << "\n";

  // A weight that may only be a whole number, found by gradient descent all the same.
  Tensor weight = tensor(0.0);
  auto loss = [&](const Tensor& w) { return square(rounded(w) * 2 - 6); };
  for (int i = 0; i < 30; ++i) weight = weight - 0.05 * grad(loss)(weight);
  std::cout << "whole number w with 2·w = 6: " << rounded(weight) << "\n";

  auto naive = [](const Tensor& x) { return log(1 + exp(x)); };
  auto stable = custom_gradient(
      [](const Tensor& x) { return std::pair{log(1 + exp(x)), x}; },
      [](const Tensor& x, const Tensor& g) { return g * (1 - 1 / (1 + exp(x))); });  // the logistic function
  const Tensor large = tensor(100.0);
  std::cout << "slope of log(1 + eˣ) at 100, by the chain rule: " << grad(naive)(large) << "\n";
  std::cout << "slope of log(1 + eˣ) at 100, by its own rule:   " << grad(stable)(large) << "\n";
} catch (const systole::Error& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
