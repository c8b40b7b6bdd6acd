// embedding: rows of a table by index.

#include "ops/composites/common.h"
#include "ops/composites/definitions.h"

namespace systole::ops {

namespace {

Values build_embedding(Graph&, const Values& operands, const ir::AttrMap&) {
  const Operands check(operands, 2);
  check.check_rank(0, 2);
  check.check_dtype(1, kInts);
  return {take(operands[0], operands[1], 0)};
}

}  // namespace

ir::CompositeDef embedding_def() {
  return {
      .name = "embedding",
      .semantics =
          "embedding(table, indices): row indices[…] of table [vocabulary, width]; indices are clamped to "
          "the rows",
      .tolerance = 0,
      .dtypes = kAnyDType,
      .build = build_embedding};
}

Value embedding(Value table, Value indices) { return composite("embedding", {table, indices})[0]; }

}  // namespace systole::ops
