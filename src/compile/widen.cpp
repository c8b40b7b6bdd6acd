#include "compile/widen.h"

#include <optional>

#include "systole/ir/rewriter.h"
#include "systole/ops.h"

namespace systole::lower {

ir::Graph widened(const ir::Graph& graph) {
  return ir::rewrite(graph, [](const ir::Rewrite& r) -> std::optional<ir::Values> {
    if (r.node.op != ir::Op::scatter) return std::nullopt;
    const auto& attrs = r.node.as<ir::ScatterAttrs>();
    const DType dtype = r.node.types[0].dtype;
    const bool adds_up = attrs.combine == ir::Combine::sum || attrs.combine == ir::Combine::prod;
    if (!adds_up || attrs.unique || !is_float(dtype) || size_of(dtype) >= 4) return std::nullopt;
    const ir::Value wide = ops::scatter(ops::convert(r.operands[0], DType::f32), r.operands[1],
                                        ops::convert(r.operands[2], DType::f32), attrs);
    return ir::Values{ops::convert(wide, dtype)};
  });
}

}  // namespace systole::lower
