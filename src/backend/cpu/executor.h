#pragma once

// Runs a Program on host memory. What a run needs is laid out when the Executor is made; running allocates
// nothing but what steps without a kernel need, which are evaluated.

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/cpu/jit.h"
#include "backend/source_call.h"
#include "compile/program.h"

namespace systole::cpu {

// A Program with its kernels, shared by all who run it.
struct Compiled {
  struct Call {
    KernelFunction function = nullptr;  // null: evaluated
    std::int64_t items = 0;
    int threads = 1;
    std::string label, details;                         // in the timeline
    std::shared_ptr<const runtime::SourceCall> source;  // of a kernel_call
  };
  const lower::Program* program = nullptr;
  std::vector<Call> calls;                          // by step
  std::vector<std::vector<Compiled>> sub_programs;  // by step
};

struct Module {
  lower::Program program;
  std::shared_ptr<const Library> library;
  Compiled compiled;
};
std::shared_ptr<const Module> make_module(const ir::Graph& graph, const KernelOptions& options = {});

class Executor {
 public:
  explicit Executor(const Compiled& compiled);

  // Memory of inputs and outputs in the signature's order, and of the temporaries.
  void run(std::span<std::byte* const> inputs, std::span<std::byte* const> outputs, std::byte* arena);

 private:
  struct Inner {
    std::vector<Executor> executors;
    std::vector<std::byte*> inputs, outputs, first;  // first: of a scan's slices
  };
  std::byte* memory(lower::BufferId b) const { return base_[static_cast<std::size_t>(b)]; }
  void run_step(std::size_t s);
  void evaluate(const lower::Step& step);
  void scan(std::size_t s);
  void loop(std::size_t s);
  void branch(std::size_t s);
  void take_operands(const lower::Step& step, Inner& inner) const;

  const Compiled* compiled_;
  std::vector<std::byte*> base_;             // by buffer
  std::vector<std::vector<void*>> buffers_;  // by step, as kernels take them
  std::vector<Inner> inner_;                 // by step
};

}  // namespace systole::cpu
