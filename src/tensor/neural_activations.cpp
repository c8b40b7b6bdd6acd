// Activations. Each is a few elementwise ops, computed in f32 for the small floats and rounded once. Where a
// branch that is not taken could overflow, its argument is cut first: the gradient of an infinite value that
// was thrown away would be NaN.

#include <cmath>
#include <functional>
#include <string_view>

#include "ops/common.h"
#include "systole/ops.h"
#include "systole/tensor/neural.h"
#include "tensor/record.h"

namespace systole {

namespace {

using ir::Value;
using ops::plus, ops::scalar_like, ops::select, ops::times;

Tensor activation(const Tensor& x, std::string_view where, const std::function<Value(Value)>& formula) {
  recording::checked(x, where);
  return recording::built({recording::as_float(x)}, [&](const ir::Values& v) {
    return ops::convert(formula(ops::widen(v[0])), v[0].dtype());
  });
}

Value positive(Value x) { return ops::greater(x, scalar_like(x, 0)); }
Value negative_part(Value x) { return select(positive(x), scalar_like(x, 0), x); }

// `low` up to x = `from`, `high` from x = `to` on, `between` in the middle; NaN stays.
Value pieces(Value x, double from, Value low, Value between, double to, Value high) {
  const Value upper = select(ops::greater_equal(x, scalar_like(x, to)), high, between);
  return select(ops::less_equal(x, scalar_like(x, from)), low, upper);
}

Value softplus_of(Value x) {
  const Value tail = ops::log1p(ops::exp(ops::neg(ops::abs(x))));
  return ops::add(ops::max(x, scalar_like(x, 0)), tail);
}

Value elu_of(Value x, double alpha) {
  const Value below = times(ops::expm1(negative_part(x)), alpha);
  return select(positive(x), x, below);
}

}  // namespace

Tensor relu(const Tensor& x) {
  recording::checked(x, "relu");
  const Tensor zero = recording::constant_like(x, 0);
  return recording::built(
      {x, zero}, [](const ir::Values& v) { return select(ops::less_equal(v[0], v[1]), v[1], v[0]); });
}

Tensor relu6(const Tensor& x) {
  return activation(x, "relu6",
                    [](Value v) { return pieces(v, 0, scalar_like(v, 0), v, 6, scalar_like(v, 6)); });
}

Tensor leaky_relu(const Tensor& x, double slope) {
  return activation(x, "leaky_relu", [&](Value v) { return select(positive(v), v, times(v, slope)); });
}

Tensor elu(const Tensor& x, double alpha) {
  return activation(x, "elu", [&](Value v) { return elu_of(v, alpha); });
}

Tensor selu(const Tensor& x) {
  constexpr double kAlpha = 1.6732632423543772848170429916717, kScale = 1.0507009873554804934193349852946;
  return activation(x, "selu", [](Value v) { return times(elu_of(v, kAlpha), kScale); });
}

Tensor sigmoid(const Tensor& x) {
  recording::checked(x, "sigmoid");
  return recording::unary(ir::Op::logistic, recording::as_float(x));
}

Tensor log_sigmoid(const Tensor& x) {
  return activation(x, "log_sigmoid", [](Value v) { return ops::neg(softplus_of(ops::neg(v))); });
}

Tensor softplus(const Tensor& x) { return activation(x, "softplus", softplus_of); }

Tensor gelu(const Tensor& x, GeluForm form) {
  recording::checked(x, "gelu");
  return recording::built({recording::as_float(x)},
                          [&](const ir::Values& v) { return ops::gelu(v[0], form == GeluForm::tanh); });
}

Tensor silu(const Tensor& x) {
  return activation(x, "silu", [](Value v) { return ops::mul(v, ops::logistic(v)); });
}

Tensor mish(const Tensor& x) {
  return activation(x, "mish", [](Value v) { return ops::mul(v, ops::tanh(softplus_of(v))); });
}

Tensor hardsigmoid(const Tensor& x) {
  return activation(x, "hardsigmoid", [](Value v) {
    const Value line = plus(times(v, 1.0 / 6), 0.5);
    return pieces(v, -3, scalar_like(v, 0), line, 3, scalar_like(v, 1));
  });
}

Tensor hardswish(const Tensor& x) {
  return activation(x, "hardswish", [](Value v) {
    const Value line = plus(times(v, 1.0 / 6), 0.5);
    return pieces(v, -3, scalar_like(v, 0), ops::mul(v, line), 3, v);
  });
}

Tensor softsign(const Tensor& x) {
  return activation(x, "softsign", [](Value v) { return ops::div(v, plus(ops::abs(v), 1)); });
}

}  // namespace systole
