#pragma once

// A pass applied to the sub-graphs of nodes, each shared one once, so that what was shared stays shared and a
// ladder of graphs that use each other twice costs its number of rungs.

#include <map>
#include <memory>
#include <vector>

#include "systole/ir/graph.h"

namespace systole::passes {

class Subgraphs {
 public:
  // The node's sub-graphs, each turned by `pass(graph)`.
  template <class Pass>
  std::vector<ir::GraphRef> turned(const ir::Node& node, const Pass& pass) {
    std::vector<ir::GraphRef> results;
    for (const ir::GraphRef& graph : node.graphs) {
      auto found = done_.find(graph.get());
      if (found == done_.end())
        found = done_.emplace(graph.get(), std::make_shared<const ir::Graph>(pass(*graph))).first;
      results.push_back(found->second);
    }
    return results;
  }

 private:
  std::map<const ir::Graph*, ir::GraphRef> done_;
};

}  // namespace systole::passes
