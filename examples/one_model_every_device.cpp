// Article S3, section 4, which announces this comparison and leaves it empty: one model, trained for the same
// steps on every kind of device there is, and where there are several of a kind on all of them at once, each
// with its share of the batch. Everything random comes from keys, so the losses must agree; how far they do
// not is printed, and makes the exit code 1 when it is more than rounding explains.
//
//   one_model_every_device [STEPS [DEVICE…]]     10 steps; DEVICE: the first of its kind, such as tpu or
//   pjrt:cpu

#include <systole/systole.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "options.h"

namespace {

using namespace systole;

constexpr std::int64_t kBatch = 64;
constexpr double kTolerance = 1e-4;  // of a loss

struct Net {
  nn::Linear fc1{784, 32}, fc2{32, 10};
  Tensor forward(const Tensor& x) const { return fc2(relu(fc1(x))); }
};

struct Run {
  std::string where;
  std::vector<float> losses;
  double seconds = 0;  // per step, once compiled
};

// `count` devices of a kind, the first of them `device`.
Run train(const std::string& device, std::int64_t count, std::int64_t steps) {
  const DeviceScope scope(device);
  random::seed(1);
  Net net;
  optim::Adam optimizer(parameters(net), {.lr = 1e-3});
  const auto learn = [&](const Tensor& x, const Tensor& y) {
    auto [loss, grads] = value_and_grad([&] { return cross_entropy(net.forward(x), y); }, parameters(net));
    optimizer.update(grads);
    return loss;
  };
  auto step = count > 1 ? compile(learn, DeviceMesh(device, {{"data", count}})) : compile(learn);

  const data::Digits digits = data::digits(kBatch * steps, 1);
  const Tensor x = Tensor(digits.images).reshape({steps, kBatch, 784}).to(DType::f32) / 255;
  const Tensor y = Tensor(digits.labels).reshape({steps, kBatch});
  Run run{count > 1 ? device + " × " + std::to_string(count) : device, step.many(x, y).to_vector<float>(), 0};
  const auto start = std::chrono::steady_clock::now();
  step.many(x, y).to_vector<float>();  // the same program, now compiled
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  run.seconds = took.count() / static_cast<double>(steps);
  return run;
}

void print(const std::vector<Run>& runs) {
  std::printf("\n%-5s", "step");
  for (const Run& run : runs) std::printf("  %14s", run.where.c_str());
  for (std::size_t i = 0; i < runs[0].losses.size(); ++i) {
    std::printf("\n%-5zu", i);
    for (const Run& run : runs) std::printf("  %14.7f", run.losses[i]);
  }
  std::printf("\n%-5s", "ms");  // per step, many of them in one launch
  for (const Run& run : runs) std::printf("  %14.2f", 1e3 * run.seconds);
  std::printf("\n");
}

double largest_difference(const std::vector<Run>& runs) {
  double largest = 0;
  for (const Run& run : runs)
    for (std::size_t i = 0; i < run.losses.size(); ++i) {
      const double difference = std::abs(double{run.losses[i]} - double{runs[0].losses[i]});
      largest = std::isnan(difference) ? INFINITY : std::max(largest, difference);
    }
  return largest;
}

}  // namespace

int main(int argc, char** argv) try {
  answer_help(argc, argv, "[STEPS [DEVICE…]]");
  const std::int64_t steps = argc > 1 ? whole_number("STEPS", argv[1]) : 10;
  std::vector<std::string> wanted;
  for (int i = 2; i < argc; ++i) wanted.push_back(DeviceName::parse(argv[i]).to_string());

  // How many devices of each kind, by the name of the first; a TPU has a second name, pjrt:tpu.
  std::vector<std::pair<std::string, std::int64_t>> kinds;
  for (const runtime::DeviceInfo& device : devices()) {
    const std::string first = DeviceName{device.name.backend, device.name.plugin, 0}.to_string();
    if (device.name.plugin == "tpu") continue;
    std::printf("%s: %s\n", device.name.to_string().c_str(), device.description.c_str());
    if (device.name.ordinal == 0)
      kinds.emplace_back(first, 1);
    else
      ++kinds.back().second;
  }
  std::vector<Run> runs;
  for (const auto& [first, count] : kinds) {
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), first) == wanted.end()) continue;
    runs.push_back(train(first, 1, steps));
    // The batch must divide among them.
    if (count > 1 && kBatch % count == 0) runs.push_back(train(first, count, steps));
  }
  if (runs.empty()) throw Error(ErrorKind::kNotFound, "devices", "none of those asked for is here");
  print(runs);
  const double difference = largest_difference(runs);
  std::printf("The losses differ by at most %.2g.\n", difference);
  return difference <= kTolerance ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << "one_model_every_device: " << error.what() << "\n";
  return 1;
}
