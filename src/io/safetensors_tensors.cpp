// All Tensors of a file at once. A file of its own, so that what reads arrays alone links without Tensors.

#include <map>
#include <string>
#include <vector>

#include "systole/io/safetensors.h"
#include "systole/tensor/tensor.h"

namespace systole::io {

std::map<std::string, Tensor> load_safetensors(const std::filesystem::path& file,
                                               const ReadOptions& options) {
  const SafetensorsReader reader(file, options);
  std::map<std::string, Tensor> all;
  for (const std::string& name : reader.names()) all.emplace(name, reader.tensor(name));
  return all;
}

void save_safetensors(const std::filesystem::path& file, const std::map<std::string, Tensor>& tensors,
                      const Metadata& metadata, SafetensorsOptions options) {
  std::vector<Tensor> values;
  for (const auto& [name, tensor] : tensors) values.push_back(tensor);
  evaluate(std::span<const Tensor>(values));
  std::vector<NamedArray> arrays;
  for (const auto& [name, tensor] : tensors) arrays.push_back({name, tensor.literal()});
  save_safetensors(file, arrays, metadata, options);
}

}  // namespace systole::io
