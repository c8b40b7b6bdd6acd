#pragma once

// Files that a program finds in a folder by a name which somebody else chose, as the shards of an index: a
// link must not lead out of the folder, and nothing that is not a file may be waited for. What is checked is
// what was opened, so that an exchange between check and use changes nothing.
//
// Hugging Face's cache is made of links: models--NAME/snapshots/REVISION/FILE leads to
// models--NAME/blobs/HASH. A link from a snapshot to a blob of the same cache is followed.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "base/file.h"

namespace systole {

enum class LinkRule {
  inside,         // symbolic links that stay in the folder, and to the same cache's blobs
  inside_unique,  // and the file has no other name: a hard link may be to a file from elsewhere
  any,
};

// `name` is that of a file in `folder`, without '/'. kNotFound, kIo as open_file; kUnsupported for a link
// that the rule does not allow, saying how to allow it; kParse for what is not a regular file.
std::unique_ptr<ByteSource> open_beneath(const std::filesystem::path& folder, std::string_view name,
                                         LinkRule rule);
// The whole of it; kLimit when it is longer than `largest`.
std::string read_text_beneath(const std::filesystem::path& folder, std::string_view name, LinkRule rule,
                              std::uint64_t largest = kLargestStream);

}  // namespace systole
