#include "backend/cuda/dnn_graph.h"

#include <utility>

namespace systole::cuda::dnn {

Four dense(const Four& dims) { return {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1}; }
Four turned(const Four& four) { return {four[0], four[1], four[3], four[2]}; }

Array Builder::stored(std::int64_t name, int type, const Four& dims, const Four& strides) {
  return array(name, type, dims, strides, Storage::memory);
}

Array Builder::virtual_one(int type, const Four& dims, const Four& strides) {
  return array(next_++, type, dims, strides, Storage::none);
}

Array Builder::number(float value) {
  Number& made = numbers_.emplace_back();
  made.name = next_++;
  made.real = value;
  return array(made.name, kFloat, {1, 1, 1, 1}, {1, 1, 1, 1}, Storage::value);
}

Array Builder::number(std::int32_t value) {
  Number& made = numbers_.emplace_back();
  made.name = next_++;
  made.whole = value;
  return array(made.name, kInt32, {1, 1, 1, 1}, {1, 1, 1, 1}, Storage::value);
}

void Builder::multiply(const Array& a, const Array& b, const Array& c) {
  Object how(kMatmul);
  how.set_word(kMatmulComputeType, kDataTypeType, kFloat);
  how.finalize();
  Object operation(kMatmulOperation);
  operation.set_object(kMatmulA, parts_[a.part]);
  operation.set_object(kMatmulB, parts_[b.part]);
  operation.set_object(kMatmulC, parts_[c.part]);
  operation.set_object(kMatmulDescriptor, how);
  add(std::move(how), std::move(operation));
}

void Builder::pointwise(int mode, const Array& x, const Array& y, const Rest& rest) {
  Object how(kPointwise);
  how.set_word(kPointwiseMode, kPointwiseModeType, mode);
  how.set_word(kPointwiseComputeType, kDataTypeType, rest.compute);
  if (rest.axis >= 0) how.set_number(kPointwiseAxis, rest.axis);
  how.finalize();
  Object operation(kPointwiseOperation);
  operation.set_object(kPointwiseDescriptor, how);
  operation.set_object(kPointwiseX, parts_[x.part]);
  if (rest.b != nullptr) operation.set_object(kPointwiseB, parts_[rest.b->part]);
  if (rest.which != nullptr) operation.set_object(kPointwiseT, parts_[rest.which->part]);
  operation.set_object(kPointwiseY, parts_[y.part]);
  add(std::move(how), std::move(operation));
}

Array Builder::pointwise(int mode, const Array& x, const Rest& rest, int type) {
  const Array y = virtual_one(type, x.dims, dense(x.dims));
  pointwise(mode, x, y, rest);
  return y;
}

Array Builder::reduce(int combine, const Array& x) {
  const Four dims{x.dims[0], x.dims[1], x.dims[2], 1};
  const Array y = virtual_one(kFloat, dims, dense(dims));
  Object how(kReduction);
  how.set_word(kReductionComputeType, kDataTypeType, kFloat);
  how.set_word(kReductionOperator, kReductionOperatorType, combine);
  how.finalize();
  Object operation(kReductionOperation);
  operation.set_object(kReductionDescriptor, how);
  operation.set_object(kReductionX, parts_[x.part]);
  operation.set_object(kReductionY, parts_[y.part]);
  add(std::move(how), std::move(operation));
  return y;
}

Array Builder::transpose(const Array& x, int type) {
  const Array y = virtual_one(type, turned(x.dims), turned(x.strides));
  Object operation(kReshapeOperation);
  operation.set_object(kReshapeX, parts_[x.part]);
  operation.set_object(kReshapeY, parts_[y.part]);
  add(std::move(operation));
  return y;
}

Plan Builder::finish(Handle handle, const PlanWishes& wishes) {
  return make_plan(handle, std::move(parts_), operations_, wishes);
}

Array Builder::array(std::int64_t name, int type, const Four& dims, const Four& strides, Storage storage) {
  const auto list = [](const Four& four) { return std::vector<std::int64_t>(four.begin(), four.end()); };
  Object made(kTensor);
  made.set_word(kTensorType, kDataTypeType, type);
  made.set_numbers(kTensorDimensions, list(dims));
  made.set_numbers(kTensorStrides, list(strides));
  made.set_number(kTensorId, name);
  const std::int64_t bytes = dims[0] * dims[1] * dims[2] * dims[3] * (type == kFloat ? 4 : 2);
  made.set_number(kTensorAlignment, storage == Storage::memory ? array_alignment(bytes) : 16);
  const bool yes = true;
  if (storage == Storage::none) made.set(kTensorIsVirtual, kBooleanType, &yes);
  if (storage == Storage::value) made.set(kTensorIsByValue, kBooleanType, &yes);
  made.finalize();
  parts_.push_back(std::move(made));
  return {parts_.size() - 1, dims, strides};
}

void Builder::add(Object operation) {
  operation.finalize();
  operations_.push_back(parts_.size());
  parts_.push_back(std::move(operation));
}

void Builder::add(Object how, Object operation) {
  parts_.push_back(std::move(how));
  add(std::move(operation));
}

}  // namespace systole::cuda::dnn
