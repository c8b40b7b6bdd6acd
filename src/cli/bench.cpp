// systole bench: speed of fixed workloads, by itself or in pairs of windows with a live peer, and the roof
// that this machine sets to it. The JSON lines have the form of the peers' suite, so that its tables take
// both.

#include <fmt/format.h>
#include <unistd.h>

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
#include <utility>
#include <vector>

#include "base/last_cache.h"
#include "cli/bench/end_to_end.h"
#include "cli/bench/measurement.h"
#include "cli/bench/peer.h"
#include "cli/bench/prepared.h"
#include "cli/bench/roofline.h"
#include "cli/bench/timing.h"
#include "cli/bench/workloads.h"
#include "cli/cli.h"
#include "cli/options.h"
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
  std::string device = "auto", dtype, mode, hold, pairs, mnist;
  std::int64_t batch = 0;
  bool quick = false, json = false, roofline = false;
  double seconds = 0, ready_limit = 600, window_limit = 600;
  int windows = kFewestPairs;
};

struct Task {
  Workload work;
  std::string mode;
};

using bench::on_accelerator;

bench::Effort effort(const Options& options) {
  bench::Effort effort;
  if (options.quick) effort = {on_accelerator() ? 0.2 : 0.3, 3, 0.3};
  if (options.seconds > 0) effort.seconds = effort.singly = options.seconds;
  return effort;
}

// Whether one of the names means this workload: "T1", or "T" for all that begin with it.
bool is_named(const Workload& work, const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return name == work.name || name == work.name.substr(0, 1);
  });
}

// The workloads meant by the options; of one name, --batch takes the one that has it, else the first.
std::vector<Workload> chosen_workloads(const Options& options) {
  std::vector<Workload> all = bench::workloads(on_accelerator()), chosen;
  for (const std::string& name : options.names)
    if (std::none_of(all.begin(), all.end(), [&](const Workload& work) { return is_named(work, {name}); }))
      throw UsageError(
          fmt::format("there is no workload {}; they are T1 to T6, I1 to I3, K1 to K5 and E1", name));
  for (Workload& work : all) {
    if (!options.names.empty() && !is_named(work, options.names)) continue;
    const bool again = !chosen.empty() && chosen.back().name == work.name;
    if (options.batch > 0 && again && work.batch != options.batch) continue;
    if (options.batch > 0 && again) chosen.pop_back();
    chosen.push_back(std::move(work));
  }
  for (Workload& work : chosen) {
    if (options.batch > 0) work.batch = options.batch;
    work = bench::in_dtype(std::move(work), options.dtype, on_accelerator());
  }
  return chosen;
}

// Each in the modes it is measured in.
std::vector<Task> tasks(const Options& options) {
  std::vector<Task> chosen;
  for (const Workload& work : chosen_workloads(options)) {
    const bool small = work.name == "T1" || work.name == "T2" || work.name == "T3";
    for (const std::string_view mode : {bench::kOneStep, bench::kManySteps}) {
      if (options.mode.empty() ? mode == bench::kManySteps && !small : options.mode != mode) continue;
      if (mode == bench::kManySteps && work.kind != Workload::Kind::train) continue;
      chosen.push_back({work, std::string(mode)});
    }
  }
  if (chosen.empty()) throw UsageError(fmt::format("the mode {} is for training: T1 to T6", options.mode));
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
  const bool mode_is_known = one.mode == bench::kOneStep || one.mode == bench::kManySteps;
  if (batch < 1 || !mode_is_known || one.names[0].size() < 2)
    throw UsageError(
        fmt::format("--hold {}: expected WORKLOAD@BATCH:MODE, such as T1@64:{}", text, bench::kOneStep));
  return tasks(one).at(0);
}

