// Reductions with the work around them, over the points of a domain, in passes ("stages"): a value that needs
// a row's sum is known in the pass after the one that sums.
//
// A group of threads takes `slots` rows at a time, `parts` threads for each; a thread visits every parts-th
// point of its row, and what the threads of a row know is combined by the emitter's one lane primitive. When
// the last axis is reduced, neighbouring threads share a row; when it is kept, they have neighbouring rows:
// either way they read neighbouring memory. Full values that a later pass needs again stay in registers when
// the row is short enough. A thread with many points of a sum takes them in runs, and adds these to a total.
//
// Where the last axis allows it, a thread has four neighbours of it and reads them at once: four rows when it
// is kept, four points of a row when it is reduced.
//
// Few rows with very many points are cut in chunks, one for each group, and every pass is a launch of its
// own: what a chunk sums goes to memory, where the next pass finds it. Where there are many chunks, a small
// launch between two passes adds up the sums of all chunks, which every group of the next pass would do
// otherwise. A last launch stores what belongs to rows.

#include <algorithm>
#include <bit>
#include <set>

#include "codegen/long_sum.h"
#include "codegen/row_passes.h"
#include "codegen/simt.h"

namespace systole::codegen {

namespace {

using ir::Op;

constexpr std::int64_t kWarp = 32;
constexpr std::int64_t kLeastWide = 16;   // rows
constexpr std::int64_t kLeastLong = 128;  // points of rows that are read four at a time
constexpr std::int64_t kMostRowGroups = 4096;
constexpr std::int64_t kMostWholeGroups = 65536;  // with a row each
constexpr std::int64_t kMostThreads = 1024;       // of a group
constexpr std::int64_t kMostLocalBytes = 40 * 1024;
constexpr std::int64_t kMostRegisters = 64;  // of a thread, for values that are kept
constexpr std::int64_t kMostKept = 32;       // points of a thread whose values are kept in them

std::int64_t power_of_two(std::int64_t n) {  // not below n
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(n, 1))));
}

class SimtRows {
 public:
  SimtRows(const lower::Step& step, const std::string& name, Dialect dialect, const Form& form,
           std::int64_t chunks = 1)
      : step_(step),
        form_(form),
        wide_(form.neighbours > 0 ? form.neighbours : 4),
        graph_(step.region.graph),
        dialect_(dialect),
        function_(step, name, dialect),
        w_(function_.writer()),
        stages_(lower::stages(graph_)),
        full_count_(step.domain->full_count()),
        row_count_(step.domain->row_count()),
        chunks_(chunks) {
    std::vector<std::int64_t> sizes;
    for (const auto& axis : step.domain->axes) sizes.push_back(axis.size);
    all_ = make_loops(loop_sizes(graph_, sizes), "x");
    // A finer axis is of the kind of the domain's axis it came from.
    std::size_t axis = 0;
    std::int64_t left = sizes.empty() ? 1 : sizes[0];
    for (std::size_t i = 0; i < all_.sizes.size(); ++i) {
      while (left == 1 && axis + 1 < sizes.size()) left = sizes[++axis];
      const bool reduced = step.domain->axes[axis].reduced;
      Loops& side = reduced ? inner_ : outer_;
      side.sizes.push_back(all_.sizes[i]);
      side.names.push_back(all_.names[i]);
      left /= std::max<std::int64_t>(all_.sizes[i], 1);
      last_is_reduced_ = reduced;
    }
    for (const std::int64_t size : inner_.sizes) length_ *= size;
    const std::int64_t grain = is_cut() && length_ % wide_ == 0 ? wide_ : 1;
    chunk_length_ = (length_ / grain + chunks_ - 1) / chunks_ * grain;
    for (std::size_t i = 0; i < graph_.outputs().size(); ++i)
      (graph_.output_type(i).shape.count() != row_count_ ? full_ : rows_).push_back(i);
    for (const int s : stages_) last_stage_ = std::max(last_stage_, s);
  }

  Kernel make() {
    if (full_count_ == 0) return empty();
    lay_out();
    find_kept();
    const std::int64_t groups = (units() + slots_ - 1) / slots_;
    const std::int64_t most = has_whole_groups() ? kMostWholeGroups : kMostRowGroups;
    comes_again_ = groups > most && reduction_count() == 1;
    write_places();
    // Without a loop nothing is kept in registers for the next turn.
    if (groups <= most) {
      w_.open("");
      w_.line(fmt::format("const s_index base = S_GROUP * {};", slots_));
    } else {
      w_.open(fmt::format("for (s_index base = S_GROUP * {0}; base < {1}; base += S_GROUPS * {0})", slots_,
                          units()));
    }
    write_row();
    Elements& elements = function_.elements();
    elements.push();
    for (int stage = 1; stage <= last_stage_; ++stage) pass(stage);
    // A row's result may lie where an operand does that the row's other threads still read.
    if (!rows_.empty() && parts_ > 1 && reductions(last_stage_).empty()) w_.line("S_BARRIER;");
    store(rows_, outer_.point(), "part == 0");
    elements.pop();
    w_.close();
    return function_.finish_groups(std::min(groups, most));
  }

