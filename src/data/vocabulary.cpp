#include "systole/data/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/naming_file.h"
#include "base/nearest.h"
#include "systole/base/error.h"
#include "systole/io/archive.h"

namespace systole::data {

namespace {

bool is_letter(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || std::isalnum(byte) != 0;
}

}  // namespace

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool within = text[i] == '\'' && !word.empty() && i + 1 < text.size() && is_letter(text[i + 1]);
    if (is_letter(text[i]) || within) {
      const auto byte = static_cast<unsigned char>(text[i]);
      word += byte < 0x80 ? static_cast<char>(std::tolower(byte)) : text[i];
    } else if (!word.empty()) {
      words.push_back(std::exchange(word, {}));
    }
  }
  if (!word.empty()) words.push_back(std::move(word));
  return words;
}

std::string read_text(const std::filesystem::path& file) {
  return naming_file(file, [&] {
    const std::vector<std::byte> bytes = io::read_unpacked(file);
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  });
}

Vocabulary::Vocabulary(std::vector<std::string> marks) : words_(std::move(marks)) {
  for (std::size_t i = 0; i < words_.size(); ++i)
    numbers_.try_emplace(words_[i], static_cast<std::int32_t>(i));
}

Vocabulary Vocabulary::of(std::span<const std::vector<std::string>> texts, const VocabularyOptions& options) {
  struct Count {
    std::string_view word;
    std::int64_t times = 0;
  };
  std::vector<Count> counts;  // in the order in which words come
  std::map<std::string_view, std::size_t> places;
  for (const std::vector<std::string>& text : texts)
    for (const std::string& word : text) {
      const auto [place, is_new] = places.try_emplace(word, counts.size());
      if (is_new) counts.push_back({word});
      ++counts[place->second].times;
    }
  std::stable_sort(counts.begin(), counts.end(),
                   [](const Count& a, const Count& b) { return a.times > b.times; });
  Vocabulary result(options.marks);
  for (const Count& count : counts) {
    if (count.times < options.least || (options.largest > 0 && result.size() >= options.largest)) break;
    result.add(count.word);
  }
  return result;
}

std::int32_t Vocabulary::add(std::string_view word) {
  if (const auto found = numbers_.find(word); found != numbers_.end()) return found->second;
  const auto number = static_cast<std::int32_t>(words_.size());
  words_.emplace_back(word);
  numbers_.emplace(word, number);
  return number;
}

std::int32_t Vocabulary::number(std::string_view word) const {
  const auto found = numbers_.find(word);
  if (found != numbers_.end()) return found->second;
  const std::vector<std::string_view> known(words_.begin(), words_.end());
  throw Error(ErrorKind::kNotFound, "data::Vocabulary",
              fmt::format("there is no word '{}'{}", word, did_you_mean(word, known)));
}

std::int32_t Vocabulary::number(std::string_view word, std::int32_t otherwise) const {
  const auto found = numbers_.find(word);
  return found == numbers_.end() ? otherwise : found->second;
}

const std::string& Vocabulary::operator[](std::int64_t number) const {
  if (number < 0 || number >= size())
    throw Error(ErrorKind::kInvalidArgument, "data::Vocabulary", "no word has this number",
                fmt::format("0 to {}", size() - 1), std::to_string(number));
  return words_[static_cast<std::size_t>(number)];
}

std::vector<std::int32_t> Vocabulary::encode(std::span<const std::string> words,
                                             const EncodeOptions& options) const {
  if (options.length > 0 && std::ssize(words) > options.length)
    words = words.last(static_cast<std::size_t>(options.length));
  std::vector<std::int32_t> row;
  for (const std::string& word : words)
    row.push_back(options.unknown ? number(word, *options.unknown) : number(word));
  const auto missing = static_cast<std::size_t>(std::max<std::int64_t>(options.length - std::ssize(row), 0));
  row.insert(options.fill_in_front ? row.begin() : row.end(), missing, options.fill);
  return row;
}

std::vector<std::string> Vocabulary::decode(std::span<const std::int32_t> numbers) const {
  std::vector<std::string> words;
  for (const std::int32_t number : numbers) words.push_back((*this)[number]);
  return words;
}

}  // namespace systole::data
