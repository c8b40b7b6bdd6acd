// Small products on tensor cores, for CUDA: a warp has a tile of the result, one or four of 16 rows and 8
// columns, in registers, and multiplies what it reads straight from memory. Where there are fewer tiles than
// a device has room for, the warps of a group share out the depth of one tile and add up in local memory:
// what counts here is how long one waits for memory, not how often it is read. f32 is rounded to tf32 on its
// way in, which who asks has allowed; of short sums what that takes away is multiplied too.

#include <algorithm>

#include "codegen/contraction.h"
#include "codegen/simt.h"

namespace systole::codegen {

namespace {

constexpr std::int64_t kHigh = 16, kWide = 8, kDeep = 16;  // of what is multiplied at once, and read at once
constexpr std::int64_t kWarps = 8;                         // of a group
constexpr std::int64_t kWarpsWanted = 1024;                // that a device has room for at once
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
    const std::int64_t most = tiles(product_.depth, kDeep);
    // Larger tiles read less, if there are enough of them.
    if (count(2) * std::min(most, kWarps) >= kWarpsWanted) side_ = 2;
    const std::int64_t all = count(side_);
    while (parts_ < kWarps && 2 * parts_ <= most && all * parts_ < kWarpsWanted) parts_ *= 2;
    // Groups of few warps spread over the device.
    warps_ = std::max(parts_, std::min<std::int64_t>(kWarps, std::max<std::int64_t>(all * parts_ / 128, 2)));
    while (warps_ % parts_ != 0) ++warps_;
    beside_ = warps_ / parts_;
    function_.set_threads(static_cast<int>(32 * warps_));
  }

  Kernel make() {
    const Product& p = product_;
    const std::int64_t rows = tiles(p.rows, high()), columns = tiles(p.columns, wide() * beside_);
    const std::int64_t items = p.rows * p.columns == 0 ? 0 : p.batches * rows * columns;
    w_.line("const s_i32 warp = S_LANE / 32, down = S_LANE % 32 / 4, across = S_LANE % 4;");
    w_.line(fmt::format("const s_i32 part = warp % {0}, tile = warp / {0};", parts_));
    if (parts_ > 1) function_.declare(fmt::format("S_LOCAL float partial[{}];", warps_ * size()));
    w_.open(fmt::format("for (s_index item = S_GROUP; item < {}; item += S_GROUPS)", items));
    w_.line(fmt::format("const s_index batch = item / {};", rows * columns));
    w_.line(fmt::format("const s_index m0 = item / {} % {} * {};", columns, rows, high()));
    w_.line(fmt::format("const s_index first = item % {} * {};", columns, wide() * beside_));
    w_.line(fmt::format("const s_index n0 = first + tile * {};", wide()));
    w_.line(fmt::format("float sum[{}] = {{}};", 4 * side_ * side_));
    multiply();
    if (parts_ > 1)
      store_sums();
    else
      store_registers();
    w_.close();
    return function_.finish_groups(std::min(items, kMostGroups));
  }

 private:
  std::int64_t high() const { return side_ * kHigh; }
  std::int64_t wide() const { return side_ * kWide; }
  std::int64_t size() const { return high() * wide(); }
  std::int64_t count(std::int64_t side) const {  // of tiles
    return product_.batches * tiles(product_.rows, side * kHigh) * tiles(product_.columns, side * kWide);
  }

  // A thread has four neighbours of the depth for two rows and a column of each tile; which of them meet does
  // not matter, as long as both factors have them in the same order.
  void multiply() {
    const Product& p = product_;
    w_.line("S_UNROLL_SOME");
    w_.open(fmt::format("for (s_index k0 = part * {}; k0 < {}; k0 += {})", kDeep, p.depth, kDeep * parts_));
    w_.line(fmt::format("float a[{}], b[{}];", 8 * side_, 4 * side_));
    for (std::int64_t eight = 0; eight < 2 * side_; ++eight) {
      w_.open("");
      w_.line(fmt::format("const s_index row = m0 + down + {};", 8 * eight));
      if (reads_fours(p.left_run)) {
        read_four(*p.left_run, p.rows % high() != 0 ? fmt::format("row < {}", p.rows) : std::string());
      } else {
        open_four();
        w_.open(fmt::format("if (row < {} && kk < {})", p.rows, p.depth));
        p.prepare_row(w_);
        p.store_left(w_, "four[j]");
        w_.close();
        w_.close();
      }
      spread_four(fmt::format("a[{} + 2 * j]", eight / 2 * 8 + eight % 2));
    }
    for (std::int64_t eight = 0; eight < side_; ++eight) {
      w_.open("");
      w_.line(fmt::format("const s_index n = n0 + down + {};", 8 * eight));
      if (reads_fours(p.right_run)) {
        read_four(*p.right_run,
                  p.columns % (wide() * beside_) != 0 ? fmt::format("n < {}", p.columns) : std::string());
      } else {
        open_four();
        w_.line(fmt::format("if (n < {} && kk < {}) four[j] = {};", p.columns, p.depth, p.right));
        w_.close();
      }
      spread_four(fmt::format("b[{} + j]", 4 * eight));
    }
    const char* const multiply = p.depth <= kExactDepth ? "s_multiply_near_f32" : "s_multiply_tf32";
    for (std::int64_t i = 0; i < side_; ++i)
      for (std::int64_t j = 0; j < side_; ++j)
        for (std::int64_t half = 0; half < 2; ++half)
          w_.line(fmt::format("{}(sum + {}, a + {}, b + {});", multiply, 4 * (i * side_ + j),
                              8 * i + 4 * half, 4 * j + 2 * half));
    w_.close();
  }

