#pragma once

// Pictures of runs, and the table that one of them is drawn from.

#include <filesystem>
#include <string>
#include <vector>

#include "cli/train/evaluation.h"
#include "systole/train/history.h"
#include "systole/train/plot.h"

namespace systole::cli {

// Loss, metric and confusion matrix as .svg and, where it can be written, .png. Gives the names.
std::vector<std::string> draw_run(const std::filesystem::path& folder, const training::History& history,
                                  const Measures& measures);

// Of the samples that are predicted as no class, where there are some: the last column of a matrix.
inline constexpr const char* kUndecidedColumn = "undecided";

// Counts with a header of class names: "true,cat,dog" and a row for each true class.
void write_confusion(const std::filesystem::path& file, const metrics::ConfusionMatrix& matrix,
                     const std::vector<std::string>& classes);
training::Figure confusion_figure(const metrics::ConfusionMatrix& matrix,
                                  const std::vector<std::string>& classes);
training::Figure read_confusion(const std::filesystem::path& file);

// Whether a run has anything to draw under this name, without its "val_" form.
std::vector<std::string> columns_to_draw(const training::History& history);

}  // namespace systole::cli
