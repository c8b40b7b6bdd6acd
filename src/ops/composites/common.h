#pragma once

// What the composites share. A composite's build function may be called by the parser with any operands, so
// each one checks count, dtypes and shapes itself; the errors list all operand types. Bodies are made of
// primitives only: a composite that needs another one's formula calls its body function below.

#include <cstdint>
#include <string>
#include <string_view>

#include "ops/common.h"
#include "systole/base/error.h"
#include "systole/ir/composite.h"

namespace systole::ops {

// Adds the composite to the graph of its operands.
Values composite(std::string_view name, ValueList operands, ir::AttrMap attrs = {});

// The checks of a build function; the registry puts the composite's name before what they say.
class Operands {
 public:
  Operands(const Values& values, std::size_t wanted);

  [[noreturn]] void refuse(ErrorKind kind, std::string message, std::string expected = {}) const;
  void check_rank(std::size_t operand, int rank) const;
  void check_shape(std::size_t operand, const Shape& shape) const;
  void check_dtype(std::size_t operand, DTypeSet allowed) const;
  // A parameter or state that goes with operand 0: of its dtype or of the dtype it is computed in.
  void check_companion(std::size_t operand, const Shape& shape) const;
  // The number of a dimension that the body must know.
  std::int64_t static_size(std::size_t operand, int axis, std::string_view what) const;

 private:
  const Values& values_;
};

// softmax over one axis, in x's own dtype.
Value softmax_body(Value x, std::int64_t axis);

}  // namespace systole::ops
