#pragma once

// A Tensor is an immutable value: an array of one dtype and shape, on a device. Operations record what is to
// be computed; nothing runs until a value is read (item, to_vector, printing) or eval() is called. Copies are
// cheap and share the value. Threads may share Tensors.
//
//   Tensor x = tensor({{1, 2}, {3, 4}}, DType::f32);
//   float s = sum(x * x + 1).item<float>();
//
// docs/tensors.md explains values, Variables and traces, with the traps.

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "systole/base/export.h"
#include "systole/base/literal.h"
#include "systole/base/shape.h"
#include "systole/runtime.h"
#include "systole/tensor/axes.h"
#include "systole/tensor/shape_of.h"

namespace systole {

class Index;
class IndexedTensor;

namespace recording {

struct Record;
SYSTOLE_API void retain(Record* record) noexcept;
SYSTOLE_API void release(Record* record) noexcept;

// An owning reference to a Record, the node of recorded work behind a Tensor.
class RecordRef {
 public:
  RecordRef() = default;
  explicit RecordRef(Record* adopted) noexcept : record_(adopted) {}
  RecordRef(const RecordRef& other) noexcept : record_(other.record_) {
    if (record_ != nullptr) retain(record_);
  }
  RecordRef(RecordRef&& other) noexcept : record_(std::exchange(other.record_, nullptr)) {}
  RecordRef& operator=(RecordRef other) noexcept {
    std::swap(record_, other.record_);
    return *this;
  }
  ~RecordRef() {
    if (record_ != nullptr) release(record_);
  }
  Record* get() const { return record_; }
  Record* operator->() const { return record_; }
  Record& operator*() const { return *record_; }
  explicit operator bool() const { return record_ != nullptr; }
  Record* detach() noexcept { return std::exchange(record_, nullptr); }

 private:
  Record* record_ = nullptr;
};

}  // namespace recording

class SYSTOLE_API Tensor {
 public:
  Tensor() = default;  // undefined: any use but defined() throws
  // A number beside a Tensor takes its dtype; alone, it is f32, i32 or bool.
  template <class T>
    requires std::is_arithmetic_v<T>
  Tensor(T scalar) : Tensor(from_scalar(scalar)) {}
  explicit Tensor(Literal value);
  explicit Tensor(recording::RecordRef record) : record_(std::move(record)) {}
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) noexcept = default;
  // Only a name can be given another value: x[0] = y would change nothing and does not compile;
  // x.at(0).set(y) is x with that part replaced.
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & noexcept = default;

  bool defined() const { return static_cast<bool>(record_); }
  const Type& type() const&;
  Type type() && { return std::as_const(*this).type(); }
  DType dtype() const { return type().dtype; }
  const Shape& shape() const& { return type().shape; }
  Shape shape() && { return std::as_const(*this).type().shape; }
  int rank() const { return shape().rank(); }
  std::int64_t size() const { return shape().count(); }  // number of elements
  std::int64_t size(std::int64_t axis) const;            // of one axis, counted from the end when negative
  DeviceName device() const;

  // Reading. These evaluate; in a trace they throw kInvalidArgument, since there is no value yet.
  const Tensor& eval() const&;
  Tensor eval() && { return std::as_const(*this).eval(); }
  Literal literal() const;
  template <class T>
  T item() const {  // the single element, converted to T; throws kShape unless size() is 1
    if constexpr (std::is_same_v<T, bool>)
      return item_as_double() != 0;
    else if constexpr (std::is_unsigned_v<T>)
      return static_cast<T>(item_as_unsigned());
    else if constexpr (std::is_integral_v<T>)
      return static_cast<T>(item_as_int());
    else
      return static_cast<T>(item_as_double());
  }
  template <class T>
  std::vector<T> to_vector() const;  // row-major; throws kDType unless T is the dtype
  std::string to_string() const;     // like numpy prints
  bool evaluated() const;            // whether the value is there already

  Tensor to(DType dtype) const;              // converted
  Tensor to(std::string_view device) const;  // on another device; evaluates

  // Indexing like numpy's: x[3], x[{all, slice(1, 5)}], x[{ellipsis, newaxis, -1}], x[indices]. shaping.h
  // has the parts.
  Tensor operator[](const Index& index) const;
  Tensor operator[](std::initializer_list<Index> indices) const;
  Tensor operator[](std::span<const Index> indices) const;
  // A place to change: x.at({0, all}).set(y) is x with row 0 replaced; also add, multiply, max, min.
  IndexedTensor at(const Index& index) const;
  IndexedTensor at(std::initializer_list<Index> indices) const;
  IndexedTensor at(std::span<const Index> indices) const;

  // The usual functions as methods, for chains.
  Tensor reshape(Shape shape) const;  // one axis may be -1
  template <SizeRange R>
  Tensor reshape(const R& sizes) const {
    return reshape(shape_of(sizes));
  }
  Tensor transpose(Ints permutation = {}) const;
  Tensor flatten(std::int64_t first_axis = 0) const;
  Tensor squeeze(const Axes& axes = {}) const;
  Tensor unsqueeze(std::int64_t axis) const;
  Tensor sum(const Axes& axes = {}, Flag keep = false) const;
  Tensor sum(const Axes& axes, SumOptions options) const;
  Tensor mean(const Axes& axes = {}, Flag keep = false) const;
  Tensor max(const Axes& axes = {}, Flag keep = false) const;
  Tensor min(const Axes& axes = {}, Flag keep = false) const;
  Tensor argmax(std::int64_t axis) const;

  friend SYSTOLE_API std::ostream& operator<<(std::ostream& out, const Tensor& x);

  const recording::RecordRef& record() const { return record_; }  // of the library's own use

 private:
  static Tensor from_scalar(double value);
  static Tensor from_scalar(std::int64_t value);
  static Tensor from_scalar(std::uint64_t value);
  static Tensor from_scalar(bool value);
  template <class T>
  static Tensor from_scalar(T value) {
    if constexpr (std::is_floating_point_v<T>)
      return from_scalar(static_cast<double>(value));
    else if constexpr (std::is_unsigned_v<T>)
      return from_scalar(static_cast<std::uint64_t>(value));
    else
      return from_scalar(static_cast<std::int64_t>(value));
  }
  double item_as_double() const;
  std::int64_t item_as_int() const;
  std::uint64_t item_as_unsigned() const;

  recording::RecordRef record_;
};

SYSTOLE_API void evaluate(std::span<const Tensor> tensors);  // all of them in one run

// Where new values are made: the device named here for the current scope and thread, else "auto".
class SYSTOLE_API DeviceScope {
 public:
  explicit DeviceScope(std::string_view device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int previous_;
};
SYSTOLE_API void set_default_device(std::string_view device);  // of every thread without a scope
SYSTOLE_API DeviceName current_device();

template <class T>
std::vector<T> Tensor::to_vector() const {
  const Literal value = literal();
  const std::span<const T> values = value.template values<T>();
  return {values.begin(), values.end()};
}

}  // namespace systole
