#include "systole/nn/positional.h"

#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "nn/parameter.h"
#include "systole/base/error.h"
#include "systole/nn/init.h"
#include "systole/tensor/math.h"
#include "systole/tensor/shaping.h"
#include "tensor/any_size.h"
#include "tensor/functions.h"
#include "tensor/record.h"

namespace systole::nn {

namespace {

// place · base^(-2i / width) of [places, pairs], computed here in f64: a large place times a small frequency
// has no digits to spare.
std::vector<double> angles(std::int64_t first, std::int64_t places, std::int64_t width, double base) {
  const std::int64_t pairs = (width + 1) / 2;
  std::vector<double> out;
  out.reserve(static_cast<std::size_t>(places * pairs));
  for (std::int64_t place = first; place < first + places; ++place)
    for (std::int64_t i = 0; i < pairs; ++i)
      out.push_back(static_cast<double>(place) *
                    std::pow(base, -2 * static_cast<double>(i) / static_cast<double>(width)));
  return out;
}

// The same by the program, for any number of places.
Tensor recorded_angles(std::int64_t first, std::int64_t places, std::int64_t width, double base) {
  const std::vector<double> frequencies = angles(1, 1, width, base);
  const Tensor place = recording::iota({DType::f64, {places}}, 0) + static_cast<double>(first);
  return unsqueeze(place, 1) * recording::constant(Literal::of<double>({frequencies.size()}, frequencies));
}

Tensor constant_of(Shape shape, const std::vector<double>& values, DType dtype) {
  return recording::as_dtype(recording::constant(Literal::of<double>(std::move(shape), values)), dtype);
}

void check_sequence(std::string_view where, const Tensor& x, std::int64_t width) {
  const Shape& shape = recording::checked(x, where).type.shape;
  if (shape.rank() != 3 || shape[2] != Dim(width))
    throw Error(ErrorKind::kShape, std::string(where), "x", fmt::format("[batch, length, {}]", width),
                x.type().to_string());
}

}  // namespace

Tensor sinusoidal_positions(std::int64_t length, std::int64_t width, DType dtype) {
  if (length < 0 || width < 1)
    throw Error(ErrorKind::kInvalidArgument, "sinusoidal_positions", "the sizes",
                "0 or more rows of 1 or more", fmt::format("{} of {}", length, width));
  if (recording::AnySizeScope::is_on()) {
    const Tensor turn = recorded_angles(0, length, width, 10000);
    const Tensor both = stack({sin(turn), cos(turn)}, -1).reshape({length, 2 * turn.shape()[1]});
    return recording::as_dtype(both[{all, slice(0, width)}], dtype);
  }
  const std::vector<double> turns = angles(0, length, width, 10000);
  const auto pairs = static_cast<std::size_t>((width + 1) / 2), columns = static_cast<std::size_t>(width);
  std::vector<double> table(static_cast<std::size_t>(length) * columns);
  for (std::size_t i = 0; i < table.size(); ++i) {
    const double angle = turns[i / columns * pairs + i % columns / 2];
    table[i] = i % columns % 2 == 0 ? std::sin(angle) : std::cos(angle);
  }
  return constant_of({length, width}, table, dtype);
}

SinusoidalPositions::SinusoidalPositions(std::int64_t width, SinusoidalPositionsOptions options)
    : width(width), dropout{options.dropout} {}

Tensor SinusoidalPositions::forward(const Tensor& x) const {
  check_sequence("SinusoidalPositions", x, width);
  return observed(*this, dropout(x + sinusoidal_positions(x.size(1), width, recording::as_float(x).dtype())));
}

LearnedPositions::LearnedPositions(std::int64_t length, std::int64_t width, LearnedPositionsOptions options)
    : weight(new_parameter({length, width})), dropout{options.dropout} {
  init::normal(weight, 0, options.stddev);
}

Tensor LearnedPositions::forward(const Tensor& x) const {
  check_sequence("LearnedPositions", x, weight.size(1));
  if (x.size(1) > weight.size(0))
    throw Error(ErrorKind::kShape, "LearnedPositions", "the sequence is longer than the table",
                fmt::format("at most {} places", weight.size(0)), x.type().to_string());
  return observed(*this, dropout(x + weight.value()[slice(0, x.size(1))]));
}

Tensor rotary(const Tensor& x, const RotaryOptions& options) {
  const Shape& shape = recording::checked(x, "rotary").type.shape;
  if (shape.rank() != 4 || x.size(3) % 2 != 0)
    throw Error(ErrorKind::kShape, "rotary", "x", "[batch, heads, length, depth] with an even depth",
                x.type().to_string());
  const Tensor in = recording::as_float(x);
  const std::int64_t length = x.size(2), depth = x.size(3), pairs = depth / 2;
  Tensor cosine, sine;
  if (recording::AnySizeScope::is_on()) {
    const Tensor turn = recorded_angles(options.first, length, depth, options.base);
    cosine = recording::as_dtype(cos(turn), in.dtype());
    sine = recording::as_dtype(sin(turn), in.dtype());
  } else {
    std::vector<double> cosines = angles(options.first, length, depth, options.base), sines = cosines;
    for (double& angle : cosines) angle = std::cos(angle);
    for (double& angle : sines) angle = std::sin(angle);
    cosine = constant_of({length, pairs}, cosines, in.dtype());
    sine = constant_of({length, pairs}, sines, in.dtype());
  }
  if (!options.interleaved) {
    const Tensor a = in[{ellipsis, slice(0, pairs)}], b = in[{ellipsis, slice(pairs, depth)}];
    return concat({a * cosine - b * sine, b * cosine + a * sine}, -1);
  }
  const Tensor a = in[{ellipsis, slice(0, depth, 2)}], b = in[{ellipsis, slice(1, depth, 2)}];
  return stack({a * cosine - b * sine, b * cosine + a * sine}, -1).reshape(in.shape());
}

}  // namespace systole::nn
