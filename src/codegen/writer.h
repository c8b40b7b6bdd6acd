#pragma once

// Lines of C-style source, indented by the blocks that are open, and names that are used once.

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace systole::codegen {

class Writer {
 public:
  explicit Writer(int depth = 0) : depth_(depth) {}
  void line(std::string_view text) {
    text_.append(static_cast<std::size_t>(2 * depth_), ' ');
    text_ += text;
    text_ += '\n';
  }
  void open(std::string_view head) {
    line(fmt::format("{} {{", head));
    ++depth_;
  }
  void close(std::string_view tail = {}) {
    --depth_;
    line(fmt::format("}}{}", tail));
  }
  // Where lines go that are found out later to belong there: before a loop, say.
  void mark() {
    mark_ = text_.size();
    mark_depth_ = depth_;
  }
  void line_at_mark(std::string_view text) {
    const std::string whole =
        fmt::format("{}{}\n", std::string(static_cast<std::size_t>(2 * mark_depth_), ' '), text);
    text_.insert(mark_, whole);
    mark_ += whole.size();
  }
  std::string fresh(std::string_view stem) { return fmt::format("{}{}", stem, next_++); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::size_t mark_ = 0;
  int depth_, next_ = 0, mark_depth_ = 0;
};

}  // namespace systole::codegen
