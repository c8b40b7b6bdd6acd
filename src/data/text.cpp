// Text as windows of symbols. The text is numbered once; a window is a piece of that array.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <unordered_map>

#include "base/naming_file.h"
#include "data/set_files.h"
#include "systole/base/error.h"
#include "systole/data/sets.h"
#include "systole/data/vocabulary.h"

namespace systole::data {

namespace {

// The bytes of the UTF-8 character at the start, or 0 when there is none.
std::size_t character(std::string_view text) {
  const unsigned char lead = static_cast<unsigned char>(text[0]);
  const std::size_t length = lead < 0x80       ? 1
                             : lead >> 5 == 6  ? 2
                             : lead >> 4 == 14 ? 3
                             : lead >> 3 == 30 ? 4
                                               : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) return 0;
  return length;
}

std::vector<std::string> bytes_vocabulary() {
  std::vector<std::string> all;
  for (int i = 0; i < 256; ++i) all.emplace_back(1, static_cast<char>(i));
  return all;
}

// UTF-8 sorts as its characters do.
std::vector<std::string> characters_of(std::string_view text, std::string_view name) {
  require_utf8(text, name, ", or bytes set");
  std::set<std::string_view> distinct;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = character(text.substr(at));
    distinct.insert(text.substr(at, length));
    at += length;
  }
  return {distinct.begin(), distinct.end()};
}

class Windows final : public Rows {
 public:
  Windows(Literal symbols, const TextOptions& options, std::vector<std::string> vocabulary, std::string name)
      : symbols_(std::move(symbols)), window_(options.window), stride_(options.stride) {
    const Type type{DType::i32, {window_}};
    info_ = {std::move(name),
             {{"x", type, vocabulary}, {"y", type, std::move(vocabulary)}},
             (symbols_.count() - 1 - window_) / stride_ + 1};
  }

  std::int64_t size() const override { return info_.size; }
  Info info() const override { return info_; }
  Sample get(std::int64_t i) const override {
    Sample sample;
    for (const std::int64_t shift : {0, 1})
      sample.push_back(Literal::of<std::int32_t>({window_}, piece(i, shift)));
    return sample;
  }
  std::vector<Literal> read(std::span<const std::int64_t> indices) const override {
    std::vector<Literal> batch;
    for (const std::int64_t shift : {0, 1}) {
      Literal made = Literal::uninitialized({DType::i32, {std::ssize(indices), window_}});
      std::int32_t* out = made.mutable_values<std::int32_t>().data();
      for (const std::int64_t i : indices) {
        std::ranges::copy(piece(i, shift), out);
        out += window_;
      }
      batch.push_back(std::move(made));
    }
    return batch;
  }

 private:
  std::span<const std::int32_t> piece(std::int64_t i, std::int64_t shift) const {
    return symbols_.values<std::int32_t>().subspan(static_cast<std::size_t>(i * stride_ + shift),
                                                   static_cast<std::size_t>(window_));
  }
  Literal symbols_;
  std::int64_t window_, stride_;
  Info info_;
};

}  // namespace

Literal encode(std::string_view text, const std::vector<std::string>& vocabulary) {
  std::unordered_map<std::string_view, std::int32_t> numbers;
  for (const std::string& symbol : vocabulary)
    numbers.emplace(symbol, static_cast<std::int32_t>(numbers.size()));
  std::vector<std::int32_t> symbols;
  symbols.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    // A character, or where the vocabulary is of bytes, the byte.
    std::size_t length = std::max<std::size_t>(1, character(text.substr(at)));
    auto found = numbers.find(text.substr(at, length));
    if (found == numbers.end() && length > 1) found = numbers.find(text.substr(at, length = 1));
    if (found == numbers.end())
      throw Error(ErrorKind::kParse, fmt::format("text: byte {}", at), "a symbol that the vocabulary lacks",
                  fmt::format("one of {} symbols", vocabulary.size()),
                  std::string(text.substr(at, std::max<std::size_t>(1, character(text.substr(at))))));
    symbols.push_back(found->second);
    at += length;
  }
  return Literal::of<std::int32_t>({std::ssize(symbols)}, std::span<const std::int32_t>(symbols));
}

std::string decode(std::span<const std::int32_t> symbols, const std::vector<std::string>& vocabulary) {
  std::string text;
  for (const std::int32_t symbol : symbols) {
    if (symbol < 0 || symbol >= std::ssize(vocabulary))
      throw Error(ErrorKind::kInvalidArgument, "data::decode", "there is no such symbol",
                  fmt::format("0 to {}", std::ssize(vocabulary) - 1), fmt::format("{}", symbol));
    text += vocabulary[static_cast<std::size_t>(symbol)];
  }
  return text;
}

Source text_of(std::string_view text, const TextOptions& options, std::string_view name) {
  if (options.window < 1 || options.stride < 1)
    throw Error(ErrorKind::kInvalidArgument, "data::text", "wrong window or stride", "1 or more",
                fmt::format("window {}, stride {}", options.window, options.stride));
  std::vector<std::string> vocabulary = !options.vocabulary.empty() ? options.vocabulary
                                        : options.bytes             ? bytes_vocabulary()
                                                                    : characters_of(text, name);
  Literal symbols = encode(text, vocabulary);
  if (symbols.count() < options.window + 1)
    throw Error(ErrorKind::kInvalidArgument, std::string(name), "the text is shorter than a window",
                fmt::format("more than {} symbols", options.window), fmt::format("{}", symbols.count()));
  return Source(
      std::make_shared<const Windows>(std::move(symbols), options, std::move(vocabulary), std::string(name)));
}

Source text(const std::filesystem::path& file, const TextOptions& options) {
  return naming_file(file, [&] { return text_of(read_text(file), options, file.string()); });
}

}  // namespace systole::data
