#pragma once

// Walking arrays by strides. Every movement, reduction and window op is a walk over one index space with one
// stride list per array, handed out as innermost runs so that the inner loop is a plain loop or a memcpy.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "eval/wide.h"
#include "systole/base/literal.h"
#include "systole/base/small_vector.h"

namespace systole::eval {

// Axes of an index space with a stride per array, axes of size 1 dropped and axes that lie behind each other
// in every array joined. Offsets and strides count elements.
template <std::size_t K>
struct Space {
  Ints dims;
  std::array<Ints, K> strides;
  bool empty = false;

  Space(const Ints& full_dims, const std::array<Ints, K>& full_strides) {
    for (std::size_t i = 0; i < full_dims.size(); ++i) {
      if (full_dims[i] == 0) empty = true;
      if (full_dims[i] == 1) continue;
      bool joins = !dims.empty();
      for (std::size_t k = 0; joins && k < K; ++k)
        joins = strides[k].back() == full_strides[k][i] * full_dims[i];
      if (joins)
        dims.back() *= full_dims[i];
      else
        dims.push_back(full_dims[i]);
      for (std::size_t k = 0; k < K; ++k) {
        if (joins)
          strides[k].back() = full_strides[k][i];
        else
          strides[k].push_back(full_strides[k][i]);
      }
    }
    if (empty || !dims.empty()) return;
    dims.push_back(1);
    for (Ints& s : strides) s.push_back(1);
  }
};

// Calls run(offsets, length, steps) for the innermost runs of the space in row-major order; offsets and steps
// are std::array<int64, K>.
template <std::size_t K, class Run>
void for_each_run(const Ints& full_dims, const std::array<Ints, K>& full_strides,
                  std::array<std::int64_t, K> offsets, Run&& run) {
  const Space<K> space(full_dims, full_strides);
  if (space.empty) return;
  const std::size_t inner = space.dims.size() - 1;
  std::array<std::int64_t, K> steps;
  for (std::size_t k = 0; k < K; ++k) steps[k] = space.strides[k][inner];
  Ints index(inner, 0);
  while (true) {
    run(offsets, space.dims[inner], steps);
    std::size_t axis = inner;
    while (axis-- > 0) {
      for (std::size_t k = 0; k < K; ++k) offsets[k] += space.strides[k][axis];
      if (++index[axis] < space.dims[axis]) break;
      for (std::size_t k = 0; k < K; ++k) offsets[k] -= space.strides[k][axis] * space.dims[axis];
      index[axis] = 0;
    }
    if (axis == static_cast<std::size_t>(-1)) return;
  }
}

// Copies `n` elements of U's size; offsets and steps count elements.
template <class U>
void copy_run(const std::byte* src, std::int64_t from, std::int64_t from_step, std::byte* dst,
              std::int64_t to, std::int64_t to_step, std::int64_t n) {
  constexpr std::int64_t size = sizeof(U);
  src += from * size;
  dst += to * size;
  if (from_step == 1 && to_step == 1) {
    std::memcpy(dst, src, static_cast<std::size_t>(n * size));
  } else if (from_step == 0 && to_step == 1) {
    const U value = read<U>(src);
    for (std::int64_t i = 0; i < n; ++i) write<U>(dst + i * size, value);
  } else {
    for (std::int64_t i = 0; i < n; ++i)
      write<U>(dst + i * to_step * size, read<U>(src + i * from_step * size));
  }
}

// An array seen through strides.
struct SourceView {
  const std::byte* data;
  std::int64_t offset;
  Ints strides;
};
struct TargetView {
  std::byte* data;
  std::int64_t offset;
  Ints strides;
};

// Copies the elements of `element_bytes` at every index of `dims`. The arrays do not overlap.
void copy(const Ints& dims, const SourceView& from, const TargetView& to, std::size_t element_bytes);

// The view of a whole literal, and its elements rearranged: result axis i has size dims[i] and walks x by
// strides[i] from `offset`.
SourceView view_of(const Literal& x);
Literal rearranged(const Literal& x, const Ints& dims, const Ints& strides, std::int64_t offset = 0);

// x with axis i of the result being axis permutation[i]; x itself, sharing storage, when nothing moves.
Literal transposed(const Literal& x, const Ints& permutation);

}  // namespace systole::eval
