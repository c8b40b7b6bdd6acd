// A product of pixels × window and window × filters, on tensor cores: a warp multiplies 16 by 8 by 8.
// Forwards it has the kernel for 32 filters in its registers and takes 16 pixels after the other. Of the
// gradient by the kernel it has all results for 32 filters in its registers and runs over rows of pixels;
// groups add up theirs, and a second kernel adds up the groups', always in one order. f32 is multiplied in
// three parts, which is nearly exact; small floats are exact as they are.

#include <algorithm>
#include <cstdlib>

#include "codegen/contraction.h"
#include "codegen/few_channels.h"
#include "codegen/simt.h"

namespace systole::codegen {

namespace {

constexpr std::int64_t kFilters = 32;  // of a warp
constexpr std::int64_t kPitch = 36;    // of its rows in local memory: threads write to different banks
constexpr std::int64_t kMostChannels = 4, kMostDepth = 64, kMostFilters = 4096;
constexpr std::int64_t kFarthest = std::int64_t{1} << 28;  // that places in an image may be, padding and all
constexpr std::int64_t kFewestPlaces = 4096;               // in all images: fewer are no work for a GPU
constexpr std::int64_t kFewestRows = 64,
                       kLongestRow = 4096;  // of a gradient: a row is one warp's, and one sum
constexpr std::int64_t kMostGroups = 264;   // two for each multiprocessor of a large GPU

std::int64_t ceiling(std::int64_t n, std::int64_t size) { return (n + size - 1) / size; }

// How the gradient is shared out.
struct Shares {
  std::int64_t tiles, warps, slices;  // of 16 results, of a group, of the rows of pixels
  std::int64_t columns;               // of groups side by side: filters

  explicit Shares(const FewChannels& c)
      : tiles(ceiling(c.depth(), 16)),
        warps(tiles <= 2 ? 8 : 4),
        slices(std::min(ceiling(c.images * c.result[0], warps), kMostGroups)),
        columns(c.filters / kFilters) {}
  std::int64_t results() const { return tiles * 16 * kFilters; }  // of a group
};

class FewChannelsKernel {
 public:
  FewChannelsKernel(const lower::Step& step, const FewChannels& convolution, const std::string& name,
                    std::int64_t warps)
      : step_(step),
        c_(convolution),
        function_(step, name, Dialect::cuda, static_cast<int>(32 * warps)),
        w_(function_.writer()),
        product_(product_of(step, function_)),
        warps_(warps),
        is_exact_(c_.operands != DType::f32) {}

