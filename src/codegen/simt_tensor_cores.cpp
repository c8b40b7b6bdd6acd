// Small products on tensor cores, for CUDA: a warp has 16 rows and 8 columns of the result, in registers, and
// multiplies what it reads straight from memory. Where there are fewer tiles than a device has room for, the
// warps of a group share out the depth of one tile and add up in local memory: what counts here is how long
// one waits for memory, not how often it is read. f32 is rounded to tf32 on its way in, which who asks has
// allowed; of short sums what that takes away is multiplied too.

#include <algorithm>

#include "codegen/contraction.h"
#include "codegen/simt.h"

namespace systole::codegen {

namespace {

constexpr std::int64_t kHigh = 16, kWide = 8,
                       kDeep = 16;           // of a warp's tile, and what it reads of the depth at once
constexpr std::int64_t kWarps = 8;           // of a group
constexpr std::int64_t kWarpsWanted = 1024;  // that a device has room for at once
constexpr std::int64_t kMostGroups = 65536;
constexpr std::int64_t kExactDepth = 128;  // up to which tensor cores have time to be nearly as exact as f32

std::int64_t tiles(std::int64_t n, std::int64_t size) {
  return std::max<std::int64_t>((n + size - 1) / size, 1);
}

class TensorCoreContraction {
 public:
  TensorCoreContraction(const lower::Step& step, const std::string& name)
      : step_(step),
        function_(step, name, Dialect::cuda, static_cast<int>(32 * kWarps)),
        w_(function_.writer()),
        product_(product_of(step, function_)) {
    const std::int64_t all = product_.batches * tiles(product_.rows, kHigh) * tiles(product_.columns, kWide),
                       most = tiles(product_.depth, kDeep);
    while (parts_ < kWarps && 2 * parts_ <= most && all * parts_ < kWarpsWanted) parts_ *= 2;
    // Groups of few warps spread over the device.
    warps_ = std::max(parts_, std::min<std::int64_t>(kWarps, std::max<std::int64_t>(all * parts_ / 128, 2)));
    while (warps_ % parts_ != 0) ++warps_;
    beside_ = warps_ / parts_;
    function_.set_threads(static_cast<int>(32 * warps_));
  }

  Kernel make() {
    const Product& p = product_;
    const std::int64_t rows = tiles(p.rows, kHigh), columns = tiles(p.columns, kWide * beside_);
    const std::int64_t items = p.rows * p.columns == 0 ? 0 : p.batches * rows * columns;
    w_.line("const s_i32 warp = S_LANE / 32, down = S_LANE % 32 / 4, across = S_LANE % 4;");
    w_.line(fmt::format("const s_i32 part = warp % {0}, tile = warp / {0};", parts_));
    if (parts_ > 1) function_.declare(fmt::format("S_LOCAL float partial[{}];", warps_ * kHigh * kWide));
    w_.open(fmt::format("for (s_index item = S_GROUP; item < {}; item += S_GROUPS)", items));
    w_.line(fmt::format("const s_index batch = item / {};", rows * columns));
    w_.line(fmt::format("const s_index m0 = item / {} % {} * {};", columns, rows, kHigh));
    w_.line(fmt::format("const s_index first = item % {} * {};", columns, kWide * beside_));
    w_.line(fmt::format("const s_index n0 = first + tile * {};", kWide));
    w_.line("float sum[4] = {0, 0, 0, 0};");
    multiply();
    if (parts_ > 1)
      store_sums();
    else
      store_registers();
    w_.close();
    return function_.finish_groups(std::min(items, kMostGroups));
  }

 private:
  // A thread has four neighbours of the depth for two rows and a column; which of them meet does not matter,
  // as long as both factors have them in the same order.
  void multiply() {
    const Product& p = product_;
    w_.line("S_UNROLL_SOME");
    w_.open(fmt::format("for (s_index k0 = part * {}; k0 < {}; k0 += {})", kDeep, p.depth, kDeep * parts_));
    w_.line("float a[8], b[4];");
    w_.line("S_UNROLL");
    w_.open("for (s_i32 j = 0; j < 4; ++j)");
    w_.line("const s_index kk = k0 + 4 * across + j;");
    for (int half = 0; half < 2; ++half) {
      w_.open("");
      w_.line(fmt::format("const s_index row = m0 + down + {};", 8 * half));
      w_.line("float v = 0;");
      w_.open(fmt::format("if (row < {} && kk < {})", p.rows, p.depth));
      p.prepare_row(w_);
      p.store_left(w_, "v");
      w_.close();
      w_.line(fmt::format("a[2 * j + {}] = v;", half));
      w_.close();
    }
    w_.line("const s_index n = n0 + down;");
    w_.line(fmt::format("b[j] = n < {} && kk < {} ? (float)({}) : 0;", p.columns, p.depth, p.right));
    w_.close();
    const char* const multiply = p.depth <= kExactDepth ? "s_multiply_near_f32" : "s_multiply_tf32";
    w_.line(fmt::format("{}(sum, a, b);", multiply));
    w_.line(fmt::format("{}(sum, a + 4, b + 2);", multiply));
    w_.close();
  }

  void store_sums() {
    const std::int64_t size = kHigh * kWide;
    w_.line("S_UNROLL");
    w_.line(fmt::format(
        "for (s_i32 i = 0; i < 4; ++i) partial[warp * {} + (down + i / 2 * 8) * {} + 2 * across + "
        "i % 2] = sum[i];",
        size, kWide));
    w_.line("S_BARRIER;");
    w_.open(fmt::format("for (s_i32 e = S_LANE; e < {}; e += {})", size * beside_, 32 * warps_));
    w_.line(fmt::format("const s_i32 place_in = e % {};", size));
    w_.line("float value = 0;");
    w_.line("S_UNROLL");
    w_.line(fmt::format("for (s_i32 i = 0; i < {}; ++i) value += partial[(e / {} * {} + i) * {} + place_in];",
                        parts_, size, parts_, size));
    w_.line(fmt::format("const s_index m = m0 + place_in / {};", kWide));
    w_.line(fmt::format("const s_index n = first + e / {} * {} + place_in % {};", size, kWide, kWide));
    store_result(step_, function_, product_, "value");
    w_.close();
    w_.line("S_BARRIER;");
  }

  void store_registers() {
    w_.line("S_UNROLL");
    w_.open("for (s_i32 i = 0; i < 4; ++i)");
    w_.line("const s_index m = m0 + down + i / 2 * 8;");
    w_.line("const s_index n = n0 + 2 * across + i % 2;");
    store_result(step_, function_, product_, "sum[i]");
    w_.close();
  }

  const lower::Step& step_;
  Function function_;
  Writer& w_;
  const Product product_;
  std::int64_t parts_ = 1;   // of the depth, a warp each
  std::int64_t warps_ = 8;   // of a group
  std::int64_t beside_ = 1;  // tiles of a group
};

}  // namespace

bool fits_tensor_cores(const lower::Step& step) {
  const ir::Graph& region = step.region.graph;
  const ir::Node& node = region.node(step.region.anchor);
  return node.op == ir::Op::dot_general && node.types[0].dtype == DType::f32 &&
         region.type(node.operands[0]).dtype == DType::f32 &&
         region.type(node.operands[1]).dtype == DType::f32;
}

Kernel simt_tensor_core_kernel(const lower::Step& step, const std::string& name) {
  return TensorCoreContraction(step, name).make();
}

}  // namespace systole::codegen
