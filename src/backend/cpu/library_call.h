#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace systole::cpu {

// A library's work, for one user at a time.
class LibraryRun {
 public:
  virtual ~LibraryRun() = default;
  // Memory of the step's inputs, outputs and workspace. Allocates nothing of ours.
  virtual void run(std::span<std::byte* const> inputs, std::span<std::byte* const> outputs,
                   std::byte* workspace) = 0;
};

// What a library does of a Program, made for one step and shared by all who run it.
class LibraryCall {
 public:
  virtual ~LibraryCall() = default;
  virtual std::unique_ptr<LibraryRun> new_run() const = 0;  // which the call outlives
};

}  // namespace systole::cpu
