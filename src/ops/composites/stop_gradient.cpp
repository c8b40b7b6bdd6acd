// The identity, which derivatives treat as a constant: they know it by its name.

#include "ops/composites/common.h"
#include "ops/composites/definitions.h"

namespace systole::ops {

namespace {

Values build_stop_gradient(Graph&, const Values& operands, const ir::AttrMap&) {
  const Operands check(operands, 1);
  return operands;
}

}  // namespace

ir::CompositeDef stop_gradient_def() {
  return {.name = std::string(ir::kStopGradient),
          .semantics = "x; a constant to derivatives",
          .tolerance = 0,
          .dtypes = kAnyDType,
          .build = build_stop_gradient};
}

Value stop_gradient(Value x) { return composite(ir::kStopGradient, {x})[0]; }

}  // namespace systole::ops
