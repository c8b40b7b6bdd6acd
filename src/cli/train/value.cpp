#include "cli/train/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>
#include <utility>

#include "base/nearest.h"

namespace systole::cli {

namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_bare(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

class Reader {
 public:
  Reader(std::string_view text, std::string_view where) : rest_(text), where_(where) {}

  Value whole() {
    skip();
    const char c = rest_.empty() ? 0 : rest_.front();
    if (c != '"' && c != '\'' && c != '[' && c != '{') return word(trimmed(rest_));
    Value value = next(0);
    skip();
    if (!rest_.empty()) fail(fmt::format("'{}' after the value", rest_));
    return value;
  }

 private:
  static constexpr int kDeepest = 32;

  [[noreturn]] void fail(const std::string& message) const {
    throw Error(ErrorKind::kParse, std::string(where_), message);
  }
  void skip() {
    while (!rest_.empty() && is_blank(rest_.front())) rest_.remove_prefix(1);
  }
  bool take(char c) {
    skip();
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  Value next(int depth) {
    if (depth > kDeepest) fail("nested too deep");
    skip();
    if (rest_.empty()) fail("a value is missing");
    if (rest_.front() == '"' || rest_.front() == '\'') return {text(), std::string(where_)};
    if (take('[')) {
      Value::List list;
      while (!take(']')) {
        list.push_back(next(depth + 1));
        if (take(']')) break;
        if (!take(',')) fail("expected , or ] in a list");
      }
      return {std::move(list), std::string(where_)};
    }
    if (take('{')) {
      Table table;
      while (!take('}')) {
        std::string name = key();
        if (find(table, name) != nullptr) fail(fmt::format("{} stands twice", name));
        if (!take('=')) fail(fmt::format("expected = after {}", name));
        table.push_back({std::move(name), next(depth + 1)});
        if (take('}')) break;
        if (!take(',')) fail("expected , or } in a table");
      }
      return {std::move(table), std::string(where_)};
    }
    const std::size_t end = std::min(rest_.find_first_of(",]}"), rest_.size());
    const std::string_view bare = trimmed(rest_.substr(0, end));
    if (bare.empty()) fail("a value is missing");
    rest_.remove_prefix(end);
    return word(bare);
  }

  std::string key() {
    skip();
    if (!rest_.empty() && (rest_.front() == '"' || rest_.front() == '\'')) return text();
    std::size_t end = 0;
    while (end < rest_.size() && is_bare(rest_[end])) ++end;
    if (end == 0) fail("a key is missing");
    std::string name(rest_.substr(0, end));
    rest_.remove_prefix(end);
    return name;
  }

  std::string text() {
    const char quote = rest_.front();
    rest_.remove_prefix(1);
    std::string result;
    while (true) {
      if (rest_.empty()) fail("a text without its closing quote");
      const char c = rest_.front();
      rest_.remove_prefix(1);
      if (c == quote) return result;
      if (c != '\\' || quote == '\'') {
        result += c;
        continue;
      }
      const char escaped = rest_.empty() ? 0 : rest_.front();
      if (!rest_.empty()) rest_.remove_prefix(1);
      switch (escaped) {
        case 'n': result += '\n'; break;
        case 't': result += '\t'; break;
        case 'r': result += '\r'; break;
        case '"':
        case '\\': result += escaped; break;
        case 'u': result += code_point(); break;
        default: fail("a backslash in a text stands before n, t, r, u0000, \" or \\");
      }
    }
  }

  // The four digits after \u, as UTF-8.
  std::string code_point() {
    unsigned code = 0;
    const char* end = rest_.data() + std::min<std::size_t>(4, rest_.size());
    if (const auto [at, error] = std::from_chars(rest_.data(), end, code, 16);
        error != std::errc() || at != rest_.data() + 4)
      fail("\\u needs four digits");
    rest_.remove_prefix(4);
    const auto byte = [](unsigned bits) { return static_cast<char>(bits); };
    if (code < 0x80) return {byte(code)};
    if (code < 0x800) return {byte(0xc0 | code >> 6), byte(0x80 | (code & 0x3f))};
    return {byte(0xe0 | code >> 12), byte(0x80 | (code >> 6 & 0x3f)), byte(0x80 | (code & 0x3f))};
  }

  Value word(std::string_view bare) const {
    const std::string where(where_);
    if (bare == "true" || bare == "false") return {bare == "true", where};
    std::string_view digits = bare;
    if (digits.size() > 1 && digits.front() == '+') digits.remove_prefix(1);
    const char *begin = digits.data(), *end = begin + digits.size();
    std::int64_t whole = 0;
    if (const auto [at, error] = std::from_chars(begin, end, whole); at == end && error == std::errc())
      return {whole, where};
    double number = 0;
    if (const auto [at, error] = std::from_chars(begin, end, number); at == end && error == std::errc())
      return {number, where};
    return {std::string(bare), where};
  }

  std::string_view rest_, where_;
};

}  // namespace

Value parse_value(std::string_view text, std::string_view where) { return Reader(text, where).whole(); }

std::string in_quotes(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) switch (c) {
      case '"': result += "\\\""; break;
      case '\\': result += "\\\\"; break;
      case '\n': result += "\\n"; break;
      case '\t': result += "\\t"; break;
      case '\r': result += "\\r"; break;
      default:
        if (static_cast<unsigned char>(c) < ' ' || c == 127)
          result += fmt::format("\\u{:04x}", c);
        else
          result += c;
    }
  return result + '"';
}

std::string key_text(std::string_view key) {
  return !key.empty() && std::all_of(key.begin(), key.end(), is_bare) ? std::string(key) : in_quotes(key);
}

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string to_toml(const Value& value) {
  struct Writer {
    std::string operator()(bool flag) const { return flag ? "true" : "false"; }
    std::string operator()(std::int64_t number) const { return std::to_string(number); }
    std::string operator()(double number) const { return number_text(number); }
    std::string operator()(const std::string& text) const { return in_quotes(text); }
    std::string operator()(const Value::List& list) const {
      std::vector<std::string> parts;
      for (const Value& part : list) parts.push_back(to_toml(part));
      return fmt::format("[{}]", fmt::join(parts, ", "));
    }
    std::string operator()(const Table& table) const {
      std::vector<std::string> parts;
      for (const Entry& entry : table)
        parts.push_back(fmt::format("{} = {}", key_text(entry.key), to_toml(entry.value)));
      return fmt::format("{{{}}}", fmt::join(parts, ", "));
    }
  };
  return std::visit(Writer{}, value.data);
}

const Value* find(const Table& table, std::string_view key) {
  for (const Entry& entry : table)
    if (entry.key == key) return &entry.value;
  return nullptr;
}

void set_path(Table& table, std::string_view path, Value value) {
  if (constexpr int kMostParts = 32; std::count(path.begin(), path.end(), '.') >= kMostParts)
    throw Error(ErrorKind::kLimit, value.where, "a key has too many parts",
                fmt::format("at most {}", kMostParts));
  const std::size_t dot = path.find('.');
  const std::string_view key = path.substr(0, dot);
  if (key.empty())
    throw Error(ErrorKind::kInvalidArgument, value.where, "a key is missing", "section.key=value");
  auto at = std::find_if(table.begin(), table.end(), [&](const Entry& entry) { return entry.key == key; });
  if (dot == std::string_view::npos) {
    if (at == table.end())
      table.push_back({std::string(key), std::move(value)});
    else
      at->value = std::move(value);
    return;
  }
  if (at == table.end()) at = table.insert(table.end(), {std::string(key), {Table{}, value.where}});
  Table* inner = std::get_if<Table>(&at->value.data);
  if (inner == nullptr)
    throw Error(ErrorKind::kInvalidArgument, value.where, fmt::format("{} is no table", key), "",
                described(at->value));
  set_path(*inner, path.substr(dot + 1), std::move(value));
}

std::string described(const Value& value) {
  if (value.get<Value::List>() != nullptr) return fmt::format("the list {}", to_toml(value));
  if (value.get<Table>() != nullptr) return "a table";
  if (value.get<std::string>() != nullptr) return fmt::format("the text {}", to_toml(value));
  return to_toml(value);
}

Error wrong_kind(std::string_view key, const Value& value, std::string_view expected) {
  const std::string* text = value.get<std::string>();
  std::string got = text != nullptr ? fmt::format("'{}'", *text) : described(value);
  if (!value.where.empty() && !value.where.starts_with("--")) got += fmt::format(" ({})", value.where);
  return Error(ErrorKind::kInvalidArgument, std::string(key), "", std::string(expected), std::move(got));
}

Error unknown_key(std::string where, std::string_view message, std::string_view name,
                  std::span<const std::string_view> known) {
  const std::string meant = did_you_mean(name, known);
  return Error(ErrorKind::kNotFound, std::move(where), fmt::format("{}{}", message, meant),
               meant.empty() ? fmt::format("one of {}", fmt::join(known, ", ")) : "");
}

}  // namespace systole::cli
