#pragma once

// Kernels in C as functions of this process. A compiler makes a shared library of the source, which the cache
// on disk keeps: a later process only loads it. The key holds the source, the instruction set, the compiler
// and its flags.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace systole::cpu {

using KernelFunction = void (*)(void* const* buffers, long long begin, long long end);

class Library {
 public:
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library();
  KernelFunction find(const std::string& name) const;  // throws kInternal for an unknown one

 private:
  friend std::shared_ptr<const Library> compile_kernels(const std::string&);
  explicit Library(void* handle) : handle_(handle) {}
  void* handle_;
};

// The instruction sets that kernels are compiled for, best first as far as this processor has them;
// SYSTOLE_ISA (sse2, avx2, avx512) picks another.
std::string_view instruction_set();

// Why there is no compiler; empty when there is one.
std::string compiler_absence();

// Throws kUnsupported without a compiler, kInternal with its words for a source it refuses.
std::shared_ptr<const Library> compile_kernels(const std::string& source);

}  // namespace systole::cpu
