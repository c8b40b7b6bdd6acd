#include "runtime/source_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/lasting.h"

namespace systole::runtime {

namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Where a comment, a string or a preprocessor line that begins at `i` ends; `i` when none does.
std::size_t past_filler(std::string_view s, std::size_t i, bool at_line_start) {
  const auto find = [&](std::string_view what, std::size_t from) {
    return std::min(s.find(what, from), s.size());
  };
  if (s.substr(i).starts_with("//")) return find("\n", i);
  if (s.substr(i).starts_with("/*")) return std::min(find("*/", i + 2) + 2, s.size());
  if (s[i] == '#' && at_line_start) {
    std::size_t end = find("\n", i);
    while (end < s.size() && s[end - 1] == '\\') end = find("\n", end + 1);
    return end;
  }
  if (s[i] == '"' || s[i] == '\'') {
    std::size_t end = i + 1;
    while (end < s.size() && s[end] != s[i] && s[end] != '\n') end += s[end] == '\\' ? 2 : 1;
    return std::min(end + 1, s.size());
  }
  return i;
}

// Words that say where or how a value lies and nothing of its type.
bool is_qualifier(std::string_view word) {
  constexpr std::string_view kWords[] = {"const",    "volatile", "restrict", "__restrict", "__restrict__",
                                         "S_GLOBAL", "__global", "global",   "__constant", "constant",
                                         "S_LOCAL",  "__local",  "local",    "__private",  "register"};
  return std::find(std::begin(kWords), std::end(kWords), word) != std::end(kWords);
}

// The parameter that the tokens declare; without a kind, and false, when its form is not known.
bool read_parameter(const std::vector<SourceToken>& tokens, std::size_t begin, std::size_t end,
                    const Typedefs& typedefs, SourceParameter& parameter) {
  std::string words, all;
  int pointers = 0;
  for (std::size_t i = begin; i < end; ++i) all += fmt::format("{}{}", i > begin ? " " : "", tokens[i].text);
  if (end - begin >= 4 && tokens[end - 1].text == "]" && tokens[end - 2].text == "[") {  // float x[]
    end -= 2;
    pointers = 1;
  }
  bool is_const = false, is_table_const = false, is_plain = end - begin >= 2;
  for (std::size_t i = begin; i + 1 < end; ++i) {
    const std::string_view word = tokens[i].text;
    if (word == "*") {
      ++pointers;
    } else if (word == "const" && (pointers == 0 || tokens[end].text == "[")) {
      is_const = true;
    } else if (word == "const") {
      is_table_const = is_table_const || pointers == 1;
    } else if (!is_word(word[0])) {
      is_plain = false;
    } else if (!is_qualifier(word)) {
      words += words.empty() ? "" : " ";
      words += word;
    }
  }
  const std::string_view name = begin < end ? tokens[end - 1].text : std::string_view();
  is_plain = is_plain && !name.empty() && is_word(name[0]) && pointers <= 2 && !words.empty();
  if (!is_plain) {
    parameter.type = all;
    return false;
  }
  parameter.name = name;
  parameter.kind = pointers > 0 ? SourceParameter::Kind::array : SourceParameter::Kind::number;
  parameter.type = fmt::format("{}{}{}{}", is_const && pointers > 0 ? "const " : "", words,
                               pointers > 0 ? "*" : "", pointers > 1 ? is_table_const ? " const*" : "*" : "");
  parameter.is_written = pointers > 0 && !(pointers > 1 ? is_table_const : is_const);
  if (pointers > 1) {
    parameter.dtype = DType::u64;  // a table of addresses
  } else if (const std::optional<NumberType> type = number_type(words, typedefs)) {
    parameter.dtype = type->dtype;
    parameter.lanes = type->lanes;
  }
  return true;
}

}  // namespace

std::vector<SourceToken> source_tokens(std::string_view s) {
  std::vector<SourceToken> tokens;
  bool at_line_start = true;
  for (std::size_t i = 0; i < s.size();) {
    if (const std::size_t past = past_filler(s, i, at_line_start); past != i) {
      i = past;
    } else if (std::isspace(static_cast<unsigned char>(s[i])) != 0) {
      at_line_start = at_line_start || s[i] == '\n';
      ++i;
    } else {
      std::size_t end = i + 1;
      while (is_word(s[i]) && end < s.size() && is_word(s[end])) ++end;
      tokens.push_back({s.substr(i, end - i), i});
      at_line_start = false;
      i = end;
    }
  }
  return tokens;
}

