#include "io/tokenizer_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>

#include "base/file.h"
#include "io/json.h"
#include "systole/base/error.h"

namespace systole::io {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPatterns[] = {
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
    R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",  // the same, shorter
};
constexpr std::string_view kClasses[] = {
    "GPT2Tokenizer", "GPT2TokenizerFast", "RobertaTokenizer",    "RobertaTokenizerFast",
    "BartTokenizer", "BartTokenizerFast", "LongformerTokenizer", "LongformerTokenizerFast"};
// Not those that add runs of blanks as words or change the text first: codegen, phi, gpt_neox.
constexpr std::string_view kFamilies[] = {"gpt2", "gpt_neo", "gptj", "opt", "bart", "roberta", "longformer"};

[[noreturn]] void refuse(const fs::path& file, std::string what, std::string got) {
  constexpr std::size_t kShown = 200;
  throw Error(ErrorKind::kUnsupported, file.string(),
              "the tokenizer is not GPT-2's, and its numbers would be wrong: " + std::move(what),
              "byte-level BPE with GPT-2's pattern", got.substr(0, kShown));
}

// The text of the next value, "" of null; another kind is kParse.
std::string text_or_null(JsonReader& in) {
  if (in.kind() != JsonReader::Kind::null) return std::string(in.string());
  in.null();
  return {};
}

void members_of(JsonReader& in, const std::function<void(std::string_view)>& each) {
  in.begin_object();
  for (std::string_view key; in.next_key(key);) each(std::string(key));
}

// What cuts the text: {"type": "ByteLevel", …}, or a Sequence of a Split by a pattern and a ByteLevel
// without.
struct Cutting {
  bool byte_level = false, by_gpt2 = false, other = false;
  std::string got;
};
void read_cutting(JsonReader& in, Cutting& cutting) {
  if (in.kind() == JsonReader::Kind::null) {
    in.null();
    return;
  }
  std::string type, pattern;
  bool use_regex = true, prefix = false, inverted = false;
  members_of(in, [&](std::string_view key) {
    if (key == "type")
      type = in.string();
    else if (key == "use_regex")
      use_regex = in.boolean();
    else if (key == "add_prefix_space")
      prefix = in.boolean();
    else if (key == "invert")
      inverted = in.boolean();
    else if (key == "pattern" && in.kind() == JsonReader::Kind::object)
      members_of(in, [&](std::string_view) { pattern = in.string(); });
    else if (key == "pretokenizers") {
      in.begin_array();
      while (in.next_item()) read_cutting(in, cutting);
    } else {
      in.skip();
    }
  });
  const bool known = std::find(std::begin(kPatterns), std::end(kPatterns), pattern) != std::end(kPatterns);
  if (type == "Sequence") return;
  if (type == "ByteLevel" && !prefix) {
    cutting.byte_level = true;
    cutting.by_gpt2 = cutting.by_gpt2 || use_regex;
  } else if (type == "Split" && known && !inverted) {
    cutting.by_gpt2 = true;
  } else {
    cutting.other = true;
    if (cutting.got.empty()) cutting.got = !pattern.empty() ? pattern : prefix ? "add_prefix_space" : type;
  }
}

// A word beside the pairs, which is looked for in the text before it is cut. One in brackets,
// "<|endoftext|>", does not occur in ordinary text; runs of blanks do.
void check_added(const fs::path& file, std::string_view word) {
  if (word.empty() || (word.starts_with('<') && word.ends_with('>'))) return;
  refuse(file, "it has added words", fmt::format("\"{}\"", word));
}

// The description of an added word; `special` ones are marks, which text does not hold.
void read_added(const fs::path& file, JsonReader& in) {
  std::string word;
  bool special = false;
  members_of(in, [&](std::string_view key) {
    if (key == "content")
      word = in.string();
    else if (key == "special")
      special = in.boolean();
    else
      in.skip();
  });
  if (!special) check_added(file, word);
}

// Each check throws kUnsupported, or says whether the file decides, so that no other needs to be read.

bool check_tokenizer(const fs::path& file, JsonReader& in) {
  Cutting cutting;
  std::string normalizer, model;
  bool ignores_merges = false;
  members_of(in, [&](std::string_view key) {
    if (key == "pre_tokenizer") {
      read_cutting(in, cutting);
    } else if (key == "added_tokens" && in.kind() == JsonReader::Kind::array) {
      in.begin_array();
      while (in.next_item()) read_added(file, in);
    } else if (key == "normalizer" && in.kind() == JsonReader::Kind::object) {
      normalizer = "of some kind";
      members_of(in, [&](std::string_view name) {
        if (name == "type")
          normalizer = in.string();
        else
          in.skip();
      });
    } else if (key == "model" && in.kind() == JsonReader::Kind::object) {
      members_of(in, [&](std::string_view name) {
        if (name == "type")
          model = text_or_null(in);
        else if (name == "ignore_merges")
          ignores_merges = in.boolean();
        else
          in.skip();
      });
    } else {
      in.skip();
    }
  });
  in.end();
  if (!model.empty() && model != "BPE") refuse(file, "its model is of another kind", model);
  if (ignores_merges) refuse(file, "whole words are looked up first", "ignore_merges");
  if (!normalizer.empty()) refuse(file, "it changes the text first", "normalizer " + normalizer);
  if (cutting.other || !cutting.byte_level || !cutting.by_gpt2)
    refuse(file, "it cuts text in another way", cutting.got.empty() ? "no pattern" : cutting.got);
  return true;
}

bool check_class(const fs::path& file, JsonReader& in) {
  std::string name;
  bool prefix = false;
  members_of(in, [&](std::string_view key) {
    if (key == "tokenizer_class")
      name = text_or_null(in);
    else if (key == "add_prefix_space" && in.kind() == JsonReader::Kind::boolean)
      prefix = in.boolean();
    else if (key == "added_tokens_decoder" && in.kind() == JsonReader::Kind::object)
      members_of(in, [&](std::string_view) { read_added(file, in); });
    else
      in.skip();
  });
  in.end();
  // This name says nothing of the pattern.
  const bool any = name.empty() || name == "PreTrainedTokenizerFast" || name == "TokenizersBackend";
  if (!any && std::find(std::begin(kClasses), std::end(kClasses), name) == std::end(kClasses))
    refuse(file, "its class is another", name);
  if (prefix) refuse(file, "it puts a space before the text", "add_prefix_space");
  return !any;
}

bool check_family(const fs::path& file, JsonReader& in) {
  std::string family;
  members_of(in, [&](std::string_view key) {
    if (key == "model_type")
      family = text_or_null(in);
    else
      in.skip();
  });
  in.end();
  if (!family.empty() && std::find(std::begin(kFamilies), std::end(kFamilies), family) == std::end(kFamilies))
    refuse(file, "it belongs to another family of models", family);
  return !family.empty();
}

// {"  ": 50257, …}, words and their numbers.
bool check_added_words(const fs::path& file, JsonReader& in) {
  members_of(in, [&](std::string_view word) {
    check_added(file, word);
    in.skip();
  });
  in.end();
  return false;
}

}  // namespace

void require_gpt2_pattern(const fs::path& folder, LinkRule rule) {
  using Check = bool (*)(const fs::path&, JsonReader&);
  constexpr std::pair<const char*, Check> kFiles[] = {{"tokenizer.json", check_tokenizer},
                                                      {"added_tokens.json", check_added_words},
                                                      {"tokenizer_config.json", check_class},
                                                      {"config.json", check_family}};
  for (const auto& [name, check] : kFiles) {
    const fs::path file = folder / name;
    std::error_code code;
    if (!fs::exists(fs::symlink_status(file, code))) continue;
    std::string text = read_text_beneath(folder, name, rule);
    JsonReader in(text, file.string());
    if (check(file, in)) return;
  }
}

}  // namespace systole::io
