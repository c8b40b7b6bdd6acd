// systole profile: where the time of a training, a model, a graph or a workload of the benchmarks goes.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/printable.h"
#include "cli/bench/prepared.h"
#include "cli/bench/timing.h"
#include "cli/bench/workloads.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/sizes.h"
#include "cli/terminal.h"
#include "cli/train/data.h"
#include "cli/train/evaluation.h"
#include "cli/train/fit_options.h"
#include "cli/train/model.h"
#include "cli/train/run_folder.h"
#include "cli/train/settings.h"
#include "cli/train/value.h"
#include "cli/trust.h"
#include "data/counter_hash.h"
#include "profile/page.h"
#include "profile/plain.h"
#include "profile/summary.h"
#include "systole/base/error.h"
#include "systole/ir/text.h"
#include "systole/profile.h"
#include "systole/tensor/compiled.h"
#include "systole/tensor/kernels.h"
#include "systole/tensor/random.h"
#include "systole/train/trainer.h"
#include "train/interrupt.h"
#include "train/model_file.h"
#include "train/steps.h"

namespace systole::cli {

namespace {

namespace fs = std::filesystem;

struct Options {
  std::string what, model, data, device, dtype, out;
  std::vector<std::string> sets, sizes;
  std::int64_t steps = 50, skip = 10, batch = 0, rows = 20;
  bool infer = false, many = false, json = false, no_roof = false;
  Trust trust;
};

// Calls until everything is as it will stay: launches are captured for the few places that arrays alternate
// between.
constexpr std::int64_t kReady = 6;

constexpr std::int64_t kMostSteps = 1'000'000;

// Work that is done over and over: `run(n)` makes n calls of `steps` steps each.
struct Work {
  std::string title;
  std::function<void(std::int64_t)> run;
  std::int64_t steps = 1;
};

// What was recorded, which a signal may have cut short.
struct Made {
  Profile profile;
  int signal = 0;
};

// A line on stderr for a person who waits.
class Progress {
 public:
  Progress() = default;
  ~Progress() {
    if (shown_) fmt::print(stderr, "\r\x1b[K");
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void show(const std::string& text) {
    constexpr std::chrono::milliseconds kEvery(100);
    const auto now = std::chrono::steady_clock::now();
    if (!is_terminal_ || (shown_ && now - last_ < kEvery)) return;
    last_ = now;
    fmt::print(stderr, "\r\x1b[K{}", printable(text));
    shown_ = true;
  }

 private:
  const bool is_terminal_ = ::isatty(STDERR_FILENO) != 0;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_;
};

// Runs work by pieces, between which a person is heard and told of it.
class Pieces {
 public:
  explicit Pieces(const Work& work) : work_(work) {}

  bool interrupted() const { return interrupt_.requested(); }
  int signal() const { return interrupt_.signal(); }

  // Until programs are compiled; from then on a piece has the length of a short wait.
  void begin(std::int64_t calls) {
    constexpr double kPiece = 0.25;  // seconds
    run(kReady, "compiling");
    const double seconds = run(std::max<std::int64_t>(1, calls - kReady), "warming up");
    size_ =
        std::max<std::int64_t>(1, static_cast<std::int64_t>(kPiece * static_cast<double>(done_) / seconds));
  }

