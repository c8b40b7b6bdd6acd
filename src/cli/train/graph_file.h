#pragma once

#include <string>

#include "cli/train/evaluation.h"
#include "systole/ir/graph.h"

namespace systole::cli {

// The graph that a command is given: of a text file, of stdin when it is "-", or inside a saved model, which
// is a .safetensors file or the folder of a run. A saved model's graph takes the weights after the model's
// inputs.
ir::Graph read_graph(const std::string& place, const Trust& trust);

// The saved model's file at this place: the file itself, or what a run's folder holds. Throws kNotFound.
std::string model_file(const std::string& place);

bool names_saved_model(const std::string& place);  // a folder, or a name that ends in .safetensors

}  // namespace systole::cli
