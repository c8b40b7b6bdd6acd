#pragma once

// Many families keep their byte-level BPE in vocab.json and merges.txt as GPT-2 does, and cut text by another
// pattern: read as GPT-2's they give wrong numbers for ordinary text.

#include <filesystem>

#include "base/beneath.h"

namespace systole::io {

// Throws kUnsupported when tokenizer.json, tokenizer_config.json or config.json in the folder, the first that
// there is, says that text is not cut as GPT-2 does it; kParse for a broken one.
void require_gpt2_pattern(const std::filesystem::path& folder, LinkRule rule);

}  // namespace systole::io
