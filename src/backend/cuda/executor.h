#pragma once

// Runs a Program on a GPU: step by step on a stream, or captured once as a CUDA graph and launched whole.

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/device.h"
#include "backend/cuda/schedule.h"
#include "backend/walker.h"
#include "compile/program.h"
#include "systole/runtime.h"

namespace systole::cuda {

// What a library does of a Program, made for one step.
class LibraryCall {
 public:
  virtual ~LibraryCall() = default;
  // Memory of the step's inputs, outputs and workspace.
  virtual void run(Stream stream, std::span<const Address> inputs, std::span<const Address> outputs,
                   Address workspace) const = 0;
};

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
  bool is_one_launch = false;  // nothing in it needs the host
};
std::shared_ptr<const Module> make_module(const Device& device, const ir::Graph& graph,
                                          const runtime::CompileOptions& options);

class Machine {
 public:
  using Place = Address;
  using Compiled = cuda::Compiled;
  struct Context {
    const Device& device;
    Stream stream;
    Lanes* lanes = nullptr;  // beside the stream
  };

  Machine(const Context& context, const Compiled& compiled);
  static Place moved(Place place, std::int64_t bytes) { return place + static_cast<Address>(bytes); }
  Place constant(lower::BufferId b) const;
  Place answer() const { return answer_->address(); }
  bool is_true(Place place) const;
  void copy(Place from, Place to, std::size_t bytes) const;
  void run(std::size_t step, const runtime::Walker<Machine>& walker);
  void begin() { way_.begin(); }
  void enter(std::size_t step);
  void leave(std::size_t step) { way_.leave(step); }
  void end() { way_.end(); }

 private:
  void evaluate(const lower::Step& step, const runtime::Walker<Machine>& walker) const;

  const Device* device_;
  const Stream home_;
  Stream stream_;  // of the step
  const Compiled* compiled_;
  Lanewalk way_;
  std::vector<Address> addresses_;
  std::vector<void*> parameters_;
  std::shared_ptr<Memory> answer_;
};

using Executor = runtime::Walker<Machine>;

}  // namespace systole::cuda
