#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "systole/io/safetensors.h"
#include "systole/ir/graph.h"
#include "systole/tensor/tensor.h"
#include "train/model_file.h"

namespace systole::training {

// Metadata that are not the user's: "systole.…" and "format".
bool is_own_key(std::string_view key);

void write_model(const std::filesystem::path& file, const ModelDescription& model, const ir::Graph& graph,
                 const std::map<std::string, Tensor>& weights, const io::Metadata& metadata);

}  // namespace systole::training
