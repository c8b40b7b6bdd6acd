#pragma once

#include <span>

#include "backend/cuda/driver.h"

namespace systole::cuda {

// What a library does of a Program, made for one step.
class LibraryCall {
 public:
  virtual ~LibraryCall() = default;
  // Memory of the step's inputs, outputs and workspace.
  virtual void run(Stream stream, std::span<const Address> inputs, std::span<const Address> outputs,
                   Address workspace) const = 0;
};

}  // namespace systole::cuda
