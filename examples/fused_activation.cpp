// An activation of one's own as one kernel, with its gradient as another: x·σ(βx) + αx, a swish that leaks.
// As a KernelOp it is an op like those of the library. Its gradient is compared with differences and with the
// same function written in Tensor ops, and then a network of it learns to tell two spirals apart, in a
// compiled step: on a GPU the kernels are nodes of the step's CUDA Graph.
//
//   fused_activation [DEVICE [STEPS]]     the first GPU, else an OpenCL device, else the processor; 400

#include <systole/systole.h>

#include <cmath>
#include <cstdio>
#include <iostream>
#include <numbers>
#include <string>
#include <vector>

#include "first_device.h"
#include "options.h"

namespace {

using namespace systole;

constexpr double kAlpha = 0.1, kBeta = 1.5;

// The sources are portable. A source in CUDA C++, OpenCL C or C may stand beside it: .sources = {.cuda = …}.
KernelOp leaky_swish() {
  const KernelOp::Defines numbers = {{"ALPHA", "0.1f"}, {"BETA", "1.5f"}};
  const KernelOp gradient({.name = "leaky_swish_grad",
                           .sources = {.portable = R"(
S_ENTRY leaky_swish_grad(S_GLOBAL const float* x, S_GLOBAL const float* dy, S_GLOBAL float* dx) {
  const s_i64 i = S_THREAD;
  if (i >= S_COUNT) return;
  const float s = 1 / (1 + s_exp(-BETA * x[i]));
  dx[i] = dy[i] * (s + BETA * x[i] * s * (1 - s) + ALPHA);
})"},
                           .defines = numbers});
  return KernelOp({.name = "leaky_swish",
                   .sources = {.portable = R"(
S_ENTRY leaky_swish(S_GLOBAL const float* x, S_GLOBAL float* y) {
  const s_i64 i = S_THREAD;
  if (i < S_COUNT) y[i] = x[i] / (1 + s_exp(-BETA * x[i])) + ALPHA * x[i];
})"},
                   .defines = numbers,
                   .backward = [gradient](const KernelOp::Backward& b) {
                     return gradient(b.inputs[0], b.gradients[0]);
                   }});
}

double exact(double x) { return x / (1 + std::exp(-kBeta * x)) + kAlpha * x; }

struct Net {
  nn::Linear first{2, 32}, second{32, 32}, last{32, 1};
  KernelOp activation = leaky_swish();
  Tensor forward(const Tensor& x) const { return last(activation(second(activation(first(x))))); }
};

}  // namespace

int main(int argc, char** argv) try {
  answer_help(argc, argv, "[DEVICE [STEPS]]");
  const std::string device = argc > 1 ? argv[1] : first_device({"cuda", "opencl", "cpu"});
  const int steps = argc > 2 ? static_cast<int>(whole_number("STEPS", argv[2])) : 400;
  const DeviceScope scope(device);
  const KernelOp activation = leaky_swish();

  // Values and slopes against differences in double.
  const Tensor x = linspace(-4, 4, 81);
  const std::vector<float> at = x.to_vector<float>(), y = activation(x).to_vector<float>(),
                           slope = grad([&](const Tensor& x) { return sum(activation(x)); })(x)
                                       .to_vector<float>();
  double value_error = 0, slope_error = 0;
  for (std::size_t i = 0; i < at.size(); ++i) {
    const double h = 1e-5, difference = (exact(at[i] + h) - exact(at[i] - h)) / (2 * h);
    value_error = std::max(value_error, std::abs(y[i] - exact(at[i])));
    slope_error = std::max(slope_error, std::abs(slope[i] - difference));
  }
  std::printf("on %s: values differ by at most %.1e, slopes by at most %.1e\n", device.c_str(), value_error,
              slope_error);

  // Two spirals, 100 points each.
  std::vector<float> points, labels;
  for (int i = 0; i < 200; ++i) {
    const double r = 0.1 + 0.9 * (i / 2) / 100.0,
                 angle = 3 * r * std::numbers::pi + (i % 2) * std::numbers::pi;
    points.insert(points.end(),
                  {static_cast<float>(r * std::cos(angle)), static_cast<float>(r * std::sin(angle))});
    labels.push_back(static_cast<float>(i % 2));
  }
  const Tensor inputs = tensor(points).reshape({200, 2}), wanted = tensor(labels).reshape({200, 1});
  random::seed(7);
  Net net;
  optim::Adam optimizer(nn::parameters(net), {.lr = 0.01});
  const auto step = compile([&](const Tensor& x, const Tensor& y) {
    const auto [loss, grads] =
        value_and_grad([&] { return bce_with_logits(net.forward(x), y); }, nn::parameters(net));
    optimizer.update(grads);
    return loss;
  });
  float loss = 0;
  for (int i = 0; i < steps; ++i) loss = step(inputs, wanted).item<float>();
  const float right = mean(((net.forward(inputs) > 0).to(DType::f32) == wanted).to(DType::f32)).item<float>();
  std::printf("%d steps: loss %.4f, %.1f %% of the points right\n", steps, loss, 100 * right);
  return value_error < 1e-5 && slope_error < 1e-4 ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << "fused_activation: " << error.what() << "\n";
  return 1;
}
