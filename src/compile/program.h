#pragma once

// A Program: what a backend with generated kernels runs. Ordered steps over buffers whose places in one arena
// are known, so that running allocates nothing and the peak is known before. A kernel step holds its work as
// a graph; codegen makes source of it.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compile/fuse.h"
#include "systole/base/literal.h"
#include "systole/ir/graph.h"

namespace systole::lower {

using BufferId = std::int32_t;

struct BufferInfo {
  enum class Role { input, output, constant, temporary };
  Role role = Role::temporary;
  Type type;
  std::int64_t bytes = 0;
  std::int32_t position = -1;            // of inputs and outputs: in the signature
  std::shared_ptr<const Literal> value;  // of constants
  BufferId shares = -1;                  // the buffer whose memory this one is: a view, or written in place
  std::int64_t offset = -1;              // of temporaries, in the arena
  std::int32_t first = -1, last = -1;    // steps that write it first and touch it last
};

struct Program;

enum class StepKind { kernel, library, special, copy, scan, loop, branch };
std::string_view name(StepKind kind);

struct Step {
  StepKind kind = StepKind::kernel;
  GroupKind group = GroupKind::map;  // of kernels
  std::optional<Domain> domain;
  Region region;  // its inputs and outputs are the step's, in order
  std::vector<BufferId> inputs, outputs;
  std::string implementation;                            // of library steps
  std::vector<std::string> declined;                     // why others did not take it
  BufferId workspace = -1;                               // scratch memory: a library's, or a loop's own arena
  std::vector<std::shared_ptr<const Program>> programs;  // bodies, conditions, branches
  std::int64_t chunks = 1;                               // of rows: parts that each is cut into
  std::vector<std::int32_t> overwritten;  // by input: the output that lies in its memory, or -1
  std::vector<bool> unaligned;            // by input, then output: may begin anywhere; empty: none
  std::int64_t length = 0;                // of scan
  std::int32_t carries = 0;  // of scan and loop: the first outputs, which hold the carries all along
  bool reverse = false;      // of scan
};

struct Program {
  std::string name;
  std::vector<BufferInfo> buffers;
  std::vector<Step> steps;
  std::vector<BufferId> inputs, outputs;
  std::int64_t arena_bytes = 0;  // that all temporaries need
  std::vector<Refusal> refusals;

  BufferId memory_of(BufferId b) const;  // what a chain of `shares` ends in
};

// What a Program does, its loops' bodies counted once, and the memory beside its arena. An output in an
// input's memory needs none of its own.
struct Tally {
  int kernels = 0, library_calls = 0, copies = 0, loops_and_branches = 0;
  std::int64_t input_bytes = 0, constant_bytes = 0, output_bytes = 0;
};
Tally tally(const Program& program);

// Readable, one line per step; regions are printed below when `regions` asks for them.
std::string to_string(const Program& program, bool regions = false);

// Throws kInternal naming the step for a buffer read before it is written, overlapping memory of buffers that
// are needed at one time, or a place outside the arena.
void verify(const Program& program);

// Gives temporaries their places: those needed at one time never overlap, and none do when all together need
// no more than `room`. Sets arena_bytes.
void plan_memory(Program& program, std::int64_t room = 0);

// A graph as make_program takes it: composites inlined but those that the Target claims and, if asked, the
// passes for kernels run.
ir::Graph prepared(const ir::Graph& graph, const Target& target, bool optimize = true);

// The graph is static and prepared. Verified where passes are.
Program make_program(const ir::Graph& graph, const Target& target);

}  // namespace systole::lower
