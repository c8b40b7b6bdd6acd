#pragma once

// Op, the enum of primitives, and OpInfo, what ops.def says of each.

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "systole/base/dtype.h"
#include "systole/base/export.h"

namespace systole::ir {

enum class Op : std::uint8_t {
#define SYSTOLE_OP(name, ...) name,
#include "systole/ir/ops.def"
};

enum class OpClass : std::uint8_t {
  elementwise,
  movement,
  reduction,
  contraction,
  source,
  control,
  collective,
  opaque
};
enum class ResultRule : std::uint8_t { same, boolean, custom };

inline constexpr int kAnyNumber = 1 << 30;

struct OpInfo {
  Op op;
  std::string_view name;
  OpClass op_class;
  int least_operands, most_operands;
  DTypeSet dtypes;
  ResultRule result;
  double tolerance;
  std::string_view semantics;
};

SYSTOLE_API std::span<const OpInfo> all_ops();
SYSTOLE_API const OpInfo& info(Op op);
SYSTOLE_API std::optional<Op> find_op(std::string_view name);
SYSTOLE_API std::string_view name(OpClass op_class);
inline std::string_view name(Op op) { return info(op).name; }

}  // namespace systole::ir
