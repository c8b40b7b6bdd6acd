#pragma once

// How good a saved model is. Training and `systole evaluate` measure by the same code on the same file, so
// that both say the same.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/train/data.h"
#include "cli/train/settings.h"
#include "systole/nn/losses.h"
#include "systole/train/callback.h"
#include "systole/train/metrics.h"
#include "systole/train/saved_model.h"
#include "systole/train/trainer.h"
#include "train/finite.h"

namespace systole::cli {

// The loss of the settings, or the one that suits the task; `outputs` is the size of the output's last axis.
losses::Loss make_loss(const Settings::Train& settings, Task task, std::int64_t outputs,
                       const TargetScale& targets = {});
// What integer targets of that loss must be; none where they number no classes.
std::optional<training::Loss::Labels> label_rule(const Settings::Train& settings, Task task,
                                                 std::int64_t outputs);
// The label of places that do not count, if the settings have one.
std::optional<std::int64_t> ignored_label(const Settings::Train& settings);
// Whether the loss is one of probabilities, so that the model gives those and not scores.
bool takes_probabilities(const Settings::Train& settings);
// The task's own metric (accuracy, or mae for numbers), then those of the settings. Throws kInvalidArgument
// for one of another task.
std::vector<metrics::Metric> make_metrics(const Settings::Train& settings, Task task);

struct Measures {
  training::Logs numbers;                      // the loss, then the metrics in order
  std::vector<std::int64_t> truth, predicted;  // of classes; metrics::kUndecided may be predicted
  std::vector<std::string> classes;
  std::int64_t samples = 0;
  std::string non_finite;  // says which outputs are not finite; empty: all are
};
// Samples that cannot be read, of a source that skips them, are left out. `batch` 0: it chooses.
Measures measure(const SavedModel& model, const data::Source& data, const Settings::Train& settings,
                 std::int64_t batch = 0);

// The weights of a model by name, for BadSamples.
std::vector<training::NamedLiteral> weights_of(const SavedModel& model);

// "test accuracy 0.9781 loss 0.0721", and then the metrics that were asked for.
std::string result_line(const Measures& measures);
metrics::ConfusionMatrix confusion(const Measures& measures);

// What a model was trained with, as its file says; defaults for a file of another program.
Settings settings_of(const SavedModel& model);
Features features_of(const SavedModel& model);
std::int32_t rate_of(const SavedModel& model);  // 0: not known
TargetScale targets_of(const SavedModel& model);
inline constexpr const char* kConfigKey = "config";  // in the metadata
inline constexpr const char* kTargetsKey = "targets";
inline constexpr const char* kPlacesKey = "places";  // of a model that gives classes at each place
inline constexpr const char* kRateKey = "rate";      // of sound, samples in a second

// What a command may do for a file or folder that the user trusts; the default is safe for one from anywhere.
struct Trust {
  bool kernels = false;        // compile and run kernels whose source is in the file
  bool follow_links = false;   // out of a folder
  bool other_weights = false;  // than those that were saved with the graph
};

// A saved model by the name of its file or of its run's folder.
SavedModel load_model(const std::string& place, const std::string& device, const Trust& trust = {});

}  // namespace systole::cli
