#pragma once

// Graph → Graph passes and the pipeline that runs them. The verifier runs after each pass in debug builds and
// when SYSTOLE_VERIFY=1; in every build each composite is compared with its definition. SYSTOLE_DUMP=dir
// writes the text before the first and after every pass, to dir/PID-RUN-STEP-GRAPH-PASS.sir.

#include <functional>
#include <span>
#include <string_view>

#include "systole/base/export.h"
#include "systole/ir/graph.h"

namespace systole::passes {

struct Pass {
  std::string_view name;
  ir::Graph (*run)(const ir::Graph&);
};

SYSTOLE_API ir::Graph simplify(const ir::Graph& graph);  // identities that keep every bit (but NaN payloads)
SYSTOLE_API ir::Graph fold(const ir::Graph& graph);      // constants evaluated, results up to 64 KiB
SYSTOLE_API ir::Graph cse(const ir::Graph& graph);       // equal nodes merged
SYSTOLE_API ir::Graph dce(const ir::Graph& graph);       // nodes without use removed; inputs stay
SYSTOLE_API ir::Graph layout(
    const ir::Graph& graph);  // images with their channels last, for generated kernels
SYSTOLE_API ir::Graph inline_composites(const ir::Graph& graph);  // every composite replaced by its body
enum class KeptBodies { as_they_are, inlined_too };
// Every composite but those that are to be kept; in the bodies of these, too, when asked for.
SYSTOLE_API ir::Graph inline_composites_except(const ir::Graph& graph,
                                               const std::function<bool(const ir::Node&)>& keep,
                                               KeptBodies bodies = KeptBodies::as_they_are);

SYSTOLE_API std::span<const Pass> standard_passes();  // the recipe every backend starts from
SYSTOLE_API std::span<const Pass> kernel_passes();    // and, where kernels are generated, of inlined graphs

// Runs the passes in order, and all of them again as long as they change the graph (four rounds at most).
// Throws kIo when a dump cannot be written and kInternal, naming the pass, when the verifier refuses its
// result.
SYSTOLE_API ir::Graph run_passes(ir::Graph graph, std::span<const Pass> passes);

}  // namespace systole::passes
