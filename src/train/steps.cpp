#include "train/steps.h"

#include <algorithm>

#include "compile/work.h"

namespace systole::training {

namespace {

// Multiplications and element operations per second that a step gets to, very roughly.
constexpr double kProcessorRate = 2e10, kAcceleratorRate = 5e12;
// CUDA's graph of steps is captured first, which takes time by its length; so it is short, and the next
// launch is on its way before it ends.
constexpr double kProcessorLaunch = 0.1, kAcceleratorLaunch = 0.01, kCudaLaunch = 0.0025;
// A step costs this much however small it is.
constexpr double kProcessorStep = 5e-5, kAcceleratorStep = 2e-5;
constexpr std::int64_t kMostSteps = 4096;

bool has_convolution(const ir::Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const ir::Node& node) {
    return node.op == ir::Op::convolution ||
           std::any_of(node.graphs.begin(), node.graphs.end(),
                       [](const ir::GraphRef& part) { return has_convolution(*part); });
  });
}

}  // namespace

bool is_accelerator(std::string_view device) {
  return !device.starts_with("cpu") && !device.starts_with("reference") && !device.starts_with("pjrt:cpu");
}

bool loops_slowly(std::string_view device) { return device.starts_with("pjrt:cpu"); }

std::int64_t step_count(const EpochShape& epoch) {
  const std::int64_t full = epoch.samples / epoch.batch;
  const std::int64_t all = full + (epoch.drop_last || epoch.samples % epoch.batch == 0 ? 0 : 1);
  return epoch.steps > 0 ? std::min(all, epoch.steps) : all;
}

std::vector<Launch> plan_epoch(const EpochShape& epoch, std::int64_t per_launch) {
  std::vector<Launch> plan;
  const std::int64_t steps = step_count(epoch), full = std::min(steps, epoch.samples / epoch.batch);
  if (full > 0) {
    const std::int64_t launches = (full + per_launch - 1) / std::max<std::int64_t>(per_launch, 1);
    const std::int64_t size = full / launches;
    std::int64_t done = 0;
    for (std::int64_t i = 0; i < launches; ++i, done += size)
      plan.push_back({done * epoch.batch, size, epoch.batch});
    for (; done < full; ++done) plan.push_back({done * epoch.batch, 1, epoch.batch});
  }
  if (steps > full) plan.push_back({full * epoch.batch, 1, epoch.samples - full * epoch.batch});
  return plan;
}

std::vector<Launch> rest_of(const std::vector<Launch>& plan, std::int64_t done) {
  std::vector<Launch> rest;
  for (Launch launch : plan) {
    const std::int64_t skipped = std::min(done, launch.steps);
    done -= skipped;
    launch.first += skipped * launch.batch;
    launch.steps -= skipped;
    if (launch.steps > 0) rest.push_back(launch);
  }
  return rest;
}

std::int64_t steps_per_launch(const ir::Graph& step, std::string_view device) {
  if (loops_slowly(device) && has_convolution(step)) return 1;
  const bool accelerator = is_accelerator(device);
  const double work = static_cast<double>(passes::graph_work(step));
  const double seconds = (accelerator ? kAcceleratorStep : kProcessorStep) +
                         work / (accelerator ? kAcceleratorRate : kProcessorRate);
  const double launch = device.starts_with("cuda") ? kCudaLaunch
                        : accelerator              ? kAcceleratorLaunch
                                                   : kProcessorLaunch;
  return std::clamp(static_cast<std::int64_t>(launch / seconds), std::int64_t{1}, kMostSteps);
}

std::int64_t evaluation_batch(std::int64_t samples) {
  constexpr std::int64_t kSmallest = 64, kLargest = 512;
  if (samples <= kLargest) return std::max<std::int64_t>(samples, 1);
  for (std::int64_t batch = kLargest; batch >= kSmallest; --batch)
    if (samples % batch == 0) return batch;
  return 256;
}

}  // namespace systole::training
