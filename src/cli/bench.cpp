// systole bench: speed of training on fixed workloads, by itself or in pairs of windows with a live peer. The
// JSON lines have the form of the peers' suite, so that its tables take both.

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/bench/peer.h"
#include "cli/bench/timing.h"
#include "cli/bench/training.h"
#include "cli/bench/workloads.h"
#include "cli/cli.h"
#include "cli/terminal.h"
#include "systole/base/error.h"
#include "systole/tensor/tensor.h"

namespace systole::cli {

namespace {

using bench::Workload;
using Json = nlohmann::ordered_json;

constexpr int kFewestPairs = 7;

struct Options {
  std::vector<std::string> names;
  std::string device = "auto", dtype, mode, hold, pairs;
  std::int64_t batch = 0;
  bool quick = false, json = false;
  double seconds = 0, ready_limit = 600, window_limit = 600;
  int windows = kFewestPairs;
};

struct Task {
  Workload work;
  std::string mode;
};

bool on_accelerator() {
  const DeviceName device = current_device();
  return device.backend == "cuda" || device.backend == "tpu" ||
         (device.backend == "pjrt" && device.plugin != "cpu");
}

bench::Effort effort(const Options& options) {
  bench::Effort effort;
  if (options.quick) effort = {on_accelerator() ? 0.2 : 0.3, 3};
  if (options.seconds > 0) effort.seconds = options.seconds;
  return effort;
}

double rounded(double value, int digits) { return std::stod(fmt::format("{:.{}g}", value, digits)); }

// The workloads meant by the options, each in the modes it is measured in.
std::vector<Task> tasks(const Options& options) {
  std::vector<Task> chosen;
  std::vector<std::string> unknown = options.names;
  for (Workload work : bench::workloads(on_accelerator())) {
    std::erase(unknown, work.name);
    const auto is_this = [&](const std::string& name) { return name == work.name; };
    if (!options.names.empty() && std::none_of(options.names.begin(), options.names.end(), is_this)) continue;
    if (options.batch > 0) {
      if (!chosen.empty() && chosen.back().work.name == work.name) continue;  // its other batch
      work.batch = options.batch;
    }
    if (!options.dtype.empty())
      work.dtype = options.dtype;
    else if (on_accelerator() && work.dtype == "fp32")
      work.dtype = "tf32";  // as the peers
    const bool small = work.name == "T1" || work.name == "T2" || work.name == "T3";
    for (const std::string_view mode : {bench::kOneStep, bench::kManySteps})
      if (options.mode.empty() ? small || mode == bench::kOneStep : options.mode == mode)
        chosen.push_back({work, std::string(mode)});
  }
  if (!unknown.empty())
    throw UsageError(fmt::format("there is no workload {}; they are T1 to T6", unknown[0]));
  return chosen;
}

// T1@64:compile, as the peers' suite spells it.
Task held_task(const Options& options) {
  const std::string& text = options.hold;
  const std::size_t at = text.find('@'), colon = text.find(':', at == std::string::npos ? 0 : at);
  std::int64_t batch = 0;
  if (at != std::string::npos && colon != std::string::npos)
    std::from_chars(text.data() + at + 1, text.data() + colon, batch);
  Options one = options;
  one.names = {text.substr(0, std::min(at, colon))};
  one.batch = batch;
  one.mode = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (batch < 1 || (one.mode != bench::kOneStep && one.mode != bench::kManySteps))
    throw UsageError(
        fmt::format("--hold {}: expected WORKLOAD@BATCH:MODE, such as T1@64:{}", text, bench::kOneStep));
  return tasks(one).at(0);
}

// A task that is warm, and its windows.
class Runner {
 public:
  Runner(Task task, const Options& options) : task_(std::move(task)), effort_(effort(options)) {
    // What is f32 in a bf16 model may be rounded too.
    const bool tf32 = task_.work.dtype == "tf32" || (task_.work.dtype == "bf16" && on_accelerator());
    task_.work.math = tf32 ? runtime::Math::tf32 : runtime::Math::f32;
    const auto start = std::chrono::steady_clock::now();
    prepared_ = bench::prepare(task_.work, task_.mode);
    warmup_s_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  Json window() const {
    const bench::ForeignLoad load;
    const bench::Window window = bench::measure(prepared_.run, effort_);
    const std::optional<double> foreign = load.percent();
    const double step_s = window.seconds / static_cast<double>(prepared_.steps_per_call);
    const double rate = static_cast<double>(task_.work.batch) / step_s;
    Json extra = {{"spread_pct", std::round(10 * window.spread_pct) / 10},
                  {"reps", window.repetitions},
                  {"iters", window.iterations},
                  {"ms", rounded(step_s * 1e3, 5)}};
    if (task_.work.model == "gpt")
      extra["tokens_per_s"] = std::llround(rate * static_cast<double>(task_.work.length));
    for (const double loss : prepared_.first_losses) extra["loss3"].push_back(std::round(loss * 1e4) / 1e4);
    if (foreign && !on_accelerator()) extra["foreign_cpu_pct"] = std::round(10 * *foreign) / 10;
    extra["warmup_s"] = std::round(10 * warmup_s_) / 10;
    extra["device"] = current_device().to_string();
    extra["version"] = SYSTOLE_VERSION;
    Json line = about();
    line["metric"] = "samples_per_s";
    line["value"] = rounded(rate, 5);
    line["extra"] = std::move(extra);
    return line;
  }

  Json about() const {
    return {{"workload", task_.work.name}, {"model", task_.work.model}, {"framework", "systole"},
            {"mode", task_.mode},          {"dtype", task_.work.dtype}, {"batch", task_.work.batch}};
  }

 private:
  Task task_;
  bench::Effort effort_;
  bench::Prepared prepared_;
  double warmup_s_ = 0;
};

void put_line(const Json& line) {
  put(line.dump() + "\n");
  flush_output();
}

void put_row(const Json& line) {
  const Json& extra = line["extra"];
  put(fmt::format("{:<3} {:<9} batch {:>4}  {:<4}  {:<12}  {:>12.1f} samples/s  {:>10.4g} ms a step  ±{}%\n",
                  line["workload"].get<std::string>(), line["model"].get<std::string>(),
                  line["batch"].get<std::int64_t>(), line["dtype"].get<std::string>(),
                  line["mode"].get<std::string>(), line["value"].get<double>(), extra["ms"].get<double>(),
                  extra["spread_pct"].get<double>()));
  flush_output();
}

bool wants_json(const Options& options) { return options.json || ::isatty(STDOUT_FILENO) == 0; }

int measure_all(const Options& options) {
  for (const Task& task : tasks(options)) {
    const Json line = Runner(task, options).window();
    wants_json(options) ? put_line(line) : put_row(line);
  }
  return 0;
}

int hold(const Options& options) {
  const Runner runner(held_task(options), options);
  put("#ready\n");
  flush_output();
  for (std::string line; std::getline(std::cin, line);) put_line(runner.window());
  return 0;
}

int run_pairs(const Options& options) {
  const std::vector<Task> chosen = options.hold.empty() ? tasks(options) : std::vector{held_task(options)};
  if (chosen.size() != 1)
    throw UsageError(
        fmt::format("--pairs compares one workload in one mode, not {}: give its name, --batch and --mode",
                    chosen.size()));
  if (options.windows < kFewestPairs)
    throw UsageError(
        fmt::format("--windows {}: a ratio needs at least {} pairs", options.windows, kFewestPairs));
  bench::Peer peer(options.pairs);  // warms up while we do
  const Runner runner(chosen[0], options);
  peer.wait_ready(options.ready_limit);

  std::vector<double> ours, theirs, ratios, loads;
  nlohmann::json last;
  for (int i = 0; i < options.windows; ++i) {
    const Json window = runner.window();
    ours.push_back(window["value"].get<double>());
    loads.push_back(window["extra"].value("foreign_cpu_pct", 0.0));
    last = peer.window(options.window_limit);
    if (last["metric"] != "samples_per_s")
      throw Error(ErrorKind::kParse, "--pairs", "the peer measures something else", "samples_per_s",
                  last["metric"].get<std::string>());
    theirs.push_back(last["value"].get<double>());
    ratios.push_back(ours.back() / theirs.back());
  }
  const bench::Interval interval = bench::median_interval(ratios);
  Json line = runner.about();
  line["metric"] = "ratio";
  line["value"] = rounded(bench::median(ratios), 4);
  line["extra"] = {{"low", rounded(interval.low, 4)},
                   {"high", rounded(interval.high, 4)},
                   {"pairs", options.windows},
                   {"samples_per_s", rounded(bench::median(ours), 5)},
                   {"peer_samples_per_s", rounded(bench::median(theirs), 5)},
                   {"peer", last.value("framework", "")},
                   {"peer_mode", last.value("mode", "")},
                   {"foreign_cpu_pct", bench::median(loads)},
                   {"device", current_device().to_string()},
                   {"version", SYSTOLE_VERSION}};
  if (wants_json(options)) {
    put_line(line);
    return 0;
  }
  const Json& extra = line["extra"];
  put(
      fmt::format("{} {} batch {} {}: {} times the peer, 90 % interval {} to {}, {} pairs\n"
                  "  systole {:<14} {:>12.1f} samples/s\n  {} {:<14} {:>12.1f} samples/s\n",
                  chosen[0].work.name, chosen[0].work.model, chosen[0].work.batch, chosen[0].work.dtype,
                  line["value"].get<double>(), extra["low"].get<double>(), extra["high"].get<double>(),
                  options.windows, chosen[0].mode, bench::median(ours),
                  padded(last.value("framework", "peer"), 7), last.value("mode", ""), bench::median(theirs)));
  return 0;
}

int run_bench(const Options& options) {
  const DeviceScope scope(options.device);
  if (!options.pairs.empty()) return run_pairs(options);
  if (!options.hold.empty()) return hold(options);
  return measure_all(options);
}

}  // namespace

Action add_bench(CLI::App& app) {
  auto options = std::make_shared<Options>();
  // Without the checks' own words, which the options' explanations hold already.
  CLI::Validator positive = CLI::PositiveNumber;
  positive.description("");
  CLI::Validator dtypes = CLI::IsMember({"fp32", "tf32", "bf16"});
  dtypes.description("");
  CLI::Validator modes = CLI::IsMember({std::string(bench::kOneStep), std::string(bench::kManySteps)});
  modes.description("");
  app.add_option("WORKLOAD", options->names, "T1 to T6; all of them when none is named")->type_name("");
  app.add_option("--device", options->device, "reference, cpu, cuda:0, …; auto is the best there is")
      ->type_name("NAME");
  app.add_option("--batch", options->batch, "instead of the workload's own")->type_name("N")->check(positive);
  app.add_option("--dtype", options->dtype,
                 "fp32, tf32 or bf16, instead of the workload's own;\nthe fp32 ones are tf32 on accelerators")
      ->type_name("NAME")
      ->check(dtypes);
  app.add_option("--mode", options->mode, "compile: a launch per step; compile+many: a launch\nfor 50 steps")
      ->type_name("NAME")
      ->check(modes);
  app.add_flag("--quick", options->quick, "three short repetitions instead of five of a second");
  app.add_option("--seconds", options->seconds, "length of one repetition")->type_name("S")->check(positive);
  app.add_flag("--json", options->json, "a JSON line per result on a terminal too");
  app.add_option("--hold", options->hold,
                 "warm up, print #ready, then measure one window for\neach line of standard input")
      ->type_name("T1@64:MODE");
  app.add_option("--pairs", options->pairs,
                 "measure in turn with a peer that this shell command\nstarts and that understands --hold")
      ->type_name("COMMAND");
  app.add_option("--windows", options->windows, "how many pairs, at least 7")->type_name("N");
  app.add_option("--ready-limit", options->ready_limit, "seconds the peer may take to warm up")
      ->type_name("S")
      ->check(positive);
  app.add_option("--window-limit", options->window_limit, "seconds it may take for one window")
      ->type_name("S")
      ->check(positive);
  app.footer(R"(T1 MLP 784-128-10, T2 and T3 convolutional networks on 32×32 images, T4 ResNet-50,
T5 LSTM, T6 GPT-2. Weights and data come from a counter hash, so the first losses
(loss3) can be compared with other frameworks'.

Examples:
  systole bench T1 T2 --quick
  systole bench T1 --batch 64 --mode compile+many --pairs 'python3 bench.py
      --frameworks jax --hold T1@64:jit+scan')");
  return [options] { return run_bench(*options); };
}

}  // namespace systole::cli
