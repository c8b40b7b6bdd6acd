#pragma once

// Shapes and places: changing shapes, joining and cutting, indexing, gathering and scattering. Axes may be
// negative.

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "systole/base/export.h"
#include "systole/base/shape.h"
#include "systole/ir/attrs.h"
#include "systole/tensor/axes.h"
#include "systole/tensor/math.h"
#include "systole/tensor/shape_of.h"
#include "systole/tensor/tensor.h"

namespace systole {

// Shape.
SYSTOLE_API Tensor reshape(const Tensor& x, Shape shape);  // one axis may be -1
template <SizeRange R>
Tensor reshape(const Tensor& x, const R& sizes) {
  return reshape(x, shape_of(sizes));
}
SYSTOLE_API Tensor flatten(const Tensor& x, std::int64_t first_axis = 0, std::int64_t last_axis = -1);
inline Tensor ravel(const Tensor& x) { return flatten(x); }
SYSTOLE_API Tensor squeeze(const Tensor& x, const Axes& axes = {});  // without these, or all, axes of size 1
SYSTOLE_API Tensor unsqueeze(const Tensor& x, std::int64_t axis);
inline Tensor expand_dims(const Tensor& x, std::int64_t axis) { return unsqueeze(x, axis); }
SYSTOLE_API Tensor broadcast_to(const Tensor& x, Shape shape);
template <SizeRange R>
Tensor broadcast_to(const Tensor& x, const R& sizes) {
  return broadcast_to(x, shape_of(sizes));
}

// Order of axes.
SYSTOLE_API Tensor transpose(const Tensor& x, Ints permutation = {});  // all axes reversed when left out
inline Tensor permute(const Tensor& x, Ints permutation) { return transpose(x, std::move(permutation)); }
SYSTOLE_API Tensor swap_axes(const Tensor& x, std::int64_t a, std::int64_t b);
SYSTOLE_API Tensor move_axis(const Tensor& x, std::int64_t from, std::int64_t to);
SYSTOLE_API Tensor matrix_transpose(const Tensor& x);  // the last two axes swapped

// Joining and cutting. The parts of a join are promoted to a common dtype.
SYSTOLE_API Tensor concat(std::span<const Tensor> parts, std::int64_t axis = 0);
SYSTOLE_API Tensor concat(std::initializer_list<Tensor> parts, std::int64_t axis = 0);
SYSTOLE_API Tensor stack(std::span<const Tensor> parts, std::int64_t axis = 0);  // along a new axis
SYSTOLE_API Tensor stack(std::initializer_list<Tensor> parts, std::int64_t axis = 0);
// split(x, 2) gives 2 equal parts, split(x, {2, 3}) parts of these sizes; chunk at most `parts`, the last one
// smaller if need be.
SYSTOLE_API std::vector<Tensor> split(const Tensor& x, std::int64_t parts, std::int64_t axis = 0);
SYSTOLE_API std::vector<Tensor> split(const Tensor& x, std::initializer_list<std::int64_t> sizes,
                                      std::int64_t axis = 0);
SYSTOLE_API std::vector<Tensor> split(const Tensor& x, Ints sizes, std::int64_t axis = 0);
SYSTOLE_API std::vector<Tensor> chunk(const Tensor& x, std::int64_t parts, std::int64_t axis = 0);

// Repeating, turning, padding.
SYSTOLE_API Tensor tile(const Tensor& x, Ints repetitions);  // the whole, along each axis
SYSTOLE_API Tensor repeat(const Tensor& x, std::int64_t times, std::int64_t axis);  // every element
SYSTOLE_API Tensor flip(const Tensor& x, const Axes& axes = {});
SYSTOLE_API Tensor roll(const Tensor& x, std::int64_t shift, std::int64_t axis);
SYSTOLE_API Tensor roll(const Tensor& x, Ints shifts, Ints axes);
enum class PadMode { constant, edge, reflect };
// `low` before and `high` after each axis; negative ones cut, for constants only.
SYSTOLE_API Tensor pad(const Tensor& x, Ints low, Ints high, const Tensor& value = 0);
SYSTOLE_API Tensor pad(const Tensor& x, Ints low, Ints high, PadMode mode);

// Indexing: x[i], x[{i, slice(1, {}), all, ellipsis, newaxis, indices, mask}], as in numpy. A number outside
// its axis throws; an element of an index Tensor that is outside (after negative ones have been counted from
// the end) is moved to the nearest place when reading and skipped when writing. A bool Tensor is read, since
// its count is a shape: in a trace that throws, where() is the way there. Slice{1, 5} is the same as
// slice(1, 5), for programs where that name is std::slice too. Index lists made at run time are vectors.
struct Slice {
  std::optional<std::int64_t> start = {}, stop = {}, step = {};
};
inline Slice slice(std::optional<std::int64_t> start, std::optional<std::int64_t> stop,
                   std::optional<std::int64_t> step = {}) {
  return {start, stop, step};
}
struct Ellipsis {};
struct NewAxis {};
inline constexpr Ellipsis ellipsis;  // as many whole axes as are left
inline constexpr NewAxis newaxis;    // a new axis of size 1

class SYSTOLE_API Index {
 public:
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  Index(T place) : Index(Place{static_cast<std::int64_t>(place)}) {}
  Index(Slice slice);
  Index(All);
  Index(Ellipsis);
  Index(NewAxis);
  template <std::convertible_to<Tensor> T>
    requires(!std::is_arithmetic_v<T>)
  Index(const T& places) : Index(Places{static_cast<Tensor>(places)}) {}
  Index(const Index&);
  Index(Index&&) noexcept;
  Index& operator=(const Index&);
  Index& operator=(Index&&) noexcept;
  ~Index();

  using Part = std::variant<std::int64_t, Slice, Ellipsis, NewAxis, Tensor>;
  const Part& part() const { return part_; }

 private:
  struct Place {
    std::int64_t number;
  };
  struct Places {
    Tensor numbers;
  };
  explicit Index(Place place);
  explicit Index(Places places);

  Part part_;
};

// Places in a Tensor: x.at({0, all}).set(y) is x with row 0 replaced by y, broadcast and converted to x's
// dtype. Of equal places the last set wins; the others combine all that fall on a place.
class SYSTOLE_API IndexedTensor {
 public:
  IndexedTensor(Tensor x, std::vector<Index> indices);
  Tensor get() const;
  Tensor set(const Tensor& value) const;
  Tensor add(const Tensor& value) const;
  Tensor multiply(const Tensor& value) const;
  Tensor max(const Tensor& value) const;
  Tensor min(const Tensor& value) const;

 private:
  Tensor x_;
  std::vector<Index> indices_;
};

// Gathering. Indices are wrapped and limited as in indexing.
SYSTOLE_API Tensor take(const Tensor& x, const Tensor& indices, std::int64_t axis);
SYSTOLE_API Tensor take(const Tensor& x, const Tensor& indices);  // of the elements in row-major order
// Of each line along `axis` the elements that the same line of `indices` names.
SYSTOLE_API Tensor take_along_axis(const Tensor& x, const Tensor& indices, std::int64_t axis);
SYSTOLE_API Tensor one_hot(const Tensor& indices, std::int64_t classes, DType dtype = DType::f32);
// The primitives as docs/ir.md has them: no negative indices.
SYSTOLE_API Tensor gather(const Tensor& x, const Tensor& indices, ir::GatherAttrs attrs);
SYSTOLE_API Tensor scatter(const Tensor& x, const Tensor& indices, const Tensor& updates,
                           ir::ScatterAttrs attrs);

}  // namespace systole
