#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "systole/base/error.h"
#include "systole/data/transforms.h"

namespace systole::data {

Normalize fitted_normalize(const Source& source) {
  constexpr std::int64_t kAtOnce = 4096, kEnoughPictures = 65536;
  if (source.empty())
    throw Error(ErrorKind::kInvalidArgument, "data::fitted_normalize", "there are no samples");
  const Type input = source.info().fields[0].type;
  const std::int32_t rank = input.shape.rank();
  const bool has_channels = rank == 1 || rank > 2;
  const Dim last = has_channels ? input.shape[static_cast<std::size_t>(rank - 1)] : Dim(1);
  if (!last.is_static())
    throw Error(ErrorKind::kShape, "data::fitted_normalize", "channels differ between samples",
                "a last axis of one size", input.to_string());
  const auto channels = static_cast<std::size_t>(last.value());
  const double scale = input.dtype == DType::u8 ? 1.0 / 255 : 1;
  std::vector<double> count(channels), sum(channels), squares(channels), first(channels);
  const std::int64_t samples = rank <= 1 ? source.period() : std::min(source.period(), kEnoughPictures);
  const std::int64_t at_once = input.shape.is_static() ? kAtOnce : 1;
  for (std::int64_t from = 0; from < samples; from += at_once) {
    std::vector<std::int64_t> rows(static_cast<std::size_t>(std::min(at_once, samples - from)));
    std::iota(rows.begin(), rows.end(), from);
    const std::vector<double> values = source.read(rows)[0].to_doubles();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t c = i % channels;
      const double x = values[i] * scale;
      if (!std::isfinite(x)) continue;
      if (count[c]++ == 0) first[c] = x;  // sums of differences, so that large numbers lose nothing
      sum[c] += x - first[c];
      squares[c] += (x - first[c]) * (x - first[c]);
    }
  }
  Normalize result{.mean = {}, .stddev = {}};
  for (std::size_t c = 0; c < channels; ++c) {
    const double n = std::max(count[c], 1.0), shift = sum[c] / n;
    const double deviation = std::sqrt(std::max(squares[c] / n - shift * shift, 0.0));
    result.mean.push_back(first[c] + shift);
    result.stddev.push_back(deviation > 0 ? deviation : 1);  // a constant says nothing
  }
  return result;
}

}  // namespace systole::data