  // Four neighbours of the depth at once, where they are neighbours in memory.
  bool reads_fours(const std::optional<Product::Run>& run) const {
    return run.has_value() && product_.depth % kDeep == 0;
  }
  void read_four(const Product::Run& run, const std::string& condition) {
    w_.line("const s_index kk = k0 + 4 * across;");
    w_.line("float four[4] = {};");
    w_.line(fmt::format("{}{}(four, in{} + {});", condition.empty() ? "" : fmt::format("if ({}) ", condition),
                        load_function(step_, run.input, 4), run.input, run.place));
  }
  void open_four() {
    w_.line("float four[4] = {};");
    w_.line("S_UNROLL");
    w_.open("for (s_i32 j = 0; j < 4; ++j)");
    w_.line("const s_index kk = k0 + 4 * across + j;");
  }
  void spread_four(const std::string& to) {
    w_.line("S_UNROLL");
    w_.line(fmt::format("for (s_i32 j = 0; j < 4; ++j) {} = four[j];", to));
    w_.close();
  }

  // Row and column, in the warp's tile, of its thread's sum i.
  std::string row_of_sum() const { return fmt::format("i / {} * 16 + down + i % 4 / 2 * 8", 4 * side_); }
  std::string column_of_sum() const { return fmt::format("i / 4 % {} * 8 + 2 * across + i % 2", side_); }

  void store_sums() {
    w_.line("S_UNROLL");
    w_.line(fmt::format("for (s_i32 i = 0; i < {}; ++i) partial[warp * {} + ({}) * {} + {}] = sum[i];",
                        4 * side_ * side_, size(), row_of_sum(), wide(), column_of_sum()));
    w_.line("S_BARRIER;");
    const std::int64_t threads = 32 * warps_, all = size() * beside_;
    store_results(
        step_, function_, product_,
        {.count = tiles(all, threads),
         .place =
             [&](Writer& w) {
               w.line(all <= threads ? "const s_i32 e = S_LANE;"
                                     : fmt::format("const s_i32 e = S_LANE + i * {};", threads));
               w.line(fmt::format("const s_i32 place_in = e % {};", size()));
               w.line(fmt::format("const s_index m = m0 + place_in / {};", wide()));
               w.line(fmt::format("const s_index n = first + e / {} * {} + place_in % {};", size(), wide(),
                                  wide()));
             },
         .value =
             [&](Writer& w) {
               w.line("float value = 0;");
               w.line("S_UNROLL");
               w.line(fmt::format(
                   "for (s_i32 p = 0; p < {}; ++p) value += partial[(e / {} * {} + p) * {} + place_in];",
                   parts_, size(), parts_, size()));
             },
         .condition = all % threads == 0 ? "" : fmt::format("e < {}", all)});
    w_.line("S_BARRIER;");
  }

  void store_registers() {
    store_results(step_, function_, product_,
                  {.count = 4 * side_ * side_,
                   .place =
                       [&](Writer& w) {
                         w.line(fmt::format("const s_index m = m0 + {};", row_of_sum()));
                         w.line(fmt::format("const s_index n = n0 + {};", column_of_sum()));
                       },
                   .value = [](Writer& w) { w.line("const float value = sum[i];"); }});
  }

  const lower::Step& step_;
  Function function_;
  Writer& w_;
  const Product product_;
  std::int64_t side_ = 1;    // of a warp's tile, in what is multiplied at once
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