  Kernel forwards() {
    const std::int64_t steps = ceiling(c_.depth(), 8), columns = c_.filters / kFilters;
    const std::int64_t tiles = ceiling(product_.rows, 16);
    function_.set_resident(2);
    function_.declare(fmt::format("S_LOCAL float tiles[{}];", warps_ * 16 * kPitch));
    open_warp(columns);
    // The kernel, and where in an image its window's elements are.
    w_.line(fmt::format("unsigned high[{}], low[{}];", 8 * steps, is_exact_ ? 1 : 8 * steps));
    w_.line(fmt::format("s_index away[{}];", 2 * steps));
    if (is_padded()) w_.line(fmt::format("s_i32 rows[{0}], columns[{0}];", 2 * steps));
    unrolled("s", 2 * steps);
    w_.line("const s_index k = s / 2 * 8 + s % 2 * 4 + across;");
    declare_tap("k");
    w_.line("away[s] = tap_away;");
    if (is_padded()) w_.line("rows[s] = tap_row, columns[s] = tap_column;");
    unrolled("j", 4);
    const std::string place =
        fmt::format("(first + j * 8 + down) * {} + tap_y * {} + tap_x * {} + tap_c * {}", c_.other[0],
                    c_.other[1], c_.other[2], c_.other[3]);
    w_.line(fmt::format("const float v = k < {} ? (float)({}) : 0;", c_.depth(), loaded(1, place)));
    w_.line("high[s * 4 + j] = s_tf32(v);");
    if (!is_exact_) w_.line("low[s * 4 + j] = s_rest_tf32(v, high[s * 4 + j]);");
    w_.close();
    w_.close();
    w_.open(fmt::format("for (s_index item = slice * {0} + warp; item < {1}; item += slices * {0})", warps_,
                        tiles));
    w_.line("const s_index m0 = item * 16;");
    w_.line("s_index base[2];");
    if (is_padded()) w_.line("s_i32 top[2], left[2];");
    unrolled("h", 2);
    w_.line("const s_index row = m0 + down + h * 8;");
    w_.line(fmt::format("const s_i32 y = row / {} % {} * {} - {}, x = row % {} * {} - {};", c_.result[1],
                        c_.result[0], c_.strides[0], c_.before[0], c_.result[1], c_.strides[1],
                        c_.before[1]));
    w_.line(fmt::format("base[h] = row < {} ? row / {} * {} + (s_index)y * {} + (s_index)x * {} : -1;",
                        product_.rows, c_.result[0] * c_.result[1], c_.x[0], c_.x[1], c_.x[2]));
    if (is_padded()) {
      w_.line("top[h] = y, left[h] = x;");
      w_.line(fmt::format("if (row >= {}) top[h] = {};", product_.rows, c_.image[0]));  // outside
    }
    w_.close();
    w_.line("float sum[16] = {};");
    unrolled("s", steps);
    w_.line("unsigned a[4], rest[4];");
    unrolled("i", 4);
    w_.line("const s_i32 h = i % 2, t = s * 2 + i / 2;");
    std::string condition =
        fmt::format("s * 8 + i / 2 * 4 + across < {}", c_.depth()) +
        (is_padded()
             ? fmt::format(" && (unsigned)(top[h] + rows[t]) < {}u && (unsigned)(left[h] + columns[t]) < {}u",
                           c_.image[0], c_.image[1])
             : " && base[h] >= 0");
    w_.line(fmt::format("const float v = {} ? (float)({}) : 0;", condition, loaded(0, "base[h] + away[t]")));
    w_.line("a[i] = s_tf32(v);");
    if (!is_exact_) w_.line("rest[i] = s_rest_tf32(v, a[i]);");
    w_.close();
    unrolled("j", 4);
    w_.line("const unsigned b[2] = {high[s * 8 + j], high[s * 8 + 4 + j]};");
    if (is_exact_) {
      w_.line("s_mma_tf32(sum + 4 * j, a, b);");
    } else {
      w_.line("const unsigned c[2] = {low[s * 8 + j], low[s * 8 + 4 + j]};");
      w_.line("s_mma_near_f32(sum + 4 * j, a, rest, b, c);");
    }
    w_.close();
    w_.close();
    // Through local memory: a row of filters is written by neighbours.
    w_.line(fmt::format("float* const tile = tiles + warp * {};", 16 * kPitch));
    unrolled("i", 16);
    w_.line(
        fmt::format("tile[(down + i % 4 / 2 * 8) * {} + i / 4 * 8 + 2 * across + i % 2] = sum[i];", kPitch));
    w_.close();
    w_.line("__syncwarp();");
    w_.line("const s_index batch = 0;");
    store_results(
        step_, function_, product_,
        {.count = 16,
         .place = [](Writer& w) { w.line("const s_index m = m0 + i, n = first + S_LANE % 32;"); },
         .value = [&](Writer& w) { w.line(value_of(fmt::format("tile[i * {} + S_LANE % 32]", kPitch))); }});
    w_.line("__syncwarp();");
    w_.close();
    return function_.finish_groups(std::min(ceiling(tiles, warps_), kMostGroups) * columns);
  }

