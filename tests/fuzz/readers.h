#pragma once

// What reads text and bytes that come from anywhere, as functions of a text: for the fuzzer, which makes
// inputs by coverage, and for the test of mutated files, which is part of every build. Only an Error may
// leave them, and none of a bug (kInternal) or of memory that a small file asked for (kOutOfMemory).

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>

#include "systole/io/safetensors.h"
#include "systole/io/tokenizer.h"
#include "systole/ir/text.h"
#include "train/model_file.h"

namespace systole::hostile {

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

// Two files in one text: what follows the first byte of value 1 is merges.txt.
inline void read_tokenizer(std::string_view text, const std::filesystem::path& folder) {
  const std::size_t cut = text.find('\1');
  const auto write = [&](const char* name, std::string_view content) {
    std::ofstream(folder / name, std::ios::binary | std::ios::trunc) << content;
  };
  write("vocab.json", text.substr(0, cut));
  write("merges.txt", cut == std::string_view::npos ? std::string_view() : text.substr(cut + 1));
  const auto tokenizer = io::Tokenizer::gpt2(folder);
  (void)tokenizer.decode(tokenizer.encode("Hello, world 123 \xff"));
}

}  // namespace systole::hostile
