// Elementwise work over flat points. Outputs of one size share a part; the parts' points follow each other,
// and threads take them in turn: four neighbours at a time where that is possible, so that memory is read and
// written in vectors. What would be read with a stride, a transposed operand, passes through a tile in local
// memory, so that both sides see neighbours.

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "codegen/simt.h"

namespace systole::codegen {

namespace {

constexpr std::int64_t kLeastVectors = 65536;  // fewer points are spread over more threads
constexpr std::int64_t kTile = 32, kTileRows = kThreads / kTile;
constexpr std::int64_t kMostTiles = 4096;  // groups
constexpr std::size_t kMostTiledInputs = 4;

class SimtMap {
 public:
  SimtMap(const lower::Step& step, const std::string& name, Dialect dialect, const Form& form)
      : step_(step),
        region_(step.region.graph),
        name_(name),
        dialect_(dialect),
        vector_(form.neighbours > 0 ? form.neighbours : 4),
        function_(step, name, dialect),
        w_(function_.writer()) {
    if (form.groups > 0) function_.set_most_groups(form.groups);
    threads_ = form.threads > 0 ? form.threads : kThreads;
  }

  Kernel make() {
    // Outputs by size and by the work they share: of an optimiser, a part for every parameter.
    const std::vector<std::int32_t> kin = related();
    std::map<std::pair<std::int64_t, std::int32_t>, std::vector<std::size_t>> parts;
    for (std::size_t i = 0; i < region_.outputs().size(); ++i)
      if (const std::int64_t count = region_.output_type(i).shape.count(); count > 0)
        parts[{count, kin[static_cast<std::size_t>(region_.outputs()[i].value.node)]}].push_back(i);
    if (parts.size() == 1) {
      const auto& [key, outputs] = *parts.begin();
      if (std::optional<Kernel> tiled = through_tiles(key.first, outputs)) return *std::move(tiled);
    }
    std::int64_t items = 0;
    for (const auto& [key, outputs] : parts) {
      const std::int64_t count = key.first;
      Part part{outputs, make_loops(loop_sizes(region_, {count}), "x"), false, items, 0};
      part.vectors = count >= vector_ * kLeastVectors && part.loops.sizes.back() % vector_ == 0;
      part.items = part.vectors ? count / vector_ : count;
      items += part.items;
      parts_.push_back(std::move(part));
    }
    function_.set_threads(threads_);
    w_.open("for (s_index item = begin; item < end; item += S_STEP)");
    if (!parts_.empty()) choose(0, parts_.size());
    w_.close();
    return function_.finish(items);
  }

 private:
  // Outputs of one size, and their place among the items.
  struct Part {
    std::vector<std::size_t> outputs;
    Loops loops;
    bool vectors = false;
    std::int64_t first = 0, items = 0;
  };

  // By node: the first of those it shares work of its own size with, or memory.
  std::vector<std::int32_t> related() const {
    std::vector<std::int32_t> first(static_cast<std::size_t>(region_.size()));
    std::iota(first.begin(), first.end(), 0);
    const auto root = [&](std::int32_t i) {
      while (first[static_cast<std::size_t>(i)] != i) i = first[static_cast<std::size_t>(i)];
      return i;
    };
    // What reads an array and what overwrites it are one thread's work.
    const auto is_overwritten = [&](std::int32_t i) {
      const auto& inputs = region_.inputs();
      const auto position =
          static_cast<std::size_t>(std::find(inputs.begin(), inputs.end(), i) - inputs.begin());
      return position >= step_.overwritten.size() || step_.overwritten[position] >= 0;
    };
    const auto unite = [&](std::int32_t i, std::int32_t j) {
      const std::int32_t a = root(i), b = root(j);
      first[static_cast<std::size_t>(std::max(a, b))] = std::min(a, b);
    };
    const auto works = [&](std::int32_t i) {
      const ir::Op op = region_.node(i).op;
      if (op == ir::Op::input) return is_overwritten(i);
      return op != ir::Op::constant && op != ir::Op::iota && op != ir::Op::broadcast;
    };
    for (std::int32_t i = 0; i < region_.size(); ++i)
      for (const ir::ValueId v : region_.node(i).operands)
        if (works(v.node) && region_.type(v).shape.count() == region_.node(i).types[0].shape.count())
          unite(i, v.node);
    for (std::size_t i = 0; i < step_.overwritten.size(); ++i)
      if (const std::int32_t output = step_.overwritten[i]; output >= 0)
        unite(region_.inputs()[i], region_.outputs()[static_cast<std::size_t>(output)].value.node);
    for (std::int32_t i = 0; i < region_.size(); ++i) first[static_cast<std::size_t>(i)] = root(i);
    return first;
  }

