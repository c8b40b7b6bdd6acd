#include "backend/cpu/jit.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>

#include "backend/cpu/jit_compilers.h"
#include "base/env.h"
#include "base/log.h"
#include "codegen/math/math.h"
#include "runtime/disk_cache.h"
#include "systole/base/error.h"

namespace systole::cpu {

namespace {

constexpr const char *kJit = "SYSTOLE_JIT", *kIsa = "SYSTOLE_ISA";
constexpr const char* kNoCompiler =
    "no compiler: the module libsystole_clang.so is not here, CC is not set, and there is no clang or gcc";

std::vector<std::string> isa_flags(std::string_view isa) {
  if (isa == "avx512")
    return {"-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl",
            "-mavx2",    "-mfma",      "-mf16c",     "-mprefer-vector-width=512"};
  if (isa == "avx2") return {"-mavx2", "-mfma", "-mf16c"};
  return {};
}

// The compilers to try, in this order; none: no kernels.
std::vector<const Compiler*> compilers(const KernelOptions& options) {
  static const std::unique_ptr<Compiler> module = clang_module(), command = compiler_command();
  const std::string asked = !options.jit.empty() ? options.jit : env::text(kJit).value_or("");
  std::vector<const Compiler*> chosen;
  if (asked.empty()) {
    for (const Compiler* compiler : {module.get(), command.get()})
      if (compiler != nullptr) chosen.push_back(compiler);
  } else if (asked == "clang" || asked == "cc") {
    chosen.push_back(asked == "cc" ? command.get() : module.get());
    if (chosen[0] == nullptr)
      throw Error(ErrorKind::kUnsupported, kJit,
                  asked == "cc" ? "no C compiler: set CC, or install clang or gcc"
                                : "the module libsystole_clang.so is not here; SYSTOLE_CLANG_PATH names it",
                  {}, asked);
  } else if (asked != "portable") {
    throw Error(ErrorKind::kInvalidArgument, kJit, "no such way to compile", "clang, cc or portable", asked);
  }
  return chosen;
}

std::vector<std::string> flags_for(const std::string& isa) {
  std::vector<std::string> flags = {"-std=gnu11", "-O3", "-fPIC", "-w"};
  for (std::string_view rest = codegen::math::kCFlags; !rest.empty();) {
    const std::size_t space = std::min(rest.find(' '), rest.size());
    flags.emplace_back(rest.substr(0, space));
    rest.remove_prefix(std::min(space + 1, rest.size()));
  }
  for (const std::string& flag : isa_flags(isa)) flags.push_back(flag);
  return flags;
}

std::shared_ptr<const Library> made_by(const Compiler& compiler, const std::string& source,
                                       const std::vector<std::string>& flags) {
  runtime::CacheKey key("cpu");
  key.add(source).add(compiler.identity());
  for (const std::string& flag : flags) key.add(flag);
  const std::optional<runtime::DiskCache> cache = runtime::disk_cache();
  if (cache)
    if (const std::optional<std::string> known = cache->find(key)) {
      if (void* const handle = load_library(*known)) return std::make_shared<const Library>(handle);
      cache->remove(key);
    }
  const auto start = std::chrono::steady_clock::now();
  const std::string bytes = compiler.compile(source, flags);
  void* const handle = load_library(bytes);
  if (handle == nullptr) {
    const char* const words = ::dlerror();
    throw Error(ErrorKind::kUnsupported, compiler.name(),
                fmt::format("its kernels do not load: {}", words != nullptr ? words : "no reason given"));
  }
  // A later process that finds everything need not load the compiler either.
  constexpr std::chrono::milliseconds kLoading(50);
  if (cache && cache->is_worth(std::chrono::steady_clock::now() - start + kLoading)) cache->store(key, bytes);
  return std::make_shared<const Library>(handle);
}

}  // namespace

Library::~Library() { ::dlclose(handle_); }

KernelFunction Library::find(const std::string& name) const {
  void* const symbol = ::dlsym(handle_, name.c_str());
  if (symbol == nullptr) throw Error(ErrorKind::kInternal, "cpu", "no such kernel", {}, name);
  return reinterpret_cast<KernelFunction>(symbol);
}

const std::vector<std::string>& instruction_sets() {
  static const std::vector<std::string> sets = [] {
    std::vector<std::string> found = {"sse2"};
    const bool avx2 =
        __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    if (avx2) found.insert(found.begin(), "avx2");
    if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
      found.insert(found.begin(), "avx512");
    return found;
  }();
  return sets;
}

std::string instruction_set(const KernelOptions& options, const std::vector<std::string>& here) {
  const std::string asked = !options.isa.empty() ? options.isa : env::text(kIsa).value_or(here[0]);
  if (std::find(here.begin(), here.end(), asked) != here.end()) return asked;
  if (asked == "avx2" || asked == "avx512")
    throw Error(ErrorKind::kUnsupported, kIsa, "this processor does not have the instruction set",
                fmt::format("{}", fmt::join(here, ", ")), asked);
  throw Error(ErrorKind::kInvalidArgument, kIsa, "no such instruction set", "sse2, avx2 or avx512", asked);
}

std::string kernels_in_words(const KernelOptions& options) {
  const std::vector<const Compiler*> chosen = compilers(options);
  if (!chosen.empty()) return fmt::format("kernels by {}, {}", chosen[0]->name(), instruction_set(options));
  const bool wanted = options.jit == "portable" || env::text(kJit) == "portable";
  return fmt::format("evaluated without kernels ({})", wanted ? "SYSTOLE_JIT=portable" : kNoCompiler);
}

std::shared_ptr<const Library> compile_kernels(const std::string& source, const KernelOptions& options) {
  const std::vector<std::string> flags = flags_for(instruction_set(options));
  const std::vector<const Compiler*> ladder = compilers(options);
  for (const Compiler* compiler : ladder) {
    try {
      return made_by(*compiler, source, flags);
    } catch (const Error& error) {
      // A compiler that cannot be used leaves the work to the next; one that was asked for by name does not.
      const bool asked = !options.jit.empty() || env::text(kJit);
      if (error.kind() != ErrorKind::kUnsupported || asked) throw;
      log(LogLevel::warn, fmt::format("kernels are made otherwise: {}", error.what()));
    }
  }
  return nullptr;
}

}  // namespace systole::cpu
