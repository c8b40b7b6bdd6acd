#pragma once

// A training from beginning to end, and the folder that it leaves:
//
//   config.toml         every setting: `systole train RUN/config.toml` does it again
//   model.safetensors   for systole::load, `systole evaluate` and `systole predict`
//   history.csv         a line per epoch
//   checkpoints/        to go on from: the same command with the same --out
//   loss.svg, …         pictures of it, also as .png
//   confusion.csv       counts, a row for each true class
//   logs/               for TensorBoard, with train.tensorboard

#include "cli/train/run_folder.h"
#include "cli/train/settings.h"

namespace systole::cli {

// Prints what is trained, the progress and the result. 0, or 130 (Ctrl-C) or 143 (SIGTERM) when it was
// interrupted and can be resumed.
int train(const Settings& settings, const TrainingPlace& place);

}  // namespace systole::cli
