// Products of matrices, and convolutions as such. A group of threads has a tile of the result, every thread a
// few rows and columns of it in registers; parts of both factors pass through the group's local memory. Work
// on the result follows before it is stored. Long sums are made of runs that go to totals.

#include <algorithm>

#include "codegen/contraction.h"
#include "codegen/long_sum.h"
#include "codegen/simt.h"

namespace systole::codegen {

namespace {

constexpr std::int64_t kSide = 16;   // threads of a group along the rows, and along the columns
constexpr std::int64_t kDepth = 16;  // of the parts in local memory, at least
constexpr std::int64_t kMostLocalBytes = 20 * 1024;  // of these parts, where a tile is small
constexpr std::int64_t kFewTiles = 64;               // fewer leave a device idle
constexpr std::int64_t kMostTileGroups = 65536;

// Rows and columns of a thread.
struct Tile {
  std::int64_t rows = 4, columns = 4;
  std::int64_t high() const { return rows * kSide; }
  std::int64_t wide() const { return columns * kSide; }
};

std::int64_t tiles(std::int64_t n, std::int64_t size) { return (n + size - 1) / size; }

Tile choose_tile(const Product& p) {
  Tile tile;
  while (tile.rows > 1 && p.rows <= tile.high() / 2) tile.rows /= 2;
  while (tile.columns > 1 && p.columns <= tile.wide() / 2) tile.columns /= 2;
  const auto count = [&] { return p.batches * tiles(p.rows, tile.high()) * tiles(p.columns, tile.wide()); };
  while (count() < kFewTiles && tile.rows * tile.columns > 1)
    (tile.rows >= tile.columns ? tile.rows : tile.columns) /= 2;
  return tile;
}

class SimtContraction {
 public:
  SimtContraction(const lower::Step& step, const std::string& name, Dialect dialect)
      : step_(step),
        function_(step, name, dialect),
        w_(function_.writer()),
        product_(product_of(step, function_)),
        dtype_(step.region.graph.node(step.region.anchor).types[0].dtype),
        type_(accumulator_type(dtype_)),
        tile_(choose_tile(product_)),
        depth_(choose_depth()) {}

  Kernel make() {
    const Product& p = product_;
    const std::int64_t rows = std::max<std::int64_t>(tiles(p.rows, tile_.high()), 1),
                       columns = std::max<std::int64_t>(tiles(p.columns, tile_.wide()), 1);
    const std::int64_t results = step_.region.graph.node(step_.region.anchor).types[0].shape.count();
    const std::int64_t items = results == 0 ? 0 : p.batches * rows * columns;
    w_.line(fmt::format("const s_i32 down = S_LANE / {0}, across = S_LANE % {0};", kSide));
    w_.open(fmt::format("for (s_index item = S_GROUP; item < {}; item += S_GROUPS)", items));
    w_.line(fmt::format("const s_index batch = item / {};", rows * columns));
    w_.line(fmt::format("const s_index m0 = item / {} % {} * {};", columns, rows, tile_.high()));
    w_.line(fmt::format("const s_index n0 = item % {} * {};", columns, tile_.wide()));
    w_.line(fmt::format("{} sum[{}];", type_, count()));
    w_.line("S_UNROLL");
    w_.line(fmt::format("for (s_i32 i = 0; i < {}; ++i) sum[i] = 0;", count()));
    if (has_totals()) {
      w_.line(fmt::format("{} total[{}];", type_, count()));
      over_sums([&] { w_.line("total[i] = 0;"); });
    }
    if (p.depth > 0) {
      function_.declare(fmt::format("S_LOCAL {} left[{}];", type_, depth_ * (tile_.high() + 1)));
      function_.declare(fmt::format("S_LOCAL {} right[{}];", type_, depth_ * (tile_.wide() + 1)));
      w_.open(fmt::format("for (s_index k0 = 0; k0 < {}; k0 += {})", p.depth, depth_));
      w_.line("// A part of both factors, for the whole group.");
      load_left();
      load_right();
      w_.line("S_BARRIER;");
      multiply();
      if (has_totals()) {
        w_.open(fmt::format("if (k0 % {} == {})", kRun, kRun - depth_));
        over_sums([&] { end_run(w_, type_, "total[i]", "sum[i]"); });
        w_.close();
      }
      w_.line("S_BARRIER;");
      w_.close();
    }
    if (has_totals()) over_sums([&] { w_.line("sum[i] += total[i];"); });
    store();
    w_.close();
    return function_.finish_groups(std::min(items, kMostTileGroups));
  }

 private:
  std::int64_t count() const { return tile_.rows * tile_.columns; }  // of a thread's sums

