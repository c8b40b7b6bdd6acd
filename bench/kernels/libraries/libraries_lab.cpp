// Work that both a library and the compiler have kernels for, by sizes that models have: what takes it here,
// and how long that takes. Run it twice to compare: as it is, and with SYSTOLE_ONEDNN=0.
//
//   libraries_lab [PART OF A NAME]

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cpu/target.h"
#include "compile/program.h"
#include "systole/ops.h"
#include "systole/runtime.h"

namespace {

using namespace systole;
using ir::Graph;
using ir::Value;

struct Case {
  std::string name;
  Graph graph;
  double flops = 0;
};

Type floats(Shape shape) { return {DType::f32, std::move(shape)}; }

Case product(std::int64_t rows, std::int64_t depth, std::int64_t columns) {
  Graph graph("product");
  graph.output(ops::dot_general(graph.input("a", floats({rows, depth})),
                                graph.input("b", floats({depth, columns})), {1}, {0}));
  return {fmt::format("product {}x{}x{}", rows, depth, columns), std::move(graph),
          2.0 * static_cast<double>(rows * depth * columns)};
}

struct Image {
  std::int64_t batch, side, channels, filters, window, stride = 1, groups = 1;
};

enum class Way { forward, input_grad, weight_grad };

Case convolution(std::string_view what, const Image& c, Way way = Way::forward) {
  Graph graph("convolution");
  const std::int64_t before = c.window / 2, result = (c.side + 2 * before - c.window) / c.stride + 1;
  ir::ConvolutionAttrs attrs;
  attrs.layout = "b01f_01io->b01f";
  attrs.strides = {c.stride, c.stride};
  attrs.pad_low = attrs.pad_high = {before, before};
  attrs.feature_groups = c.groups;
  const Shape x{c.batch, c.side, c.side, c.channels}, w{c.window, c.window, c.channels / c.groups, c.filters},
      y{c.batch, result, result, c.filters};
  switch (way) {
    case Way::forward:
      graph.output(ops::convolution(graph.input("x", floats(x)), graph.input("w", floats(w)), attrs));
      break;
    case Way::input_grad:
      graph.output(ops::conv_input_grad(graph.input("dy", floats(y)), graph.input("w", floats(w)), x, attrs));
      break;
    case Way::weight_grad:
      graph.output(
          ops::conv_weight_grad(graph.input("dy", floats(y)), graph.input("x", floats(x)), w, attrs));
      break;
  }
  constexpr std::string_view kWays[] = {"", ", input's gradient", ", kernel's gradient"};
  return {fmt::format("{} {}x{}x{}x{} to {}, {}x{} / {}{}", what, c.batch, c.side, c.side, c.channels,
                      c.filters, c.window, c.window, c.stride, kWays[static_cast<int>(way)]),
          std::move(graph),
          2.0 * static_cast<double>(c.batch * result * result * c.filters * c.window * c.window * c.channels /
                                    c.groups)};
}

Case pooling(bool is_max, std::int64_t batch, std::int64_t side, std::int64_t channels, std::int64_t window,
             std::int64_t stride) {
  Graph graph("pooling");
  const Value x = graph.input("x", floats({batch, side, side, channels}));
  const std::int64_t before = window == 3 ? 1 : 0;
  const Ints size{window, window}, strides{stride, stride}, pad{before, before};
  graph.output(is_max ? ops::max_pool(x, size, strides, pad, pad)
                      : ops::avg_pool(x, size, strides, pad, pad));
  return {fmt::format("{} pooling {}x{}x{}x{}, {}x{} / {}", is_max ? "max" : "mean", batch, side, side,
                      channels, window, window, stride),
          std::move(graph)};
}

Case batch_norm(std::int64_t batch, std::int64_t side, std::int64_t channels, bool is_grad) {
  Graph graph("batch_norm");
  const Value x = graph.input("x", floats({batch, side, side, channels}));
  const Value scale = graph.input("scale", floats({channels})),
              other = graph.input("other", floats({channels}));
  if (is_grad) {
    const auto grads = ops::batch_norm_grad(graph.input("dy", x.type()), x, scale, other,
                                            graph.input("variance", floats({channels})));
    graph.output(grads.x);
    graph.output(grads.scale);
    graph.output(grads.bias);
  } else {
    const auto made = ops::batch_norm_train(x, scale, other);
    graph.output(made.y);
    graph.output(made.mean);
    graph.output(made.variance);
  }
  return {fmt::format("batch norm{} {}x{}x{}x{}", is_grad ? "'s gradient" : "", batch, side, side, channels),
          std::move(graph)};
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const auto& [m, k, n] : {std::array<std::int64_t, 3>{1, 784, 128},
                                {64, 784, 128},
                                {64, 128, 10},
                                {784, 64, 128},
                                {512, 512, 512},
                                {4096, 64, 64},
                                {32, 128, 512}})
    cases.push_back(product(m, k, n));
  const Image first{8, 224, 3, 64, 7, 2}, small{64, 32, 3, 32, 3}, few{64, 8, 16, 16, 3},
      deep{8, 56, 64, 64, 3}, each{8, 56, 64, 64, 3, 1, 64}, wide{8, 14, 512, 512, 3, 1, 512};
  for (const Way way : {Way::forward, Way::weight_grad}) {
    cases.push_back(convolution("first layer", first, way));
    cases.push_back(convolution("first layer", small, way));
  }
  for (const Way way : {Way::forward, Way::input_grad, Way::weight_grad}) {
    cases.push_back(convolution("few channels", few, way));
    cases.push_back(convolution("convolution", deep, way));
    cases.push_back(convolution("depthwise", each, way));
    cases.push_back(convolution("depthwise", wide, way));
  }
  cases.push_back(pooling(true, 64, 30, 32, 2, 2));
  cases.push_back(pooling(true, 8, 112, 64, 3, 2));
  cases.push_back(pooling(false, 8, 28, 256, 3, 2));
  for (const bool is_grad : {false, true}) {
    cases.push_back(batch_norm(8, 56, 64, is_grad));
    cases.push_back(batch_norm(8, 56, 256, is_grad));
    cases.push_back(batch_norm(8, 14, 1024, is_grad));
  }
  return cases;
}

