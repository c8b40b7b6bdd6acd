#include "systole/tensor/variable.h"

#include <utility>

#include "systole/base/error.h"
#include "tensor/evaluate.h"
#include "tensor/frame.h"
#include "tensor/record.h"

namespace systole {

using recording::Cell;

namespace {

const std::shared_ptr<Cell>& cell_of(const std::shared_ptr<Cell>& cell) {
  if (!cell)
    throw Error(ErrorKind::kInvalidArgument, "Variable", "an undefined Variable", "one made from a Tensor");
  return cell;
}

}  // namespace

Variable::Variable(Tensor value, std::string name, bool trainable) : cell_(std::make_shared<Cell>()) {
  const recording::Record& record = recording::checked(value, "Variable");
  const recording::Kind kind = record.kind.load(std::memory_order_acquire);
  const std::string what = name.empty() ? "Variable" : "Variable \"" + name + "\"";
  recording::check_trace(record, what);
  if (record.trace != 0 && kind != recording::Kind::host && kind != recording::Kind::value)
    throw Error(ErrorKind::kInvalidArgument, what, "made from a Tensor of a function that is being traced",
                "a Variable made outside; assign to it in the function");
  cell_->name = std::move(name);
  cell_->trainable = trainable;
  cell_->type = value.type();
  // What has no place yet gets one, and numbers become a value of a firm dtype.
  if (kind == recording::Kind::host || kind == recording::Kind::constant)
    value = recording::from_buffer(recording::buffer_of(value));
  else if (record.device == recording::kAnyDevice && !recording::tracing())
    value = value.to(current_device().to_string());
  cell_->value = std::move(value);
}

Tensor Variable::value() const { return recording::read_variable(cell_of(cell_)); }

void Variable::assign(const Tensor& value) {
  const Cell& cell = *cell_of(cell_);
  const recording::Record& record = recording::checked(value, "Variable::assign");
  recording::check_trace(record, "Variable::assign");
  const bool loses = record.weak && is_float(record.type.dtype) && !is_float(cell.type.dtype);
  const Tensor converted = record.weak && !loses ? recording::as_dtype(value, cell.type.dtype) : value;
  if (!(converted.type() == cell.type))
    throw Error(converted.dtype() == cell.type.dtype ? ErrorKind::kShape : ErrorKind::kDType,
                cell.name.empty() ? "Variable::assign" : "assignment to \"" + cell.name + "\"",
                "the value is of another type", cell.type.to_string(), converted.type().to_string());
  recording::assign_variable(cell_, converted);
}

Variable Variable::clone() const { return clone(dtype()); }
Variable Variable::clone(DType dtype) const {
  Variable copy(value().to(dtype), name(), cell_->trainable);
  copy.cell_->frozen = cell_->frozen;
  return copy;
}

Variable& Variable::operator+=(const Tensor& x) {
  assign(recording::binary(ir::Op::add, value(), x));
  return *this;
}
Variable& Variable::operator-=(const Tensor& x) {
  assign(recording::binary(ir::Op::sub, value(), x));
  return *this;
}
Variable& Variable::operator*=(const Tensor& x) {
  assign(recording::binary(ir::Op::mul, value(), x));
  return *this;
}

void Variable::move_to(std::string_view device) {
  if (recording::tracing())
    throw Error(ErrorKind::kInvalidArgument, "Variable::move_to", "a traced function runs on one device");
  cell_of(cell_)->value = value().to(device);
}

const Type& Variable::type() const { return cell_of(cell_)->type; }

std::int64_t Variable::size(std::int64_t axis) const {
  return shape()[static_cast<std::size_t>(normalize_axis(axis, rank(), "size"))].value();
}

const std::string& Variable::name() const { return cell_of(cell_)->name; }
void Variable::set_name(std::string name) { cell_of(cell_)->name = std::move(name); }
bool Variable::trainable() const { return cell_of(cell_)->trainable && !cell_->frozen; }
bool Variable::frozen() const { return cell_of(cell_)->frozen; }
void Variable::set_frozen(bool frozen) { cell_of(cell_)->frozen = frozen; }
void Variable::set_trainable(bool trainable) { cell_of(cell_)->trainable = trainable; }

}  // namespace systole
