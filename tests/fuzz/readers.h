#pragma once

// What reads text and bytes that come from anywhere, as functions of a text: for the fuzzer, which makes
// inputs by coverage, and for the test of mutated files, which is part of every build. Only an Error may
// leave them, and none of a bug (kInternal) or of memory that a small file asked for (kOutOfMemory).

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "systole/base/error.h"
#include "systole/io/pretrained.h"
#include "systole/io/safetensors.h"
#include "systole/io/tokenizer.h"
#include "systole/ir/text.h"
#include "train/fit_state.h"
#include "train/model_file.h"
#include "train/state_text.h"

namespace systole::hostile {

inline void write(const std::filesystem::path& file, std::string_view content) {
  std::ofstream(file, std::ios::binary | std::ios::trunc) << content;
}

// A graph that fits the seed of read_model.
inline const ir::Graph& seed_graph() {
  static const ir::Graph graph = ir::parse(
      "systole.ir 1\ngraph @main(%x: f32[N,2], %w: f32[2]) {\n  %y = broadcast(%w) {shape=[N,2], axes=[1]}\n "
      " %z = "
      "add(%x, %y)\n  return output: %z\n}\n");
  return graph;
}
inline constexpr std::string_view kSeedModel =
    R"({"version":1,"name":"m","inputs":1,"outputs":1,"reads":["w"],"assigns":[],"variables":["w","v"],)"
    R"("fixed":["v"],"aliases":{"tied":"w"},"classes":["cat","dog \u00e9"]})";

inline void read_model(std::string_view text) {
  const training::ModelDescription model = training::parse_model(std::string(text), "fuzz");
  training::check(model, seed_graph(), "fuzz");
}

inline void read_graph(std::string_view text) {
  const ir::Graph graph = ir::parse(text, "fuzz.sir");
  ir::verify(graph);
  (void)training::kernels_in(graph);
}

inline void read_safetensors(std::string_view text) {
  const auto reader = io::SafetensorsReader::of_bytes(std::as_bytes(std::span(text)), "fuzz.safetensors");
  (void)reader.check_digest();
  for (const std::string& name : reader.names()) try {
      (void)reader.read(name);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUnsupported) throw;  // a dtype that we have not
    }
}

// Lines of "key value" are the metadata of a checkpoint; \1 stands for a line break in a value.
inline constexpr std::string_view kSeedCheckpoint =
    "epoch 3\ndone 4\nsums 0x1.8p+1 -0x1p-3 inf 0x1p+5\nhistory "
    "epoch,loss,val_loss\0011,0.5,0.25\0012,0.25,\001\n";
inline void read_checkpoint(std::string_view text) {
  io::Metadata metadata;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::size_t space = std::min(line.find(' '), line.size());
    std::string value(line.substr(std::min(space + 1, line.size())));
    std::replace(value.begin(), value.end(), '\1', '\n');
    metadata[std::string(line.substr(0, space))] = std::move(value);
  }
  const training::FitState state = training::parse_fit_state(metadata, 3, 100, "fuzz");
  io::Metadata again;
  training::add_to(again, state);
  const training::FitState same = training::parse_fit_state(again, 3, 100, "fuzz");
  if (same.epoch != state.epoch || same.done != state.done || !(same.history == state.history))
    throw Error(ErrorKind::kInternal, "fuzz", "a state is not read as it was written");
}

// What callbacks keep there, one of them by the first letter.
inline constexpr std::string_view kSeedStates[] = {"e3 4 1 0x1.8p-3 val_loss", "p2 1 0x1p+0 loss",
                                                   "w1 -0x1p-2 val_accuracy", "e3 4 ", "n0x1p+0 nan -inf"};
inline void read_callback_states(std::string_view text) {
  const char kind = text.empty() ? 'w' : text.front();
  text.remove_prefix(std::min<std::size_t>(text.size(), 1));
  if (kind == 'e') return (void)training::parse_early_stopping_state(text);
  if (kind == 'p') return (void)training::parse_plateau_state(text);
  if (kind == 'n') return (void)training::from_exact(text);
  (void)training::parse_watch_state(text, "fuzz");
}

inline constexpr std::string_view kSeedConfigs[] = {
    R"({"architectures":["GPT2LMHeadModel"],"model_type":"gpt2","n_layer":2,"n_embd":8,"n_head":2,"n_inner":null,)"
    R"("vocab_size":257,"n_positions":16,"resid_pdrop":0.1,"activation_function":"gelu_new",)"
    R"("layer_norm_epsilon":1e-5,"tie_word_embeddings":false})",
    R"({"model_type":"roberta","num_hidden_layers":1,"hidden_size":8,"num_attention_heads":2,"vocab_size":100,)"
    R"("max_position_embeddings":18,"type_vocab_size":1,"intermediate_size":16,"pad_token_id":1,)"
    R"("id2label":{"0":"a","1":"b"},"hidden_act":"gelu","layer_norm_eps":1e-12,"is_decoder":false})"};
inline void read_config(std::string_view text, const std::filesystem::path& folder) {
  write(folder / "config.json", text);
  if (io::pretrained_family(folder) == "gpt2")
    (void)io::gpt2_options(folder);
  else
    (void)io::bert_options(folder);
}

// tokenizer.json and, after the first byte of value 1, tokenizer_config.json, which is read without the
// other.
inline constexpr std::string_view kSeedTokenizerConfigs[] = {
    R"({"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},"model":{"type":"BPE"}})",
    "\1{\"add_prefix_space\":false,\"tokenizer_class\":\"GPT2Tokenizer\"}"};
inline void read_tokenizer_config(std::string_view text, const std::filesystem::path& folder) {
  const std::size_t cut = text.find('\1');
  std::filesystem::remove(folder / "tokenizer.json");
  if (cut != 0) write(folder / "tokenizer.json", text.substr(0, cut));
  if (cut != std::string_view::npos) write(folder / "tokenizer_config.json", text.substr(cut + 1));
  if (!std::filesystem::exists(folder / "encoder.json")) io::Tokenizer::train("ab ab", 260).save(folder);
  (void)io::Tokenizer::gpt2(folder);
}

// Two files in one text: what follows the first byte of value 1 is merges.txt.
inline void read_tokenizer(std::string_view text, const std::filesystem::path& folder) {
  const std::size_t cut = text.find('\1');
  write(folder / "vocab.json", text.substr(0, cut));
  write(folder / "merges.txt", cut == std::string_view::npos ? std::string_view() : text.substr(cut + 1));
  const auto tokenizer = io::Tokenizer::gpt2(folder);
  (void)tokenizer.decode(tokenizer.encode("Hello, world 123 \xff"));
}

}  // namespace systole::hostile
