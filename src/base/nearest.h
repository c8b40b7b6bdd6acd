#pragma once

// Which of the known names was probably meant.

#include <span>
#include <string_view>

namespace systole {

// The name nearest to `wrong` by edits of one letter (swapping two neighbours is one), or empty when none is
// near. A name that begins `wrong`, or that `wrong` begins, counts as near.
std::string_view nearest(std::string_view wrong, std::span<const std::string_view> names);

}  // namespace systole
