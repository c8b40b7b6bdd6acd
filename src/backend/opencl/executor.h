#pragma once

// Runs a Program on a device. Running allocates nothing but what steps without a kernel need: these are
// evaluated on the host, and the log names them.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/opencl/device.h"
#include "backend/source_call.h"
#include "backend/walker.h"
#include "compile/program.h"

namespace systole::opencl {

// A Program with its kernels, shared by all who run it.
struct Compiled {
  struct Launch {
    std::string kernel;
    std::size_t groups = 0, threads = 0;
  };
  struct Call {
    std::vector<Launch> launches;                       // none: no kernel
    bool scratch = false;                               // takes the step's workspace
    std::string label, details;                         // on the timeline
    std::shared_ptr<const runtime::SourceCall> source;  // of a kernel_call
  };
  const lower::Program* program = nullptr;
  std::vector<Call> calls;                          // by step
  std::vector<Memory> constants;                    // by buffer
  std::vector<std::vector<Compiled>> sub_programs;  // by step
};

struct Module {
  const Device* device = nullptr;
  lower::Program program;
  Program kernels{nullptr, nullptr};
  Compiled compiled;
};
std::shared_ptr<const Module> make_module(const Device& device, const ir::Graph& graph, bool optimize);

class Machine {
 public:
  using Place = opencl::Place;
  using Compiled = opencl::Compiled;
  using Context = Module;

  Machine(const Module& module, const Compiled& compiled);
  static Place moved(Place place, std::int64_t bytes) {
    return {place.memory, place.offset + static_cast<std::size_t>(bytes)};
  }
  Place constant(lower::BufferId b) const {
    return {compiled_->constants[static_cast<std::size_t>(b)].get(), 0};
  }
  Place answer() const { return {answer_.get(), 0}; }
  bool is_true(Place place) const;
  void copy(Place from, Place to, std::size_t bytes) const { device_->copy(from, to, bytes); }
  void run(std::size_t step, const runtime::Walker<Machine>& walker);

 private:
  void launch(std::size_t s, const runtime::Walker<Machine>& walker);
  void evaluate(const lower::Step& step, const runtime::Walker<Machine>& walker) const;

  const Device* device_;
  const Compiled* compiled_;
  std::vector<std::vector<Kernel>>
      kernels_;  // by step: a kernel holds its arguments, so every Machine has its own
  Memory answer_;
};

using Executor = runtime::Walker<Machine>;

}  // namespace systole::opencl