Typedefs source_typedefs(const std::vector<SourceToken>& tokens) {
  Typedefs found;
  const auto word_at = [&](std::size_t i) { return i < tokens.size() ? tokens[i].text : std::string_view(); };
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].text == "enum") {
      const std::size_t name = i + (word_at(i + 1) == "class" || word_at(i + 1) == "struct" ? 2 : 1);
      if (word_at(name + 1) == "{") found.try_emplace(std::string(word_at(name)), "int");
    }
    if (tokens[i].text == "using" && word_at(i + 2) == "=") {
      std::string words;
      for (std::size_t k = i + 3; k < tokens.size() && tokens[k].text != ";"; ++k)
        words += fmt::format("{}{}", words.empty() ? "" : " ", tokens[k].text);
      found.try_emplace(std::string(word_at(i + 1)), std::move(words));
    }
    if (tokens[i].text != "typedef") continue;
    std::size_t end = i + 1;
    while (end < tokens.size() && is_word(tokens[end].text[0])) ++end;
    if (end == tokens.size() || tokens[end].text != ";" || end < i + 3) continue;
    std::string words(tokens[i + 1].text);
    for (std::size_t k = i + 2; k + 1 < end; ++k) words += fmt::format(" {}", tokens[k].text);
    found.try_emplace(std::string(tokens[end - 1].text), std::move(words));
  }
  return found;
}

Typedefs source_defines(std::string_view source) {
  Typedefs found;
  for (std::size_t at = source.find("#define "); at != std::string_view::npos;
       at = source.find("#define ", at + 1)) {
    const std::size_t end = std::min(source.find('\n', at), source.size());
    const std::vector<SourceToken> tokens = source_tokens(source.substr(at + 8, end - at - 8));
    if (tokens.size() < 2 || !is_word(tokens[0].text[0]) || tokens[1].text == "(") continue;
    std::string words;
    for (std::size_t i = 1; i < tokens.size(); ++i)
      words += fmt::format("{}{}", i > 1 ? " " : "", tokens[i].text);
    found.try_emplace(std::string(tokens[0].text), std::move(words));
  }
  return found;
}

std::optional<NumberType> number_type(std::string_view words, const Typedefs& typedefs) {
  std::string text(words);
  for (int depth = 0; depth < 16; ++depth) {  // a typedef may name itself
    const auto known = typedefs.find(text);
    if (known == typedefs.end()) break;
    text = known->second;
  }
  if (text.starts_with("enum ")) return NumberType{DType::i32};
  const std::size_t digits = std::min(text.find_last_not_of("0123456789") + 1, text.size());
  std::string scalar = text;
  int lanes = 1;
  for (const int n : {2, 3, 4, 8, 16})
    if (text.substr(digits) == std::to_string(n) && digits > 0 && text.find(' ') == std::string::npos &&
        text.substr(0, 2) != "s_") {
      scalar = text.substr(0, digits);
      lanes = n;
    }
  using Numbers = std::map<std::string, DType, std::less<>>;
  static const Numbers& kNumbers = lasting<Numbers>(
      Numbers{{"char", DType::i8},      {"uchar", DType::u8},          {"short", DType::i16},
              {"ushort", DType::u16},   {"int", DType::i32},           {"uint", DType::u32},
              {"long", DType::i64},     {"ulong", DType::u64},         {"float", DType::f32},
              {"longlong", DType::i64}, {"ulonglong", DType::u64},     {"double", DType::f64},
              {"half", DType::f16},     {"bool", DType::boolean},      {"_Bool", DType::boolean},
              {"s_i8", DType::i8},      {"s_i16", DType::i16},         {"s_i32", DType::i32},
              {"s_i64", DType::i64},    {"s_u8", DType::u8},           {"s_u16", DType::u16},
              {"s_u32", DType::u32},    {"s_u64", DType::u64},         {"s_bool", DType::u8},
              {"int8_t", DType::i8},    {"int16_t", DType::i16},       {"int32_t", DType::i32},
              {"int64_t", DType::i64},  {"uint8_t", DType::u8},        {"uint16_t", DType::u16},
              {"uint32_t", DType::u32}, {"uint64_t", DType::u64},      {"size_t", DType::u64},
              {"__half", DType::f16},   {"__nv_bfloat16", DType::bf16}});
  if (const auto known = kNumbers.find(scalar); known != kNumbers.end())
    return NumberType{known->second, lanes};
  // C's own spellings, in any order: "unsigned", "long long int", "short unsigned".
  bool is_unsigned = false;
  int longs = 0, shorts = 0, chars = 0, others = 0;
  for (const SourceToken& token : source_tokens(text)) {
    if (token.text == "unsigned")
      is_unsigned = true;
    else if (token.text == "long")
      ++longs;
    else if (token.text == "short")
      ++shorts;
    else if (token.text == "char")
      ++chars;
    else if (token.text != "signed" && token.text != "int")
      ++others;
  }
  if (others > 0 || text.empty()) return std::nullopt;
  if (chars > 0) return NumberType{is_unsigned ? DType::u8 : DType::i8};
  if (shorts > 0) return NumberType{is_unsigned ? DType::u16 : DType::i16};
  if (longs > 0) return NumberType{is_unsigned ? DType::u64 : DType::i64};
  return NumberType{is_unsigned ? DType::u32 : DType::i32};
}

