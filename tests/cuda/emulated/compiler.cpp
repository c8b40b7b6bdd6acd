// libnvrtc.so for a GPU that is the processor: CUDA C++ is made C++, and machine code is a shared library of
// the compiler that the cpu backend has. The driver beside it (driver.cpp) loads it. User sources get what
// NVIDIA's compiler notes in its files of kernels and variables too, so that they are read as those are.

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/clang_module.h"
#include "code.h"
#include "device.h"
#include "notes.h"
#include "translate.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

using namespace systole::emulated;

constexpr int kDone = 0, kRefused = 6, kInternal = 11;

struct Clang {
  SystoleClangCompile compile = nullptr;
  SystoleClangFree free = nullptr;
};
const Clang& clang() {
  static const Clang found = [] {
    void* const library = ::dlopen(SYSTOLE_CLANG_MODULE, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return Clang{};
    return Clang{reinterpret_cast<SystoleClangCompile>(::dlsym(library, "systole_clang_compile")),
                 reinterpret_cast<SystoleClangFree>(::dlsym(library, "systole_clang_free"))};
  }();
  return found;
}

struct Result {
  int code;
  std::string bytes;
};
Result compile(const std::string& source, const std::vector<std::string>& flags) {
  std::vector<const char*> words;
  for (const std::string& flag : flags) words.push_back(flag.c_str());
  const SystoleClangResult result = clang().compile(source.data(), source.size(), words.data(), words.size());
  Result made{result.code, std::string(result.bytes, result.size)};
  clang().free(result.bytes);
  return made;
}

struct ProgramObject {
  std::string source, name, log, code;
  std::vector<std::pair<std::string, std::string>> headers;  // by name
  std::vector<std::string> templates;
  std::map<std::string, std::string> symbols;  // of these

  int build(const std::vector<std::string>& given);
};

// clang's words in the form of NVIDIA's: "file(3): error: identifier "x" is undefined".
std::string in_their_form(const std::string& words) {
  static const std::regex place("(^|\n)([^\n:]+):([0-9]+):[0-9]+: (fatal error|error|warning)"),
      unknown("use of undeclared identifier '([^']*)'");
  return std::regex_replace(std::regex_replace(words, place, "$1$2($3): $4"), unknown,
                            "identifier \"$1\" is undefined");
}

// `#include <name>` of a header that the program was given, once each.
std::string with_headers(const std::string& source, const ProgramObject& program) {
  std::string text;
  for (std::size_t at = 0; at < source.size();) {
    const std::size_t end = std::min(source.find('\n', at), source.size());
    const std::string line = source.substr(at, end - at);
    at = end + 1;
    const std::size_t hash = line.find_first_not_of(" \t");
    if (hash != std::string::npos && line.compare(hash, 8, "#include") == 0) {
      bool is_known = false;
      for (const auto& [name, header] : program.headers)
        if (line.find("<" + name + ">") != std::string::npos ||
            line.find("\"" + name + "\"") != std::string::npos) {
          is_known = true;  // device.inc has what these have
          break;
        }
      text += (is_known ? "" : line) + "\n";
      continue;
    }
    text += line + "\n";
  }
  return text;
}

int ProgramObject::build(const std::vector<std::string>& given) {
  std::vector<std::string> flags = {
      "-xc++", "-std=c++17", "-fPIC",           "-w",    "-ffp-contract=off",      "-fno-math-errno",
      "-O1",   "-fno-rtti",  "-fno-exceptions", "-mfma", "-fno-threadsafe-statics"};
  if (const char* const text = std::getenv("SYSTOLE_EMULATED_SANITIZE"); text != nullptr && text[0] == '1')
    flags.insert(flags.end(), {"-fsanitize=address", "-shared-libasan", "-fno-omit-frame-pointer", "-g1"});
  for (const std::string& flag : given)
    if (flag.starts_with("-D") || flag.starts_with("-U")) flags.push_back(flag);
  std::vector<std::string> first = flags;
  first.insert(first.end(), {"-E", "-D__CUDA_ARCH__=900", "-D__CUDACC__=1"});
  const Result plain = compile(
      std::string(kDevice) + fmt::format("\n#line 1 \"{}\"\n", name) + with_headers(source, *this), first);
  if (plain.code != kSystoleClangDone) {
    log = in_their_form(plain.bytes);
    return plain.code == kSystoleClangRefused ? kRefused : kInternal;
  }
  const Result made = compile(translated(plain.bytes, templates), flags);
  if (made.code != kSystoleClangDone) {
    log = in_their_form(made.bytes);
    return made.code == kSystoleClangRefused ? kRefused : kInternal;
  }
  code = made.bytes;
  const std::vector<Code::Description> kernels = Code(code).descriptions();
  for (const Code::Description& kernel : kernels) symbols[kernel.expression] = kernel.symbol;
  code = with_notes(code, kernels);
  return kDone;
}

}  // namespace

EXPORTED int nvrtcVersion(int* major, int* minor) {
  *major = 0;  // no version of NVIDIA's: what is in the cache of theirs is not this one's
  *minor = 1;
  return kDone;
}
EXPORTED int nvrtcCreateProgram(ProgramObject** program, const char* source, const char* name, int count,
                                const char* const* headers, const char* const* names) {
  auto made = std::make_unique<ProgramObject>();
  made->source = source;
  made->name = name;
  for (int i = 0; i < count; ++i) made->headers.emplace_back(names[i], headers[i]);
  *program = made.release();
  return kDone;
}
EXPORTED int nvrtcDestroyProgram(ProgramObject** program) {
  delete std::exchange(*program, nullptr);
  return kDone;
}
EXPORTED int nvrtcCompileProgram(ProgramObject* program, int count, const char* const* flags) try {
  if (clang().compile == nullptr) {
    program->log = "the emulated GPU needs clang 19 as libraries";
    return kInternal;
  }
  return program->build({flags, flags + count});
} catch (const std::exception& error) {
  program->log = error.what();
  return kInternal;
}
EXPORTED int nvrtcGetProgramLogSize(ProgramObject* program, std::size_t* size) {
  *size = program->log.size() + 1;
  return kDone;
}
EXPORTED int nvrtcGetProgramLog(ProgramObject* program, char* log) {
  std::memcpy(log, program->log.c_str(), program->log.size() + 1);
  return kDone;
}
EXPORTED int nvrtcGetCUBINSize(ProgramObject* program, std::size_t* size) {
  *size = program->code.size();
  return kDone;
}
EXPORTED int nvrtcGetCUBIN(ProgramObject* program, char* code) {
  std::memcpy(code, program->code.data(), program->code.size());
  return kDone;
}
EXPORTED const char* nvrtcGetErrorString(int status) {
  return status == kRefused ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR_INTERNAL_ERROR";
}
EXPORTED int nvrtcAddNameExpression(ProgramObject* program, const char* name) {
  program->templates.emplace_back(name);
  return kDone;
}
EXPORTED int nvrtcGetLoweredName(ProgramObject* program, const char* name, const char** symbol) {
  const auto found = program->symbols.find(name);
  if (found == program->symbols.end()) return kInternal;
  *symbol = found->second.c_str();
  return kDone;
}
