#include "tensor/intern.h"

#include <memory>
#include <mutex>
#include <unordered_map>

#include "base/lasting.h"

namespace systole::recording {

namespace {

struct Table {
  std::mutex mutex;
  std::unordered_multimap<std::uint64_t, std::weak_ptr<const ir::Graph>> graphs;
  std::size_t sweep_at = 256;

  void sweep() {
    std::erase_if(graphs, [](const auto& entry) { return entry.second.expired(); });
    sweep_at = 2 * graphs.size() + 256;
  }
};

Table& table() {
  static Table& instance = lasting<Table>();
  return instance;
}

}  // namespace

ir::GraphRef interned(ir::GraphRef graph) {
  if (!graph) return graph;
  const std::uint64_t hash = graph->hash();
  Table& t = table();
  std::lock_guard lock(t.mutex);
  const auto [first, last] = t.graphs.equal_range(hash);
  for (auto it = first; it != last; ++it)
    if (ir::GraphRef known = it->second.lock(); known && (known == graph || known->same_structure(*graph)))
      return known;
  if (t.graphs.size() >= t.sweep_at) t.sweep();
  t.graphs.emplace(hash, graph);
  return graph;
}

}  // namespace systole::recording
