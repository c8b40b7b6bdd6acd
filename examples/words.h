#pragma once

// Words and their numbers, for the examples that read text word by word.

#include <systole/base/error.h>

#include <cctype>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

inline std::string read_text(const std::string& file) {
  std::ifstream in(file);
  if (!in) throw systole::Error(systole::ErrorKind::kNotFound, file, "cannot be opened");
  return {std::istreambuf_iterator<char>(in), {}};
}

// In small letters, without punctuation.
inline std::vector<std::string> words_of(std::string text) {
  for (char& c : text)
    c = std::isalpha(static_cast<unsigned char>(c)) ? static_cast<char>(std::tolower(c)) : ' ';
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

// Numbers in the order in which words come, after those of marks that are no words.
class Vocabulary {
 public:
  explicit Vocabulary(std::vector<std::string> marks = {}) : words_(std::move(marks)) {}

  std::int32_t add(const std::string& word) {
    const auto [found, is_new] = numbers_.try_emplace(word, static_cast<std::int32_t>(words_.size()));
    if (is_new) words_.push_back(word);
    return found->second;
  }
  std::int32_t number(const std::string& word, std::int32_t otherwise) const {
    const auto found = numbers_.find(word);
    return found == numbers_.end() ? otherwise : found->second;
  }
  const std::string& operator[](std::int64_t number) const {
    return words_[static_cast<std::size_t>(number)];
  }
  std::int64_t size() const { return std::ssize(words_); }

 private:
  std::vector<std::string> words_;
  std::map<std::string, std::int32_t> numbers_;
};
