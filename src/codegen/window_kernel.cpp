// Windows in C. An item is a line of the result along the last axis, or a block of one, with a sum for each
// element: the loops over the window are outside, what lies in the padding is left out there, and the
// innermost loop runs over neighbours. Axes at the end that no window spans are one.

#include "codegen/long_sum.h"
#include "codegen/special_parts.h"

namespace systole::codegen {

std::vector<WindowAxis> window_axes(const ir::WindowAttrs& a, const Shape& x, const Shape& y) {
  const auto entry = [](const Ints& list, std::size_t i) { return list.empty() ? std::int64_t{1} : list[i]; };
  std::vector<WindowAxis> axes;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const WindowAxis axis{x[i].value(),
                          y[i].value(),
                          a.window[i],
                          entry(a.strides, i),
                          entry(a.window_dilation, i),
                          a.pad_low.empty() ? 0 : a.pad_low[i],
                          entry(a.base_dilation, i)};
    if (!axes.empty() && axes.back().is_plain() && axis.is_plain()) {
      axes.back().x *= axis.x;
      axes.back().y *= axis.y;
    } else {
      axes.push_back(axis);
    }
  }
  if (axes.empty() || axes.back().holes > 1) axes.push_back({1, 1, 1, 1, 1, 0, 1});
  return axes;
}

WindowPlaces open_places(Writer& w, const std::vector<WindowAxis>& axes, std::size_t count,
                         std::string_view index, std::string_view unrolled) {
  const bool is_wide = index == "s_i64";
  Ints sizes;
  for (const WindowAxis& axis : axes) sizes.push_back(axis.x);
  const Ints strides = row_major_strides(sizes);
  WindowPlaces places{"0", 0};
  const auto open = [&](std::string_view head) {
    w.open(head);
    ++places.open;
  };
  for (std::size_t i = 0; i < count; ++i) {
    const WindowAxis& axis = axes[i];
    std::string x = axis.y == 1 ? "0" : fmt::format("{}y{} * {}", is_wide ? "(s_i64)" : "", i, axis.stride);
    if (axis.low != 0) x += fmt::format(" - ({})", axis.low);
    if (axis.window > 1) {
      if (!unrolled.empty()) w.line(unrolled);
      open(
          fmt::format("for ({0} k{1} = 0; k{1} < {2}; ++k{1})", is_wide ? "s_i64" : "s_i32", i, axis.window));
      x += fmt::format(" + k{} * {}", i, axis.dilation);
    }
    w.line(fmt::format("const {} x{} = {};", index, i, x));
    if (!axis.is_inside()) {
      std::string inside = fmt::format("x{0} >= 0 && x{0} <= {1}", i, axis.last());
      if (axis.holes > 1) inside += fmt::format(" && x{} % {} == 0", i, axis.holes);
      open(fmt::format("if ({})", inside));
    }
    places.place +=
        fmt::format(" + x{}{} * {}", i, axis.holes > 1 ? fmt::format(" / {}", axis.holes) : "", strides[i]);
  }
  return places;
}

namespace {

constexpr std::int64_t kLine = 256;  // elements of an item

class Window : public SpecialKernel {
 public:
  Window(const lower::Step& step, const std::string& name)
      : SpecialKernel(step, name, Dialect::c),
        attrs_(node_.as<ir::WindowAttrs>()),
        axes_(window_axes(attrs_, shape(0), node_.types[0].shape)),
        line_(axes_.back()) {
    for (const std::int64_t size : attrs_.window) points_ *= size;
  }

