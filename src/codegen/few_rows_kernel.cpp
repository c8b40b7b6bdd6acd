// Products of few rows, as inference for one sample has them: all time goes by reading the right factor once.
// Where its depth lies in a row, lanes are neighbours along the depth, each column has its sums in registers,
// and nothing is copied. An item is a few columns.

#include <algorithm>

#include "codegen/contraction.h"
#include "codegen/long_sum.h"

namespace systole::codegen {

namespace {

constexpr std::int64_t kMostRows = 4, kLanes = 16;

}  // namespace

bool has_few_rows(const Product& p, DType dtype) {
  return dtype == DType::f32 && p.rows > 0 && p.rows <= kMostRows && p.right_is_transposed &&
         !(p.left_is_transposed && p.rows > 1) && p.depth >= 2 * kLanes && p.depth <= kRun * kLanes;
}

Kernel few_rows_kernel(const lower::Step& step, Function& function, const Product& p) {
  const ir::Graph& region = step.region.graph;
  Writer& w = function.writer();
  // Columns at a time: AVX2 has registers for no more sums beside the factors, and with AVX-512 more are no
  // faster, since the cache sets the pace.
  std::int64_t block = p.rows <= 2 ? 4 : 2;
  while (p.columns % block != 0) block /= 2;
  const std::int64_t blocks = p.columns / block, whole = p.depth / kLanes * kLanes;
  for (const int n : {16, 8, 4, 2})
    w.line(fmt::format("typedef float s_lanes{0} __attribute__((vector_size({1})));", n, 4 * n));
  w.open("for (s_i64 item = begin; item < end; ++item)");
  w.line(fmt::format("const s_i64 batch = item / {};", blocks));
  w.line(fmt::format("const s_i64 n0 = item % {} * {};", blocks, block));
  const std::int64_t count = p.rows * block;
  // Vectors by name: of an array of sums compilers keep halves, and put them together at every step.
  for (std::int64_t i = 0; i < count; ++i) w.line(fmt::format("s_lanes16 sum{} = {{0}};", i));
  // A vector of elements of the depth from k0 on; further lanes are 0.
  const auto load = [&](const std::string& name, std::int64_t lanes, const auto& before,
                        const auto& element) {
    w.line(fmt::format("s_lanes16 {};", name));
    w.open("");
    before();
    w.line(fmt::format("float lanes[{}]{};", kLanes, lanes < kLanes ? " = {0}" : ""));
    w.open(fmt::format("for (s_i32 l = 0; l < {}; ++l)", lanes));
    w.line("const s_i64 kk = k0 + l;");
    element();
    w.close();
    w.line(fmt::format("__builtin_memcpy(&{}, lanes, sizeof lanes);", name));
    w.close();
  };
  const auto multiply = [&](std::int64_t lanes) {
    for (std::int64_t r = 0; r < p.rows; ++r) {
      const auto row = [&] {
        w.line(fmt::format("const s_i64 row = {};", r));
        p.prepare_row(w);
      };
      load(fmt::format("left{}", r), lanes, row, [&] {
        w.line("float left;");
        p.store_left(w, "left");
        w.line("lanes[l] = left;");
      });
    }
    for (std::int64_t c = 0; c < block; ++c) {
      w.open("");
      w.line(fmt::format("const s_i64 n = n0 + {};", c));
      load("right", lanes, [] {}, [&] { w.line(fmt::format("lanes[l] = {};", p.right)); });
      for (std::int64_t r = 0; r < p.rows; ++r)
        w.line(fmt::format("sum{} += left{} * right;", r * block + c, r));
      w.close();
    }
  };
  w.open(fmt::format("for (s_i64 k0 = 0; k0 < {}; k0 += {})", whole, kLanes));
  w.line("S_FUSED");
  multiply(kLanes);
  w.close();
  if (whole < p.depth) {
    w.open("");
    w.line("S_FUSED");
    w.line(fmt::format("const s_i64 k0 = {};", whole));
    multiply(p.depth - whole);
    w.close();
  }
  // The lanes' sums come together by halves, in vectors: compilers take the elements one by one otherwise.
  w.line(fmt::format("float sums[{}];", count));
  for (std::int64_t i = 0; i < count; ++i) {
    w.open("");
    w.line(fmt::format("const s_lanes16 v16 = sum{};", i));
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
    w.line(fmt::format("sums[{}] = v2[0] + v2[1];", i));
    w.close();
  }
  w.open(fmt::format("for (s_i64 m = 0; m < {}; ++m)", p.rows));
  w.open(fmt::format("for (s_i32 j = 0; j < {}; ++j)", block));
  w.line("const s_i64 n = n0 + j;");
  if (!p.place.empty()) w.line(fmt::format("const s_i64 place = {};", p.place));
  function.elements().push();
  function.elements().define({step.region.anchor, 0}, fmt::format("sums[m * {} + j]", block));
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
