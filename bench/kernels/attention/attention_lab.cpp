// The lab of attention's kernels: the shipped generator's text, with any tiles, checked against a plain loop
// in double and timed.
//
//   attention_lab BATCHxHEADSxQUERIESxDEPTH [keys=N] [width=N] [causal]
//                 [tiles=QUERIES,KEYS,RANGES] [threads=N] [check]
//
// `check` fails where they differ. Without it, it prints the best and the median time of the forward pass and
// of the gradient, and of the composites' bodies as the compiler has them when nobody claims them.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/cpu/jit.h"
#include "backend/cpu/tuned/attention.h"
#include "base/parallel.h"
#include "codegen/kernel.h"
#include "systole/compile.h"
#include "systole/ir/composite.h"
#include "systole/runtime.h"

namespace {

using namespace systole;
using patterns::Attention;
using Floats = std::vector<float>;

constexpr const char* kUsage =
    "BATCHxHEADSxQUERIESxDEPTH [keys=N] [width=N] [causal] [tiles=QUERIES,KEYS,RANGES] [threads=N] [check]";

struct Options {
  Attention attention;
  cpu::AttentionTiles tiles;
  bool has_tiles = false, checks = false;
  int threads = thread_count();
};

std::vector<std::int64_t> numbers(std::string_view text, char between) {
  std::vector<std::int64_t> found;
  while (!text.empty()) {
    const std::size_t at = std::min(text.find(between), text.size());
    found.push_back(std::strtoll(std::string(text.substr(0, at)).c_str(), nullptr, 10));
    text.remove_prefix(std::min(at + 1, text.size()));
  }
  return found;
}

Options read_options(int count, char** words) {
  Options o;
  Attention& a = o.attention;
  a.dtype = DType::f32;
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    const std::string_view value = word.substr(std::min(word.find('=') + 1, word.size()));
    const std::vector<std::int64_t> list = numbers(value, word.starts_with("tiles=") ? ',' : 'x');
    if (word.starts_with("keys=")) {
      a.keys = list.at(0);
    } else if (word.starts_with("width=")) {
      a.width = list.at(0);
    } else if (word.starts_with("threads=")) {
      o.threads = static_cast<int>(list.at(0));
    } else if (word.starts_with("tiles=")) {
      o.tiles = {list.at(0), list.at(1), list.at(2)};
      o.has_tiles = true;
    } else if (word == "causal") {
      a.causal = true;
    } else if (word == "check") {
      o.checks = true;
    } else {
      const std::vector<std::int64_t> sizes = numbers(word, 'x');
      if (sizes.size() != 4 || std::find(sizes.begin(), sizes.end(), 0) != sizes.end())
        throw Error(ErrorKind::kInvalidArgument, std::string(word), "not what attention_lab takes", kUsage);
      a.batch = sizes.at(0), a.heads = sizes.at(1), a.queries = sizes.at(2), a.depth = sizes.at(3);
    }
  }
  if (a.batch == 0) throw Error(ErrorKind::kInvalidArgument, "attention_lab", "no sizes", kUsage);
  if (a.keys == 0) a.keys = a.queries;
  if (a.width == 0) a.width = a.depth;
  a.scale = 1 / std::sqrt(static_cast<double>(a.depth));
  return o;
}

// With dense operands, each an input of its own.
Attention dense(Attention a, bool is_gradient) {
  a.is_gradient = is_gradient;
  a.arrays.clear();
  const auto add = [&](std::int64_t length, std::int64_t depth) {
    a.arrays.push_back({a.arrays.size(), 0, {a.heads * length * depth, length * depth, depth, 1}});
  };
  add(a.queries, a.depth);
  add(a.keys, a.depth);
  add(a.keys, a.width);
  if (!is_gradient) return a;
  add(a.queries, a.width);
  add(a.queries, 1);
  add(a.queries, a.width);
  return a;
}

