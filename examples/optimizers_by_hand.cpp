// Article S2, section 2.2: gradient descent, momentum and Adam written out by hand on a least-squares
// problem, each with the history of its loss, beside the library's. The article's gradient, 2/m, is not that
// of its loss, 1/2m·Σ(Xθ-y)²; here it is 1/m·Xᵀ(Xθ-y). Its momentum is the averaging form, v = βv + (1-β)g,
// whose steps are 1-β times as long as those of the classic one. Its Adam forgets the history.
//
//   optimizers_by_hand [--steps 200] [--lr 0.1] [--out history.svg]

#include <systole/systole.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "options.h"

namespace {

using namespace systole;

constexpr std::int64_t kRows = 100;
constexpr double kBeta = 0.9, kBeta2 = 0.999, kEps = 1e-8;

struct Problem {
  Tensor x, y;  // [m, 3], the last column 1 for the offset; [m]

  Tensor cost(const Tensor& theta) const { return 0.5 * mean(square(matmul(x, theta) - y)); }
  Tensor gradient(const Tensor& theta) const { return matmul(x.transpose(), matmul(x, theta) - y) / kRows; }
};

// Runs an optimiser on a θ that begins at 0: the loss before each step, and θ's end.
struct Run {
  std::vector<double> losses;
  Tensor theta;
};
Run descend(const Problem& problem, std::int64_t steps,
            const std::function<void(Variable& theta, const Tensor& gradient)>& update) {
  Variable theta(zeros({3}, DType::f64), "theta");
  const auto step = compile([&] {
    const Tensor loss = problem.cost(theta);
    update(theta, problem.gradient(theta));
    return loss;
  });
  const std::vector<double> losses = step.repeat(steps).to_vector<double>();
  return {losses, theta.value().eval()};
}

// The library's, which differentiates the cost itself.
template <class O, class Options>
Run library(const Problem& problem, std::int64_t steps, const Options& options) {
  Parameters theta;
  theta.add("theta", Variable(zeros({3}, DType::f64)));
  O optimizer(theta, options);
  const auto step = compile([&] {
    auto [loss, grads] = value_and_grad([&] { return problem.cost(theta.at("theta")); }, theta);
    optimizer.update(grads);
    return loss;
  });
  const std::vector<double> losses = step.repeat(steps).to_vector<double>();
  return {losses, theta.at("theta").value().eval()};
}

double difference(const Run& a, const Run& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.losses.size(); ++i)
    largest = std::max(largest, std::abs(a.losses[i] - b.losses[i]));
  return std::max(largest, max(abs(a.theta - b.theta)).item<double>());
}

}  // namespace

int main(int argc, char** argv) try {
  const Options options(argc, argv, {{"steps", "200"}, {"lr", "0.1"}, {"out", ""}});
  const std::int64_t steps = options.integer("steps");
  const double lr = options.number("lr");

  // y = 3a - 2b + 0.5 with noise; b is ten times as small as a, which is hard for plain descent.
  const Tensor points = random::normal(random::key(1), {kRows, 2}, 0, 1, DType::f64) * tensor({1.0, 0.1});
  const Tensor x = concat({points, ones({kRows, 1}, DType::f64)}, 1);
  const Tensor noise = random::normal(random::key(2), {kRows}, 0, 0.1, DType::f64);
  const Problem problem{x, matmul(x, tensor({3.0, -2.0, 0.5})) + noise};

  Variable v(zeros({3}, DType::f64)), m(zeros({3}, DType::f64)), s(zeros({3}, DType::f64));
  Variable t(tensor(0.0, DType::f64));
  const std::vector<std::pair<std::string, Run>> by_hand = {
      {"gradient descent",
       descend(problem, steps, [&](Variable& theta, const Tensor& g) { theta -= lr * g; })},
      {"momentum", descend(problem, steps,
                           [&](Variable& theta, const Tensor& g) {
                             v.assign(kBeta * v + (1 - kBeta) * g);
                             theta -= lr * v;
                           })},
      {"Adam", descend(problem, steps, [&](Variable& theta, const Tensor& g) {
         t += 1;
         m.assign(kBeta * m + (1 - kBeta) * g);
         s.assign(kBeta2 * s + (1 - kBeta2) * g * g);
         const Tensor m_hat = m / (1 - pow(kBeta, t)), s_hat = s / (1 - pow(kBeta2, t));
         theta -= lr * m_hat / (sqrt(s_hat) + kEps);
       })}};
  using namespace optim;
  const std::vector<Run> libraries = {
      library<GradientDescent>(problem, steps, GradientDescentOptions{.lr = lr}),
      library<SGD>(problem, steps, SGDOptions{.lr = lr, .momentum = kBeta, .averaging = true}),
      library<Adam>(problem, steps, AdamOptions{.lr = lr})};

  std::printf("%-6s", "step");
  for (const auto& [name, run] : by_hand) std::printf("%18s", name.c_str());
  for (std::int64_t i = 0; i < steps; i = i == 0 ? 1 : 2 * i) {
    std::printf("\n%-6lld", static_cast<long long>(i));
    for (const auto& [name, run] : by_hand) std::printf("%18.8f", run.losses[static_cast<std::size_t>(i)]);
  }
  std::printf("\n");
  std::vector<training::Series> series;
  double largest = 0;
  for (std::size_t i = 0; i < by_hand.size(); ++i) {
    const auto& [name, run] = by_hand[i];
    series.push_back({name, {}, run.losses});
    largest = std::max(largest, difference(run, libraries[i]));
    std::cout << name << ": θ = " << run.theta << "\n";
  }
  std::printf("By hand and by the library differ by at most %.1e.\n", largest);
  if (options.has("out"))
    training::chart(series, {.title = "Loss", .x_label = "step", .log_y = true}).save(options["out"]);
  return largest < 1e-10 ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << "optimizers_by_hand: " << error.what() << "\n";
  return 1;
}
