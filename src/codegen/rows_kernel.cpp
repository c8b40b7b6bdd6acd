// Reductions with the work around them, over the points of a domain, in passes ("stages"): a value that needs
// a row's sum is known in the pass after the one that sums. Full values are computed again in every pass that
// needs them, from memory that is still near.
//
// When the last axis is reduced, an item is a row and the row's points are the lanes. When it is kept, an
// item is a block of neighbouring rows, and these are the lanes. Long sums are made of runs: the loop in
// which a lane's points come to more than a run is cut in strips, and after each strip the lanes' sums go to
// totals.

#include <algorithm>
#include <optional>

#include "codegen/kernel_parts.h"
#include "codegen/long_sum.h"

namespace systole::codegen {

namespace {

using ir::Op;

constexpr std::int64_t kLanes = 16;  // partial sums of a row
constexpr std::int64_t kBlock = 64;  // rows of an item when they are the lanes

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
    return reduced_.empty() || reduced_.back() ? by_row() : by_block();
  }

 private:
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
  std::string result(std::int32_t node) const { return has_total(node) ? total(node) : accumulator(node); }
  void define(std::int32_t node, std::string sum) {
    if (has_total(node)) sum = fmt::format("(({}){})", c_type(dtype_of(node)), sum);
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
    function_.elements().push();
    accumulate(sums, lane);
    function_.store(outputs, std::vector<Index>(outputs.size(), all_.point()));
    function_.elements().pop();
  }

  void declare(const std::vector<std::int32_t>& sums, std::int64_t lanes) {
    for (const std::int32_t i : sums) {
      w_.line(fmt::format("{} {}[{}];", c_type(dtype_of(i)), accumulator(i), lanes));
      w_.line(fmt::format("for (s_i32 j = 0; j < {}; ++j) {}[j] = {};", lanes, accumulator(i),
                          identity(kind_of(i), dtype_of(i))));
      if (has_total(i)) w_.line(fmt::format("double {}[{}] = {{0}};", total(i), lanes));
    }
  }

  bool have_totals(const std::vector<std::int32_t>& sums) const {
    return std::any_of(sums.begin(), sums.end(), [&](std::int32_t i) { return has_total(i); });
  }

  // Ends a run of the sums that have totals.
  void end_run(const std::vector<std::int32_t>& sums, std::int64_t lanes) {
    for (const std::int32_t i : sums)
      if (has_total(i))
        w_.line(fmt::format("for (s_i32 j = 0; j < {0}; ++j) {1}[j] += {2}[j], {2}[j] = 0;", lanes, total(i),
                            accumulator(i)));
  }

  // Finds which of the first reduced loops is cut in strips: a lane visits `points` points in a turn of them
  // all.
  void find_strips(std::size_t count, std::int64_t points) {
    for (std::size_t i = count; i-- > 0;) {
      if (points <= kRun && points * inner_.sizes[i] > kRun) {
        strip_loop_ = i;
        strip_ = kRun / points;
      }
      points *= inner_.sizes[i];
    }
    lane_points_ = points;
  }

  // Loops over the first reduced axes, with `inside` in the innermost.
  template <class Inside>
  void over_loops(std::size_t count, const std::vector<std::int32_t>& sums, std::int64_t lanes,
                  Inside&& inside) {
    const bool in_strips = have_totals(sums);
    for (std::size_t i = 0; i < count; ++i) {
      const std::string& x = inner_.names[i];
      std::string from = "0", to = std::to_string(inner_.sizes[i]);
      if (in_strips && strip_loop_ == i) {
        w_.open(fmt::format("for (s_i64 strip = 0; strip < {}; strip += {})", to, strip_));
        w_.line(fmt::format("const s_i64 stop = strip + {0} < {1} ? strip + {0} : {1};", strip_, to));
        from = "strip";
        to = "stop";
      }
      w_.open(fmt::format("for (s_i64 {0} = {1}; {0} < {2}; ++{0})", x, from, to));
    }
    inside();
    for (std::size_t i = count; i-- > 0;) {
      w_.close();
      if (!in_strips || strip_loop_ != i) continue;
      end_run(sums, lanes);
      w_.close();
    }
  }

  Kernel by_row() {
    if (!inner_.sizes.empty())
      find_strips(inner_.sizes.size() - 1, (inner_.sizes.back() + kLanes - 1) / kLanes);
    w_.open("for (s_i64 item = begin; item < end; ++item)");
    open_item(w_, outer_, "item");
    function_.elements().push();
    for (int stage = 1; stage <= last_stage_; ++stage) {
      const std::vector<std::int32_t> sums = reductions(stage);
      const std::vector<std::size_t> outputs = full_outputs(stage);
      if (sums.empty() && outputs.empty()) continue;
      pass_over_row(sums, outputs);
      for (const std::int32_t i : sums) finish_sum(i);
    }
    function_.store(rows_, std::vector<Index>(rows_.size(), outer_.point()));
    function_.elements().pop();
    w_.close();
    return function_.finish(row_count_);
  }

