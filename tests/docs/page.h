#pragma once

// A page of the documentation as a list of its fenced blocks. A block is compiled, run or compared by what it
// is; HTML comments directly before it, which readers do not see, say what else it takes:
//
//   <!-- given: C++ -->            what stands around a C++ block, or makes the files that commands read
//   <!-- holds: C++ -->            expressions, one on each line, that are true at the end of a C++ block
//   <!-- shown by: C++ or $ … -->  the block is what this prints, with the message of the error that ends it
//   <!-- printed: by … -->         the block is what the C++ block before it prints
//   <!-- file: NAME -->            the block is this file, which commands of the page read
//   <!-- from: FILE -->            the block stands in this file of the tree, which tests compile or run
//   <!-- numbers vary: why -->     numbers are not compared; with `numbers vary by 2 %: why` only so closely,
//   if
//                                  they have a point
//   <!-- slow: why -->             runs among the slow tests
//   <!-- not run: why -->          C++ is compiled, a command is not run; with `not run `COMMAND`: why` only
//   commands
//                                  that begin so
//
// A comment in a C++ block that begins with `prints` is a line that the block prints, one with `throws` the
// message of the error that ends it. In expected text … stands for anything, alone on a line for any number
// of lines.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace systole::docs {

struct Mark {
  std::string kind;     // "given", "not run", …
  std::string limited;  // what stands between kind and colon, without backticks
  std::string text;
  int line = 0;  // of the text's beginning, from 1
};

struct Block {
  std::string language;            // behind the fence; empty for commands and what they print
  std::vector<std::string> lines;  // without the fence's indentation
  int line = 0;                    // of the first line inside the fence, from 1
  std::vector<Mark> marks;

  const Mark* mark(const std::string& kind, const std::string& limited = "") const;
  std::string text() const;
  bool is_cpp() const { return language == "cpp" || language == "c++"; }
  bool is_whole_program() const;  // has a main of its own
};

struct Page {
  std::string name;  // "docs/training.md"
  std::vector<Block> blocks;
};

// Throws std::runtime_error with file and line for a comment before a block that is no mark, and for a fence
// that nothing closes.
Page read_page(const std::filesystem::path& root, const std::string& name);

// README.md and docs/*.md. README.zh.md has the blocks of README.md, translated comments apart.
std::vector<std::string> page_names(const std::filesystem::path& root);

// "docs/training.md" as part of an identifier.
std::string identifier(const std::string& page_name);

}  // namespace systole::docs