  // The seconds of so many calls, or of those before it was interrupted.
  double run(std::int64_t calls, const char* doing, const std::function<void(std::int64_t)>& each = {}) {
    const auto begin = Clock::now();
    for (done_ = 0; done_ < calls && !interrupted();) {
      const std::int64_t piece = std::min(size_, calls - done_);
      work_.run(piece);
      done_ += piece;
      if (each) each(piece);
      progress_.show(fmt::format("{}: {} of {} steps", doing, done_ * work_.steps, calls * work_.steps));
    }
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  const Work& work_;
  const training::InterruptScope interrupt_{true};
  Progress progress_;
  std::int64_t size_ = kReady, done_ = 0;
};

Made profile_of(const Work& work, const Options& options) {
  const std::int64_t calls = std::max<std::int64_t>(1, (options.steps + work.steps - 1) / work.steps);
  Pieces pieces(work);
  pieces.begin(options.skip / work.steps);
  const auto record = [&] {
    Profiler profiler({.title = work.title, .roof = false});
    pieces.run(kReady, "making ready");
    profiler.restart();
    pieces.run(calls, "recording", [&](std::int64_t piece) {
      for (std::int64_t i = 0; i < piece * work.steps; ++i) profiler.step();
    });
    return profiler.stop();
  };
  const auto plain = [&](const Profile& recorded) {
    pieces.run(kReady, "making ready");
    profiling::wait_for_devices(recorded);
    const double seconds = pieces.run(calls, "without the profiler");
    return pieces.interrupted() ? 0 : seconds;
  };
  Profile made = profiling::compared(calls * work.steps, record, plain);
  if (!options.no_roof && made.steps > 0) profiling::measure_roofs(made);
  return {std::move(made), pieces.signal()};
}

// Numbers that any dtype has: indices of small tables, floats between -1 and 1.
Tensor random_array(const Type& type, std::uint32_t seed) {
  if (is_float(type.dtype))
    return Tensor(data::hashed_uniform(seed, {DType::f32, type.shape})).to(type.dtype);
  return Tensor(Literal::full(type, 1));
}

Shape with_batch(std::int64_t batch, const Shape& sample) {
  Shape shape{batch};
  for (const Dim& d : sample) shape.push_back(d);
  return shape;
}

// A static type: symbols are the batch.
Type bound_to(const Type& type, std::int64_t batch) {
  Shape shape;
  for (const Dim& d : type.shape) shape.push_back(d.is_static() ? d : Dim(batch));
  return {type.dtype, shape};
}

Work saved_model(const Options& options) {
  auto model =
      std::make_shared<SavedModel>(load_model(options.what, current_device().to_string(), options.trust));
  std::vector<Tensor> inputs;
  const std::int64_t batch = options.batch > 0 ? options.batch : 1;
  for (const SavedModel::Io& input : model->inputs())
    inputs.push_back(
        random_array(bound_to(input.type, batch), static_cast<std::uint32_t>(inputs.size())).eval());
  return {fmt::format("{}, batch {}", model->name(), batch), [model, inputs](std::int64_t n) {
            std::vector<Tensor> results;
            for (std::int64_t i = 0; i < n; ++i) {
              results = model->run(inputs);
              for (Tensor& result : results) result = result.eval();
            }
            if (!results.empty()) results[0].literal();
          }};
}

Work forward_of(const Options& options, const Settings& settings) {
  auto model = std::make_shared<BuiltModel>(build_model(settings.model));
  const std::int64_t batch = options.batch > 0 ? options.batch : settings.train.batch;
  const Tensor x = random_array({model->input.dtype, with_batch(batch, model->input.shape)}, 1).eval();
  const auto forward = compile([model](const Tensor& input) { return model->module.forward(input); });
  return {fmt::format("{} forwards, batch {}", model->name, batch), [forward, x, model](std::int64_t n) {
            Tensor y;
            for (std::int64_t i = 0; i < n; ++i) y = forward(x);
            if (y.defined()) y.literal();
          }};
}

Work graph_of(const Options& options) {
  const ir::Graph graph = bound(ir::parse(read_text(options.what), options.what), options.sizes);
  if (!options.trust.kernels) training::refuse_kernels(graph, options.what);
  const DeviceName device = current_device();
  const std::shared_ptr<runtime::Session> session = systole::compile(graph, device.to_string()).new_session();
  auto arguments = std::make_shared<runtime::RunArguments>();
  arguments->per_device.resize(1);
  for (std::size_t i = 0; i < graph.inputs().size(); ++i)
    arguments->per_device[0].push_back(
        runtime::backend(device.backend_name())
            .upload(random_array(graph.input_type(i), static_cast<std::uint32_t>(i)).literal(),
                    device.ordinal));
  return {fs::path(options.what).filename().string(), [session, arguments](std::int64_t n) {
            std::vector<std::vector<runtime::BufferRef>> results;
            for (std::int64_t i = 0; i < n; ++i) results = session->run(*arguments);
            if (!results.empty() && !results[0].empty()) static_cast<void>(results[0][0]->to_host());
          }};
}

// A workload of systole bench by its name; nothing for another text.
std::optional<bench::Workload> workload_of(const Options& options) {
  std::optional<bench::Workload> found;
  for (const bench::Workload& work : bench::workloads(bench::on_accelerator())) {
    if (work.name != options.what) continue;
    if (!found || work.batch == options.batch) found = work;
  }
  if (!found) return found;
  if (options.batch > 0) found->batch = options.batch;
  return bench::in_dtype(*found, options.dtype, bench::on_accelerator());
}

Work benchmark(const bench::Workload& work, const Options& options) {
  if (options.many && work.kind != bench::Workload::Kind::train)
    throw UsageError(fmt::format("--many is for workloads that train, which {} does not", work.name));
  const bool many = options.many;
  auto prepared = std::make_shared<bench::Prepared>(
      bench::prepare(work, std::string(many ? bench::kManySteps : bench::kOneStep)));
  return {fmt::format("{} {}, batch {}, {}{}", work.name, work.model, work.batch, work.dtype,
                      many ? ", many steps a launch" : ""),
          [prepared](std::int64_t n) { prepared->run(n); }, prepared->steps_per_call};
}

// Samples that mean nothing, for a model by itself.
TrainingData random_data(const BuiltModel& model, const Settings& settings, std::int64_t steps) {
  constexpr std::int64_t kMostBytes = std::int64_t{256} << 20;
  TrainingData data;
  data.kind = "random numbers";
  data.input = model.input;
  const bool is_text = is_integer(model.input.dtype);
  const Shape& output = model.output;
  data.task = output.rank() > 1 || is_text ? Task::places : Task::classes;
  if (output.rank() == 1 && is_text) data.task = Task::classes;
  data.outputs = output.rank() == 0 ? 1 : output[static_cast<std::size_t>(output.rank() - 1)].value();
  // Enough that no epoch ends, if that is not too much.
  const std::int64_t most =
      std::max<std::int64_t>(kMostBytes / std::max<std::int64_t>(model.input.bytes(), 1), 1);
  const std::int64_t samples =
      std::max(std::min(most, steps * settings.train.batch), 4 * settings.train.batch);
  const Literal x = random_array({model.input.dtype, with_batch(samples, model.input.shape)}, 1).literal();
  Shape labels{samples};
  for (int i = 0; data.task == Task::places && i + 1 < output.rank(); ++i)
    labels.push_back(output[static_cast<std::size_t>(i)]);
  data.train = data::arrays(x, Literal::full({DType::i32, labels}, 0)).named("random numbers");
  return data;
}

// At most so many steps, of which launches of one size make up no more than they must; an epoch's launches
// are made alike, so one may have fewer than it is allowed.
std::int64_t launch_for(std::int64_t steps, const training::EpochShape& epoch) {
  std::int64_t best = steps, least = 0;
  for (std::int64_t allowed = steps; 2 * allowed >= steps && allowed > 0; --allowed) {
    const std::int64_t size = training::plan_epoch(epoch, allowed).at(0).steps,
                       all = (steps + size - 1) / size * size;
    if (least > 0 && all >= least) continue;
    best = allowed;
    least = all;
  }
  return best;
}

// A launch of more steps than are wanted is made one of those. The signal that came before it was known, or
// 0.
int shorten_launches(training::Trainer& trainer, const data::Source& train, training::FitOptions& fit,
                     std::int64_t steps) {
  std::int64_t size = 0;
  training::FitOptions first = fit;
  first.callbacks = {training::on_steps_end([&](training::Run& run) {
    size = run.step();
    run.stop("its first launch is known");
  })};
  const training::FitResult result = trainer.fit(train, first);
  if (size > steps)
    fit.steps_per_call =
        launch_for(steps, {.samples = train.endless() ? fit.steps_per_epoch * fit.batch : train.size(),
                           .batch = fit.batch,
                           .steps = fit.steps_per_epoch,
                           .drop_last = fit.drop_last});
  return result.signal;
}

Made profile_training(const Options& options, Settings settings) {
  if (options.batch > 0) settings.train.batch = options.batch;
  random::seed(static_cast<std::uint64_t>(settings.train.seed));
  TrainingData data;
  BuiltModel model;
  if (settings.data.source.empty()) {
    model = build_model(settings.model);
    data = random_data(model, settings, options.skip + 3 * options.steps + 128);
  } else {
    data = open_data(settings);
    model = build_model(settings.model, data);
    model.module = with_targets(std::move(model.module), data.targets);
  }
  const std::int64_t outputs = model.output.empty() ? 1 : model.output[model.output.size() - 1].value();
  const Prepare prepare = make_prepare(settings.data, data, model.input.shape);
  const FitPlan plan = plan_fit(settings, data, model.module, outputs, prepare);
  training::Trainer trainer(model.module, plan.optimizer, plan.trainer);
  training::FitOptions fit = plan.fit;
  fit.epochs = std::int64_t{1} << 30;  // until the callback ends it
  fit.validation = {};
  fit.validation_split = 0;
  fit.verbose = 0;
  const int cut_by = fit.steps_per_call == 0 ? shorten_launches(trainer, data.train, fit, options.steps) : 0;
  Made made;
  bool is_made = false;
  Progress progress;
  const auto begin = std::chrono::steady_clock::now();
  fit.callbacks = {training::on_steps_end([&](training::Run& run) {
                     const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
                     progress.show(fmt::format("{} steps to warm up, time and record {}: {:.0f} s",
                                               run.step(), options.steps, passed.count()));
                   }),
                   training::profile_steps({.folder = {},
                                            .skip = options.skip,
                                            .steps = options.steps,
                                            .stop = true,
                                            .done =
                                                [&](const Profile& profile) {
                                                  made.profile = profile;
                                                  is_made = true;
                                                },
                                            .profile = {.title = fmt::format("{} on {}, batch {}", model.name,
                                                                             data.kind, settings.train.batch),
                                                        .roof = !options.no_roof}})};
  if (cut_by != 0) return {{}, cut_by};
  const training::FitResult result = trainer.fit(data.train, fit);
  made.signal = result.signal;
  if (!is_made && made.signal == 0)
    throw Error(ErrorKind::kUnsupported, "profile", "the training ended before it was recorded",
                "more samples", result.stopped);
  return made;
}

bool has_config(const std::string& place) {
  std::error_code error;
  return fs::is_directory(place, error) && fs::exists(fs::path(place) / "config.toml", error);
}

bool is_training(const Options& options) {
  return !options.model.empty() || has_config(options.what) || options.what.ends_with(".toml");
}

Table settings_table(const Options& options) {
  Table given;
  if (has_config(options.what)) {
    const fs::path config = fs::path(options.what) / "config.toml";
    open_regular_file(config);
    given = read_toml(config.string());
  } else if (!options.what.empty())
    given = read_toml(options.what);
  const auto set = [&](const char* key, const std::string& value, const char* option) {
    if (!value.empty()) set_path(given, key, {value, option});
  };
  set("model.name", options.model, "--model");
  set("data.source", options.data, "--data");
  set("train.device", options.device, "--device");
  for (const std::string& assignment : options.sets) apply_set(given, assignment);
  return given;
}

Made make_profile(const Options& options) {
  const auto with_device = [&](const std::string& device, const auto& work) {
    const DeviceScope scope(device.empty() ? "auto" : device);
    return work();
  };
  if (is_training(options)) {
    Settings settings = settings_of(settings_table(options));
    settings.model.follow_links = options.trust.follow_links;
    return with_device(settings.train.device, [&] {
      if (!options.infer) return profile_training(options, settings);
      return profile_of(forward_of(options, settings), options);
    });
  }
  return with_device(options.device, [&] {
    if (const std::optional<bench::Workload> work = workload_of(options))
      return profile_of(benchmark(*work, options), options);
    if (options.what.ends_with(".sir")) return profile_of(graph_of(options), options);
    std::error_code error;
    if (!fs::exists(options.what, error))
      throw Error(ErrorKind::kNotFound, options.what, "there is no such file, run or workload",
                  "a run's folder, a .toml, a .safetensors, a .sir, or T1 … K5 of systole bench");
    return profile_of(saved_model(options), options);
  });
}

// An option that would say nothing is a mistake.
void refuse_unused(const Options& options) {
  const bool trains = is_training(options);
  const bool is_graph = options.what.ends_with(".sir");
  const bool is_saved = !trains && !is_graph && options.what.ends_with(".safetensors");
  const bool is_work = !trains && !is_graph && !is_saved;
  const auto refuse = [&](bool is_given, bool has_use, const char* option, const char* use) {
    if (is_given && !has_use) throw UsageError(fmt::format("{} is for {}", option, use));
  };
  refuse(!options.data.empty(), trains, "--data", "a training");
  refuse(!options.sets.empty(), trains, "--set", "a training");
  refuse(options.infer, trains, "--infer", "a model or a run; others run forwards anyway");
  refuse(!options.sizes.empty(), is_graph, "--size", "a graph");
  refuse(options.many, is_work, "--many", "a workload of systole bench");
  refuse(!options.dtype.empty(), is_work, "--dtype", "a workload of systole bench");
  refuse(options.batch > 0, !is_graph, "--batch", "anything but a graph, which has --size");
}

void refuse_foreign_page(const fs::path& folder) {
  const fs::path page = folder / "index.html";
  if (fs::exists(page) && read_text_file(page.string()).find(profiling::kPageMark) == std::string::npos)
    throw Error(ErrorKind::kInvalidArgument, page.string(),
                "it was not written by systole profile and would be overwritten", "another --out");
}

// A run that the profile is written into has no training meanwhile.
std::optional<FolderLock> lock_run_around(const fs::path& out) {
  std::error_code error;
  for (fs::path folder = fs::weakly_canonical(out, error); folder.has_relative_path();
       folder = folder.parent_path())
    if (is_run(folder)) return lock_run(folder);
  return std::nullopt;
}

void warn_of_others(const bench::ForeignLoad& load) {
  constexpr double kMuch = 5;  // percent
  const std::optional<double> foreign = load.percent();
  if (foreign && *foreign > kMuch)
    fmt::print(
        stderr,
        "other programs had {:.0f} % of the processors meanwhile: times, the roof and what the profiler "
        "costs vary by it\n",
        *foreign);
}

int run(const Options& options) {
  if (options.what.empty() == options.model.empty())
    throw UsageError(options.what.empty() ? "nothing says what to profile: give a run, a file or --model"
                                          : "give either a run or file, or --model");
  refuse_unused(options);
  const std::string out = !options.out.empty()       ? options.out
                          : has_config(options.what) ? (fs::path(options.what) / "profile").string()
                                                     : "profile";
  const std::optional<FolderLock> lock = lock_run_around(out);
  const profiling::Folder folder(out);
  refuse_foreign_page(out);
  const bench::ForeignLoad load;
  const Made made = make_profile(options);
  if (made.profile.steps == 0 && made.signal != 0) {
    fmt::print(stderr, "interrupted before a step was recorded\n");
    return kInterrupted + made.signal;
  }
  // The table first: the disk may be full.
  put(options.json ? made.profile.json() + "\n" : made.profile.table(static_cast<std::size_t>(options.rows)));
  flush_output();
  made.profile.save(out);
  if (!options.json)
    put(fmt::format("wrote {0}/index.html to look at, {0}/trace.json for ui.perfetto.dev, {0}/profile.json\n",
                    out));
  const timeline::Collected& all = made.profile.recording->collected;
  if (!options.json && all.events.size() > Profile::kMostTraced)
    put(fmt::format("trace.json has the first {} of {} events\n", Profile::kMostTraced, all.events.size()));
  const std::string& device = made.profile.device;
  if (!device.starts_with("cuda") && !device.starts_with("tpu")) warn_of_others(load);
  if (made.signal == 0) return 0;
  flush_output();
  fmt::print(stderr, "interrupted after {} steps\n", made.profile.steps);
  return kInterrupted + made.signal;
}

}  // namespace

Action add_profile(App& app) {
  auto options = std::make_shared<Options>();
  const auto whole = [](std::int64_t least) {
    return [least](const std::string& text) {
      std::int64_t number = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
      return error == std::errc() && end == text.data() + text.size() && number >= least &&
                     number <= kMostSteps
                 ? std::string()
                 : fmt::format("{} is not a whole number from {} to {}", text, least, kMostSteps);
    };
  };
  app.add_option(
         "WHAT", options->what,
         "a run's folder or a .toml: its training; a .safetensors or .sir: run forwards; or a workload of "
         "systole bench: T1 … K5")
      ->type_name("");
  app.add_option("--model", options->model, "a model of the zoo, trained on --data or on random numbers")
      ->type_name("NAME");
  app.add_option("--data", options->data, "what it learns from: digits, mnist:DIR, …")->type_name("SOURCE");
  app.add_option("--device", options->device, "where to run, as systole devices lists them")
      ->type_name("NAME");
  app.add_option("--steps", options->steps, "how many are recorded, rounded up to launches or epochs")
      ->type_name("NUMBER")
      ->check(whole(1))
      ->capture_default_str();
  app.add_option("--skip", options->skip, "steps before that do not count")
      ->type_name("NUMBER")
      ->check(whole(0))
      ->capture_default_str();
  app.add_option("--batch", options->batch, "samples of a step; else the run's own")
      ->type_name("NUMBER")
      ->check(whole(1));
  app.add_option("--size", options->sizes, "the value of a symbolic size of a graph, e.g. N=32")
      ->type_name("NAME=NUMBER")
      ->allow_extra_args(false);
  app.add_option("--set", options->sets, "any key of systole train")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  app.add_flag("--infer", options->infer, "with --model or a run: forwards alone");
  app.add_option("--dtype", options->dtype, "of a workload of systole bench: fp32, tf32, bf16 or fp16")
      ->type_name("NAME")
      ->one_of({"fp32", "tf32", "bf16", "fp16"});
  app.add_flag("--many", options->many, "of a workload of systole bench: many steps a launch");
  app.add_flag("--no-roof", options->no_roof, "do not measure what the device can do at most");
  app.add_option("--rows", options->rows, "of the table")
      ->type_name("NUMBER")
      ->check(whole(1))
      ->capture_default_str();
  app.add_flag("--json", options->json, "print profile.json instead of the table");
  app.add_option("-o,--out", options->out, "the folder to write to; else RUN/profile or profile")
      ->type_name("DIR");
  add_kernels_option(app, options->trust);
  add_links_option(app, options->trust);
  add_weights_option(app, options->trust);
  app.footer(
      "Examples:\n"
      "  systole profile --model cnn3 --data mnist:data/mnist --device cuda\n"
      "  systole profile runs/mnist-mlp-1 --steps 200\n"
      "  systole profile model.safetensors --batch 64\n"
      "  systole profile T1 --device cuda --many\n\n"
      "The table puts first what lost most time against the roof that is measured on this device.");
  return [options] { return run(*options); };
}

}  // namespace systole::cli
