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

// A folder of its own for the files of a tokenizer, in memory where the machine has such a file system.
const std::filesystem::path& folder() {
  static const std::filesystem::path made = [] {
    std::string name =
        std::filesystem::exists("/dev/shm") ? "/dev/shm/systole-fuzz-XXXXXX" : "/tmp/systole-fuzz-XXXXXX";
    return std::filesystem::path(::mkdtemp(name.data()));
  }();
  return made;
}

void read(unsigned kind, std::string_view text) {
  switch (kind % 6) {
    case 0: return hostile::read_model(text);
    case 1: return hostile::read_graph(text);
    case 2: return hostile::read_safetensors(text);
    case 3: return hostile::read_tokenizer(text, folder());
    case 4: (void)cli::parse_toml(text, "fuzz.toml"); return;
    default: (void)cli::parse_value(text, "fuzz"); return;
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
