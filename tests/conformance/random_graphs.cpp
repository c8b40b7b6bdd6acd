// What a backend makes of the optimised graph against the plain evaluation of the graph as built, which
// catches passes and backends that go wrong only in combinations. Two results may differ by twice the bound
// on the rounding error that the graph carries.

#include "random_graph.h"

#include <cstdlib>
#include <iostream>

#include "conformance.h"
#include "eval/eval.h"
#include "systole/ir/text.h"
#include "systole/runtime.h"

namespace systole::conformance {

namespace {

constexpr std::uint64_t kDefaultSeed = 20260;
constexpr int kGraphs = 200;

}  // namespace

void check_random_graphs(const std::string& device) {
  if (std::string reason; available(device, reason) == nullptr) GTEST_SKIP() << reason;
  const char* given = std::getenv("SYSTOLE_SEED");
  const std::uint64_t first = given ? std::strtoull(given, nullptr, 10) : kDefaultSeed;
  std::cout << fmt::format("seeds {} to {} (SYSTOLE_SEED sets the first)\n", first, first + kGraphs - 1);
  for (std::uint64_t seed = first; seed < first + kGraphs; ++seed) {
    const RandomGraph random(seed);
    const std::vector<Literal> want = eval::evaluate(random.graph(), random.arguments());
    const std::vector<Literal> got = compile(random.graph(), device).run(random.arguments());
    for (std::size_t i = 0; i < want.size(); ++i)
      ASSERT_EQ(difference(got[i], want[i], random.allowed(i)), "")
          << "output y" << i << " of the graph of seed " << seed << " on " << device << ":\n"
          << ir::print(random.graph());
  }
}

}  // namespace systole::conformance
