#pragma once

// The columns of a table that a model was trained on, kept with the model: another table may have them in
// another order, and words of a category must get the numbers that they had.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "cli/train/value.h"
#include "systole/base/literal.h"

namespace systole::cli {

struct FeatureColumn {
  std::string name;
  std::vector<std::string> categories;  // of words
};
using Features = std::vector<FeatureColumn>;

inline constexpr const char* kFeaturesKey = "features";  // in the metadata of a model

Features csv_features(std::string_view spec);  // of "csv:FILE?label=Y"; none for another kind
Value to_value(const Features& features);
Features features_of(const Value& value);

// The rows of these columns, f32[rows,columns]. Throws kNotFound for one that is missing, with those there
// are.
Literal read_features(const std::filesystem::path& file, const Features& features);

std::filesystem::path place_of(std::string_view spec);                // FILE of "csv:FILE?label=Y"
std::string option_of(std::string_view spec, std::string_view name);  // Y of label; empty without it

}  // namespace systole::cli
