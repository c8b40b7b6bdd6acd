#pragma once

// Data on a device whose memory is the host's, without a copy.

#include <string_view>

#include "systole/tensor/tensor.h"

namespace systole::recording {

bool computes_in_host_memory(std::string_view device);

// The value on the device: where it lies if the device computes in the host's memory, else uploaded. Nobody
// may write to what a Literal::view shows while the Tensor is used.
Tensor borrowed(const Literal& value, std::string_view device);

}  // namespace systole::recording
