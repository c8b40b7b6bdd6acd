// The recipe, and the loop that runs passes: each is verified and dumped when asked for.

#include <algorithm>
#include <atomic>
#include <cctype>
#include <filesystem>
#include <optional>
#include <set>
#include <string>

#include <fmt/format.h>
#include <unistd.h>

#include "base/env.h"
#include "base/file.h"
#include "compile/verifying.h"
#include "ir/composite_check.h"
#include "systole/compile/passes.h"
#include "systole/ir/text.h"

namespace systole::passes {

namespace {

constexpr int kMaxRounds = 4;

constexpr Pass kStandard[] = {
    {"simplify", simplify},
    {"fold", fold},
    {"cse", cse},
    {"dce", dce},
};

constexpr Pass kKernel[] = {
    {"layout", layout}, {"simplify", simplify}, {"fold", fold}, {"cse", cse}, {"dce", dce},
};

// Writes DIR/PID-RUN-STEP-GRAPH-PASS.sir: files of one run stand together, in order, and no two threads or
// processes share a name.
class Dump {
 public:
  explicit Dump(const std::string& graph) {
    const std::optional<std::string> folder = env::text("SYSTOLE_DUMP");
    if (!folder) return;
    static std::atomic<int> runs = 0;
    folder_ = *folder;
    std::error_code error;
    std::filesystem::create_directories(*folder_, error);
    if (error)
      throw Error(ErrorKind::kIo, *folder, "cannot create the folder SYSTOLE_DUMP names: " + error.message());
    stem_ = fmt::format("{}-{:03}", ::getpid(), runs++);
    graph_ = graph.substr(0, 64);
    std::replace_if(
        graph_.begin(), graph_.end(), [](unsigned char c) { return std::isalnum(c) == 0 && c != '_'; }, '_');
  }

  void write(const ir::Graph& graph, std::string_view pass) {
    if (!folder_) return;
    const std::string text = ir::print(graph);
    write_file(*folder_ / fmt::format("{}-{:02}-{}-{}.sir", stem_, step_++, graph_, pass),
               std::as_bytes(std::span(text.data(), text.size())));
  }

 private:
  std::optional<std::filesystem::path> folder_;
  std::string stem_, graph_;
  int step_ = 0;
};

std::int64_t constant_bytes(const ir::Graph& graph, std::set<const ir::Graph*>& seen) {
  if (!seen.insert(&graph).second) return 0;
  std::int64_t bytes = 0;
  for (const ir::Node& node : graph.nodes()) {
    if (node.op == ir::Op::constant) bytes += node.types[0].bytes();
    for (const ir::GraphRef& g : node.graphs) bytes += constant_bytes(*g, seen);
  }
  return bytes;
}

std::int64_t constant_bytes(const ir::Graph& graph) {
  std::set<const ir::Graph*> seen;
  return constant_bytes(graph, seen);
}

}  // namespace

bool verify_wanted() {
#ifdef SYSTOLE_DEBUG
  return true;
#else
  return env::flag("SYSTOLE_VERIFY");
#endif
}

void check_made(const ir::Graph& graph, std::string_view step) {
  try {
    verify_wanted() ? ir::verify(graph) : ir::check_composites(graph);
  } catch (const Error& error) {
    throw error.within(fmt::format("after pass {}", step));
  }
}

std::span<const Pass> kernel_passes() { return kKernel; }
std::span<const Pass> standard_passes() { return kStandard; }

ir::Graph run_passes(ir::Graph graph, std::span<const Pass> passes) {
  const bool verified = verify_wanted();
  const std::int64_t most_constants = verified ? constant_bytes(graph) + kMaxFoldedBytes : 0;
  Dump dump(graph.name());
  dump.write(graph, "input");
  for (int round = 0; round < kMaxRounds; ++round) {
    const ir::Graph before = graph;
    for (const Pass& pass : passes) {
      graph = pass.run(graph);
      dump.write(graph, pass.name);
      check_made(graph, pass.name);
      if (verified && constant_bytes(graph) > most_constants)
        throw Error(ErrorKind::kInternal, fmt::format("after pass {}: constants", pass.name),
                    "a pass makes more bytes of them than a graph may have", std::to_string(most_constants),
                    std::to_string(constant_bytes(graph)));
    }
    if (graph.same_structure(before)) break;
  }
  return graph;
}

}  // namespace systole::passes
