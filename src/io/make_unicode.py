#!/usr/bin/env python3
"""Writes unicode.cpp: which code points are letters, numbers and spaces, as GPT-2's pattern asks.

  python3 src/io/make_unicode.py > src/io/unicode.cpp && clang-format -i src/io/unicode.cpp

Categories are unicodedata's: L*, N*; spaces are those with the property White_Space.
"""
import sys
import unicodedata


def ranges(belongs):
    found = []
    for c in range(sys.maxunicode + 1):
        if not belongs(c):
            continue
        if found and found[-1][1] == c - 1:
            found[-1][1] = c
        else:
            found.append([c, c])
    return found


def table(name, belongs):
    pairs = ", ".join(f"{{0x{a:X}, 0x{b:X}}}" for a, b in ranges(belongs))
    return f"constexpr Range {name}[] = {{{pairs}}};"


WHITE_SPACE = {0x9, 0xA, 0xB, 0xC, 0xD, 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}

print(f"""// Made by make_unicode.py from Unicode {unicodedata.unidata_version}.

#include "io/unicode.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace systole::io {{

namespace {{

struct Range {{
  char32_t first, last;
}};

{table("kLetters", lambda c: unicodedata.category(chr(c))[0] == "L")}
{table("kNumbers", lambda c: unicodedata.category(chr(c))[0] == "N")}
{table("kSpaces", lambda c: c in WHITE_SPACE)}

template <std::size_t N>
bool among(const Range (&ranges)[N], char32_t c) {{
  const Range* after =
      std::upper_bound(std::begin(ranges), std::end(ranges), c, [](char32_t x, const Range& r) {{ return x < r.first; }});
  return after != std::begin(ranges) && c <= (after - 1)->last;
}}

}}  // namespace

CharacterClass class_of(char32_t c) {{
  if (among(kLetters, c)) return CharacterClass::letter;
  if (among(kNumbers, c)) return CharacterClass::number;
  return among(kSpaces, c) ? CharacterClass::space : CharacterClass::other;
}}

}}  // namespace systole::io""")
