#pragma once

// The SYSTOLE_* environment variables: one table says what each takes and means, and what reads one asks for
// it by its kind. They are read at every call, so a program may set them at run time; a value that does not
// fit is kInvalidArgument naming the variable, what it takes and what it has.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace systole::env {

enum class Kind : std::uint8_t {
  flag,     // 1 true on yes, 0 false off no, in any case
  whole,    // a whole number from `least` to `most`
  seconds,  // a number above 0, at most `most`
  size,     // bytes, or a number with K, M or G for powers of 1024
  word,     // one of `words`
  text,     // anything; what reads it says more
};

struct Variable {
  const char* name;
  Kind kind;
  const char* standard;  // what holds when it is unset, as a person reads it
  const char* meaning;
  const char* words = "";  // "f32 tf32"
  std::uint64_t least = 0, most = 0;
};
std::span<const Variable> variables();
std::string kind_in_words(const Variable& variable);  // "f32 or tf32", "a whole number from 0 to 1024"

// Throws for the first variable of the environment whose value does not fit its kind.
void check();
void check(const Variable& variable);

// Without a value for an empty or unset variable. A SYSTOLE_ name must be in the table under this kind, else
// kInternal.
std::optional<std::string> text(const char* name);  // of any kind, unchecked; also other programs' variables
bool flag(const char* name, bool unset = false);
std::optional<std::uint64_t> whole_number(const char* name);
std::optional<double> seconds(const char* name);
std::optional<std::uint64_t> size(const char* name);
std::optional<std::string> word(const char* name);

}  // namespace systole::env
