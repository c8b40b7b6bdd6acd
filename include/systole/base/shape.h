#pragma once

// Shapes. A dimension is a number, or scale·symbol + offset for one named symbol (a batch size N, say) or a
// product of several (batch size and length, B*T), which are given numbers before a graph is compiled.
// Arithmetic that leaves this form is a typed error.

#include <concepts>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "systole/base/dtype.h"
#include "systole/base/export.h"
#include "systole/base/small_vector.h"

namespace systole {

inline constexpr int kMaxRank = 32;

class SYSTOLE_API Dim {
 public:
  constexpr Dim() = default;
  template <std::integral T>
  constexpr Dim(T value) : offset_(static_cast<std::int64_t>(value)) {}  // a number is a dimension
  static Dim symbol(std::string_view name);                              // the symbol itself
  static Dim affine(std::int64_t scale, std::string_view name, std::int64_t offset);  // name: "N", "B*T"

  bool is_static() const { return symbol_ == 0; }
  std::int64_t value() const { return offset_; }  // of a static dimension
  std::int64_t scale() const { return scale_; }
  std::int64_t offset() const { return offset_; }
  std::string_view symbol_name() const;           // what scale multiplies, "N" or "B*T"; empty when static
  std::vector<std::string_view> symbols() const;  // its factors in order, {"B", "T"}
  std::string to_string() const;

  friend constexpr bool operator==(const Dim&, const Dim&) = default;
  // These throw kShape when the result is not of this form, and kLimit when it does not fit 64 bits.
  friend SYSTOLE_API Dim operator+(Dim a, Dim b);
  friend SYSTOLE_API Dim operator-(Dim a, Dim b);
  friend SYSTOLE_API Dim operator*(Dim a, Dim b);
  // a / b rounded down, when that is exact for every value of the symbol.
  friend SYSTOLE_API Dim floor_div(Dim a, std::int64_t b);
  friend SYSTOLE_API std::ostream& operator<<(std::ostream& out, const Dim& d);

 private:
  std::int64_t offset_ = 0;
  std::int32_t scale_ = 0;
  std::int32_t symbol_ = 0;  // index into the table of names, of products too; 0: none
};

SYSTOLE_API Dim floor_div(Dim a, std::int64_t b);
// The d of a = b * d, for every value of the symbols (12*B*T over 4*T is 3*B); nothing when there is none.
SYSTOLE_API std::optional<Dim> exact_quotient(Dim a, Dim b);

// What each symbol stands for; a linear list, since graphs have one or two.
class SYSTOLE_API SymbolValues {
 public:
  void set(std::string_view name, std::int64_t value);
  std::optional<std::int64_t> find(std::string_view name) const;
  bool empty() const { return values_.empty(); }
  Dim bind(Dim dim) const;  // throws kNotFound for an unknown symbol

 private:
  struct Entry {
    std::int32_t symbol;
    std::int64_t value;
  };
  SmallVector<Entry, 2> values_;
};

class SYSTOLE_API Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<Dim> dims) : dims_(dims) {}
  explicit Shape(std::span<const Dim> dims) : dims_(dims) {}
  explicit Shape(std::span<const std::int64_t> dims);
  explicit Shape(const std::vector<std::int64_t>& dims);
  explicit Shape(const Ints& dims);

  int rank() const { return static_cast<int>(dims_.size()); }
  std::size_t size() const { return dims_.size(); }
  bool empty() const { return dims_.empty(); }
  const Dim& operator[](std::size_t i) const { return dims_[i]; }
  Dim& operator[](std::size_t i) { return dims_[i]; }
  const Dim* begin() const { return dims_.begin(); }
  const Dim* end() const { return dims_.end(); }
  void push_back(Dim d) { dims_.push_back(d); }

  bool is_static() const;
  Ints dims() const;              // the numbers of a static shape; throws kShape for a symbolic one
  Dim elements() const;           // product of the dimensions, checked against overflow
  std::int64_t count() const;     // elements() of a static shape
  std::string to_string() const;  // "[2,N,3]"

  friend bool operator==(const Shape&, const Shape&) = default;
  friend SYSTOLE_API std::ostream& operator<<(std::ostream& out, const Shape& shape);

 private:
  SmallVector<Dim, 5> dims_;
};

struct SYSTOLE_API Type {
  DType dtype = DType::f32;
  Shape shape;

  std::int64_t bytes() const;     // of a static type, checked against overflow
  std::string to_string() const;  // "f32[2,3]"
  friend bool operator==(const Type&, const Type&) = default;
  friend SYSTOLE_API std::ostream& operator<<(std::ostream& out, const Type& type);
};

// Throws kShape or kLimit, naming `where`, unless the rank, every dimension and the byte size are
// representable.
SYSTOLE_API void check_type(const Type& type, std::string_view where);

// Row-major strides, in elements.
SYSTOLE_API Ints row_major_strides(std::span<const std::int64_t> dims);

// An axis in [-rank, rank) as one in [0, rank); throws kInvalidArgument naming `where`.
SYSTOLE_API std::int64_t normalize_axis(std::int64_t axis, int rank, std::string_view where);

}  // namespace systole
