#pragma once

// A graph made ready for a GPU: its Program, kernels compiled and loaded, libraries' calls, constants. What
// only a clock can decide has been timed. Immutable, and shared by all sessions that run it.

#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/device.h"
#include "backend/cuda/library_call.h"
#include "backend/cuda/schedule.h"
#include "compile/program.h"
#include "systole/runtime.h"

namespace systole::cuda {

// A Program with its kernels, shared by all who run it.
struct Compiled {
  struct Launch {
    Function function = nullptr;
    unsigned groups = 0, threads = 0;
  };
  struct Call {
    std::vector<Launch> launches;                // of kernels
    std::shared_ptr<const LibraryCall> library;  // instead of a kernel
    std::string label, details;                  // on the timeline
  };
  const lower::Program* program = nullptr;
  Schedule schedule;
  std::vector<Call> calls;                          // by step
  std::vector<MemoryRef> constants;                 // by buffer
  std::vector<std::vector<Compiled>> sub_programs;  // by step
};

struct Module {
  const Device* device = nullptr;
  lower::Program program;
  std::vector<std::shared_ptr<ModuleObject>> kernels;
  Compiled compiled;
  std::int64_t steps = 0;       // of its graph, loops unrolled
  bool is_one_launch = false;   // nothing in it needs the host
  bool launches_early = false;  // kernels of its graph
};
std::shared_ptr<const Module> make_module(const Device& device, const ir::Graph& graph,
                                          const runtime::CompileOptions& options);

}  // namespace systole::cuda
