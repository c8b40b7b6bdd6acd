#pragma once

// SHA-256 and MD5 of files, to know a download from a damaged one. MD5 is only for files whose publishers
// give nothing better.

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace systole::io {

enum class DigestKind { sha256, md5 };

std::string digest(DigestKind kind, std::span<const std::byte> bytes);  // hexadecimal, lower case
std::string file_digest(DigestKind kind, const std::filesystem::path& file);

}  // namespace systole::io