  int passes() const { return last_stage_; }
  bool has_work(int stage) const {
    if (stage > last_stage_) return !rows_.empty();
    return !reductions(stage).empty() || !full_outputs(stage).empty();
  }

  // Whether a launch of its own adds up the chunks' sums of the stage, once for all groups of the passes
  // behind.
  bool has_totals(int stage) const {
    // What the groups read of the chunks' sums takes as long as the launch, from the L2 cache.
    constexpr std::int64_t kBytes = 32'000'000;
    bool is_wanted = false;
    for (int later = stage + 1; later <= last_stage_; ++later) is_wanted = is_wanted || has_work(later);
    const auto sums = static_cast<std::int64_t>(reductions(stage).size());
    return is_wanted && sums > 0 && chunks_ * chunks_ * row_count_ * sums * kPlace >= kBytes;
  }
  Kernel make_totals(int stage) {
    open_cut(true);
    for (const std::int32_t i : reductions(stage)) {
      read_chunks(i);
      const std::string condition = storing("part == 0");
      w_.line(fmt::format("{}{} = {};", condition.empty() ? "" : "if (" + condition + ") ", row_total(i),
                          sum(i)));
    }
    function_.elements().pop();
    return function_.finish_groups(blocks());
  }

  // Pass `stage` over the chunks of all rows; one after the last: what belongs to rows.
  Kernel make_cut(int stage) {
    const bool is_last = stage > last_stage_;
    open_cut(is_last);
    Elements& elements = function_.elements();
    if (is_last) read_ahead();
    for (int earlier = 1; earlier < stage; ++earlier)
      for (const std::int32_t i : reductions(earlier)) has_totals(earlier) ? read_total(i) : read_chunks(i);
    if (is_last) {
      store(rows_, outer_.point(), "part == 0");
    } else {
      pass(stage);
      for (const std::int32_t i : reductions(stage)) {
        open_wide();
        const std::string condition = storing("part == 0");
        w_.line(fmt::format("{}{} = {};", condition.empty() ? "" : "if (" + condition + ") ",
                            chunk_sum(i, "chunk"), sum(i)));
        close_wide();
      }
    }
    elements.pop();
    return function_.finish_groups(is_last ? blocks() : blocks() * chunks_);
  }

 private:
  static constexpr int kPlace = 8;  // bytes of a sum in memory

  std::int64_t blocks() const { return (units() + slots_ - 1) / slots_; }
  void open_cut(bool has_rows_alone) {
    has_rows_alone_ = has_rows_alone;
    lay_out();
    memory_ = function_.scratch("s_u8");
    write_places();
    w_.line(
        fmt::format("const s_index base = S_GROUP % {0} * {1}, chunk = S_GROUP / {0};", blocks(), slots_));
    write_row();
    function_.elements().push();
  }
  // Points that a thread takes at a time, and how often it does.
  std::int64_t at_once() const { return is_long_ ? wide_ : 1; }
  std::int64_t turns() const { return (chunk_length_ / at_once() + parts_ - 1) / parts_; }
  std::int64_t points_of_a_thread() const { return turns() * at_once(); }
  bool is_cut() const { return chunks_ > 1; }

  void write_places() {
    w_.line(
        fmt::format("const s_i32 slot = {}, part = {};",
                    adjacent() ? fmt::format("S_LANE / {}", parts_) : fmt::format("S_LANE % {}", slots_),
                    adjacent() ? fmt::format("S_LANE % {}", parts_) : fmt::format("S_LANE / {}", slots_)));
  }

  // What a slot is for: a row, or neighbouring ones.
  std::int64_t units() const { return is_wide_ ? row_count_ / wide_ : row_count_; }

  void write_row() {
    guarded_ = units() % slots_ != 0;
    const char* const unit = is_wide_ ? "unit" : "row";
    if (guarded_) {
      // All threads go the same way through the barriers; those without a row do the last one and store
      // nothing.
      w_.line(fmt::format("const s_i32 active = base + slot < {};", units()));
      w_.line(fmt::format("const s_index {} = active ? base + slot : {};", unit, units() - 1));
    } else {
      w_.line(fmt::format("const s_index {} = base + slot;", unit));
    }
    if (is_wide_ && outer_.sizes.back() == wide_) w_.line("const s_index step = 0;");
    open_item(w_, is_wide_ ? in_steps(outer_) : outer_, unit);
  }

  // The loops with the last in steps of a thread's neighbours.
  Loops in_steps(Loops loops) const {
    loops.sizes.back() /= wide_;
    loops.names.back() = "step";
    return loops;
  }
  // The axis of which a thread has neighbours.
  const std::string& near_axis() const { return (is_wide_ ? outer_ : inner_).names.back(); }