  // The sums of a group's rows of pixels.
  Kernel parts(const Shares& shares) {
    const std::int64_t rows = 2 * shares.tiles;  // of eight results, that a thread has one of each
    function_.set_resident(2);
    const std::string scratch = function_.scratch("float");
    function_.declare(fmt::format("S_LOCAL float partial[{}];", warps_ * shares.results()));
    open_warp(shares.columns);
    w_.line(fmt::format("s_index away[{}];", rows));
    w_.line(fmt::format("s_i32 rows[{0}], columns[{0}];", rows));
    unrolled("r", rows);
    w_.line("const s_index k = r * 8 + down;");
    declare_tap("k");
    w_.line("away[r] = tap_away, columns[r] = tap_column;");
    w_.line(fmt::format("rows[r] = k < {} ? tap_row : {};", c_.depth(), kOutside));
    w_.close();
    w_.line(fmt::format("float sum[{}] = {{}};", 16 * shares.tiles));
    w_.open(fmt::format("for (s_index item = slice * {0} + warp; item < {1}; item += slices * {0})", warps_,
                        c_.images * c_.result[0]));
    w_.line(fmt::format("const s_index image = item / {0};", c_.result[0]));
    w_.line(fmt::format("const s_i32 y = item % {};", c_.result[0]));
    w_.line(fmt::format("const s_i32 top = y * {} - {};", c_.strides[0], c_.before[0]));
    w_.line(fmt::format("const s_index from = image * {} + (s_index)top * {} - {};", c_.x[0], c_.x[1],
                        c_.before[1] * c_.x[2]));
    w_.line(fmt::format("const s_index back = image * {} + (s_index)y * {} + first + down * 4;", c_.other[0],
                        c_.other[1]));
    w_.line("S_UNROLL_SOME");
    w_.open(fmt::format("for (s_i32 p0 = 0; p0 < {}; p0 += 8)", c_.result[1]));
    w_.line(fmt::format("float a[{}], b[8] = {{}};", 2 * rows));
    unrolled("i", 2);
    w_.line("const s_i32 p = p0 + i * 4 + across;");
    w_.line(fmt::format("const bool is_inside = p < {};", c_.result[1]));
    w_.open("if (is_inside)");
    w_.line(fmt::format("{} four[4];", storage_type(c_.operands)));
    w_.line(fmt::format("{}(four, in{} + back + p * {});", load_function(step_, input(1), 4), input(1),
                        c_.other[2]));
    unrolled("j", 4);
    w_.line(fmt::format("b[j * 2 + i] = {};", function_.elements().stored("four", "j", c_.operands)));
    w_.close();
    w_.close();
    unrolled("r", rows);
    w_.line(fmt::format("const bool is_there = is_inside && (unsigned)(top + rows[r]) < {}u{};", c_.image[0],
                        is_padded() ? fmt::format(" && (unsigned)(p * {} - {} + columns[r]) < {}u",
                                                  c_.strides[1], c_.before[1], c_.image[1])
                                    : ""));
    w_.line(fmt::format("a[r * 2 + i] = is_there ? (float)({}) : 0;",
                        loaded(0, fmt::format("from + p * {} + away[r]", c_.strides[1] * c_.x[2]))));
    w_.close();
    w_.close();
    const char* const multiply = is_exact_ ? "s_multiply_tf32" : "s_multiply_near_f32";
    unrolled("m", shares.tiles);
    w_.line("const float left[4] = {a[m * 4], a[m * 4 + 2], a[m * 4 + 1], a[m * 4 + 3]};");
    unrolled("j", 4);
    w_.line(fmt::format("{}(sum + (m * 4 + j) * 4, left, b + j * 2);", multiply));
    w_.close();
    w_.close();
    w_.close();
    w_.close();
    unrolled("i", 16 * shares.tiles);
    w_.line(
        "const s_i32 row = i / 16 * 16 + down + i % 4 / 2 * 8, column = (2 * across + i % 2) * 4 + i / 4 % "
        "4;");
    w_.line(fmt::format("partial[warp * {} + row * {} + column] = sum[i];", shares.results(), kFilters));
    w_.close();
    w_.line("S_BARRIER;");
    w_.open(fmt::format("for (s_i32 e = S_LANE; e < {}; e += {})", shares.results(), 32 * warps_));
    w_.line("float all = 0;");
    w_.line("S_UNROLL");
    w_.line(
        fmt::format("for (s_i32 i = 0; i < {}; ++i) all += partial[i * {} + e];", warps_, shares.results()));
    w_.line(fmt::format("{}[S_GROUP * {} + e] = all;", scratch, shares.results()));
    w_.close();
    return function_.finish_groups(shares.slices * shares.columns);
  }

  // The sums of the groups, a row of filters in each group of threads.
  Kernel total(const Shares& shares) {
    const std::string scratch = function_.scratch("float");
    function_.declare(fmt::format("S_LOCAL float partial[{}];", warps_ * 32));
    w_.line("const s_i32 warp = S_LANE / 32, lane = S_LANE % 32;");
    w_.line(fmt::format("const s_index k = S_GROUP / {0}, column = S_GROUP % {0};", shares.columns));
    w_.line("float all = 0;");
    w_.line("S_UNROLL_MORE");
    w_.line(fmt::format(
        "for (s_index i = warp; i < {}; i += {}) all += {}[(i * {} + column) * {} + k * {} + lane];",
        shares.slices, warps_, scratch, shares.columns, shares.results(), kFilters));
    w_.line("partial[S_LANE] = all;");
    w_.line("S_BARRIER;");
    w_.open("if (warp == 0)");
    w_.line(fmt::format("for (s_i32 i = 1; i < {}; ++i) all += partial[i * 32 + lane];", warps_));
    w_.line("const s_index batch = 0;");
    store_results(step_, function_, product_,
                  {.place =
                       [&](Writer& w) {
                         w.line(fmt::format("const s_index m = k % {0} * {1} + k / {0};", c_.channels,
                                            c_.window[0] * c_.window[1]));
                         w.line(fmt::format("const s_index n = column * {} + lane;", kFilters));
                       },
                   .value = [&](Writer& w) { w.line(value_of("all")); }});
    w_.close();
    return function_.finish_groups(c_.depth() * shares.columns);
  }

