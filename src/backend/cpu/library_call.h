#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace systole::cpu {

// A library's work, for one user at a time.
class LibraryRun {
 public:
  virtual ~LibraryRun() = default;
  // Memory of the step's inputs, outputs and workspace, and which inputs are the same arrays with the same
  // content as in the last run.
  struct Memory {
    std::span<std::byte* const> inputs, outputs;
    std::byte* workspace = nullptr;
    std::span<const unsigned char> is_same;
  };
  virtual void run(const Memory& memory) = 0;
};

// What a library does of a Program, made for one step and shared by all who run it.
class LibraryCall {
 public:
  virtual ~LibraryCall() = default;
  virtual std::unique_ptr<LibraryRun> new_run() const = 0;  // which the call outlives
  virtual bool keeps_inputs() const = 0;  // whether it gains by inputs that are the same as before
};

}  // namespace systole::cpu
