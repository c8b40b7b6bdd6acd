#pragma once

// What tells the run of a checkpoint from the one that would go on from it.

#include <string>
#include <string_view>

#include "systole/nn/module.h"
#include "systole/train/checkpoint.h"

namespace systole::training {

// Why a run cannot go on from a checkpoint, by what differs: "its checkpoints are of another model:
// model.weight was f32[3,2] and is f32[4,2]". `settings` are those of the run, "batch 32 shuffle
// true", whose "content" is a hash of samples and of the state's types.
std::string why_another_run(const Checkpoint& checkpoint, std::string_view settings_there,
                            const Parameters& state, std::string_view settings);

}  // namespace systole::training
