// Elementwise work over flat points. Outputs of one size share a loop nest; the innermost loop is what the
// compiler makes vectors of, the others are the items.
//
// Where the innermost loop is too short for vectors, as over a filter's 3 columns, and the work is worth it,
// the last loops are taken together as one run: what is read in another order is put in order first.

#include <algorithm>
#include <map>
#include <set>

#include "codegen/kernel_parts.h"
#include "compile/links.h"

namespace systole::codegen {

namespace {

using ir::Op;

constexpr std::int64_t kBlock = 4096;  // points of an item when there is one loop only
// Points of an item, about, where outputs differ in size: threads share items as if all were alike.
constexpr std::int64_t kShare = 512;
constexpr std::int64_t kShort = 16;                       // turns of a loop that make no good vectors
constexpr std::int64_t kLeastRun = 256, kMostRun = 1024;  // points
constexpr int kWorthARun = 8;                             // of an element's cost

// Splits a loop in two where the run would be longer than it may be otherwise, and says how many loops at the
// end make the run; none where it would be short.
std::size_t find_run(std::vector<std::int64_t>& sizes) {
  std::int64_t points = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    const std::int64_t size = sizes[i];
    std::int64_t part = std::min(size, kMostRun / points);
    while (size % part != 0) --part;
    points *= part;
    if (part < size) {
      sizes[i] = size / part;
      sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(i) + 1, part);
      return points >= kLeastRun ? sizes.size() - i - 1 : 0;
    }
    if (points >= kLeastRun) return sizes.size() - i;
  }
  return 0;
}

class Map {
 public:
  Map(const lower::Step& step, const std::string& name)
      : step_(step), region_(step.region.graph), function_(step, name), w_(function_.writer()) {}

  Kernel make() {
    std::map<std::int64_t, std::vector<std::size_t>> parts;  // outputs by size
    for (std::size_t i = 0; i < region_.outputs().size(); ++i)
      parts[region_.output_type(i).shape.count()].push_back(i);
    is_mixed_ = parts.size() > 1;
    for (const auto& [count, outputs] : parts) {
      if (count == 0) continue;
      std::vector<std::int64_t> sizes = loop_sizes(region_, {count});
      if (sizes.empty()) sizes = {1};
      if (sizes.size() == 1)
        in_blocks(count, outputs);
      else if (!in_runs(sizes, outputs))
        in_loops(sizes, outputs);
    }
    return function_.finish(items_);
  }

 private:
  // So many more items. Opens their loop and gives the text for the number of one among them.
  std::string open_more(std::int64_t count) {
    w_.open(
        fmt::format("for (s_i64 item = begin < {0} ? {0} : begin; item < (end < {1} ? end : {1}); ++item)",
                    items_, items_ + count));
    const std::string number = items_ == 0 ? "item" : fmt::format("(item - {})", items_);
    items_ += count;
    return number;
  }

  // Items of so many of `count` each, from `first` to `last`.
  void open_range(std::int64_t count, std::int64_t each) {
    const std::string number = open_more((count + each - 1) / each);
    w_.line(fmt::format("const s_i64 first = {} * {};", number, each));
    w_.line(fmt::format("const s_i64 last = first + {0} < {1} ? first + {0} : {1};", each, count));
  }

  // What stands before a loop whose turns may run in any order and differ in the last variable.
  void open_independent(const Loops& loops) {
    w_.mark();
    function_.elements().lift({loops.names.begin(), loops.names.end() - 1});
    w_.line("S_INDEPENDENT");
  }

  void store(const std::vector<std::size_t>& outputs, const Index& point) {
    function_.elements().push();
    function_.store(outputs, std::vector<Index>(outputs.size(), point));
    function_.elements().pop();
    function_.elements().lift_nothing();
  }

  void in_blocks(std::int64_t count, const std::vector<std::size_t>& outputs) {
    open_range(count, is_mixed_ ? kShare : kBlock);
    w_.line("S_INDEPENDENT");
    w_.open("for (s_i64 x0 = first; x0 < last; ++x0)");
    store(outputs, Index::variable("x0", count));
    w_.close();
    w_.close();
  }

  void in_loops(const std::vector<std::int64_t>& sizes, const std::vector<std::size_t>& outputs) {
    const Loops loops = make_loops(sizes, "x");
    const Loops outer{{sizes.begin(), sizes.end() - 1}, {loops.names.begin(), loops.names.end() - 1}};
    const std::int64_t rows = outer.point().highest() + 1;
    const bool in_groups = is_mixed_ && sizes.back() <= kShare / 2;
    if (in_groups) {
      open_range(rows, kShare / sizes.back());
      w_.open("for (s_i64 row = first; row < last; ++row)");
      open_item(w_, outer, "row");
    } else {
      open_item(w_, outer, open_more(rows));
    }
    open_independent(loops);
    w_.open(fmt::format("for (s_i64 {0} = 0; {0} < {1}; ++{0})", loops.names.back(), sizes.back()));
    store(outputs, loops.point());
    w_.close();
    w_.close();
    if (in_groups) w_.close();
  }

