#pragma once

// The columns of a table that a model was trained on, as they stand in the metadata of the model.

#include <string>
#include <string_view>

#include "cli/train/value.h"
#include "data/csv_columns.h"

namespace systole::cli {

using Features = data::CsvFeatures;

inline constexpr const char* kFeaturesKey = "features";  // in the metadata of a model

Value to_value(const Features& features);
Features features_of(const Value& value);

std::string option_of(std::string_view spec, std::string_view name);  // Y of label; empty without it

}  // namespace systole::cli
