#pragma once

// A Variable is a named cell that holds a Tensor and can be assigned: a parameter, an optimiser's moment, a
// running statistic, a random key. Copies of a Variable refer to the same cell; clone() makes another cell.
//
// In a trace (compiled.h) reading a Variable makes it an input of the compiled program and assigning it makes
// it an output; the memory stays on the device and does not move. A Tensor read before an assignment keeps
// the old numbers. Two threads may not use one Variable at a time unless both only read.

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "systole/base/export.h"
#include "systole/tensor/tensor.h"

namespace systole {

namespace recording {

struct Cell;

struct SettingCell {
  std::int64_t value = 0;
};
SYSTOLE_API std::int64_t read_setting(const std::shared_ptr<SettingCell>& cell);

}  // namespace recording

class SYSTOLE_API Variable {
 public:
  Variable() = default;  // undefined
  explicit Variable(Tensor value, std::string name = {}, bool trainable = true);

  bool defined() const { return cell_ != nullptr; }
  Tensor value() const;
  operator Tensor() const { return value(); }  // a Variable stands wherever a Tensor does
  void assign(const Tensor& value);            // of the same dtype and shape, else kShape or kDType
  Variable& operator+=(const Tensor& x);       // assigns value() + x
  Variable& operator-=(const Tensor& x);
  Variable& operator*=(const Tensor& x);
  Variable clone() const;                 // a new cell with the value of now
  Variable clone(DType dtype) const;      // converted
  void move_to(std::string_view device);  // the value, to another device

  const Type& type() const;
  DType dtype() const { return type().dtype; }
  const Shape& shape() const { return type().shape; }
  int rank() const { return shape().rank(); }
  std::int64_t size() const { return shape().count(); }
  std::int64_t size(std::int64_t axis) const;

  // Reading the value, as of a Tensor.
  template <class T>
  T item() const {
    return value().item<T>();
  }
  template <class T>
  std::vector<T> to_vector() const {
    return value().to_vector<T>();
  }
  Literal literal() const { return value().literal(); }
  Tensor to(DType dtype) const { return value().to(dtype); }
  friend std::ostream& operator<<(std::ostream& out, const Variable& v) { return out << v.value(); }

  const std::string& name() const;
  void set_name(std::string name);
  bool trainable() const;  // whether parameters() lists it: made so, and not frozen
  void set_trainable(bool trainable);
  bool frozen() const;
  void set_frozen(bool frozen);  // for a while: a statistic stays none of the parameters afterwards

  bool same_cell(const Variable& other) const { return cell_ == other.cell_; }
  const std::shared_ptr<recording::Cell>& cell() const { return cell_; }  // of the library's own use

 private:
  std::shared_ptr<recording::Cell> cell_;
};

// A switch that C++ code reads: whether a module trains, say. A compiled function that read it is traced
// again when it has changed. Unlike a Variable, a copy is a switch of its own.
template <class T>
  requires std::is_integral_v<T> || std::is_enum_v<T>
class Setting {
 public:
  Setting(T value = {}) : cell_(std::make_shared<recording::SettingCell>()) { *this = value; }
  Setting(const Setting& other) : Setting(static_cast<T>(other.cell_->value)) {}
  // The switch that compiled functions know goes along; what is left behind is another one of equal value.
  Setting(Setting&& other)
      : cell_(std::exchange(other.cell_, std::make_shared<recording::SettingCell>(*other.cell_))) {}
  Setting& operator=(const Setting& other) { return *this = static_cast<T>(other.cell_->value); }
  Setting& operator=(T value) {
    cell_->value = static_cast<std::int64_t>(value);
    return *this;
  }
  operator T() const { return static_cast<T>(recording::read_setting(cell_)); }

 private:
  std::shared_ptr<recording::SettingCell> cell_;
};

}  // namespace systole
