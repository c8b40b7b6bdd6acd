#pragma once

// The command `systole`. A subcommand is one file with one function that declares its options and returns
// what to do when they are read, and one line in the table below. Results go to stdout, everything else to
// stderr; the exit code is 0, 1 when the work failed or 2 for wrong usage.

#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace systole::cli {

class App;

using Action = std::function<int()>;  // returns the exit code; throws Error or UsageError

struct Command {
  const char* name;
  const char* summary;
  Action (*add)(App& app);
};

Action add_train(App& app);
Action add_evaluate(App& app);
Action add_predict(App& app);
Action add_summary(App& app);
Action add_plot(App& app);
Action add_new(App& app);
Action add_run(App& app);
Action add_fmt(App& app);
Action add_export(App& app);
Action add_compile(App& app);
Action add_ops(App& app);
Action add_devices(App& app);
Action add_doctor(App& app);
Action add_bench(App& app);
Action add_profile(App& app);
Action add_tpu(App& app);
Action add_cache(App& app);
Action add_data(App& app);

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
