// docs/ir.md holds the op tables that `systole ops --markdown` prints, so the page cannot fall behind
// ops.def; docs/command_line.md every key of a training; docs/compiler.md every variable that the source
// reads.

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "systole/ir.h"

namespace {

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string read_page() { return text_of(std::string(SYSTOLE_SOURCE_DIR) + "/docs/ir.md"); }

// What stands as `begin`NAME`end` in the text, NAME being a variable of ours.
std::set<std::string> variables_in(const std::string& text, const std::string& begin,
                                   const std::string& end) {
  std::set<std::string> names;
  const std::regex form(begin + "(SYSTOLE_[A-Z0-9_]*[A-Z0-9])" + end);
  for (auto at = std::sregex_iterator(text.begin(), text.end(), form); at != std::sregex_iterator(); ++at)
    names.insert((*at)[1]);
  return names;
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

// env_variables.cpp is the table that the page is printed from: what else names a variable reads it.
TEST(Docs, EveryVariableThatTheSourceReadsStandsInTheCompilerPage) {
  const std::string root = SYSTOLE_SOURCE_DIR, page = text_of(root + "/docs/compiler.md");
  const std::size_t from = page.find("<!-- variables:begin -->"), to = page.find("<!-- variables:end -->");
  ASSERT_NE(from, std::string::npos);
  ASSERT_NE(to, std::string::npos);
  std::set<std::string> read;
  for (const auto& file : std::filesystem::recursive_directory_iterator(root + "/src"))
    if ((file.path().extension() == ".cpp" || file.path().extension() == ".h") &&
        file.path().filename() != "env_variables.cpp")
      read.merge(variables_in(text_of(file.path()), "\"", "\""));
  const std::set<std::string> shown = variables_in(page.substr(from, to - from), "\\| `", "` \\|");
  for (const std::string& name : read) EXPECT_TRUE(shown.contains(name)) << name;
}

#ifdef SYSTOLE_COMMAND
// What `systole ARGUMENTS` prints stands between two marks of a page.
void expect_printed(const std::string& arguments, const std::string& file, const std::string& marks) {
  std::string printed;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(popen((SYSTOLE_COMMAND " " + arguments).c_str(), "r"),
                                                       pclose);
  ASSERT_NE(pipe, nullptr);
  char part[4096];
  while (std::size_t n = std::fread(part, 1, sizeof part, pipe.get())) printed.append(part, n);

  const std::string begin = "<!-- " + marks + ":begin -->\n", end = "<!-- " + marks + ":end -->";
  const std::string page = text_of(std::string(SYSTOLE_SOURCE_DIR) + "/" + file);
  std::size_t from = page.find(begin), to = page.find(end);
  ASSERT_NE(from, std::string::npos);
  ASSERT_NE(to, std::string::npos);
  from += begin.size();
  EXPECT_EQ(page.substr(from, to - from), printed)
      << "put the output of `systole " << arguments << "` between the two marks of " << file;
}

TEST(Docs, OpTablesAreWhatTheCommandPrints) { expect_printed("ops --markdown", "docs/ir.md", "ops"); }

TEST(Docs, EnvironmentVariablesAreWhatTheCommandPrints) {
  expect_printed("doctor --variables --markdown", "docs/compiler.md", "variables");
}

TEST(Docs, KeysOfATrainingAreWhatTheCommandPrints) {
  expect_printed("train --keys --markdown", "docs/command_line.md", "keys");
}
#endif

}  // namespace
