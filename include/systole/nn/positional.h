#pragma once

// Where in a sequence something stands: tables that are added to [batch, length, width], and rotations of
// queries and keys.
//
//   nn::SinusoidalPositions positions{512, {.dropout = 0.1}};
//   Tensor x = positions(embedding(words));

#include <cstdint>

#include "systole/base/export.h"
#include "systole/nn/layers.h"
#include "systole/nn/module.h"
#include "systole/tensor/tensor.h"
#include "systole/tensor/variable.h"

namespace systole::nn {

// [length, width]: column 2i is sin(place / 10000^(2i / width)), column 2i + 1 the cosine of the same.
SYSTOLE_API Tensor sinusoidal_positions(std::int64_t length, std::int64_t width, DType dtype = DType::f32);

struct SinusoidalPositionsOptions {
  double dropout = 0;
};
struct SYSTOLE_API SinusoidalPositions {
  explicit SinusoidalPositions(std::int64_t width, SinusoidalPositionsOptions options = {});
  Tensor forward(const Tensor& x) const;  // x + the table's first rows
  Tensor operator()(const Tensor& x) const { return forward(x); }

  std::int64_t width;
  Dropout dropout;

  template <class V>
  static void visit(SinusoidalPositions& self, V&& v) {
    v("dropout", self.dropout);
  }
};

// A learned row for each place, up to `length` of them.
struct LearnedPositionsOptions {
  double dropout = 0;
  double stddev = 0.02;  // of the initial numbers
};
struct SYSTOLE_API LearnedPositions {
  LearnedPositions(std::int64_t length, std::int64_t width, LearnedPositionsOptions options = {});
  Tensor forward(const Tensor& x) const;  // x + the first rows
  Tensor operator()(const Tensor& x) const { return forward(x); }

  Variable weight;  // [length, width]
  Dropout dropout;

  template <class V>
  static void visit(LearnedPositions& self, V&& v) {
    v("weight", self.weight);
    v("dropout", self.dropout);
  }
};

// Turns pairs of queries' or keys' numbers by their place: pair i of [batch, heads, length, depth] by place /
// base^(2i / depth), so that products of queries and keys depend on distances only.
struct RotaryOptions {
  double base = 10000;
  bool interleaved = false;  // pairs are (2i, 2i + 1), as in GPT-J; else (i, i + depth / 2), as in Llama
  std::int64_t first = 0;    // the place of the first element, for what continues a sequence
};
SYSTOLE_API Tensor rotary(const Tensor& x, const RotaryOptions& options = {});

struct SYSTOLE_API RotaryPositions {
  RotaryOptions options = {};
  Tensor forward(const Tensor& x) const { return observed(*this, rotary(x, options)); }
  Tensor operator()(const Tensor& x) const { return forward(x); }
};

}  // namespace systole::nn
