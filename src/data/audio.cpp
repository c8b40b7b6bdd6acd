// Spectra. A recording has a few thousand samples: a plain radix-2 transform in double precision is fast
// enough, and other lengths of frames are summed up directly.

#include "systole/data/audio.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <numbers>
#include <vector>

#include "systole/base/error.h"

namespace systole::data {

namespace {

using Complex = std::complex<double>;

// The discrete Fourier transform of any length.
class Fourier {
 public:
  explicit Fourier(std::size_t length) : length_(length) {
    for (std::size_t i = 0; i < length; ++i)
      roots_.push_back(
          std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(length)));
  }

  void operator()(std::vector<Complex>& x) const {
    if (std::has_single_bit(length_)) return by_halves(x);
    std::vector<Complex> out(length_);
    for (std::size_t k = 0; k < length_; ++k)
      for (std::size_t n = 0; n < length_; ++n) out[k] += x[n] * roots_[k * n % length_];
    x = std::move(out);
  }

 private:
  void by_halves(std::vector<Complex>& x) const {
    for (std::size_t i = 1, j = 0; i < length_; ++i) {
      std::size_t bit = length_ >> 1;
      for (; j & bit; bit >>= 1) j ^= bit;
      j |= bit;
      if (i < j) std::swap(x[i], x[j]);
    }
    for (std::size_t half = 1; half < length_; half *= 2)
      for (std::size_t start = 0; start < length_; start += 2 * half)
        for (std::size_t i = 0; i < half; ++i) {
          const Complex low = x[start + i];
          const Complex high = x[start + half + i] * roots_[i * (length_ / (2 * half))];
          x[start + i] = low + high;
          x[start + half + i] = low - high;
        }
  }