  // The loop over the neighbours of a thread, and over its rows where these are they.
  void open_near() {
    w_.line("S_UNROLL");
    w_.open(fmt::format("for (s_i32 j = 0; j < {}; ++j)", wide_));
    w_.line(fmt::format("const s_index {} = step * {} + j;", near_axis(), wide_));
    function_.elements().push();
  }
  void close_near() {
    function_.elements().pop();
    w_.close();
  }
  void open_wide() {
    if (is_wide_) open_near();
  }
  void close_wide() {
    if (is_wide_) close_near();
  }
  std::string named(std::string_view name, std::int32_t i) const {  // of the row
    return fmt::format("{}{}{}", name, i, is_wide_ ? "[j]" : "");
  }
  std::string sum(std::int32_t i) const { return named("sum", i); }
  // What decides whether a thread stores.
  std::string storing(std::string condition) const {
    if (parts_ == 1) condition.clear();
    if (guarded_) condition = condition.empty() ? "active" : "active && " + condition;
    return condition;
  }
  void declare(std::string_view name, std::int32_t i, const std::string& value) {
    if (is_wide_) w_.line(fmt::format("{} {}{}[{}];", c_type(dtype_of(i)), name, i, wide_));
    open_wide();
    w_.line(fmt::format("{}{} = {};", is_wide_ ? "" : fmt::format("{} ", c_type(dtype_of(i))), named(name, i),
                        value));
    close_wide();
  }

  // Where a chunk's part of a reduction is.
  std::string chunk_sum(std::int32_t i, std::string_view chunk) const {
    return place(i, fmt::format("({} + (s_i64){})", number_of(i) * chunks_, chunk));
  }
  // Where all chunks' sum of it is: behind those of the chunks.
  std::string row_total(std::int32_t i) const {
    return place(i, fmt::format("{}", reduction_count() * chunks_ + number_of(i)));
  }
  std::string place(std::int32_t i, const std::string& line) const {
    const std::string row = is_wide_ ? fmt::format("unit * {} + j", wide_) : std::string("row");
    return fmt::format("*(S_GLOBAL {}*)({} + {} * ({} * {} + {}))", c_type(dtype_of(i)), memory_, kPlace,
                       line, row_count_, row);
  }
  std::int64_t number_of(std::int32_t i) const {
    std::int64_t number = 0;
    for (std::int32_t k = 0; k < i; ++k) number += graph_.node(k).op == Op::reduce ? 1 : 0;
    return number;
  }
  void read_total(std::int32_t i) {
    declare("sum", i, row_total(i));
    function_.elements().define({i, 0}, function_.elements().rounded(dtype_of(i), sum(i)));
  }

  // What belongs to the row is on its way while the chunks' sums are.
  void read_ahead() {
    Function trial(step_, "trial", dialect_);
    for (int stage = 1; stage <= last_stage_; ++stage)
      for (const std::int32_t i : reductions(stage)) trial.elements().define({i, 0}, sum(i));
    for (const std::size_t o : rows_) trial.elements().bits_at(graph_.outputs()[o].value, outer_.point());
    std::set<std::pair<std::size_t, std::string>> seen;
    for (const Elements::Load& load : trial.elements().loads()) {
      const auto& terms = load.place.terms();
      const bool is_known = std::all_of(terms.begin(), terms.end(), [&](const auto& term) {
        return std::find(outer_.names.begin(), outer_.names.end(), term.first) != outer_.names.end();
      });
      const std::string place = load.place.to_string();
      if (load.conditional || !is_known || !seen.insert({load.input, place}).second) continue;
      const std::string name = fmt::format("r{}", seen.size() - 1);
      w_.line(fmt::format("const {} {} = in{}[{}];", storage_type(graph_.input_type(load.input).dtype), name,
                          load.input, place));
      function_.elements().read_from(load.input, load.place, name);
    }
  }

  // What all chunks of the row have together.
  void read_chunks(std::int32_t i) {
    declare("sum", i, identity(kind_of(i), dtype_of(i)));
    w_.line("S_UNROLL_MORE");  // they are all on their way at a time
    w_.open(fmt::format("for (s_i32 c = part; c < {}; c += {})", chunks_, parts_));
    open_wide();
    w_.line(fmt::format("const {} of_chunk = {};", c_type(dtype_of(i)), chunk_sum(i, "c")));
    w_.line(fmt::format("{} = {};", sum(i), combined(kind_of(i), dtype_of(i), sum(i), "of_chunk")));
    close_wide();
    w_.close();
    combine_parts(i);
    function_.elements().define({i, 0}, function_.elements().rounded(dtype_of(i), sum(i)));
  }
  bool has_total(std::int32_t node) const {
    return is_long_sum(kind_of(node), dtype_of(node), points_of_a_thread());
  }

  // Whether the threads of a row are neighbours.
  bool adjacent() const { return last_is_reduced_; }
  // Whether a row has all warps of a group, that combine by shuffles.
  bool has_whole_groups() const { return dialect_ == Dialect::cuda && adjacent() && parts_ > kWarp; }

