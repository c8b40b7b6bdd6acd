// `make soak`: random graphs for as many minutes as one likes, on each device of this machine. Forward
// graphs, wide ones too, have the bound that each carries (random_graph.h). Gradients, loops and gradients of
// loops are in f64 and have one bound: results differ from the plain evaluation of the graph as built by at
// most 1e-9·max(1, M), where M is the largest magnitude of any value in that evaluation; graphs of M above
// 1e5 are left out and not counted. A file names the graph that is being run, for one that ends or hangs the
// process.

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/whole_number.h"
#include "eval/eval.h"
#include "random_graph.h"
#include "systole/autodiff.h"
#include "systole/base/error.h"
#include "systole/ir/composite.h"
#include "systole/ir/text.h"
#include "systole/runtime.h"

namespace systole::conformance {

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kShare = 1e-9, kMostMagnitude = 1e5;
constexpr std::int64_t kTurns = 3;  // of a loop

struct Case {
  ir::Graph graph;
  std::vector<Literal> arguments;
  std::vector<double> allowed;  // by output; empty: the bound of f64 above
};

ir::Value scalar_sum(ir::Value v) {
  Ints axes(v.shape().size());
  for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<std::int64_t>(i);
  return ops::sum(v, axes);
}

ir::Value sum_of_floats(ir::Graph& graph, const ir::Values& values) {
  ir::Value total = graph.constant(Literal::scalar<double>(0));
  for (const ir::Value& v : values)
    if (is_float(v.dtype())) total = ops::add(total, scalar_sum(v));
  return total;
}

Case forward(std::uint64_t seed, const RandomOptions& options) {
  RandomGraph random(seed, options);
  Case made{random.graph(), random.arguments(), {}};
  for (std::size_t i = 0; i < made.graph.outputs().size(); ++i) made.allowed.push_back(random.allowed(i));
  return made;
}

// One scalar of all float results.
Case loss(std::uint64_t seed, const RandomOptions& options) {
  const RandomGraph random(seed, options);
  Case made{ir::Graph("loss"), random.arguments(), {}};
  ir::Values inputs;
  for (const Literal& x : made.arguments) inputs.push_back(made.graph.input({}, x.type()));
  made.graph.output(sum_of_floats(made.graph, ir::inline_graph(made.graph, random.graph(), inputs)));
  return made;
}

// A scan whose body is a random graph of the carry, a slice of what it goes over, and constants.
Case loop(std::uint64_t seed) {
  const RandomGraph random(seed, {.smooth = true});
  const std::vector<Literal>& given = random.arguments();
  std::vector<Type> types;
  for (const Literal& x : given) types.push_back(x.type());
  const ir::GraphRef body = ir::make_graph("body", types, [&](const ir::Values& x) {
    ir::Graph& graph = x[0].graph();
    const ir::Value total = sum_of_floats(graph, ir::inline_graph(graph, random.graph(), x));
    const ir::Value bent = ops::tanh(ops::mul(total, ops::scalar_like(total, 1.0 / 64)));
    const ir::Value half = ops::mul(x[0], ops::scalar_like(x[0], 0.5));
    return ir::Values{ops::add(half, ops::broadcast_to(bent, x[0].shape())), bent};
  });
  Case made{ir::Graph("loop"), given, {}};
  ir::Values inputs;
  for (std::size_t i = 0; i < types.size(); ++i) {
    Type type = types[i];
    if (i == 1) {  // gone over
      type.shape = Shape{kTurns};
      for (const Dim& d : types[i].shape) type.shape.push_back(d);
      Literal rows(type);
      for (std::int64_t t = 0; t < kTurns; ++t)
        std::copy_n(given[i].bytes(), given[i].byte_size(),
                    rows.mutable_bytes() + static_cast<std::size_t>(t) * given[i].byte_size());
      made.arguments[i] = std::move(rows);
    }
    inputs.push_back(made.graph.input({}, type));
  }
  const ir::Values constants(inputs.begin() + 2, inputs.end());
  const ir::Values results = ops::scan(body, inputs[0], inputs[1], constants, kTurns, seed % 2 == 0);
  made.graph.output(sum_of_floats(made.graph, results));
  return made;
}

Case gradient_of(Case made) {
  std::vector<int> wrt(made.arguments.size());
  for (std::size_t i = 0; i < wrt.size(); ++i) wrt[i] = static_cast<int>(i);
  made.graph = autodiff::value_and_grad(made.graph, wrt);
  return made;
}

// The largest magnitude of any value of the graph; infinite when one is not finite.
double magnitude(const Case& of) {
  ir::Graph all = of.graph;
  for (std::int32_t i = 0; i < all.size(); ++i)
    for (std::size_t r = 0; r < all.node(i).types.size(); ++r)
      if (is_float(all.node(i).types[r].dtype)) all.output(all.value({i, static_cast<std::int32_t>(r)}));
  double most = 0;
  for (const Literal& value : eval::evaluate(all, of.arguments))
    for (const double v : value.to_doubles())
      most = std::isfinite(v) ? std::max(most, std::abs(v)) : std::numeric_limits<double>::infinity();
  return most;
}

struct Tally {
  std::int64_t graphs = 0, left_out = 0, different = 0;
  double seconds = 0;
};

// False when the device's results are not the evaluation's.
void run_one(const Case& one, std::uint64_t seed, const std::string& kind, const std::string& device,
             Tally& tally) {
  double bound = 0;
  if (one.allowed.empty()) {
    const double most = magnitude(one);
    if (!(most <= kMostMagnitude)) {
      ++tally.left_out;
      return;
    }
    bound = kShare * std::max(1.0, most);
  }
  ++tally.graphs;
  std::string wrong;
  try {
    const std::vector<Literal> want = eval::evaluate(one.graph, one.arguments);
    const std::vector<Literal> got = compile(one.graph, device).run(one.arguments);
    for (std::size_t i = 0; i < want.size() && wrong.empty(); ++i)
      if (std::string text = difference(got[i], want[i], one.allowed.empty() ? bound : one.allowed[i]);
          !text.empty())
        wrong = fmt::format("output {}: {}", i, text);
  } catch (const std::exception& error) {
    wrong = error.what();
  }
  if (wrong.empty()) return;
  ++tally.different;
  fmt::print("DIFFERENT: {} on {}, seed {}: {}\n{}\n", kind, device, seed, wrong, ir::print(one.graph));
  std::fflush(stdout);
}

struct Options {
  std::int64_t minutes = 10, seed = 20260,
               graphs = 0;  // graphs of each kind; 0: as many as there is time for
  std::vector<std::string> devices, kinds;
  std::string now;  // the file that names the graph being run; empty: none
};

// Keeps one line in a file: it is there whatever ends the process.
class Now {
 public:
  explicit Now(const std::string& path) : file_(path.empty() ? nullptr : std::fopen(path.c_str(), "w")) {
    if (!path.empty() && file_ == nullptr)
      throw Error(ErrorKind::kIo, path, fmt::format("cannot be written: {}", std::strerror(errno)));
  }
  ~Now() {
    if (file_ == nullptr) return;
    say("no graph is being run");
    std::fclose(file_);
  }
  Now(const Now&) = delete;
  Now& operator=(const Now&) = delete;

