// docs/faults.md says which test shows what hostile input must not do: each test that it names is in the
// tree, and each row names one.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// "Suite.Name" of every test in the tree.
std::set<std::string> all_tests() {
  std::set<std::string> names;
  const std::regex form(R"((?:^|\n)TEST(?:_F|_P)?\((\w+),\s*(\w+)\))");
  for (const auto& file : fs::recursive_directory_iterator(fs::path(SYSTOLE_SOURCE_DIR) / "tests")) {
    if (file.path().extension() != ".cpp") continue;
    const std::string text = text_of(file.path());
    for (auto at = std::sregex_iterator(text.begin(), text.end(), form); at != std::sregex_iterator(); ++at)
      names.insert((*at)[1].str() + "." + (*at)[2].str());
  }
  return names;
}

struct Row {
  int number = 0;
  std::vector<std::string> tests;
};

std::vector<Row> rows() {
  std::vector<Row> all;
  std::istringstream lines(text_of(fs::path(SYSTOLE_SOURCE_DIR) / "docs/faults.md"));
  const std::regex test(R"(`(\w+\.[\w*]+)`)");
  for (std::string line; std::getline(lines, line);) {
    std::smatch number;
    if (!std::regex_search(line, number, std::regex(R"(^\| (\d+|–) \|)"))) continue;
    Row row{number[1] == "–" ? 0 : std::stoi(number[1]), {}};
    const std::string last = line.substr(line.rfind(" | "));
    for (auto at = std::sregex_iterator(last.begin(), last.end(), test); at != std::sregex_iterator(); ++at)
      row.tests.push_back((*at)[1]);
    all.push_back(row);
  }
  return all;
}

TEST(FaultsPage, EveryTestThatItNamesIsInTheTree) {
  const std::set<std::string> known = all_tests();
  ASSERT_GT(known.size(), 1000u);
  for (const Row& row : rows())
    for (const std::string& name : row.tests) {
      if (!name.ends_with('*')) {
        EXPECT_TRUE(known.contains(name)) << "row " << row.number << ": " << name;
        continue;
      }
      const std::string suite = name.substr(0, name.size() - 1);
      const auto at = known.lower_bound(suite);
      EXPECT_TRUE(at != known.end() && at->starts_with(suite)) << "row " << row.number << ": " << name;
    }
}

TEST(FaultsPage, EveryRowNamesATestAndStandsOnce) {
  std::set<int> numbers;
  for (const Row& row : rows()) {
    EXPECT_FALSE(row.tests.empty()) << "row " << row.number;
    EXPECT_TRUE(numbers.insert(row.number).second) << "row " << row.number << " stands twice";
  }
  for (const int number : {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                           16, 28, 29, 30, 31, 32, 33, 34, 35, 36, 38, 39, 41, 43, 53})
    EXPECT_TRUE(numbers.contains(number)) << "row " << number;
}

}  // namespace
