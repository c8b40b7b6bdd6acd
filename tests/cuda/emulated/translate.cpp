#include "translate.h"

#include <fmt/format.h>

#include <cctype>
#include <stdexcept>
#include <string_view>

namespace systole::emulated {

namespace {

constexpr std::string_view kOfProgram = "used, visibility(\"protected\")";

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

class Translation {
 public:
  explicit Translation(const std::string& source) : text_(source) {}

  std::string make() {
    bool is_template = false;  // what is being declared
    int depth = 0;
    struct Open {
      int depth;
      std::string name, most_threads;
    };
    std::vector<Open> kernels;  // that are declared, or whose bodies are open
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#' && is_line_begin()) {
        copy_to(std::min(text_.find('\n', at_), text_.size()));
      } else if (c == '"' || c == '\'') {
        copy_to(end_of_literal(at_));
      } else if (is_word(c)) {
        const std::string word = next_word();
        if (word == "asm" || word == "__asm__") {
          assembly();
        } else if (word == "template") {
          is_template = true;
          out_ += word;
        } else if (word == "__global__") {
          out_ += "__attribute__((visibility(\"protected\")))";  // libc may have one of this name
          if (const std::string name = function_name(); !name.empty() && !is_template)
            kernels.push_back({depth, name, "0"});
        } else if (word == "__launch_bounds__") {
          const std::size_t open = text_.find('(', at_), end = end_of_brackets(open);
          const std::string bounds = text_.substr(open + 1, end - open - 2);
          if (!kernels.empty()) kernels.back().most_threads = bounds.substr(0, bounds.find(','));
          at_ = end;
        } else if (word == "__constant__") {
          out_ += fmt::format("__attribute__((section(\".nv.constant3\"), {}))", kOfProgram);
        } else if (word == "__device__") {
          if (!is_function()) out_ += fmt::format("__attribute__((section(\".nv.global\"), {}))", kOfProgram);
        } else if (word == "__shared__") {
          shared();
        } else {
          out_ += word;
        }
      } else {
        if (c == '{') ++depth;
        if (c == '}') --depth;
        out_ += c;
        ++at_;
        if (c == ';' || c == '}') is_template = false;
        if (c == ';' && !kernels.empty() && kernels.back().depth == depth) kernels.pop_back();
        if (c == '}' && !kernels.empty() && kernels.back().depth == depth) {
          out_ += registration(kernels.back().name, "", kernels.back().most_threads);
          kernels.pop_back();
        }
      }
    }
    return std::move(out_);
  }

  static std::string registration(const std::string& function, const std::string& expression,
                                  const std::string& most_threads) {
    static constexpr std::string_view kForm = "static ::emulated::register_t {}({}, \"{}\", {});";
    std::string name = "emulated_entry_";
    for (const char c : function) name += is_word(c) ? c : '_';
    return fmt::format(kForm, name, function, expression, most_threads);
  }

 private:
  bool is_line_begin() const { return at_ == 0 || text_[at_ - 1] == '\n'; }
  void copy_to(std::size_t end) {
    out_ += text_.substr(at_, end - at_);
    at_ = end;
  }
  std::string next_word() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  std::size_t end_of_literal(std::size_t begin) const {
    const char quote = text_[begin];
    if (quote == '\'' && begin > 0 && std::isdigit(static_cast<unsigned char>(text_[begin - 1])) != 0)
      return begin + 1;  // 1'000
    std::size_t i = begin + 1;
    while (i < text_.size() && text_[i] != quote) i += text_[i] == '\\' ? 2 : 1;
    return i + 1;
  }
  // Behind the bracket that closes the one at `begin`.
  std::size_t end_of_brackets(std::size_t begin) const {
    int depth = 0;
    for (std::size_t i = begin; i < text_.size();) {
      if (text_[i] == '"' || text_[i] == '\'') {
        i = end_of_literal(i);
        continue;
      }
      if (text_[i] == '(') ++depth;
      if (text_[i] == ')' && --depth == 0) return i + 1;
      ++i;
    }
    throw std::runtime_error("a bracket is not closed");
  }

  // The name before the parameters of what comes.
  std::string function_name() const {
    std::string word;
    for (std::size_t i = at_; i < text_.size();) {
      if (is_word(text_[i])) {
        const std::size_t begin = i;
        while (i < text_.size() && is_word(text_[i])) ++i;
        word = text_.substr(begin, i - begin);
      } else if (text_[i] == '(') {
        if (word != "__launch_bounds__" && word != "__attribute__") return word;
        i = end_of_brackets(i);
      } else if (text_[i] == ';' || text_[i] == '{') {
        break;
      } else {
        ++i;
      }
    }
    return {};
  }
  bool is_function() const {
    const std::size_t end = text_.find_first_of("(;={[", at_);
    return end == std::string::npos || text_[end] == '(';
  }

  // What is given at the launch is one array.
  void shared() {
    constexpr std::string_view kExtern = "extern";
    const std::size_t last = out_.find_last_not_of(" \t\n");
    if (last != std::string::npos && last + 1 >= kExtern.size() &&
        out_.compare(last + 1 - kExtern.size(), kExtern.size(), kExtern) == 0) {
      out_.resize(last + 1 - kExtern.size());
      const std::size_t bracket = text_.find('[', at_), end = text_.find(';', at_);
      std::size_t begin = bracket;
      while (begin > at_ && std::isspace(static_cast<unsigned char>(text_[begin - 1])) != 0) --begin;
      const std::size_t stop = begin;
      while (begin > at_ && is_word(text_[begin - 1])) --begin;
      const std::string type = text_.substr(at_, begin - at_), name = text_.substr(begin, stop - begin);
      out_ += fmt::format("{0}* const {1} = ({0}*)systole_emulated_machine->dynamic_shared", type, name);
      at_ = end;
      return;
    }
    out_ += "static __attribute__((section(\".systole_shared\")))";
  }

  // asm [volatile] ("op.type …" : "=r"(out), … : "r"(in), … : …) becomes ptx_op_type(out, …, in, …).
  void assembly() {
    skip_space();
    if (is_word(text_[at_])) next_word();  // volatile
    const std::size_t open = text_.find('(', at_), end = end_of_brackets(open);
    at_ = open + 1;
    std::string instructions, operands;
    int part = 0;
    while (at_ < end - 1) {
      const char c = text_[at_];
      if (c == '"') {
        const std::size_t stop = end_of_literal(at_);
        if (part == 0) instructions += text_.substr(at_ + 1, stop - at_ - 2);
        at_ = stop;
      } else if (c == '(') {
        const std::size_t stop = end_of_brackets(at_);
        operands += (operands.empty() ? "" : ", ") + text_.substr(at_, stop - at_);
        at_ = stop;
      } else {
        if (c == ':') ++part;
        ++at_;
      }
    }
    at_ = end;
    std::string name = "ptx_";
    for (const char c : instructions.substr(0, instructions.find_first_of(" ;")))
      name += is_word(c) ? c : '_';
    out_ += fmt::format("{}({})", name, operands);
  }

  const std::string& text_;
  std::size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string translated(const std::string& source, const std::vector<std::string>& templates) {
  std::string text = Translation(source).make() + "\n";
  for (const std::string& each : templates) text += Translation::registration(each, each, "0") + "\n";
  return text;
}

}  // namespace systole::emulated
