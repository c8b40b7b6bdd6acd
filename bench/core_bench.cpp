// What the core itself costs, apart from any fast backend's kernels: text in and out, a run of a prepared
// graph, and the reference evaluation of a small network and of single ops. Run by `make bench`; numbers are
// for comparison on one machine, no test reads them.

#include <benchmark/benchmark.h>
#include <systole/systole.h>

#include <memory>
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

// 60 elementwise ops on four inputs through a session, where all but the kernels is overhead.
void run_session(benchmark::State& state) {
  const Type type{DType::f32, {state.range(0)}};
  ir::Graph graph("chain");
  ir::Values inputs;
  for (int i = 0; i < 4; ++i) inputs.push_back(graph.input("x" + std::to_string(i), type));
  ir::Value v = inputs[0];
  for (std::size_t i = 0; i < 60; ++i) v = i % 2 == 0 ? v + inputs[(i + 1) % 4] : v * inputs[(i + 2) % 4];
  graph.output(v);
  CompiledGraph compiled = compile(graph, "reference");
  std::unique_ptr<runtime::Session> session = compiled.new_session();
  runtime::RunArguments arguments;
  arguments.per_device.resize(1);
  for (int i = 0; i < 4; ++i)
    arguments.per_device[0].push_back(runtime::backend("reference").upload(Literal::full(type, 0.5), 0));
  for (auto _ : state) benchmark::DoNotOptimize(session->run(arguments));
}

// One op on f32[size, size].
void run_op(benchmark::State& state, ir::Value (*op)(ir::Value)) {
  ir::Graph graph("op");
  graph.output(op(graph.input("x", {DType::f32, {state.range(0), state.range(0)}})));
  CompiledGraph compiled = compile(graph, "reference");
  const Literal x = Literal::full(compiled.inputs()[0].type, 0.25);
  for (auto _ : state) benchmark::DoNotOptimize(compiled.run({x}));
  state.SetItemsProcessed(state.iterations() * x.count());
}

}  // namespace

BENCHMARK(build)->Arg(10)->Arg(1000);
BENCHMARK(print)->Arg(10)->Arg(1000);
BENCHMARK(parse)->Arg(10)->Arg(1000);
BENCHMARK(run_reference)->Arg(16)->Arg(128);
BENCHMARK(run_session)->Arg(4)->Arg(1024);
BENCHMARK_CAPTURE(run_op, add, [](ir::Value x) { return x + x; })->Arg(1000);
BENCHMARK_CAPTURE(run_op, scaled, [](ir::Value x) { return x * 0.5; })->Arg(1000);
BENCHMARK_CAPTURE(run_op, relu, [](ir::Value x) { return ops::relu(x); })->Arg(1000);
BENCHMARK_CAPTURE(run_op, exp, [](ir::Value x) { return ops::exp(x); })->Arg(1000);
BENCHMARK_CAPTURE(run_op, softmax, [](ir::Value x) { return ops::softmax(x); })->Arg(1000);
BENCHMARK_CAPTURE(run_op, sum_rows, [](ir::Value x) { return ops::sum(x, {0}); })->Arg(1000);
BENCHMARK_CAPTURE(run_op, sum_columns, [](ir::Value x) { return ops::sum(x, {1}); })->Arg(1000);
BENCHMARK_CAPTURE(run_op, transpose, [](ir::Value x) { return ops::transpose(x, {1, 0}); })->Arg(1000);
BENCHMARK_CAPTURE(run_op, to_bf16, [](ir::Value x) { return ops::convert(x, DType::bf16); })->Arg(1000);
BENCHMARK_CAPTURE(run_op, matmul, [](ir::Value x) { return ops::matmul(x, x); })->Arg(256);
