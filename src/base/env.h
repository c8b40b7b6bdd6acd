#pragma once

// The SYSTOLE_* environment variables, read with a type. They are read at every call, so a program may set
// them at run time; a value that does not fit is kInvalidArgument naming the variable.

#include <cstdint>
#include <optional>
#include <string>

namespace systole::env {

std::optional<std::string> text(const char* name);  // an empty variable counts as unset
bool flag(const char* name, bool unset = false);    // 1 true on yes, 0 false off no, in any case
std::optional<std::uint64_t> whole_number(const char* name);

}  // namespace systole::env