  void lay_out() {
    adjacent() ? lay_out_points() : lay_out_rows();
    slots_ = threads_ / parts_;
    function_.set_threads(static_cast<int>(threads_));
  }
  bool is_large(std::int64_t threads) const {  // for a group
    return threads > (dialect_ == Dialect::cuda ? kMostThreads : kThreads);
  }
  void lay_out_points() {
    is_long_ = !inner_.sizes.empty() && inner_.sizes.back() % wide_ == 0 && chunk_length_ % wide_ == 0 &&
               length_ >= kLeastLong;
    // A warp needs no memory to combine: longer rows get a whole group when there is work for all of it, and
    // earlier where there is no row for each of its warps.
    constexpr std::int64_t kMostOfAWarp = 512, kMostOfAGroup = 4096, kFewTurns = 4;
    const bool are_few = units() < kThreads / kWarp;
    const bool is_short = chunk_length_ <= (are_few    ? kFewTurns * kWarp * at_once()
                                            : is_long_ ? 2 * kMostOfAWarp
                                                       : kMostOfAWarp);
    parts_ = std::min(power_of_two(chunk_length_ / at_once()), is_short ? kWarp : std::int64_t{kThreads});
    if (is_short && are_few) threads_ = std::max(parts_ * power_of_two(units()), kWarp);
    while (!is_short && !is_large(2 * threads_) && is_long_ &&
           chunk_length_ > threads_ / kThreads * kMostOfAGroup)
      parts_ = threads_ *= 2;
    if (form_.threads == 0) return;
    // A row that needs a group has it whole, rows of warps have more of them.
    if (!is_short)
      parts_ = threads_ = std::min<std::int64_t>(power_of_two(chunk_length_ / at_once()), form_.threads);
    else
      threads_ = form_.threads;
  }
  void lay_out_rows() {
    is_wide_ = !has_rows_alone_ && outer_.sizes.back() % wide_ == 0 && row_count_ >= kLeastWide;
    slots_ = std::min(power_of_two(units()), kWarp);
    const std::int64_t useful = has_rows_alone_ ? power_of_two(chunks_)
                                : length_ < 8   ? 1
                                                : power_of_two(chunk_length_);
    // Few rows: a thread has a few points only, and neighbours still fill a line of memory.
    constexpr std::int64_t kFewGroups = 128, kLine = 8, kFewPoints = 4;
    if (is_wide_ && !is_cut())
      while (slots_ > kLine && units() / slots_ < kFewGroups && useful * slots_ > kFewPoints * kThreads)
        slots_ /= 2;
    while (is_wide_ && !is_cut() && !is_large(2 * threads_) && useful * slots_ > kFewPoints * threads_)
      threads_ *= 2;
    // What a thread waits for is memory alone: the more of them the better.
    while (has_rows_alone_ && !is_large(2 * threads_) && useful * slots_ > threads_) threads_ *= 2;
    if (form_.threads > 0 && !has_rows_alone_) threads_ = form_.threads;
    while (threads_ > kThreads && local_bytes() > kMostLocalBytes) threads_ /= 2;
    parts_ = std::min(useful, threads_ / slots_);
    if (parts_ * slots_ < threads_) threads_ = std::max<std::int64_t>(parts_ * slots_, kThreads);
  }

  // Of what the warps of a group put side by side, of every type.
  std::int64_t local_bytes() const {
    std::set<std::string_view> types;
    std::int64_t bytes = 0;
    for (std::int32_t i = 0; i < graph_.size(); ++i)
      if (graph_.node(i).op == Op::reduce && types.insert(c_type(dtype_of(i))).second)
        bytes += threads_ / kWarp * slots_ * (is_wide_ ? wide_ : 1) *
                 static_cast<std::int64_t>(std::max<std::size_t>(size_of(dtype_of(i)), 4));
    return bytes;
  }

  // Passes visit values from what they sum and store; a value that an earlier pass visited could be kept.
  void find_kept() {
    if (length_ == 1 || parts_ == 0 || is_wide_) return;
    std::vector<std::vector<std::int32_t>> wanted;
    for (int stage = 1; stage <= last_stage_; ++stage) {
      std::vector<std::int32_t>& nodes = wanted.emplace_back();
      for (const std::int32_t i : reductions(stage)) nodes.push_back(graph_.node(i).operands[0].node);
      for (const std::size_t i : full_outputs(stage)) nodes.push_back(graph_.outputs()[i].value.node);
    }
    kept_ = read_again(graph_, full_count_, wanted, is_keepable);
    const std::int64_t points = points_of_a_thread();
    std::int64_t words = 0;
    for (const std::int32_t i : kept_)
      words += std::max<std::int64_t>(static_cast<std::int64_t>(size_of(dtype_of(i))) / 4, 1) * points;
    if (points > kMostKept || words > kMostRegisters) kept_.clear();
    // Rows wait for each other's sums: others are to be read meanwhile.
    constexpr std::int64_t kFewWords = 36, kBusyThreads = 1024;
    if (dialect_ == Dialect::cuda && parts_ > kWarp && words <= kFewWords)
      function_.set_resident(static_cast<int>(kBusyThreads / threads_));
  }

  static bool is_keepable(const ir::Node& node) {
    switch (node.op) {
      case Op::reshape:
      case Op::broadcast:
      case Op::constant:
      case Op::iota: return false;
      default: return true;
    }
  }
  std::string kept(std::int32_t node) const {
    return fmt::format("kept{}[{}]", node, is_long_ ? fmt::format("k * {} + j", wide_) : std::string("k"));
  }

