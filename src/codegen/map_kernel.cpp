// Elementwise work over flat points. Outputs of one size share a loop nest; the innermost loop is what the
// compiler makes vectors of, the others are the items.

#include <algorithm>
#include <map>

#include "codegen/kernel_parts.h"

namespace systole::codegen {

namespace {

constexpr std::int64_t kBlock = 4096;  // points of an item when there is one loop only

}  // namespace

Kernel map_kernel(const lower::Step& step, const std::string& name) {
  const ir::Graph& region = step.region.graph;
  Function function(step, name);
  Writer& w = function.writer();
  std::map<std::int64_t, std::vector<std::size_t>> parts;  // outputs by size
  for (std::size_t i = 0; i < region.outputs().size(); ++i)
    parts[region.output_type(i).shape.count()].push_back(i);
  std::int64_t items = 0;
  for (const auto& [count, outputs] : parts) {
    if (count == 0) continue;
    std::vector<std::int64_t> sizes = loop_sizes(region, {count});
    if (sizes.empty()) sizes = {1};
    Loops loops = make_loops(sizes, "x");
    const std::int64_t inner = sizes.back();
    const bool flat = sizes.size() == 1;
    const std::int64_t mine = flat ? (inner + kBlock - 1) / kBlock : count / inner;
    w.open(fmt::format("for (s_i64 item = begin < {0} ? {0} : begin; item < (end < {1} ? end : {1}); ++item)",
                       items, items + mine));
    const std::string number = items == 0 ? "item" : fmt::format("(item - {})", items);
    std::string from = "0", to = std::to_string(inner);
    if (flat) {
      from = "first";
      to = "last";
      w.line(fmt::format("const s_i64 first = {} * {};", number, kBlock));
      w.line(fmt::format("const s_i64 last = first + {0} < {1} ? first + {0} : {1};", kBlock, inner));
    } else {
      Loops outer{{sizes.begin(), sizes.end() - 1}, {loops.names.begin(), loops.names.end() - 1}};
      open_item(w, outer, number);
    }
    w.line("S_INDEPENDENT");
    w.open(fmt::format("for (s_i64 {0} = {1}; {0} < {2}; ++{0})", loops.names.back(), from, to));
    function.elements().push();
    function.store(outputs, std::vector<Index>(outputs.size(), loops.point()));
    function.elements().pop();
    w.close();
    w.close();
    items += mine;
  }
  return function.finish(items);
}

}  // namespace systole::codegen
