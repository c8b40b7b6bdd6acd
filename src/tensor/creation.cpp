// Constants of the library are scalars broadcast to a shape: they cost no host memory and fold into whatever
// uses them. Numbers that a caller gives stay inputs (tensor/record.h), so that a loop over them does not
// compile again.

#include "systole/tensor/creation.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "systole/base/error.h"
#include "systole/tensor/math.h"
#include "systole/tensor/shaping.h"
#include "tensor/functions.h"
#include "tensor/record.h"

namespace systole {

using namespace recording;

namespace creation {

void check_count(std::size_t count, const Shape& shape) {
  if (shape.count() != static_cast<std::int64_t>(count))
    throw Error(ErrorKind::kShape, "from_span", "the elements do not fill the shape", shape.to_string(),
                fmt::format("{} elements", count));
}

namespace {

template <class T>
bool holds(std::int64_t value) {
  return std::in_range<T>(value);
}
template <class T>
bool holds(double value) {  // false for NaN; 2^63 and 2^64 are the first doubles beyond
  return value >= static_cast<double>(std::numeric_limits<T>::min()) &&
         value < std::ldexp(1.0, std::numeric_limits<T>::digits);
}

template <class T>
T converted(const AnyNumber& number, DType dtype) {
  if constexpr (std::is_same_v<T, bool>) {
    return number.real() != 0;
  } else if constexpr (std::is_integral_v<T>) {
    // An unsigned number from 2^63 on is negative as a signed one.
    const bool wrapped = number.integer() < 0 && number.real() > 0;
    const bool real = is_float(number.natural());
    if (!(wrapped ? std::is_same_v<T, std::uint64_t>
          : real  ? holds<T>(number.real())
                  : holds<T>(number.integer())))
      throw Error(ErrorKind::kInvalidArgument, "tensor", "a number that the dtype does not hold",
                  std::string(name(dtype)),
                  real || wrapped ? fmt::format("{}", number.real()) : fmt::format("{}", number.integer()));
    return real ? static_cast<T>(number.real()) : static_cast<T>(number.integer());
  } else {
    return static_cast<T>(number.real());
  }
}

DType natural_dtype_of(std::span<const AnyNumber> numbers) {
  DType dtype = numbers.empty() ? DType::f32 : DType::boolean;
  for (const AnyNumber& number : numbers) {
    if (is_float(number.natural())) return DType::f32;
    if (is_integer(number.natural())) dtype = DType::i32;
  }
  return dtype;
}

// The numbers of nested lists in row-major order, and what the nesting says about the shape.
struct Elements {
  std::vector<AnyNumber> values;
  Ints dims;           // as far as lists have been seen
  bool whole = false;  // to the innermost

