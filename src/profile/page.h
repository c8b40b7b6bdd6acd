#pragma once

// The page of a profile before its numbers are in it: page.html, which cmake/Embed.cmake makes a part of the
// library. It needs no network and no other file.
//
// The JSON takes the place of kPlace, which is in a <script>. Every "<" in it is written "\u003c": names come
// from programs, "</script" would end it and "<!--" may hide its end.

#include <string_view>

namespace systole::profiling {

extern const std::string_view kPage;
inline constexpr std::string_view kPageMark = "<!-- The page of a profile:";  // tells it from others'
inline constexpr std::string_view kPlace = "/*PROFILE*/null";                 // once in kPage

}  // namespace systole::profiling