// A task that is warm, and its windows.
class Runner {
 public:
  Runner(Task task, const Options& options) : task_(std::move(task)), effort_(effort(options)) {
    const auto start = std::chrono::steady_clock::now();
    prepared_ = bench::prepare(task_.work, task_.mode);
    warmup_s_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  Json window() const {
    const bench::ForeignLoad load;
    bench::Measurement measured = bench::measured(task_.work, prepared_, effort_);
    const std::optional<double> foreign = load.percent();
    Json& extra = measured.extra;
    const auto to_four_places = [](double x) { return std::round(x * 1e4) / 1e4; };
    for (const double loss : prepared_.first_losses) extra["loss3"].push_back(to_four_places(loss));
    if (const auto& checks = prepared_.checksums) {
      extra["checksum"] = bench::rounded(checks->magnitude, 8);
      if (task_.work.kind == Workload::Kind::kernel) extra["mean_square"] = bench::rounded(checks->square, 8);
    }
    if (foreign && !on_accelerator()) extra["foreign_cpu_pct"] = std::round(10 * *foreign) / 10;
    extra["warmup_s"] = std::round(10 * warmup_s_) / 10;
    extra["device"] = current_device().to_string();
    extra["version"] = SYSTOLE_VERSION;
    Json line = about();
    line["metric"] = measured.metric;
    line["value"] = bench::rounded(measured.value, 5);
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

std::string unit_of(const std::string& metric) { return metric == bench::kSamples ? "samples/s" : metric; }

std::string value_text(const std::string& metric, double value) {
  const int places = metric == bench::kSamples ? 1 : 4;
  return fmt::format("{:>12.{}f} {:<9}", value, places, unit_of(metric));
}

void put_row(const Json& line) {
  const Json& extra = line["extra"];
  const std::string metric = line["metric"];
  const std::string step =
      extra.contains("ms") ? fmt::format("  {:>10.4g} ms a step", extra["ms"].get<double>()) : "";
  put(fmt::format("{:<3} {:<10} batch {:>8}  {:<4}  {:<12}  {}{:<21}  ±{}%\n",
                  line["workload"].get<std::string>(), line["model"].get<std::string>(),
                  line["batch"].get<std::int64_t>(), line["dtype"].get<std::string>(),
                  line["mode"].get<std::string>(), value_text(metric, line["value"].get<double>()), step,
                  extra["spread_pct"].get<double>()));
  flush_output();
}

bool wants_json(const Options& options) { return options.json || ::isatty(STDOUT_FILENO) == 0; }

// E1, when it is named, or when everything is and there is data for it.
bool wants_end_to_end(const Options& options) {
  if (options.names.empty()) return !options.mnist.empty();
  return std::any_of(options.names.begin(), options.names.end(), [](const std::string& name) {
    return name == bench::kEndToEnd || name == bench::kEndToEnd.substr(0, 1);
  });
}

void measure_end_to_end(const Options& options) {
  if (options.mnist.empty()) throw UsageError("E1 needs --mnist DIR, the folder of MNIST's four IDX files");
  const std::int64_t batch = options.batch > 0 ? options.batch : bench::kEndToEndBatch;
  const bool tf32 = on_accelerator() && options.dtype != "fp32";
  const bench::ForeignLoad load;
  const bench::EndToEnd result =
      bench::run_end_to_end(options.mnist, batch, tf32 ? runtime::Math::tf32 : runtime::Math::f32);
  const std::optional<double> foreign = load.percent();
  std::vector<double> later(result.epochs.begin() + 1, result.epochs.end());
  const auto [low, high] = std::minmax_element(later.begin(), later.end());
  const double median = bench::median(result.epochs);
  Json line = {{"workload", bench::kEndToEnd},    {"model", "mlp"},
               {"framework", "systole"},          {"mode", "trainer"},
               {"dtype", tf32 ? "tf32" : "fp32"}, {"batch", batch},
               {"metric", "s_per_epoch"},         {"value", bench::rounded(median, 4)}};
  Json& extra = line["extra"];
  extra["test_accuracy"] = bench::rounded(result.test_accuracy, 4);
  extra["test_images"] = result.test_images;
  for (const double seconds : result.epochs) extra["epochs_s"].push_back(bench::rounded(seconds, 4));
  extra["spread_pct"] = std::round(1000 * (*high - *low) / median) / 10;
  if (foreign && !on_accelerator()) extra["foreign_cpu_pct"] = std::round(10 * *foreign) / 10;
  extra["device"] = current_device().to_string();
  extra["version"] = SYSTOLE_VERSION;
  wants_json(options) ? put_line(line) : put_row(line);
}

int measure_all(Options options) {
  if (wants_end_to_end(options)) {
    const bool named = !options.names.empty();
    measure_end_to_end(options);
    std::erase_if(options.names,
                  [](const std::string& name) { return name == bench::kEndToEnd || name == "E"; });
    if (named && options.names.empty()) return 0;
  }
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

// The version of its framework that a peer gives beside a result; empty when it gives none.
std::string version_in(const nlohmann::json& result) {
  const auto extra = result.find("extra");
  if (extra == result.end() || !extra->is_object()) return {};
  const auto version = extra->find("version");
  return version != extra->end() && version->is_string() ? version->get<std::string>() : "";
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
  std::string metric;
  for (int i = 0; i < options.windows; ++i) {
    const Json window = runner.window();
    metric = window["metric"];
    ours.push_back(window["value"].get<double>());
    loads.push_back(window["extra"].value("foreign_cpu_pct", 0.0));
    last = peer.window(options.window_limit);
    if (last["metric"] != metric)
      throw Error(ErrorKind::kParse, "--pairs", "the peer measures something else", metric,
                  last["metric"].get<std::string>());
    theirs.push_back(last["value"].get<double>());
    ratios.push_back(bench::times_as_fast(metric, ours.back(), theirs.back()));
  }
  const bench::Interval interval = bench::median_interval(ratios);
  Json line = runner.about();
  line["metric"] = "ratio";
  line["value"] = bench::rounded(bench::median(ratios), 4);
  line["extra"] = {{"low", bench::rounded(interval.low, 4)},
                   {"high", bench::rounded(interval.high, 4)},
                   {"pairs", options.windows},
                   {metric, bench::rounded(bench::median(ours), 5)},
                   {"peer_" + metric, bench::rounded(bench::median(theirs), 5)},
                   {"peer", last.value("framework", "")},
                   {"peer_mode", last.value("mode", "")},
                   {"peer_version", version_in(last)},
                   {"foreign_cpu_pct", bench::median(loads)},
                   {"device", current_device().to_string()},
                   {"version", SYSTOLE_VERSION}};
  if (wants_json(options)) {
    put_line(line);
    return 0;
  }
  const Json& extra = line["extra"];
  const auto side = [](const std::string& framework, const std::string& version, const std::string& mode) {
    return version.empty() ? fmt::format("{} {}", framework, mode)
                           : fmt::format("{} {} {}", framework, version, mode);
  };
  const std::string our_side = side("systole", SYSTOLE_VERSION, chosen[0].mode);
  const std::string peer_side =
      side(last.value("framework", "peer"), version_in(last), last.value("mode", ""));
  const int width = std::max(columns(our_side), columns(peer_side));
  put(fmt::format(
      "{} {} batch {} {}: {} times as fast as the peer, 90 % interval {} to {}, {} pairs\n  {} {}\n  {} {}\n",
      chosen[0].work.name, chosen[0].work.model, chosen[0].work.batch, chosen[0].work.dtype,
      line["value"].get<double>(), extra["low"].get<double>(), extra["high"].get<double>(), options.windows,
      padded(our_side, width), value_text(metric, bench::median(ours)), padded(peer_side, width),
      value_text(metric, bench::median(theirs))));
  return 0;
}

int run_roofline(Options options) {
  constexpr std::int64_t kInterpreted = 1 << 16;  // elements, where each takes long
  std::int64_t elements = std::exchange(options.batch, 0);
  if (elements == 0 && current_device().backend == "reference") elements = kInterpreted;
  if (options.names.empty()) options.names = {"K"};
  std::vector<Workload> kernels = chosen_workloads(options);
  options.names = {"K2"};
  Workload product = chosen_workloads(options).at(0);
  if (elements != 0) product = bench::resized(product, elements);
  for (Workload& work : kernels) {
    if (work.kind != Workload::Kind::kernel)
      throw UsageError(fmt::format("--roofline places kernels, K1 to K5, not {}", work.name));
    if (elements != 0) work = bench::resized(work, elements);
  }
  if (elements == 0) elements = bench::elements_beyond(on_accelerator() ? 0 : last_cache_bytes());
  const bench::ForeignLoad load;
  const bench::Roofline roof = bench::measure_roofline(elements, product, kernels, effort(options));
  const std::optional<double> foreign = load.percent();
  if (!wants_json(options)) {
    put(fmt::format("on {}\n{}", current_device().to_string(), bench::to_text(roof)));
    return 0;
  }
  Json line = {{"framework", "systole"}, {"metric", "roofline"}};
  line.update(bench::to_json(roof));
  if (foreign && !on_accelerator()) line["foreign_cpu_pct"] = std::round(10 * *foreign) / 10;
  line["device"] = current_device().to_string();
  line["version"] = SYSTOLE_VERSION;
  put_line(line);
  return 0;
}

int run_bench(const Options& options) {
  const DeviceScope scope(options.device);
  if (options.roofline) return run_roofline(options);
  if (!options.pairs.empty()) return run_pairs(options);
  if (!options.hold.empty()) return hold(options);
  return measure_all(options);
}

}  // namespace

Action add_bench(App& app) {
  auto options = std::make_shared<Options>();
  app.add_option(
         "WORKLOAD", options->names,
         "T1 to T6, I1 to I3, K1 to K5, E1, or a letter for all\nof its kind; everything when none is named")
      ->type_name("");
  app.add_option("--device", options->device, "reference, cpu, cuda:0, …; auto is the best there is")
      ->type_name("NAME");
  app.add_option("--batch", options->batch,
                 "instead of the workload's own; of vectors the elements,\nof matrices the side")
      ->type_name("N")
      ->positive();
  app.add_option(
         "--dtype", options->dtype,
         "fp32, tf32, bf16 or fp16, instead of the workload's\nown; fp32 models are tf32 on accelerators")
      ->type_name("NAME")
      ->one_of({"fp32", "tf32", "bf16", "fp16"});
  app.add_option("--mode", options->mode,
                 "compile: a launch per step; compile+many: a launch\nfor 50 steps of training")
      ->type_name("NAME")
      ->one_of({std::string(bench::kOneStep), std::string(bench::kManySteps)});
  app.add_option("--mnist", options->mnist, "folder of MNIST's four IDX files, for E1")->type_name("DIR");
  app.add_flag("--quick", options->quick, "three short repetitions instead of five of a second");
  app.add_option("--seconds", options->seconds, "length of one repetition")->type_name("S")->positive();
  app.add_flag("--json", options->json, "a JSON line per result on a terminal too");
  app.add_option("--hold", options->hold,
                 "warm up, print #ready, then measure one window for\neach line of standard input")
      ->type_name("T1@64:MODE");
  app.add_option("--pairs", options->pairs,
                 "measure in turn with a peer that this shell command\nstarts and that understands --hold")
      ->type_name("COMMAND");
  app.add_flag(
         "--roofline", options->roofline,
         "measure how fast memory is copied and matrices are\nmultiplied, and how near the K workloads come; "
         "--batch\nis then the number of elements of the largest array")
      ->excludes("--hold")
      ->excludes("--pairs")
      ->excludes("--mode");
  app.add_option("--windows", options->windows, "how many pairs, at least 7")->type_name("N");
  app.add_option("--ready-limit", options->ready_limit, "seconds the peer may take to warm up")
      ->type_name("S")
      ->positive();
  app.add_option("--window-limit", options->window_limit, "seconds it may take for one window")
      ->type_name("S")
      ->positive();
  app.footer(R"(Training: T1 MLP 784-128-10, T2 and T3 convolutional networks on 32×32 images,
T4 ResNet-50, T5 LSTM, T6 GPT-2. Forwards: I1 MLP, I2 ResNet-50, I3 LSTM. Kernels:
K1 vector addition, K2 matrix product, K3 gelu(x·a + b)·c, K4 softmax and K5 layer
norm of rows. E1 the MLP on MNIST, seconds an epoch. Weights and data come from a counter hash, so the first losses (loss3)
and results (checksum, the mean magnitude) can be compared with other frameworks'.

Examples:
  systole bench T1 T2 I --quick
  systole bench --roofline --device cpu
  systole bench T1 --batch 64 --mode compile+many --pairs 'python3 bench.py
      --frameworks jax --hold T1@64:jit+scan')");
  return [options] { return run_bench(*options); };
}

}  // namespace systole::cli
