// Primitives whose kernel in C is one item, for many threads. What else has a kernel of its own takes its
// items in turn, as in C.

#include "codegen/simt.h"
#include "codegen/special_parts.h"

namespace systole::codegen {

namespace {

using ir::Op;

constexpr std::int64_t kManyThreads = 4096;  // keep a device busy
constexpr std::int64_t kMostParts = 32;      // all updates are looked at once in every part

bool contains(const Ints& axes, std::size_t axis) {
  return std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(axis)) != axes.end();
}

class SimtSpecial : public SpecialKernel {
 public:
  using SpecialKernel::SpecialKernel;

  // Every element is the operand's or the block's; what lies in its place already is left alone.
  Kernel update() {
    const Shape &x = shape(0), &block = shape(1);
    const Ints x_sizes = x.dims(), strides = row_major_strides(block.dims());
    w_.line(fmt::format("const s_bool moved = (const S_GLOBAL void*){} != (const S_GLOBAL void*)in{};",
                        function_.output(0), position(0)));
    for (std::size_t i = 0; i < x.size(); ++i)
      w_.line(fmt::format("const s_index s{} = {};", i, start_of(i + 2, x[i].value() - block[i].value())));
    open_items();
    const Loops loops = make_loops({x_sizes.begin(), x_sizes.end()}, "x");
    open_item(w_, loops, "item");
    std::string inside = "1", place = "0";
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::string at = fmt::format("({} - s{})", x[i].value() == 1 ? "0" : loops.names[i], i);
      if (x[i] != block[i]) inside += fmt::format(" && {0} >= 0 && {0} < {1}", at, block[i].value());
      place += fmt::format(" + {} * {}", at, strides[i]);
    }
    w_.line(fmt::format("if ({}) {}[item] = in{}[{}];", inside, function_.output(0), position(1), place));
    w_.line(fmt::format("else if (moved) {}[item] = in{}[item];", function_.output(0), position(0)));
    w_.close();
    return function_.finish(x.count());
  }

  // Updates apply in their order, so all that could meet are one thread's: threads share out the places that
  // indices choose ("parts") and everything that every update goes through ("free").
  Kernel scatter() {
    const auto& a = node_.as<ir::ScatterAttrs>();
    const Shape &x = shape(0), &indices = shape(1), &updates = shape(2);
    const auto vector_axis = static_cast<std::size_t>(a.index_vector_axis);
    const Ints x_strides = row_major_strides(x.dims()), i_strides = row_major_strides(indices.dims()),
               u_strides = row_major_strides(updates.dims());
    read_axes(a);
    // The axes of x that one thread stays in, and those it looks for its places in.
    Loops free, chosen;
    for (std::size_t axis = 0; axis < x.size(); ++axis) {
      Loops& side = is_free(a, axis) ? free : chosen;
      side.sizes.push_back(x[axis].value());
      side.names.push_back(fmt::format("x{}", axis));
    }
    const auto count = [](const Loops& loops) {
      std::int64_t product = 1;
      for (const std::int64_t size : loops.sizes) product *= size;
      return product;
    };
    const std::int64_t lines = count(free), places = count(chosen);
    const std::int64_t wanted = std::max<std::int64_t>(kManyThreads / std::max<std::int64_t>(lines, 1), 1);
    const std::int64_t parts = std::max<std::int64_t>(std::min({wanted, kMostParts, places}), 1);
    open_items();
    w_.line(
        fmt::format("const s_index part = item / {0}, line = item % {0};", std::max<std::int64_t>(lines, 1)));
    open_item(w_, free, "line");
    w_.open(fmt::format("if ((const S_GLOBAL void*){} != (const S_GLOBAL void*)in{})", function_.output(0),
                        position(0)));
    w_.open(fmt::format("for (s_index c = part; c < {}; c += {})", places, parts));
    open_item(w_, chosen, "c");
    std::string place = "0";
    for (std::size_t axis = 0; axis < x.size(); ++axis)
      if (x[axis].value() > 1) place += fmt::format(" + x{} * {}", axis, x_strides[axis]);
    w_.line(fmt::format("const s_index place = {};", place));
    w_.line(fmt::format("{}[place] = in{}[place];", function_.output(0), position(0)));
    w_.close();
    w_.close();

    // An update's axis that runs along a free axis of x is where the thread is.
    std::string from = "0", list = "0";
    int open = 0;
    for (std::size_t i = 0; i < updates.size(); ++i) {
      const std::optional<std::size_t> axis = along_[i];
      if (axis && is_free(a, *axis)) {
        from +=
            fmt::format(" + {} * {}", x[*axis].value() > 1 ? fmt::format("x{}", *axis) : "0", u_strides[i]);
      } else {
        from += fmt::format(" + u{} * {}", i, u_strides[i]);
      }
    }
    const auto here = [&](std::size_t i) {
      const std::optional<std::size_t> axis = along_[i];
      if (!axis || !is_free(a, *axis)) return fmt::format("u{}", i);
      return x[*axis].value() > 1 ? fmt::format("x{}", *axis) : std::string("0");
    };
    std::size_t next = 0;
    for (std::size_t i = 0; i < updates.size(); ++i) {
      if (contains(a.update_window_axes, i)) continue;
      if (next == vector_axis) ++next;
      list += fmt::format(" + {} * {}", here(i), i_strides[next++]);
      if (along_[i] && is_free(a, *along_[i])) continue;
      w_.open(fmt::format("for (s_index u{0} = 0; u{0} < {1}; ++u{0})", i, updates[i].value()));
      ++open;
    }
    std::string inside;
    for (std::size_t k = 0; k < a.index_map.size(); ++k) {
      const auto axis = static_cast<std::size_t>(a.index_map[k]);
      const std::string at =
          vector_axis < indices.size()
              ? fmt::format("{} + {}", list, static_cast<std::int64_t>(k) * i_strides[vector_axis])
              : list;
      w_.line(fmt::format("const s_i64 s{} = (s_i64){};", axis, element(1, at)));
      inside += fmt::format("{0}s{1} >= 0 && s{1} <= {2}", inside.empty() ? "" : " && ", axis,
                            x[axis].value() - window_[axis]);
    }
    if (!inside.empty()) {
      w_.open(fmt::format("if ({})", inside));
      ++open;
    }
    for (std::size_t i = 0; i < updates.size(); ++i) {
      if (!contains(a.update_window_axes, i) || (along_[i] && is_free(a, *along_[i]))) continue;
      w_.open(fmt::format("for (s_index u{0} = 0; u{0} < {1}; ++u{0})", i, updates[i].value()));
      ++open;
    }
    std::string to = "0", number = "0";
    for (std::size_t axis = 0; axis < x.size(); ++axis) {
      const bool mapped = contains(a.index_map, axis);
      std::string at = mapped ? fmt::format("s{}", axis) : "0";
      for (std::size_t i = 0; i < updates.size(); ++i)
        if (along_[i] == axis) at += fmt::format(" + {}", here(i));
      to += fmt::format(" + ({}) * {}", at, x_strides[axis]);
      if (!is_free(a, axis)) number = fmt::format("({}) * {} + ({})", number, x[axis].value(), at);
    }
    if (parts > 1) {
      w_.open(fmt::format("if (({}) % {} == part)", number, parts));
      ++open;
    }
    w_.line(fmt::format("const s_index place = {};", to));
    if (a.combine == ir::Combine::set) {
      w_.line(fmt::format("{}[place] = in{}[{}];", function_.output(0), position(2), from));
    } else {
      w_.line(fmt::format("const {} a = {}, b = {};", c_type(dtype()),
                          function_.elements().stored(function_.output(0), "place", dtype()),
                          element(2, from)));
      store("place", function_.elements().rounded(dtype(), combined(a.combine, dtype(), "a", "b")));
    }
    for (int i = 0; i < open; ++i) w_.close();
    w_.close();
    return function_.finish(x.count() == 0 ? 0 : lines * parts);
  }

