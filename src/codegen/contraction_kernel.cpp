// Products of matrices, and convolutions as such, tiled: an item is a block of rows by a block of columns of
// the result. The right factor's part is copied so that neighbouring columns are neighbours in memory; a few
// rows of sums are kept in registers. Work on the result follows while the tile is near.
//
// Sums are made in levels: registers sum a part of the depth, the tile a number of parts, and totals in
// double a number of those, where the depth has more.

#include <algorithm>

#include "codegen/contraction.h"
#include "codegen/long_sum.h"

namespace systole::codegen {

namespace {

constexpr std::int64_t kRows = 48, kColumns = 64, kDepth = kRun;
constexpr int kRegisterRows = 6;
constexpr std::int64_t kTileDepth = kRun * kDepth;  // that a tile sums

}  // namespace

Kernel contraction_kernel(const lower::Step& step, const std::string& name) {
  const ir::Graph& region = step.region.graph;
  Function function(step, name);
  const Product p = product_of(step, function);
  const DType dtype = region.node(step.region.anchor).types[0].dtype;
  if (region.node(step.region.anchor).op == ir::Op::dot_general && has_few_rows(p, dtype))
    return few_rows_kernel(step, function, p);
  Writer& w = function.writer();
  const std::string_view type = accumulator_type(dtype);
  const std::int64_t row_blocks = (p.rows + kRows - 1) / kRows,
                     column_blocks = (p.columns + kColumns - 1) / kColumns;
  w.open("for (s_i64 item = begin; item < end; ++item)");
  w.line(
      fmt::format("const s_i64 batch = item / {};", std::max<std::int64_t>(row_blocks * column_blocks, 1)));
  w.line(fmt::format("const s_i64 m0 = item / {} % {} * {};", std::max<std::int64_t>(column_blocks, 1),
                     std::max<std::int64_t>(row_blocks, 1), kRows));
  w.line(fmt::format("const s_i64 n0 = item % {} * {};", std::max<std::int64_t>(column_blocks, 1), kColumns));
  w.line(fmt::format("const s_i32 rows = (s_i32)({0} - m0 < {1} ? {0} - m0 : {1});", p.rows, kRows));
  w.line(fmt::format("const s_i32 columns = (s_i32)({0} - n0 < {1} ? {0} - n0 : {1});", p.columns, kColumns));
  w.line(fmt::format("{} tile[{}];", type, kRows * kColumns));
  w.line(fmt::format("for (s_i32 i = 0; i < {}; ++i) tile[i] = 0;", kRows * kColumns));
  const bool totals = is_float(dtype) && p.depth > kTileDepth;
  if (totals) w.line(fmt::format("double total[{}] = {{0}};", kRows * kColumns));
  if (p.depth > 0) {
    w.line(fmt::format("{} part[{}], few[{}];", type, kDepth * kColumns, kDepth * kRegisterRows));
    w.open(fmt::format("for (s_i64 k0 = 0; k0 < {}; k0 += {})", p.depth, kDepth));
    w.line(fmt::format("const s_i32 deep = (s_i32)({0} - k0 < {1} ? {0} - k0 : {1});", p.depth, kDepth));
    const char *const by_column = "for (s_i32 j = 0; j < columns; ++j)",
                      *const by_depth = "for (s_i32 k = 0; k < deep; ++k)";
    w.open(p.right_is_transposed ? by_column : by_depth);
    w.open(p.right_is_transposed ? by_depth : by_column);
    w.line("const s_i64 n = n0 + j, kk = k0 + k;");
    w.line(fmt::format("part[k * {} + j] = ({})({});", kColumns, type, p.right));
    w.close();
    w.close();
    w.line(fmt::format(
        "for (s_i32 k = 0; k < deep; ++k) for (s_i32 j = columns; j < {0}; ++j) part[k * {0} + j] = 0;",
        kColumns));
    w.open(fmt::format("for (s_i32 i0 = 0; i0 < rows; i0 += {})", kRegisterRows));
    w.open(fmt::format("for (s_i32 i = 0; i < {}; ++i)", kRegisterRows));
    w.line("const s_i64 row = m0 + (i0 + i < rows ? i0 + i : rows - 1);");
    p.prepare_row(w);
    w.open(by_depth);
    w.line("const s_i64 kk = k0 + k;");
    p.store_left(w, fmt::format("few[k * {} + i]", kRegisterRows));
    w.close();
    w.close();
    const char* const suffix = dtype == DType::f64   ? "f64"
                               : is_float(dtype)     ? "f32"
                               : size_of(dtype) == 8 ? "u64"
                                                     : "u32";
    w.line(fmt::format("s_multiply_{}(tile + i0 * {}, part, few, deep);", suffix, kColumns));
    w.close();
    if (totals)
      w.line(fmt::format(
          "if (k0 % {0} == {1}) for (s_i32 i = 0; i < {2}; ++i) total[i] += tile[i], tile[i] = 0;",
          kTileDepth, kTileDepth - kDepth, kRows * kColumns));
    w.close();
  }
  if (totals)
    w.line(fmt::format("for (s_i32 i = 0; i < {}; ++i) tile[i] = ({})(total[i] + tile[i]);", kRows * kColumns,
                       type));
  w.open("for (s_i32 i = 0; i < rows; ++i)");
  w.line("const s_i64 m = m0 + i;");
  w.line("S_INDEPENDENT");
  w.open("for (s_i32 j = 0; j < columns; ++j)");
  w.line("const s_i64 n = n0 + j;");
  if (!p.place.empty()) w.line(fmt::format("const s_i64 place = {};", p.place));
  function.elements().push();
  function.elements().define(
      {step.region.anchor, 0},
      function.elements().rounded(dtype, fmt::format("({})tile[i * {} + j]", c_type(dtype), kColumns)));
  std::vector<std::size_t> outputs;
  for (std::size_t i = 0; i < region.outputs().size(); ++i) outputs.push_back(i);
  function.store(outputs, std::vector<Index>(outputs.size(), p.point));
  function.elements().pop();
  w.close();
  w.close();
  w.close();
  const std::int64_t results = region.node(step.region.anchor).types[0].shape.count();
  return function.finish(results == 0 ? 0 : p.batches * row_blocks * column_blocks);
}

}  // namespace systole::codegen
