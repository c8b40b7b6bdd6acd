#pragma once

// The C interface between the library and its compiler, which is a shared library of its own: LLVM is large,
// and a process that finds its kernels in the cache never loads it. The two must be of one build.

#include <cstddef>

extern "C" {

struct SystoleClangResult {
  int code;          // SystoleClangCode
  char* bytes;       // of the ELF shared library, or what the compiler says; free with systole_clang_free
  std::size_t size;  // without a closing zero
};

enum SystoleClangCode {
  kSystoleClangDone = 0,
  kSystoleClangRefused = 1,  // the source has an error
  kSystoleClangFailed = 2,   // the compiler itself is at fault; it may be tried no more
};

// Which build the module is of, as SYSTOLE_CLANG_BUILD.
using SystoleClangBuild = const char* (*)();
// C source to a shared library; `flags` are those of the command clang, with -E among them the preprocessed
// source comes back. Threads take turns.
using SystoleClangCompile = SystoleClangResult (*)(const char* source, std::size_t size,
                                                   const char* const* flags, std::size_t flag_count);
using SystoleClangFree = void (*)(char* bytes);
}
