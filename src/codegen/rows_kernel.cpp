// Reductions with the work around them, over the points of a domain, in passes ("stages"): a value that needs
// a row's sum is known in the pass after the one that sums. Full values are computed again in every pass that
// needs them, from memory that is still near; what is dear to compute is kept for the row.
//
// When the last axis is reduced, an item is a row and the row's points are the lanes. When it is kept, an
// item is a block of neighbouring rows, and these are the lanes. Long sums are made of runs: the loop in
// which a lane's points come to more than a run is cut in strips, and after each strip the lanes' sums go to
// totals.
//
// Few rows with very many points are cut in chunks, whose number follows from sizes alone, so that results do
// not depend on who does which. Every pass is a kernel of its own, with a chunk of a row or of a block as the
// item: what a chunk sums goes to memory, where the next pass combines the chunks in their order. A last
// kernel stores what belongs to rows.

#include <algorithm>
#include <optional>
#include <set>

#include "codegen/kernel_parts.h"
#include "codegen/long_sum.h"
#include "codegen/row_passes.h"
#include "compile/links.h"

namespace systole::codegen {

namespace {

using ir::Op;

constexpr std::int64_t kLanes = 16;            // partial sums of a row
constexpr std::int64_t kBlock = 64;            // rows of an item when they are the lanes
constexpr std::int64_t kWideLanes = 64;        // of maxima: a comparison waits for the last one of its lane
constexpr int kDear = 8;                       // element_cost of what is kept
constexpr std::int64_t kKeptBytes = 64 << 10;  // of a row, on the stack

class Rows {
 public:
  Rows(const lower::Step& step, const std::string& name)
      : graph_(step.region.graph),
        function_(step, name),
        w_(function_.writer()),
        stages_(lower::stages(graph_)) {
    std::vector<std::int64_t> sizes;
    for (const auto& axis : step.domain->axes) sizes.push_back(axis.size);
    full_count_ = step.domain->full_count();
    row_count_ = step.domain->row_count();
    if (full_count_ > 0) make_sides(*step.domain, sizes);
    for (std::size_t i = 0; i < graph_.outputs().size(); ++i)
      (graph_.output_type(i).shape.count() == full_count_ && !is_row(graph_.outputs()[i].value.node) ? full_
                                                                                                     : rows_)
          .push_back(i);
    for (const int s : stages_) last_stage_ = std::max(last_stage_, s);
  }

  Kernel make() {
    if (full_count_ == 0) return empty();
    find_strips();
    find_kept();
    open_items();
    for (const std::int32_t i : kept_)
      w_.line(
          fmt::format("{} kept{}[{}] __attribute__((aligned(64)));", c_type(dtype_of(i)), i, inner_count()));
    for (int stage = 1; stage <= last_stage_; ++stage) {
      if (!has_work(stage)) continue;
      pass(stage);
      for (const std::int32_t i : reductions(stage)) define(i, result(i));
    }
    store_rows();
    return close_items();
  }

  int passes() const { return last_stage_; }
  bool has_work(int stage) const {
    if (stage > last_stage_) return !rows_.empty();
    return !reductions(stage).empty() || !full_outputs(stage).empty();
  }

  // Pass `stage` over at most so many chunks of each row; one after the last: what belongs to rows.
  Kernel make_cut(int stage, std::int64_t most_chunks) {
    find_chunks(most_chunks);
    find_strips();
    memory_ = function_.scratch("double");
    const bool is_last = stage > last_stage_;
    open_items(!is_last);
    read_chunks(stage);
    if (is_last) {
      store_rows();
    } else {
      pass(stage);
      const std::vector<std::int32_t> sums = reductions(stage);
      if (!sums.empty())
        over_rows([&] {
          for (const std::int32_t i : sums)
            w_.line(fmt::format("{} = {};", chunk_sum(i, chunks_.point()), result(i)));
        });
    }
    return close_items();
  }

