// gelu in both of its forms.

#include <cmath>
#include <numbers>

#include "ops/composites/common.h"
#include "ops/composites/definitions.h"

namespace systole::ops {

namespace {

Values build_gelu(Graph&, const Values& operands, const ir::AttrMap& attrs) {
  const Operands check(operands, 1);
  check.check_dtype(0, kFloats);
  const Value x = widen(operands[0]);

  Value twice_cdf;  // of the normal distribution at x
  if (ir::get_bool(attrs, "tanh_form")) {
    const Value cubic = add(x, times(mul(square(x), x), 0.044715));
    twice_cdf = plus(tanh(times(cubic, std::sqrt(2 / std::numbers::pi))), 1);
  } else {
    twice_cdf = plus(erf(times(x, std::numbers::sqrt2 / 2)), 1);
  }
  return {convert(mul(times(x, 0.5), twice_cdf), operands[0].dtype())};
}

}  // namespace

ir::CompositeDef gelu_def() {
  return {.name = "gelu",
          .semantics = "x/2 · (1 + erf(x/√2)); with `tanh_form` x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³)))",
          .tolerance = 8,
          .defaults = {{"tanh_form", false}},
          .build = build_gelu};
}

Value gelu(Value x, bool tanh_form) { return composite("gelu", {x}, {{"tanh_form", tanh_form}})[0]; }

}  // namespace systole::ops
