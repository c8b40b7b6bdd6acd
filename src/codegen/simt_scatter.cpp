// scatter for many threads, without atomics and with the same result on every run. Updates apply in their
// order, so all that could meet belong to one thread: threads share out what every update goes through whole
// ("lines"), and the places that indices choose ("parts"); in its part a thread looks at all updates and does
// those that fall on a place of its own.

#include "codegen/simt.h"
#include "codegen/special_parts.h"

namespace systole::codegen {

namespace {

// Threads that keep a device busy, and parts, in each of which all updates are looked at once: a GPU does
// that at no cost while it waits for memory.
struct Width {
  std::int64_t threads, parts;
};
constexpr Width kOfDevices{4096, 32}, kOfGpus{65536, 128};

bool contains(const Ints& axes, std::size_t axis) {
  return std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(axis)) != axes.end();
}

class SimtScatter : public SpecialKernel {
 public:
  SimtScatter(const lower::Step& step, const std::string& name, Dialect dialect)
      : SpecialKernel(step, name, dialect),
        a_(node_.as<ir::ScatterAttrs>()),
        x_(shape(0)),
        updates_(shape(2)),
        x_strides_(row_major_strides(x_.dims())),
        window_(x_.size(), 1),
        along_(updates_.size()) {
    follow_axes();
    for (std::size_t axis = 0; axis < x_.size(); ++axis) {
      Loops& side = is_free(axis) ? lines_ : places_;
      side.sizes.push_back(x_[axis].value());
      side.names.push_back(fmt::format("x{}", axis));
    }
  }

  Kernel make() {
    const std::int64_t lines = std::max<std::int64_t>(count(lines_), 1), places = count(places_);
    const Width width = dialect_ == Dialect::cuda ? kOfGpus : kOfDevices;
    const std::int64_t wanted = std::max<std::int64_t>(width.threads / lines, 1);
    parts_ = std::max<std::int64_t>(std::min({wanted, width.parts, places}), 1);
    open_items();
    w_.line(fmt::format("const s_index part = item / {0}, line = item % {0};", lines));
    open_item(w_, lines_, "line");
    copy_own_places();
    open_updates();
    apply();
    while (open_-- > 0) w_.close();
    w_.close();
    return function_.finish(x_.count() == 0 ? 0 : lines * parts_);
  }

 private:
  static std::int64_t count(const Loops& loops) {
    std::int64_t product = 1;
    for (const std::int64_t size : loops.sizes) product *= size;
    return product;
  }

  // Along which axis of x an axis of the updates runs, and how far windows reach along it.
  void follow_axes() {
    const auto vector_axis = static_cast<std::size_t>(a_.index_vector_axis);
    std::vector<std::size_t> windows;  // axes of x, in order
    for (std::size_t i = 0; i < x_.size(); ++i)
      if (!contains(a_.inserted_axes, i) && !contains(a_.operand_batch_axes, i)) windows.push_back(i);
    std::size_t next_index = 0, next_window = 0;
    for (std::size_t i = 0; i < updates_.size(); ++i) {
      if (contains(a_.update_window_axes, i)) {
        along_[i] = windows[next_window++];
        window_[*along_[i]] = updates_[i].value();
        continue;
      }
      if (next_index == vector_axis) ++next_index;
      for (std::size_t k = 0; k < a_.operand_batch_axes.size(); ++k)
        if (a_.index_batch_axes[k] == static_cast<std::int64_t>(next_index))
          along_[i] = static_cast<std::size_t>(a_.operand_batch_axes[k]);
      ++next_index;
    }
  }

  // Whether every update that reaches a place of the axis has a part of its own for it: it goes through the
  // whole axis, or the axis numbers batches.
  bool is_free(std::size_t axis) const {
    if (contains(a_.operand_batch_axes, axis)) return true;
    return !contains(a_.inserted_axes, axis) && window_[axis] == x_[axis].value();
  }
  bool is_fixed(std::size_t i) const { return along_[i] && is_free(*along_[i]); }  // axis i of the updates
  // Where on axis i of the updates the thread is.
  std::string at(std::size_t i) const {
    if (!is_fixed(i)) return fmt::format("u{}", i);
    return x_[*along_[i]].value() > 1 ? fmt::format("x{}", *along_[i]) : std::string("0");
  }

  void open(std::string_view head) {
    w_.open(head);
    ++open_;
  }
  void open_axis(std::size_t i) {
    if (!is_fixed(i)) open(fmt::format("for (s_index u{0} = 0; u{0} < {1}; ++u{0})", i, updates_[i].value()));
  }