 private:
  bool by_block() const { return !reduced_.empty() && !reduced_.back(); }
  std::int64_t lanes() const { return by_block() ? std::min(outer_.sizes.back(), kBlock) : lanes_; }

  void make_sides(const lower::Domain& domain, const std::vector<std::int64_t>& sizes) {
    all_ = make_loops(loop_sizes(graph_, sizes), "x");
    // A finer axis is of the kind of the domain's axis it came from.
    std::size_t axis = 0;
    std::int64_t left = sizes.empty() ? 1 : sizes[0];
    for (const std::int64_t size : all_.sizes) {
      while (left == 1 && axis + 1 < sizes.size()) left = sizes[++axis];
      reduced_.push_back(domain.axes[axis].reduced);
      left /= size;
    }
    for (std::size_t i = 0; i < all_.sizes.size(); ++i) {
      Loops& side = reduced_[i] ? inner_ : outer_;
      side.sizes.push_back(all_.sizes[i]);
      side.names.push_back(all_.names[i]);
    }
  }

  // Where rows have one point, what follows from a reduction may count as either.
  bool is_row(std::int32_t node) const {
    if (full_count_ == row_count_) return graph_.node(node).op == Op::reduce;
    return graph_.node(node).types[0].shape.count() == row_count_;
  }

  std::vector<std::int32_t> reductions(int stage) const {
    std::vector<std::int32_t> found;
    for (std::int32_t i = 0; i < graph_.size(); ++i)
      if (graph_.node(i).op == Op::reduce && stages_[static_cast<std::size_t>(i)] == stage)
        found.push_back(i);
    return found;
  }
  std::vector<std::size_t> full_outputs(int stage) const {
    std::vector<std::size_t> found;
    for (const std::size_t i : full_)
      if (stages_[static_cast<std::size_t>(graph_.outputs()[i].value.node)] == stage) found.push_back(i);
    return found;
  }
  DType dtype_of(std::int32_t node) const { return graph_.node(node).types[0].dtype; }
  ir::Combine kind_of(std::int32_t node) const { return graph_.node(node).as<ir::ReduceAttrs>().kind; }
  std::string accumulator(std::int32_t node) const { return fmt::format("sum{}", node); }
  std::string total(std::int32_t node) const { return fmt::format("total{}", node); }
  bool has_total(std::int32_t node) const { return is_long_sum(kind_of(node), dtype_of(node), lane_points_); }
  std::string_view sum_type(std::int32_t node) const {
    return has_total(node) ? "double" : c_type(dtype_of(node));
  }
  std::string part(std::int32_t node) const { return has_total(node) ? total(node) : accumulator(node); }
  // Of a row, where a pass over it has ended.
  std::string result(std::int32_t node) const {
    return by_block() ? part(node) + "[j]" : fmt::format("row{}", node);
  }
  bool is_sum(std::int32_t node) const {
    return kind_of(node) == ir::Combine::sum && is_float(dtype_of(node));
  }
  void define(std::int32_t node, std::string sum) {
    if (is_sum(node)) sum = fmt::format("(({}){})", c_type(dtype_of(node)), sum);
    function_.elements().define({node, 0}, function_.elements().rounded(dtype_of(node), std::move(sum)));
  }

  void accumulate(const std::vector<std::int32_t>& nodes, const std::string& lane) {
    for (const std::int32_t i : nodes) {
      const std::string v = function_.elements().value_at(graph_.node(i).operands[0], all_.point());
      const std::string place = fmt::format("{}[{}]", accumulator(i), lane);
      w_.line(fmt::format("{} = {};", place, combined(kind_of(i), dtype_of(i), place, v)));
    }
  }

