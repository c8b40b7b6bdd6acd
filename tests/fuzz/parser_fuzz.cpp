// Any bytes as graph text: either a typed refusal, or a graph that passes the verifier and whose printed form
// parses to the same structure and prints the same again.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "systole/base/error.h"
#include "systole/ir/text.h"

namespace {

using systole::Error;
using systole::ir::Graph;

[[noreturn]] void wrong(const char* what, const char* detail) {
  std::fprintf(stderr, "%s: %s\n", what, detail);
  std::abort();
}

void check_round_trip(const Graph& graph) {
  std::string text;
  try {
    text = systole::ir::print(graph);
    const Graph again = systole::ir::parse(text, "again.sir");
    if (!again.same_structure(graph) || again.hash() != graph.hash())
      wrong("another structure", text.c_str());
    if (const std::string second = systole::ir::print(again); second != text)
      wrong("another text", (text + "\n---\n" + second).c_str());
  } catch (const Error& error) {
    wrong("what was accepted once is refused", (std::string(error.what()) + "\n" + text).c_str());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const Graph graph = systole::ir::parse(text, "fuzz.sir");
    systole::ir::verify(graph);  // may refuse what only the whole graph shows
    check_round_trip(graph);
  } catch (const Error& error) {
    if (error.kind() == systole::ErrorKind::kInternal) wrong("internal error", error.what());
  }
  return 0;
}
