// docs/ir.md holds the op tables that `systole ops --markdown` prints, so the page cannot fall behind
// ops.def.

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "systole/ir.h"

namespace {

std::string read_page() {
  std::ifstream in(std::string(SYSTOLE_SOURCE_DIR) + "/docs/ir.md");
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(Docs, EveryOpAndCompositeStandsInTheIrPage) {
  std::string page = read_page();
  for (const systole::ir::OpInfo& op : systole::ir::all_ops()) {
    EXPECT_NE(page.find("`" + std::string(op.name) + "`"), std::string::npos) << op.name;
  }
  for (const systole::ir::CompositeDef* composite : systole::ir::all_composites()) {
    EXPECT_NE(page.find("`" + composite->name + "`"), std::string::npos) << composite->name;
  }
}

#ifdef SYSTOLE_COMMAND
TEST(Docs, OpTablesAreWhatTheCommandPrints) {
  std::string printed;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(popen(SYSTOLE_COMMAND " ops --markdown", "r"), pclose);
  ASSERT_NE(pipe, nullptr);
  char part[4096];
  while (std::size_t n = std::fread(part, 1, sizeof part, pipe.get())) printed.append(part, n);

  const std::string begin = "<!-- ops:begin -->\n", end = "<!-- ops:end -->";
  std::string page = read_page();
  std::size_t from = page.find(begin), to = page.find(end);
  ASSERT_NE(from, std::string::npos);
  ASSERT_NE(to, std::string::npos);
  from += begin.size();
  EXPECT_EQ(page.substr(from, to - from), printed)
      << "put the output of `systole ops --markdown` between the two marks of docs/ir.md";
}
#endif

}  // namespace
