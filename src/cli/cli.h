#pragma once

// The command `systole`. A subcommand is one file with one function that declares its options and returns
// what to do when they are read, and one line in the table below. Results go to stdout, everything else to
// stderr; the exit code is 0, 1 when the work failed or 2 for wrong usage.

#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace CLI {
class App;
}

namespace systole::cli {

using Action = std::function<int()>;  // returns the exit code; throws Error or UsageError

struct Command {
  const char* name;
  const char* summary;
  Action (*add)(CLI::App& app);
};

Action add_train(CLI::App& app);
Action add_evaluate(CLI::App& app);
Action add_predict(CLI::App& app);
Action add_summary(CLI::App& app);
Action add_plot(CLI::App& app);
Action add_new(CLI::App& app);
Action add_run(CLI::App& app);
Action add_fmt(CLI::App& app);
Action add_export(CLI::App& app);
Action add_compile(CLI::App& app);
Action add_ops(CLI::App& app);
Action add_devices(CLI::App& app);
Action add_doctor(CLI::App& app);
Action add_bench(CLI::App& app);
Action add_profile(CLI::App& app);
Action add_tpu(CLI::App& app);
Action add_cache(CLI::App& app);
Action add_data(CLI::App& app);

inline constexpr Command kCommands[] = {
    {"train", "Train a model on data, from a TOML file or options", add_train},
    {"evaluate", "Measure a saved model on data", add_evaluate},
    {"predict", "Ask a saved model about pictures, arrays, tables or sounds, or for text", add_predict},
    {"summary", "Show the layers, shapes and parameters of a model", add_summary},
    {"plot", "Draw loss, accuracy and confusion matrix of runs", add_plot},
    {"new", "Write a project to begin with", add_new},
    {"run", "Run a graph on arrays from .npy and .npz files", add_run},
    {"fmt", "Print a graph in its canonical form", add_fmt},
    {"export", "Write a graph in another system's format", add_export},
    {"compile", "Show the steps, memory and kernels a graph becomes", add_compile},
    {"ops", "List all ops and what each backend supports", add_ops},
    {"devices", "List the devices graphs can run on", add_devices},
    {"doctor", "Check compiler, libraries, drivers and caches", add_doctor},
    {"bench", "Measure how fast models and kernels run, also against a live peer", add_bench},
    {"profile", "Show where the time of a training, model or graph goes", add_profile},
    {"tpu", "Compile training steps for TPUs that are not there", add_tpu},
    {"data", "Fetch data sets, and show what they hold", add_data},
    {"cache", "Show or clear the cache of compiled programs", add_cache},
};

// Names that commands had before: they go on working, with a note on stderr.
struct OldName {
  std::string_view old, now;
};
inline constexpr OldName kOldNames[] = {{"eval", "run"}};

// Options that contradict each other or name nothing; exit code 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace systole::cli
