// Primitives whose kernel in C is one item, for many threads. What else has a kernel of its own takes its
// items in turn, as in C.

#include <algorithm>

#include "codegen/long_sum.h"
#include "codegen/simt.h"
#include "codegen/special_parts.h"

namespace systole::codegen {

namespace {

using ir::Op;

class SimtSpecial : public SpecialKernel {
 public:
  using SpecialKernel::SpecialKernel;

  // Where the operand lies in the result's memory already, the block alone is written; else every element is
  // the operand's or the block's.
  Kernel update() {
    const Shape &x = shape(0), &block = shape(1);
    const Ints x_strides = row_major_strides(x.dims()), block_strides = row_major_strides(block.dims());
    for (std::size_t i = 0; i < x.size(); ++i)
      w_.line(fmt::format("const s_index s{} = {};", i, start_of(i + 2, x[i].value() - block[i].value())));
    const auto over = [&](const Shape& shape) {
      const Ints sizes = shape.dims();
      w_.open(fmt::format("for (s_index item = begin; item < {}; item += S_STEP)", shape.count()));
      const Loops loops = make_loops({sizes.begin(), sizes.end()}, "x");
      open_item(w_, loops, "item");
      std::vector<std::string> indices;
      for (std::size_t i = 0; i < loops.sizes.size(); ++i)
        indices.push_back(loops.sizes[i] == 1 ? "0" : loops.names[i]);
      return indices;
    };
    w_.open(fmt::format("if ((const S_GLOBAL void*){} == (const S_GLOBAL void*)in{})", function_.output(0),
                        position(0)));
    std::string to = "0";
    const std::vector<std::string> in_block = over(block);
    for (std::size_t i = 0; i < x.size(); ++i)
      to += fmt::format(" + ({} + s{}) * {}", in_block[i], i, x_strides[i]);
    w_.line(fmt::format("{}[{}] = in{}[item];", function_.output(0), to, position(1)));
    w_.close();
    w_.close();
    w_.open("else");
    std::string inside = "1", from = "0";
    const std::vector<std::string> in_x = over(x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::string at = fmt::format("({} - s{})", in_x[i], i);
      if (x[i] != block[i]) inside += fmt::format(" && {0} >= 0 && {0} < {1}", at, block[i].value());
      from += fmt::format(" + {} * {}", at, block_strides[i]);
    }
    w_.line(fmt::format("if ({}) {}[item] = in{}[{}];", inside, function_.output(0), position(1), from));
    w_.line(fmt::format("else {}[item] = in{}[item];", function_.output(0), position(0)));
    w_.close();
    w_.close();
    return function_.finish(x.count());
  }

 private:
  std::string start_of(std::size_t operand, std::int64_t room) {
    const std::string raw = element(operand, "0");
    if (is_unsigned_integer(graph_.type(node_.operands[operand]).dtype))
      return fmt::format("({0} > {1}u ? (s_i64){1} : (s_i64){0})", raw, room);
    return fmt::format("({0} < 0 ? (s_i64)0 : {0} > {1} ? (s_i64){1} : (s_i64){0})", raw, room);
  }
};

// Windows that do not span the last axis: a thread has neighbours along it, and reads and writes them at
// once.
class SimtWindow : public SpecialKernel {
 public:
  SimtWindow(const lower::Step& step, const std::string& name, Dialect dialect)
      : SpecialKernel(step, name, dialect),
        step_(step),
        attrs_(node_.as<ir::WindowAttrs>()),
        axes_(window_axes(attrs_, shape(0), node_.types[0].shape)) {
    constexpr std::int64_t kLeastThreads = 16384;  // fewer have a point each
    const WindowAxis& line = axes_.back();
    std::int64_t points = 1;
    for (const std::int64_t size : attrs_.window) points *= size;
    if (!line.is_plain() || is_long_sum(attrs_.kind, dtype(), points)) return;
    if (std::any_of(axes_.begin(), axes_.end(), [](const WindowAxis& axis) { return axis.is_far(); })) return;
    for (const std::int64_t count : {8, 4}) {
      const bool is_too_wide = count == 8 && size_of(dtype()) > 2;
      if (is_too_wide || line.y % count != 0 || node_.types[0].shape.count() < count * kLeastThreads)
        continue;
      wide_ = count;
      return;
    }
  }

  bool is_fit() const { return wide_ > 0; }

  Kernel make() {
    const std::string_view storage = storage_type(dtype());
    Loops items;
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      const bool is_last = i + 1 == axes_.size();
      items.sizes.push_back(is_last ? axes_[i].y / wide_ : axes_[i].y);
      items.names.push_back(is_last ? "step" : fmt::format("y{}", i));
    }
    open_items();
    open_item(w_, items, "item");
    w_.line(fmt::format("{} sum[{}];", c_type(dtype()), wide_));
    over_neighbours([&] { w_.line(fmt::format("sum[j] = {};", identity(attrs_.kind, dtype()))); });
    auto [place, open] = open_places(w_, axes_, axes_.size() - 1, "s_index", "S_UNROLL_SOME");
    if (items.sizes.back() > 1) place += fmt::format(" + step * {}", wide_);
    const std::size_t input = position(0);
    w_.line(fmt::format("{} w[{}];", storage, wide_));
    w_.line(fmt::format("{}(w, in{} + {});", load_function(step_, input, wide_), input, place));
    over_neighbours([&] {
      w_.line(
          fmt::format("const {} v = {};", c_type(dtype()), function_.elements().stored("w", "j", dtype())));
      w_.line(fmt::format("sum[j] = {};", combined(attrs_.kind, dtype(), "sum[j]", "v")));
    });
    for (; open > 0; --open) w_.close();
    w_.line(fmt::format("{} result[{}];", storage, wide_));
    over_neighbours([&] {
      function_.elements().store("result", Index::variable("j", wide_), dtype(),
                                 function_.elements().rounded(dtype(), "sum[j]"));
    });
    w_.line(fmt::format("{}({} + item * {}, result);", store_function(step_, 0, wide_), function_.output(0),
                        wide_));
    w_.close();
    return function_.finish(node_.types[0].shape.count() / wide_);
  }

 private:
  template <class Inside>
  void over_neighbours(Inside&& inside) {
    w_.line("S_UNROLL");
    w_.open(fmt::format("for (s_i32 j = 0; j < {}; ++j)", wide_));
    inside();
    w_.close();
  }

  const lower::Step& step_;
  const ir::WindowAttrs& attrs_;
  const std::vector<WindowAxis> axes_;
  std::int64_t wide_ = 0;
};

}  // namespace

std::optional<Kernel> simt_special_kernel(const lower::Step& step, const std::string& name, Dialect dialect) {
  switch (step.region.graph.node(step.region.anchor).op) {
    case Op::dynamic_update_slice: return SimtSpecial(step, name, dialect).update();
    case Op::reduce_window: {
      SimtWindow window(step, name, dialect);
      return window.is_fit() ? window.make() : special_kernel(step, name, dialect);
    }
    case Op::scatter: return simt_scatter_kernel(step, name, dialect);
    default: return special_kernel(step, name, dialect);
  }
}

}  // namespace systole::codegen