  std::vector<std::int32_t> reductions(int stage) const {
    std::vector<std::int32_t> found;
    for (std::int32_t i = 0; i < graph_.size(); ++i)
      if (graph_.node(i).op == Op::reduce && stages_[static_cast<std::size_t>(i)] == stage)
        found.push_back(i);
    return found;
  }
  std::int64_t reduction_count() const {
    return std::count_if(graph_.nodes().begin(), graph_.nodes().end(),
                         [](const ir::Node& node) { return node.op == Op::reduce; });
  }
  std::vector<std::size_t> full_outputs(int stage) const {
    std::vector<std::size_t> found;
    for (const std::size_t i : full_)
      if (stages_[static_cast<std::size_t>(graph_.outputs()[i].value.node)] == stage) found.push_back(i);
    return found;
  }
  // Results that earlier launches stored and this pass would compute again from more bytes than they have.
  std::vector<std::size_t> stored_before(int stage) const {
    std::vector<std::int32_t> stack;
    for (const std::int32_t i : reductions(stage)) stack.push_back(graph_.node(i).operands[0].node);
    for (const std::size_t o : full_outputs(stage)) stack.push_back(graph_.outputs()[o].value.node);
    std::vector<std::size_t> found;
    std::set<std::int32_t> seen;
    while (!stack.empty()) {
      const std::int32_t i = stack.back();
      stack.pop_back();
      if (!seen.insert(i).second) continue;
      const auto stored = std::find_if(full_.begin(), full_.end(), [&](std::size_t o) {
        return graph_.outputs()[o].value.node == i && stages_[static_cast<std::size_t>(i)] < stage;
      });
      if (stored != full_.end() && bytes_read_for(i) > graph_.output_type(*stored).bytes())
        found.push_back(*stored);
      else
        push_elementwise(i, stack);
    }
    return found;
  }
  // The operands that the node reads at its own point.
  void push_elementwise(std::int32_t i, std::vector<std::int32_t>& stack) const {
    const ir::Node& node = graph_.node(i);
    if (node.types[0].shape.count() != full_count_) return;
    if (ir::info(node.op).op_class == ir::OpClass::elementwise || node.op == Op::reshape)
      for (const ir::ValueId v : node.operands) stack.push_back(v.node);
  }
  // Bytes of what a full value is computed from at its point: inputs and what is gathered, rows aside.
  std::int64_t bytes_read_for(std::int32_t i) const {
    std::vector<std::int32_t> stack{i};
    std::set<std::int32_t> seen;
    std::int64_t bytes = 0;
    while (!stack.empty()) {
      const std::int32_t k = stack.back();
      stack.pop_back();
      if (!seen.insert(k).second) continue;
      const ir::Node& node = graph_.node(k);
      const bool is_gathered = node.op == Op::pad || node.op == Op::slice || node.op == Op::concat;
      if ((node.op == Op::input || is_gathered) && node.types[0].shape.count() == full_count_)
        bytes += node.types[0].bytes();
      push_elementwise(k, stack);
    }
    return bytes;
  }
  void know_stored(std::size_t o, const std::string& array, const std::string& place) {
    const ir::ValueId v = graph_.outputs()[o].value;
    function_.elements().know_at(v, all_.point(),
                                 function_.elements().stored(array, place, graph_.output_type(o).dtype));
  }

  DType dtype_of(std::int32_t node) const { return graph_.node(node).types[0].dtype; }
  ir::Combine kind_of(std::int32_t node) const { return graph_.node(node).as<ir::ReduceAttrs>().kind; }

  void pass(int stage) {
    const std::vector<std::int32_t> sums = reductions(stage);
    const std::vector<std::size_t> outputs = full_outputs(stage);
    if (sums.empty() && outputs.empty()) return;
    stored_before_.clear();
    if (is_cut()) stored_before_ = stored_before(stage);
    const std::int64_t points = points_of_a_thread();
    if (stage == 1)
      for (const std::int32_t i : kept_)
        w_.line(fmt::format("{} kept{}[{}];", c_type(dtype_of(i)), i, points));
    w_.line(fmt::format("// Pass {}.", stage));
    know_rows(stage, sums, outputs);
    for (const std::int32_t i : sums) declare("sum", i, identity(kind_of(i), dtype_of(i)));
    const bool in_runs = open_runs(sums);
    if (!kept_.empty())
      w_.line("S_UNROLL");
    else if (turns() > 1)
      w_.line("S_UNROLL_SOME");
    w_.open(fmt::format("for (s_index k = {}; k < {}; ++k)", in_runs ? "run" : "0",
                        in_runs ? "stop" : std::to_string(turns())));
    const std::int64_t units = chunk_length_ / at_once(), all_units = length_ / at_once();
    const bool tail = chunks_ * units != all_units || units % parts_ != 0;
    if (is_cut()) {
      w_.line(fmt::format("const s_index along = k * {} + part, point = chunk * {} + along;", parts_, units));
      if (tail) w_.open(fmt::format("if (along < {} && point < {})", units, all_units));
    } else {
      w_.line(fmt::format("const s_index point = k * {} + part;", parts_));
      if (tail) w_.open(fmt::format("if (point < {})", all_units));
    }
    open_item(w_, is_long_ ? in_steps(inner_) : inner_, "point");
    if (is_long_ && inner_.sizes.back() == wide_) w_.line("const s_index step = 0;");
    is_wide_ || is_long_ ? wide_body(sums, outputs) : body(sums, outputs);
    if (tail) w_.close();
    w_.close();
    if (in_runs) close_runs(sums);
    for (const std::int32_t i : sums) {
      combine_parts(i);
      function_.elements().define({i, 0}, function_.elements().rounded(dtype_of(i), sum(i)));
    }
  }

