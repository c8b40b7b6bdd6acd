// Optimiser updates with the formulas of torch.optim. The small floats are updated in f32 and rounded once;
// gradients, moments and the scalar operands may have the parameter's dtype or that one.

#include <cmath>
#include <utility>

#include "ops/composites/common.h"
#include "ops/composites/definitions.h"

namespace systole::ops {

namespace {

// The operands in the dtype of the computation: `tensors` of the parameter's shape, then scalars.
Values update_operands(const Operands& check, const Values& operands, std::size_t tensors) {
  check.check_dtype(0, kFloats);
  Values wide;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    check.check_companion(i, i < tensors ? operands[0].shape() : Shape{});
    wide.push_back(widen(operands[i]));
  }
  return wide;
}

// a + factor · b
Value plus_scaled(Value a, double factor, Value b) { return factor == 0 ? a : add(a, times(b, factor)); }

Values build_sgd_update(Graph&, const Values& operands, const ir::AttrMap& attrs) {
  const Operands check(operands, 3);
  const Values in = update_operands(check, operands, 2);
  const Value parameter = in[0], lr = in[2];
  const Value grad = plus_scaled(in[1], ir::get_double(attrs, "weight_decay"), parameter);
  return {convert(sub(parameter, mul(lr, grad)), operands[0].dtype())};
}

Values build_momentum_update(Graph&, const Values& operands, const ir::AttrMap& attrs) {
  const Operands check(operands, 4);
  const Values in = update_operands(check, operands, 3);
  const Value parameter = in[0], lr = in[3];
  const double momentum = ir::get_double(attrs, "momentum");
  const Value grad = plus_scaled(in[1], ir::get_double(attrs, "weight_decay"), parameter);
  const Value velocity = plus_scaled(grad, momentum, in[2]);
  const Value direction = ir::get_bool(attrs, "nesterov") ? plus_scaled(grad, momentum, velocity) : velocity;
  return {convert(sub(parameter, mul(lr, direction)), operands[0].dtype()),
          convert(velocity, operands[2].dtype())};
}

// 1 - beta^step. Through expm1, since for beta near 1 the rounding of beta^step to f32 would leave a few
// digits only.
Value bias_correction(double beta, Value step) { return neg(expm1(times(step, std::log(beta)))); }

Values build_adam(bool decoupled, const Values& operands, const ir::AttrMap& attrs) {
  const Operands check(operands, 6);
  const double beta1 = ir::get_double(attrs, "beta1"), beta2 = ir::get_double(attrs, "beta2");
  if (!(beta1 >= 0 && beta1 < 1 && beta2 >= 0 && beta2 < 1))
    check.refuse(ErrorKind::kInvalidArgument, "beta1 and beta2", "in [0, 1)");
  const Values in = update_operands(check, operands, 4);
  const double weight_decay = ir::get_double(attrs, "weight_decay");
  Value parameter = in[0], grad = in[1];
  const Value lr = in[4], step = in[5];
  if (decoupled && weight_decay != 0) {
    parameter = mul(parameter, plus(times(lr, -weight_decay), 1));
  } else {
    grad = plus_scaled(grad, weight_decay, parameter);
  }
  const Value m = plus_scaled(times(in[2], beta1), 1 - beta1, grad);
  const Value decayed_v = times(in[3], beta2);
  const Value v = plus_scaled(decayed_v, 1 - beta2, square(grad));
  const Value step_size = div(lr, bias_correction(beta1, step));
  const Value correction2 = sqrt(bias_correction(beta2, step));
  const Value deviation = div(sqrt(v), correction2);
  const Value change = div(m, plus(deviation, ir::get_double(attrs, "eps")));
  return {convert(sub(parameter, mul(step_size, change)), operands[0].dtype()),
          convert(m, operands[2].dtype()), convert(v, operands[3].dtype())};
}

ir::AttrMap adam_attrs(double beta1, double beta2, double eps, double weight_decay) {
  return {{"beta1", beta1}, {"beta2", beta2}, {"eps", eps}, {"weight_decay", weight_decay}};
}

}  // namespace

ir::CompositeDef sgd_update_def() {
  return {.name = "sgd_update",
          .semantics = "sgd_update(parameter, grad, lr): parameter - lr · (grad + weight_decay · parameter)",
          .tolerance = 4,
          .defaults = {{"weight_decay", 0.0}},
          .build = build_sgd_update};
}

ir::CompositeDef momentum_update_def() {
  return {
      .name = "momentum_update",
      .semantics =
          "momentum_update(parameter, grad, velocity, lr): g = grad + weight_decay · parameter, velocity = "
          "momentum · velocity + g, parameter - lr · velocity (nesterov: lr · (g + momentum · velocity)); "
          "parameter, velocity",
      .tolerance = 4,
      .defaults = {{"momentum", 0.9}, {"weight_decay", 0.0}, {"nesterov", false}},
      .build = build_momentum_update};
}

ir::CompositeDef adam_update_def() {
  return {.name = "adam_update",
          .semantics =
              "adam_update(parameter, grad, m, v, lr, step): Adam with weight decay added to the gradient; "
              "step counts from 1; parameter, m, v",
          .tolerance = 16,
          .defaults = adam_attrs(0.9, 0.999, 1e-8, 0),
          .build = [](Graph&, const Values& operands, const ir::AttrMap& attrs) {
            return build_adam(false, operands, attrs);
          }};
}

ir::CompositeDef adamw_update_def() {
  return {
      .name = "adamw_update",
      .semantics =
          "adamw_update(parameter, grad, m, v, lr, step): the parameter times 1 - lr · weight_decay, then "
          "Adam; step counts from 1; parameter, m, v",
      .tolerance = 16,
      .defaults = adam_attrs(0.9, 0.999, 1e-8, 0.01),
      .build = [](Graph&, const Values& operands, const ir::AttrMap& attrs) {
        return build_adam(true, operands, attrs);
      }};
}

Value sgd_update(Value parameter, Value grad, Value lr, double weight_decay) {
  return composite("sgd_update", {parameter, grad, lr}, {{"weight_decay", weight_decay}})[0];
}

MomentumResult momentum_update(Value parameter, Value grad, Value velocity, Value lr, double momentum,
                               double weight_decay, bool nesterov) {
  const Values r =
      composite("momentum_update", {parameter, grad, velocity, lr},
                {{"momentum", momentum}, {"weight_decay", weight_decay}, {"nesterov", nesterov}});
  return {r[0], r[1]};
}

AdamResult adam_update(Value parameter, Value grad, Value m, Value v, Value lr, Value step, double beta1,
                       double beta2, double eps, double weight_decay) {
  const Values r = composite("adam_update", {parameter, grad, m, v, lr, step},
                             adam_attrs(beta1, beta2, eps, weight_decay));
  return {r[0], r[1], r[2]};
}

AdamResult adamw_update(Value parameter, Value grad, Value m, Value v, Value lr, Value step, double beta1,
                        double beta2, double eps, double weight_decay) {
  const Values r = composite("adamw_update", {parameter, grad, m, v, lr, step},
                             adam_attrs(beta1, beta2, eps, weight_decay));
  return {r[0], r[1], r[2]};
}

}  // namespace systole::ops
