#pragma once

// Random numbers from explicit keys. A key is u32[2], the key of a Philox-4x32-10 generator: the same key
// gives the same numbers, on every device (normal ones but for their last places), so a key is used once and
// split for more.
//
//   Tensor k = random::key(42);
//   auto parts = random::split(k);
//   Tensor x = random::normal(parts[0], {3, 4});
//
// Modules draw their keys from one Variable, default_key(); next_key() takes the next of its stream, in a
// trace too: there every run of the compiled program takes new ones. Floats may be f64, f32, f16 or bf16.

#include <cstdint>
#include <vector>

#include "systole/base/export.h"
#include "systole/base/shape.h"
#include "systole/tensor/shape_of.h"
#include "systole/tensor/tensor.h"
#include "systole/tensor/variable.h"

namespace systole::random {

SYSTOLE_API Tensor key(std::uint64_t seed);
SYSTOLE_API std::vector<Tensor> split(const Tensor& key, std::int64_t n = 2);  // n new keys
SYSTOLE_API Tensor split_rows(const Tensor& key, std::int64_t n);              // the same as u32[n, 2]

// The stream that modules and initialisers draw from. Threads may draw at the same time.
SYSTOLE_API Variable default_key();
SYSTOLE_API Tensor next_key();
SYSTOLE_API void seed(std::uint64_t seed);  // starts the stream anew

SYSTOLE_API Tensor bits(const Tensor& key, Shape shape, DType dtype = DType::u32);  // unsigned integers
SYSTOLE_API Tensor uniform(const Tensor& key, Shape shape, double low = 0, double high = 1,
                           DType dtype = DType::f32);  // in [low, high)
SYSTOLE_API Tensor normal(const Tensor& key, Shape shape, double mean = 0, double stddev = 1,
                          DType dtype = DType::f32);
// Normal numbers between `low` and `high`, before they are scaled by stddev and moved by mean.
SYSTOLE_API Tensor truncated_normal(const Tensor& key, Shape shape, double low = -2, double high = 2,
                                    double mean = 0, double stddev = 1, DType dtype = DType::f32);
SYSTOLE_API Tensor gumbel(const Tensor& key, Shape shape, DType dtype = DType::f32);
// Integers in [low, high).
SYSTOLE_API Tensor randint(const Tensor& key, Shape shape, std::int64_t low, std::int64_t high,
                           DType dtype = DType::i32);
SYSTOLE_API Tensor bernoulli(const Tensor& key, const Tensor& p, Shape shape);  // bool; p broadcasts to shape
SYSTOLE_API Tensor permutation(const Tensor& key, std::int64_t n);              // of 0 … n-1, i32
SYSTOLE_API Tensor permutation(const Tensor& key, const Tensor& x, std::int64_t axis = 0);  // x shuffled
// The same with the sizes as a vector, array or span.
template <SizeRange R>
Tensor bits(const Tensor& key, const R& sizes, DType dtype = DType::u32) {
  return bits(key, shape_of(sizes), dtype);
}
template <SizeRange R>
Tensor uniform(const Tensor& key, const R& sizes, double low = 0, double high = 1, DType dtype = DType::f32) {
  return uniform(key, shape_of(sizes), low, high, dtype);
}
template <SizeRange R>
Tensor normal(const Tensor& key, const R& sizes, double mean = 0, double stddev = 1,
              DType dtype = DType::f32) {
  return normal(key, shape_of(sizes), mean, stddev, dtype);
}
template <SizeRange R>
Tensor truncated_normal(const Tensor& key, const R& sizes, double low = -2, double high = 2, double mean = 0,
                        double stddev = 1, DType dtype = DType::f32) {
  return truncated_normal(key, shape_of(sizes), low, high, mean, stddev, dtype);
}
template <SizeRange R>
Tensor gumbel(const Tensor& key, const R& sizes, DType dtype = DType::f32) {
  return gumbel(key, shape_of(sizes), dtype);
}
template <SizeRange R>
Tensor randint(const Tensor& key, const R& sizes, std::int64_t low, std::int64_t high,
               DType dtype = DType::i32) {
  return randint(key, shape_of(sizes), low, high, dtype);
}
template <SizeRange R>
Tensor bernoulli(const Tensor& key, const Tensor& p, const R& sizes) {
  return bernoulli(key, p, shape_of(sizes));
}
// An i32 index along `axis` with probability softmax(logits), for every other place.
SYSTOLE_API Tensor categorical(const Tensor& key, const Tensor& logits, std::int64_t axis = -1);

}  // namespace systole::random
