// Orders and shares: the permutation of an epoch, and parts of a set.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "data/chance.h"
#include "systole/base/error.h"
#include "systole/data/source.h"

namespace systole::data {

namespace {

using Indices = std::vector<std::int64_t>;

void check_shares(std::span<const double> shares, const char* where) {
  double sum = 0;
  for (const double share : shares) {
    if (!(share >= 0 && share <= 1))
      throw Error(ErrorKind::kInvalidArgument, where, "wrong share", "0 to 1", fmt::format("{}", share));
    sum += share;
  }
  if (shares.empty() || sum > 1 + 1e-9)
    throw Error(ErrorKind::kInvalidArgument, where, "wrong shares", "at least one, adding up to 1 or less",
                fmt::format("{}", sum));
}

// Where each part ends. Rounding the ends, not the sizes, leaves nothing over.
Indices ends(std::span<const double> shares, std::int64_t count) {
  Indices result;
  double sum = 0;
  for (const double share : shares) {
    sum += share;
    result.push_back(std::min<std::int64_t>(count, std::llround(sum * static_cast<double>(count))));
  }
  return result;
}

// How many of a class each part gets: its share rounded down, then one more for the parts that are owed most,
// until the class is used up as far as the shares ask for it.
Indices shared_out(std::span<const double> shares, std::int64_t count, std::vector<double>& owed) {
  Indices sizes;
  double sum = 0;
  std::int64_t given = 0;
  for (std::size_t p = 0; p < shares.size(); ++p) {
    const double share = shares[p] * static_cast<double>(count);
    sum += share;
    sizes.push_back(static_cast<std::int64_t>(std::floor(share + 1e-9)));
    given += sizes.back();
    owed[p] += share - static_cast<double>(sizes.back());
  }
  const auto wanted = static_cast<std::int64_t>(std::llround(sum));
  for (; given < std::min(wanted, count); ++given) {
    const auto most = std::max_element(owed.begin(), owed.end()) - owed.begin();
    ++sizes[static_cast<std::size_t>(most)];
    owed[static_cast<std::size_t>(most)] -= 1;
  }
  return sizes;
}

void check_finite(const Source& source, const char* where) {
  if (source.endless())
    throw Error(ErrorKind::kInvalidArgument, where, "an endless repetition has no shares",
                "the split before the repetition");
}

std::vector<Source> stratified(const Source& source, std::span<const double> shares, std::uint64_t seed,
                               std::size_t field) {
  constexpr const char* kWhere = "data::Source::stratified_split";
  check_shares(shares, kWhere);
  check_finite(source, kWhere);
  std::map<std::int64_t, Indices> by_class;
  const Indices labels = source.labels(field);
  for (std::size_t i = 0; i < labels.size(); ++i) by_class[labels[i]].push_back(static_cast<std::int64_t>(i));
  // A class too small for its share of a part gives what is missing there to the next: the parts have their
  // shares of the whole, and a class differs by at most one sample.
  std::vector<Indices> parts(shares.size());
  std::vector<double> owed(shares.size(), 0);
  std::int64_t number = 0;
  for (const auto& [label, members] : by_class) {
    const Indices order = permutation(std::ssize(members), seed, number++);
    const Indices sizes = shared_out(shares, std::ssize(members), owed);
    std::size_t at = 0;
    for (std::size_t p = 0; p < parts.size(); ++p)
      for (std::int64_t i = 0; i < sizes[p]; ++i, ++at)
        parts[p].push_back(members[static_cast<std::size_t>(order[at])]);
  }
  std::vector<Source> result;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    if (parts[p].empty() && shares[p] > 0 && !labels.empty())
      throw Error(ErrorKind::kInvalidArgument, kWhere, "a part would be empty",
                  "larger shares, or more samples",
                  fmt::format("a share of {} of {} samples", shares[p], labels.size()));
    std::sort(parts[p].begin(), parts[p].end());
    result.push_back(source.select(std::move(parts[p])));
  }
  return result;
}

}  // namespace

std::vector<std::int64_t> permutation(std::int64_t count, std::uint64_t seed, std::int64_t epoch) {
  if (count < 0 || count == kEndless)
    throw Error(ErrorKind::kInvalidArgument, "data::permutation", "wrong count", "0 or more, with an end",
                fmt::format("{}", count));
  Chance chance(Chance(seed).word() + static_cast<std::uint64_t>(epoch));
  Indices order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  for (std::int64_t i = count - 1; i > 0; --i)
    std::swap(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(chance.below(i + 1))]);
  return order;
}

std::vector<Source> Source::split(std::span<const double> shares, std::optional<std::uint64_t> seed) const {
  check_shares(shares, "data::Source::split");
  check_finite(*this, "data::Source::split");
  const Indices stops = ends(shares, size());
  const Indices order = seed ? permutation(size(), *seed) : Indices{};
  std::vector<Source> parts;
  std::int64_t at = 0;
  for (const std::int64_t stop : stops) {
    parts.push_back(seed ? select(Indices(order.begin() + at, order.begin() + stop))
                         : skip(at).take(stop - at));
    at = stop;
  }
  return parts;
}

std::vector<Source> Source::split(std::initializer_list<double> shares,
                                  std::optional<std::uint64_t> seed) const {
  return split(std::span<const double>(shares.begin(), shares.size()), seed);
}

std::pair<Source, Source> Source::split(double first, std::optional<std::uint64_t> seed) const {
  std::vector<Source> parts = split({first, 1 - first}, seed);
  return {std::move(parts[0]), std::move(parts[1])};
}

std::vector<Source> Source::stratified_split(std::initializer_list<double> shares, std::uint64_t seed,
                                             std::size_t field) const {
  return stratified(*this, std::span<const double>(shares.begin(), shares.size()), seed, field);
}

std::pair<Source, Source> Source::stratified_split(double first, std::uint64_t seed,
                                                   std::size_t field) const {
  std::vector<Source> parts = stratified_split({first, 1 - first}, seed, field);
  return {std::move(parts[0]), std::move(parts[1])};
}

}  // namespace systole::data
