#pragma once

// Composites: functions with a name, attributes and a body of primitives that a backend may claim whole. The
// registry maps a name to the function that builds the body; ops/ registers the built-in ones, users may add
// theirs. A node that carries its own body needs no registered name, and may carry a second graph, its
// backward (docs/ir.md).

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "systole/base/export.h"
#include "systole/ir/graph.h"

namespace systole::ir {

using MaybeValues = std::vector<std::optional<Value>>;

struct CompositeDef {
  std::string name;
  std::string semantics;      // one line, as in ops.def
  double tolerance = 4;       // c of c·eps·sqrt(K)
  DTypeSet dtypes = kFloats;  // of the first operand
  AttrMap defaults;           // attributes with their default values; the keys are all there are
  // Adds the body to an empty graph whose inputs are the operands; returns the results.
  std::function<Values(Graph& body, const Values& operands, const AttrMap& attrs)> build;
  // What each operand gets of the results' cotangents, nothing meaning zero; empty: derived from the body.
  std::function<MaybeValues(const Values& operands, const Values& results, const MaybeValues& cotangents,
                            const AttrMap& attrs)>
      backward;
};

// Names that derivatives know. Through the first nothing flows back; the second, whose body is whatever its
// node carries, is computed again on the way back instead of being kept.
inline constexpr std::string_view kStopGradient = "stop_gradient", kRemat = "remat";

SYSTOLE_API void register_composite(CompositeDef def);  // throws kInvalidArgument when the name is taken
SYSTOLE_API const CompositeDef* find_composite(
    std::string_view name);                                     // null when unknown; the pointer stays valid
SYSTOLE_API std::vector<const CompositeDef*> all_composites();  // by name

// The body for these operand types; `attrs` may leave out what has a default. Throws kInvalidArgument for an
// unknown key.
SYSTOLE_API GraphRef composite_body(const CompositeDef& def, std::span<const Type> operands, AttrMap& attrs);

// Adds a composite node by registered name.
SYSTOLE_API Values add_composite(std::string_view name, ValueList operands, AttrMap attrs = {});

// Copies `body` into `into` with its inputs replaced by `arguments`; returns its outputs.
SYSTOLE_API Values inline_graph(Graph& into, const Graph& body, ValueList arguments);

}  // namespace systole::ir
