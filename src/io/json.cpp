#include "io/json.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

namespace systole::io {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string shown(unsigned char c) {
  return c >= 0x20 && c < 0x7f ? fmt::format("'{}'", static_cast<char>(c)) : fmt::format("byte {:#04x}", c);
}

}  // namespace

std::size_t utf8_prefix(std::string_view text) {
  const auto* const s = reinterpret_cast<const unsigned char*>(text.data());
  std::size_t i = 0;
  while (i < text.size()) {
    const unsigned c = s[i];
    if (c < 0x80) {
      ++i;
      continue;
    }
    // The second byte's range rules out long forms, surrogates and what is above U+10FFFF.
    const int more = c >= 0xc2 && c <= 0xdf ? 1 : c >= 0xe0 && c <= 0xef ? 2 : c >= 0xf0 && c <= 0xf4 ? 3 : 0;
    if (more == 0 || i + static_cast<std::size_t>(more) >= text.size()) return i;
    const unsigned low = c == 0xe0   ? 0xa0
                         : c == 0xf0 ? 0x90
                                     : 0x80,
                   high = c == 0xed   ? 0x9f
                          : c == 0xf4 ? 0x8f
                                      : 0xbf;
    if (s[i + 1] < low || s[i + 1] > high) return i;
    for (std::size_t k = 2; k <= static_cast<std::size_t>(more); ++k)
      if ((s[i + k] & 0xc0) != 0x80) return i;
    i += static_cast<std::size_t>(more) + 1;
  }
  return i;
}

JsonReader::JsonReader(std::span<char> text, std::string file, std::uint64_t offset)
    : text_(text), file_(std::move(file)), offset_(offset) {
  if (const std::size_t good = utf8_prefix({text.data(), text.size()}); good < text.size())
    fail(good, "the text is not UTF-8", {}, shown(static_cast<unsigned char>(text[good])));
}

void JsonReader::fail(std::size_t at, std::string message, std::string expected, std::string got,
                      ErrorKind kind) const {
  throw Error(kind, fmt::format("{}: byte {}", file_, offset_ + at), std::move(message), std::move(expected),
              std::move(got));
}

std::string JsonReader::got() const {
  return at_ < text_.size() ? shown(static_cast<unsigned char>(text_[at_])) : "the end";
}

