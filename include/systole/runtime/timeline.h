#pragma once

// What ran when, as a file that ui.perfetto.dev and chrome://tracing show: compilations, runs and copies
// on every backend, steps of the program with their kernels, memory, and the program's own scopes.
//
//   Timeline::start("step.json");
//   {
//     Timeline::Scope scope("load a batch");
//     ...
//   }
//   Timeline::stop();
//
// Or without a change to the program: SYSTOLE_TRACE=step.json. Off, a scope costs one load. The file is valid
// JSON at any moment; what is not written yet (less than 64 KiB) goes with a crash, not with exit().

#include <cstdint>
#include <string>
#include <string_view>

#include "systole/base/export.h"

namespace systole {

class SYSTOLE_API Timeline {
 public:
  // Writes to this file from now on; an earlier one is finished first. Throws kIo when it cannot be written,
  // or holds anything but a timeline.
  // "%p" in the name stands for the number of the process. A child of fork() has no timeline.
  static void start(const std::string& path);
  static void stop();  // finishes the file; nothing to do when there is none
  static bool is_running();

  // The time from here to the end of the block. Scopes nest and may run in several threads at once. Under
  // Nsight they are NVTX ranges as well, with or without a timeline.
  class SYSTOLE_API Scope {
   public:
    explicit Scope(std::string_view name);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    std::string name_;
    std::int64_t begin_ = -1;  // nanoseconds; below zero: not recorded
    bool is_range_ = false;    // of NVIDIA's tools
  };
};

}  // namespace systole
