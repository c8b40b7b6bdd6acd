#include "systole/tensor/tensor.h"

#include <ostream>

#include "eval/eval.h"
#include "tensor/devices.h"
#include "tensor/evaluate.h"
#include "tensor/frame.h"
#include "tensor/record.h"

namespace systole {

using recording::checked;
using recording::Kind;
using recording::Record;

namespace {

Literal read(const Tensor& x, std::string_view where) {
  recording::run_pending({&x, 1}, where);
  const Record& record = *x.record();
  const Kind kind = record.kind.load(std::memory_order_acquire);
  if (kind == Kind::constant || kind == Kind::host) return record.extra->literal;
  return recording::buffer_of(x)->to_host();
}

// The single element, as one of another dtype.
Literal single(const Tensor& x, DType dtype) {
  const Literal value = read(x, "item");
  if (value.count() != 1)
    throw Error(ErrorKind::kShape, "item", "only a Tensor of one element is a number", "1 element",
                value.type().to_string());
  ir::Graph graph;
  const ir::Value element = graph.input("x", value.type());
  graph.output(graph.add(ir::Op::convert, element, ir::ConvertAttrs{dtype}));
  return eval::evaluate(graph, std::span<const Literal>(&value, 1))[0];
}

}  // namespace

Tensor::Tensor(Literal value) {
  const runtime::ResolvedDevice& place = recording::device(recording::current_device_id());
  *this = recording::from_buffer(place.backend->upload(value, place.name.ordinal));
}

Tensor Tensor::from_scalar(double value) { return recording::scalar(value, DType::f32, true); }
Tensor Tensor::from_scalar(std::int64_t value) {
  const bool small = value >= INT32_MIN && value <= INT32_MAX;
  return recording::scalar(value, small ? DType::i32 : DType::i64, true);
}
Tensor Tensor::from_scalar(std::uint64_t value) {
  if (value <= static_cast<std::uint64_t>(INT64_MAX)) return from_scalar(static_cast<std::int64_t>(value));
  return Tensor(Literal::scalar(value));  // only u64 holds it
}
Tensor Tensor::from_scalar(bool value) {
  return recording::scalar(std::int64_t{value}, DType::boolean, true);
}

const Type& Tensor::type() const& { return checked(*this, "Tensor").type; }

std::int64_t Tensor::size(std::int64_t axis) const {
  const Dim& size = shape()[static_cast<std::size_t>(normalize_axis(axis, rank(), "size"))];
  if (!size.is_static())
    throw Error(ErrorKind::kShape, "size", "the axis has no number here, only a symbol",
                "an axis of fixed size", type().to_string());
  return size.value();
}

DeviceName Tensor::device() const {
  const Record& record = checked(*this, "device");
  if (record.device != recording::kAnyDevice) return recording::device(record.device).name;
  const Kind kind = record.kind.load(std::memory_order_acquire);
  return kind == Kind::value ? recording::buffer_of(*this)->device() : current_device();
}

const Tensor& Tensor::eval() const& {
  recording::run_pending({this, 1}, "eval");
  return *this;
}

Literal Tensor::literal() const { return read(*this, "literal"); }

double Tensor::item_as_double() const { return single(*this, DType::f64).item<double>(); }
std::int64_t Tensor::item_as_int() const { return single(*this, DType::i64).item<std::int64_t>(); }

std::uint64_t Tensor::item_as_unsigned() const { return single(*this, DType::u64).item<std::uint64_t>(); }

std::string Tensor::to_string() const { return literal().to_string(); }
std::ostream& operator<<(std::ostream& out, const Tensor& x) {
  if (!x.defined()) return out << "undefined";
  return out << x.to_string();
}

bool Tensor::evaluated() const {
  const Kind kind = checked(*this, "Tensor").kind.load(std::memory_order_acquire);
  return kind == Kind::value || kind == Kind::constant || kind == Kind::host;
}

Tensor Tensor::to(std::string_view device) const {
  if (recording::tracing())
    throw Error(ErrorKind::kInvalidArgument, "to", "a traced function runs on one device");
  recording::run_pending({this, 1}, "to");
  const runtime::BufferRef buffer = recording::buffer_of(*this);
  const std::uint8_t id = recording::device_id(device);
  if (buffer->placement().devices.size() == 1)
    return recording::from_buffer(recording::on_device(buffer, id));
  // Parts on several devices count as one value on the first.
  const runtime::ResolvedDevice& place = recording::device(id);
  return recording::from_buffer(place.backend->upload(buffer->to_host(), place.name.ordinal));
}

void evaluate(std::span<const Tensor> tensors) { recording::run_pending(tensors, "evaluate"); }

}  // namespace systole
