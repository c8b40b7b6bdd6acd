// Writes the C++ of a page as two files to compile: fragments, each the body of a function, and whole
// programs, which have no headers but those that they include themselves. docs_extract ROOT PAGE
// FRAGMENTS.cpp PROGRAMS.cpp

#include <exception>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

#include "page.h"

namespace {

using systole::docs::Block;
using systole::docs::Mark;

// Preprocessor lines stand before everything; a line that is only … says that something is left out.
struct Code {
  std::string includes, body;
};

void add(Code& code, const std::string& line) {
  const std::size_t word = line.find_first_not_of(' ');
  const bool is_include = line.starts_with("#include");
  if (is_include) code.includes += line + "\n";
  const bool stays = !is_include && (word == std::string::npos || line.substr(word) != "…");
  code.body += (stays ? line : std::string()) + "\n";
}

std::string line_directive(int line, const std::string& file) {
  return "#line " + std::to_string(line) + " \"" + file + "\"\n";
}

void add_text(Code& code, const std::string& text, int line, const std::string& file) {
  code.body += line_directive(line, file);
  std::istringstream lines(text);
  for (std::string each; std::getline(lines, each);) add(code, each);
}

std::string as_literal(const std::string& text) {
  std::string literal = "\"";
  for (const char c : text) literal += (c == '"' || c == '\\' ? std::string("\\") : std::string()) + c;
  return literal + "\"";
}

void add_conditions(Code& code, const Block& block, const std::string& file) {
  const Mark* holds = block.mark("holds");
  if (holds == nullptr) return;
  std::istringstream lines(holds->text);
  int line = holds->line;
  for (std::string each; std::getline(lines, each); ++line)
    if (each.find_first_not_of(' ') != std::string::npos)
      code.body +=
          line_directive(line, file) + "systole::docs::holds((" + each + "), " + as_literal(each) + ");\n";
}

void begin(Code& code, const std::string& name) { code.body += "namespace {\nnamespace " + name + " {\n"; }

void end(Code& code, const std::string& name, const std::string& page, int line, const char* entry) {
  code.body += "}\nconst systole::docs::Registration " + name + "_(" + as_literal(page) + ", " +
               std::to_string(line) + ", [] { static_cast<void>(" + name + "::" + entry + "()); });\n}\n\n";
}

void add_program(Code& code, const Block& block, const std::string& name, const std::string& page) {
  begin(code, name);
  std::string text = block.text();
  text.insert(text.rfind('}'), "return 0; ");  // a main that is not the program's must end with one
  add_text(code, text, block.line, page);
  end(code, name, page, block.line, "main");
}

void add_fragment(Code& code, const Block& block, const std::string& name, const std::string& page) {
  const Mark *given = block.mark("given"), *shown_by = block.mark("shown by");
  begin(code, name);
  code.body += "using namespace systole;\nvoid run() {\n";
  if (given != nullptr) add_text(code, given->text, given->line, page);
  code.body += "{\n";
  if (shown_by != nullptr && !shown_by->text.starts_with("$ "))
    add_text(code, shown_by->text, shown_by->line, page);
  if (block.is_cpp() && shown_by == nullptr) add_text(code, block.text(), block.line, page);
  add_conditions(code, block, page);
  code.body += "}\n}\n";
  end(code, name, page, block.line, "run");
}

void write(const std::string& path, const std::string& first, const Code& code) {
  std::ofstream(path) << code.includes << first << "\n" << code.body;
}

void extract(char** argv) {
  const std::string root = argv[1], name = argv[2];
  Code fragments, programs;
  for (const Block& block : systole::docs::read_page(root, name).blocks) {
    if (block.mark("from") != nullptr) continue;
    const std::string id = systole::docs::identifier(name) + "_" + std::to_string(block.line);
    const Mark* shown_by = block.mark("shown by");
    const bool is_shown_by_cpp = shown_by != nullptr && !shown_by->text.starts_with("$ ");
    if (block.is_cpp() && block.is_whole_program())
      add_program(programs, block, id, name);
    else if (block.is_cpp() || is_shown_by_cpp || block.mark("given") != nullptr)
      add_fragment(fragments, block, id, name);
  }
  fragments.includes = "#include <systole/systole.h>\n#include <iostream>\n" + fragments.includes;
  write(argv[3], "#include \"blocks.h\"\n", fragments);
  write(argv[4], "#include \"blocks.h\"\n", programs);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::cerr << "docs_extract: four arguments are needed\n";
    return 2;
  }
  try {
    extract(argv);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "docs_extract: " << error.what() << "\n";
    return 1;
  }
}