  void body(const std::vector<std::int32_t>& sums, const std::vector<std::size_t>& outputs,
            const std::string& lane) {
    Elements& elements = function_.elements();
    elements.push();
    for (const std::int32_t i : stored_) elements.know_at({i, 0}, all_.point(), kept(i));
    accumulate(sums, lane);
    for (const std::int32_t i : kept_)
      if (!stored_.contains(i) && elements.knows_at({i, 0}, all_.point())) {
        w_.line(fmt::format("{} = {};", kept(i), elements.value_at({i, 0}, all_.point())));
        written_.insert(i);
      }
    function_.store(outputs, std::vector<Index>(outputs.size(), all_.point()));
    elements.pop();
  }

  std::int64_t inner_count() const { return full_count_ / row_count_; }
  std::string kept(std::int32_t node) const {
    return fmt::format("kept{}[{}]", node, inner_.point().to_string());
  }
  std::vector<std::int32_t> wanted_values(int stage) const {
    std::vector<std::int32_t> nodes;
    for (const std::int32_t i : reductions(stage)) nodes.push_back(graph_.node(i).operands[0].node);
    for (const std::size_t i : full_outputs(stage)) nodes.push_back(graph_.outputs()[i].value.node);
    return nodes;
  }
  void find_kept() {
    if (by_block()) return;
    std::vector<std::vector<std::int32_t>> wanted;
    for (int stage = 1; stage <= last_stage_; ++stage) wanted.push_back(wanted_values(stage));
    kept_ = read_again(graph_, full_count_, wanted,
                       [](const ir::Node& node) { return lower::element_cost(node) >= kDear; });
    std::int64_t bytes = 0;
    for (const std::int32_t i : kept_)
      bytes += std::max<std::int64_t>(static_cast<std::int64_t>(size_of(dtype_of(i))), 4) * inner_count();
    if (bytes > kKeptBytes) kept_.clear();
  }

  void declare(const std::vector<std::int32_t>& sums) {
    if (sums.empty()) return;
    for (const std::int32_t i : sums) {
      w_.line(fmt::format("{} {}[{}];", c_type(dtype_of(i)), accumulator(i), lanes()));
      if (has_total(i)) w_.line(fmt::format("double {}[{}];", total(i), lanes()));
    }
    w_.open(fmt::format("for (s_i32 j = 0; j < {}; ++j)", lanes()));
    for (const std::int32_t i : sums) {
      w_.line(fmt::format("{}[j] = {};", accumulator(i), identity(kind_of(i), dtype_of(i))));
      if (has_total(i)) w_.line(fmt::format("{}[j] = 0;", total(i)));
    }
    w_.close();
  }

  bool have_totals(const std::vector<std::int32_t>& sums) const {
    return std::any_of(sums.begin(), sums.end(), [&](std::int32_t i) { return has_total(i); });
  }

  // Ends a run of the sums that have totals.
  void end_run(const std::vector<std::int32_t>& sums) {
    if (!have_totals(sums)) return;
    w_.open(fmt::format("for (s_i32 j = 0; j < {}; ++j)", lanes()));
    for (const std::int32_t i : sums)
      if (has_total(i)) w_.line(fmt::format("{0}[j] += {1}[j], {1}[j] = 0;", total(i), accumulator(i)));
    w_.close();
  }

  // The loops before the one that is cut say, with the part of that one, which chunk it is.
  void find_chunks(std::int64_t most) {
    std::int64_t before = 1;
    std::size_t i = 0;
    while (i + 1 < inner_.sizes.size() && before * inner_.sizes[i] <= most) before *= inner_.sizes[i++];
    cut_loop_ = i;
    const std::int64_t size = inner_.sizes[i], parts = std::max<std::int64_t>(most / before, 1);
    cut_ = (size + parts - 1) / parts;
    if (i + 1 == inner_.sizes.size() && !by_block()) cut_ = (cut_ + kLanes - 1) / kLanes * kLanes;
    for (std::size_t k = 0; k < i; ++k) {
      chunks_.sizes.push_back(inner_.sizes[k]);
      chunks_.names.push_back(inner_.names[k]);
    }
    chunks_.sizes.push_back((size + cut_ - 1) / cut_);
    chunks_.names.emplace_back("part");
    for (const std::int64_t each : chunks_.sizes) chunk_count_ *= each;
  }

