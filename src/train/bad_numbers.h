#pragma once

// Where numbers go bad: a step evaluated op by op on the host, kernels of the program's own on the device,
// until an op with finite operands gives a result that is not.

#include <functional>
#include <string>
#include <vector>

#include "systole/tensor/tensor.h"

namespace systole::training {

// Runs f(fields) once more, from the Variables as they are now, and assigns nothing. A sentence such as "log
// of f32[64,10] in the loss gives nan at [3,7] from -0.25; the last parameter before it is fc2.bias", or an
// empty text when everything is finite on the host. A field or Variable that holds NaN is named first; one
// that holds an infinite number, which may be meant, only when nothing else explains the result. A kernel
// that does not run on the device is named as the end of the search.
std::string first_bad_op(const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& f,
                         const std::vector<Tensor>& fields, const std::string& device);

}  // namespace systole::training
