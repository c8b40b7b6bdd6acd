#pragma once

// What reductions are told besides their operand. Both types keep a number from landing where another thing
// was meant: sum(x, 0, 1) does not compile, and an empty list made at run time reduces nothing.

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "systole/base/dtype.h"
#include "systole/base/small_vector.h"

namespace systole {

// The axes of a reduction: all when left out, one (-1), or those of a list ({0, -1}); of an empty Ints,
// vector or span, none.
class SYSTOLE_API Axes {
 public:
  Axes() = default;
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  Axes(T axis) : Axes({static_cast<std::int64_t>(axis)}) {}
  Axes(std::initializer_list<std::int64_t> axes) : are_all_(false), list_(axes) {}
  Axes(Ints axes) : are_all_(false), list_(std::move(axes)) {}
  Axes(std::span<const std::int64_t> axes) : are_all_(false), list_(axes) {}
  Axes(const std::vector<std::int64_t>& axes) : are_all_(false), list_(axes) {}

  bool are_all() const { return are_all_; }
  const Ints& list() const { return list_; }  // unless are_all()

 private:
  bool are_all_ = true;
  Ints list_;
};

// A bool that no number becomes.
class Flag {
 public:
  template <std::same_as<bool> T>
  constexpr Flag(T on) : on_(on) {}
  constexpr operator bool() const { return on_; }

 private:
  bool on_;
};

// Sums and products of integers are wide, as numpy's: without a dtype, signed integers and bools are taken as
// i64 and unsigned ones as u64, floats as they are. With one, the elements are converted to it first:
// sum(x, {}, {.dtype = DType::i32}).
struct SumOptions {
  bool keep = false;  // the reduced axes stay with size 1
  std::optional<DType> dtype = {};
};
struct RunningOptions {
  bool reverse = false;  // from the end
  std::optional<DType> dtype = {};
};

}  // namespace systole