  // The reduced loops from the first that an item has to itself on.
  std::size_t first_loop() const { return cut_loop_.value_or(0); }
  std::int64_t turns(std::size_t loop) const { return loop == cut_loop_ ? cut_ : inner_.sizes[loop]; }
  std::string from(std::size_t loop) const { return loop == cut_loop_ ? "cut_from" : "0"; }
  std::string to(std::size_t loop) const {
    return loop == cut_loop_ ? "cut_to" : std::to_string(inner_.sizes[loop]);
  }

  // Finds which of the reduced loops outside the lanes is cut in strips.
  void find_strips() {
    std::size_t i = inner_.sizes.size();
    std::int64_t points = 1;  // that a lane visits in the loops inside
    if (!by_block() && i > 0) points = (turns(--i) + kLanes - 1) / kLanes;
    while (i-- > first_loop()) {
      if (points <= kRun && points * turns(i) > kRun) {
        strip_loop_ = i;
        strip_ = kRun / points;
      }
      points *= turns(i);
    }
    lane_points_ = points;
  }

  // Loops over the reduced axes before `end`, with `inside` in the innermost.
  template <class Inside>
  void over_loops(std::size_t end, const std::vector<std::int32_t>& sums, Inside&& inside) {
    const bool in_strips = have_totals(sums);
    for (std::size_t i = first_loop(); i < end; ++i) {
      const std::string& x = inner_.names[i];
      std::string begin = from(i), stop = to(i);
      if (in_strips && strip_loop_ == i) {
        w_.open(fmt::format("for (s_i64 strip = {}; strip < {}; strip += {})", begin, stop, strip_));
        w_.line(fmt::format("const s_i64 stop = strip + {0} < {1} ? strip + {0} : {1};", strip_, stop));
        begin = "strip";
        stop = "stop";
      }
      w_.open(fmt::format("for (s_i64 {0} = {1}; {0} < {2}; ++{0})", x, begin, stop));
    }
    inside();
    for (std::size_t i = end; i-- > first_loop();) {
      w_.close();
      if (!in_strips || strip_loop_ != i) continue;
      end_run(sums);
      w_.close();
    }
  }

  // The items in the order of memory: rows, chunks of them, the blocks that neighbours make.
  void open_items(bool in_chunks = false) {
    Loops items = outer_;
    if (by_block()) {
      items.sizes.pop_back();
      items.names.pop_back();
    }
    if (in_chunks) {
      items.sizes.insert(items.sizes.end(), chunks_.sizes.begin(), chunks_.sizes.end());
      items.names.insert(items.names.end(), chunks_.names.begin(), chunks_.names.end());
    }
    if (by_block()) {
      items.sizes.push_back((outer_.sizes.back() + kBlock - 1) / kBlock);
      items.names.emplace_back("block");
    }
    item_count_ = 1;
    for (const std::int64_t size : items.sizes) item_count_ *= size;
    w_.open("for (s_i64 item = begin; item < end; ++item)");
    open_item(w_, items, "item");
    if (in_chunks) {
      const std::string part = chunks_.sizes.back() > 1 ? "part" : "0";
      w_.line(fmt::format("const s_i64 cut_from = {} * {};", part, cut_));
      const std::int64_t size = inner_.sizes[first_loop()];
      w_.line(
          size % cut_ == 0
              ? fmt::format("const s_i64 cut_to = cut_from + {};", cut_)
              : fmt::format("const s_i64 cut_to = cut_from + {0} < {1} ? cut_from + {0} : {1};", cut_, size));
    }
    if (by_block()) {
      const std::int64_t size = outer_.sizes.back();
      w_.line(
          fmt::format("const s_i64 first = {};", size > kBlock ? fmt::format("block * {}", kBlock) : "0"));
      if (size % lanes() != 0)
        w_.line(
            fmt::format("const s_i32 lanes = (s_i32)({0} - first < {1} ? {0} - first : {1});", size, kBlock));
    }
    function_.elements().push();
  }
  Kernel close_items() {
    function_.elements().pop();
    w_.close();
    return function_.finish(item_count_);
  }

