// Times the loops of an LSTM and checks them against a plain loop in double: recurrence_lab [LENGTH BATCH
// HIDDEN [THREADS]]. The kernels are those that the CPU backend ships, made here for their sizes; the layout
// of r and the shares of the rows are the backend's too.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/cpu/jit.h"
#include "backend/cpu/tuned/recurrence.h"
#include "base/parallel.h"
#include "codegen/kernel.h"
#include "ops/composites/recurrent.h"
#include "systole/autodiff.h"
#include "systole/ops.h"

namespace systole {
namespace {

using Numbers = std::vector<float>;

struct Sizes {
  std::int64_t length, batch, hidden;
};

std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }
double logistic(double x) { return 1 / (1 + std::exp(-x)); }

// What each of the loop's results should be: of (inputs, bias, h0, c0, r), h0 and every h, the last h and c,
// the gates, c0 and every c.
std::vector<Numbers> plain_loop(const Sizes& s, const std::vector<Numbers>& in) {
  const std::int64_t n = s.hidden, state = s.batch * n;
  Numbers states = in[2], cells = in[3], gates(size(4 * s.length * state));
  states.resize(size((s.length + 1) * state));
  cells.resize(states.size());
  for (std::int64_t t = 0; t < s.length; ++t)
    for (std::int64_t b = 0; b < s.batch; ++b)
      for (std::int64_t j = 0; j < n; ++j) {
        double sums[4];
        for (std::int64_t g = 0; g < 4; ++g) {
          const std::int64_t at = ((t * s.batch + b) * 4 + g) * n + j;
          sums[g] = in[0][size(at)] + in[1][size(g * n + j)];
          for (std::int64_t k = 0; k < n; ++k)
            sums[g] +=
                static_cast<double>(states[size(t * state + b * n + k)]) * in[4][size((g * n + j) * n + k)];
          sums[g] = g == 2 ? std::tanh(sums[g]) : logistic(sums[g]);
          gates[size(at)] = static_cast<float>(sums[g]);
        }
        const std::int64_t at = t * state + b * n + j;
        const double c = sums[1] * cells[size(at)] + sums[0] * sums[2];
        cells[size(at + state)] = static_cast<float>(c);
        states[size(at + state)] = static_cast<float>(sums[3] * std::tanh(c));
      }
  const auto last = [&](const Numbers& all) { return Numbers(all.end() - state, all.end()); };
  return {states, last(states), last(cells), gates, cells};
}

// Of (grad_y, grad_h, grad_c, gates, cells, r): the gradients by h0, c0 and the gates.
std::vector<Numbers> plain_loop_grad(const Sizes& s, const std::vector<Numbers>& in) {
  const std::int64_t n = s.hidden, state = s.batch * n;
  Numbers dh = in[1], dc = in[2], dgates(in[3].size());
  for (std::int64_t t = s.length; t-- > 0;) {
    for (std::int64_t b = 0; b < s.batch; ++b)
      for (std::int64_t j = 0; j < n; ++j) {
        const std::int64_t place = b * n + j, gate = (t * s.batch + b) * 4 * n + j;
        const double i = in[3][size(gate)], f = in[3][size(gate + n)], g = in[3][size(gate + 2 * n)],
                     o = in[3][size(gate + 3 * n)];
        const double bent = std::tanh(in[4][size((t + 1) * state + place)]);
        const double by_h = dh[size(place)] + in[0][size(t * state + place)];
        const double by_c = dc[size(place)] + by_h * o * (1 - bent * bent);
        dgates[size(gate)] = static_cast<float>(by_c * g * i * (1 - i));
        dgates[size(gate + n)] = static_cast<float>(by_c * in[4][size(t * state + place)] * f * (1 - f));
        dgates[size(gate + 2 * n)] = static_cast<float>(by_c * i * (1 - g * g));
        dgates[size(gate + 3 * n)] = static_cast<float>(by_h * bent * o * (1 - o));
        dc[size(place)] = static_cast<float>(by_c * f);
      }
    for (std::int64_t b = 0; b < s.batch; ++b)
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < 4 * n; ++k)
          sum += static_cast<double>(dgates[size((t * s.batch + b) * 4 * n + k)]) * in[5][size(k * n + j)];
        dh[size(b * n + j)] = static_cast<float>(sum);
      }
  }
  return {dh, dc, dgates};
}

// The loops of a layer with its gradient, or of one without.
ir::Graph graph_of(const Sizes& s, bool trains) {
  ir::Graph graph;
  const auto in = [&](Shape shape) { return graph.input({}, {DType::f32, std::move(shape)}); };
  const ir::Value x = in({s.length, s.batch, 1}), h0 = in({s.batch, s.hidden}), c0 = in({s.batch, s.hidden});
  const ir::Value w = in({4 * s.hidden, 1}), r = in({4 * s.hidden, s.hidden});
  const auto result = ops::lstm(x, h0, c0, w, r, in({4 * s.hidden}), in({4 * s.hidden}));
  graph.output(trains ? ops::sum(result.y, {0, 1, 2}) : result.y);
  return cpu::with_lstm_loops(trains ? autodiff::value_and_grad(graph, {4}) : graph);
}