  // Finds the item's part among these by halves: an optimiser has hundreds.
  void choose(std::size_t begin, std::size_t end) {
    if (end - begin == 1) return write(parts_[begin]);
    const std::size_t middle = begin + (end - begin) / 2;
    w_.open(fmt::format("if (item < {})", parts_[middle].first));
    choose(begin, middle);
    w_.close();
    w_.open("else");
    choose(middle, end);
    w_.close();
  }

  void write(const Part& part) {
    w_.line(fmt::format("const s_index point = item - {};", part.first));
    function_.elements().push();
    if (part.vectors) {
      in_vectors(part.loops, part.outputs);
    } else {
      open_item(w_, part.loops, "point");
      function_.store(part.outputs, std::vector<Index>(part.outputs.size(), part.loops.point()));
    }
    function_.elements().pop();
  }

  // What computing the outputs reads of the inputs, each place once.
  std::vector<Elements::Load> loads(const Loops& loops, const std::vector<std::size_t>& outputs) const {
    Function trial(step_, name_, dialect_);
    trial.store(outputs, std::vector<Index>(outputs.size(), loops.point()));
    std::vector<Elements::Load> found;
    std::set<std::pair<std::size_t, std::string>> seen;
    for (const Elements::Load& load : trial.elements().loads()) {
      const auto& terms = load.place.terms();
      // Only loop variables are known before the work begins.
      const bool plain = std::all_of(terms.begin(), terms.end(), [&](const auto& term) {
        return std::find(loops.names.begin(), loops.names.end(), term.first) != loops.names.end();
      });
      if (plain && !load.conditional && seen.insert({load.input, load.place.to_string()}).second)
        found.push_back(load);
    }
    return found;
  }

  void in_vectors(const Loops& loops, const std::vector<std::size_t>& outputs) {
    const std::string& x = loops.names.back();
    Loops steps = loops;  // over vectors
    steps.sizes.back() /= vector_;
    steps.names.back() = "step";
    if (steps.sizes.back() == 1) w_.line("const s_index step = 0;");
    open_item(w_, steps, "point");
    for (const std::size_t o : outputs)
      w_.line(fmt::format("{} result{}[{}];", storage_type(region_.output_type(o).dtype), o, vector_));
    w_.mark();
    function_.elements().lift({loops.names.begin(), loops.names.end() - 1});
    function_.elements().read_together(
        {x, "step", vector_, [&](std::size_t i) { return load_function(step_, i, vector_); }});
    w_.line("S_UNROLL");
    w_.open(fmt::format("for (s_i32 j = 0; j < {}; ++j)", vector_));
    w_.line(fmt::format("const s_index {} = step * {} + j;", x, vector_));
    function_.elements().push();
    for (const std::size_t o : outputs)
      w_.line(fmt::format("result{}[j] = {};", o,
                          function_.elements().bits_at(region_.outputs()[o].value, loops.point())));
    function_.elements().pop();
    w_.close();
    function_.elements().read_apart();
    function_.elements().lift_nothing();
    const Index first = loops.point() + Index::variable(x, 2) * -1 + Index::variable("step", 2) * vector_;
    for (const std::size_t o : outputs)
      w_.line(fmt::format("{}({} + {}, result{});", store_function(step_, o, vector_), function_.output(o),
                          first.to_string(), o));
  }

