#pragma once

// Options by name, read as what is wanted; the errors name the option.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "systole/optim/options.h"

namespace systole::optim {

double as_number(std::string_view where, const Option& option);
std::int64_t as_integer(std::string_view where, const Option& option);
bool as_flag(std::string_view where, const Option& option);
std::string as_text(std::string_view where, const Option& option);
std::vector<std::int64_t> as_integers(std::string_view where,
                                      const Option& option);  // one alone is a list too
std::vector<std::string> as_texts(std::string_view where, const Option& option);

// Throws kNotFound for an option that is none of `names`, kInvalidArgument for one that is given twice.
void check_names(std::string_view where, const Options& options, std::span<const std::string_view> names);

}  // namespace systole::optim
