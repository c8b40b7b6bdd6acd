// Any bytes as every kind of text that a model, a run or a program brings: a typed refusal or a result. The
// first byte chooses the reader. tests/hostile_files_test.cpp reads mutated files by the same functions, and
// checkpoints and settings, which need the whole library.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "cli/train/value.h"
#include "readers.h"
#include "systole/base/error.h"

namespace {

using namespace systole;

// A folder of its own for files that are read by their names, in memory where the machine has such a file
// system.
std::filesystem::path folder(const char* of) {
  static const std::filesystem::path made = [] {
    std::string name =
        std::filesystem::exists("/dev/shm") ? "/dev/shm/systole-fuzz-XXXXXX" : "/tmp/systole-fuzz-XXXXXX";
    return std::filesystem::path(::mkdtemp(name.data()));
  }();
  std::filesystem::create_directory(made / of);
  return made / of;
}

void read(unsigned kind, std::string_view text) {
  switch ((kind + 2) % 10) {  // '0' is the first
    case 0: return hostile::read_model(text);
    case 1: return hostile::read_graph(text);
    case 2: return hostile::read_safetensors(text);
    case 3: return hostile::read_tokenizer(text, folder("tokenizer"));
    case 4: (void)cli::parse_toml(text, "fuzz.toml"); return;
    case 5: (void)cli::parse_value(text, "fuzz"); return;
    case 6: return hostile::read_checkpoint(text);
    case 7: return hostile::read_callback_states(text);
    case 8: return hostile::read_config(text, folder("config"));
    default: return hostile::read_tokenizer_config(text, folder("tokenizer_config"));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  try {
    read(data[0], {reinterpret_cast<const char*>(data + 1), size - 1});
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal || error.kind() == ErrorKind::kOutOfMemory) {
      std::fprintf(stderr, "%s\n", error.what());
      std::abort();
    }
  }
  return 0;
}
