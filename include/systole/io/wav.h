#pragma once

// Sound from .wav files: PCM of 8, 16, 24 or 32 bits and 32- or 64-bit floats.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "systole/base/export.h"
#include "systole/base/literal.h"

namespace systole::io {

struct Sound {
  Literal samples;        // f32[samples], or f32[samples,channels] when there are several; in [-1, 1]
  std::int32_t rate = 0;  // samples per second
};

SYSTOLE_API Sound load_wav(const std::filesystem::path& file);
SYSTOLE_API Sound parse_wav(std::span<const std::byte> bytes, std::string_view file);
// 16 bits, one or more channels; beyond [-1, 1] is cut off.
SYSTOLE_API void save_wav(const std::filesystem::path& file, const Sound& sound);
SYSTOLE_API std::vector<std::byte> wav_bytes(const Sound& sound);

}  // namespace systole::io