  void collect(const Numbers& numbers, std::size_t depth) {
    if (numbers.is_list() ? whole && depth == dims.size() : depth < dims.size())
      throw Error(ErrorKind::kShape, "tensor", fmt::format("a number beside a list at depth {}", depth - 1));
    if (!numbers.is_list()) {
      whole = true;
      values.push_back(numbers.number());
      return;
    }
    const auto size = static_cast<std::int64_t>(numbers.items().size());
    if (depth == dims.size())
      dims.push_back(size);
    else if (dims[depth] != size)
      throw Error(ErrorKind::kShape, "tensor", fmt::format("lists of different lengths at depth {}", depth),
                  std::to_string(dims[depth]), std::to_string(size));
    for (const Numbers& item : numbers.items()) collect(item, depth + 1);
    whole = true;
  }
};

// start + i·step, computed in a dtype that holds every i exactly where there is one.
template <class N>
Tensor range_of(N start, N stop, N step, std::int64_t count, DType dtype) {
  if (count < 0 || step == 0)
    throw Error(ErrorKind::kInvalidArgument, "arange", "a step that leads nowhere", "a finite step, not 0",
                fmt::format("{}, {}, {}", start, stop, step));
  const bool small = holds<std::int32_t>(count) && holds<std::int32_t>(start) && holds<std::int32_t>(step);
  const bool narrow = size_of(dtype) < 4 || dtype == DType::i32;
  const DType whole = narrow && small ? DType::i32 : DType::i64;
  const DType wide = !is_float(dtype) ? whole : dtype == DType::f64 ? DType::f64 : DType::f32;
  Tensor x = iota({wide, {count}}, 0);
  if (step != N{1}) x = x * Tensor(step);
  if (start != N{0}) x = x + Tensor(start);
  return as_dtype(x, dtype);
}

}  // namespace

Numbers::Numbers(std::initializer_list<Numbers> items) : items_(items) {}
Numbers::Numbers(const Numbers&) = default;
Numbers::Numbers(Numbers&&) noexcept = default;
Numbers& Numbers::operator=(const Numbers&) = default;
Numbers& Numbers::operator=(Numbers&&) noexcept = default;
Numbers::~Numbers() = default;

Tensor from_numbers(const Numbers& numbers, std::optional<DType> wanted) {
  Elements elements;
  elements.collect(numbers, 0);
  const DType dtype = wanted ? *wanted : natural_dtype_of(elements.values);
  Literal literal = Literal::uninitialized({dtype, Shape(elements.dims)});
  visit_dtype(dtype, [&]<class T>() {
    const std::span<T> out = literal.mutable_values<T>();
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = converted<T>(elements.values[i], dtype);
  });
  return Tensor(std::move(literal));
}

Tensor range(double start, double stop, double step, DType dtype) {
  const double length = std::ceil((stop - start) / step);
  const bool fits = length < 9e18;  // false for NaN
  return range_of(start, stop, step, fits ? static_cast<std::int64_t>(std::fmax(length, 0)) : -1, dtype);
}

Tensor range(std::int64_t start, std::int64_t stop, std::int64_t step, DType dtype) {
  std::int64_t count = 0;
  if (step > 0 && stop > start)
    count =
        static_cast<std::int64_t>((static_cast<std::uint64_t>(stop) - static_cast<std::uint64_t>(start) - 1) /
                                  static_cast<std::uint64_t>(step)) +
        1;
  if (step < 0 && stop < start)
    count =
        static_cast<std::int64_t>((static_cast<std::uint64_t>(start) - static_cast<std::uint64_t>(stop) - 1) /
                                  (0 - static_cast<std::uint64_t>(step))) +
        1;
  // An index that does not fit the dtype would wrap: i64 holds every one.
  const bool narrow =
      start >= std::numeric_limits<std::int32_t>::min() && stop <= std::numeric_limits<std::int32_t>::max() &&
      start <= std::numeric_limits<std::int32_t>::max() && stop >= std::numeric_limits<std::int32_t>::min();
  if (!narrow && dtype == DType::i32)
    throw Error(ErrorKind::kInvalidArgument, "arange", "numbers that i32 does not hold", "a dtype, i64",
                fmt::format("{} to {}", start, stop));
  return range_of(start, stop, step, count, dtype);
}

}  // namespace creation

namespace {

Tensor splat(Shape shape, double value, DType dtype, std::string_view where) {
  check_type({dtype, shape}, where);
  return stretched(constant(Literal::full({dtype, {}}, value)), shape);
}

// 1 where column - row is at most k, of the last two axes.
Tensor below(const Shape& shape, std::int64_t k) {
  const Type type{DType::i32, shape};
  const Tensor rows = iota(type, shape.rank() - 2), columns = iota(type, shape.rank() - 1);
  const auto limit = static_cast<double>(std::clamp<std::int64_t>(k, -(1 << 30), 1 << 30));
  return binary(ir::Op::less_equal, columns, rows + constant(Literal::full({DType::i32, {}}, limit)));
}

Shape matrix(const Tensor& x, std::string_view where) {
  if (checked(x, where).type.shape.rank() < 2)
    throw Error(ErrorKind::kShape, std::string(where), "not a matrix", "two axes or more",
                x.type().to_string());
  const Shape& s = x.shape();
  return {s[s.size() - 2], s[s.size() - 1]};
}

Tensor masked(const Tensor& x, const Tensor& mask) {  // of the last two axes
  return where(stretched(mask, x.shape()), x, constant_like(x, 0));
}

}  // namespace

Tensor from_pointer(void* data, Type type, std::function<void(void*)> deleter) {
  std::shared_ptr<const void> owner(data, [deleter = std::move(deleter)](const void* p) {
    if (deleter) deleter(const_cast<void*>(p));
  });
  return Tensor(Literal::view(std::move(type), data, std::move(owner)));
}

Tensor zeros(Shape shape, DType dtype) { return splat(std::move(shape), 0, dtype, "zeros"); }
Tensor ones(Shape shape, DType dtype) { return splat(std::move(shape), 1, dtype, "ones"); }

Tensor full(Shape shape, const Tensor& value, std::optional<DType> dtype) {
  const DType of = dtype.value_or(checked(value, "full").type.dtype);
  check_type({of, shape}, "full");
  return broadcast_to(as_dtype(value, of), std::move(shape));
}

Tensor zeros_like(const Tensor& x, std::optional<DType> dtype) {
  const Type& type = checked(x, "zeros_like").type;
  return splat(type.shape, 0, dtype.value_or(type.dtype), "zeros_like");
}

Tensor ones_like(const Tensor& x, std::optional<DType> dtype) {
  const Type& type = checked(x, "ones_like").type;
  return splat(type.shape, 1, dtype.value_or(type.dtype), "ones_like");
}

Tensor full_like(const Tensor& x, const Tensor& value, std::optional<DType> dtype) {
  const Type& type = checked(x, "full_like").type;
  return full(type.shape, value, dtype.value_or(type.dtype));
}

Tensor linspace(double start, double stop, std::int64_t count, DType dtype) {
  const DType wide = dtype == DType::f64 ? DType::f64 : DType::f32;
  const Tensor i = iota({wide, {count}}, 0);
  const Tensor t = i * Tensor(1.0 / static_cast<double>(std::max<std::int64_t>(count - 1, 1)));
  // Both ends come out exactly: the last t is made 1.
  const Tensor last = binary(ir::Op::equal, i, constant_like(i, static_cast<double>(count - 1)));
  const Tensor x = t * Tensor(stop) + (1 - t) * Tensor(start);
  return as_dtype(count > 1 ? where(last, Tensor(stop), x) : x, dtype);
}

std::vector<Tensor> meshgrid(std::span<const Tensor> vectors) {
  Shape shape;
  for (const Tensor& x : vectors) {
    if (checked(x, "meshgrid").type.shape.rank() != 1)
      throw Error(ErrorKind::kShape, "meshgrid", "not a vector", "one axis", x.type().to_string());
    shape.push_back(x.shape()[0]);
  }
  std::vector<Tensor> grids;
  for (std::size_t i = 0; i < vectors.size(); ++i)
    grids.push_back(
        record(ir::Op::broadcast, {vectors[i]}, ir::BroadcastAttrs{shape, {static_cast<std::int64_t>(i)}}));
  return grids;
}

std::vector<Tensor> meshgrid(std::initializer_list<Tensor> vectors) {
  return meshgrid(std::span<const Tensor>(vectors.begin(), vectors.size()));
}

Tensor eye(std::int64_t rows, std::optional<std::int64_t> columns, DType dtype) {
  const Type type{DType::i32, {rows, columns.value_or(rows)}};
  return as_dtype(binary(ir::Op::equal, iota(type, 0), iota(type, 1)), dtype);
}

Tensor tri(std::int64_t rows, std::optional<std::int64_t> columns, std::int64_t k, DType dtype) {
  return as_dtype(below({rows, columns.value_or(rows)}, k), dtype);
}

Tensor tril(const Tensor& x, std::int64_t k) { return masked(x, below(matrix(x, "tril"), k)); }
Tensor triu(const Tensor& x, std::int64_t k) { return masked(x, !below(matrix(x, "triu"), k - 1)); }

Tensor diagonal(const Tensor& x, std::int64_t k) {
  const Ints dims = matrix(x, "diagonal").dims();
  const std::int64_t rows = dims[0], columns = dims[1];
  const std::int64_t low = std::clamp<std::int64_t>(-k, 0, rows),
                     right = std::clamp<std::int64_t>(k, 0, columns);
  const std::int64_t length = std::max<std::int64_t>(std::min(rows - low, columns - right), 0);
  // In row-major order the diagonal of a matrix stands at every (columns + 1)th place.
  const Shape& s = x.shape();
  Shape flat(std::span<const Dim>(s.begin(), s.end() - 2)), shape = flat;
  flat.push_back(rows * columns);
  shape.push_back(length);
  if (length == 0) return zeros(shape, x.dtype());
  const std::int64_t start = low * columns + right;
  const Tensor line = reshaped(x, flat);
  Ints starts(flat.size(), 0), strides(flat.size(), 1);
  Shape limits = flat;
  starts[flat.size() - 1] = start;
  strides[flat.size() - 1] = columns + 1;
  limits[flat.size() - 1] = start + (length - 1) * (columns + 1) + 1;
  return record(ir::Op::slice, {line}, ir::SliceAttrs{starts, limits, strides});
}

Tensor diag(const Tensor& x, std::int64_t k) {
  if (checked(x, "diag").type.shape.rank() == 2) return diagonal(x, k);
  if (x.rank() != 1)
    throw Error(ErrorKind::kShape, "diag", "neither a vector nor a matrix", "one or two axes",
                x.type().to_string());
  const std::int64_t n = x.size() + std::abs(k);
  const Type type{DType::i32, {n, n}};
  const Tensor rows = iota(type, 0), columns = iota(type, 1);
  const Tensor on = binary(ir::Op::equal, columns, rows + constant_like(rows, static_cast<double>(k)));
  const std::int64_t before = std::max<std::int64_t>(-k, 0);  // rows above the first element
  const Tensor placed =
      record(ir::Op::pad, {x, constant_like(x, 0)}, ir::PadAttrs{{before}, {n - x.size() - before}, {0}});
  return where(on, record(ir::Op::broadcast, {placed}, ir::BroadcastAttrs{type.shape, {0}}),
               constant_like(x, 0));
}

}  // namespace systole
