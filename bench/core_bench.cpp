// What the core itself costs, apart from any backend's kernels: text in and out, and the reference evaluation
// of a small network. Run by `make bench`; numbers are for comparison on one machine, no test reads them.

#include <benchmark/benchmark.h>
#include <systole/systole.h>

#include <string>

namespace {

using namespace systole;

// relu(x·w + b), `layers` times: 3 nodes and 2 inputs each.
ir::Graph network(int layers, std::int64_t width) {
  ir::Graph graph("network");
  ir::Value x = graph.input("x", {DType::f32, {8, width}});
  for (int i = 0; i < layers; ++i) {
    ir::Value w = graph.input("w" + std::to_string(i), {DType::f32, {width, width}});
    ir::Value b = graph.input("b" + std::to_string(i), {DType::f32, {width}});
    x = ops::relu(ops::matmul(x, w) + b);
  }
  graph.output(x, "y");
  return graph;
}

void build(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(network(static_cast<int>(state.range(0)), 16));
}

void print(benchmark::State& state) {
  ir::Graph graph = network(static_cast<int>(state.range(0)), 16);
  std::size_t bytes = 0;
  for (auto _ : state) bytes += ir::print(graph).size();
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes));
}

void parse(benchmark::State& state) {
  std::string text = ir::print(network(static_cast<int>(state.range(0)), 16));
  for (auto _ : state) benchmark::DoNotOptimize(ir::parse(text));
  state.SetBytesProcessed(static_cast<std::int64_t>(text.size() * state.iterations()));
}

void run_reference(benchmark::State& state) {
  CompiledGraph compiled = compile(network(2, state.range(0)), "reference");
  std::vector<Literal> arguments;
  for (const CompiledGraph::Io& input : compiled.inputs())
    arguments.push_back(Literal::full(input.type, 0.01));
  for (auto _ : state) benchmark::DoNotOptimize(compiled.run(arguments));
}

}  // namespace

BENCHMARK(build)->Arg(10)->Arg(1000);
BENCHMARK(print)->Arg(10)->Arg(1000);
BENCHMARK(parse)->Arg(10)->Arg(1000);
BENCHMARK(run_reference)->Arg(16)->Arg(128);