void JsonReader::space() {
  while (at_ < text_.size() &&
         (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
    ++at_;
}

bool JsonReader::accept(char c) {
  space();
  if (at_ == text_.size() || text_[at_] != c) return false;
  ++at_;
  return true;
}

void JsonReader::expect(char c, const char* what) {
  if (!accept(c)) fail(at_, "malformed JSON", what, got());
}

JsonReader::Kind JsonReader::kind() {
  space();
  const char c = at_ < text_.size() ? text_[at_] : '\0';
  switch (c) {
    case '{': return Kind::object;
    case '[': return Kind::array;
    case '"': return Kind::string;
    case 't':
    case 'f': return Kind::boolean;
    case 'n': return Kind::null;
    default:
      if (c == '-' || is_digit(c)) return Kind::number;
      fail(at_, "malformed JSON", "a value", got());
  }
}

void JsonReader::enter(char open) {
  expect(open, open == '{' ? "an object" : "an array");
  if (levels_.size() == kMaxJsonDepth)
    fail(at_ - 1, "nested too deeply", fmt::format("at most {} levels", kMaxJsonDepth), {},
         ErrorKind::kLimit);
  levels_.push_back({open == '{'});
}

void JsonReader::begin_object() { enter('{'); }
void JsonReader::begin_array() { enter('['); }

bool JsonReader::next_key(std::string_view& key) {
  const bool first = levels_.back().first;
  levels_.back().first = false;
  if (accept('}')) {
    levels_.pop_back();
    return false;
  }
  if (!first) expect(',', "',' or '}'");
  space();
  if (at_ == text_.size() || text_[at_] != '"') fail(at_, "malformed JSON", "a key in quotes", got());
  key = string();
  expect(':', "':'");
  return true;
}

bool JsonReader::next_item() {
  const bool first = levels_.back().first;
  levels_.back().first = false;
  if (accept(']')) {
    levels_.pop_back();
    return false;
  }
  if (!first) expect(',', "',' or ']'");
  return true;
}

// Four digits after \u.
std::uint32_t JsonReader::escaped_unit() {
  std::uint32_t unit = 0;
  for (int i = 0; i < 4; ++i, ++at_) {
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    const int digit = is_digit(c)            ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) fail(at_, "malformed JSON", "four hexadecimal digits after \\u", got());
    unit = unit << 4 | static_cast<std::uint32_t>(digit);
  }
  return unit;
}

std::string_view JsonReader::string() {
  expect('"', "a string");
  const std::size_t begin = at_;
  std::size_t end = begin;  // what is decoded is never longer than its source
  for (;;) {
    if (at_ == text_.size()) fail(begin - 1, "a string without an end");
    const char c = text_[at_++];
    if (c == '"') return {text_.data() + begin, end - begin};
    if (static_cast<unsigned char>(c) < 0x20)
      fail(at_ - 1, "a control character in a string", "an escape sequence",
           shown(static_cast<unsigned char>(c)));
    if (c != '\\') {
      text_[end++] = c;
      continue;
    }
    if (at_ == text_.size()) fail(begin - 1, "a string without an end");
    const std::size_t escape = at_ - 1;
    switch (text_[at_++]) {
      case '"': text_[end++] = '"'; break;
      case '\\': text_[end++] = '\\'; break;
      case '/': text_[end++] = '/'; break;
      case 'b': text_[end++] = '\b'; break;
      case 'f': text_[end++] = '\f'; break;
      case 'n': text_[end++] = '\n'; break;
      case 'r': text_[end++] = '\r'; break;
      case 't': text_[end++] = '\t'; break;
      case 'u': {
        std::uint32_t code = escaped_unit();
        if (code >= 0xd800 && code < 0xe000) {
          const bool pair =
              code < 0xdc00 && at_ + 1 < text_.size() && text_[at_] == '\\' && text_[at_ + 1] == 'u';
          if (pair) at_ += 2;
          const std::uint32_t low = pair ? escaped_unit() : 0;
          if (low < 0xdc00 || low > 0xdfff) fail(escape, "half of a surrogate pair in a string");
          code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        }
        const auto put = [&](std::uint32_t byte) { text_[end++] = static_cast<char>(byte); };
        if (code < 0x80) {
          put(code);
        } else if (code < 0x800) {
          put(0xc0 | code >> 6), put(0x80 | (code & 63));
        } else if (code < 0x10000) {
          put(0xe0 | code >> 12), put(0x80 | (code >> 6 & 63)), put(0x80 | (code & 63));
        } else {
          put(0xf0 | code >> 18), put(0x80 | (code >> 12 & 63));
          put(0x80 | (code >> 6 & 63)), put(0x80 | (code & 63));
        }
        break;
      }
      default: fail(escape, "malformed JSON", "an escape sequence", fmt::format("\\{}", text_[at_ - 1]));
    }
  }
}

std::string_view JsonReader::number_text() {
  space();
  const std::size_t begin = at_;
  const auto peek = [&] { return at_ < text_.size() ? text_[at_] : '\0'; };
  const auto digits = [&] {
    if (!is_digit(peek())) fail(at_, "malformed JSON", begin == at_ ? "a number" : "a digit", got());
    while (is_digit(peek())) ++at_;
  };
  if (peek() == '-') ++at_;
  if (peek() == '0')
    ++at_;  // no digit may follow: what comes next is then not ',' or a bracket
  else
    digits();
  if (peek() == '.') ++at_, digits();
  if (peek() == 'e' || peek() == 'E') {
    ++at_;
    if (peek() == '+' || peek() == '-') ++at_;
    digits();
  }
  return {text_.data() + begin, at_ - begin};
}

namespace {

template <class T>
T whole(const JsonReader& in, std::size_t at, std::string_view text, const char* expected) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range)
    in.fail(at, "a number beyond 64 bits", expected, std::string(text.substr(0, 40)));
  if (error != std::errc() || end != text.data() + text.size())
    in.fail(at, "a number of another kind", expected, std::string(text.substr(0, 40)));
  return value;
}

}  // namespace

std::uint64_t JsonReader::unsigned_number() {
  const std::string_view text = number_text();
  return whole<std::uint64_t>(*this, at_ - text.size(), text, "a whole number that is not negative");
}

std::int64_t JsonReader::integer() {
  const std::string_view text = number_text();
  return whole<std::int64_t>(*this, at_ - text.size(), text, "a whole number");
}

double JsonReader::number() {
  const std::string_view text = number_text();
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc())
    fail(at_ - text.size(), "a number beyond the range of f64", {}, std::string(text.substr(0, 40)));
  return value;
}

void JsonReader::literal(std::string_view word) {
  space();
  if (std::string_view(text_.data(), text_.size()).substr(at_, word.size()) != word)
    fail(at_, "malformed JSON", std::string(word), got());
  at_ += word.size();
}

bool JsonReader::boolean() {
  space();
  const bool value = at_ < text_.size() && text_[at_] == 't';
  literal(value ? "true" : "false");
  return value;
}

void JsonReader::null() { literal("null"); }

void JsonReader::skip() {
  switch (kind()) {
    case Kind::object:
      begin_object();
      for (std::string_view key; next_key(key);) skip();
      break;
    case Kind::array:
      begin_array();
      while (next_item()) skip();
      break;
    case Kind::string: string(); break;
    case Kind::number: number_text(); break;
    case Kind::boolean: boolean(); break;
    case Kind::null: null(); break;
  }
}

void JsonReader::end() {
  space();
  if (at_ != text_.size()) fail(at_, "more text after the end", {}, got());
}

std::string json_quoted(std::string_view text, std::string_view where) {
  if (utf8_prefix(text) != text.size())
    throw Error(ErrorKind::kInvalidArgument, std::string(where), "a name or text that is not UTF-8");
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20)
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        else
          out += c;
    }
  }
  out += '"';
  return out;
}

}  // namespace systole::io
