// Making and freeing records. Elementwise ops on equal types take a short path, since eager programs record
// them by the million.

#include "tensor/record.h"

#include <algorithm>

#include <fmt/format.h>

#include "ops/common.h"
#include "systole/ir/composite.h"
#include "systole/ops.h"
#include "tensor/devices.h"
#include "tensor/evaluate.h"
#include "tensor/frame.h"
#include "tensor/functions.h"
#include "tensor/intern.h"
#include "tensor/thread_state.h"

namespace systole::recording {

namespace {

constexpr std::int64_t kLargestConstant = 16;  // elements

[[noreturn]] void fail_trace(std::string_view where) {
  throw Error(ErrorKind::kInvalidArgument, std::string(where),
              "a Tensor of a function that is not being traced any more, or by another thread",
              "a value returned by that function, or a Variable");
}

[[noreturn]] void fail_device(std::string_view where, std::uint8_t a, std::uint8_t b) {
  throw Error(ErrorKind::kInvalidArgument, std::string(where), "operands on different devices",
              device(a).name.to_string() + "; move one with to()", device(b).name.to_string());
}

// Notes the operand and what follows from it: device, and how much pending work stands below.
void attach(Record& record, Record* operand, std::string_view where) {
  if (operand->trace != 0) check_trace(*operand, where);
  if (operand->device != kAnyDevice) {
    if (record.device == kAnyDevice)
      record.device = operand->device;
    else if (record.device != operand->device)
      fail_device(where, record.device, operand->device);
  }
  // The order of another thread's records means nothing here; the length of its backlog does.
  const std::int64_t oldest = operand->thread == record.thread
                                  ? operand->oldest
                                  : record.sequence - 1 - (operand->sequence - operand->oldest);
  if (oldest < record.oldest && operand->pending()) record.oldest = oldest;
  retain(operand);
  record.operands.push_back(operand);
}

// Runs a chain of work that has become long; a trace is never cut, and a replay not in the middle. The
// distance between records is only a bound: what counts is the work that is really pending.
void flush(const Tensor& x) {
  Record& r = *x.record();
  if (r.trace != 0 || r.sequence - r.oldest < kFlushLength || thread_state().replays > 0) return;
  const std::int64_t count = pending_work(x, kFlushLength);
  if (count >= kFlushLength)
    run_pending({&x, 1}, "eval");
  else
    r.oldest = r.sequence - count;
}

Tensor finished(RecordRef record) {
  Tensor result(std::move(record));
  flush(result);
  return result;
}

Tensor elementwise(ir::Op op, const ir::OpInfo& info, std::initializer_list<const Tensor*> operands) {
  const Record& first = *(*operands.begin())->record();
  if (!info.dtypes.contains(first.type.dtype)) {
    std::vector<Type> types;
    for (const Tensor* x : operands) types.push_back(x->type());
    ir::infer_types(op, types, ir::NoAttrs{}, {}, {});  // throws, with the right words
  }
  RecordRef record = new_record(Kind::op, first.type);
  record->op = op;
  if (info.result == ir::ResultRule::boolean) record->type.dtype = DType::boolean;
  bool weak = true;
  for (const Tensor* x : operands) {
    attach(*record, x->record().get(), info.name);
    weak = weak && x->record()->weak;
  }
  record->weak = weak;
  return finished(std::move(record));
}

}  // namespace

const ir::Attrs& Record::attrs() const {
  static const ir::Attrs none;
  return extra ? extra->attrs : none;
}

void retain(Record* record) noexcept { record->references.fetch_add(1, std::memory_order_relaxed); }

void release(Record* record) noexcept {
  if (record->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  // A list of its own instead of recursion: a chain of any length needs no stack.
  std::vector<Record*> dead;
  Record* next = record;
  for (;;) {
    const SmallVector<Record*, 3> operands = std::move(next->operands);
    delete next;
    next = nullptr;
    for (Record* operand : operands) {
      if (operand->references.fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
      if (next == nullptr)
        next = operand;
      else
        dead.push_back(operand);
    }
    if (next == nullptr) {
      if (dead.empty()) return;
      next = dead.back();
      dead.pop_back();
    }
  }
}

RecordRef new_record(Kind kind, Type type) {
  ThreadState& state = thread_state();
  RecordRef record(new Record);
  record->kind.store(kind, std::memory_order_relaxed);
  record->type = std::move(type);
  record->trace = state.frame != nullptr ? state.frame->id() : 0;
  record->device = kAnyDevice;
  record->thread = state.thread;
  record->sequence = record->oldest = ++state.sequence;
  return record;
}

void check_trace(const Record& record, std::string_view where) {
  if (record.trace == 0) return;
  const Kind kind = record.kind.load(std::memory_order_acquire);
  const Frame* frame = thread_state().frame;
  if (kind == Kind::host || kind == Kind::value) return;  // there, whoever made it
  if (frame == nullptr || !frame->contains(record.trace)) fail_trace(where);
}

const Record& checked(const Tensor& x, std::string_view where) {
  if (!x.defined())
    throw Error(ErrorKind::kInvalidArgument, std::string(where), "an undefined Tensor",
                "one that was given a value");
  return *x.record();
}

Tensor unary(ir::Op op, const Tensor& x) {
  const ir::OpInfo& info = ir::info(op);
  checked(x, info.name);
  return elementwise(op, info, {&x});
}

Tensor binary(ir::Op op, const Tensor& a, const Tensor& b) {
  const ir::OpInfo& info = ir::info(op);
  const Record &x = checked(a, info.name), &y = checked(b, info.name);
  if (x.weak == y.weak && x.type == y.type) return elementwise(op, info, {&a, &b});
  const Tensor operands[] = {a, b};
  const DType dtype = common_dtype(operands, info.name);
  const std::optional<Shape> joined = ops::broadcast_shape(x.type.shape, y.type.shape);
  if (!joined)
    throw Error(ErrorKind::kShape, std::string(info.name), "shapes do not broadcast",
                "equal sizes, or 1, counted from the last axis",
                x.type.to_string() + " and " + y.type.to_string());
  const Shape& shape = *joined;
  const Tensor left = stretched(as_dtype(a, dtype), shape);
  const Tensor right = stretched(as_dtype(b, dtype), shape);
  return elementwise(op, info, {&left, &right});
}

std::vector<Tensor> record_multi(ir::Op op, std::span<const Tensor> operands, ir::Attrs attrs,
                                 std::vector<ir::GraphRef> graphs) {
  std::vector<Type> types;
  types.reserve(operands.size());
  for (const Tensor& x : operands) types.push_back(checked(x, ir::name(op)).type);
  types = ir::infer_types(op, types, attrs, graphs, {});
  return record_typed(op, operands, std::move(types), std::move(attrs), std::move(graphs));
}

std::vector<Tensor> record_typed(ir::Op op, std::span<const Tensor> operands, std::vector<Type> types,
                                 ir::Attrs attrs, std::vector<ir::GraphRef> graphs) {
  RecordRef record = new_record(Kind::op, types.empty() ? Type{} : types[0]);
  record->op = op;
  for (const Tensor& x : operands) attach(*record, x.record().get(), ir::name(op));
  if (attrs.get_if<ir::NoAttrs>() == nullptr || !graphs.empty() || types.size() != 1) {
    record->extra = std::make_unique<Extra>();
    record->extra->attrs = std::move(attrs);
    for (ir::GraphRef& graph : graphs) record->extra->graphs.push_back(interned(std::move(graph)));
  }
  if (types.size() == 1) return {finished(std::move(record))};
  record->extra->types = types;
  const Tensor node(std::move(record));
  std::vector<Tensor> results;
  for (std::size_t i = 0; i < types.size(); ++i) {
    RecordRef result = new_record(Kind::result, std::move(types[i]));
    result->index = static_cast<std::uint32_t>(i);
    attach(*result, node.record().get(), ir::name(op));
    results.push_back(finished(std::move(result)));
  }
  return results;
}

Tensor record(ir::Op op, std::initializer_list<Tensor> operands, ir::Attrs attrs) {
  return record_multi(op, std::span<const Tensor>(operands.begin(), operands.size()), std::move(attrs))[0];
}

std::vector<Tensor> record_built(std::span<const Tensor> operands, const Build& build) {
  ir::Graph graph;
  ir::Values inputs;
  for (const Tensor& x : operands) inputs.push_back(graph.input({}, checked(x, "operand").type));
  for (const ir::Value& result : build(graph, inputs)) graph.output(result);
  return replay(graph, operands);
}

Tensor built(std::initializer_list<Tensor> operands,
             const std::function<ir::Value(const ir::Values&)>& build) {
  return record_built(std::span<const Tensor>(operands.begin(), operands.size()),
                      [&](ir::Graph&, const ir::Values& x) { return ir::Values{build(x)}; })[0];
}

std::vector<Tensor> replay(const ir::Graph& graph, std::span<const Tensor> arguments) {
  std::vector<Tensor> outputs;
  {
    Replay replay(graph);
    for (std::size_t i = 0; i < arguments.size(); ++i) replay.give(i, arguments[i]);
    replay.advance();
    for (std::size_t i = 0; i < graph.outputs().size(); ++i) outputs.push_back(replay.output(i));
  }
  for (const Tensor& x : outputs) flush(x);
  return outputs;
}

Replay::Replay(const ir::Graph& graph)
    : graph_(&graph),
      values_(static_cast<std::size_t>(graph.size())),
      uses_(static_cast<std::size_t>(graph.size())) {
  for (const ir::Output& output : graph.outputs()) ++uses_[static_cast<std::size_t>(output.value.node)];
  for (std::int32_t i = graph.size(); i-- > 0;)
    if (uses_[static_cast<std::size_t>(i)] > 0)
      for (ir::ValueId v : graph.node(i).operands) ++uses_[static_cast<std::size_t>(v.node)];
}

void Replay::give(std::size_t input, const Tensor& value) {
  values_[static_cast<std::size_t>(graph_->inputs()[input])] = {value};
}

void Replay::advance() {
  struct Whole {
    Whole() { ++thread_state().replays; }
    ~Whole() { --thread_state().replays; }
  } const whole;
  for (std::int32_t i = 0; i < graph_->size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const ir::Node& node = graph_->node(i);
    if (!values_[at].empty() || uses_[at] == 0 || node.op == ir::Op::input) continue;
    if (node.op == ir::Op::constant) {
      values_[at] = {constant(node.as<ir::ConstantAttrs>().value)};
      continue;
    }
    std::vector<Tensor> operands;
    for (ir::ValueId v : node.operands) {
      const std::vector<Tensor>& from = values_[static_cast<std::size_t>(v.node)];
      if (from.empty()) break;
      operands.push_back(from[static_cast<std::size_t>(v.index)]);
    }
    if (operands.size() != node.operands.size()) continue;
    for (ir::ValueId v : node.operands) use(v);
    values_[at] = record_typed(node.op, operands, node.types, node.attrs, node.graphs);
  }
}

// What nothing needs any more is let go, so that long work in pieces does not keep all of it.
void Replay::use(ir::ValueId v) {
  const auto at = static_cast<std::size_t>(v.node);
  if (--uses_[at] == 0) values_[at] = {Tensor()};
}

Tensor Replay::output(std::size_t i) const {
  const ir::ValueId v = graph_->outputs()[i].value;
  const std::vector<Tensor>& from = values_[static_cast<std::size_t>(v.node)];
  return from.empty() ? Tensor() : from[static_cast<std::size_t>(v.index)];
}

// Larger ones are given along instead of becoming part of a program's key.
Tensor constant(Literal value) {
  const bool small = value.count() <= kLargestConstant;
  RecordRef record = new_record(small ? Kind::constant : Kind::host, value.type());
  const Frame* frame = thread_state().frame;
  record->trace = small || frame == nullptr ? 0 : frame->compile_id();
  record->extra = std::make_unique<Extra>();
  record->extra->literal = std::move(value);
  return Tensor(std::move(record));
}

Tensor constant_like(const Tensor& x, double value) {
  return constant(Literal::full({x.dtype(), {}}, value));
}

Tensor filled(const Type& type, double value) {
  return stretched(constant(Literal::full({type.dtype, {}}, value)), type.shape);
}

DType common_dtype(std::span<const Tensor> tensors, std::string_view where) {
  std::optional<DType> firm;
  bool weak_float = false, weak_int = false;
  for (const Tensor& x : tensors) {
    const Record& r = checked(x, where);
    if (r.weak) {
      weak_float = weak_float || is_float(r.type.dtype);
      weak_int = weak_int || is_integer(r.type.dtype);
      continue;
    }
    const std::optional<DType> joined = firm ? promote(*firm, r.type.dtype) : r.type.dtype;
    if (!joined)
      throw Error(ErrorKind::kDType, std::string(where), "the dtypes have no common one: convert first",
                  std::string(name(*firm)), std::string(name(r.type.dtype)));
    firm = joined;
  }
  if (!firm) return weak_float ? DType::f32 : weak_int ? DType::i32 : DType::boolean;
  if (weak_float && !is_float(*firm)) return DType::f32;
  if (weak_int && *firm == DType::boolean) return DType::i32;
  return *firm;
}

Tensor as_dtype(const Tensor& x, DType dtype) {
  const Record& r = checked(x, "convert");
  if (r.kind.load(std::memory_order_relaxed) == Kind::host && r.weak)
    return is_float(r.type.dtype) ? scalar(r.extra->number, dtype, false)
                                  : scalar(r.extra->integer, dtype, false);
  if (r.type.dtype == dtype && !r.weak) return x;
  return record(ir::Op::convert, {x}, ir::ConvertAttrs{dtype});
}

Tensor as_float(const Tensor& x) {
  return is_float(checked(x, "convert").type.dtype) ? x : as_dtype(x, DType::f32);
}

namespace {

template <class T>
RecordRef scalar_record(T number, Literal literal, bool weak) {
  RecordRef record = new_record(Kind::host, literal.type());
  const Frame* frame = thread_state().frame;
  record->trace = frame != nullptr ? frame->compile_id() : 0;
  record->weak = weak;
  record->extra = std::make_unique<Extra>();
  record->extra->number = static_cast<double>(number);
  if constexpr (std::is_integral_v<T>) record->extra->integer = number;
  record->extra->literal = std::move(literal);
  return record;
}

}  // namespace

Tensor scalar(double value, DType dtype, bool weak) {
  return Tensor(scalar_record(value, Literal::full({dtype, {}}, value), weak));
}

Tensor scalar(std::int64_t value, DType dtype, bool weak) {
  // Eight bytes hold the bits of every number: those above 2^63 arrive here as negative ones.
  if (is_integer(dtype) && size_of(dtype) < 8) {
    const int bits = static_cast<int>(size_of(dtype)) * 8 - (is_unsigned_integer(dtype) ? 0 : 1);
    const std::int64_t above = std::int64_t{1} << bits;
    if (value >= above || value < (is_unsigned_integer(dtype) ? 0 : -above))
      throw Error(ErrorKind::kInvalidArgument, "number", "the dtype of the Tensor beside it does not hold it",
                  std::string(name(dtype)), std::to_string(value));
  }
  return Tensor(scalar_record(value,
                              is_float(dtype) ? Literal::full({dtype, {}}, static_cast<double>(value))
                                              : Literal::full_int({dtype, {}}, value),
                              weak));
}

Tensor from_buffer(runtime::BufferRef buffer) {
  RecordRef record = new_record(Kind::value, buffer->type());
  record->trace = 0;
  record->device = device_id(buffer->device());
  record->buffer = std::move(buffer);
  return Tensor(std::move(record));
}

Tensor failed(const Type& type, std::exception_ptr error) {
  RecordRef record = new_record(Kind::failed, type);
  record->trace = 0;
  record->extra = std::make_unique<Extra>();
  record->extra->error = std::move(error);
  return Tensor(std::move(record));
}

}  // namespace systole::recording
