#pragma once

// Kernels from regions. A kernel's work comes in items that may run in any order and at the same time; its
// buffers are the region's inputs, then its outputs. In C it is
//
//   void NAME(void* const* buffers, s_i64 begin, s_i64 end);   // items begin … end-1
//
// In CUDA and OpenCL it is a kernel for a row of groups of threads, with one argument per buffer: a pointer
// in CUDA, in OpenCL the memory object and, as a ulong, where in it the buffer begins.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "codegen/dialect.h"
#include "compile/program.h"

namespace systole::codegen {

struct Kernel {
  std::string name;
  std::string source;             // the function alone
  std::set<std::string> helpers;  // of math.h, that it calls
  std::int64_t items = 0;
  std::int64_t groups = 0;  // to launch in CUDA and OpenCL; none for a kernel without work
  int threads = 0;          // of a group
  bool scratch = false;     // takes the step's workspace after its outputs
};

// How a kernel for groups of threads shares out its work; what is 0 it decides itself.
struct Form {
  int threads = 0;            // of a group
  int neighbours = 0;         // that a thread reads at once: 4 or 8
  std::int64_t groups = 0;    // at most, of elementwise work
  bool tensor_cores = false;  // there are some
  bool tf32 = false;          // products of f32 may be rounded to it
  bool operator==(const Form&) const = default;
};

// Nothing when the step's kind has no generated kernel in this dialect.
std::optional<Kernel> make_kernel(const lower::Step& step, const std::string& name, Dialect dialect,
                                  const Form& form = {});
// Those of a step that takes several launches, in their order; all that wants memory wants the same.
std::vector<Kernel> make_kernels(const lower::Step& step, const std::string& name, Dialect dialect,
                                 const Form& form = {});
// Forms that may suit a step on a GPU, for a backend that tries them; the first is the default.
std::vector<Form> forms(const lower::Step& step);

// The kernels of a Program. Layers repeat: one that differs from another in its name alone is written once.
class KernelSet {
 public:
  // The name under which the kernel is found.
  const std::string& add(Kernel kernel);
  const std::vector<Kernel>& distinct() const { return distinct_; }

 private:
  std::vector<Kernel> distinct_;
  std::map<std::string, std::string> names_;  // by the text without the name
};

// One file: the prelude, the helpers and the kernels.
std::string source_file(const std::vector<Kernel>& kernels, Dialect dialect);

}  // namespace systole::codegen
