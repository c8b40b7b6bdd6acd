// RIFF WAVE: chunks of a name and a size. The format comes before the data; other chunks are passed over.

#include "systole/io/wav.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "base/file.h"
#include "systole/base/error.h"
#include "systole/io/archive.h"

namespace systole::io {

namespace {

constexpr unsigned kPcm = 1, kFloat = 3, kExtensible = 0xfffe;

std::uint64_t little(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  return value;
}

struct Format {
  unsigned kind = 0, channels = 0, bits = 0;
  std::uint32_t rate = 0;
};

// Samples in [-1, 1): 2^(bits-1) is 1. 8 bits have no sign and 128 for silence.
float sample_of(std::span<const std::byte> bytes, const Format& format) {
  const std::uint64_t word = little(bytes);
  if (format.kind == kFloat)
    return format.bits == 32 ? std::bit_cast<float>(static_cast<std::uint32_t>(word))
                             : static_cast<float>(std::bit_cast<double>(word));
  if (format.bits == 8) return (static_cast<float>(word) - 128) / 128;
  const int spare = 64 - static_cast<int>(format.bits);
  const std::int64_t value = static_cast<std::int64_t>(word << spare) >> spare;
  return static_cast<float>(static_cast<double>(value) / std::ldexp(1.0, static_cast<int>(format.bits) - 1));
}

void put(std::vector<std::byte>& out, std::uint64_t value, std::size_t width) {
  for (std::size_t i = 0; i < width; ++i) out.push_back(static_cast<std::byte>(value >> (8 * i) & 0xff));
}
void put(std::vector<std::byte>& out, std::string_view text) {
  for (const char c : text) out.push_back(static_cast<std::byte>(c));
}

}  // namespace

Sound parse_wav(std::span<const std::byte> bytes, std::string_view file) {
  const auto fail = [&](std::uint64_t at, std::string message, std::string expected = {},
                        std::string got = {}) {
    throw Error(ErrorKind::kParse, fmt::format("{}: byte {}", file, at), std::move(message),
                std::move(expected), std::move(got));
  };
  const auto name_at = [&](std::size_t at) {
    return std::string_view(reinterpret_cast<const char*>(bytes.data()) + at, 4);
  };
  if (bytes.size() < 12 || name_at(0) != "RIFF" || name_at(8) != "WAVE") fail(0, "not a .wav file");
  Format format;
  for (std::size_t at = 12;;) {
    if (bytes.size() - at < 8) fail(at, "the file ends before its samples", "a chunk called data");
    const std::string_view name = name_at(at);
    const std::uint64_t size = little(bytes.subspan(at + 4, 4));
    const std::size_t content = at + 8;
    if (size > bytes.size() - content)
      fail(at + 4, "a chunk is longer than the file", fmt::format("at most {} bytes", bytes.size() - content),
           fmt::format("{}", size));
    const std::span<const std::byte> chunk = bytes.subspan(content, static_cast<std::size_t>(size));
    if (name == "fmt ") {
      if (size < 16) fail(at, "a format chunk that is too short", "16 bytes", fmt::format("{}", size));
      format = {static_cast<unsigned>(little(chunk.subspan(0, 2))),
                static_cast<unsigned>(little(chunk.subspan(2, 2))),
                static_cast<unsigned>(little(chunk.subspan(14, 2))),
                static_cast<std::uint32_t>(little(chunk.subspan(4, 4)))};
      if (format.kind == kExtensible && size >= 26)
        format.kind = static_cast<unsigned>(little(chunk.subspan(24, 2)));
      const bool fits = format.kind == kPcm
                            ? format.bits == 8 || format.bits == 16 || format.bits == 24 || format.bits == 32
                            : format.kind == kFloat && (format.bits == 32 || format.bits == 64);
      if (!fits)
        throw Error(ErrorKind::kUnsupported, fmt::format("{}: byte {}", file, content),
                    "a packed or rare form", "PCM of 8, 16, 24 or 32 bits, or floats of 32 or 64",
                    fmt::format("format {} of {} bits", format.kind, format.bits));
      if (format.channels == 0 || format.channels > 1024 || format.rate == 0 || format.rate > 0x7fffffff)
        fail(content, "a format that cannot be", "1 to 1024 channels and a rate",
             fmt::format("{} channels, rate {}", format.channels, format.rate));
    } else if (name == "data") {
      if (format.channels == 0) fail(at, "samples without a format before them");
      const std::size_t width = format.bits / 8, frame = width * format.channels;
      if (size % frame != 0)
        fail(at + 4, "half a sample", fmt::format("a multiple of {} bytes", frame), fmt::format("{}", size));
      const std::int64_t count = static_cast<std::int64_t>(size / frame);
      Shape shape{count};
      if (format.channels > 1) shape.push_back(format.channels);
      Sound sound{Literal::uninitialized({DType::f32, shape}), static_cast<std::int32_t>(format.rate)};
      std::size_t from = 0;
      for (float& value : sound.samples.mutable_values<float>()) {
        value = sample_of(chunk.subspan(from, width), format);
        from += width;
      }
      return sound;
    }
    at = content + static_cast<std::size_t>(std::min<std::uint64_t>(size + size % 2, bytes.size() - content));
  }
}

Sound load_wav(const std::filesystem::path& file) { return parse_wav(read_unpacked(file), file.string()); }

std::vector<std::byte> wav_bytes(const Sound& sound) {
  const Shape& shape = sound.samples.shape();
  if (sound.samples.dtype() != DType::f32 || shape.rank() < 1 || shape.rank() > 2 || sound.rate <= 0)
    throw Error(ErrorKind::kShape, "io::save_wav", "no sound",
                "f32[samples] or f32[samples,channels], and a rate", sound.samples.type().to_string());
  const std::uint64_t channels = shape.rank() == 2 ? static_cast<std::uint64_t>(shape[1].value()) : 1;
  const std::uint64_t size = static_cast<std::uint64_t>(sound.samples.count()) * 2;
  if (channels == 0 || channels > 1024 || size > 0xffffff00u)
    throw Error(ErrorKind::kLimit, "io::save_wav", "more than a .wav file holds", "4 GiB and 1024 channels",
                sound.samples.type().to_string());
  std::vector<std::byte> out;
  put(out, "RIFF");
  put(out, 36 + size, 4);
  put(out, "WAVEfmt ");
  put(out, 16, 4);
  put(out, kPcm, 2);
  put(out, channels, 2);
  put(out, static_cast<std::uint64_t>(sound.rate), 4);
  put(out, static_cast<std::uint64_t>(sound.rate) * channels * 2, 4);
  put(out, channels * 2, 2);
  put(out, 16, 2);
  put(out, "data");
  put(out, size, 4);
  for (const float value : sound.samples.values<float>()) {
    const float scaled =
        std::isnan(value) ? 0 : std::clamp(std::nearbyint(value * 32768.0f), -32768.0f, 32767.0f);
    put(out, static_cast<std::uint16_t>(static_cast<std::int16_t>(scaled)), 2);
  }
  return out;
}

void save_wav(const std::filesystem::path& file, const Sound& sound) { write_file(file, wav_bytes(sound)); }

}  // namespace systole::io
