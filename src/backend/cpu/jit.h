#pragma once

// Kernels in C as functions of this process. A compiler makes a shared library of the source, which the cache
// on disk keeps: a later process only loads it. The key holds the source, the instruction set, the compiler
// and its flags. The first compiler that is there is used: clang in this process, a command such as gcc; with
// none of them steps are evaluated without kernels.
//
//   SYSTOLE_JIT   clang, cc or portable (no kernels) instead of the first that is there
//   SYSTOLE_ISA   sse2, avx2 or avx512 instead of the best that the processor has

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace systole::cpu {

using KernelFunction = void (*)(void* const* buffers, long long begin, long long end);

class Library {
 public:
  explicit Library(void* handle) : handle_(handle) {}
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library();
  KernelFunction find(const std::string& name) const;  // throws kInternal for an unknown one

 private:
  void* handle_;
};

// Instruction sets that kernels are compiled for and this processor has, the best first.
const std::vector<std::string>& instruction_sets();

// What the variables ask for, or the best there is. Choosing throws kInvalidArgument for an unknown word and
// kUnsupported for what is not there.
struct KernelOptions {
  std::string isa, jit;  // empty: by the variables
};

std::string instruction_set(const KernelOptions& options = {},
                            const std::vector<std::string>& here = instruction_sets());

// For people: "kernels by /usr/bin/gcc, avx2".
std::string kernels_in_words(const KernelOptions& options = {});

// Null when kernels cannot be had or are not wanted: every step is evaluated then. Throws kInternal with the
// compiler's words for a source it refuses.
std::shared_ptr<const Library> compile_kernels(const std::string& source, const KernelOptions& options = {});

}  // namespace systole::cpu
