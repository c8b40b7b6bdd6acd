#pragma once

// Errors about words that a user wrote: an unknown one is told with the nearest that exists.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "systole/base/error.h"

namespace systole::nn {

[[noreturn]] void unknown_word(std::string where, std::string_view kind, std::string_view word,
                               std::span<const std::string_view> known);
[[noreturn]] void unknown_word(std::string where, std::string_view kind, std::string_view word,
                               const std::vector<std::string>& known);

}  // namespace systole::nn
