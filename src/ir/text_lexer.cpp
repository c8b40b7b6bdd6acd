#include "ir/text_lexer.h"

#include <fmt/format.h>
#include <utility>

#include "ir/text_literal.h"

namespace systole::ir {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_char(char c) { return is_name_start(c) || is_digit(c) || c == '.' || c == '$'; }

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::string Lexer::position(const Token& token) const {
  return fmt::format("{}:{}:{}", file_, token.line, token.column);
}

void Lexer::fail(const Token& token, std::string message, std::string expected) const {
  std::string got = token.kind == TokenKind::end ? "the end of the file"
                                                 : fmt::format("'{}'", escaped(token.text.substr(0, 60)));
  throw Error(ErrorKind::kParse, position(token), std::move(message), std::move(expected), std::move(got));
}

std::string Lexer::take_comments() { return std::exchange(comments_, {}); }
std::string Lexer::take_trailing() { return std::exchange(trailing_, {}); }

void Lexer::skip_blanks() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '\n') {
      ++line_;
      line_start_ = ++at_;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++at_;
    } else if (c == '/' && peek(1) == '/') {
      const std::size_t begin = at_ + 2, end = std::min(text_.find('\n', begin), text_.size());
      std::string_view comment = text_.substr(begin, end - begin);
      if (!comment.empty() && comment.front() == ' ') comment.remove_prefix(1);
      while (!comment.empty() && (comment.back() == ' ' || comment.back() == '\r')) comment.remove_suffix(1);
      // A comment behind a token speaks of what ends there; one on its own line of what follows.
      std::string& list = token_.kind != TokenKind::end && token_.line == line_ ? trailing_ : comments_;
      if (!list.empty()) list += '\n';
      list += comment.empty() ? std::string_view(" ") : comment;  // an empty comment line stays a line
      at_ = end;
    } else {
      return;
    }
  }
}

// From the opening quote to past the closing one.
void Lexer::read_string() {
  ++at_;
  while (true) {
    const char c = peek();
    if (at_ >= text_.size() || c == '\n') fail(token_, "a string without an end", "\"");
    ++at_;
    if (c == '"') return;
    if (c != '\\') {
      token_.name += c;
      continue;
    }
    const char escape = peek();
    ++at_;
    if (escape == 'n')
      token_.name += '\n';
    else if (escape == 't')
      token_.name += '\t';
    else if (escape == '"' || escape == '\\')
      token_.name += escape;
    else if (escape == 'x' && hex_digit(peek()) >= 0 && hex_digit(peek(1)) >= 0) {
      token_.name += static_cast<char>(hex_digit(peek()) * 16 + hex_digit(peek(1)));
      at_ += 2;
    } else {
      fail(token_, "an unknown escape in a string", "\\n, \\t, \\\\, \\\" or \\xHH");
    }
  }
}

void Lexer::advance() {
  skip_blanks();
  token_ = Token{};
  token_.line = line_;
  token_.column = static_cast<int>(at_ - line_start_) + 1;
  if (at_ >= text_.size()) return;
  const std::size_t begin = at_;
  token_.text = text_.substr(begin, 1);
  const char c = peek();
  const auto finish = [&](TokenKind kind) {
    token_.kind = kind;
    token_.text = text_.substr(begin, at_ - begin);
  };
  if (is_name_start(c)) {
    while (is_name_char(peek())) ++at_;
    finish(TokenKind::name);
    token_.name = token_.text;
  } else if (is_digit(c) || (c == '-' && (is_digit(peek(1)) || is_name_start(peek(1))))) {
    // Numbers, and -inf and -nan; the consumer converts the text and so checks it.
    ++at_;
    while (is_digit(peek()) || is_name_start(peek()) || peek() == '.' ||
           ((peek() == '-' || peek() == '+') && (text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E')))
      ++at_;
    finish(TokenKind::number);
  } else if (c == '"') {
    read_string();
    finish(TokenKind::string);
  } else if (c == '%' || c == '@') {
    ++at_;
    TokenKind kind = c == '%' ? TokenKind::value : TokenKind::graph_name;
    if (peek() == '"') {
      read_string();
    } else {
      while (is_name_char(peek())) token_.name += text_[at_++];
      if (token_.name.empty()) fail(token_, "a name is missing", fmt::format("{}name", c));
      if (c == '%' && token_.name.find_first_not_of("0123456789") == std::string::npos)
        kind = TokenKind::anonymous_value;
    }
    finish(kind);
  } else {
    ++at_;
    finish(TokenKind::symbol);
  }
}

}  // namespace systole::ir
