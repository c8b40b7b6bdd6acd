#include "page.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <stdexcept>

namespace systole::docs {

namespace {

constexpr std::array kKinds{"given", "holds",        "shown by", "printed", "file",
                            "from",  "numbers vary", "slow",     "not run"};

std::string trimmed(const std::string& text) {
  const std::size_t from = text.find_first_not_of(" \t\n"), to = text.find_last_not_of(" \t\n");
  return from == std::string::npos ? "" : text.substr(from, to - from + 1);
}

// A comment `<!-- kind: text -->` or `<!-- kind limited: text -->`; nothing when it is of no known kind.
std::optional<Mark> mark_of(const std::string& comment, int line) {
  const std::size_t begin = comment.find("<!--") + 4, end = comment.rfind("-->");
  const std::string inside = comment.substr(begin, end - begin);
  const std::size_t word = std::min(inside.find_first_not_of(" \n"), inside.size());
  for (const std::string kind : kKinds) {
    if (inside.compare(word, kind.size(), kind) != 0) continue;
    std::size_t at = word + kind.size();
    const std::size_t tick = inside.find_first_not_of(' ', at);
    std::string limited;
    if (tick != std::string::npos && inside[tick] == '`') {
      const std::size_t close = inside.find('`', tick + 1);
      if (close == std::string::npos) return std::nullopt;
      limited = inside.substr(tick + 1, close - tick - 1);
      at = close + 1;
    }
    const std::size_t colon = inside.find(':', at);
    if (colon == std::string::npos) return std::nullopt;
    if (limited.empty()) limited = trimmed(inside.substr(at, colon - at));
    const std::size_t text = std::min(inside.find_first_not_of(" \n", colon + 1), inside.size());
    line += static_cast<int>(
        std::count(inside.begin(), inside.begin() + static_cast<std::ptrdiff_t>(text), '\n'));
    return Mark{kind, limited, trimmed(inside.substr(text)), line};
  }
  return std::nullopt;
}

}  // namespace

const Mark* Block::mark(const std::string& kind, const std::string& limited) const {
  for (const Mark& mark : marks)
    if (mark.kind == kind && (limited.empty() || mark.limited == limited)) return &mark;
  return nullptr;
}

std::string Block::text() const {
  std::string all;
  for (const std::string& line : lines) all += line + "\n";
  return all;
}

bool Block::is_whole_program() const {
  return std::any_of(lines.begin(), lines.end(),
                     [](const std::string& line) { return line.starts_with("int main("); });
}

Page read_page(const std::filesystem::path& root, const std::string& name) {
  std::ifstream in(root / name);
  if (!in) throw std::runtime_error(name + ": cannot open");
  Page page{name, {}};
  std::vector<Mark> marks;
  std::string comment, unknown;  // a comment that goes on; one that is no mark, in case that a block follows
  int line = 0, comment_line = 0;
  for (std::string text; std::getline(in, text);) {
    ++line;
    const std::size_t indent = text.find_first_not_of(' ');
    if (comment.empty() && indent == std::string::npos) continue;
    if (!comment.empty() || text.compare(indent, 4, "<!--") == 0) {
      if (comment.empty()) comment_line = line;
      comment += text + "\n";
      if (text.find("-->") == std::string::npos) continue;
      if (const auto mark = mark_of(comment, comment_line))
        marks.push_back(*mark);
      else
        unknown = comment;
      comment.clear();
      continue;
    }
    if (text.compare(indent, 3, "```") != 0) {
      marks.clear();
      unknown.clear();
      continue;
    }
    if (!unknown.empty())
      throw std::runtime_error(name + ":" + std::to_string(line) + ": no such mark: " + unknown);
    Block block{trimmed(text.substr(indent + 3)), {}, line + 1, std::move(marks)};
    marks.clear();
    bool closed = false;
    while (!closed && std::getline(in, text)) {
      ++line;
      closed = trimmed(text) == "```";
      if (!closed)
        block.lines.push_back(text.substr(std::min({indent, text.find_first_not_of(' '), text.size()})));
    }
    if (!closed)
      throw std::runtime_error(name + ":" + std::to_string(block.line) + ": a block that does not end");
    page.blocks.push_back(std::move(block));
  }
  return page;
}

std::vector<std::string> page_names(const std::filesystem::path& root) {
  std::vector<std::string> names{"README.md"};
  for (const auto& file : std::filesystem::directory_iterator(root / "docs"))
    if (file.path().extension() == ".md") names.push_back("docs/" + file.path().filename().string());
  std::sort(names.begin() + 1, names.end());
  return names;
}

std::string identifier(const std::string& page_name) {
  std::string name = page_name.substr(page_name.find('/') == std::string::npos ? 0 : page_name.find('/') + 1);
  std::replace_if(name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
}

}  // namespace systole::docs
