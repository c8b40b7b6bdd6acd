#pragma once

// Runs a Program on host memory. Running allocates nothing but what steps without a kernel need, which are
// evaluated.

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/cpu/jit.h"
#include "backend/cpu/library_call.h"
#include "backend/source_call.h"
#include "backend/walker.h"
#include "compile/program.h"

namespace systole::cpu {

// A Program with its kernels, shared by all who run it.
struct Compiled {
  struct Launch {
    KernelFunction function = nullptr;  // null where no compiler works
    std::int64_t items = 0;
  };
  struct Call {
    std::vector<Launch> launches;  // one after the other; none: evaluated, or by what stands below
    int threads = 1;
    std::string label, details;                         // in the timeline
    std::shared_ptr<const runtime::SourceCall> source;  // of a kernel_call
    std::shared_ptr<const LibraryCall> library;
  };
  const lower::Program* program = nullptr;
  std::vector<Call> calls;                          // by step
  std::vector<std::vector<Compiled>> sub_programs;  // by step
};

struct Module {
  bool keeps_inputs() const;  // whether a run gains by inputs that are the same as before
  lower::Program program;
  std::shared_ptr<const Library> library;
  Compiled compiled;
};
std::shared_ptr<const Module> make_module(const ir::Graph& graph, bool optimize = true,
                                          const KernelOptions& options = {});

class Machine {
 public:
  using Place = std::byte*;
  using Compiled = cpu::Compiled;
  struct Context {};

  Machine(Context, const Compiled& compiled);
  static Place moved(Place place, std::int64_t bytes) { return place + bytes; }
  Place constant(lower::BufferId b) const;
  Place answer() { return &answer_; }
  static bool is_true(Place place) { return *place != std::byte{0}; }
  static void copy(Place from, Place to, std::size_t bytes);
  void run(std::size_t step, const runtime::Walker<Machine>& walker);
  // Which of the program's inputs are the same as in the last run; all others are not.
  void set_same(std::span<const unsigned char> is_same) { is_same_ = is_same; }

 private:
  const Compiled* compiled_;
  struct KernelRun {
    KernelFunction function = nullptr;
    void* const* buffers = nullptr;
    std::int64_t items = 0;
    const std::string* label = nullptr;

    static void run(const void* context, std::int64_t begin, std::int64_t end);  // a part of one
  };
  // What other threads read is written only when it changes: they have it in their caches then.
  struct Arguments {
    std::vector<void*> all;              // of a kernel, as it takes them
    std::vector<KernelRun> runs;         // by launch
    std::vector<Place> inputs, outputs;  // of a kernel_call or a library
    std::unique_ptr<LibraryRun> library;
    std::vector<unsigned char> is_same;  // of a library, by input
  };
  std::vector<Arguments> arguments_;  // by step
  std::byte answer_{0};
  std::span<const unsigned char> is_same_;
};

class Executor : public runtime::Walker<Machine> {
 public:
  explicit Executor(const Compiled& compiled) : Walker({}, compiled) {}
};

}  // namespace systole::cpu
