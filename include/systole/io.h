#pragma once

// Arrays in files: NumPy's .npy and .npz, safetensors (io/safetensors.h), and pictures. Readers check every
// size against the bytes that are there before they allocate and throw kParse with the file and offset;
// writers make a temporary file and rename it. From a pipe or device at most 1 GiB is read; more is kLimit.
// NumPy has no bf16 and no 8-bit floats: these are written as void items (V2, V1) and come back as u16 and
// u8, which Literal::reinterpreted() gives their dtype again.

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "systole/base/export.h"
#include "systole/base/literal.h"
#include "systole/io/archive.h"
#include "systole/io/named_array.h"
#include "systole/io/picture.h"
#include "systole/io/safetensors.h"
#include "systole/io/tokenizer.h"
#include "systole/io/wav.h"
#include "systole/tensor/tensor.h"

namespace systole::io {

SYSTOLE_API Literal load_npy(const std::filesystem::path& file);
SYSTOLE_API void save_npy(const std::filesystem::path& file, const Literal& value);
SYSTOLE_API std::vector<NamedArray> load_npz(const std::filesystem::path& file);  // in file order
SYSTOLE_API void save_npz(const std::filesystem::path& file, std::span<const NamedArray> arrays);

// Tensors: the value is evaluated to be saved, and loaded into host memory.
inline Tensor load_npy_tensor(const std::filesystem::path& file) { return Tensor(load_npy(file)); }
inline void save_npy(const std::filesystem::path& file, const Tensor& value) {
  save_npy(file, value.literal());
}

// The same on bytes in memory; `file` is only for messages.
SYSTOLE_API Literal parse_npy(std::span<const std::byte> bytes, std::string_view file);
SYSTOLE_API std::vector<NamedArray> parse_npz(std::span<const std::byte> bytes, std::string_view file);
SYSTOLE_API std::vector<std::byte> npy_bytes(const Literal& value);

// A picture, u8[height,width] or u8[height,width,1] in grey or u8[height,width,3] in red, green and blue.
// Throws kUnsupported when the library was built without libpng.
SYSTOLE_API void save_png(const std::filesystem::path& file, const Literal& picture);
SYSTOLE_API std::vector<std::byte> png_bytes(const Literal& picture);  // what save_png writes

}  // namespace systole::io
