// Products of few rows, as inference for one sample has them: all time goes by reading the right factor once.
// Where its depth lies in a row, lanes are neighbours along the depth, each column has its sums in registers,
// and nothing is copied. An item is a few columns.

#include <algorithm>

#include "codegen/contraction.h"
#include "codegen/long_sum.h"

namespace systole::codegen {

namespace {

constexpr std::int64_t kMostRows = 4, kLanes = 16, kSums = 16;  // rows times columns at a time

}  // namespace

bool has_few_rows(const Product& p, DType dtype) {
  return dtype == DType::f32 && p.rows > 0 && p.rows <= kMostRows && p.right_is_transposed &&
         !(p.left_is_transposed && p.rows > 1) && p.depth >= 2 * kLanes && p.depth <= kRun * kLanes;
}

Kernel few_rows_kernel(const lower::Step& step, Function& function, const Product& p) {
  const ir::Graph& region = step.region.graph;
  Writer& w = function.writer();
  std::int64_t block = kSums / p.rows >= 8 ? 8 : 4;
  while (p.columns % block != 0) block /= 2;
  const std::int64_t blocks = p.columns / block, whole = p.depth / kLanes * kLanes;
  w.open("for (s_i64 item = begin; item < end; ++item)");
  w.line(fmt::format("const s_i64 batch = item / {};", blocks));
  w.line(fmt::format("const s_i64 n0 = item % {} * {};", blocks, block));
  w.line(fmt::format("float sums[{}] = {{0}};", p.rows * block * kLanes));
  const auto multiply = [&](const std::string& depth, const std::string& lane, bool in_lanes) {
    for (std::int64_t r = 0; r < p.rows; ++r)
      for (std::int64_t c = 0; c < block; ++c) {
        w.open("");
        w.line(fmt::format("const s_i64 row = {}, n = n0 + {};", r, c));
        p.prepare_row(w);
        if (in_lanes) w.open(fmt::format("for (s_i32 l = 0; l < {}; ++l)", kLanes));
        w.line(fmt::format("const s_i64 kk = {};", depth));
        w.line("float left;");
        p.store_left(w, "left");
        w.line(fmt::format("sums[{} + {}] += left * ({});", (r * block + c) * kLanes, lane, p.right));
        if (in_lanes) w.close();
        w.close();
      }
  };
  w.open(fmt::format("for (s_i64 k0 = 0; k0 < {}; k0 += {})", whole, kLanes));
  multiply("k0 + l", "l", true);
  w.close();
  if (whole < p.depth) {
    w.open(fmt::format("for (s_i64 k0 = {}; k0 < {}; ++k0)", whole, p.depth));
    multiply("k0", fmt::format("k0 - {}", whole), false);
    w.close();
  }
  // The lanes' sums come together by halves, in vectors: compilers take the elements one by one otherwise.
  for (const int n : {16, 8, 4, 2})
    w.line(fmt::format("typedef float s_lanes{0} __attribute__((vector_size({1})));", n, 4 * n));
  w.open(fmt::format("for (s_i32 i = 0; i < {}; ++i)", p.rows * block));
  w.line(fmt::format("s_lanes16 v16;\n__builtin_memcpy(&v16, sums + i * {}, sizeof v16);", kLanes));
  for (int n = 8; n > 1; n /= 2) {
    std::string low, high;
    for (int l = 0; l < n; ++l) {
      low += fmt::format(", {}", l);
      high += fmt::format(", {}", l + n);
    }
    w.line(
        fmt::format("const s_lanes{0} v{0} = __builtin_shufflevector(v{1}, v{1}{2}) + "
                    "__builtin_shufflevector(v{1}, v{1}{3});",
                    n, 2 * n, low, high));
  }
  w.line(fmt::format("sums[i * {}] = v2[0] + v2[1];", kLanes));
  w.close();
  w.open(fmt::format("for (s_i64 m = 0; m < {}; ++m)", p.rows));
  w.open(fmt::format("for (s_i32 j = 0; j < {}; ++j)", block));
  w.line("const s_i64 n = n0 + j;");
  if (!p.place.empty()) w.line(fmt::format("const s_i64 place = {};", p.place));
  function.elements().push();
  function.elements().define({step.region.anchor, 0}, fmt::format("sums[(m * {} + j) * {}]", block, kLanes));
  std::vector<std::size_t> outputs;
  for (std::size_t i = 0; i < region.outputs().size(); ++i) outputs.push_back(i);
  function.store(outputs, std::vector<Index>(outputs.size(), p.point));
  function.elements().pop();
  w.close();
  w.close();
  w.close();
  return function.finish(p.batches * blocks);
}

}  // namespace systole::codegen