std::vector<SourceSignature> source_signatures(std::string_view source) {
  const std::vector<SourceToken> tokens = source_tokens(source);
  const Typedefs typedefs = source_typedefs(tokens);
  std::vector<SourceSignature> found;
  std::vector<std::string> before;
  std::size_t first = 0;  // where `before` begins
  int depth = 0;
  std::vector<std::string> scopes;  // braces that are open and hold functions: extern "C", namespaces
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::string_view text = tokens[i].text;
    if (text == "{" && depth == 0 && !before.empty() &&
        (before == std::vector<std::string>{"extern"} || before[0] == "namespace")) {
      std::string scope;
      for (std::size_t k = 1; k < before.size(); ++k) scope += before[k];
      scopes.push_back(scope.empty() ? scope : scope + "::");
      before.clear();
      continue;
    }
    if (text == "}" && depth == 0 && !scopes.empty()) {
      scopes.pop_back();
      before.clear();
      continue;
    }
    if (text == "{") ++depth;
    if (text == "}") --depth;
    if (text == "}" || text == ";" || depth > 0) {
      before.clear();
      continue;
    }
    if (text != "(") {
      if (before.empty()) first = tokens[i].offset;
      before.emplace_back(text);
      continue;
    }
    // A list in parentheses; a function's definition when a body follows.
    std::size_t close = i + 1;
    std::vector<std::size_t> commas;
    int angles = 0;  // of template arguments, whose commas are their own
    for (int nested = 1; close < tokens.size(); ++close) {
      if (tokens[close].text == "(") ++nested;
      if (tokens[close].text == ")" && --nested == 0) break;
      if (tokens[close].text == "<") ++angles;
      if (tokens[close].text == ">") --angles;
      if (tokens[close].text == "," && nested == 1 && angles == 0) commas.push_back(close);
    }
    if (close + 1 >= tokens.size()) break;
    if (tokens[close + 1].text != "{" || before.empty()) {
      i = close;  // an attribute, a macro, a declaration
      continue;
    }
    SourceSignature signature{.name = before.back(),
                              .before = before,
                              .parameters = {},
                              .begin = first,
                              .end = tokens[close].offset};
    for (const std::string& scope : scopes) signature.scope += scope;
    signature.before.pop_back();
    commas.push_back(close);
    const bool is_empty = close == i + 1 || (close == i + 2 && tokens[i + 1].text == "void");
    for (std::size_t begin = i + 1; const std::size_t comma : commas) {
      if (is_empty) break;
      SourceParameter parameter;
      signature.is_plain = read_parameter(tokens, begin, comma, typedefs, parameter) && signature.is_plain;
      signature.parameters.push_back(std::move(parameter));
      begin = comma + 1;
    }
    found.push_back(std::move(signature));
    i = close;
  }
  return found;
}

std::string variable_type(const std::vector<SourceToken>& tokens, std::string_view name,
                          std::span<const std::string_view> marks) {
  constexpr std::string_view kOthers[] = {"static", "extern", "inline", "constexpr", "alignas", "__align__"};
  const auto is_in = [](std::span<const std::string_view> list, std::string_view word) {
    return std::find(list.begin(), list.end(), word) != list.end();
  };
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].text != name) continue;
    bool is_marked = false;
    std::string words;
    for (std::size_t k = i; k-- > 0;) {
      const std::string_view word = tokens[k].text;
      if (word == ";" || word == "}" || word == "{") break;
      is_marked = is_marked || is_in(marks, word);
      if (is_in(marks, word) || is_in(kOthers, word) || is_qualifier(word) || !is_word(word[0])) continue;
      words = fmt::format("{}{}{}", word, words.empty() ? "" : " ", words);
    }
    if (is_marked) return words;
  }
  return {};
}

}  // namespace systole::runtime
