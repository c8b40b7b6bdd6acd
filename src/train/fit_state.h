#pragma once

// Where a training stands, as the metadata of a checkpoint say it. A checkpoint may come from anywhere: what
// does not fit is kParse with its key.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "systole/io/safetensors.h"
#include "systole/train/checkpoint.h"
#include "systole/train/history.h"

namespace systole::training {

struct FitState {
  std::int64_t epoch = 1, done = 0;  // done: steps of this epoch
  std::vector<double> sums;          // of this epoch: the loss, the streaming metrics
  double samples = 0;
  History history;
};

void add_to(io::Metadata& metadata, const FitState& state);
// `sums`: how many there are, `steps`: of an epoch; `where` names the checkpoint in messages.
FitState parse_fit_state(const io::Metadata& metadata, std::size_t sums, std::int64_t steps,
                         const std::string& where);

// Why a run cannot go on from a checkpoint, by what differs: "its checkpoints are of another model:
// model.weight was f32[3,2] and is f32[4,2]". `settings` are those of the run, "batch 32 shuffle
// true", whose "content" is a hash of samples and of the state's types.
std::string why_another_run(const Checkpoint& checkpoint, std::string_view settings_there,
                            const Parameters& state, std::string_view settings);

}  // namespace systole::training