 private:
  static constexpr std::int64_t kOutside = 1 << 29;  // a row that no image has

  std::string value_of(const std::string& sum) {
    return fmt::format("const float value = {};", function_.elements().rounded(c_.output, sum));
  }

  void unrolled(const char* variable, std::int64_t count) {
    w_.line("S_UNROLL");
    w_.open(fmt::format("for (s_i32 {0} = 0; {0} < {1}; ++{0})", variable, count));
  }

  // The warp's place among others and its filters; a thread's rows and columns of tiles.
  void open_warp(std::int64_t columns) {
    w_.line("const s_i32 warp = S_LANE / 32, down = S_LANE % 32 / 4, across = S_LANE % 4;");
    w_.line(fmt::format("const s_index slice = S_GROUP / {0}, slices = S_GROUPS / {0};", columns));
    w_.line(fmt::format("const s_index first = S_GROUP % {} * {};", columns, kFilters));
  }

  // Element k of the window: where it is, and how far from the first in an image.
  void declare_tap(const char* k) {
    w_.line(fmt::format("const s_i32 tap_c = {0} % {1}, tap_x = {0} / {1} % {2}, tap_y = {0} / {3};", k,
                        c_.channels, c_.window[1], c_.channels * c_.window[1]));
    w_.line(fmt::format("const s_i32 tap_row = tap_y * {}, tap_column = tap_x * {};", c_.dilations[0],
                        c_.dilations[1]));
    w_.line(fmt::format("const s_index tap_away = tap_row * {} + tap_column * {} + tap_c * {};", c_.x[1],
                        c_.x[2], c_.x[3]));
  }

  // Whether a window reaches out of the image.
  bool is_padded() const {
    for (std::size_t i = 0; i < 2; ++i)
      if (c_.before[i] != 0 ||
          (c_.result[i] - 1) * c_.strides[i] + (c_.window[i] - 1) * c_.dilations[i] >= c_.image[i])
        return true;
    return false;
  }

  std::size_t input(std::size_t operand) const {
    const ir::Graph& region = step_.region.graph;
    const std::int32_t node = region.node(step_.region.anchor).operands[operand].node;
    return static_cast<std::size_t>(std::find(region.inputs().begin(), region.inputs().end(), node) -
                                    region.inputs().begin());
  }
  std::string loaded(std::size_t operand, const std::string& place) {
    return function_.elements().loaded(step_.region.graph.node(step_.region.anchor).operands[operand], place);
  }

