#pragma once

// Where a training step's numbers go bad.

#include <functional>
#include <string>
#include <vector>

#include "systole/tensor/tensor.h"

namespace systole::training {

// Runs f(fields) once more, op by op, from the Variables as they are now, and assigns nothing. What
// recording::first_bad_op says, with the fields and Variables by name.
std::string first_bad_op(const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& f,
                         const std::vector<Tensor>& fields, const std::string& device);

}  // namespace systole::training
