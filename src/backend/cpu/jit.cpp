#include "backend/cpu/jit.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "backend/cpu/jit_compilers.h"
#include "base/env.h"
#include "base/lasting.h"
#include "base/log.h"
#include "codegen/math/math.h"
#include "runtime/disk_cache.h"
#include "systole/base/error.h"

namespace systole::cpu {

namespace {

constexpr const char *kJit = "SYSTOLE_JIT", *kIsa = "SYSTOLE_ISA";
// A later process that finds everything in the cache need not load the compiler either.
constexpr std::chrono::milliseconds kLoading(50);
constexpr const char* kNoCompiler = "no compiler that works: no libsystole_clang.so, no clang, no gcc, no CC";

std::vector<std::string> isa_flags(std::string_view isa) {
  if (isa == "avx512")
    return {"-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl",
            "-mavx2",    "-mfma",      "-mf16c",     "-mprefer-vector-width=512"};
  if (isa == "avx2") return {"-mavx2", "-mfma", "-mf16c"};
  return {};
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

std::shared_ptr<const Library> loaded(const std::string& bytes, const Compiler& compiler) {
  if (void* const handle = load_library(bytes)) return std::make_shared<const Library>(handle);
  const char* const words = ::dlerror();
  throw Error(ErrorKind::kUnsupported, compiler.name(),
              fmt::format("its kernels do not load: {}", words != nullptr ? words : "no reason given"));
}

// A compiler, and what became of trying it on a kernel without content.
class Rung {
 public:
  explicit Rung(std::unique_ptr<Compiler> compiler) : compiler_(std::move(compiler)) {}
  const Compiler& compiler() const { return *compiler_; }

  // Empty when it works for this instruction set. Tried once.
  std::string trouble(const std::string& isa) {
    const std::lock_guard lock(mutex_);
    const auto [at, is_new] = troubles_.try_emplace(isa);
    if (!is_new) return at->second;
    try {
      loaded(
          compiler_->compile("void k(void* const* b, long long begin, long long end) {}\n", flags_for(isa)),
          *compiler_);
    } catch (const Error& error) {
      std::string words = error.what();
      if (error.kind() == ErrorKind::kInternal)  // "… refused a generated kernel: …"
        words = error.message().substr(std::min(error.message().find(": ") + 2, error.message().size()));
      at->second = fmt::format("does not compile: {}", words);
    }
    return at->second;
  }
  // Without trying: whether it is not known to fail.
  bool may_work(const std::string& isa) const {
    const std::lock_guard lock(mutex_);
    const auto known = troubles_.find(isa);
    return known == troubles_.end() || known->second.empty();
  }

 private:
  const std::unique_ptr<Compiler> compiler_;
  mutable std::mutex mutex_;
  std::map<std::string, std::string> troubles_;  // by instruction set
};

struct Ladder {
  std::unique_ptr<Rung> module;
  std::vector<std::unique_ptr<Rung>> commands;
  std::vector<VainVariable> vain;
};

const Ladder& ladder() {
  static const Ladder& found = lasting<Ladder>([] {
    Ladder made;
    if (std::unique_ptr<Compiler> module = clang_module())
      made.module = std::make_unique<Rung>(std::move(module));
    for (std::unique_ptr<Compiler>& command : compiler_commands())
      made.commands.push_back(std::make_unique<Rung>(std::move(command)));
    made.vain = vain_variables();
    for (const auto& [setting, why] : made.vain) log(LogLevel::warn, fmt::format("{}: {}", setting, why));
    return made;
  }());
  return found;
}

std::string asked_for(const KernelOptions& options) {
  return !options.jit.empty() ? options.jit : env::word(kJit).value_or("");
}

// The compilers to try, in this order; none: no kernels.
std::vector<Rung*> rungs(const KernelOptions& options) {
  const std::string asked = asked_for(options);
  if (asked == "portable") return {};
  if (!asked.empty() && asked != "clang" && asked != "cc")
    throw Error(ErrorKind::kInvalidArgument, kJit, "no such way to compile", "clang, cc or portable", asked);
  std::vector<Rung*> chosen;
  if (asked != "cc" && ladder().module != nullptr) chosen.push_back(ladder().module.get());
  if (asked != "clang")
    for (const auto& command : ladder().commands) chosen.push_back(command.get());
  if (chosen.empty() && !asked.empty())
    throw Error(ErrorKind::kUnsupported, kJit,
                asked == "cc" ? "no C compiler: set CC, or install clang or gcc"
                              : "the module libsystole_clang.so is not here; SYSTOLE_CLANG_PATH names it",
                {}, asked);
  return chosen;
}

// A program's source as its compiler sees it; kept like a library, unless it may change with other files.
std::string preprocessed_by(Rung& rung, const std::string& source, const std::string& isa,
                            const std::vector<std::string>& more_flags) {
  const Compiler& compiler = rung.compiler();
  std::vector<std::string> flags = flags_for(isa);
  flags.insert(flags.end(), more_flags.begin(), more_flags.end());
  flags.emplace_back("-E");
  runtime::CacheKey key("cpu-text");
  key.add(source).add(compiler.identity());
  for (const std::string& flag : flags) key.add(flag);
  const std::optional<runtime::DiskCache> cache =
      source.find("include") == std::string::npos ? runtime::disk_cache() : std::nullopt;
  if (cache)
    if (std::optional<std::string> known = cache->find(key)) return *std::move(known);
  if (!rung.may_work(isa)) throw Error(ErrorKind::kUnsupported, compiler.name(), rung.trouble(isa));
  const auto start = std::chrono::steady_clock::now();
  std::string text = compiler.compile(source, flags);
  if (cache && cache->is_worth(std::chrono::steady_clock::now() - start + kLoading)) cache->store(key, text);
  return text;
}

std::shared_ptr<const Library> made_by(Rung& rung, const std::string& source, const std::string& isa,
                                       const std::vector<std::string>& more_flags = {}) {
  const Compiler& compiler = rung.compiler();
  std::vector<std::string> flags = flags_for(isa);
  flags.insert(flags.end(), more_flags.begin(), more_flags.end());
  runtime::CacheKey key("cpu");
  key.add(source).add(compiler.identity());
  for (const std::string& flag : flags) key.add(flag);
  const std::optional<runtime::DiskCache> cache = runtime::disk_cache();
  if (cache)
    if (const std::optional<std::string> known = cache->find(key)) {
      if (void* const handle = load_library(*known)) return std::make_shared<const Library>(handle);
      cache->remove(key);
    }
  if (!rung.may_work(isa)) throw Error(ErrorKind::kUnsupported, compiler.name(), rung.trouble(isa));
  const auto start = std::chrono::steady_clock::now();
  const std::string bytes = compiler.compile(source, flags);
  std::shared_ptr<const Library> library = loaded(bytes, compiler);
  if (cache && cache->is_worth(std::chrono::steady_clock::now() - start + kLoading)) cache->store(key, bytes);
  return library;
}

}  // namespace

Library::~Library() { ::dlclose(handle_); }

KernelFunction Library::find(const std::string& name) const {
  void* const symbol = ::dlsym(handle_, name.c_str());
  if (symbol == nullptr) throw Error(ErrorKind::kInternal, "cpu", "no such kernel", {}, name);
  return reinterpret_cast<KernelFunction>(symbol);
}

const std::vector<std::string>& instruction_sets() {
  static const std::vector<std::string>& sets = lasting<std::vector<std::string>>([] {
    std::vector<std::string> found = {"sse2"};
    const bool avx2 =
        __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    if (avx2) found.insert(found.begin(), "avx2");
    if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
      found.insert(found.begin(), "avx512");
    return found;
  }());
  return sets;
}

std::string instruction_set(const KernelOptions& options, const std::vector<std::string>& here) {
  const std::string asked = !options.isa.empty() ? options.isa : env::word(kIsa).value_or(here[0]);
  if (std::find(here.begin(), here.end(), asked) != here.end()) return asked;
  if (asked == "avx2" || asked == "avx512")
    throw Error(ErrorKind::kUnsupported, kIsa, "this processor does not have the instruction set",
                fmt::format("{}", fmt::join(here, ", ")), asked);
  throw Error(ErrorKind::kInvalidArgument, kIsa, "no such instruction set", "sse2, avx2 or avx512", asked);
}

std::string kernels_in_words(const KernelOptions& options) {
  const std::string isa = instruction_set(options);
  for (const Rung* rung : rungs(options))
    if (rung->may_work(isa)) return fmt::format("kernels by {}, {}", rung->compiler().name(), isa);
  const bool wanted = asked_for(options) == "portable";
  return fmt::format("evaluated without kernels ({})", wanted ? "SYSTOLE_JIT=portable" : kNoCompiler);
}

bool makes_kernels(const KernelOptions& options) {
  const std::string isa = instruction_set(options);
  const std::vector<Rung*> all = rungs(options);
  return std::any_of(all.begin(), all.end(), [&](const Rung* rung) { return rung->may_work(isa); });
}

std::vector<CompilerState> compiler_states(const KernelOptions& options) {
  const std::string isa = instruction_set(options);
  std::vector<CompilerState> states;
  for (Rung* rung : rungs(options)) states.push_back({rung->compiler().name(), rung->trouble(isa)});
  for (const VainVariable& vain : ladder().vain) states.push_back({vain.setting, vain.why});
  return states;
}

namespace {

// What `make` gives with the first compiler that works; null when none does.
std::shared_ptr<const Library> by_first(
    const KernelOptions& options,
    const std::function<std::shared_ptr<const Library>(Rung&, const std::string& isa)>& make) {
  const std::string isa = instruction_set(options);
  std::optional<Error> first;
  std::string news;  // what was not known before
  const auto tell = [&](std::string_view now) {
    if (!news.empty()) log(LogLevel::warn, fmt::format("{}{}", now, news));
  };
  for (Rung* rung : rungs(options)) {
    const bool was_sound = rung->may_work(isa);
    try {
      std::shared_ptr<const Library> library = make(*rung, isa);
      tell(fmt::format("kernels are made by {}", rung->compiler().name()));
      return library;
    } catch (const Error& error) {
      // A variable with a wrong value is no reason to work without kernels.
      if (error.kind() == ErrorKind::kInvalidArgument) throw;
      const std::string trouble = rung->trouble(isa);
      if (trouble.empty() && error.kind() == ErrorKind::kInternal) throw;
      const Error reason = trouble.empty() || error.kind() == ErrorKind::kUnsupported
                               ? error
                               : Error(ErrorKind::kUnsupported, rung->compiler().name(), trouble);
      if (was_sound) news += fmt::format("{} {}", news.empty() ? ":" : ";", reason.what());
      if (!first) first = reason;
    }
  }
  if (first && !asked_for(options).empty()) throw *first;
  tell("steps are evaluated without kernels");
  return nullptr;
}

}  // namespace

std::shared_ptr<const Library> compile_kernels(const std::string& source, const KernelOptions& options) {
  return by_first(options, [&](Rung& rung, const std::string& isa) { return made_by(rung, source, isa); });
}

std::shared_ptr<const Library> compile_source(const std::string& source,
                                              const std::vector<std::string>& more_flags,
                                              const Rewrite& rewritten) {
  return by_first({}, [&](Rung& rung, const std::string& isa) {
    return made_by(rung, rewritten(preprocessed_by(rung, source, isa, more_flags)), isa, more_flags);
  });
}

}  // namespace systole::cpu
