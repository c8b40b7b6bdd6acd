#pragma once

// Which of the known names was probably meant, and the error that says so:
//
//   there is no optimiser 'adan'; did you mean 'adam'? Expected one of sgd, momentum, adam

#include <span>
#include <string>
#include <string_view>

#include "systole/base/error.h"

namespace systole {

// The name nearest to `wrong` by edits of one letter (swapping two neighbours is one), or empty when none is
// near. A name that begins `wrong`, or that `wrong` begins, counts as near.
std::string_view nearest(std::string_view wrong, std::span<const std::string_view> names);

// "; did you mean 'adam'?", or nothing.
std::string did_you_mean(std::string_view wrong, std::span<const std::string_view> names);

// kNotFound; lists the known names, of many the first.
Error unknown_name(std::string where, std::string_view kind, std::string_view wrong,
                   std::span<const std::string_view> names);
Error unknown_name(std::string where, std::string_view kind, std::string_view wrong,
                   std::span<const std::string> names);

}  // namespace systole
