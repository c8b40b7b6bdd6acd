#include "backend/cpu/jit_compilers.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <string_view>

#include "backend/cpu/clang_module.h"
#include "backend/packages.h"
#include "base/env.h"
#include "base/file.h"
#include "systole/base/error.h"

extern char** environ;

namespace systole::cpu {

namespace {

namespace fs = std::filesystem;

constexpr const char *kClangPath = "SYSTOLE_CLANG_PATH", *kCc = "CC";
constexpr std::string_view kFile = "libsystole_clang.so";

// A temporary folder that goes with its owner.
class Scratch {
 public:
  Scratch() {
    std::error_code error;
    const fs::path parent = fs::temp_directory_path(error);
    if (error) throw Error(ErrorKind::kIo, "TMPDIR", fmt::format("names no folder: {}", error.message()));
    std::string pattern = (parent / ("systole-" + std::string(6, 'X'))).string();  // mkdtemp's own form
    if (::mkdtemp(pattern.data()) == nullptr)
      throw Error(ErrorKind::kIo, pattern,
                  fmt::format("cannot make a folder for the compiler: {}", std::strerror(errno)));
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

std::string shortened(std::string words) {
  if (words.size() > 2000) words.resize(2000);
  return words.empty() ? "ended without a word" : words;
}

[[noreturn]] void refuse(const std::string& compiler, std::string words) {
  throw Error(ErrorKind::kInternal, "cpu",
              fmt::format("{} refused a generated kernel: {}", compiler, shortened(std::move(words))));
}

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
  if (failed != 0)
    throw Error(ErrorKind::kUnsupported, command[0], fmt::format("cannot be started (error {})", failed));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return std::nullopt;
  return read_text_file(log);
}

class CompilerCommand final : public Compiler {
 public:
  CompilerCommand(std::vector<std::string> words, std::string identity)
      : words_(std::move(words)), identity_(std::move(identity)) {}
  const std::string& name() const override { return words_[0]; }
  const std::string& identity() const override { return identity_; }

  std::string compile(const std::string& source, const std::vector<std::string>& flags) const override {
    const Scratch scratch;
    const fs::path text = scratch.path() / "kernels.c", library = scratch.path() / "kernels.so";
    write_file(text, std::as_bytes(std::span(source.data(), source.size())));
    std::vector<std::string> command = words_;
    command.insert(command.end(), flags.begin(), flags.end());
    for (const std::string& word : {std::string("-shared"), std::string("-x"), std::string("c"),
                                    text.string(), std::string("-o"), library.string(), std::string("-lm")})
      command.push_back(word);
    if (std::optional<std::string> words = failure_of(command, scratch.path() / "log"))
      refuse(name(), *std::move(words));
    return read_text_file(library);
  }

 private:
  const std::vector<std::string> words_;  // the program and what CC says after it
  const std::string identity_;
};

// Null when there is no such program. `command` may have arguments after the program.
std::unique_ptr<CompilerCommand> found_command(const std::string& command, std::set<fs::path>& known) {
  std::istringstream text(command);
  std::vector<std::string> words{std::istream_iterator<std::string>(text), {}};
  const std::optional<fs::path> program = words.empty() ? std::nullopt : on_path(words[0]);
  if (!program) return nullptr;
  std::error_code error;
  const fs::path real = fs::canonical(*program, error);
  if (error || (!known.insert(*program).second && words.size() == 1)) return nullptr;
  words[0] = program->string();
  return std::make_unique<CompilerCommand>(
      std::move(words), fmt::format("{} {} {} {}", command, real.string(), fs::file_size(real, error),
                                    fs::last_write_time(real, error).time_since_epoch().count()));
}

// The module once loaded, for good: LLVM does not survive being unloaded.
struct LoadedClang {
  SystoleClangCompile compile;
  SystoleClangFree free;
};

LoadedClang load_clang(const fs::path& file) {
  const auto unusable = [&](std::string message, std::string expected = {}, std::string got = {}) -> Error {
    return {ErrorKind::kUnsupported, file.string(), std::move(message), std::move(expected), std::move(got)};
  };
  void* const handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const words = ::dlerror();
    throw unusable(fmt::format("does not load: {}", words != nullptr ? words : "no reason given"));
  }
  const auto build = reinterpret_cast<SystoleClangBuild>(::dlsym(handle, "systole_clang_build"));
  const auto compile = reinterpret_cast<SystoleClangCompile>(::dlsym(handle, "systole_clang_compile"));
  const auto free = reinterpret_cast<SystoleClangFree>(::dlsym(handle, "systole_clang_free"));
  if (build == nullptr || compile == nullptr || free == nullptr) throw unusable("is not the compiler module");
  if (std::string_view(build()) != SYSTOLE_CLANG_BUILD)
    throw unusable("is of another build", SYSTOLE_CLANG_BUILD, build());
  return {compile, free};
}

class ClangModule final : public Compiler {
 public:
  explicit ClangModule(fs::path file) : file_(std::move(file)) {}
  const std::string& name() const override { return name_; }
  const std::string& identity() const override { return identity_; }

