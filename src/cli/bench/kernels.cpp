#include "cli/bench/kernels.h"

#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "data/counter_hash.h"
#include "systole/base/error.h"
#include "systole/tensor/compiled.h"
#include "systole/tensor/creation.h"
#include "systole/tensor/linalg.h"
#include "systole/tensor/math.h"
#include "systole/tensor/neural.h"
#include "systole/tensor/shaping.h"
#include "systole/tensor/variable.h"

namespace systole::cli::bench {

namespace {

constexpr std::uint32_t kFirstSeed = 1, kSecondSeed = 2;

using Others = std::vector<Tensor>;  // arguments after the first

struct Other {
  Type type;
  std::optional<double> value = {};  // of every element; unset: hashed
};

struct Kernel {
  std::string_view model;
  bool square;        // works on matrices of batch² elements
  double arrays;      // of the largest size, read and written
  double operations;  // per element; of the matrix product per element and term of its sum
  std::vector<Other> (*others)(const Workload& work);
  Tensor (*compute)(const Tensor& x, const Others& others);
};

Tensor hashed_array(std::uint32_t seed, const Shape& shape, DType dtype) {
  return Tensor(data::hashed_uniform(seed, {DType::f32, shape})).to(dtype).eval();
}

Shape shape_of(const Workload& work);

std::vector<Other> none(const Workload&) { return {}; }
std::vector<Other> second_array(const Workload& work) { return {{{dtype_of(work), shape_of(work)}}}; }
std::vector<Other> scale_and_shift(const Workload& work) {
  const Type row{dtype_of(work), {work.batch}};
  return {{row, 1}, {row, 0}};
}

constexpr Kernel kKernels[] = {
    {"vector_add", false, 3, 1, second_array, [](const Tensor& x, const Others& o) { return x + o[0]; }},
    {"matmul", true, 3, 2, second_array, [](const Tensor& x, const Others& o) { return matmul(x, o[0]); }},
    // x·a + b; z·(1 + erf(z/√2))/2; times c
    {"gelu_chain", false, 2, 8, none,
     [](const Tensor& x, const Others&) { return gelu(x * 1.1 + 0.1) * 0.9; }},
    // maximum, difference, exponential, sum, quotient
    {"softmax", true, 2, 5, none, [](const Tensor& x, const Others&) { return softmax(x); }},
    // sum, difference, square, sum, product; scale and shift
    {"layernorm", true, 2, 7, scale_and_shift,
     [](const Tensor& x, const Others& o) { return layer_norm(x, o[0], o[1]); }},
};

const Kernel& kernel_of(const Workload& work) {
  for (const Kernel& kernel : kKernels)
    if (kernel.model == work.model) return kernel;
  throw Error(ErrorKind::kNotFound, work.name, "no such kernel", "", work.model);
}

Shape shape_of(const Workload& work) {
  return kernel_of(work).square ? Shape{work.batch, work.batch} : Shape{work.batch};
}

Others others_of(const Workload& work) {
  Others others;
  for (const Other& other : kernel_of(work).others(work))
    others.push_back(other.value ? Tensor(Literal::full(other.type, *other.value)).eval()
                                 : hashed_array(kSecondSeed, other.type.shape, other.type.dtype));
  return others;
}

// Waits until the device has made a value, by reading one element: nothing large leaves the device.
auto make_waiter() {
  return [first = compile([](const Tensor& x) { return flatten(x)[0]; })](const Tensor& x) {
    first(x).literal();
  };
}

using Compute = std::function<Tensor(const Tensor&, const Others&)>;

struct Start {
  Tensor x;
  Others others;
  runtime::Math math = runtime::Math::f32;
  bool check = true;  // take the checksums
};

// Calls with the same arguments, whose result is new memory.
Prepared repeated(Compute compute, Start start) {
  const auto step = compile(std::move(compute), {.math = start.math});
  Prepared prepared;
  const Tensor first = step(start.x, start.others);
  if (start.check) prepared.checksums = checksums(first);
  prepared.run = [step, start = std::move(start), wait = make_waiter()](std::int64_t calls) {
    Tensor y;
    for (std::int64_t i = 0; i < calls; ++i) y = step(start.x, start.others);
    if (y.defined()) wait(y);
  };
  return prepared;
}

// A call on the last result, which the next one takes the place of.
auto step_in_place(const Variable& state, Compute compute, runtime::Math math) {
  return compile(
      [state, compute = std::move(compute)](const Others& others) {
        Variable cell = state;
        cell.assign(compute(state, others));
      },
      {.math = math});
}

Prepared in_place(Compute compute, Start start) {
  const Variable state(std::move(start.x), "x");
  const auto step = step_in_place(state, std::move(compute), start.math);
  step(start.others);
  Prepared prepared;
  if (start.check) prepared.checksums = checksums(state);
  prepared.run = [step, state, others = std::move(start.others), wait = make_waiter()](std::int64_t calls) {
    for (std::int64_t i = 0; i < calls; ++i) step(others);
    wait(state);
  };
  return prepared;
}

// A product of products would leave all bounds.
bool is_repeated(const Workload& work) { return work.model == "matmul"; }

}  // namespace

Prepared prepare_kernel(const Workload& work) {
  const Kernel& kernel = kernel_of(work);
  Start start{hashed_array(kFirstSeed, shape_of(work), dtype_of(work)), others_of(work), work.math};
  return is_repeated(work) ? repeated(kernel.compute, std::move(start))
                           : in_place(kernel.compute, std::move(start));
}

ir::Graph kernel_graph(const Workload& work) {
  const Kernel& kernel = kernel_of(work);
  const Tensor x(Literal(Type{dtype_of(work), shape_of(work)}));
  Others others;
  for (const Other& other : kernel.others(work)) others.emplace_back(Literal(other.type));
  if (is_repeated(work)) return compile(Compute(kernel.compute), {.math = work.math}).graph(x, others);
  return step_in_place(Variable(x, "x"), kernel.compute, work.math).graph(others);
}

Cost cost(const Workload& work) {
  const Kernel& kernel = kernel_of(work);
  const double side = static_cast<double>(work.batch);
  const double elements = kernel.square ? side * side : side;
  const double terms = work.model == "matmul" ? side : 1;
  return {kernel.arrays * elements * static_cast<double>(size_of(dtype_of(work))),
          kernel.operations * elements * terms};
}

bool is_square(const Workload& work) { return kernel_of(work).square; }

Prepared prepare_copy(std::int64_t elements, Copy form) {
  const auto negated = [](const Tensor& x, const Others&) { return -x; };
  Start start{full({elements}, 1.5).eval(), {}, runtime::Math::f32, false};
  return form == Copy::fresh ? repeated(negated, std::move(start)) : in_place(negated, std::move(start));
}

}  // namespace systole::cli::bench
