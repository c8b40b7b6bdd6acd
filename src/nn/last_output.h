#pragma once

// What a recurrent layer knows at the end of a sequence.

#include "systole/tensor/tensor.h"

namespace systole::nn {

// y [batch, length, directions · hidden], h [layers · directions, batch, hidden]. The backward direction ends
// at the first element, so both directions' last states are joined: [batch, directions · hidden].
Tensor last_output(const Tensor& y, const Tensor& h, bool bidirectional);

}  // namespace systole::nn
