// A graph as make_program takes it: look-alikes of composites replaced, claims asked for, everything else
// inlined and simplified.

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/log.h"
#include "compile/program.h"
#include "compile/verifying.h"
#include "compile/widen.h"
#include "ir/composite_check.h"
#include "systole/compile/passes.h"
#include "systole/ir/rewriter.h"

namespace systole::lower {

namespace {

using ir::Op;

bool has_look_alike(const ir::Graph& graph, std::set<const ir::Graph*>& seen) {
  if (!seen.insert(&graph).second) return false;
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](const ir::Node& node) {
    if (node.op == Op::composite && ir::definition_of(node) == nullptr) return true;
    return std::any_of(node.graphs.begin(), node.graphs.end(),
                       [&](const auto& g) { return has_look_alike(*g, seen); });
  });
}

// Only what fits a registered definition stays whole: targets find composites by name, their own among them,
// and read operands by position. A body is looked into as well, since it takes the place of a composite that
// no target claims.
ir::Graph without_look_alikes(const ir::Graph& graph) {
  std::set<const ir::Graph*> seen;
  if (!has_look_alike(graph, seen)) return graph;
  return passes::inline_composites_except(
      graph, [](const ir::Node& node) { return ir::definition_of(node) != nullptr; },
      passes::KeptBodies::inlined_too);
}

}  // namespace

ir::Graph prepared(const ir::Graph& graph, const Target& target, bool optimize) {
  std::set<std::string> told;
  const auto is_claimed = [&](const ir::Node& node) {
    Region region;
    ir::Values operands;
    for (std::size_t i = 0; i < node.operands.size(); ++i)
      operands.push_back(region.graph.input(fmt::format("i{}", i), node.graphs[0]->input_type(i)));
    const ir::Values results = ir::copy_node(region.graph, node, operands, node.graphs);
    for (const ir::Value& result : results) region.graph.output(result);
    region.anchor = results[0].id().node;
    const std::vector<Claim> claims = target.offers(region);
    // Its formula tells nothing of it any more, so this is where to say why.
    for (const Claim& claim : claims)
      if (!claim && log_enabled(LogLevel::info) && told.insert(claim.reason).second)
        log(LogLevel::info, fmt::format("{}: {}", target.name(), claim.reason));
    return std::any_of(claims.begin(), claims.end(), [](const Claim& claim) { return bool(claim); });
  };
  const ir::Graph restated = target.restated(without_look_alikes(graph));
  passes::check_made(restated, "restated");
  ir::Graph made = widened(passes::inline_composites_except(restated, is_claimed));
  passes::check_made(made, "inlined");
  if (!optimize) return made;
  made = target.adapted(passes::run_passes(std::move(made), passes::kernel_passes()));
  passes::check_made(made, "adapted");
  return made;
}

}  // namespace systole::lower