  void say(const std::string& what) {
    if (file_ == nullptr) return;
    std::rewind(file_);
    fmt::print(file_, "{:<100}\n", what);  // over whatever was longer
    std::fflush(file_);
  }

 private:
  std::FILE* const file_;
};

std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    if (end > at) out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

using Maker = Case (*)(std::uint64_t);
const std::vector<std::pair<std::string, Maker>> kKinds = {
    {"forward", [](std::uint64_t seed) { return forward(seed, {}); }},
    {"wide", [](std::uint64_t seed) { return forward(seed, {.wide = true}); }},
    {"gradient", [](std::uint64_t seed) { return gradient_of(loss(seed, {.smooth = true})); }},
    {"wide-gradient",
     [](std::uint64_t seed) { return gradient_of(loss(seed, {.smooth = true, .wide = true})); }},
    {"loop", loop},
    {"loop-gradient", [](std::uint64_t seed) { return gradient_of(loop(seed)); }}};

int usage() {
  fmt::print(stderr,
             "random_soak [--minutes N] [--seed N] [--graphs N] [--devices cpu,opencl:0] [--kinds "
             "forward,wide,gradient,wide-gradient,loop,loop-gradient] [--now FILE]\n");
  return 2;
}

int soak(const Options& options) {
  fmt::print("soak: {} devices, {} kinds of graphs, {}\n", options.devices.size(), options.kinds.size(),
             options.graphs > 0
                 ? fmt::format("{} of each, {} minutes at most", options.graphs, options.minutes)
                 : fmt::format("{} minutes", options.minutes));
  if (!options.now.empty()) fmt::print("soak: {} names the graph that is being run\n", options.now);
  std::fflush(stdout);
  Now now(options.now);
  const auto begin = Clock::now(), end = begin + std::chrono::minutes(options.minutes);
  std::map<std::pair<std::string, std::string>, Tally> tallies;
  for (const std::string& kind : options.kinds)
    for (const std::string& device : options.devices) tallies[{device, kind}] = {};
  const auto is_full = [&](const Tally& tally) {
    return options.graphs > 0 && tally.graphs >= options.graphs;
  };
  const auto is_done = [&] {
    return std::all_of(tallies.begin(), tallies.end(),
                       [&](const auto& each) { return is_full(each.second); });
  };
  for (std::int64_t turn = 0; Clock::now() < end && !is_done(); ++turn)
    for (const auto& [kind, make] : kKinds) {
      if (std::find(options.kinds.begin(), options.kinds.end(), kind) == options.kinds.end()) continue;
      const auto seed = static_cast<std::uint64_t>(options.seed + turn);
      std::optional<Case> one;
      for (const std::string& device : options.devices) {
        Tally& tally = tallies.at({device, kind});
        if (is_full(tally)) continue;
        now.say(fmt::format("{} on {}, seed {}", kind, device, seed));
        const auto start = Clock::now();
        if (!one) one = make(seed);
        run_one(*one, seed, kind, device, tally);
        tally.seconds += std::chrono::duration<double>(Clock::now() - start).count();
      }
    }
  std::int64_t different = 0, missing = 0;
  for (const auto& [key, tally] : tallies) {
    fmt::print("soak: {} on {}: {} graphs from seed {}, {} different, {} left out, {:.0f} s\n", key.second,
               key.first, tally.graphs, options.seed, tally.different, tally.left_out, tally.seconds);
    different += tally.different;
    if (options.graphs == 0 || is_full(tally)) continue;
    ++missing;
    fmt::print("soak: out of time: {} of {} graphs of kind {} on {}\n", tally.graphs, options.graphs,
               key.second, key.first);
  }
  fmt::print("soak: {:.1f} minutes, {} different\n",
             std::chrono::duration<double>(Clock::now() - begin).count() / 60, different);
  return different == 0 && missing == 0 ? 0 : 1;
}

int main_of(int count, char** arguments) {
  Options options;
  for (const auto& [kind, make] : kKinds) options.kinds.push_back(kind);
  for (int i = 1; i < count; i += 2) {
    const std::string name = arguments[i];
    if (i + 1 == count) return usage();
    const std::string value = arguments[i + 1];
    const std::optional<std::int64_t> number = whole_number(value);
    if (name == "--devices")
      options.devices = words(value);
    else if (name == "--kinds")
      options.kinds = words(value);
    else if (name == "--now")
      options.now = value;
    else if (!number || *number < 0)
      return usage();
    else if (name == "--minutes")
      options.minutes = *number;
    else if (name == "--seed")
      options.seed = *number;
    else if (name == "--graphs")
      options.graphs = *number;
    else
      return usage();
  }
  for (const std::string& wanted : options.kinds)
    if (std::none_of(kKinds.begin(), kKinds.end(), [&](const auto& each) { return each.first == wanted; }))
      return usage();
  if (options.devices.empty())
    for (const runtime::DeviceInfo& device : devices())  // one of each backend
      if (device.name.ordinal == 0) options.devices.push_back(device.name.to_string());
  return soak(options);
}

}  // namespace

}  // namespace systole::conformance

int main(int count, char** arguments) {
  try {
    return systole::conformance::main_of(count, arguments);
  } catch (const std::exception& error) {
    fmt::print(stderr, "random_soak: {}\n", error.what());
    return 2;
  }
}
