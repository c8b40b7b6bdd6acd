#pragma once

// Where a training stands, as the metadata of a checkpoint say it. A checkpoint may come from anywhere: what
// does not fit is kParse with its key.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "systole/io/safetensors.h"
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

}  // namespace systole::training