  // Computes what the points of a row have in common before the loop over them: in the loop its loads stand
  // behind a condition, where no compiler moves them from, nor what depends on them.
  void know_rows(int stage, const std::vector<std::int32_t>& sums, const std::vector<std::size_t>& outputs) {
    if (is_wide_) return;  // a thread has several rows
    std::vector<std::int32_t> stack;
    for (const std::int32_t i : sums) stack.push_back(graph_.node(i).operands[0].node);
    for (const std::size_t o : outputs) stack.push_back(graph_.outputs()[o].value.node);
    std::set<std::int32_t> seen;
    while (!stack.empty()) {
      const std::int32_t i = stack.back();
      stack.pop_back();
      if (!seen.insert(i).second) continue;
      if (graph_.node(i).op == Op::broadcast)
        know_row(stage, graph_.node(i));
      else
        push_elementwise(i, stack);
    }
  }
  void know_row(int stage, const ir::Node& broadcast) {
    const ir::ValueId row = broadcast.operands[0];
    const ir::Node& node = graph_.node(row.node);
    const bool is_computed = ir::info(node.op).op_class == ir::OpClass::elementwise;
    if (!is_computed && node.op != Op::input) return;
    if (stages_[static_cast<std::size_t>(row.node)] > stage) return;
    Indices at, from(node.types[0].shape.size());
    if (!split(all_.point(), broadcast.types[0].shape, at)) return;
    const auto& axes = broadcast.as<ir::BroadcastAttrs>().axes;
    for (std::size_t i = 0; i < from.size(); ++i)
      if (node.types[0].shape[i].value() != 1) from[i] = at[static_cast<std::size_t>(axes[i])];
    for (const Index& index : from)
      for (const auto& [name, term] : index.terms())
        if (std::find(outer_.names.begin(), outer_.names.end(), name) == outer_.names.end()) return;
    function_.elements().value(row, from);
  }

  // Opens the loop over runs where there are long sums; returns whether it did.
  bool open_runs(const std::vector<std::int32_t>& sums) {
    bool any = false;
    for (const std::int32_t i : sums) {
      if (!has_total(i)) continue;
      declare("total", i, "0");
      any = true;
    }
    if (!any) return false;
    const std::int64_t run = kRun / at_once();
    w_.open(fmt::format("for (s_index run = 0; run < {}; run += {})", turns(), run));
    w_.line(fmt::format("const s_index stop = run + {0} < {1} ? run + {0} : {1};", run, turns()));
    return true;
  }
  void close_runs(const std::vector<std::int32_t>& sums) {
    for (const std::int32_t i : sums) {
      if (!has_total(i)) continue;
      open_wide();
      end_run(w_, c_type(dtype_of(i)), named("total", i), sum(i));
      close_wide();
    }
    w_.close();
    for (const std::int32_t i : sums) {
      if (!has_total(i)) continue;
      open_wide();
      w_.line(fmt::format("{} += {};", sum(i), named("total", i)));
      close_wide();
    }
  }

  void wide_body(const std::vector<std::int32_t>& sums, const std::vector<std::size_t>& outputs) {
    Elements& elements = function_.elements();
    const std::string& x = near_axis();
    elements.push();
    for (const std::size_t o : outputs)
      w_.line(fmt::format("{} result{}[{}];", storage_type(graph_.output_type(o).dtype), o, wide_));
    const Index first = all_.point() + Index::variable(x, 2) * -1 + Index::variable("step", 2) * wide_;
    for (const std::size_t o : stored_before_) {
      w_.line(fmt::format("{} was{}[{}];", storage_type(graph_.output_type(o).dtype), o, wide_));
      w_.line(fmt::format("{}(was{}, {} + {});", read_back_function(step_, o, wide_), o, function_.output(o),
                          first.to_string()));
    }
    std::vector<std::string> others;
    for (const std::string& name : all_.names)
      if (name != x) others.push_back(name);
    w_.mark();
    elements.lift(others);
    elements.read_together({x, "step", wide_, [&](std::size_t i) { return load_function(step_, i, wide_); }});
    open_near();
    know_kept();
    for (const std::size_t o : stored_before_) know_stored(o, fmt::format("was{}", o), "j");
    for (const std::int32_t i : sums) {
      const std::string v = elements.value_at(graph_.node(i).operands[0], all_.point());
      w_.line(fmt::format("{} = {};", sum(i), combined(kind_of(i), dtype_of(i), sum(i), v)));
    }
    for (const std::size_t o : outputs)
      w_.line(fmt::format("result{}[j] = {};", o, elements.bits_at(graph_.outputs()[o].value, all_.point())));
    keep();
    close_near();
    elements.read_apart();
    elements.lift_nothing();
    if (!outputs.empty() && guarded_) w_.open("if (active)");
    for (const std::size_t o : outputs)
      w_.line(fmt::format("{}({} + {}, result{});", store_function(step_, o, wide_), function_.output(o),
                          first.to_string(), o));
    if (!outputs.empty() && guarded_) w_.close();
    elements.pop();
  }

