// Words and their numbers.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "error_check.h"
#include "systole/data/vocabulary.h"

namespace systole::data {
namespace {

using Words = std::vector<std::string>;
using Numbers = std::vector<std::int32_t>;

TEST(Vocabulary, WordsAreCutAtWhatIsNoLetter) {
  EXPECT_EQ(words_of("It's a fine-grained DAY, 'tis: 42!"),
            (Words{"it's", "a", "fine", "grained", "day", "tis", "42"}));
  EXPECT_EQ(words_of("Été  学习\tok"), (Words{"Été", "学习", "ok"}));
  EXPECT_TRUE(words_of("").empty());
}

TEST(Vocabulary, FrequentWordsComeFirst) {
  const std::vector<Words> texts = {{"b", "a", "c"}, {"a", "b", "a"}, {"d"}};
  EXPECT_EQ(Vocabulary::of(texts).words(), (Words{"a", "b", "c", "d"}));
  const Vocabulary some = Vocabulary::of(texts, {.marks = {"<fill>", "<unknown>"}, .least = 2});
  EXPECT_EQ(some.words(), (Words{"<fill>", "<unknown>", "a", "b"}));
  EXPECT_EQ(Vocabulary::of(texts, {.marks = {"<fill>"}, .largest = 2}).words(), (Words{"<fill>", "a"}));
}

TEST(Vocabulary, NumbersAndBack) {
  Vocabulary words({"<fill>", "<unknown>"});
  EXPECT_EQ(words.add("cat"), 2);
  EXPECT_EQ(words.add("dog"), 3);
  EXPECT_EQ(words.add("cat"), 2);
  EXPECT_EQ(words.size(), 4);
  EXPECT_EQ(words[3], "dog");
  EXPECT_TRUE(words.contains("dog"));
  EXPECT_EQ(words.number("cow", 1), 1);
  EXPECT_EQ(words.encode(Words{"dog", "cow"}, {.unknown = 1}), (Numbers{3, 1}));
  EXPECT_EQ(words.encode(Words{"dog"}, {.length = 3}), (Numbers{3, 0, 0}));
  EXPECT_EQ(words.encode(Words{"dog"}, {.length = 3, .fill_in_front = true}), (Numbers{0, 0, 3}));
  EXPECT_EQ(words.encode(Words{"dog", "cat", "cat"}, {.length = 2}), (Numbers{2, 2}));
  EXPECT_EQ(words.decode(Numbers{2, 0}), (Words{"cat", "<fill>"}));
  const std::string unknown = error_of(ErrorKind::kNotFound, [&] { words.number("doge"); });
  EXPECT_NE(unknown.find("'dog'"), std::string::npos) << unknown;
  const std::string outside = error_of(ErrorKind::kInvalidArgument, [&] { words[4]; });
  EXPECT_NE(outside.find("0 to 3"), std::string::npos) << outside;
}

}  // namespace
}  // namespace systole::data
