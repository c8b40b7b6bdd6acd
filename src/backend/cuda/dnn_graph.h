#pragma once

// A graph of cuDNN's in the making: arrays of four axes and the operations between them, computed in f32.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "backend/cuda/dnn_api.h"
#include "backend/cuda/dnn_plan.h"

namespace systole::cuda::dnn {

using Four = std::array<std::int64_t, 4>;
Four dense(const Four& dims);   // strides in row-major order
Four turned(const Four& four);  // of the transposed matrices

struct Array {
  std::size_t part = 0;  // of the graph
  Four dims{}, strides{};
};

// A number that a plan gets with every execution, from the host's memory.
struct Number {
  std::int64_t name = 0;
  union {
    float real = 0;
    std::int32_t whole;
  };
};

// Of pointwise work beside its first operand: the second, and where not to take the second instead.
struct Rest {
  const Array* b = nullptr;
  const Array* which = nullptr;
  int compute = kFloat;
  std::int64_t axis = -1;  // of indices
};

class Builder {
 public:
  // Names of numbers and of what is virtual begin with this one.
  explicit Builder(std::int64_t first_name) : next_(first_name) {}

  Array stored(std::int64_t name, int type, const Four& dims, const Four& strides);
  Array virtual_one(int type, const Four& dims, const Four& strides);
  Array number(float value);
  Array number(std::int32_t value);

  void multiply(const Array& a, const Array& b, const Array& c);
  void pointwise(int mode, const Array& x, const Array& y, const Rest& rest);
  Array pointwise(int mode, const Array& x, const Rest& rest = {}, int type = kFloat);
  Array pointwise(int mode, const Array& x, const Array& b) { return pointwise(mode, x, Rest{.b = &b}); }
  Array reduce(int combine, const Array& x);  // over the last axis
  Array transpose(const Array& x, int type);  // the matrices
  const std::vector<Number>& numbers() const { return numbers_; }
  Plan finish(Handle handle, const PlanWishes& wishes);

 private:
  enum class Storage { memory, none, value };
  Array array(std::int64_t name, int type, const Four& dims, const Four& strides, Storage storage);
  void add(Object operation);
  void add(Object how, Object operation);

  std::vector<Object> parts_;
  std::vector<std::size_t> operations_;
  std::vector<Number> numbers_;
  std::int64_t next_;
};

}  // namespace systole::cuda::dnn