  // Once for a row; for each row of a block.
  template <class Inside>
  void over_rows(Inside&& inside) {
    if (!by_block()) return inside();
    const std::int64_t size = outer_.sizes.back();
    open_independent(outer_.names.back());
    w_.open(fmt::format("for (s_i32 j = 0; j < {}; ++j)",
                        size % lanes() == 0 ? std::to_string(lanes()) : std::string("lanes")));
    if (size > 1) w_.line(fmt::format("const s_i64 {} = first + j;", outer_.names.back()));
    inside();
    w_.close();
    function_.elements().lift_nothing();
  }

  // What stands before a loop whose turns may run in any order and differ in this variable.
  void open_independent(const std::string& variable, std::string_view pragma = "S_INDEPENDENT") {
    std::vector<std::string> others;
    for (const std::string& name : all_.names)
      if (name != variable) others.push_back(name);
    w_.mark();
    function_.elements().lift(others);
    w_.line(pragma);
  }

  void store_rows() {
    if (rows_.empty()) return;
    over_rows([&] {
      function_.elements().push();
      function_.store(rows_, std::vector<Index>(rows_.size(), outer_.point()));
      function_.elements().pop();
    });
  }

  void find_lanes(const std::vector<std::int32_t>& sums) {
    const bool has_sum = std::any_of(sums.begin(), sums.end(), [&](std::int32_t i) {
      return kind_of(i) != ir::Combine::max && kind_of(i) != ir::Combine::min;
    });
    const bool is_long = !inner_.sizes.empty() && inner_.sizes.back() >= 4 * kWideLanes;
    lanes_ = is_long && !has_sum && !cut_loop_ ? kWideLanes : kLanes;
  }

  // After it each row's results are known.
  void pass(int stage) {
    const std::vector<std::int32_t> sums = reductions(stage);
    const std::vector<std::size_t> outputs = full_outputs(stage);
    find_lanes(sums);
    declare(sums);
    if (by_block()) {
      over_loops(inner_.sizes.size(), sums, [&] { over_rows([&] { body(sums, outputs, "j"); }); });
      return;
    }
    pass_over_row(sums, outputs);
    stored_.insert(written_.begin(), written_.end());
    for (const std::int32_t i : sums) {
      const std::string lane = part(i);
      w_.line(fmt::format("{} {} = {}[0];", sum_type(i), result(i), lane));
      w_.line(fmt::format("for (s_i32 j = 1; j < {}; ++j) {} = {};", lanes_, result(i),
                          combined(kind_of(i), dtype_of(i), result(i), lane + "[j]")));
    }
  }

  void pass_over_row(const std::vector<std::int32_t>& sums, const std::vector<std::size_t>& outputs) {
    if (inner_.sizes.empty()) {
      w_.open("");
      body(sums, outputs, "0");
      w_.close();
      return;
    }
    const std::size_t last = inner_.sizes.size() - 1;
    over_loops(last, sums, [&] {
      if (sums.empty()) {
        const std::string& x = inner_.names.back();
        open_independent(x);
        w_.open(fmt::format("for (s_i64 {0} = {1}; {0} < {2}; ++{0})", x, from(last), to(last)));
        body(sums, outputs, "0");
        w_.close();
        function_.elements().lift_nothing();
      } else {
        sum_in_lanes(sums, outputs);
      }
    });
  }