  // Small tiles wait for memory rather than multiply: they read more at a time.
  std::int64_t choose_depth() const {
    const auto bytes = static_cast<std::int64_t>(std::max<std::size_t>(size_of(dtype_), 4)) *
                       (tile_.high() + tile_.wide() + 2);
    std::int64_t depth = kDepth;
    while (count() <= 4 && depth < product_.depth && 2 * depth <= kRun &&
           2 * depth * bytes <= kMostLocalBytes)
      depth *= 2;
    return depth;
  }
  bool has_totals() const { return is_float(dtype_) && product_.depth > kRun; }

  template <class Inside>
  void over_sums(Inside&& inside) {
    w_.line("S_UNROLL");
    w_.open(fmt::format("for (s_i32 i = 0; i < {}; ++i)", count()));
    inside();
    w_.close();
  }

  // Opens a loop over a part of depth_ × size elements, in the order they lie in memory: variables k and i.
  void open_part(std::int64_t size, bool depth_is_inner) {
    w_.open(fmt::format("for (s_i32 e = S_LANE; e < {}; e += {})", depth_ * size, kThreads));
    w_.line(depth_is_inner ? fmt::format("const s_i32 k = e % {0}, i = e / {0};", depth_)
                           : fmt::format("const s_i32 i = e % {0}, k = e / {0};", size));
    w_.line(fmt::format("const s_index kk = k0 + k;"));
    w_.line(fmt::format("{} v = 0;", type_));
  }

  void load_left() {
    open_part(tile_.high(), !product_.left_is_transposed);
    w_.line("const s_index row = m0 + i;");
    w_.open(fmt::format("if (row < {} && kk < {})", product_.rows, product_.depth));
    product_.prepare_row(w_);
    product_.store_left(w_, "v");
    w_.close();
    w_.line(fmt::format("left[k * {} + i] = v;", tile_.high() + 1));
    w_.close();
  }

  void load_right() {
    open_part(tile_.wide(), product_.right_is_transposed);
    w_.line("const s_index n = n0 + i;");
    w_.line(fmt::format("if (n < {} && kk < {}) v = ({})({});", product_.columns, product_.depth, type_,
                        product_.right));
    w_.line(fmt::format("right[k * {} + i] = v;", tile_.wide() + 1));
    w_.close();
  }

  void multiply() {
    if (depth_ > kDepth) w_.line("S_UNROLL_MORE");
    w_.open(fmt::format("for (s_i32 k = 0; k < {}; ++k)", depth_));
    w_.line(fmt::format("{} a[{}], b[{}];", type_, tile_.rows, tile_.columns));
    const auto read = [&](std::string_view into, std::int64_t count, std::string_view array,
                          std::string_view first, std::int64_t size) {
      w_.line("S_UNROLL");
      w_.line(fmt::format("for (s_i32 i = 0; i < {}; ++i) {}[i] = {}[k * {} + {} + i * {}];", count, into,
                          array, size + 1, first, kSide));
    };
    read("a", tile_.rows, "left", "down", tile_.high());
    read("b", tile_.columns, "right", "across", tile_.wide());
    w_.line("S_UNROLL");
    w_.open(fmt::format("for (s_i32 i = 0; i < {}; ++i)", tile_.rows));
    w_.line("S_UNROLL");
    const std::string sum = fmt::format("sum[i * {} + j]", tile_.columns);
    const std::string next =
        is_float(dtype_) ? fmt::format("S_FMA{}(a[i], b[j], {})", dtype_ == DType::f64 ? "_F64" : "", sum)
                         : fmt::format("{} + a[i] * b[j]", sum);
    w_.line(fmt::format("for (s_i32 j = 0; j < {}; ++j) {} = {};", tile_.columns, sum, next));
    w_.close();
    w_.close();
  }

  void store() {
    w_.line("// The tile, with what follows it.");
    const std::int64_t columns = tile_.columns;
    const bool is_one = tile_.rows * columns == 1;
    const auto at = [&](const char* what) { return is_one ? "0" : fmt::format("i {} {}", what, columns); };
    store_results(step_, function_, product_,
                  {.count = tile_.rows * columns,
                   .place =
                       [&](Writer& w) {
                         w.line(fmt::format("const s_index m = m0 + down + {} * {};", at("/"), kSide));
                         w.line(fmt::format("const s_index n = n0 + across + {} * {};", at("%"), kSide));
                       },
                   .value =
                       [&](Writer& w) {
                         const std::string sum =
                             fmt::format("({})sum[{}]", c_type(dtype_), is_one ? "0" : "i");
                         w.line(fmt::format("const {} value = {};", c_type(dtype_),
                                            function_.elements().rounded(dtype_, sum)));
                       }});
  }

  const lower::Step& step_;
  Function function_;
  Writer& w_;
  const Product product_;
  const DType dtype_;
  const std::string_view type_;
  const Tile tile_;
  const std::int64_t depth_;  // of the parts in local memory
};

}  // namespace

Kernel simt_contraction_kernel(const lower::Step& step, const std::string& name, Dialect dialect) {
  return SimtContraction(step, name, dialect).make();
}

}  // namespace systole::codegen
