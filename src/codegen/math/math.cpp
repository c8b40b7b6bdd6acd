// The registry: the texts cut into functions once. What a function calls is read from its text.

#include "codegen/math/math.h"

#include <map>
#include <set>
#include <utility>

#include "base/lasting.h"
#include "codegen/math/texts.h"
#include "systole/base/error.h"

namespace systole::codegen::math {

namespace {

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

struct Function {
  std::string name, text;
};

struct Library {
  std::vector<Function> functions;
  std::map<std::string_view, std::size_t> index;
};

// The word before the first parenthesis.
std::string name_of(std::string_view definition) {
  const std::size_t end = definition.find('(');
  std::size_t begin = end;
  while (begin > 0 && is_word(definition[begin - 1])) --begin;
  return std::string(definition.substr(begin, end - begin));
}

void cut(std::string_view text, std::vector<Function>& out) {
  Function current;
  while (!text.empty()) {
    const std::size_t length = text.find('\n');
    const std::string_view line = text.substr(0, length);
    text.remove_prefix(length + 1);
    if (line.empty()) continue;
    current.text += line;
    current.text += '\n';
    const bool opens = line.starts_with("S_FN ");
    if (opens) current.name = name_of(line);
    if (line == "}" || (opens && line.ends_with('}'))) out.push_back(std::exchange(current, {}));
  }
}

const Library& library() {
  static const Library& built = lasting<Library>([] {
    Library l;
    for (const std::string& text :
         {algebraic_text(), exponential_text(), logarithm_text(), trigonometric_text(), double_text(),
          integer_text(), convert_text(), random_text()})
      cut(text, l.functions);
    for (std::size_t i = 0; i < l.functions.size(); ++i) l.index.emplace(l.functions[i].name, i);
    return l;
  }());
  return built;
}

class Collector {
 public:
  void add(std::string_view name) {
    const auto found = library().index.find(name);
    if (found == library().index.end())
      throw Error(ErrorKind::kInternal, "codegen", "kernel arithmetic without a definition", {},
                  std::string(name));
    visit(found->second);
  }
  std::string take() { return std::move(text_); }

 private:
  void visit(std::size_t i) {
    if (!seen_.insert(i).second) return;
    const std::string_view text = library().functions[i].text;
    for (std::size_t at = text.find("s_"); at != std::string_view::npos; at = text.find("s_", at + 1)) {
      if (at > 0 && is_word(text[at - 1])) continue;
      std::size_t end = at;
      while (end < text.size() && is_word(text[end])) ++end;
      if (const auto callee = library().index.find(text.substr(at, end - at));
          callee != library().index.end())
        visit(callee->second);
    }
    text_ += text;
  }

  std::set<std::size_t> seen_;
  std::string text_;
};

}  // namespace

std::string filled(std::string_view text, Placeholders values) {
  std::string out(text);
  for (const auto& [from, to] : values)
    for (std::size_t at = out.find(from); at != std::string::npos; at = out.find(from, at + to.size()))
      out.replace(at, from.size(), to);
  return out;
}

std::string source(std::span<const std::string_view> names) {
  Collector collector;
  for (std::string_view name : names) collector.add(name);
  return collector.take();
}

bool has(std::string_view function) { return library().index.contains(function); }

std::vector<std::string_view> functions() {
  std::vector<std::string_view> names;
  for (const Function& f : library().functions) names.push_back(f.name);
  return names;
}

}  // namespace systole::codegen::math
