#pragma once

// Cross-validation, with the very indices of scikit-learn's classes of these names.
//
//   for (const data::Fold& fold : data::StratifiedKFold{.splits = 5, .shuffle = true, .seed = 0}(all)) {
//     Source train = all.select(fold.train), test = all.select(fold.test);
//
// A shuffle with seed s is numpy's with RandomState(s).

#include <cstdint>
#include <span>
#include <vector>

#include "systole/base/export.h"
#include "systole/data/source.h"

namespace systole::data {

struct Fold {
  std::vector<std::int64_t> train, test;
};

struct SYSTOLE_API KFold {
  std::int64_t splits = 5;
  bool shuffle = false;
  std::uint32_t seed = 0;
  std::vector<Fold> operator()(std::int64_t count) const;
  std::vector<Fold> operator()(const Source& source) const { return (*this)(source.size()); }
};

// Every fold has about the same share of each class.
struct SYSTOLE_API StratifiedKFold {
  std::int64_t splits = 5;
  bool shuffle = false;
  std::uint32_t seed = 0;
  std::vector<Fold> operator()(std::span<const std::int64_t> labels) const;
  std::vector<Fold> operator()(const Source& source, std::size_t field = kLastField) const {
    return (*this)(source.labels(field));
  }
};

struct SYSTOLE_API LeaveOneOut {
  std::vector<Fold> operator()(std::int64_t count) const;
  std::vector<Fold> operator()(const Source& source) const { return (*this)(source.size()); }
};

// numpy.random.RandomState(seed).permutation(count).
SYSTOLE_API std::vector<std::int64_t> numpy_permutation(std::int64_t count, std::uint32_t seed);

}  // namespace systole::data
