#pragma once

// What config.json beside published weights says of their model: sizes, heads, the norms' epsilon, the
// activation, where positions begin. None of that can be seen from the weights, and a model made otherwise
// loads them and gives other numbers.
//
//   nn::models::Gpt2 gpt{io::gpt2_options("gpt2")};   // a folder with config.json and model.safetensors
//   load_state_dict(gpt, nn::models::gpt2_state_dict(io::load_safetensors("gpt2"), gpt.options));
//
// `place` is config.json, the folder that it is in, or a file beside it. kNotFound without one, kParse for
// one that is no such description, kUnsupported, by name, for a family, an activation or a variant that there
// is not. Links follow the rule for weights (safetensors.h) but where config.json itself is named.

#include <filesystem>
#include <string>

#include "systole/base/export.h"
#include "systole/io/read_options.h"
#include "systole/nn/models/bert.h"
#include "systole/nn/models/gpt2.h"

namespace systole::io {

// "gpt2", "bert" or "roberta".
SYSTOLE_API std::string pretrained_family(const std::filesystem::path& place,
                                          const ReadOptions& options = {});
// Whether there is a config.json.
SYSTOLE_API bool has_pretrained_config(const std::filesystem::path& place);

SYSTOLE_API nn::models::Gpt2Options gpt2_options(const std::filesystem::path& place,
                                                 const ReadOptions& options = {});
SYSTOLE_API nn::models::BertOptions bert_options(  // of RoBERTa too
    const std::filesystem::path& place, const ReadOptions& options = {});

}  // namespace systole::io