  // The last reduced loop, with sums.
  void sum_in_lanes(const std::vector<std::int32_t>& sums, const std::vector<std::size_t>& outputs) {
    const std::string& x = inner_.names.back();
    const std::size_t last = inner_.sizes.size() - 1;
    const std::int64_t size = inner_.sizes.back(), length = turns(last), strip = kRun * kLanes;
    const bool has_rest = size % lanes_ != 0;  // where it is cut, the last part has it
    std::string whole = std::to_string(size / lanes_ * lanes_);
    if (last == cut_loop_) {
      whole = "cut_to";
      if (has_rest) {
        whole = "whole";
        w_.line(fmt::format("const s_i64 whole = cut_from + (cut_to - cut_from) / {0} * {0};", lanes_));
      }
    }
    const bool in_strips = length > strip && have_totals(sums);
    if (in_strips) {
      w_.open(fmt::format("for (s_i64 strip = {}; strip < {}; strip += {})", from(last), whole, strip));
      w_.line(fmt::format("const s_i64 stop = strip + {0} < {1} ? strip + {0} : {1};", strip, whole));
    }
    if (size >= lanes_) {
      w_.open(fmt::format("for (s_i64 block = {}; block < {}; block += {})", in_strips ? "strip" : from(last),
                          in_strips ? "stop" : whole, lanes_));
      // Unrolled, sums of floats are found to be vectors again, masks are not: 15 times slower.
      const bool has_mask = std::any_of(sums.begin(), sums.end(),
                                        [&](std::int32_t i) { return dtype_of(i) == DType::boolean; });
      open_independent(x, has_mask ? "S_ONE_VECTOR" : "S_INDEPENDENT");
      w_.open(fmt::format("for (s_i32 j = 0; j < {}; ++j)", lanes_));
      w_.line(fmt::format("const s_i64 {} = block + j;", x));
      body(sums, outputs, "j");
      w_.close();
      function_.elements().lift_nothing();
      w_.close();
    }
    if (in_strips) {
      end_run(sums);
      w_.close();
    }
    if (has_rest) {
      w_.open(fmt::format("for (s_i64 {0} = {1}; {0} < {2}; ++{0})", x, whole, to(last)));
      body(sums, outputs, fmt::format("{} - {}", x, whole));
      w_.close();
      if (length > strip) end_run(sums);
    }
  }

  // Where a chunk's part of a reduction is.
  std::string chunk_sum(std::int32_t i, const Index& chunk) const {
    std::int64_t number = 0;
    for (std::int32_t k = 0; k < i; ++k) number += graph_.node(k).op == Op::reduce ? 1 : 0;
    const Index place =
        outer_.point() + (chunk + Index(number * chunk_count_)) * std::max<std::int64_t>(row_count_, 1);
    const std::string at = fmt::format("{}[{}]", memory_, place.to_string());
    return is_sum(i) ? at : fmt::format("*({}*)&{}", c_type(dtype_of(i)), at);
  }

  // What all chunks of a row have together, of the reductions that the pass needs.
  void read_chunks(int stage) {
    const std::vector<std::int32_t> sums = wanted(stage);
    if (sums.empty()) return;
    const auto type = [&](std::int32_t i) { return is_sum(i) ? "double" : c_type(dtype_of(i)); };
    const auto whole = [&](std::int32_t i) { return fmt::format("whole{}{}", i, by_block() ? "[j]" : ""); };
    for (const std::int32_t i : sums)
      w_.line(fmt::format("{} whole{}{};", type(i), i, by_block() ? fmt::format("[{}]", lanes()) : ""));
    if (by_block()) w_.open(fmt::format("for (s_i32 j = 0; j < {}; ++j)", lanes()));
    for (const std::int32_t i : sums)
      w_.line(fmt::format("{} = {};", whole(i), identity(kind_of(i), dtype_of(i))));
    if (by_block()) w_.close();
    w_.open(fmt::format("for (s_i64 chunk = 0; chunk < {}; ++chunk)", chunk_count_));
    over_rows([&] {
      for (const std::int32_t i : sums) {
        const std::string more = fmt::format("more{}", i);
        w_.line(fmt::format("const {} {} = {};", type(i), more,
                            chunk_sum(i, Index::variable("chunk", chunk_count_))));
        w_.line(fmt::format("{} = {};", whole(i), combined(kind_of(i), dtype_of(i), whole(i), more)));
      }
    });
    w_.close();
    for (const std::int32_t i : sums) define(i, whole(i));
  }

