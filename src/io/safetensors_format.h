#pragma once

// What the reader and the writer of safetensors share: the names of dtypes, and the digest.
//
// The digest is the value of "systole.digest" in the metadata, two SHA-256 in hexadecimal: of the metadata
// (every key but this one with its value, sorted), and of the arrays (sorted by name; name, dtype, shape and
// the digests of each MiB of data, so that threads can share the work).

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "systole/base/dtype.h"
#include "systole/base/shape.h"

namespace systole::io {

inline constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;
// What bounds the memory that a hostile header can ask for.
inline constexpr std::size_t kMaxSafetensorsArrays = 49'152;
inline constexpr std::size_t kMaxSafetensorsAxes = 262'144;  // of all arrays together
inline constexpr std::size_t kMaxIndexArrays = 262'144;
inline constexpr std::string_view kMetadataKey = "__metadata__";
inline constexpr std::string_view kDigestKey = "systole.digest";

struct SafetensorsDType {
  std::string_view name;
  int bits;
  std::optional<DType> dtype;  // none: the format has it, Systole has not
};
// In the order in which the reference writes arrays: wide ones first, so that all are aligned.
inline constexpr SafetensorsDType kSafetensorsDTypes[] = {
    {"U64", 64, DType::u64},
    {"I64", 64, DType::i64},
    {"F64", 64, DType::f64},
    {"C64", 64, {}},
    {"F32", 32, DType::f32},
    {"U32", 32, DType::u32},
    {"I32", 32, DType::i32},
    {"BF16", 16, DType::bf16},
    {"F16", 16, DType::f16},
    {"U16", 16, DType::u16},
    {"I16", 16, DType::i16},
    {"F8_E8M0", 8, {}},
    {"F8_E4M3", 8, DType::f8e4m3fn},
    {"F8_E5M2", 8, DType::f8e5m2},
    {"F8_E4M3FNUZ", 8, {}},
    {"F8_E5M2FNUZ", 8, {}},
    {"I8", 8, DType::i8},
    {"U8", 8, DType::u8},
    {"BOOL", 8, DType::boolean},
    {"F6_E3M2", 6, {}},
    {"F6_E2M3", 6, {}},
    {"F4", 4, {}},
};

const SafetensorsDType& safetensors_dtype(DType dtype);

// An array as the digest sees it.
struct DigestPart {
  std::string_view name, dtype;
  Ints dims;
  std::uint64_t bytes = 0;
};
// The bytes of part `part` from `offset` on, in `buffer` or where they are anyway. Threads call it together.
using ReadPart = std::function<std::span<const std::byte>(std::size_t part, std::uint64_t offset,
                                                          std::span<std::byte> buffer)>;

std::string metadata_digest(std::span<const std::pair<std::string_view, std::string_view>> sorted);
std::string arrays_digest(std::span<const DigestPart> sorted, const ReadPart& read);

}  // namespace systole::io
