#pragma once

// page.html, which the build makes a text of.

#include <string_view>

namespace systole::profiling {

extern const std::string_view kPage;

}  // namespace systole::profiling
