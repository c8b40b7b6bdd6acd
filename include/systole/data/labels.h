#pragma once

// Labels that number classes, checked before anything is computed from them: an index outside gives NaN in a
// loss, or a neighbour's row, and neither says which sample it was.
//
//   data::check_labels(train, {.classes = 10});   // throws: "sample 17: … expected 0 to 9, got 12"

#include <cstddef>
#include <cstdint>
#include <optional>

#include "systole/base/export.h"
#include "systole/data/loader.h"
#include "systole/data/source.h"

namespace systole::data {

struct LabelCheck {
  std::int64_t classes = 0;                       // labels are 0 to classes - 1
  std::optional<std::int64_t> ignore_index = {};  // is allowed too
  std::size_t field = kLastField;                 // whole numbers, one or several to a sample
};

// Throws kInvalidArgument naming the first sample with a label outside, by its number in the set that the
// source is a part of, the label and the range. Of data that
// lies in memory, or whose labels are known without reading the samples, that is cheap; else every sample is
// read.
SYSTOLE_API void check_labels(const Source& source, const LabelCheck& check);
// The same of a batch.
SYSTOLE_API void check_labels(const Batch& batch, const LabelCheck& check);

}  // namespace systole::data
