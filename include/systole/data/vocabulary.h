#pragma once

// Words and their numbers, for models that read text word by word. (By characters: text() in sets.h; by
// pieces of words, as GPT-2 does: io/tokenizer.h.)
//
//   std::vector<std::vector<std::string>> texts = …;                            // data::words_of(line)
//   auto vocabulary = data::Vocabulary::of(texts, {.marks = {"<fill>", "<unknown>"}, .least = 2});
//   std::vector<std::string> words = data::words_of("A fine day!");
//   std::vector<std::int32_t> row = vocabulary.encode(words, {.unknown = 1, .length = 8});

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "systole/base/export.h"

namespace systole::data {

// In small letters (of ASCII), cut at everything of ASCII that is no letter, digit or apostrophe within a
// word; other characters of UTF-8 are letters.
SYSTOLE_API std::vector<std::string> words_of(std::string_view text);

// The bytes of a file, unpacked when it is a .gz or .xz; kNotFound when it cannot be opened.
SYSTOLE_API std::string read_text(const std::filesystem::path& file);

struct VocabularyOptions {
  std::vector<std::string> marks = {};  // 0, 1 …: what is no word, such as fill, unknown, start and stop
  std::int64_t least = 1;               // words that occur less often are left out
  std::int64_t largest = 0;             // so many numbers at most, marks included; 0: as there are
};

struct EncodeOptions {
  std::optional<std::int32_t> unknown = {};  // for words that have no number; unset: kNotFound
  std::int64_t length = 0;                   // when not 0: the last words, filled to this length …
  std::int32_t fill = 0;                     // … with this,
  bool fill_in_front = false;                // in front, so that what reads it ends with a word; else behind
};

class SYSTOLE_API Vocabulary {
 public:
  explicit Vocabulary(std::vector<std::string> marks = {});
  // Numbers after those of the marks, the most frequent word first, of equally frequent ones the one that
  // comes first.
  static Vocabulary of(std::span<const std::vector<std::string>> texts,
                       const VocabularyOptions& options = {});

  std::int32_t add(std::string_view word);           // its number, the next one when it has none
  std::int32_t number(std::string_view word) const;  // kNotFound, with the nearest, when it has none
  std::int32_t number(std::string_view word, std::int32_t otherwise) const;
  bool contains(std::string_view word) const { return numbers_.contains(word); }

  const std::string& operator[](std::int64_t number) const;  // kInvalidArgument when there is none
  std::int64_t size() const { return std::ssize(words_); }
  const std::vector<std::string>& words() const { return words_; }  // by number; Source::named takes them

  std::vector<std::int32_t> encode(std::span<const std::string> words,
                                   const EncodeOptions& options = {}) const;
  std::vector<std::string> decode(std::span<const std::int32_t> numbers) const;

 private:
  std::vector<std::string> words_;
  std::map<std::string, std::int32_t, std::less<>> numbers_;
};

}  // namespace systole::data