  std::string compile(const std::string& source, const std::vector<std::string>& flags) const override {
    {
      const std::lock_guard lock(mutex_);
      if (!loaded_) loaded_ = load_clang(file_);
    }
    std::vector<const char*> words;
    for (const std::string& flag : flags) words.push_back(flag.c_str());
    const SystoleClangResult result =
        loaded_->compile(source.data(), source.size(), words.data(), words.size());
    std::string bytes(result.bytes != nullptr ? result.bytes : "", result.size);
    loaded_->free(result.bytes);
    if (result.code == kSystoleClangRefused) refuse(name_, std::move(bytes));
    if (result.code != kSystoleClangDone)
      throw Error(ErrorKind::kUnsupported, name_, shortened(std::move(bytes)));
    return bytes;
  }

 private:
  const fs::path file_;
  const std::string name_ = "clang in process", identity_ = SYSTOLE_CLANG_BUILD;
  mutable std::mutex mutex_;
  mutable std::optional<LoadedClang> loaded_;  // once there, it stays as it is
};

}  // namespace

std::unique_ptr<Compiler> clang_module() {
  std::error_code error;
  std::vector<fs::path> places;
  if (const std::optional<std::string> chosen = env::text(kClangPath)) {
    places = {*chosen, fs::path(*chosen) / kFile};
  } else if (const fs::path folder = runtime::own_file().parent_path(); !folder.empty()) {
    // Installed, it is with the libraries; in a build folder, at the top.
    for (const char* relative : {".", "../" SYSTOLE_LIBDIR, "..", "../.."})
      places.push_back(folder / relative / kFile);
  }
  for (const fs::path& place : places)
    if (fs::is_regular_file(place, error)) return std::make_unique<ClangModule>(place);
  return nullptr;
}

std::vector<std::unique_ptr<Compiler>> compiler_commands() {
  std::vector<std::string> commands = {"clang-19", "clang", "gcc", "cc"};
  if (const std::optional<std::string> chosen = env::text(kCc)) commands.insert(commands.begin(), *chosen);
  std::vector<std::unique_ptr<Compiler>> found;
  std::set<fs::path> known;
  for (const std::string& command : commands)
    if (std::unique_ptr<Compiler> compiler = found_command(command, known))
      found.push_back(std::move(compiler));
  return found;
}

std::vector<VainVariable> vain_variables() {
  std::vector<VainVariable> vain;
  if (const std::optional<std::string> path = env::text(kClangPath); path && clang_module() == nullptr)
    vain.push_back({fmt::format("{}={}", kClangPath, *path), fmt::format("there is no {}", kFile)});
  std::set<fs::path> known;
  if (const std::optional<std::string> command = env::text(kCc); command && !found_command(*command, known))
    vain.push_back({fmt::format("{}={}", kCc, *command), "there is no such program"});
  return vain;
}

void* load_library(const std::string& bytes) {
  const int file = ::memfd_create("systole-kernels", MFD_CLOEXEC);
  void* handle = nullptr;
  if (file >= 0) {
    std::size_t written = 0;
    while (written < bytes.size()) {
      const ssize_t n = ::write(file, bytes.data() + written, bytes.size() - written);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      written += static_cast<std::size_t>(n);
    }
    // The loader takes a path it has seen for the library it has, and descriptors' numbers come again: a
    // running number is written into the path by dots that mean nothing.
    static std::atomic<std::uint32_t> loads{0};
    std::string path = "/proc/self/fd";
    for (std::uint32_t rest = ++loads; rest != 0; rest >>= 1) path += (rest & 1) != 0 ? "/." : "/";
    if (written == bytes.size())
      handle = ::dlopen(fmt::format("{}/{}", path, file).c_str(), RTLD_NOW | RTLD_LOCAL);
    ::close(file);
  }
  if (handle != nullptr) return handle;
  try {  // memory files may not be executable here
    const Scratch scratch;
    const fs::path library = scratch.path() / "kernels.so";
    write_file(library, std::as_bytes(std::span(bytes.data(), bytes.size())));
    return ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  } catch (const Error&) {
    return nullptr;
  }
}

}  // namespace systole::cpu
