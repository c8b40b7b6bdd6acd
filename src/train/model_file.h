#pragma once

// What a saved model's file holds beside its weights, as two texts of the header's metadata: the graph, and
// "systole.model", which says in JSON what the graph's inputs are:
//
//   {"version":1,"name":"model","inputs":1,"outputs":1,"reads":["fc1.weight"],"assigns":[],
//    "variables":["fc1.weight","fc1.steps"],"fixed":["fc1.steps"],"aliases":{"head":"fc1.weight"},"classes":[]}
//
// The graph takes the model's inputs, then the variables it reads; it gives the outputs, then new values of
// the variables it assigns.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "systole/ir/graph.h"

namespace systole::training {

inline constexpr std::string_view kModelKey = "systole.model", kGraphKey = "systole.graph";
inline constexpr int kModelVersion = 1;
inline constexpr std::string_view kBatchSymbol = "N";  // the batch axis

struct ModelDescription {
  std::string name;
  std::size_t inputs = 0, outputs = 0;
  std::vector<std::string> reads, assigns;
  std::vector<std::string> variables, fixed;   // all, in the order of the module; those that are not trained
  std::map<std::string, std::string> aliases;  // of tied ones
  std::vector<std::string> classes;
};

std::string written(const ModelDescription& model, const std::string& file);
ModelDescription parse_model(std::string text, const std::string& file);  // throws kParse, kUnsupported

// Throws kParse unless graph and description fit together.
void check(const ModelDescription& model, const ir::Graph& graph, const std::string& file);

// The names of kernels with a source of their own that the graph, or one inside it, calls.
std::set<std::string> kernels_in(const ir::Graph& graph);
// Throws kUnsupported for a graph that has any: running them runs what the file says.
void refuse_kernels(const ir::Graph& graph, const std::string& file);

// A graph for any batch from graphs of three batch sizes, when they differ only in numbers that grow evenly
// with it. Throws kUnsupported saying where they differ otherwise.
struct Sized {
  std::int64_t batch;
  ir::Graph graph;
};
ir::Graph generalized(const Sized& first, const Sized& second, const Sized& third);

}  // namespace systole::training
