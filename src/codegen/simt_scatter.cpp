// scatter for many threads, without atomics and with the same result on every run. Updates apply in their
// order, so all that could meet belong to one thread: threads share out what every update goes through whole
// ("lines"), and the places that indices choose ("parts"); in its part a thread looks at all updates and does
// those that fall on a place of its own.
//
// On CUDA, where the indices are the same for all lines and an update falls on one place, the threads of a
// group look at them together: each tests some, the group writes down in order which of them are its part's,
// and then every thread applies these to its lines.

#include <functional>

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

constexpr std::int64_t kLeastListed = 64, kMostListed = std::int64_t{1} << 30;  // updates
constexpr std::int64_t kListGroups = 1024;
constexpr std::int64_t kRounds =
    4;  // updates that a thread looks at before its group applies what they found
constexpr std::int64_t kMostOwn = 4;  // lines of a thread
constexpr std::int64_t kWarps = kThreads / 32;

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
    for (std::size_t i = 0; i < updates_.size(); ++i) {
      if (contains(a_.update_window_axes, i)) continue;
      listed_.sizes.push_back(updates_[i].value());
      listed_.names.push_back(fmt::format("u{}", i));
    }
  }

  Kernel make() {
    if (is_listed()) return make_listed();
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

  // Whether a group may list the updates of its part for all its lines.
  bool is_listed() const {
    if (dialect_ != Dialect::cuda || x_.count() == 0 || updates_.count() == 0) return false;
    for (std::size_t i = 0; i < updates_.size(); ++i)
      if (contains(a_.update_window_axes, i) ? !is_fixed(i) && updates_[i].value() != 1 : is_fixed(i))
        return false;
    return updates_listed() >= kLeastListed && updates_listed() <= kMostListed;
  }

  Kernel make_listed() {
    const std::int64_t lines = std::max<std::int64_t>(count(lines_), 1), places = count(places_);
    // Where there are fewer lines than threads, teams of them share out the places of the part.
    const std::int64_t teams = std::max<std::int64_t>(kThreads / lines, 1),
                       team = teams > 1 ? lines : kThreads;
    const std::int64_t own = std::min((lines + team - 1) / team, kMostOwn);
    const std::int64_t blocks = (lines + team * own - 1) / (team * own);
    parts_ = std::clamp<std::int64_t>(kListGroups / blocks, 1, places);
    const bool sets = a_.combine == ir::Combine::set;
    const auto open_lines = [&] {
      w_.line("S_UNROLL");
      w_.open(fmt::format("for (s_i32 l = 0; l < {}; ++l)", own));
      w_.line(fmt::format("const s_index line = first + l * {};", team));
      w_.open(fmt::format("if (line < {})", lines));
      open_item(w_, lines_, "line");
    };
    const auto close_lines = [&] {
      w_.close();
      w_.close();
    };
    const std::string there = fmt::format("to + {}", offset_of(true));
    function_.declare(
        fmt::format("S_LOCAL s_i32 counts[{}], listed[{}];", kRounds * kWarps, kRounds * kThreads));
    function_.declare(fmt::format("S_LOCAL s_index place_of[{}];", kRounds * kThreads));
    w_.line(fmt::format("const s_index part = S_GROUP % {0}, first = S_GROUP / {0} * {1} + S_LANE % {2};",
                        parts_, team * own, team));
    w_.line(fmt::format("const s_i32 mine = S_LANE / {}, warp = S_LANE / 32, bit = S_LANE % 32;", team));
    w_.line("// The places of this thread, when they lie elsewhere.");
    w_.open(fmt::format("if (mine < {} && (const S_GLOBAL void*){} != (const S_GLOBAL void*)in{})", teams,
                        function_.output(0), position(0)));
    w_.open(fmt::format("for (s_index c = part + mine * {0}; c < {1}; c += {2})", parts_, places,
                        parts_ * teams));
    open_item(w_, places_, "c");
    w_.line(fmt::format("const s_index to = {};", offset_of(false)));
    open_lines();
    w_.line(fmt::format("{0}[{1}] = in{2}[{1}];", function_.output(0), there, position(0)));
    close_lines();
    w_.close();
    w_.close();

    w_.line("// All updates in order, some at a time: which of them are of this part.");
    w_.line("s_index at = -1, to = 0;");
    if (!sets) w_.line(fmt::format("{} has[{}];", c_type(dtype()), own));
    w_.open(fmt::format("for (s_i32 base = 0; base < {}; base += {})", updates_listed(), kRounds * kThreads));
    w_.line(fmt::format("s_u32 found[{}];", kRounds));
    w_.line(fmt::format("s_index chosen[{}];", kRounds));
    w_.line("S_UNROLL");
    w_.open(fmt::format("for (s_i32 r = 0; r < {}; ++r)", kRounds));
    w_.line(fmt::format("const s_i32 update = base + r * {} + S_LANE;", kThreads));
    w_.line("chosen[r] = -1;");
    w_.open(fmt::format("if (update < {})", updates_listed()));
    choose();
    w_.close();
    w_.line(fmt::format("found[r] = __ballot_sync(0xffffffffu, chosen[r] >= 0 && chosen[r] % {} == part);",
                        parts_));
    w_.line(fmt::format("if (bit == 0) counts[r * {} + warp] = __popc(found[r]);", kWarps));
    w_.close();
    w_.line("S_BARRIER;");
    w_.line("s_i32 length = 0;");
    w_.line("S_UNROLL");
    w_.open(fmt::format("for (s_i32 r = 0; r < {}; ++r)", kRounds));
    w_.line("s_i32 before = 0;");
    w_.line("S_UNROLL");
    w_.open(fmt::format("for (s_i32 other = 0; other < {}; ++other)", kWarps));
    w_.line("if (other == warp) before = length;");
    w_.line(fmt::format("length += counts[r * {} + other];", kWarps));
    w_.close();
    w_.open("if (found[r] >> bit & 1)");
    w_.line("const s_i32 number = before + __popc(found[r] & ((1u << bit) - 1));");
    w_.line(fmt::format("listed[number] = base + r * {} + S_LANE;", kThreads));
    w_.line("place_of[number] = chosen[r];");
    w_.close();
    w_.close();
    w_.line("S_BARRIER;");
    // Some updates are on their way at a time.
    const std::int64_t ahead = own > 1 ? 4 : 8;
    const std::string is_mine =
        teams > 1 ? fmt::format(" && place_of[e] / {} % {} == mine", parts_, teams) : std::string();
    const auto open_ahead = [&] {
      w_.line("S_UNROLL");
      w_.open(fmt::format("for (s_i32 q = 0; q < {}; ++q)", ahead));
      w_.line("const s_i32 e = group + q;");
      w_.open(fmt::format("if (e < length{})", is_mine));
    };
    w_.open(fmt::format("for (s_i32 group = mine < {0} ? 0 : length; group < length; group += {1})", teams,
                        ahead));
    w_.line(fmt::format("{} news[{}];", sets ? storage_type(dtype()) : c_type(dtype()), ahead * own));
    open_ahead();
    w_.line("const s_index update = listed[e];");
    open_item(w_, listed_, "update");
    open_lines();
    std::string from = "0";
    const Ints strides = row_major_strides(updates_.dims());
    for (std::size_t i = 0; i < updates_.size(); ++i)
      if (updates_[i].value() > 1) from += fmt::format(" + {} * {}", at(i), strides[i]);
    w_.line(fmt::format("news[q * {} + l] = {};", own,
                        sets ? fmt::format("in{}[{}]", position(2), from) : element(2, from)));
    close_lines();
    w_.close();
    w_.close();
    open_ahead();
    w_.line("const s_index c = place_of[e];");
    w_.open("if (c != at)");
    if (!sets) {
      w_.open("if (at >= 0)");
      open_lines();
      store(there, "has[l]");
      close_lines();
      w_.close();
    }
    open_item(w_, places_, "c");
    w_.line(fmt::format("to = {};", offset_of(false)));
    w_.line("at = c;");
    if (!sets) {
      open_lines();
      w_.line(fmt::format("has[l] = {};", function_.elements().stored(function_.output(0), there, dtype())));
      close_lines();
    }
    w_.close();
    open_lines();
    const std::string mine_now = fmt::format("news[q * {} + l]", own);
    if (sets) {
      w_.line(fmt::format("{}[{}] = {};", function_.output(0), there, mine_now));
    } else {
      w_.line(fmt::format("const {} a = has[l], b = {};", c_type(dtype()), mine_now));
      w_.line(fmt::format("has[l] = {};",
                          function_.elements().rounded(dtype(), combined(a_.combine, dtype(), "a", "b"))));
    }
    close_lines();
    w_.close();
    w_.close();
    w_.close();
    w_.line("S_BARRIER;");
    w_.close();
    if (!sets) {
      w_.open("if (at >= 0)");
      open_lines();
      store(there, "has[l]");
      close_lines();
      w_.close();
    }
    return function_.finish_groups(parts_ * blocks);
  }

  // How far into x the places' axes, or the lines', reach.
  std::string offset_of(bool lines) const {
    std::string sum = "0";
    for (std::size_t axis = 0; axis < x_.size(); ++axis)
      if (is_free(axis) == lines && x_[axis].value() > 1)
        sum += fmt::format(" + x{} * {}", axis, x_strides_[axis]);
    return sum;
  }
  std::int64_t updates_listed() const { return count(listed_); }

  // The place of an update into chosen[r], where it lies inside x.
  void choose() {
    open_item(w_, listed_, "update");
    std::string number = "0";
    open_places([&](std::size_t i) { return updates_[i].value() > 1 ? at(i) : std::string("0"); });
    for (std::size_t axis = 0; axis < x_.size(); ++axis)
      if (!is_free(axis))
        number = fmt::format("({}) * {} + {}", number, x_[axis].value(),
                             contains(a_.index_map, axis) ? fmt::format("s{}", axis) : "0");
    w_.line(fmt::format("chosen[r] = {};", number));
    while (open_-- > 0) w_.close();
    open_ = 0;
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
    w_.line("// All updates in order.");
    for (std::size_t i = 0; i < updates_.size(); ++i)
      if (!contains(a_.update_window_axes, i)) open_axis(i);
    open_places([&](std::size_t i) { return at(i); });
    for (std::size_t i = 0; i < updates_.size(); ++i)
      if (contains(a_.update_window_axes, i)) open_axis(i);
  }
  // s0, …: where the update begins along the axes that its indices are for; opens what does those inside
  // alone.
  void open_places(const std::function<std::string(std::size_t)>& at_axis) {
    const Shape& indices = shape(1);
    const Ints strides = row_major_strides(indices.dims());
    const auto vector_axis = static_cast<std::size_t>(a_.index_vector_axis);
    std::string list = "0", inside;
    std::size_t next = 0;
    for (std::size_t i = 0; i < updates_.size(); ++i) {
      if (contains(a_.update_window_axes, i)) continue;
      if (next == vector_axis) ++next;
      list += fmt::format(" + {} * {}", at_axis(i), strides[next++]);
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
  Loops listed_;                                   // axes of the updates that are not of their windows
  std::int64_t parts_ = 1;
  int open_ = 0;
};

}  // namespace

Kernel simt_scatter_kernel(const lower::Step& step, const std::string& name, Dialect dialect) {
  return SimtScatter(step, name, dialect).make();
}

}  // namespace systole::codegen