struct Launch {
  cpu::KernelFunction function;
  void* const* buffers;
};

double fastest(const std::function<void()>& run) {
  double best = 1e9;
  for (int i = 0; i < 60; ++i) {
    const auto start = std::chrono::steady_clock::now();
    run();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

void measure(const Sizes& s, const ir::Graph& graph, const ir::Node& node, int threads) {
  lower::Region region;
  ir::Values operands;
  for (const ir::ValueId v : node.operands) operands.push_back(region.graph.input({}, graph.type(v)));
  const ir::Values results = region.graph.add_multi(node.op, operands, node.attrs, node.graphs);
  for (const ir::Value& v : results) region.graph.output(v);
  region.anchor = results[0].id().node;
  const cpu::Tuned made = cpu::make_recurrence(region, "loop");
  const std::shared_ptr<const cpu::Library> library =
      cpu::compile_kernels(codegen::source_file(made.kernels, codegen::Dialect::c));

  std::vector<Numbers> inputs, outputs;
  unsigned state = 1;
  for (const ir::Value& v : operands) {
    Numbers& list = inputs.emplace_back(size(v.shape().count()));
    for (float& x : list)
      x = static_cast<float>((state = state * 1664525 + 1013904223) >> 8) / 0x1p25f - 0.25f;
  }
  for (const ir::Value& v : results) outputs.emplace_back(size(v.shape().count()));
  Numbers workspace(size(made.workspace_bytes / 4));
  std::vector<void*> buffers;
  for (std::vector<Numbers>* const lists : {&inputs, &outputs})
    for (Numbers& list : *lists) buffers.push_back(list.data());
  buffers.push_back(workspace.data());

  double total = 0;
  std::string parts;
  for (const codegen::Kernel& kernel : made.kernels) {
    const Launch launch{library->find(kernel.name), buffers.data()};
    const double seconds = fastest([&] {
      parallel_for(
          kernel.items, threads,
          [](const void* context, std::int64_t begin, std::int64_t end) {
            const auto& call = *static_cast<const Launch*>(context);
            call.function(call.buffers, begin, end);
          },
          &launch);
    });
    total += seconds;
    parts += fmt::format(" {:8.1f}", seconds * 1e6);
  }
  const bool is_grad = node.as<ir::CompositeAttrs>().name == ops::kLstmLoopGrad;
  std::vector<Numbers> wanted = is_grad ? plain_loop_grad(s, inputs) : plain_loop(s, inputs);
  if (results.size() == 3 && !is_grad)
    wanted[0].erase(wanted[0].begin(), wanted[0].begin() + s.batch * s.hidden);
  double worst = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    for (std::size_t j = 0; j < outputs[i].size(); ++j)
      worst = std::max(worst, static_cast<double>(std::fabs(outputs[i][j] - wanted[i][j])));
  const double flops = 8.0 * static_cast<double>(s.length * s.batch * s.hidden * s.hidden);
  const char* const what = is_grad ? "backwards" : results.size() == 5 ? "keeps" : "forwards";
  fmt::print("{:4} x {:4} x {:4} {:10} us: pack, loop{}  {:6.1f} GFLOP/s  error {:.1e}\n", s.length, s.batch,
             s.hidden, what, parts, flops / total / 1e9, worst);
}

int run(const std::vector<std::int64_t>& numbers) {
  std::vector<Sizes> all = {{64, 32, 128}, {64, 1, 128}, {16, 7, 100}, {32, 64, 256}};
  if (numbers.size() >= 3) all = {{numbers[0], numbers[1], numbers[2]}};
  const int threads = numbers.size() == 4 ? static_cast<int>(numbers[3]) : thread_count();
  for (const Sizes& s : all)
    for (const bool trains : {false, true}) {
      const ir::Graph graph = graph_of(s, trains);
      for (const ir::Node& node : graph.nodes())
        if (cpu::is_recurrence(node)) measure(s, graph, node, threads);
    }
  return 0;
}

}  // namespace
}  // namespace systole

int main(int count, char** words) {
  std::vector<std::int64_t> numbers;
  for (int i = 1; i < count; ++i) numbers.push_back(std::atoll(words[i]));
  const bool are_sizes = std::all_of(numbers.begin(), numbers.end(), [](std::int64_t n) { return n > 0; });
  if (!are_sizes || (!numbers.empty() && numbers.size() != 3 && numbers.size() != 4)) {
    fmt::print(stderr, "recurrence_lab [LENGTH BATCH HIDDEN [THREADS]]\n");
    return 2;
  }
  return systole::run(numbers);
}
