// scikit-learn's folds. Its shuffles are those of numpy's RandomState: a Mersenne twister whose 32-bit words
// are masked to the next power of two and thrown away while they are too large.

#include "systole/data/folds.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <random>
#include <unordered_map>

#include "systole/base/error.h"

namespace systole::data {

namespace {

using Indices = std::vector<std::int64_t>;

class RandomState {
 public:
  explicit RandomState(std::uint32_t seed) : twister_(seed) {}

  void shuffle(Indices& values) {
    for (std::size_t i = values.size(); i-- > 1;) std::swap(values[i], values[interval(i)]);
  }

 private:
  std::uint64_t interval(std::uint64_t most) {  // in [0, most]
    const std::uint64_t mask = std::bit_ceil(most + 1) - 1;
    for (;;) {
      std::uint64_t word = static_cast<std::uint32_t>(twister_());
      if (most > 0xffffffffu) word = word << 32 | static_cast<std::uint32_t>(twister_());
      if ((word & mask) <= most) return word & mask;
    }
  }
  std::mt19937 twister_;
};

void check_splits(std::int64_t splits, std::int64_t count, const char* where) {
  if (splits < 2 || splits > count)
    throw Error(ErrorKind::kInvalidArgument, where, "wrong number of folds",
                fmt::format("2 to {}, the number of samples", count), fmt::format("{}", splits));
}

// Folds by the number of the one each sample is tested in.
std::vector<Fold> folds_of(const Indices& tested_in, std::int64_t splits) {
  std::vector<Fold> folds(static_cast<std::size_t>(splits));
  for (std::size_t i = 0; i < tested_in.size(); ++i)
    for (std::size_t f = 0; f < folds.size(); ++f)
      (tested_in[i] == static_cast<std::int64_t>(f) ? folds[f].test : folds[f].train)
          .push_back(static_cast<std::int64_t>(i));
  return folds;
}

Indices counted(std::int64_t count) {
  Indices result(static_cast<std::size_t>(count));
  std::iota(result.begin(), result.end(), 0);
  return result;
}

}  // namespace

std::vector<std::int64_t> numpy_permutation(std::int64_t count, std::uint32_t seed) {
  if (count < 0)
    throw Error(ErrorKind::kInvalidArgument, "data::numpy_permutation", "wrong count", "0 or more",
                fmt::format("{}", count));
  Indices order = counted(count);
  RandomState(seed).shuffle(order);
  return order;
}

std::vector<Fold> KFold::operator()(std::int64_t count) const {
  check_splits(splits, count, "data::KFold");
  const Indices order = shuffle ? numpy_permutation(count, seed) : counted(count);
  Indices tested_in(order.size());
  std::size_t at = 0;
  for (std::int64_t f = 0; f < splits; ++f)  // the first count % splits folds have one more
    for (std::int64_t n = count / splits + (f < count % splits ? 1 : 0); n > 0; --n)
      tested_in[static_cast<std::size_t>(order[at++])] = f;
  return folds_of(tested_in, splits);
}

std::vector<Fold> StratifiedKFold::operator()(std::span<const std::int64_t> labels) const {
  check_splits(splits, std::ssize(labels), "data::StratifiedKFold");
  // Classes are numbered as they first occur.
  std::unordered_map<std::int64_t, std::size_t> numbers;
  std::vector<std::size_t> classes;
  Indices counts;
  for (const std::int64_t label : labels) {
    const auto [place, is_new] = numbers.emplace(label, numbers.size());
    if (is_new) counts.push_back(0);
    classes.push_back(place->second);
    ++counts[place->second];
  }
  if (*std::max_element(counts.begin(), counts.end()) < splits)
    throw Error(ErrorKind::kInvalidArgument, "data::StratifiedKFold", "more folds than samples of any class",
                fmt::format("at most {}", *std::max_element(counts.begin(), counts.end())),
                fmt::format("{}", splits));
  // Sample n of all, sorted by class, is tested in fold n % splits: so many of each class per fold.
  RandomState random(seed);
  std::vector<Indices> tested_in(counts.size());
  std::int64_t n = 0;
  for (std::size_t c = 0; c < counts.size(); ++c) {
    for (std::int64_t i = 0; i < counts[c]; ++i) tested_in[c].push_back(n++ % splits);
    std::sort(tested_in[c].begin(), tested_in[c].end());
    if (shuffle) random.shuffle(tested_in[c]);
  }
  Indices by_sample, next(counts.size(), 0);
  for (const std::size_t c : classes) by_sample.push_back(tested_in[c][static_cast<std::size_t>(next[c]++)]);
  return folds_of(by_sample, splits);
}

std::vector<Fold> LeaveOneOut::operator()(std::int64_t count) const {
  if (count < 2)
    throw Error(ErrorKind::kInvalidArgument, "data::LeaveOneOut", "too few samples", "2 or more",
                fmt::format("{}", count));
  return folds_of(counted(count), count);
}

}  // namespace systole::data
