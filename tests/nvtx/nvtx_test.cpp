// NVTX ranges, as a tool that is named by NVTX_INJECTION64_PATH gets them.

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "../scratch_folder.h"
#include "systole/systole.h"

namespace systole {
namespace {

class Nvtx : public ScratchFolder {};

// One test, as a process looks for a tool once.
TEST_F(Nvtx, RunsAndScopesAreRanges) {
  const std::string log = (folder_ / "ranges").string();
  ::setenv("NVTX_INJECTION64_PATH", NVTX_TOOL, 1);
  ::setenv("NVTX_TOOL_LOG", log.c_str(), 1);
  {
    const DeviceScope device("reference");
    const Timeline::Scope scope("my part");
    const auto f = compile([](const Tensor& x) { return x + 1; }, {.name = "plus"});
    EXPECT_EQ(f(tensor({1.0f, 2.0f})).to_vector<float>(), (std::vector<float>{2, 3}));
  }
  std::ifstream in(log);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines.front(), "push my part");
  EXPECT_EQ(lines.back(), "pop");
  int depth = 0, runs = 0;
  for (const std::string& line : lines) {
    depth += line == "pop" ? -1 : 1;
    EXPECT_GE(depth, 0);
    runs += line == "push run plus" ? 1 : 0;
  }
  EXPECT_EQ(depth, 0);
  EXPECT_EQ(runs, 1);
  EXPECT_FALSE(Timeline::is_running());
}

}  // namespace
}  // namespace systole