  // What the outputs read at the point.
  std::vector<Elements::Load> loads_at(const Index& point, const std::vector<std::size_t>& outputs) const {
    Function trial(step_, "trial");
    for (const std::size_t i : outputs) trial.elements().bits_at(region_.outputs()[i].value, point);
    return trial.elements().loads();
  }

  bool is_worth_a_run() const {
    int cost = 0;
    for (const ir::Node& node : region_.nodes()) {
      if (node.op == Op::iota || node.op == Op::random_bits) return false;  // they want every index
      cost += lower::element_cost(node);
    }
    return cost >= kWorthARun;
  }

  // False where it does not pay.
  bool in_runs(std::vector<std::int64_t> sizes, const std::vector<std::size_t>& outputs) {
    if (sizes.back() >= kShort || !is_worth_a_run()) return false;
    const std::size_t in_run = find_run(sizes);
    if (in_run < 2) return false;
    const Loops loops = make_loops(sizes, "x");
    const auto cut = static_cast<std::ptrdiff_t>(sizes.size() - in_run);
    const Loops outer{{sizes.begin(), sizes.begin() + cut}, {loops.names.begin(), loops.names.begin() + cut}};
    const Loops run{{sizes.begin() + cut, sizes.end()}, {loops.names.begin() + cut, loops.names.end()}};
    const std::int64_t points = run.point().highest() + 1;
    const std::vector<Elements::Load> loads = loads_at(loops.point(), outputs);
    const std::set<std::string> names(loops.names.begin(), loops.names.end());
    for (const Elements::Load& load : loads)
      for (const auto& [name, term] : load.place.terms())
        if (load.conditional || !names.contains(name)) return false;

    open_item(w_, outer, open_more(outer.point().highest() + 1));
    std::set<std::pair<std::size_t, std::string>> known;
    for (const Elements::Load& load : loads) {
      if (!known.emplace(load.input, load.place.to_string()).second) continue;
      Index base = load.place, along;
      for (const std::string& name : run.names) {
        if (base.factor(name) == 0) continue;
        const Index part = Index::variable(name, base.terms().at(name).extent) * base.factor(name);
        base = base + part * -1;
        along = along + part;
      }
      if (along.is_constant()) continue;
      const std::string in = fmt::format("in{}", load.input);
      if (along == run.point())
        function_.elements().read_from(load.input, load.place,
                                       fmt::format("{}[{} + r]", in, base.to_string()));
      else
        function_.elements().read_from(load.input, load.place, in_order(run, points, in, load));
    }
    w_.line("S_INDEPENDENT");
    w_.open(fmt::format("for (s_i64 r = 0; r < {}; ++r)", points));
    open_item(w_, run, "r");
    function_.elements().push();
    function_.store(outputs, std::vector<Index>(outputs.size(), loops.point()),
                    fmt::format("{} + r", (outer.point() * points).to_string()));
    function_.elements().pop();
    function_.elements().read_from_memory();
    w_.close();
    w_.close();
    return true;
  }

  // Puts what the run reads of an input in its order, and gives the text for the element of point r.
  std::string in_order(const Loops& run, std::int64_t points, const std::string& in,
                       const Elements::Load& load) {
    const std::string name = w_.fresh("t");
    w_.line(fmt::format("{} {}[{}];", storage_type(region_.input_type(load.input).dtype), name, points));
    for (std::size_t i = 0; i < run.sizes.size(); ++i)
      w_.open(fmt::format("for (s_i64 {0} = 0; {0} < {1}; ++{0})", run.names[i], run.sizes[i]));
    w_.line(fmt::format("{}[{}] = {}[{}];", name, run.point().to_string(), in, load.place.to_string()));
    for (std::size_t i = 0; i < run.sizes.size(); ++i) w_.close();
    return name + "[r]";
  }

  const lower::Step& step_;
  const ir::Graph& region_;
  Function function_;
  Writer& w_;
  std::int64_t items_ = 0;
  bool is_mixed_ = false;  // whether outputs differ in size
};

}  // namespace

Kernel map_kernel(const lower::Step& step, const std::string& name) { return Map(step, name).make(); }

}  // namespace systole::codegen
