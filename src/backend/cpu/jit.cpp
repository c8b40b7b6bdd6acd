#include "backend/cpu/jit.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "base/env.h"
#include "base/file.h"
#include "codegen/math/math.h"
#include "runtime/disk_cache.h"
#include "systole/base/error.h"

extern char** environ;

namespace systole::cpu {

namespace {

namespace fs = std::filesystem;

// A temporary folder that goes with its owner.
class Scratch {
 public:
  Scratch() {
    std::string pattern = (fs::temp_directory_path() / "systole-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr)
      throw Error(ErrorKind::kIo, pattern, "cannot make a folder for the compiler");
    path_ = pattern;
  }
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::optional<fs::path> on_path(const std::string& program) {
  if (program.find('/') != std::string::npos)
    return ::access(program.c_str(), X_OK) == 0 ? std::optional<fs::path>(program) : std::nullopt;
  const char* const list = std::getenv("PATH");
  std::string_view rest = list != nullptr ? list : "";
  while (!rest.empty()) {
    const std::size_t colon = rest.find(':');
    const fs::path candidate = fs::path(rest.substr(0, colon)) / program;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    rest = colon == std::string_view::npos ? std::string_view{} : rest.substr(colon + 1);
  }
  return std::nullopt;
}

struct Compiler {
  fs::path program;
  std::string identity;  // path, size and time: another compiler makes other code
};

std::optional<Compiler> find_compiler() {
  std::vector<std::string> names = {"clang-19", "clang", "gcc", "cc"};
  if (const std::optional<std::string> chosen = env::text("CC")) names.insert(names.begin(), *chosen);
  for (const std::string& name : names)
    if (const std::optional<fs::path> program = on_path(name)) {
      std::error_code error;
      const fs::path real = fs::canonical(*program, error);
      if (error) continue;
      return Compiler{*program, fmt::format("{} {} {}", real.string(), fs::file_size(real, error),
                                            fs::last_write_time(real, error).time_since_epoch().count())};
    }
  return std::nullopt;
}

const std::optional<Compiler>& compiler() {
  static const std::optional<Compiler> found = find_compiler();
  return found;
}

std::vector<std::string> isa_flags(std::string_view isa) {
  if (isa == "avx512")
    return {"-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl",
            "-mavx2",    "-mfma",      "-mf16c",     "-mprefer-vector-width=512"};
  if (isa == "avx2") return {"-mavx2", "-mfma", "-mf16c"};
  return {};
}

// Runs a program and waits; what it printed comes back when it fails.
std::optional<std::string> failure_of(const std::vector<std::string>& command, const fs::path& log) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  const int failed = posix_spawn(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return fmt::format("cannot be started (error {})", failed);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return std::nullopt;
  std::string words = read_text_file(log);
  if (words.size() > 2000) words.resize(2000);
  return words.empty() ? "ended without a word" : words;
}

// A library from bytes: the loader wants a file, which needs no name.
void* load(std::string_view bytes) {
  const int file = ::memfd_create("systole-kernels", MFD_CLOEXEC);
  if (file < 0) return nullptr;
  std::size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t n = ::write(file, bytes.data() + written, bytes.size() - written);
    if (n <= 0) break;
    written += static_cast<std::size_t>(n);
  }
  void* const handle = written == bytes.size()
                           ? ::dlopen(fmt::format("/proc/self/fd/{}", file).c_str(), RTLD_NOW | RTLD_LOCAL)
                           : nullptr;
  ::close(file);
  return handle;
}

std::string compiled(const std::string& source, const std::vector<std::string>& flags) {
  const Scratch scratch;
  const fs::path text = scratch.path() / "kernels.c", library = scratch.path() / "kernels.so";
  write_file(text, std::as_bytes(std::span(source.data(), source.size())));
  std::vector<std::string> command = {compiler()->program.string()};
  command.insert(command.end(), flags.begin(), flags.end());
  for (const std::string& word : {std::string("-x"), std::string("c"), text.string(), std::string("-o"),
                                  library.string(), std::string("-lm")})
    command.push_back(word);
  if (const std::optional<std::string> words = failure_of(command, scratch.path() / "log"))
    throw Error(ErrorKind::kInternal, "cpu",
                fmt::format("{} refused a generated kernel: {}", compiler()->program.string(), *words));
  return read_text_file(library);
}

}  // namespace

Library::~Library() { ::dlclose(handle_); }

KernelFunction Library::find(const std::string& name) const {
  void* const symbol = ::dlsym(handle_, name.c_str());
  if (symbol == nullptr) throw Error(ErrorKind::kInternal, "cpu", "no such kernel", {}, name);
  return reinterpret_cast<KernelFunction>(symbol);
}

std::string_view instruction_set() {
  static const std::string chosen = [] {
    const std::string best = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                                     __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")
                                 ? "avx512"
                             : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? "avx2"
                                                                                               : "sse2";
    const std::optional<std::string> asked = env::text("SYSTOLE_ISA");
    if (!asked) return best;
    if (*asked != "sse2" && *asked != "avx2" && *asked != "avx512")
      throw Error(ErrorKind::kInvalidArgument, "SYSTOLE_ISA", "no such instruction set",
                  "sse2, avx2 or avx512", *asked);
    return *asked;
  }();
  return chosen;
}

std::string compiler_absence() {
  return compiler() ? std::string() : "no C compiler: set CC, or install clang-19 or gcc";
}

std::shared_ptr<const Library> compile_kernels(const std::string& source) {
  if (!compiler()) throw Error(ErrorKind::kUnsupported, "cpu", compiler_absence());
  std::vector<std::string> flags = {"-std=gnu11", "-O3", "-fPIC", "-shared", "-w"};
  for (std::string_view rest = codegen::math::kCFlags; !rest.empty();) {
    const std::size_t space = std::min(rest.find(' '), rest.size());
    flags.emplace_back(rest.substr(0, space));
    rest.remove_prefix(std::min(space + 1, rest.size()));
  }
  for (const std::string& flag : isa_flags(instruction_set())) flags.push_back(flag);
  runtime::CacheKey key("cpu");
  key.add(source).add(compiler()->identity);
  for (const std::string& flag : flags) key.add(flag);
  const std::optional<runtime::DiskCache> cache = runtime::disk_cache();
  if (cache)
    if (const std::optional<std::string> known = cache->find(key)) {
      if (void* const handle = load(*known)) return std::shared_ptr<const Library>(new Library(handle));
      cache->remove(key);
    }
  const std::string bytes = compiled(source, flags);
  void* const handle = load(bytes);
  if (handle == nullptr)
    throw Error(ErrorKind::kInternal, "cpu", fmt::format("compiled kernels do not load: {}", ::dlerror()));
  if (cache) cache->store(key, bytes);
  return std::shared_ptr<const Library>(new Library(handle));
}

}  // namespace systole::cpu
