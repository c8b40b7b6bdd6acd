// What pages say beside their blocks: README.zh.md says what README.md says, and docs/samples.md lists every
// example.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "page.h"

namespace systole::docs {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = SYSTOLE_SOURCE_DIR;

std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// Without comments and spaces before them, which are translated.
std::vector<std::string> code_of(const Block& block) {
  std::vector<std::string> lines;
  for (const std::string& line : block.lines)
    lines.push_back(
        line.substr(0, line.find_last_not_of(' ', std::min(line.find("# "), line.find("// ")) - 1) + 1));
  return lines;
}

// Paragraphs, headings, points of lists and rows of tables, without blocks.
std::vector<std::string> paragraphs(const std::string& page) {
  std::istringstream lines(std::regex_replace(page, std::regex(R"(<!--(.|\n)*?-->\n?)"), ""));
  std::vector<std::string> all{""};
  bool block = false;
  for (std::string line; std::getline(lines, line);) {
    const bool fence = line.starts_with("```");
    if (fence) block = !block;
    if (fence || line.empty() || line[0] == '#' || line[0] == '|' || line.starts_with("- "))
      all.emplace_back();
    if (!fence && !block) all.back() += line + "\n";
  }
  std::erase_if(all,
                [](const std::string& text) { return text.find_first_not_of('\n') == std::string::npos; });
  return all;
}

// Code and links; the two READMEs name each other.
std::multiset<std::string> words_of(const std::string& paragraph) {
  static const std::regex word(R"(`[^`]+`|\]\([^)]*\))");
  std::multiset<std::string> words;
  for (auto at = std::sregex_iterator(paragraph.begin(), paragraph.end(), word); at != std::sregex_iterator();
       ++at)
    if (at->str().find("](README") == std::string::npos) words.insert(at->str());
  return words;
}

// The numbers of a table's cells.
std::multiset<std::string> numbers_of(const std::string& row) {
  static const std::regex number(R"(\d+(\.\d+)?)");
  std::multiset<std::string> numbers;
  for (auto at = std::sregex_iterator(row.begin(), row.end(), number); at != std::sregex_iterator(); ++at)
    numbers.insert(at->str());
  return numbers;
}

TEST(DocsText, TheChineseReadmeHasTheBlocksOfTheEnglish) {
  const Page english = read_page(kRoot, "README.md"), chinese = read_page(kRoot, "README.zh.md");
  ASSERT_EQ(english.blocks.size(), chinese.blocks.size());
  for (std::size_t i = 0; i < english.blocks.size(); ++i)
    EXPECT_EQ(code_of(english.blocks[i]), code_of(chinese.blocks[i]))
        << "README.md:" << english.blocks[i].line << ", README.zh.md:" << chinese.blocks[i].line;
}

TEST(DocsText, TheChineseReadmeNamesWhatTheEnglishNamesInEachParagraph) {
  const std::vector<std::string> english = paragraphs(text_of(kRoot / "README.md")),
                                 chinese = paragraphs(text_of(kRoot / "README.zh.md"));
  ASSERT_EQ(english.size(), chinese.size());
  for (std::size_t i = 0; i < english.size(); ++i) {
    EXPECT_EQ(words_of(english[i]), words_of(chinese[i])) << english[i] << "\n" << chinese[i];
    if (english[i][0] == '|')
      EXPECT_EQ(numbers_of(english[i]), numbers_of(chinese[i])) << english[i] << chinese[i];
  }
}

TEST(DocsText, TheListOfSamplesHasEveryExample) {
  const std::string page = text_of(kRoot / "docs/samples.md");
  for (const auto& file : fs::directory_iterator(kRoot / "examples"))
    if (file.path().extension() == ".cpp")
      EXPECT_NE(page.find("`examples/" + file.path().filename().string() + "`"), std::string::npos)
          << file.path();
  static const std::regex example(R"(`(examples/\w+\.cpp)`)");
  for (auto at = std::sregex_iterator(page.begin(), page.end(), example); at != std::sregex_iterator(); ++at)
    EXPECT_TRUE(fs::exists(kRoot / (*at)[1].str())) << (*at)[1];
}

}  // namespace
}  // namespace systole::docs
