#pragma once

// CIFAR-10 and MNIST, or where they are not at hand pictures drawn in their form. Those of CIFAR-10's are 32
// by 32 pixels of ten classes: a class is a shape with a colour that varies about one of its own, at any
// place on a grey ground with noise.

#include <systole/systole.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>

#include "options.h"

struct Chance {
  explicit Chance(std::uint64_t seed) : words(seed) {}
  // The distributions of the standard library differ between machines; this does not.
  double operator()(double low, double high) {
    return low + (high - low) * static_cast<double>(words() >> 11) * 0x1p-53;
  }
  std::mt19937_64 words;
};

// Whether (x, y), in units of the shape's size, is inside of shape 0 … 9.
inline bool inside(int shape, double x, double y) {
  const double ax = std::abs(x), ay = std::abs(y), r = std::hypot(x, y);
  switch (shape) {
    case 0: return r < 1;                                              // disc
    case 1: return r < 1 && r > 0.6;                                   // ring
    case 2: return std::max(ax, ay) < 0.85;                            // square
    case 3: return std::max(ax, ay) < 0.85 && std::max(ax, ay) > 0.5;  // frame
    case 4: return y < 0.8 && y > -0.9 + 2 * ax;                       // triangle
    case 5: return ax + ay < 1;                                        // diamond
    case 6: return std::min(ax, ay) < 0.3 && std::max(ax, ay) < 1;     // plus
    case 7: return std::abs(ax - ay) < 0.4 && r < 1.1;                 // cross
    case 8: return ax < 1 && ay < 0.35;                                // bar
    default: return ay < 1 && ax < 0.35;                               // post
  }
}

inline systole::data::Source drawn_pictures(std::int64_t count, std::uint64_t seed) {
  using namespace systole;
  constexpr int kSide = 32, kClasses = 10;
  Literal images({DType::u8, {count, kSide, kSide, 3}}), labels({DType::i32, {count}});
  std::uint8_t* pixel = images.mutable_values<std::uint8_t>().data();
  Chance chance(seed);
  for (std::int64_t i = 0; i < count; ++i) {
    const int shape = static_cast<int>(i % kClasses);
    labels.mutable_values<std::int32_t>()[static_cast<std::size_t>(i)] = shape;
    const double hue = 0.1 * shape + chance(-0.06, 0.06), ground = chance(80, 170), light = chance(90, 120);
    const double size = chance(7, 12), cx = chance(size, kSide - size), cy = chance(size, kSide - size);
    for (int y = 0; y < kSide; ++y)
      for (int x = 0; x < kSide; ++x)
        for (int c = 0; c < 3; ++c) {
          const double ink = light * std::cos(2 * 3.14159265358979 * (hue - c / 3.0));
          const double value = ground + (inside(shape, (x - cx) / size, (y - cy) / size) ? ink : 0.0);
          *pixel++ = static_cast<std::uint8_t>(std::clamp(value + chance(-20, 20), 0.0, 255.0));
        }
  }
  return data::arrays(images, labels)
      .named("drawn", {"x", "y"},
             {"disc", "ring", "square", "frame", "triangle", "diamond", "plus", "cross", "bar", "post"});
}

// By the options "data", a folder with the files or nothing, "train" and "test", how many pictures of each;
// 0: all there are, or some thousands drawn.
inline systole::data::TrainTest cifar_or_drawn(const Options& options) {
  const std::int64_t train = options.integer("train", 0), test = options.integer("test", 0);
  if (!options.has("data"))
    return {drawn_pictures(train > 0 ? train : 4000, 1), drawn_pictures(test > 0 ? test : 1000, 2)};
  const auto [all, others] = systole::data::cifar10(options["data"]);
  return {train > 0 ? all.take(train) : all, test > 0 ? others.take(test) : others};
}
inline systole::data::TrainTest mnist_or_drawn(const Options& options) {
  const std::int64_t train = options.integer("train", 0), test = options.integer("test", 0);
  if (!options.has("data"))
    return systole::data::embedded_digits(train > 0 ? train : 20'000, test > 0 ? test : 5'000);
  const auto [all, others] = systole::data::mnist(options["data"]);
  return {train > 0 ? all.take(train) : all, test > 0 ? others.take(test) : others};
}

// MNIST's training pictures or drawn digits as f32[count, 28, 28, 1] from 0 to 1, by the same options. There
// must be enough for a batch.
inline systole::Tensor digit_images(const Options& options, std::int64_t batch) {
  const systole::data::Source train = mnist_or_drawn(options).train;
  if (train.size() < batch)
    throw systole::Error(systole::ErrorKind::kInvalidArgument, "--train", "fewer pictures than a batch has",
                         "at least " + std::to_string(batch), std::to_string(train.size()));
  const systole::Literal pixels = train.columns()[0];
  return (systole::Tensor(pixels).to(systole::DType::f32) / 255).reshape({-1, 28, 28, 1});
}

// Images f32[count, side, side, 1] from 0 to 1 in a grid of rows of `columns`, for io::save_png.
inline systole::Literal tiled(const systole::Tensor& images, std::int64_t columns) {
  const std::int64_t rows = images.shape()[0].value() / columns, side = images.shape()[1].value();
  const systole::Tensor grid = images[systole::slice(0, rows * columns)].reshape({rows, columns, side, side});
  return (transpose(grid, {0, 2, 1, 3}).reshape({rows * side, columns * side}) * 255)
      .to(systole::DType::u8)
      .literal();
}