  const lower::Step& step_;
  const FewChannels& c_;
  Function function_;
  Writer& w_;
  const Product product_;
  const std::int64_t warps_;  // of a group
  const bool is_exact_;
};

bool is_plain(const Ints& list, std::int64_t value) {
  return std::all_of(list.begin(), list.end(), [&](std::int64_t each) { return each == value; });
}

bool is_multiplied(DType dtype) { return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16; }

}  // namespace

bool suits_few_channels(std::int64_t channels, std::int64_t window, std::int64_t filters,
                        std::int64_t places) {
  return channels >= 1 && channels <= kMostChannels && window >= 1 && channels * window <= kMostDepth &&
         filters > 0 && filters <= kMostFilters && filters % kFilters == 0 && places >= kFewestPlaces;
}

std::optional<FewChannels> few_channels(const lower::Region& region) {
  const ir::Graph& graph = region.graph;
  const ir::Node& node = graph.node(region.anchor);
  if (node.op != ir::Op::convolution) return std::nullopt;
  const auto& attrs = node.as<ir::ConvolutionAttrs>();
  const ir::ConvolutionAxes axes = ir::parse_convolution_layout(attrs.layout);
  const ir::ValueId a = node.operands[0], b = node.operands[1];
  FewChannels c;
  c.operands = graph.type(a).dtype;
  c.output = node.types[0].dtype;
  if (axes.operand_spatial.size() != 2 || graph.node(a.node).op != ir::Op::input ||
      graph.node(b.node).op != ir::Op::input || graph.type(b).dtype != c.operands ||
      !is_multiplied(c.operands) || !is_multiplied(c.output) || attrs.feature_groups != 1 ||
      attrs.batch_groups != 1 || !is_plain(attrs.operand_dilation, 1) || !is_plain(attrs.reverse, 0))
    return std::nullopt;
  const Shape &a_shape = graph.type(a).shape, &b_shape = graph.type(b).shape, &y_shape = node.types[0].shape;
  const Ints a_strides = row_major_strides(a_shape.dims()), b_strides = row_major_strides(b_shape.dims());
  const auto size = [](const Shape& shape, std::int64_t axis) {
    return shape[static_cast<std::size_t>(axis)].value();
  };
  const auto stride = [](const Ints& strides, std::int64_t axis) {
    return strides[static_cast<std::size_t>(axis)];
  };
  const auto pair = [](const Shape& shape, const Ints& spatial) {
    return FewChannels::Pair{shape[static_cast<std::size_t>(spatial[0])].value(),
                             shape[static_cast<std::size_t>(spatial[1])].value()};
  };
  const auto entries = [](const Ints& list, std::int64_t otherwise) {
    return list.empty() ? FewChannels::Pair{otherwise, otherwise} : FewChannels::Pair{list[0], list[1]};
  };
  // What the graph calls batch and features are an image's channels and the images in the gradient.
  const FewChannels::Pair small = pair(b_shape, axes.kernel_spatial),
                          large = pair(y_shape, axes.result_spatial);
  c.is_gradient = small[0] * small[1] > large[0] * large[1];
  const std::int64_t image_axis = c.is_gradient ? axes.operand_feature : axes.operand_batch,
                     channel_axis = c.is_gradient ? axes.operand_batch : axes.operand_feature;
  c.images = size(a_shape, image_axis);
  c.channels = size(a_shape, channel_axis);
  c.filters = size(y_shape, axes.result_feature);
  c.image = pair(a_shape, axes.operand_spatial);
  c.window = c.is_gradient ? large : small;
  c.result = c.is_gradient ? small : large;
  c.strides = entries(c.is_gradient ? attrs.kernel_dilation : attrs.strides, 1);
  c.dilations = entries(c.is_gradient ? attrs.strides : attrs.kernel_dilation, 1);
  c.before = entries(attrs.pad_low, 0);
  c.x = {stride(a_strides, image_axis), stride(a_strides, axes.operand_spatial[0]),
         stride(a_strides, axes.operand_spatial[1]), stride(a_strides, channel_axis)};
  const std::int64_t y = stride(b_strides, axes.kernel_spatial[0]),
                     x = stride(b_strides, axes.kernel_spatial[1]);
  const std::int64_t in = stride(b_strides, axes.kernel_input), out = stride(b_strides, axes.kernel_output);
  if (c.is_gradient)
    c.other = {in, y, x, out};
  else
    c.other = {out, y, x, in};
  if (c.is_gradient && out != 1) return std::nullopt;  // filters are read by fours
  if (c.is_gradient && (c.images * c.result[0] < kFewestRows || c.result[1] > kLongestRow))
    return std::nullopt;
  for (std::size_t i = 0; i < 2; ++i)
    if (std::abs(c.before[i]) > kFarthest || c.image[i] > kFarthest ||
        c.result[i] > kFarthest / std::max<std::int64_t>(c.strides[i], 1) ||
        c.window[i] > kFarthest / std::max<std::int64_t>(c.dilations[i], 1))
      return std::nullopt;
  if (!suits_few_channels(c.channels, c.window[0] * c.window[1], c.filters,
                          c.images * c.result[0] * c.result[1]))
    return std::nullopt;
  return c;
}

std::int64_t few_channels_scratch(const FewChannels& convolution) {
  if (!convolution.is_gradient) return 0;
  const Shares shares(convolution);
  return 4 * shares.slices * shares.columns * shares.results();
}

std::vector<Kernel> few_channels_kernels(const lower::Step& step, const FewChannels& convolution,
                                         const std::string& name) {
  if (!convolution.is_gradient) return {FewChannelsKernel(step, convolution, name, 8).forwards()};
  const Shares shares(convolution);
  return {FewChannelsKernel(step, convolution, name, shares.warps).parts(shares),
          FewChannelsKernel(step, convolution, name + "_sum", 8).total(shares)};
}

}  // namespace systole::codegen