class Runner {
 public:
  Runner(const Attention& a, const Options& options) : threads_(options.threads) {
    const cpu::AttentionTiles tiles = options.has_tiles ? options.tiles : cpu::attention_tiles(a);
    cpu::Tuned made = cpu::attention_kernels(a, tiles, "lab");
    workspace_.resize(static_cast<std::size_t>(made.workspace_bytes / 4));
    library_ = cpu::compile_kernels(codegen::source_file(made.kernels, codegen::Dialect::c));
    for (const codegen::Kernel& kernel : made.kernels)
      launches_.emplace_back(library_->find(kernel.name), kernel.items);
  }
  void run(std::vector<Floats*> arrays) {
    std::vector<void*> buffers;
    for (Floats* array : arrays) buffers.push_back(array->data());
    buffers.push_back(workspace_.data());
    for (const auto& launch : launches_) {
      const std::pair<cpu::KernelFunction, void**> context{launch.first, buffers.data()};
      parallel_for(
          launch.second, threads_,
          [](const void* c, std::int64_t begin, std::int64_t end) {
            const auto& [function, all] = *static_cast<const std::pair<cpu::KernelFunction, void**>*>(c);
            function(all, begin, end);
          },
          &context);
    }
  }

 private:
  int threads_;
  Floats workspace_;
  std::shared_ptr<const cpu::Library> library_;
  std::vector<std::pair<cpu::KernelFunction, std::int64_t>> launches_;
};

struct Data {
  Floats q, k, v, o, lse, grad, dq, dk, dv;
};

Data data_for(const Attention& a) {
  std::mt19937 bits(1);
  std::normal_distribution<float> normal;
  const auto filled = [&](std::int64_t length, std::int64_t depth) {
    Floats made(static_cast<std::size_t>(a.batch * a.heads * length * depth));
    for (float& x : made) x = normal(bits);
    return made;
  };
  return {filled(a.queries, a.depth), filled(a.keys, a.depth), filled(a.keys, a.width),
          filled(a.queries, a.width), filled(a.queries, 1),    filled(a.queries, a.width),
          filled(a.queries, a.depth), filled(a.keys, a.depth), filled(a.keys, a.width)};
}

// o, lse, dq, dk and dv by definition, in double.
Data reference(const Attention& a, const Data& x) {
  Data y = x;
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  for (std::int64_t h = 0; h < a.batch * a.heads; ++h) {
    std::vector<double> dq(at(a.queries * a.depth)), dk(at(a.keys * a.depth)), dv(at(a.keys * a.width));
    const float *const q = &x.q[at(h * a.queries * a.depth)], *const k = &x.k[at(h * a.keys * a.depth)],
                       *const v = &x.v[at(h * a.keys * a.width)],
                       *const g = &x.grad[at(h * a.queries * a.width)];
    for (std::int64_t i = 0; i < a.queries; ++i) {
      const std::int64_t seen = a.causal ? std::min(a.keys, i + a.keys - a.queries + 1) : a.keys;
      std::vector<double> weights(at(seen)), inner(at(seen)), o(at(a.width));
      double most = -INFINITY, total = 0, mean = 0;
      for (std::int64_t j = 0; j < seen; ++j) {
        for (std::int64_t d = 0; d < a.depth; ++d)
          weights[at(j)] += static_cast<double>(q[i * a.depth + d]) * k[j * a.depth + d];
        weights[at(j)] *= a.scale;
        most = std::max(most, weights[at(j)]);
      }
      for (double& w : weights) total += w = std::exp(w - most);
      for (std::int64_t j = 0; j < seen; ++j) {
        weights[at(j)] /= total;
        for (std::int64_t e = 0; e < a.width; ++e) {
          o[at(e)] += weights[at(j)] * v[j * a.width + e];
          inner[at(j)] += static_cast<double>(g[i * a.width + e]) * v[j * a.width + e];
          dv[at(j * a.width + e)] += weights[at(j)] * g[i * a.width + e];
        }
        mean += weights[at(j)] * inner[at(j)];
      }
      for (std::int64_t j = 0; j < seen; ++j) {
        const double slope = weights[at(j)] * (inner[at(j)] - mean) * a.scale;
        for (std::int64_t d = 0; d < a.depth; ++d) {
          dq[at(i * a.depth + d)] += slope * k[j * a.depth + d];
          dk[at(j * a.depth + d)] += slope * q[i * a.depth + d];
        }
      }
      y.lse[at(h * a.queries + i)] = static_cast<float>(most + std::log(total));
      std::copy(o.begin(), o.end(), &y.o[at((h * a.queries + i) * a.width)]);
    }
    std::copy(dq.begin(), dq.end(), &y.dq[at(h * a.queries * a.depth)]);
    std::copy(dk.begin(), dk.end(), &y.dk[at(h * a.keys * a.depth)]);
    std::copy(dv.begin(), dv.end(), &y.dv[at(h * a.keys * a.width)]);
  }
  return y;
}