  std::size_t length_;
  std::vector<Complex> roots_;
};

double mel_of(double hertz) { return 2595 * std::log10(1 + hertz / 700); }
double hertz_of(double mel) { return 700 * (std::pow(10, mel / 2595) - 1); }

std::int64_t mirrored(std::int64_t i, std::int64_t count) {  // numpy's "reflect"
  if (count == 1) return 0;
  const std::int64_t period = 2 * (count - 1);
  i = ((i % period) + period) % period;
  return i < count ? i : period - i;
}

// |·|² as f64[frames][bins].
std::vector<std::vector<double>> powers(const Literal& samples, const SpectrumOptions& options) {
  if (samples.dtype() != DType::f32 || samples.rank() != 1)
    throw Error(ErrorKind::kShape, "data::spectrogram", "not a recording", "f32[samples]",
                samples.type().to_string());
  const std::int64_t largest = 1 << 20;
  if (options.frame < 1 || options.frame > largest || options.hop < 1)
    throw Error(ErrorKind::kInvalidArgument, "data::spectrogram", "wrong frame or hop",
                "frame 1 to 1048576, hop 1 or more", fmt::format("{} and {}", options.frame, options.hop));
  const std::int64_t count = samples.count(), frame = options.frame;
  if (count == 0 || (!options.centred && count < frame))
    throw Error(ErrorKind::kInvalidArgument, "data::spectrogram", "the recording is shorter than a frame",
                fmt::format("{} samples", options.centred ? 1 : frame), fmt::format("{}", count));
  const std::int64_t frames = options.centred ? 1 + count / options.hop : 1 + (count - frame) / options.hop;
  const std::int64_t shift = options.centred ? frame / 2 : 0;
  std::vector<double> window;
  for (std::int64_t i = 0; i < frame; ++i)
    window.push_back(
        0.5 - 0.5 * std::cos(2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(frame)));
  const Fourier fourier(static_cast<std::size_t>(frame));
  const std::span<const float> in = samples.values<float>();
  std::vector<Complex> x(static_cast<std::size_t>(frame));
  std::vector<std::vector<double>> result;
  for (std::int64_t f = 0; f < frames; ++f) {
    for (std::int64_t i = 0; i < frame; ++i) {
      const std::int64_t at = mirrored(f * options.hop + i - shift, count);
      x[static_cast<std::size_t>(i)] =
          static_cast<double>(in[static_cast<std::size_t>(at)]) * window[static_cast<std::size_t>(i)];
    }
    fourier(x);
    std::vector<double>& bins = result.emplace_back();
    for (std::int64_t k = 0; k <= frame / 2; ++k) bins.push_back(std::norm(x[static_cast<std::size_t>(k)]));
  }
  return result;
}

Literal literal_of(const std::vector<std::vector<double>>& rows, std::int64_t width) {
  Literal made = Literal::uninitialized({DType::f32, {std::ssize(rows), width}});
  float* out = made.mutable_values<float>().data();
  for (const std::vector<double>& row : rows)
    out = std::transform(row.begin(), row.end(), out, [](double v) { return static_cast<float>(v); });
  return made;
}

// [bin][mel]
std::vector<std::vector<double>> triangles(const MelOptions& options) {
  const double highest = options.highest == 0 ? options.rate / 2 : options.highest;
  if (options.mels < 1 || options.mels > 4096 || !(options.rate > 0) || !(options.lowest >= 0) ||
      !(highest > options.lowest) || highest > options.rate / 2 || options.frame < 1 ||
      options.frame > (1 << 20))
    throw Error(
        ErrorKind::kInvalidArgument, "data::log_mel", "wrong bands",
        "1 to 4096 mels, and 0 <= lowest < highest <= rate/2",
        fmt::format("{} mels, {} to {} Hz at rate {}", options.mels, options.lowest, highest, options.rate));
  std::vector<double> corners;
  const double low = mel_of(options.lowest), high = mel_of(highest);
  for (std::int64_t i = 0; i < options.mels + 2; ++i)
    corners.push_back(
        hertz_of(low + (high - low) * static_cast<double>(i) / static_cast<double>(options.mels + 1)));
  std::vector<std::vector<double>> filters;
  for (std::int64_t k = 0; k <= options.frame / 2; ++k) {
    const double hertz = static_cast<double>(k) * options.rate / static_cast<double>(options.frame);
    std::vector<double>& row = filters.emplace_back();
    for (std::size_t m = 0; m + 2 < corners.size(); ++m)
      row.push_back(std::max(0.0, std::min((hertz - corners[m]) / (corners[m + 1] - corners[m]),
                                           (corners[m + 2] - hertz) / (corners[m + 2] - corners[m + 1]))));
  }
  return filters;
}

std::vector<std::vector<double>> log_mels(const Literal& samples, const MelOptions& options) {
  const std::vector<std::vector<double>> filters = triangles(options);
  std::vector<std::vector<double>> result;
  for (const std::vector<double>& bins : powers(samples, {options.frame, options.hop, options.centred})) {
    std::vector<double>& row = result.emplace_back(static_cast<std::size_t>(options.mels));
    for (std::size_t k = 0; k < bins.size(); ++k)
      for (std::size_t m = 0; m < row.size(); ++m) row[m] += bins[k] * filters[k][m];
    for (double& value : row) value = std::log(value + options.floor);
  }
  return result;
}

}  // namespace

Literal spectrogram(const Literal& samples, const SpectrumOptions& options) {
  return literal_of(powers(samples, options), options.frame / 2 + 1);
}

Literal mel_filters(const MelOptions& options) { return literal_of(triangles(options), options.mels); }

Literal log_mel(const Literal& samples, const MelOptions& options) {
  return literal_of(log_mels(samples, options), options.mels);
}

Literal mfcc(const Literal& samples, const MelOptions& options, std::int64_t coefficients) {
  if (coefficients < 1 || coefficients > options.mels)
    throw Error(ErrorKind::kInvalidArgument, "data::mfcc", "wrong number of coefficients",
                fmt::format("1 to {}, the number of mels", options.mels), fmt::format("{}", coefficients));
  const double n = static_cast<double>(options.mels);
  std::vector<std::vector<double>> result;
  for (const std::vector<double>& mels : log_mels(samples, options)) {
    std::vector<double>& row = result.emplace_back();
    for (std::int64_t k = 0; k < coefficients; ++k) {
      double sum = 0;
      for (std::size_t m = 0; m < mels.size(); ++m)
        sum += mels[m] *
               std::cos(std::numbers::pi * static_cast<double>(k) * (static_cast<double>(m) + 0.5) / n);
      row.push_back(sum * std::sqrt((k == 0 ? 1 : 2) / n));
    }
  }
  return literal_of(result, coefficients);
}

}  // namespace systole::data
