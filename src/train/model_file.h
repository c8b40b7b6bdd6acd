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
#include <span>
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

// Whether two graphs are the same once both are simplified: with numbers for symbols some of it is constants.
bool same_work(const ir::Graph& a, const ir::Graph& b);

// A graph for any sizes from graphs of some, when they differ only in numbers that are scale · product of
// symbols + offset. The first and the last differ in every size, and each size alone differs between two of
// them. Throws kUnsupported saying where they differ otherwise.
struct Sized {
  std::vector<std::int64_t> sizes;  // what each symbol stands for
  ir::Graph graph;
};
ir::Graph generalized(std::span<const std::string> symbols, std::span<const Sized> graphs);

}  // namespace systole::training
