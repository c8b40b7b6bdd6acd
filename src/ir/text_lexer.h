#pragma once

// Tokens of the text form, with their positions. Comments are kept aside for whoever wants them.

#include <string>
#include <string_view>

#include "systole/base/error.h"

namespace systole::ir {

enum class TokenKind { end, name, number, string, value, anonymous_value, graph_name, symbol };

struct Token {
  TokenKind kind = TokenKind::end;
  std::string_view text;  // the token as written
  std::string name;       // of names, strings, values and graph names: unquoted and unescaped
  int line = 1, column = 1;
};

class Lexer {
 public:
  Lexer(std::string_view text, std::string_view file) : text_(text), file_(file) { advance(); }

  const Token& token() const { return token_; }
  void advance();
  std::string take_comments();  // those met since the last call, newline-separated
  std::string take_trailing();  // of these, those that began on the line of the token before them
  std::string position(const Token& token) const;
  [[noreturn]] void fail(const Token& token, std::string message, std::string expected = {}) const;

 private:
  void skip_blanks();
  void read_string();
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  std::string_view text_, file_;
  std::size_t at_ = 0, line_start_ = 0;
  int line_ = 1;
  Token token_;
  std::string comments_, trailing_;
};

}  // namespace systole::ir