  void body(const std::vector<std::int32_t>& sums, const std::vector<std::size_t>& outputs) {
    Elements& elements = function_.elements();
    elements.push();
    know_kept();
    for (const std::size_t o : stored_before_)
      know_stored(o, function_.output(o), "(" + all_.point().to_string() + ")");
    for (const std::int32_t i : sums) {
      const std::string v = elements.value_at(graph_.node(i).operands[0], all_.point());
      const std::string sum = fmt::format("sum{}", i);
      w_.line(fmt::format("{} = {};", sum, combined(kind_of(i), dtype_of(i), sum, v)));
    }
    store(outputs, all_.point(), "");
    keep();
    elements.pop();
  }

  void know_kept() {
    for (const std::int32_t i : kept_)
      if (stored_.contains(i)) function_.elements().know_at({i, 0}, all_.point(), kept(i));
  }
  void keep() {
    Elements& elements = function_.elements();
    for (const std::int32_t i : kept_) {
      if (stored_.contains(i) || !elements.knows_at({i, 0}, all_.point())) continue;
      w_.line(fmt::format("{} = {};", kept(i), elements.value_at({i, 0}, all_.point())));
      stored_.insert(i);
    }
  }

  // Computes the outputs at a point, then stores them: an output may lie where an input does.
  void store(const std::vector<std::size_t>& outputs, const Index& at, std::string condition) {
    if (outputs.empty()) return;
    Elements& elements = function_.elements();
    open_wide();
    std::vector<std::string> values;
    for (const std::size_t i : outputs) values.push_back(elements.bits_at(graph_.outputs()[i].value, at));
    condition = storing(std::move(condition));
    if (!condition.empty()) w_.open(fmt::format("if ({})", condition));
    for (std::size_t k = 0; k < outputs.size(); ++k)
      w_.line(fmt::format("{}[{}] = {};", function_.output(outputs[k]), at.to_string(), values[k]));
    if (!condition.empty()) w_.close();
    close_wide();
  }

  // The lane primitive: every thread of a row learns what all of them together have in sum<i>.
  void combine_parts(std::int32_t i) {
    if (parts_ == 1) return;
    const DType dtype = dtype_of(i);
    const std::string sum = this->sum(i);
    const std::string_view type = c_type(dtype);
    const auto combine = [&](const std::string& with) {
      return fmt::format("{} = {};", sum, combined(kind_of(i), dtype, sum, with));
    };
    w_.line("// What all threads of the row have together.");
    if (dialect_ == Dialect::cuda && adjacent()) {
      const std::string_view wide = size_of(dtype) < 4 && !is_float(dtype) ? "s_i32" : type;
      const auto shuffle = [&](std::int64_t threads) {
        w_.open(fmt::format("for (s_i32 d = {}; d > 0; d /= 2)", threads / 2));
        w_.line(fmt::format("const {0} other = ({0})__shfl_xor_sync(0xffffffffu, ({1}){2}, d);", type, wide,
                            sum));
        w_.line(combine("other"));
        w_.close();
      };
      shuffle(std::min(parts_, kWarp));
      if (!has_whole_groups()) return;
      // Every reduction has a place of its own: who writes there has passed the barrier of another one since
      // it was read, unless there is no other.
      const std::int64_t warps = threads_ / kWarp;
      const std::string places = fmt::format("warps{}", i);
      function_.declare(fmt::format("S_LOCAL {} {}[{}];", type, places, warps));
      w_.line(fmt::format("if (S_LANE % {0} == 0) {1}[S_LANE / {0}] = {2};", kWarp, places, sum));
      w_.line("S_BARRIER;");
      w_.line(fmt::format("{} = {}[S_LANE % {}];", sum, places, warps));
      shuffle(warps);
      if (comes_again_) w_.line("S_BARRIER;");
      return;
    }
    if (dialect_ == Dialect::cuda && slots_ <= kWarp) return combine_warps(i);
    const std::string lanes = local_array(dtype, threads_);
    const std::int64_t stride = adjacent() ? 1 : slots_;
    open_wide();
    w_.line(fmt::format("{}[S_LANE] = {};", lanes, sum));
    w_.line("S_BARRIER;");
    w_.open(fmt::format("for (s_i32 d = {}; d > 0; d /= 2)", parts_ / 2));
    const std::string mine = fmt::format("{}[S_LANE]", lanes);
    w_.open("if (part < d)");
    w_.line(fmt::format("const {0} a = {1}, b = {2}[S_LANE + d * {3}];", type, mine, lanes, stride));
    w_.line(fmt::format("{} = {};", mine, combined(kind_of(i), dtype, "a", "b")));
    w_.close();
    w_.line("S_BARRIER;");
    w_.close();
    w_.line(fmt::format("{} = {}[S_LANE - part * {}];", sum, lanes, stride));
    w_.line("S_BARRIER;");
    close_wide();
  }

