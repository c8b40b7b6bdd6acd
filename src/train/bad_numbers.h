#pragma once

// Where a training step's numbers go bad.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "systole/tensor/tensor.h"

namespace systole::training {

// Of the data that a step was given.
struct StepData {
  std::vector<std::string> fields = {};    // their names
  std::vector<std::int64_t> samples = {};  // the number of each row in the data set; none: rows of a batch
};

// Runs f(fields) once more, op by op, from the Variables as they are now, and assigns nothing. What
// recording::first_bad_op says, with the fields and Variables by name.
std::string first_bad_op(const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& f,
                         const std::vector<Tensor>& fields, const StepData& data, const std::string& device);

}  // namespace systole::training
