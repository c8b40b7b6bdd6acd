#pragma once

// The compilers that may turn C source into a shared library, each found without being started or loaded: a
// process whose kernels are all in the cache never needs more than their identity.

#include <memory>
#include <string>
#include <vector>

namespace systole::cpu {

class Compiler {
 public:
  virtual ~Compiler() = default;
  virtual const std::string& name() const = 0;      // for people
  virtual const std::string& identity() const = 0;  // another one may make other code
  // The bytes of a shared library. Throws kInternal with the compiler's words for source it refuses, and
  // kUnsupported when the compiler itself cannot be used.
  virtual std::string compile(const std::string& source, const std::vector<std::string>& flags) const = 0;
};

// clang in this process, by the module libsystole_clang.so: SYSTOLE_CLANG_PATH names it or its folder, else
// it lies beside the library or the program. Null when there is none.
std::unique_ptr<Compiler> clang_module();

// A command: CC, clang-19, clang, gcc or cc. Null when there is none.
std::unique_ptr<Compiler> compiler_command();

// A handle for dlsym of a library that lies in memory; null and dlerror() when it does not load.
void* load_library(const std::string& bytes);

}  // namespace systole::cpu