  // The reductions of earlier passes that the pass reads.
  std::vector<std::int32_t> wanted(int stage) const {
    std::vector<bool> read(static_cast<std::size_t>(graph_.size()), false);
    const auto read_by = [&](std::int32_t node) {
      for (const ir::ValueId v : graph_.node(node).operands) read[static_cast<std::size_t>(v.node)] = true;
    };
    for (const std::size_t i : stage > last_stage_ ? rows_ : full_outputs(stage))
      read[static_cast<std::size_t>(graph_.outputs()[i].value.node)] = true;
    for (const std::int32_t i : reductions(stage)) read_by(i);
    std::vector<std::int32_t> found;
    for (std::int32_t i = graph_.size(); i-- > 0;) {
      if (!read[static_cast<std::size_t>(i)]) continue;
      if (graph_.node(i).op != Op::reduce)
        read_by(i);
      else if (stages_[static_cast<std::size_t>(i)] < stage)
        found.push_back(i);
    }
    return found;
  }

  // Rows of nothing are the identity.
  Kernel empty() {
    for (std::int32_t i = 0; i < graph_.size(); ++i)
      if (graph_.node(i).op == Op::reduce)
        function_.elements().define(
            {i, 0}, fmt::format("(({}){})", c_type(dtype_of(i)), identity(kind_of(i), dtype_of(i))));
    w_.open("for (s_i64 item = begin; item < end; ++item)");
    function_.elements().push();
    function_.store(rows_, std::vector<Index>(
                               rows_.size(), Index::variable("item", std::max<std::int64_t>(row_count_, 1))));
    function_.elements().pop();
    w_.close();
    return function_.finish(row_count_);
  }

  const ir::Graph& graph_;
  Function function_;
  Writer& w_;
  const std::vector<int> stages_;
  int last_stage_ = 1;
  std::int64_t full_count_ = 0, row_count_ = 0;
  Loops all_, outer_, inner_;  // outer: the kept axes, inner: the reduced ones
  std::vector<bool> reduced_;  // by axis of all_
  std::int64_t item_count_ = 0;
  std::int64_t lanes_ = kLanes;                     // of the pass, when a row's points are the lanes
  std::set<std::int32_t> kept_, written_, stored_;  // values of a row: to keep, begun, there
  std::int64_t lane_points_ = 1;                    // that a lane visits in an item
  std::optional<std::size_t> strip_loop_;           // of inner_, that is cut in strips of strip_ turns
  std::int64_t strip_ = 1;
  std::optional<std::size_t> cut_loop_;  // of inner_, that is cut in parts of cut_ turns
  std::int64_t cut_ = 1;
  Loops chunks_;
  std::int64_t chunk_count_ = 1;
  std::string memory_;                    // of what chunks know
  std::vector<std::size_t> full_, rows_;  // outputs
};

}  // namespace

Kernel rows_kernel(const lower::Step& step, const std::string& name) { return Rows(step, name).make(); }

std::vector<Kernel> cut_rows_kernels(const lower::Step& step, const std::string& name) {
  const Rows whole(step, name);
  std::vector<Kernel> all;
  for (int stage = 1; stage <= whole.passes() + 1; ++stage)
    if (whole.has_work(stage))
      all.push_back(Rows(step, fmt::format("{}_pass{}", name, stage)).make_cut(stage, step.chunks));
  return all;
}

}  // namespace systole::codegen
