#pragma once

// A graph as TensorBoard draws it (TensorFlow's GraphDef).

#include <string>

#include "systole/ir/graph.h"

namespace systole::training {

// The bytes of a GraphDef. Names are paths, "encoder/fc1/dot", which TensorBoard folds into boxes.
std::string graph_def(const ir::Graph& graph);

}  // namespace systole::training
