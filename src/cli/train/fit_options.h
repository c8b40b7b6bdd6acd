#pragma once

// From settings to what a Trainer takes.

#include <cstdint>
#include <filesystem>
#include <memory>

#include "cli/train/data.h"
#include "cli/train/settings.h"
#include "systole/nn/any_module.h"
#include "systole/optim.h"
#include "systole/train/trainer.h"

namespace systole::cli {

struct FitPlan {
  std::shared_ptr<optim::Optimizer> optimizer;
  training::TrainerOptions trainer;
  training::FitOptions fit;
};
FitPlan plan_fit(const Settings& settings, const TrainingData& data, const nn::AnyModule& model,
                 std::int64_t outputs, const Prepare& prepare);

// The files of a run: checkpoints, the history, the best model with what `save` says of it, logs.
void add_folder(training::FitOptions& fit, const Settings::Train& settings,
                const std::filesystem::path& folder, const SaveOptions& save);

}  // namespace systole::cli