bool agrees(std::string_view name, const Floats& got, const Floats& expected) {
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double difference = std::abs(static_cast<double>(got[i]) - expected[i]);
    worst = std::isnan(difference) ? INFINITY : std::max(worst, difference);
    largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
  }
  fmt::print("{:4} off by {:.2e} of {:.2e}\n", name, worst, largest);
  constexpr double kPrecision = 1e-5;
  return worst <= kPrecision * std::max(largest, 1.0);
}

void time_it(std::string_view name, const std::function<void()>& work, double operations) {
  std::vector<double> times;
  const auto start = std::chrono::steady_clock::now();
  const auto since = [](auto from) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
  };
  while (times.size() < 5 || since(start) < 1.0) {
    const auto from = std::chrono::steady_clock::now();
    work();
    times.push_back(since(from));
  }
  std::sort(times.begin(), times.end());
  fmt::print("{:22} best {:9.1f} us, median {:9.1f} us, {:6.1f} GFLOP/s\n", name, times[0] * 1e6,
             times[times.size() / 2] * 1e6, operations / times[0] * 1e-9);
}

void time_body(std::string_view name, const Attention& a, const std::vector<Floats*>& arrays,
               double operations) {
  const std::vector<Shape> shapes = {
      {a.batch, a.heads, a.queries, a.depth}, {a.batch, a.heads, a.keys, a.depth},
      {a.batch, a.heads, a.keys, a.width},    {a.batch, a.heads, a.queries, a.width},
      {a.batch, a.heads, a.queries},          {a.batch, a.heads, a.queries, a.width}};
  std::vector<Type> types;
  std::vector<Literal> arguments;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    types.push_back({DType::f32, shapes[i]});
    arguments.push_back(Literal::of<float>(shapes[i], *arrays[i]));
  }
  ir::AttrMap attrs = {{"causal", a.causal}, {"scale", a.scale}};
  const ir::GraphRef body = ir::composite_body(*ir::find_composite(name), types, attrs);
  const CompiledGraph compiled = compile(*body, "cpu");
  time_it(fmt::format("body of {}", name), [&] { compiled.run(arguments); }, operations);
}

int run(int count, char** words) {
  const Options options = read_options(count, words);
  const Attention forward = dense(options.attention, false), gradient = dense(options.attention, true);
  Data x = data_for(forward);
  Runner forwards(forward, options), backwards(gradient, options);
  const std::vector<Floats*> out{&x.q, &x.k, &x.v, &x.o, &x.lse},
      back{&x.q, &x.k, &x.v, &x.o, &x.lse, &x.grad, &x.dq, &x.dk, &x.dv};
  forwards.run(out);
  backwards.run(back);
  if (options.checks) {
    const Data expected = reference(forward, x);
    bool are_right = agrees("o", x.o, expected.o);
    are_right &= agrees("lse", x.lse, expected.lse);
    are_right &= agrees("dq", x.dq, expected.dq);
    are_right &= agrees("dk", x.dk, expected.dk);
    are_right &= agrees("dv", x.dv, expected.dv);
    return are_right ? 0 : 1;
  }
  const double pairs = static_cast<double>(forward.batch * forward.heads * forward.queries * forward.keys) *
                       (forward.causal ? 0.5 : 1);
  const double each = 2.0 * static_cast<double>(forward.depth + forward.width);
  time_it("forward", [&] { forwards.run(out); }, pairs * each);
  time_it("gradient", [&] { backwards.run(back); }, pairs * each * 2.5);
  time_body("attention", forward, {&x.q, &x.k, &x.v}, pairs * each);
  time_body("attention_grad", forward, {&x.q, &x.k, &x.v, &x.o, &x.lse, &x.grad}, pairs * each * 2.5);
  return 0;
}

}  // namespace

int main(int count, char** words) {
  try {
    return run(count, words);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