  // What does not lie in the result's memory already.
  void copy_own_places() {
    w_.line("// The places of this thread, when they lie elsewhere.");
    w_.open(fmt::format("if ((const S_GLOBAL void*){} != (const S_GLOBAL void*)in{})", function_.output(0),
                        position(0)));
    w_.open(fmt::format("for (s_index c = part; c < {}; c += {})", count(places_), parts_));
    open_item(w_, places_, "c");
    std::string place = "0";
    for (std::size_t axis = 0; axis < x_.size(); ++axis)
      if (x_[axis].value() > 1) place += fmt::format(" + x{} * {}", axis, x_strides_[axis]);
    w_.line(fmt::format("const s_index place = {};", place));
    w_.line(fmt::format("{}[place] = in{}[place];", function_.output(0), position(0)));
    w_.close();
    w_.close();
  }

  // The loops over the updates, in order, with where each one starts; those outside are passed over.
  void open_updates() {
    const Shape& indices = shape(1);
    const Ints strides = row_major_strides(indices.dims());
    const auto vector_axis = static_cast<std::size_t>(a_.index_vector_axis);
    w_.line("// All updates in order.");
    std::string list = "0", inside;
    std::size_t next = 0;
    for (std::size_t i = 0; i < updates_.size(); ++i) {
      if (contains(a_.update_window_axes, i)) continue;
      if (next == vector_axis) ++next;
      list += fmt::format(" + {} * {}", at(i), strides[next++]);
      open_axis(i);
    }
    for (std::size_t k = 0; k < a_.index_map.size(); ++k) {
      const auto axis = static_cast<std::size_t>(a_.index_map[k]);
      const std::string component =
          vector_axis < indices.size()
              ? fmt::format(" + {}", static_cast<std::int64_t>(k) * strides[vector_axis])
              : std::string();
      w_.line(fmt::format("const s_i64 s{} = (s_i64){};", axis, element(1, list + component)));
      inside += fmt::format("{0}s{1} >= 0 && s{1} <= {2}", inside.empty() ? "" : " && ", axis,
                            x_[axis].value() - window_[axis]);
    }
    if (!inside.empty()) open(fmt::format("if ({})", inside));
    for (std::size_t i = 0; i < updates_.size(); ++i)
      if (contains(a_.update_window_axes, i)) open_axis(i);
  }

  void apply() {
    const Ints strides = row_major_strides(updates_.dims());
    std::string from = "0", to = "0", number = "0";
    for (std::size_t i = 0; i < updates_.size(); ++i) from += fmt::format(" + {} * {}", at(i), strides[i]);
    for (std::size_t axis = 0; axis < x_.size(); ++axis) {
      std::string index = contains(a_.index_map, axis) ? fmt::format("s{}", axis) : "0";
      for (std::size_t i = 0; i < updates_.size(); ++i)
        if (along_[i] == axis) index += fmt::format(" + {}", at(i));
      to += fmt::format(" + ({}) * {}", index, x_strides_[axis]);
      if (!is_free(axis)) number = fmt::format("({}) * {} + ({})", number, x_[axis].value(), index);
    }
    if (parts_ > 1) open(fmt::format("if (({}) % {} == part)", number, parts_));
    w_.line(fmt::format("const s_index place = {};", to));
    if (a_.combine == ir::Combine::set) {
      w_.line(fmt::format("{}[place] = in{}[{}];", function_.output(0), position(2), from));
      return;
    }
    Elements& elements = function_.elements();
    w_.line(fmt::format("const {} a = {}, b = {};", c_type(dtype()),
                        elements.stored(function_.output(0), "place", dtype()), element(2, from)));
    store("place", elements.rounded(dtype(), combined(a_.combine, dtype(), "a", "b")));
  }

  const ir::ScatterAttrs& a_;
  const Shape &x_, &updates_;
  const Ints x_strides_;
  std::vector<std::int64_t> window_;               // by axis of x
  std::vector<std::optional<std::size_t>> along_;  // by axis of the updates
  Loops lines_, places_;                           // axes of x: those a thread stays in, and the others
  std::int64_t parts_ = 1;
  int open_ = 0;
};

}  // namespace

Kernel simt_scatter_kernel(const lower::Step& step, const std::string& name, Dialect dialect) {
  return SimtScatter(step, name, dialect).make();
}

}  // namespace systole::codegen
