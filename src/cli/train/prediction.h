#pragma once

// What a saved model says of files, and text that it writes.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/train/settings.h"
#include "systole/base/literal.h"
#include "systole/train/saved_model.h"

namespace systole::cli {

struct InputRows {
  std::vector<std::string> names;  // of each row: the file, with a number where it has several
  Literal rows;                    // as the model takes them, with a leading axis
};
// A picture, .npy, .csv or .wav as rows for the model; pictures are brought to its size. `invert` makes ink
// of paper.
InputRows read_rows(const std::string& file, const SavedModel& model, const Settings& settings, bool invert);

struct Predicted {
  Literal numbers;         // f32[rows,…,outputs]
  std::string non_finite;  // says which outputs are not finite; empty: all are
};
// The model's numbers for rows, a batch at a time. Scores of classes become probabilities, where they are not
// already; those of a row that is not finite become NaN.
Predicted predict_rows(const SavedModel& model, const Literal& rows, const std::string& device);

// Whether the model gives scores of classes at each place of a sample: a pixel, a word.
bool has_places(const SavedModel& model);
// Whether the model tells the next word after each, and has their names.
bool writes_text(const SavedModel& model);

struct WriteOptions {
  std::string prompt;
  std::int64_t length = 200;
  double temperature = 1;  // 0: always the most probable
  std::int64_t top_k = 0;  // among so many; 0: all
  std::uint64_t seed = 1;
};
// Calls `each` with the text of every new word. Throws when the model's scores are NaN or infinite.
void write_text(const SavedModel& model, const WriteOptions& options,
                const std::function<void(std::string_view)>& each);

}  // namespace systole::cli
