#pragma once

// Many families keep their byte-level BPE in vocab.json and merges.txt as GPT-2 does, and cut text by another
// pattern: read as GPT-2's they give wrong numbers for ordinary text.

#include <filesystem>

#include "base/beneath.h"

namespace systole::io {

// Throws kUnsupported when tokenizer.json, added_tokens.json, tokenizer_config.json or config.json in the
// folder says that text is not cut as GPT-2 does it; kParse for a broken one. What follows a file that
// decides, such as a tokenizer.json or a known class, is not read.
void require_gpt2_pattern(const std::filesystem::path& folder, LinkRule rule);

}  // namespace systole::io