  // Neighbouring threads have neighbouring rows: what the warps have is put side by side, and one thread per
  // row adds it up.
  void combine_warps(std::int32_t i) {
    const DType dtype = dtype_of(i);
    const std::string_view type = c_type(dtype),
                           wide = size_of(dtype) < 4 && !is_float(dtype) ? "s_i32" : type;
    const std::string sum = this->sum(i);
    const std::int64_t warps = threads_ / kWarp, rows = slots_ * (is_wide_ ? wide_ : 1);
    const auto combine = [&](const std::string& with) {
      return fmt::format("{} = {};", sum, combined(kind_of(i), dtype, sum, with));
    };
    if (slots_ < kWarp) {
      open_wide();
      w_.open(fmt::format("for (s_i32 d = {}; d >= {}; d /= 2)", kWarp / 2, slots_));
      w_.line(
          fmt::format("const {0} other = ({0})__shfl_xor_sync(0xffffffffu, ({1}){2}, d);", type, wide, sum));
      w_.line(combine("other"));
      w_.close();
      close_wide();
    }
    const std::string lanes = local_array(dtype, warps * rows);
    const std::string row = is_wide_ ? fmt::format("slot * {} + j", wide_) : std::string("slot");
    w_.open(fmt::format("if (S_LANE % {} < {})", kWarp, slots_));
    open_wide();
    w_.line(fmt::format("{}[S_LANE / {} * {} + {}] = {};", lanes, kWarp, rows, row, sum));
    close_wide();
    w_.close();
    w_.line("S_BARRIER;");
    w_.open(fmt::format("if (S_LANE < {})", rows));
    w_.line(fmt::format("{} all = {}[S_LANE];", type, lanes));
    w_.line(fmt::format("for (s_i32 d = 1; d < {}; ++d) all = {};", warps,
                        combined(kind_of(i), dtype, "all", fmt::format("{}[d * {} + S_LANE]", lanes, rows))));
    w_.line(fmt::format("{}[S_LANE] = all;", lanes));
    w_.close();
    w_.line("S_BARRIER;");
    open_wide();
    w_.line(fmt::format("{} = {}[{}];", sum, lanes, row));
    close_wide();
    w_.line("S_BARRIER;");
  }

  // Local memory for a combination; those of one type share it.
  std::string local_array(DType dtype, std::int64_t count) {
    std::string name = fmt::format("lanes_{}", c_type(dtype));
    if (local_.insert(name).second)
      function_.declare(fmt::format("S_LOCAL {} {}[{}];", c_type(dtype), name, count));
    return name;
  }

  // Rows of nothing are the identity.
  Kernel empty() {
    Elements& elements = function_.elements();
    for (std::int32_t i = 0; i < graph_.size(); ++i)
      if (graph_.node(i).op == Op::reduce)
        elements.define({i, 0},
                        fmt::format("(({}){})", c_type(dtype_of(i)), identity(kind_of(i), dtype_of(i))));
    w_.open("for (s_index item = begin; item < end; item += S_STEP)");
    elements.push();
    const Index item = Index::variable("item", std::max<std::int64_t>(row_count_, 1));
    function_.store(rows_, std::vector<Index>(rows_.size(), item));
    elements.pop();
    w_.close();
    return function_.finish(row_count_);
  }

  const lower::Step& step_;
  const Form form_;
  const std::int64_t wide_;  // neighbours of a thread, where it has several
  const ir::Graph& graph_;
  const Dialect dialect_;
  Function function_;
  Writer& w_;
  const std::vector<int> stages_;
  int last_stage_ = 1;
  std::int64_t full_count_, row_count_, length_ = 1;
  std::int64_t chunks_ = 1, chunk_length_ = 1;
  std::string memory_;         // of what chunks know
  Loops all_, outer_, inner_;  // outer: the kept axes, inner: the reduced ones
  bool last_is_reduced_ = true;
  std::vector<std::size_t> full_, rows_;  // outputs
  std::int64_t slots_ = 1, parts_ = 1, threads_ = kThreads;
  bool is_wide_ = false, is_long_ = false;  // a thread has neighbouring rows, or points
  bool guarded_ = false;
  bool has_rows_alone_ = false;             // a last launch, whose points are the chunks' sums
  bool comes_again_ = false;                // a group, to the one reduction there is
  std::vector<std::size_t> stored_before_;  // results of earlier launches that the pass in hand reads
  std::set<std::int32_t> kept_, stored_;    // values a later pass needs again; those that are there
  std::set<std::string> local_;
};

}  // namespace

Kernel simt_rows_kernel(const lower::Step& step, const std::string& name, Dialect dialect, const Form& form) {
  return SimtRows(step, name, dialect, form).make();
}

std::vector<Kernel> simt_cut_rows_kernels(const lower::Step& step, const std::string& name, Dialect dialect,
                                          const Form& form) {
  std::vector<Kernel> all;
  const SimtRows whole(step, name, dialect, form, step.chunks);
  for (int stage = 1; stage <= whole.passes() + 1; ++stage) {
    const std::string pass = fmt::format("{}_pass{}", name, stage);
    if (whole.has_work(stage))
      all.push_back(SimtRows(step, pass, dialect, form, step.chunks).make_cut(stage));
    if (whole.has_totals(stage))
      all.push_back(SimtRows(step, pass + "_total", dialect, form, step.chunks).make_totals(stage));
  }
  return all;
}

}  // namespace systole::codegen