 private:
  std::string start_of(std::size_t operand, std::int64_t room) {
    const std::string raw = element(operand, "0");
    if (is_unsigned_integer(graph_.type(node_.operands[operand]).dtype))
      return fmt::format("({0} > {1}u ? (s_i64){1} : (s_i64){0})", raw, room);
    return fmt::format("({0} < 0 ? (s_i64)0 : {0} > {1} ? (s_i64){1} : (s_i64){0})", raw, room);
  }

  // Along which axis of x an axis of the updates runs, and how far windows reach along it.
  void read_axes(const ir::ScatterAttrs& a) {
    const Shape &x = shape(0), &updates = shape(2);
    const auto vector_axis = static_cast<std::size_t>(a.index_vector_axis);
    window_.assign(x.size(), 1);
    along_.assign(updates.size(), std::nullopt);
    std::vector<std::size_t> windows;  // axes of x, in order
    for (std::size_t i = 0; i < x.size(); ++i)
      if (!contains(a.inserted_axes, i) && !contains(a.operand_batch_axes, i)) windows.push_back(i);
    std::size_t next_index = 0, next_window = 0;
    for (std::size_t i = 0; i < updates.size(); ++i) {
      if (contains(a.update_window_axes, i)) {
        along_[i] = windows[next_window++];
        window_[*along_[i]] = updates[i].value();
        continue;
      }
      if (next_index == vector_axis) ++next_index;
      for (std::size_t k = 0; k < a.operand_batch_axes.size(); ++k)
        if (a.index_batch_axes[k] == static_cast<std::int64_t>(next_index))
          along_[i] = static_cast<std::size_t>(a.operand_batch_axes[k]);
      ++next_index;
    }
  }

  // Whether every update that reaches a place of the axis has a part of its own for it: it goes through the
  // whole axis, or the axis numbers batches.
  bool is_free(const ir::ScatterAttrs& a, std::size_t axis) const {
    if (contains(a.operand_batch_axes, axis)) return true;
    return !contains(a.inserted_axes, axis) && window_[axis] == shape(0)[axis].value();
  }

  std::vector<std::optional<std::size_t>> along_;  // by axis of the updates
  std::vector<std::int64_t> window_;               // by axis of x
};

}  // namespace

std::optional<Kernel> simt_special_kernel(const lower::Step& step, const std::string& name, Dialect dialect) {
  switch (step.region.graph.node(step.region.anchor).op) {
    case Op::dynamic_update_slice: return SimtSpecial(step, name, dialect).update();
    case Op::scatter: return SimtSpecial(step, name, dialect).scatter();
    default: return special_kernel(step, name, dialect);
  }
}

}  // namespace systole::codegen
