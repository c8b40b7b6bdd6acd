#pragma once

// data::open with what it learns beside the samples.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/csv_columns.h"
#include "systole/data/sets.h"

namespace systole::data {

// "KIND:PLACE?OPTIONS" in its parts. A place may have question marks: the first that options follow, or
// nothing, ends it.
struct SpecParts {
  std::string_view kind, place, options;
};
SpecParts parts_of(std::string_view spec);

struct Opened {
  TrainTest both;
  std::int32_t rate = 0;      // of sound, samples in a second
  CsvFeatures features = {};  // of a table
  std::string missing = {};   // the place of its first missing number
};
// With `like`, the features of a training, a table has those. With `skipped`, sounds that cannot be read are
// left out and counted there.
Opened open_all(std::string_view spec, const CsvFeatures* like = nullptr,
                std::shared_ptr<BadSamples> skipped = nullptr);

// The columns of "csv:FILE?…", also of one that data::open refuses; none of another kind.
std::vector<CsvColumn> columns_of(std::string_view spec);

}  // namespace systole::data
