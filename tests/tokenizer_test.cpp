// GPT-2's tokenizer against tiktoken and the regex package (tests/parity/make_tokenizer.py).

#include "systole/io/tokenizer.h"

#include <gtest/gtest.h>

#if __has_include(<nlohmann/json.hpp>)

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "error_check.h"
#include "scratch_folder.h"

namespace systole {
namespace {

using io::Tokenizer;

nlohmann::json fixture() {
  std::ifstream in(std::string(SYSTOLE_SOURCE_DIR) + "/tests/parity/tokenizer.json");
  return nlohmann::json::parse(in);
}

std::filesystem::path gpt2_folder() {
  const char* shared = std::getenv("SYSTOLE_SHARED");
  return std::filesystem::path(shared != nullptr ? shared : SYSTOLE_SOURCE_DIR "/../shared") / "data" /
         "gpt2-tokenizer";
}

class Gpt2Tokenizer : public ScratchFolder {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(gpt2_folder()))
      GTEST_SKIP() << "no " << gpt2_folder() << ": GPT-2's vocabulary is not part of this tree";
    tokenizer_ = Tokenizer::gpt2(gpt2_folder());
  }
  std::optional<Tokenizer> tokenizer_;
};

TEST_F(Gpt2Tokenizer, GivesTheNumbersOfTheReference) {
  EXPECT_EQ(tokenizer_->vocabulary(), 50257);
  EXPECT_EQ(tokenizer_->end_of_text(), 50256);
  const nlohmann::json wanted = fixture();
  for (const auto& row : wanted.at("texts")) {
    const std::string text = row.at(0);
    EXPECT_EQ(tokenizer_->encode(text), row.at(1).get<std::vector<int>>()) << text;
    EXPECT_EQ(tokenizer_->decode(row.at(1).get<std::vector<int>>()), text);
  }
  const std::string special = wanted.at("special").at(0);
  EXPECT_EQ(tokenizer_->encode(special, true), wanted.at("special").at(1).get<std::vector<int>>());
  EXPECT_EQ(tokenizer_->decode(tokenizer_->encode(special, true)), special);
}

TEST_F(Gpt2Tokenizer, AnyBytesComeBack) {
  std::string bytes;
  for (int i = 0; i < 2048; ++i) bytes += static_cast<char>(i * 37 + i / 256 * 11);
  EXPECT_EQ(tokenizer_->decode(tokenizer_->encode(bytes)), bytes);
  const std::string cut = "caf\xC3", overlong = "\xC0\x80\xF5\xED\xA0\x80x";
  EXPECT_EQ(tokenizer_->decode(tokenizer_->encode(cut)), cut);
  EXPECT_EQ(tokenizer_->decode(tokenizer_->encode(overlong)), overlong);
  EXPECT_NE(error_of(ErrorKind::kInvalidArgument, [&] { tokenizer_->decode(std::vector<int>{50257}); })
                .find("50256"),
            std::string::npos);
}

TEST_F(Gpt2Tokenizer, ALongWordTakesNoSquareOfItsLength) {
  const std::string word(300'000, 'a');
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(tokenizer_->decode(tokenizer_->encode(word)), word);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST_F(Gpt2Tokenizer, SavesWhatItReads) {
  tokenizer_->save(folder_ / "copy");
  const Tokenizer copy = Tokenizer::gpt2(folder_ / "copy");
  const nlohmann::json wanted = fixture();
  for (const auto& row : wanted.at("texts")) {
    const std::string text = row.at(0);
    EXPECT_EQ(copy.encode(text), tokenizer_->encode(text));
  }
}

class TokenizerFiles : public ScratchFolder {
 protected:
  void write(const std::string& name, const std::string& text) { std::ofstream(folder_ / name) << text; }
};

TEST_F(TokenizerFiles, LearnsThePairsOfTheTextbookAlgorithm) {
  const nlohmann::json wanted = fixture();
  const std::string sample = wanted.at("sample");
  const auto& pairs = wanted.at("pairs");
  const Tokenizer tokenizer = Tokenizer::train(sample, 256 + static_cast<std::int64_t>(pairs.size()) + 1);
  ASSERT_EQ(tokenizer.vocabulary(), 256 + static_cast<std::int64_t>(pairs.size()) + 1);
  for (std::size_t i = 0; i < pairs.size(); ++i)
    EXPECT_EQ(tokenizer.piece(static_cast<int>(256 + i)),
              pairs[i].at(0).get<std::string>() + pairs[i].at(1).get<std::string>())
        << i;
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(sample)), sample);
  EXPECT_LT(tokenizer.encode(sample).size(), sample.size() / 3);
  tokenizer.save(folder_);
  EXPECT_EQ(Tokenizer::gpt2(folder_).encode(sample), tokenizer.encode(sample));
  EXPECT_EQ(tokenizer.end_of_text(), tokenizer.vocabulary() - 1);
  EXPECT_EQ(Tokenizer::train("", 300).vocabulary(), 257) << "nothing to learn";
  EXPECT_NE(error_of(ErrorKind::kInvalidArgument, [] { Tokenizer::train("a", 256); }).find("257"),
            std::string::npos);
}

