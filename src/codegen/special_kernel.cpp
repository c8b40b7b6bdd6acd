// Primitives with a loop of their own. Operands are in memory; an element of the result, or a line of it, is
// an item.

#include "codegen/long_sum.h"
#include "codegen/special_parts.h"

namespace systole::codegen {

namespace {

using ir::Op;

class Special : public SpecialKernel {
 public:
  using SpecialKernel::SpecialKernel;

  std::optional<Kernel> make() {
    switch (node_.op) {
      case Op::reduce_window: return window();
      case Op::arg_reduce: return arg_reduce();
      case Op::cumulative: return cumulative();
      case Op::dynamic_update_slice: return update();
      case Op::scatter: return scatter();
      default: return std::nullopt;
    }
  }

 private:
  Kernel window() {
    const auto& a = node_.as<ir::WindowAttrs>();
    const Shape& y = node_.types[0].shape;
    const std::vector<WindowAxis> axes = window_axes(a, shape(0), y);
    open_items();
    Loops items;
    std::int64_t points = 1;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      items.sizes.push_back(axes[i].y);
      items.names.push_back(fmt::format("y{}", i));
      points *= axes[i].window;
    }
    open_item(w_, items, "item");
    declare_sum(a.kind, points);
    const auto [place, open] = open_places(w_, axes, axes.size(), "s_i64");
    w_.line(fmt::format("const {} v = {};", c_type(dtype()), element(0, place)));
    add_to_sum(a.kind, points);
    for (int i = 0; i < open; ++i) w_.close();
    store_sum("item", a.kind, points);
    w_.close();
    return function_.finish(y.count());
  }

  // So many points are combined one after the other: a long sum is made of runs.
  void declare_sum(ir::Combine kind, std::int64_t points) {
    w_.line(fmt::format("{} sum = {};", c_type(dtype()), identity(kind, dtype())));
    if (!is_long_sum(kind, dtype(), points)) return;
    w_.line(fmt::format("{} total = 0;", c_type(dtype())));
    w_.line("s_i32 run = 0;");
  }
  void add_to_sum(ir::Combine kind, std::int64_t points) {
    w_.line(fmt::format("sum = {};", combined(kind, dtype(), "sum", "v")));
    if (!is_long_sum(kind, dtype(), points)) return;
    w_.open(fmt::format("if (++run == {})", kRun));
    w_.line("run = 0;");
    end_run(w_, c_type(dtype()), "total", "sum");
    w_.close();
  }
  void store_sum(const std::string& place, ir::Combine kind, std::int64_t points) {
    const std::string sum = is_long_sum(kind, dtype(), points) ? "(total + sum)" : "sum";
    store(place, function_.elements().rounded(dtype(), sum));
  }

  Kernel arg_reduce() {
    const auto& a = node_.as<ir::ArgReduceAttrs>();
    const Lines line = lines(shape(0), a.axis);
    const std::string_view type = c_type(graph_.type(node_.operands[0]).dtype);
    open_items();
    w_.line(fmt::format("const s_i64 first = {};", line.first));
    w_.line(fmt::format("{} best = {};", type, element(0, "first")));
    w_.line("s_i64 at = 0;");
    w_.open(fmt::format("for (s_i64 i = 1; i < {}; ++i)", line.length));
    w_.line(fmt::format("const {} v = {};", type, element(0, fmt::format("first + i * {}", line.stride))));
    w_.line(fmt::format("if (best == best && (v {} best || v != v)) {{ best = v; at = i; }}",
                        a.kind == ir::Combine::max ? '>' : '<'));
    w_.close();
    store("item", fmt::format("({})at", c_type(dtype())));
    w_.close();
    return function_.finish(line.count);
  }

  Kernel cumulative() {
    const auto& a = node_.as<ir::CumulativeAttrs>();
    const Lines line = lines(shape(0), a.axis);
    open_items();
    w_.line(fmt::format("const s_i64 first = {};", line.first));
    declare_sum(a.kind, line.length);
    w_.open(fmt::format("for (s_i64 i = 0; i < {}; ++i)", line.length));
    w_.line(fmt::format("const s_i64 place = first + {} * {};",
                        a.reverse ? fmt::format("({} - i)", line.length - 1) : std::string("i"),
                        line.stride));
    w_.line(fmt::format("const {} v = {};", c_type(dtype()), element(0, "place")));
    add_to_sum(a.kind, line.length);
    store_sum("place", a.kind, line.length);
    w_.close();
    w_.close();
    return function_.finish(line.count);
  }

  // One item: what is not yet in the result's memory is copied first.
  void copy_operand() {
    const std::string from = fmt::format("in{}", position(0));
    w_.line(fmt::format(
        "if ((const void*){0} != (const void*){1}) for (s_i64 i = 0; i < {2}; ++i) {0}[i] = {1}[i];",
        function_.output(0), from, shape(0).count()));
  }
  std::string start_of(std::size_t operand, const std::string& place, std::int64_t room) {
    const DType index = graph_.type(node_.operands[operand]).dtype;
    const std::string raw = element(operand, place);
    if (is_unsigned_integer(index)) return fmt::format("({0} > {1}u ? (s_i64){1} : (s_i64){0})", raw, room);
    return fmt::format("({0} < 0 ? 0 : {0} > {1} ? (s_i64){1} : (s_i64){0})", raw, room);
  }

