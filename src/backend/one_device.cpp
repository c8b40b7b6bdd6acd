#include "backend/one_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

#include "eval/eval.h"
#include "systole/base/error.h"

namespace systole::runtime {

namespace {

// `seen` are the graphs without shardings so far: one may be the body of several nodes.
bool has_shardings(const ir::Graph& graph, std::set<const ir::Graph*>& seen) {
  if (!seen.insert(&graph).second) return false;
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](const ir::Node& node) {
    return std::any_of(node.shardings.begin(), node.shardings.end(),
                       [](const auto& sharding) { return sharding.has_value(); }) ||
           std::any_of(node.graphs.begin(), node.graphs.end(),
                       [&](const ir::GraphRef& body) { return has_shardings(*body, seen); });
  });
}

}  // namespace

bool has_shardings(const ir::Graph& graph) {
  std::set<const ir::Graph*> seen;
  return has_shardings(graph, seen);
}

void refuse_mesh(std::string_view backend, std::int64_t devices) {
  if (devices == 1) return;
  throw Error(
      ErrorKind::kUnsupported, std::string(backend),
      "a program of this backend runs on one device, so it cannot be split over a mesh",
      "a mesh of size 1, or the device tpu, pjrt:NAME, or reference, which does the work of all devices",
      fmt::format("a mesh of {} devices", devices));
}

void refuse_mesh(std::string_view backend, const ir::Graph& graph) {
  if (eval::uses_collectives(graph))
    throw Error(ErrorKind::kUnsupported, std::string(backend), kNoCollectives);
  if (graph.mesh() && has_shardings(graph)) refuse_mesh(backend, graph.mesh()->size());
}

}  // namespace systole::runtime
