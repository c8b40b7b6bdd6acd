#include "systole/ir/op.h"

#include <unordered_map>

#include "base/lasting.h"

namespace systole::ir {

namespace {

constexpr OpInfo kOps[] = {
#define SYSTOLE_OP(name, op_class, least, most, Attrs, dtypes, result, tolerance, semantics) \
  {Op::name, #name, OpClass::op_class, least, most, dtypes, ResultRule::result, tolerance, semantics},
#include "systole/ir/ops.def"
};

}  // namespace

std::span<const OpInfo> all_ops() { return kOps; }

const OpInfo& info(Op op) { return kOps[static_cast<std::size_t>(op)]; }

std::optional<Op> find_op(std::string_view name) {
  using Names = std::unordered_map<std::string_view, Op>;
  static const Names& by_name = lasting<Names>([] {
    Names map;
    for (const OpInfo& op : kOps) map.emplace(op.name, op.op);
    return map;
  }());
  const auto it = by_name.find(name);
  return it == by_name.end() ? std::nullopt : std::optional(it->second);
}

std::string_view name(OpClass op_class) {
  switch (op_class) {
    case OpClass::elementwise: return "elementwise";
    case OpClass::movement: return "movement";
    case OpClass::reduction: return "reduction";
    case OpClass::contraction: return "contraction";
    case OpClass::source: return "source";
    case OpClass::control: return "control";
    case OpClass::collective: return "collective";
    case OpClass::opaque: return "opaque";
  }
  return "";
}

}  // namespace systole::ir