  Kernel update() {
    const Shape &x = shape(0), &block = shape(1);
    const Ints strides = row_major_strides(x.dims());
    w_.open("if (begin < end)");
    copy_operand();
    std::string first = "0";
    for (std::size_t i = 0; i < x.size(); ++i)
      first += fmt::format(" + {} * {}", start_of(i + 2, "0", x[i].value() - block[i].value()), strides[i]);
    w_.line(fmt::format("const s_i64 first = {};", first));
    std::string place = "first", from = "0";
    const Ints block_strides = row_major_strides(block.dims());
    for (std::size_t i = 0; i < block.size(); ++i) {
      w_.open(fmt::format("for (s_i64 x{0} = 0; x{0} < {1}; ++x{0})", i, block[i].value()));
      place += fmt::format(" + x{} * {}", i, strides[i]);
      from += fmt::format(" + x{} * {}", i, block_strides[i]);
    }
    w_.line(fmt::format("{}[{}] = in{}[{}];", function_.output(0), place, position(1), from));
    for (std::size_t i = 0; i < block.size(); ++i) w_.close();
    w_.close();
    return function_.finish(x.count() == 0 ? 0 : 1);
  }

  // Updates apply in their order, so one thread does them.
  std::optional<Kernel> scatter() {
    const auto& a = node_.as<ir::ScatterAttrs>();
    const Shape &x = shape(0), &indices = shape(1), &updates = shape(2);
    const auto contains = [](const Ints& axes, std::size_t axis) {
      return std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(axis)) != axes.end();
    };
    const Ints x_strides = row_major_strides(x.dims()), i_strides = row_major_strides(indices.dims()),
               u_strides = row_major_strides(updates.dims());
    const auto vector_axis = static_cast<std::size_t>(a.index_vector_axis);
    w_.open("if (begin < end)");
    copy_operand();
    std::string from = "0", list = "0";
    std::vector<std::string> window(x.size(), "0"), batch(x.size(), "");
    std::vector<std::int64_t> sizes(x.size(), 1);
    // The axes of updates: those of windows step through x, the others through the indices.
    std::size_t next_index = 0, next_window = 0;
    std::vector<std::size_t> window_axes;  // of x, in order
    for (std::size_t i = 0; i < x.size(); ++i)
      if (!contains(a.inserted_axes, i) && !contains(a.operand_batch_axes, i)) window_axes.push_back(i);
    std::vector<std::size_t> scatter_loops, window_loops;
    for (std::size_t i = 0; i < updates.size(); ++i) {
      from += fmt::format(" + u{} * {}", i, u_strides[i]);
      if (contains(a.update_window_axes, i)) {
        const std::size_t axis = window_axes[next_window++];
        window[axis] = fmt::format("u{}", i);
        sizes[axis] = updates[i].value();
        window_loops.push_back(i);
      } else {
        if (next_index == vector_axis) ++next_index;
        list += fmt::format(" + u{} * {}", i, i_strides[next_index]);
        for (std::size_t k = 0; k < a.operand_batch_axes.size(); ++k)
          if (a.index_batch_axes[k] == static_cast<std::int64_t>(next_index))
            batch[static_cast<std::size_t>(a.operand_batch_axes[k])] = fmt::format("u{}", i);
        ++next_index;
        scatter_loops.push_back(i);
      }
    }
    const auto open = [&](std::size_t i) {
      w_.open(fmt::format("for (s_i64 u{0} = 0; u{0} < {1}; ++u{0})", i, updates[i].value()));
    };
    for (const std::size_t i : scatter_loops) open(i);
    std::string inside, place = "0";
    for (std::size_t axis = 0; axis < x.size(); ++axis) {
      std::string start = batch[axis].empty() ? "0" : batch[axis];
      for (std::size_t k = 0; k < a.index_map.size(); ++k) {
        if (a.index_map[k] != static_cast<std::int64_t>(axis)) continue;
        const std::string at =
            vector_axis < indices.size()
                ? fmt::format("{} + {}", list, static_cast<std::int64_t>(k) * i_strides[vector_axis])
                : list;
        w_.line(fmt::format("const s_i64 s{} = (s_i64){};", axis, element(1, at)));
        inside += fmt::format("{0}s{1} >= 0 && s{1} <= {2}", inside.empty() ? "" : " && ", axis,
                              x[axis].value() - sizes[axis]);
        start = fmt::format("s{}", axis);
      }
      place += fmt::format(" + ({} + {}) * {}", start, window[axis], x_strides[axis]);
    }
    if (!inside.empty()) w_.open(fmt::format("if ({})", inside));
    for (const std::size_t i : window_loops) open(i);
    w_.line(fmt::format("const s_i64 place = {};", place));
    const std::string value = element(2, from);
    if (a.combine == ir::Combine::set) {
      w_.line(fmt::format("{}[place] = in{}[{}];", function_.output(0), position(2), from));
    } else {
      w_.line(fmt::format("const {} a = {}, b = {};", c_type(dtype()),
                          function_.elements().stored(function_.output(0), "place", dtype()), value));
      store("place", function_.elements().rounded(dtype(), combined(a.combine, dtype(), "a", "b")));
    }
    for (std::size_t i = 0; i < window_loops.size(); ++i) w_.close();
    if (!inside.empty()) w_.close();
    for (std::size_t i = 0; i < scatter_loops.size(); ++i) w_.close();
    w_.close();
    return function_.finish(x.count() == 0 ? 0 : 1);
  }
};

}  // namespace

std::optional<Kernel> special_kernel(const lower::Step& step, const std::string& name, Dialect dialect) {
  const Op op = step.region.graph.node(step.region.anchor).op;
  if (op == Op::reduce_window && dialect == Dialect::c) return window_kernel(step, name);
  switch (op) {
    case Op::sort:
    case Op::top_k: return order_kernel(step, name, dialect);
    case Op::cholesky:
    case Op::triangular_solve: return triangle_kernel(step, name, dialect);
    default: return Special(step, name, dialect).make();
  }
}

}  // namespace systole::codegen