// Who does the steps: "onednn.convolution", or "generated".
std::string done_by(const Graph& graph) {
  const lower::Program program =
      lower::make_program(lower::prepared(graph, cpu::target(), true), cpu::target());
  std::string names;
  for (const lower::Step& step : program.steps)
    names += (names.empty() ? "" : " + ") + (step.implementation.empty() ? "generated" : step.implementation);
  return names;
}

double microseconds(const Graph& graph) {
  runtime::Backend& backend = runtime::backend("cpu");
  const CompiledGraph compiled = compile(graph, "cpu");
  const auto session = compiled.new_session();
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  runtime::RunArguments arguments;
  arguments.per_device.resize(1);
  for (const CompiledGraph::Io& io : compiled.inputs()) {
    Literal value = Literal::full(io.type, 0);
    for (float& x : value.mutable_values<float>()) x = uniform(random);
    arguments.per_device[0].push_back(backend.upload(value, 0));
  }
  std::vector<std::vector<runtime::BufferRef>> results;
  using Clock = std::chrono::steady_clock;
  std::vector<double> times;
  const Clock::time_point stop = Clock::now() + std::chrono::milliseconds(300);
  while (times.size() < 5 || Clock::now() < stop) {
    const Clock::time_point begin = Clock::now();
    session->run_into(arguments, results);
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

}  // namespace

int main(int count, char** words) {
  const std::string_view part = count > 1 ? words[1] : "";
  bool is_found = false;
  for (const Case& each : all_cases()) {
    if (each.name.find(part) == std::string::npos) continue;
    is_found = true;
    const double us = microseconds(each.graph);
    const std::string speed = each.flops > 0 ? fmt::format("{:7.1f} GFLOP/s", each.flops / us / 1e3) : "";
    fmt::print("{:64} {:10.1f} µs {:16} {}\n", each.name, us, speed, done_by(each.graph));
    std::fflush(stdout);
  }
  if (is_found) return 0;
  fmt::print(stderr, "libraries_lab: no name has '{}' in it; they are\n", part);
  for (const Case& each : all_cases()) fmt::print(stderr, "  {}\n", each.name);
  return 2;
}
