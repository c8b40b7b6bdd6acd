#pragma once

// The model of a training: of the zoo or from a list of layers, fitted to the data.

#include <cstdint>
#include <string>

#include "cli/train/data.h"
#include "cli/train/settings.h"
#include "systole/base/shape.h"
#include "systole/nn/any_module.h"

namespace systole::cli {

struct BuiltModel {
  nn::AnyModule module;
  std::string name;  // "resnet18", or "layers"
  Type input;        // of one sample, as the model takes it
  Shape output;      // of one sample
  std::int64_t parameters = 0, frozen = 0;
  std::string weights;  // how many came from model.weights; empty without one
};

// A model whose outputs do not fit the data is kShape.
BuiltModel build_model(const Settings::Model& settings, const TrainingData& data);

// One of the zoo by itself, of the input and outputs that the settings or the model have.
BuiltModel build_model(const Settings::Model& settings);

// The module, whose outputs are restored to what the data has.
nn::AnyModule with_targets(nn::AnyModule module, const TargetScale& targets);

}  // namespace systole::cli