// The beginnings of the files are those that transformers writes for the models that they name.
TEST_F(TokenizerFiles, FilesOfAnotherPatternAreRefused) {
  Tokenizer::train("the the the", 260).save(folder_);
  const auto accepted = [&](const std::string& name, const std::string& text) {
    write(name, text);
    EXPECT_NO_THROW(Tokenizer::gpt2(folder_)) << text;
    std::filesystem::remove(folder_ / name);
  };
  const auto refused = [&](const std::string& name, const std::string& text, const std::string& part) {
    write(name, text);
    const std::string message = error_of(ErrorKind::kUnsupported, [&] { Tokenizer::gpt2(folder_); });
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_NE(message.find(name), std::string::npos) << message;
    std::filesystem::remove(folder_ / name);
  };
  const std::string bpe = R"("model": {"type": "BPE", "dropout": null, "vocab": {"a": 0}, "merges": []})";
  accepted("tokenizer.json", R"({"version": "1.0", "normalizer": null, "pre_tokenizer": {"type": "ByteLevel",
      "add_prefix_space": false, "trim_offsets": true, "use_regex": true}, )" +
                                 bpe + "}");
  accepted("tokenizer.json",
           R"({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex":
      "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"}, "behavior": "Isolated",
      "invert": false}, {"type": "ByteLevel", "use_regex": false}]}, )" +
               bpe + "}");
  // Qwen2's.
  const std::string qwen =
      R"("pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {
      "Regex": "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"},
      "behavior": "Isolated", "invert": false}, {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false,
      "use_regex": false}]}, )";
  refused("tokenizer.json", "{" + qwen + bpe + "}", "(?i:'s|'t|'re");
  refused("tokenizer.json",
          R"({"normalizer": {"type": "NFC"}, "pre_tokenizer": {"type": "ByteLevel"}, )" + bpe + "}", "NFC");
  refused("tokenizer.json",
          R"({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": true}, )" + bpe + "}",
          "add_prefix_space");
  refused("tokenizer.json", R"({"pre_tokenizer": {"type": "ByteLevel", "use_regex": false}, )" + bpe + "}",
          "another way");
  refused("tokenizer.json", R"({"pre_tokenizer": {"type": "Metaspace"}, "model": {"type": "Unigram"}})",
          "Unigram");
  refused("tokenizer.json",
          R"({"pre_tokenizer": {"type": "ByteLevel"}, "model": {"type": "BPE", "ignore_merges": true}})",
          "ignore_merges");
  accepted("tokenizer_config.json", R"({"add_prefix_space": false, "tokenizer_class": "GPT2Tokenizer"})");
  refused("tokenizer_config.json", R"({"tokenizer_class": "Qwen2Tokenizer"})", "Qwen2Tokenizer");
  // The names of classes that say nothing leave it to config.json.
  for (const char* text :
       {R"({"tokenizer_class": "PreTrainedTokenizerFast"})", R"({"model_max_length": 1024})"}) {
    accepted("tokenizer_config.json", text);
    write("tokenizer_config.json", text);
    refused("config.json", R"({"model_type": "llama"})", "llama");
    accepted("config.json", R"({"model_type": "gpt2"})");
    std::filesystem::remove(folder_ / "tokenizer_config.json");
  }
  // CodeGen's and phi's runs of blanks are words of their own; GPT-2's end of text and GPT-J's spare words
  // are not found in ordinary text.
  const std::string cut = R"("pre_tokenizer": {"type": "ByteLevel"}, )" + bpe + "}";
  accepted("tokenizer.json", R"({"added_tokens": [{"id": 50256, "content": "<|endoftext|>", "special": true},
      {"id": 50257, "content": "<|extratoken_1|>", "special": false}], )" +
                                 cut);
  refused("tokenizer.json", R"({"added_tokens": [{"id": 50257, "content": "   ", "special": false}], )" + cut,
          "added words");
  refused("tokenizer_config.json", R"({"tokenizer_class": "GPT2Tokenizer", "added_tokens_decoder": {"50257":
      {"content": "\t\t", "special": false}}})",
          "added words");
  refused("added_tokens.json", R"({"<|endoftext|>": 50256, "  ": 50257})", "added words");
  refused("tokenizer_config.json", R"({"tokenizer_class": "CodeGenTokenizer"})", "CodeGenTokenizer");
  for (const char* family : {"codegen", "phi", "gpt_neox"})
    refused("config.json", R"({"model_type": ")" + std::string(family) + R"("})", family);
  accepted("config.json", R"({"model_type": "gpt2"})");
  refused("config.json", R"({"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2"})", "qwen2");
  write("tokenizer.json", "{\"pre_tokenizer\": 3}");
  error_of(ErrorKind::kParse, [&] { Tokenizer::gpt2(folder_); });
}

TEST_F(TokenizerFiles, BrokenFilesAreTypedErrors) {
  EXPECT_NE(error_of(ErrorKind::kNotFound, [&] { Tokenizer::gpt2(folder_); }).find("encoder.json"),
            std::string::npos);
  Tokenizer::train("the the the", 260).save(folder_);
  const auto message = [&] { return error_of(ErrorKind::kParse, [&] { Tokenizer::gpt2(folder_); }); };
  write("vocab.bpe", "#version: 0.2\n\nq q\n");
  EXPECT_NE(message().find("vocab.bpe:3"), std::string::npos);
  write("vocab.bpe", "#version: 0.2\nth\n");
  EXPECT_NE(message().find("two pieces"), std::string::npos);
  write("encoder.json", "{\"a\": 0, \"b\": 2}");
  EXPECT_NE(message().find("encoder.json"), std::string::npos);
  write("encoder.json", "{\"a\": 0, \"b\": 1}");
  EXPECT_NE(message().find("256"), std::string::npos);
  write("encoder.json", "{\"a\": 0, \"a\": 1}");
  message();
  write("encoder.json", "{\"\xE6\x97\xA5\": 0}");
  message();
  write("encoder.json", "{\"a\": 0");
  message();
  write("encoder.json", "{\"a\": 99999999999}");
  message();
}

}  // namespace
}  // namespace systole

#endif
