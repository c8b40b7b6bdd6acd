#pragma once

// Batches made of rows: copying rows of arrays, and joining samples.

#include <cstdint>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "systole/base/error.h"
#include "systole/base/literal.h"
#include "systole/data/source.h"

namespace systole::data {

// True in a thread that makes batches beside others: what it does there is not shared out once more.
inline thread_local bool in_worker = false;

// An array of a batch, to be written through `data`. Batches come and go by the thousand, and fresh pages
// from the kernel would cost more than the pictures in them: the memory of large ones is used again when the
// last copy of `value` is gone.
struct BatchArray {
  explicit BatchArray(Type type);
  Literal value;
  std::byte* data;

  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
};

// Rows of each column, in the order of `indices`, which are in range.
std::vector<Literal> gathered(std::span<const Literal> columns, std::span<const std::int64_t> indices);

// Samples as a batch; indices are for messages. Throws kShape when they are not all alike.
std::vector<Literal> stacked(std::span<const Sample> samples, std::span<const std::int64_t> indices);

Shape with_leading(std::int64_t count, const Shape& shape);  // [count, …]
Shape without_leading(const Shape& shape);

// Samples that are rows of arrays in memory: sample i is row rows[i], or i where there are no rows.
struct InPlace {
  std::vector<Literal> columns;
  std::vector<std::int64_t> rows;
};
// Where the samples lie, without copying any; nothing for what is not in memory, or not in one array.
std::optional<InPlace> in_place(const Rows& rows);

// A piece of the leading axis, in the same memory.
Literal rows_of(const Literal& column, std::int64_t first, std::int64_t count);

// Runs `work`; what it throws gets "sample i" before it.
template <class F>
decltype(auto) naming_sample(std::int64_t i, F&& work) {
  try {
    return work();
  } catch (const Error& error) {
    throw error.within("sample " + std::to_string(i));
  } catch (const std::bad_alloc&) {
    throw Error(ErrorKind::kOutOfMemory, "sample " + std::to_string(i), "no memory for it");
  } catch (const std::exception& error) {  // of a Dataset or a change that is not ours
    throw Error(ErrorKind::kInvalidArgument, "sample " + std::to_string(i), error.what());
  }
}

}  // namespace systole::data
