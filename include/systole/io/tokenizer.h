#pragma once

// GPT-2's byte-level BPE: text to the numbers of its pieces and back, without loss for any bytes.
//
//   auto tokenizer = io::Tokenizer::gpt2("gpt2-tokenizer");     // encoder.json and vocab.bpe
//   std::vector<int> ids = tokenizer.encode("Hello world");     // 15496 995
//   std::string text = tokenizer.decode(ids);
//
// Text is cut into words by GPT-2's pattern, which needs to know letters and digits of all scripts; within a
// word the pair of pieces that was learned first is joined first. Bytes that are no UTF-8 are encoded as they
// are. Threads may share a Tokenizer.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "systole/base/export.h"
#include "systole/io/read_options.h"

namespace systole::io {

class SYSTOLE_API Tokenizer {
 public:
  // Reads encoder.json (or vocab.json) and vocab.bpe (or merges.txt). kNotFound without them, kParse with
  // file and place for a broken one. Other families have the same files and another pattern: kUnsupported
  // when tokenizer.json, tokenizer_config.json or config.json beside them, the first that there is, says so.
  // Links in the folder follow the rule for weights (safetensors.h).
  static Tokenizer gpt2(const std::filesystem::path& folder, const ReadOptions& options = {});
  // Learns pieces from a text: the 256 bytes, then the most frequent pair again and again until there are
  // `vocabulary` pieces, <|endoftext|> the last of them, or no pair occurs twice.
  static Tokenizer train(std::string_view text, std::int64_t vocabulary);

  // "<|endoftext|>" in the text is read as text, unless `special`: then it is the one token of that name.
  std::vector<int> encode(std::string_view text, bool special = false) const;
  std::string decode(std::span<const int> ids) const;  // kInvalidArgument for a number that is no piece
  std::string piece(int id) const;                     // its bytes

  std::int64_t vocabulary() const;
  int end_of_text() const;  // the number of <|endoftext|>

  void save(const std::filesystem::path& folder) const;  // as gpt2() reads it

 private:
  struct State;
  explicit Tokenizer(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

}  // namespace systole::io
