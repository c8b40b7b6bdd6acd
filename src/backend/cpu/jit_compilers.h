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
  // The bytes of a shared library; with -E among the flags, the preprocessed source. Throws kInternal with
  // the compiler's words for source it refuses,
  // kUnsupported when the compiler itself cannot be used and kIo when its scratch folder cannot.
  virtual std::string compile(const std::string& source, const std::vector<std::string>& flags) const = 0;
};

// clang in this process, by the module libsystole_clang.so: SYSTOLE_CLANG_PATH names it or its folder, else
// it lies beside the library or the program. Null when there is none.
std::unique_ptr<Compiler> clang_module();

// Commands that are there, each program once: CC, clang-19, clang, gcc, cc.
std::vector<std::unique_ptr<Compiler>> compiler_commands();

// What SYSTOLE_CLANG_PATH and CC name in vain.
struct VainVariable {
  std::string setting, why;  // "CC=gc", "there is no such program"
};
std::vector<VainVariable> vain_variables();

// A handle for dlsym of a library that lies in memory; null and dlerror() when it does not load.
void* load_library(const std::string& bytes);

}  // namespace systole::cpu
