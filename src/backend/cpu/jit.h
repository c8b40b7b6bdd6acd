#pragma once

// Kernels in C as functions of this process. A compiler makes a shared library of the source, which the cache
// on disk keeps: a later process only loads it. The key holds the source, the instruction set, the compiler
// and its flags. The first compiler that works is used: clang in this process, then commands such as gcc;
// with none of them steps are evaluated without kernels. One that fails is tried on a kernel without content:
// when that fails too it is the compiler's fault, the log says so once and the next has its turn.
//
//   SYSTOLE_JIT   clang, cc or portable (no kernels) instead of the first that works
//   SYSTOLE_ISA   sse2, avx2 or avx512 instead of the best that the processor has

#include <functional>
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

// For people: "kernels by /usr/bin/gcc, avx2". No compiler is tried for it; one that failed before is not
// named.
std::string kernels_in_words(const KernelOptions& options = {});

// Every compiler that is there, in the order in which they are used and tried for it, then what variables
// name in vain.
struct CompilerState {
  std::string name;
  std::string trouble;  // empty: it works
};
std::vector<CompilerState> compiler_states(const KernelOptions& options = {});
bool makes_kernels(const KernelOptions& options = {});  // as far as is known without trying

// Null when kernels cannot be had or are not wanted: every step is evaluated then. Throws kInternal with the
// words of a compiler that works for a source it refuses. A compiler that was asked for and does not work is
// an error.
std::shared_ptr<const Library> compile_kernels(const std::string& source, const KernelOptions& options = {});

// A program's own source: the compiler preprocesses it and then compiles what `rewritten` makes of that.
// `more_flags` come after ours. Otherwise as above; `rewritten` must not throw.
using Rewrite = std::function<std::string(std::string preprocessed)>;
std::shared_ptr<const Library> compile_source(const std::string& source,
                                              const std::vector<std::string>& more_flags,
                                              const Rewrite& rewritten);

}  // namespace systole::cpu
