#pragma once

// What a backend tells the compiler: which regions it runs by its own means, and how large a generated kernel
// may get. The compiler offers composites before they are inlined, then whatever is no elementwise work,
// first with the elementwise work on its result, then bare. A Target answers with implementations and their
// ranks, or declines with reasons, which `systole compile --explain` prints.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compile/strided.h"
#include "systole/ir/graph.h"

namespace systole::lower {

// A part of a graph as a graph of its own, and the node in it that decides how it runs: a contraction, a
// composite, a sort.
struct Region {
  ir::Graph graph;
  std::int32_t anchor = -1;  // -1: elementwise work only
};

struct Claim {
  std::string implementation;  // "onednn.matmul"; empty: declined
  std::string reason;          // when declined
  int rank = 0;                // of several claims the lowest is taken
  std::int64_t workspace_bytes = 0;

  static Claim declined(std::string reason) { return {{}, std::move(reason), 0, 0}; }
  explicit operator bool() const { return !implementation.empty(); }
};

struct KernelLimits {
  int nodes = 256;               // in one generated kernel
  int buffers = 64;              // that it reads or writes
  int stages = 6;                // passes over a row
  int inlined_cost = 8;          // of work that is done again where it is read in another order
  int inlined_cost_of_many = 8;  // the same where a million elements or more would do it
  int repeated_cost =
      12;  // of work on an element that takes no longer than to store its result and to load it
  bool cuts_rows = false;  // few long rows are shared out to many groups of threads, in several launches
  bool has_cores = false;  // tens of threads, not thousands: rows are cut in fewer parts
  bool judges = false;     // a product's kernel also says whether something holds of all its results
  std::int64_t room = 0;   // bytes up to which temporaries have memory of their own
};

class Target {
 public:
  virtual ~Target() = default;
  virtual std::string_view name() const = 0;
  // Claims of the backend's libraries for the region, in any order; none by default.
  virtual std::vector<Claim> offers(const Region&) const { return {}; }
  // Whether a generated kernel of the anchor may carry elementwise work on its result; the reason if not.
  virtual std::string epilogue_refusal(const ir::Graph&, std::int32_t /*anchor*/) const { return {}; }
  virtual KernelLimits limits() const { return {}; }
  // Bytes that the generated kernels of a contraction want beside operands and results.
  virtual std::int64_t kernel_scratch(const Region&) const { return 0; }
  // The graph with composites put in other words, before any is offered: in parts that can be claimed, say.
  virtual ir::Graph restated(const ir::Graph& graph) const { return graph; }
  // The graph as the libraries want it, after the passes: the order of a kernel's axes, say.
  virtual ir::Graph adapted(const ir::Graph& graph) const { return graph; }
  // Whether a contraction or a claimed composite reads an operand that was only moved where it lies, or has
  // it put in order first.
  virtual bool reads_moved(const ir::Node& reader, std::size_t /*operand*/, const Strided&) const {
    return reader.op != ir::Op::composite;
  }
};

}  // namespace systole::lower