  // The kernel when operands are read with a stride along the last loop, and along one other without.
  std::optional<Kernel> through_tiles(std::int64_t count, const std::vector<std::size_t>& outputs) {
    const Loops loops = make_loops(loop_sizes(region_, {count}), "x");
    const std::size_t last = loops.sizes.size() - 1;
    if (loops.sizes.size() < 2 || loops.sizes[last] < kTile / 2) return std::nullopt;
    std::optional<std::size_t> across;  // the other loop
    std::vector<Elements::Load> strided;
    for (const Elements::Load& load : loads(loops, outputs)) {
      if (load.place.factor(loops.names[last]) <= 1) continue;
      for (std::size_t i = 0; i < last; ++i) {
        if (load.place.factor(loops.names[i]) != 1 || loops.sizes[i] < kTile / 2) continue;
        if (across && *across != i) continue;
        across = i;
        strided.push_back(load);
      }
    }
    if (strided.empty() || strided.size() > kMostTiledInputs) return std::nullopt;
    Loops tiles = loops;
    for (const std::size_t i : {*across, last}) {
      tiles.sizes[i] = (loops.sizes[i] + kTile - 1) / kTile;
      tiles.names[i] = fmt::format("tile_{}", loops.names[i]);
    }
    std::int64_t groups = 1;
    for (const std::int64_t size : tiles.sizes) groups *= size;
    w_.open(fmt::format("for (s_index tile = S_GROUP; tile < {}; tile += S_GROUPS)", groups));
    for (const std::size_t i : {*across, last})
      if (tiles.sizes[i] == 1) w_.line(fmt::format("const s_index {} = 0;", tiles.names[i]));
    open_item(w_, tiles, "tile");
    for (std::size_t k = 0; k < strided.size(); ++k)
      function_.declare(fmt::format("S_LOCAL {} tile{}[{}];",
                                    storage_type(region_.input_type(strided[k].input).dtype), k,
                                    kTile * (kTile + 1)));
    // Neighbouring threads go along `fast`.
    const auto over_tile = [&](std::size_t fast, std::size_t slow, auto&& inside) {
      w_.open(fmt::format("for (s_i32 r = 0; r < {}; r += {})", kTile, kTileRows));
      w_.line(fmt::format("const s_i32 near = S_LANE % {0}, far = S_LANE / {0} + r;", kTile));
      w_.line(fmt::format("const s_index {} = {} * {} + near;", loops.names[fast], tiles.names[fast], kTile));
      w_.line(fmt::format("const s_index {} = {} * {} + far;", loops.names[slow], tiles.names[slow], kTile));
      w_.open(fmt::format("if ({} < {} && {} < {})", loops.names[fast], loops.sizes[fast], loops.names[slow],
                          loops.sizes[slow]));
      inside();
      w_.close();
      w_.close();
    };
    w_.line("// Neighbouring threads read neighbours of the transposed operand.");
    over_tile(*across, last, [&] {
      for (std::size_t k = 0; k < strided.size(); ++k)
        w_.line(fmt::format("tile{}[far * {} + near] = in{}[{}];", k, kTile + 1, strided[k].input,
                            strided[k].place.to_string()));
    });
    w_.line("S_BARRIER;");
    for (std::size_t k = 0; k < strided.size(); ++k)
      function_.elements().read_from(strided[k].input, strided[k].place,
                                     fmt::format("tile{}[near * {} + far]", k, kTile + 1));
    w_.line("// And write neighbours of the result.");
    over_tile(last, *across, [&] {
      function_.elements().push();
      function_.store(outputs, std::vector<Index>(outputs.size(), loops.point()));
      function_.elements().pop();
    });
    w_.line("S_BARRIER;");
    w_.close();
    return function_.finish_groups(std::min(groups, kMostTiles));
  }

  const lower::Step& step_;
  const ir::Graph& region_;
  const std::string name_;
  const Dialect dialect_;
  const std::int64_t vector_;  // neighbours of a thread
  int threads_ = kThreads;
  Function function_;
  Writer& w_;
  std::vector<Part> parts_;
};

}  // namespace

Kernel simt_map_kernel(const lower::Step& step, const std::string& name, Dialect dialect, const Form& form) {
  return SimtMap(step, name, dialect, form).make();
}

}  // namespace systole::codegen
