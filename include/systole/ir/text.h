#pragma once

// Graphs as text. print() and parse() are inverse: names, debug info, shardings and comments survive. The
// grammar is in docs/ir.md.

#include <string>
#include <string_view>

#include "systole/base/export.h"
#include "systole/ir/graph.h"

namespace systole::ir {

struct PrintOptions {
  bool header = true;      // the "systole.ir 1" line
  bool debug_info = true;  // loc(…) and comments; value names are kept in any case
};

SYSTOLE_API std::string print(const Graph& graph, const PrintOptions& options = {});

// Parses a whole file: sub-graphs first, the last graph is the result. Throws kParse with "file:line:column",
// or the op's own error with the same position before it. Composites without a body get the registered one.
SYSTOLE_API Graph parse(std::string_view text, std::string_view file = "<text>");

// The literal and type syntax on its own: "f32[2](1, 2)", "f32[N,3]".
SYSTOLE_API std::string print(const Literal& value);
SYSTOLE_API Type parse_type(std::string_view text);

}  // namespace systole::ir
