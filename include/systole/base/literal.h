#pragma once

// A Literal is a dense row-major array in host memory with a dtype and a static shape: the value of a
// constant, an argument or a result. Copies share the storage; mutable access makes it unique first.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "systole/base/dtype.h"
#include "systole/base/error.h"
#include "systole/base/export.h"
#include "systole/base/shape.h"

namespace systole {

class SYSTOLE_API Literal {
 public:
  Literal();                                // f32[0]
  explicit Literal(Type type);              // zeros; throws kOutOfMemory, kLimit or kShape
  static Literal uninitialized(Type type);  // the caller writes every byte
  static Literal copy_of(Type type, std::span<const std::byte> bytes);  // throws kShape when the size differs
  // Memory of the caller's, used in place and never written to; `owner` is let go with the last copy. Data
  // that is not aligned for its dtype is copied.
  static Literal view(Type type, const void* data, std::shared_ptr<const void> owner = {});

  template <class T>
  static Literal scalar(T value) {
    return of<T>(Shape{}, std::span<const T>(&value, 1));
  }
  template <class T>
  static Literal of(Shape shape, std::span<const T> values) {
    return copy_of({dtype_of<T>, std::move(shape)}, std::as_bytes(values));
  }
  template <class T>
  static Literal of(Shape shape, std::initializer_list<T> values) {
    return of<T>(std::move(shape), std::span<const T>(values.begin(), values.size()));
  }
  // `value` converted to the dtype in every element; throws kInvalidArgument when an integer cannot hold it.
  static Literal full(Type type, double value);
  static Literal full_int(Type type, std::int64_t value);

  const Type& type() const { return type_; }
  DType dtype() const { return type_.dtype; }
  const Shape& shape() const { return type_.shape; }
  Ints dims() const { return type_.shape.dims(); }
  int rank() const { return type_.shape.rank(); }
  std::int64_t count() const { return count_; }
  std::size_t byte_size() const { return static_cast<std::size_t>(count_) * size_of(type_.dtype); }

  const std::byte* bytes() const { return data_.get(); }
  std::span<const std::byte> as_bytes() const { return {data_.get(), byte_size()}; }
  std::byte* mutable_bytes();  // copies first when the storage is shared or not ours

  // Typed views; throw kDType when T is not the dtype.
  template <class T>
  std::span<const T> values() const {
    check_dtype(dtype_of<T>);
    return {reinterpret_cast<const T*>(bytes()), static_cast<std::size_t>(count_)};
  }
  template <class T>
  std::span<T> mutable_values() {
    check_dtype(dtype_of<T>);
    return {reinterpret_cast<T*>(mutable_bytes()), static_cast<std::size_t>(count_)};
  }
  // Every element converted to double (i64 and u64 may round).
  std::vector<double> to_doubles() const;
  // The single element; throws kShape unless count() is 1.
  template <class T>
  T item() const {
    check_single();
    return values<T>()[0];
  }

  Literal reshaped(Shape shape) const;                   // same storage, same count
  Literal reinterpreted(DType dtype) const;              // same storage, a dtype of the same size
  bool same_bits(const Literal& other) const;            // type and every byte
  std::string to_string(int max_elements = 1000) const;  // like numpy prints
  friend SYSTOLE_API std::ostream& operator<<(std::ostream& out, const Literal& value);

 private:
  Literal(Type type, std::shared_ptr<std::byte> data, bool owned);
  void check_dtype(DType wanted) const;
  void check_single() const;

  Type type_;
  std::int64_t count_ = 0;
  std::shared_ptr<std::byte> data_;
  bool owned_ = true;
};

}  // namespace systole
