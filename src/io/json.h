#pragma once

// JSON (RFC 8259) as a stream of values, read in place: nothing is built, so a hostile text costs its own
// length and no more. Everything that is not JSON, nesting beyond 64 levels included, is an error with the
// file and the byte.
//
//   JsonReader in(text, "model.json");
//   in.begin_object();
//   for (std::string_view key; in.next_key(key);)
//     if (key == "name") name = in.string(); else in.skip();
//   in.end();

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "systole/base/error.h"

namespace systole::io {

inline constexpr std::size_t kMaxJsonDepth = 64;

class JsonReader {
 public:
  // Strings are decoded in `text` itself and stay valid with it. `offset` is where it begins in the file.
  JsonReader(std::span<char> text, std::string file, std::uint64_t offset = 0);

  enum class Kind { object, array, string, number, boolean, null };
  Kind kind();  // of the value that comes next

  void begin_object();
  bool next_key(std::string_view& key);  // false: the object has ended
  void begin_array();
  bool next_item();  // false: the array has ended

  std::string_view string();
  std::uint64_t unsigned_number();  // without sign, fraction or exponent
  std::int64_t integer();
  double number();
  bool boolean();
  void null();
  void skip();  // any value
  void end();   // nothing but space is left

  std::size_t position() const { return at_; }
  [[noreturn]] void fail(std::size_t at, std::string message, std::string expected = {}, std::string got = {},
                         ErrorKind kind = ErrorKind::kParse) const;

 private:
  void space();
  bool accept(char c);
  void expect(char c, const char* what);
  void enter(char open);
  std::string_view number_text();
  void literal(std::string_view word);
  std::uint32_t escaped_unit();
  std::string got() const;  // what stands at at_

  std::span<char> text_;
  std::string file_;
  std::uint64_t offset_;
  std::size_t at_ = 0;
  struct Level {
    bool is_object;
    bool first = true;
  };
  std::vector<Level> levels_;
};

// A text in quotes. Throws kInvalidArgument, naming `where`, unless it is UTF-8.
std::string json_quoted(std::string_view text, std::string_view where);

// Where the first byte stands that is not UTF-8; the size when all is.
std::size_t utf8_prefix(std::string_view text);

}  // namespace systole::io
