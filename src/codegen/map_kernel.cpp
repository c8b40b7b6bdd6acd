// Elementwise work over flat points. Outputs of one size share a loop nest; the innermost loop is what the
// compiler makes vectors of, the others are the items.
//
// Where the innermost loop is too short for vectors, as over a filter's 3 columns, or reads far from one turn
// to the next, the last loops are taken together as one run: what is read in another order is put in order
// first. Neighbours of it are of other runs: these are done together, so that memory is read by lines.

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "codegen/kernel_parts.h"
#include "compile/links.h"

namespace systole::codegen {

namespace {

using ir::Op;

// Points of an item, about: threads share items as if all were alike, though outputs differ in size.
constexpr std::int64_t kBlock = 4096;
constexpr std::int64_t kShort = 16;                     // turns of a loop that make no good vectors
constexpr std::int64_t kLeastRun = 64, kMostRun = 160;  // points
constexpr std::int64_t kLine = 16, kLines = 64;         // neighbours that are read at once; from many pages
constexpr std::int64_t kFar = 8192;                     // elements from the first to the last of a loop
constexpr std::int64_t kManyPages = 65536;              // elements from the first to the last of a run
constexpr std::int64_t kMostBytes = 1 << 18;            // that are put in order at a time
constexpr int kWorthARun = 8;                           // of an element's cost

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
    open_range(count, kBlock);
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
    const bool in_groups = sizes.back() <= kBlock / 2;
    if (in_groups) {
      open_range(rows, kBlock / sizes.back());
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

  // Whether the work is worth it when the innermost loop is short.
  bool is_worth_a_run() const {
    int cost = 0;
    for (const ir::Node& node : region_.nodes()) cost += lower::element_cost(node);
    return cost >= kWorthARun;
  }
  bool wants_indices() const {
    return std::any_of(region_.nodes().begin(), region_.nodes().end(), [](const ir::Node& node) {
      return node.op == Op::iota || node.op == Op::random_bits;
    });
  }

  // A load as a run sees it: where it begins, and what follows in the run's loops.
  struct Reading {
    Elements::Load load;
    Index base, along;
  };
  std::vector<Reading> readings(const std::vector<Elements::Load>& loads, const Loops& run) const {
    std::vector<Reading> found;
    std::set<std::pair<std::size_t, std::string>> known;
    for (const Elements::Load& load : loads) {
      if (!known.emplace(load.input, load.place.to_string()).second) continue;
      Reading reading{load, load.place, {}};
      for (const std::string& name : run.names) {
        if (load.place.factor(name) == 0) continue;
        const Index part =
            Index::variable(name, load.place.terms().at(name).extent) * load.place.factor(name);
        reading.base = reading.base + part * -1;
        reading.along = reading.along + part;
      }
      if (!reading.along.is_constant()) found.push_back(std::move(reading));
    }
    return found;
  }

  // False where it does not pay.
  bool in_runs(std::vector<std::int64_t> sizes, const std::vector<std::size_t>& outputs) {
    if (wants_indices()) return false;
    const auto simple = [](const std::vector<Elements::Load>& loads, const Loops& loops) {
      return std::all_of(loads.begin(), loads.end(), [&](const Elements::Load& load) {
        return !load.conditional &&
               std::all_of(load.place.terms().begin(), load.place.terms().end(), [&](const auto& term) {
                 return std::find(loops.names.begin(), loops.names.end(), term.first) != loops.names.end();
               });
      });
    };
    const Loops plain = make_loops(sizes, "x");
    std::vector<Elements::Load> loads = loads_at(plain.point(), outputs);
    if (!simple(loads, plain)) return false;
    const bool is_far = std::any_of(loads.begin(), loads.end(), [&](const Elements::Load& load) {
      const std::int64_t step = std::abs(load.place.factor(plain.names.back()));
      return step >= kLine && step * sizes.back() >= kFar;
    });
    const bool is_short = sizes.back() < kShort && is_worth_a_run();
    if (!is_far && !is_short) return false;
    const std::size_t in_run = find_run(sizes);
    if (in_run == 0) return false;

    const Loops loops = make_loops(sizes, "x");
    const auto cut = static_cast<std::ptrdiff_t>(sizes.size() - in_run);
    Loops outer{{sizes.begin(), sizes.begin() + cut}, {loops.names.begin(), loops.names.begin() + cut}};
    const Loops run{{sizes.begin() + cut, sizes.end()}, {loops.names.begin() + cut, loops.names.end()}};
    const std::int64_t points = run.point().highest() + 1;
    loads = loads_at(loops.point(), outputs);
    if (!simple(loads, loops)) return false;
    const std::vector<Reading> all = readings(loads, run);
    const std::string place = fmt::format("{} + r", (outer.point() * points).to_string());
    std::int64_t bytes = 0, span = 0;  // of a run that is put in order
    for (const Reading& reading : all) {
      if (reading.along == run.point()) continue;
      bytes += points * static_cast<std::int64_t>(size_of(region_.input_type(reading.load.input).dtype));
      span = std::max(span, reading.along.highest());
    }
    const std::int64_t most =
        std::min(span < kManyPages ? kLine : kLines, kMostBytes / std::max(bytes, kLine));
    const Tile tile = find_tile(all, run, most, outer);
    if (bytes > kMostBytes || (in_run == 1 && tile.count == 1)) return false;
    open_item(w_, outer, open_more(outer.point().highest() + 1));
    if (tile.count > 1 && !declares(outer, "tile")) w_.line("const s_i64 tile = 0;");
    for (const Reading& reading : all) {
      const std::string text = reading.along == run.point()
                                   ? fmt::format("in{}[{} + r]", reading.load.input, reading.base.to_string())
                                   : in_order(run, points, tile, reading.load);
      function_.elements().read_from(reading.load.input, reading.load.place, text);
    }
    tile.open(w_);
    w_.line("S_INDEPENDENT");
    w_.open(fmt::format("for (s_i64 r = 0; r < {}; ++r)", points));
    open_item(w_, run, "r");
    function_.elements().push();
    function_.store(outputs, std::vector<Index>(outputs.size(), loops.point()), place);
    function_.elements().pop();
    function_.elements().read_from_memory();
    w_.close();
    tile.close(w_);
    w_.close();
    return true;
  }

  // A loop of one turn has no variable.
  static bool declares(const Loops& loops, std::string_view name) {
    for (std::size_t i = 0; i < loops.sizes.size(); ++i)
      if (loops.names[i] == name) return loops.sizes[i] > 1;
    return false;
  }

  // So many runs that are neighbours along a variable of the items are done together.
  struct Tile {
    std::int64_t count = 1;
    std::string variable;

    void open(Writer& w) const {
      if (count == 1) return;
      w.open(fmt::format("for (s_i64 b = 0; b < {}; ++b)", count));
      w.line(fmt::format("const s_i64 {} = tile * {} + b;", variable, count));
    }
    void close(Writer& w) const {
      if (count > 1) w.close();
    }
  };

  // Along the variable that is a neighbour's step for what the run reads in another order; that of the items
  // counts tiles then.
  static Tile find_tile(const std::vector<Reading>& all, const Loops& run, std::int64_t most, Loops& outer) {
    for (const Reading& reading : all) {
      if (reading.along == run.point()) continue;
      for (std::size_t i = 0; i < outer.sizes.size(); ++i) {
        if (reading.base.factor(outer.names[i]) != 1) continue;
        for (std::int64_t count = kLines; count > 1; count /= 2) {
          if (count > most || outer.sizes[i] % count != 0) continue;
          outer.sizes[i] /= count;
          Tile tile{count, outer.names[i]};
          outer.names[i] = "tile";
          return tile;
        }
      }
    }
    return {};
  }

  // Puts what the runs read of an input in their order, and gives the text for the element of point r.
  std::string in_order(const Loops& run, std::int64_t points, const Tile& tile, const Elements::Load& load) {
    const std::string name = w_.fresh("t");
    const std::string first = tile.count > 1 ? fmt::format("b * {} + ", points) : "";
    w_.line(fmt::format("{} {}[{}];", storage_type(region_.input_type(load.input).dtype), name,
                        tile.count * points));
    for (std::size_t i = 0; i < run.sizes.size(); ++i)
      w_.open(fmt::format("for (s_i64 {0} = 0; {0} < {1}; ++{0})", run.names[i], run.sizes[i]));
    tile.open(w_);
    w_.line(fmt::format("{}[{}{}] = in{}[{}];", name, first, run.point().to_string(), load.input,
                        load.place.to_string()));
    tile.close(w_);
    for (std::size_t i = 0; i < run.sizes.size(); ++i) w_.close();
    return fmt::format("{}[{}r]", name, first);
  }

  const lower::Step& step_;
  const ir::Graph& region_;
  Function function_;
  Writer& w_;
  std::int64_t items_ = 0;
};

}  // namespace

Kernel map_kernel(const lower::Step& step, const std::string& name) { return Map(step, name).make(); }

}  // namespace systole::codegen
