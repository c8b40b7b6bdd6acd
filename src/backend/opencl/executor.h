#pragma once

// Runs a Program on a device. What a run needs is laid out when the Executor is made; running allocates
// nothing but what steps without a kernel need: these are evaluated on the host, and the Program's notes
// name them.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/opencl/device.h"
#include "backend/source_call.h"
#include "compile/program.h"

namespace systole::opencl {

// A Program with its kernels, shared by all who run it.
struct Compiled {
  struct Call {
    std::string kernel;  // empty: none
    std::size_t groups = 0, threads = 0;
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
std::shared_ptr<const Module> make_module(const Device& device, const ir::Graph& graph);

class Executor {
 public:
  Executor(const Module& module, const Compiled& compiled);

  // Memory of inputs and outputs in the signature's order, and of the temporaries.
  void run(std::span<const Place> inputs, std::span<const Place> outputs, Place arena);

 private:
  struct Inner {
    std::vector<Executor> executors;
    std::vector<Place> first, inputs, outputs;
    Memory answer;  // of a loop's condition
  };
  Place place(lower::BufferId b) const { return places_[static_cast<std::size_t>(b)]; }
  std::size_t bytes(lower::BufferId b) const;
  Place workspace(const lower::Step& step) const;
  void run_step(std::size_t s);
  void launch(std::size_t s);
  void evaluate(const lower::Step& step);
  void scan(std::size_t s);
  void loop(std::size_t s);
  void branch(std::size_t s);
  void take_operands(const lower::Step& step, Inner& inner) const;

  const Device* device_;
  const Compiled* compiled_;
  std::vector<Place> places_;    // by buffer
  std::vector<Kernel> kernels_;  // by step: a kernel holds its arguments, so every executor has its own
  std::vector<Inner> inner_;     // by step
};

}  // namespace systole::opencl
