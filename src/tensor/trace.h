#pragma once

// A function run once on stand-ins, and what it did as a graph.

#include <span>
#include <vector>

#include "systole/ir/graph.h"
#include "systole/tensor/tree.h"
#include "tensor/frame.h"
#include "tensor/index_check.h"

namespace systole::recording {

struct Traced {
  ir::Graph graph;  // inputs: stand-ins, bound Variables, captures; outputs: results, assigned Variables
  std::vector<Frame::Binding> bound;     // Variables with an input, in order
  std::vector<Frame::Binding> assigned;  // Variables with an output, in order
  std::vector<Tensor> captures;
  Frame::Settings settings;
  Flat results;  // the structure; its Tensors belong to the trace
  // Not empty: a result after the function's own is their report, first that of the indices. A report of
  // finite numbers says of each output whether it has others.
  std::vector<IndexSite> index_sites;
  std::vector<std::string> finite_outputs;
  std::size_t reports() const {
    return std::size_t{!index_sites.empty()} + std::size_t{!finite_outputs.empty()};
  }
};

struct TraceOptions {
  Frame::Variables variables = Frame::Variables::capture;
  Frame::Purpose purpose = Frame::Purpose::transform;
  std::span<const Variable> bind = {};  // given an input from the start
  Traced* unfinished = nullptr;         // gets the Variables and switches that a function read that throws
};

// `stand_in` numbers the arguments that become inputs; the function gets the others as they are.
Traced trace(const tree::FlatFunction& fn, const Flat& arguments, std::span<const int> stand_in,
             const TraceOptions& options = {});
// As above, for arguments given by type: all are stand-ins. `weak` ones are numbers.
struct StandIn {
  Type type;
  bool weak = false;
};
Traced trace(const tree::FlatFunction& fn, std::span<const StandIn> arguments, const Flat& structure,
             const TraceOptions& options = {});

// The values for the inputs after the stand-ins, read where the trace was made from.
std::vector<Tensor> surroundings(const Traced& traced);
// Assigns the values of the outputs after the results, and returns the results in their structure.
Flat committed(const Traced& traced, std::span<const Tensor> outputs);

}  // namespace systole::recording