  void pass_over_row(const std::vector<std::int32_t>& sums, const std::vector<std::size_t>& outputs) {
    declare(sums, kLanes);
    if (inner_.sizes.empty()) {
      w_.open("");
      body(sums, outputs, "0");
      w_.close();
      return;
    }
    over_loops(inner_.sizes.size() - 1, sums, kLanes, [&] {
      if (sums.empty()) {
        w_.line("S_INDEPENDENT");
        w_.open(
            fmt::format("for (s_i64 {0} = 0; {0} < {1}; ++{0})", inner_.names.back(), inner_.sizes.back()));
        body(sums, outputs, "0");
        w_.close();
      } else {
        sum_in_lanes(sums, outputs);
      }
    });
  }

  // The last reduced loop, with sums.
  void sum_in_lanes(const std::vector<std::int32_t>& sums, const std::vector<std::size_t>& outputs) {
    const std::string& x = inner_.names.back();
    const std::int64_t size = inner_.sizes.back(), whole = size / kLanes * kLanes, strip = kRun * kLanes;
    const bool in_strips = whole > strip && have_totals(sums);
    if (in_strips) {
      w_.open(fmt::format("for (s_i64 strip = 0; strip < {}; strip += {})", whole, strip));
      w_.line(fmt::format("const s_i64 stop = strip + {0} < {1} ? strip + {0} : {1};", strip, whole));
    }
    if (whole > 0) {
      w_.open(fmt::format("for (s_i64 block = {}; block < {}; block += {})", in_strips ? "strip" : "0",
                          in_strips ? "stop" : std::to_string(whole), kLanes));
      w_.line("S_INDEPENDENT");
      w_.open(fmt::format("for (s_i32 j = 0; j < {}; ++j)", kLanes));
      w_.line(fmt::format("const s_i64 {} = block + j;", x));
      body(sums, outputs, "j");
      w_.close();
      w_.close();
    }
    if (in_strips) {
      end_run(sums, kLanes);
      w_.close();
    }
    if (whole < size) {
      w_.open(fmt::format("for (s_i64 {0} = {1}; {0} < {2}; ++{0})", x, whole, size));
      body(sums, outputs, fmt::format("{} - {}", x, whole));
      w_.close();
      if (size > strip) end_run(sums, kLanes);
    }
  }

  void finish_sum(std::int32_t i) {
    const std::string name = fmt::format("row{}", i), part = result(i);
    w_.line(fmt::format("{} {} = {}[0];", sum_type(i), name, part));
    w_.line(fmt::format("for (s_i32 j = 1; j < {}; ++j) {} = {};", kLanes, name,
                        combined(kind_of(i), dtype_of(i), name, part + "[j]")));
    define(i, name);
  }

  Kernel by_block() {
    find_strips(inner_.sizes.size(), 1);
    const std::string& x = outer_.names.back();
    const std::int64_t size = outer_.sizes.back(), blocks = (size + kBlock - 1) / kBlock;
    Loops items{{outer_.sizes.begin(), outer_.sizes.end() - 1},
                {outer_.names.begin(), outer_.names.end() - 1}};
    items.sizes.push_back(blocks);
    items.names.emplace_back("block");
    w_.open("for (s_i64 item = begin; item < end; ++item)");
    if (blocks == 1) w_.line("const s_i64 block = 0;");
    open_item(w_, items, "item");
    w_.line(fmt::format("const s_i64 first = block * {};", kBlock));
    w_.line(fmt::format("const s_i32 lanes = (s_i32)({0} - first < {1} ? {0} - first : {1});", size, kBlock));
    const auto over_lanes = [&](auto&& inside) {
      w_.line("S_INDEPENDENT");
      w_.open("for (s_i32 j = 0; j < lanes; ++j)");
      if (size > 1) w_.line(fmt::format("const s_i64 {} = first + j;", x));
      inside();
      w_.close();
    };
    for (int stage = 1; stage <= last_stage_; ++stage) {
      const std::vector<std::int32_t> sums = reductions(stage);
      const std::vector<std::size_t> outputs = full_outputs(stage);
      if (sums.empty() && outputs.empty()) continue;
      declare(sums, kBlock);
      over_loops(inner_.sizes.size(), sums, kBlock, [&] { over_lanes([&] { body(sums, outputs, "j"); }); });
      for (const std::int32_t i : sums) define(i, result(i) + "[j]");
    }
    if (!rows_.empty())
      over_lanes([&] {
        function_.elements().push();
        function_.store(rows_, std::vector<Index>(rows_.size(), outer_.point()));
        function_.elements().pop();
      });
    w_.close();
    std::int64_t count = blocks;
    for (std::size_t i = 0; i + 1 < outer_.sizes.size(); ++i) count *= outer_.sizes[i];
    return function_.finish(count);
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
  Loops all_, outer_, inner_;              // outer: the kept axes, inner: the reduced ones
  std::vector<bool> reduced_;              // by axis of all_
  std::int64_t lane_points_ = 1;           // that a lane visits in a row
  std::optional<std::size_t> strip_loop_;  // of inner_, that is cut in strips of strip_ turns
  std::int64_t strip_ = 1;
  std::vector<std::size_t> full_, rows_;  // outputs
};

}  // namespace

Kernel rows_kernel(const lower::Step& step, const std::string& name) { return Rows(step, name).make(); }

}  // namespace systole::codegen
