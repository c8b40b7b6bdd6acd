// Text from files on a terminal: nothing in it may drive the terminal or show itself in another order.

#include "base/printable.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace systole {
namespace {

TEST(Printable, TextOfEveryLanguageStaysAsItIs) {
  for (const std::string text :
       {"", "cat", "grüße", "猫 and 狗", "عربى", "👩‍🔬", "a\\b\"c", "~ \xc2\xa0|"})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, ControlCharactersAndEscapeSequencesAreWrittenOut) {
  const std::pair<std::string, std::string> table[] = {{"\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"},
                                                       {"\x1b]0;title\x07", "\\x1b]0;title\\x07"},
                                                       {"\xc2\x9b"
                                                        "31m",
                                                        "\\u009b31m"},  // CSI of C1, in UTF-8
                                                       {"\x9b"
                                                        "31m",
                                                        "\\x9b31m"},  // and as one byte
                                                       {std::string("a\0b", 3), "a\\x00b"},
                                                       {"over\rwritten\b\x7f", "over\\x0dwritten\\x08\\x7f"},
                                                       {"two\nlines\t", "two\\x0alines\\x09"}};
  for (const auto& [text, shown] : table) EXPECT_EQ(printable(text), shown);
  EXPECT_EQ(printable("two\nlines\t\r", Lines::keep), "two\nlines\t\\x0d");
}

TEST(Printable, MarksOfDirectionAndSeparatorsOfLinesAreWrittenOut) {
  EXPECT_EQ(printable("cat\u202egpj.exe"), "cat\\u202egpj.exe");
  EXPECT_EQ(printable("\u061c\u200e\u200f\u202a\u202b\u202c\u202d"),
            "\\u061c\\u200e\\u200f\\u202a\\u202b\\u202c\\u202d");
  EXPECT_EQ(printable("\u2066\u2067\u2068\u2069\u2028\u2029"), "\\u2066\\u2067\\u2068\\u2069\\u2028\\u2029");
}

TEST(Printable, BytesThatAreNoUtf8AreWrittenOut) {
  EXPECT_EQ(printable("caf\xe9"), "caf\\xe9");
  EXPECT_EQ(printable("\xe2\x80"), "\\xe2\\x80");                    // cut off
  EXPECT_EQ(printable("\xc0\x9b"), "\\xc0\\x9b");                    // longer than needed: ESC's neighbour
  EXPECT_EQ(printable("\xe0\x80\x9b"), "\\xe0\\x80\\x9b");           // the same in three bytes
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // half of a pair
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // beyond the last
  EXPECT_EQ(printable("\xff"
                      "a"),
            "\\xffa");
}

}  // namespace
}  // namespace systole