  Kernel make() {
    if (node_.types[0].shape.count() == 0) return function_.finish(0);
    const std::int64_t blocks = (line_.y + kLine - 1) / kLine, lanes = std::min(line_.y, kLine);
    Loops items;
    std::int64_t count = blocks;
    for (std::size_t i = 0; i + 1 < axes_.size(); ++i) {
      items.sizes.push_back(axes_[i].y);
      items.names.push_back(fmt::format("y{}", i));
      count *= axes_[i].y;
    }
    const Index first_of_line = items.point() * line_.y;
    items.sizes.push_back(blocks);
    items.names.emplace_back("block");
    open_items();
    open_item(w_, items, "item");
    w_.line(fmt::format("const s_i64 first = {};", blocks > 1 ? fmt::format("block * {}", kLine) : "0"));
    lanes_ = std::to_string(lanes);
    if (line_.y % lanes != 0) {
      lanes_ = "lanes";
      w_.line(fmt::format("const s_i64 lanes = {0} - first < {1} ? {0} - first : {1};", line_.y, kLine));
    }
    declare_sums(lanes);
    open_window();
    add_line();
    close_window();
    w_.line("S_INDEPENDENT");
    w_.open(fmt::format("for (s_i64 j = 0; j < {}; ++j)", lanes_));
    w_.line(fmt::format("const s_i64 place = {} + first + j;", first_of_line.to_string()));
    store("place",
          function_.elements().rounded(
              dtype(), is_long() ? fmt::format("({})(total[j] + sum[j])", c_type(dtype())) : "sum[j]"));
    w_.close();
    w_.close();
    return function_.finish(count);
  }

 private:
  bool is_long() const { return is_long_sum(attrs_.kind, dtype(), points_); }

  void declare_sums(std::int64_t lanes) {
    w_.line(fmt::format("{} sum[{}];", c_type(dtype()), lanes));
    w_.line(
        fmt::format("for (s_i64 j = 0; j < {}; ++j) sum[j] = {};", lanes, identity(attrs_.kind, dtype())));
    if (!is_long()) return;
    w_.line(fmt::format("double total[{}] = {{0}};", lanes));
    w_.line("s_i32 run = 0;");
  }

  // `place_` is where the line of the operand begins.
  void open_window() {
    const WindowPlaces places = open_places(w_, axes_, axes_.size() - 1, "s_i64");
    place_ = places.place;
    open_ = places.open;
    if (line_.window > 1) {
      w_.open(fmt::format("for (s_i64 k = 0; k < {}; ++k)", line_.window));
      ++open_;
    }
  }
  void close_window() {
    for (; open_ > 0; --open_) w_.close();
  }

  // One element of the window for the lanes that have it in the operand.
  void add_line() {
    w_.line(fmt::format("const s_i64 shift = {}{};",
                        line_.window > 1 ? fmt::format("k * {} - ", line_.dilation) : "-",
                        fmt::format("({})", line_.low)));
    std::string from = "0", to = lanes_;
    if (!line_.is_inside()) {
      // The lanes with 0 <= y·stride + shift <= last.
      w_.line(fmt::format("const s_i64 low = (shift < 0 ? (-shift + {}) / {} : 0) - first;", line_.stride - 1,
                          line_.stride));
      w_.line(fmt::format("const s_i64 high = (shift > {0} ? 0 : ({0} - shift) / {1} + 1) - first;",
                          line_.last(), line_.stride));
      w_.line("const s_i64 from = low < 0 ? 0 : low;");
      w_.line(fmt::format("const s_i64 to = high < {0} ? high : {0};", lanes_));
      from = "from";
      to = "to";
    }
    w_.line(fmt::format("const s_i64 place = {} + first * {} + shift;", place_, line_.stride));
    w_.line("S_INDEPENDENT");
    w_.open(fmt::format("for (s_i64 j = {}; j < {}; ++j)", from, to));
    w_.line(fmt::format(
        "const {} v = {};", c_type(dtype()),
        element(0, line_.stride == 1 ? "place + j" : fmt::format("place + j * {}", line_.stride))));
    w_.line(fmt::format("sum[j] = {};", combined(attrs_.kind, dtype(), "sum[j]", "v")));
    w_.close();
    if (!is_long()) return;
    w_.open(fmt::format("if (++run == {})", kRun));
    w_.line("run = 0;");
    w_.line(fmt::format("for (s_i64 j = 0; j < {}; ++j) total[j] += sum[j], sum[j] = 0;", lanes_));
    w_.close();
  }

  const ir::WindowAttrs& attrs_;
  const std::vector<WindowAxis> axes_;
  const WindowAxis& line_;  // the last axis
  std::int64_t points_ = 1;
  std::string lanes_, place_;
  int open_ = 0;
};

}  // namespace

Kernel window_kernel(const lower::Step& step, const std::string& name) { return Window(step, name).make(); }

}  // namespace systole::codegen
