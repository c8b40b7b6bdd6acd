#include "backend/pjrt/probe.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <exception>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "backend/pjrt/client.h"
#include "backend/pjrt/plugin.h"
#include "base/env.h"
#include "base/file.h"
#include "base/log.h"

extern char** environ;

namespace systole::pjrt {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::string_view kSuccess = "ok";
constexpr int kOutcome = 3;  // the descriptor the child writes to

[[noreturn]] void fail(const PluginSpec& spec, const std::string& what, const std::string& said = {}) {
  throw Error(ErrorKind::kUnsupported, label(spec),
              fmt::format("{} {} while it started in a process of its own{}", spec.library.string(), what,
                          said.empty() ? "" : "; it said: " + said));
}

// A file in memory, to be written by a child and read afterwards.
class Memory {
 public:
  explicit Memory(const PluginSpec& spec) : descriptor_(::memfd_create("systole-probe", MFD_CLOEXEC)) {
    if (descriptor_ < 0) throw Error(ErrorKind::kIo, label(spec), std::strerror(errno));
  }
  ~Memory() { ::close(descriptor_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  int descriptor() const { return descriptor_; }
  std::string content() const {
    const off_t size = ::lseek(descriptor_, 0, SEEK_END);
    const off_t wanted = std::min<off_t>(size, 1 << 16);  // the end is what matters
    std::string text(static_cast<std::size_t>(std::max<off_t>(wanted, 0)), '\0');
    const ssize_t n = ::pread(descriptor_, text.data(), text.size(), size - wanted);
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    return text;
  }

 private:
  int descriptor_;
};

// The last lines that mean something, for a message.
std::string last_words(const std::string& output) {
  std::vector<std::string> lines;
  std::istringstream in(output);
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) lines.push_back(line.substr(0, 300));
  std::string text;
  for (std::size_t i = lines.size() - std::min<std::size_t>(lines.size(), 3); i < lines.size(); ++i)
    text += (text.empty() ? "" : " / ") + lines[i];
  return text;
}

// Between fork and exec only async-signal-safe calls are made, so `arguments` is ready before.
pid_t start(const PluginSpec& spec, const ProbeOptions& options, const Memory& outcome,
            const Memory& output) {
  const std::string helper = options.helper.string(), library = spec.library.string(),
                    descriptor = std::to_string(kOutcome);
  std::vector<const char*> arguments = {helper.c_str(),  kProbeCommand,      spec.name.c_str(),
                                        library.c_str(), descriptor.c_str(), nullptr};
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  for (const int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGILL, SIGFPE, SIGTERM, SIGPIPE})
    ::signal(signal, SIG_DFL);
  const int nothing = ::open("/dev/null", O_RDWR);
  // All three at high numbers first: one of them may stand where another is to go.
  const int from = ::fcntl(nothing, F_DUPFD, 64), to = ::fcntl(output.descriptor(), F_DUPFD, 64),
            result = ::fcntl(outcome.descriptor(), F_DUPFD, 64);
  ::dup2(from, STDIN_FILENO);
  ::dup2(to, STDOUT_FILENO);
  ::dup2(to, STDERR_FILENO);
  ::dup2(result, kOutcome);
  if (!helper.empty()) {
    ::execv(helper.c_str(), const_cast<char* const*>(arguments.data()));
    ::_exit(127);
  }
  probe_here(spec, kOutcome);
}

// The status of the child, or nothing when it was still running at the limit and was killed.
bool wait_for(pid_t child, std::chrono::milliseconds limit, int& status) {
  const Clock::time_point end = Clock::now() + limit;
  for (std::chrono::microseconds pause{500};;
       pause = std::min(pause * 2, std::chrono::microseconds{10'000})) {
    const pid_t done = ::waitpid(child, &status, WNOHANG);
    if (done == child) return true;
    if (done < 0 && errno != EINTR) {  // the program ignores SIGCHLD: nobody knows the status
      status = 0;
      return true;
    }
    if (Clock::now() > end) break;
    std::this_thread::sleep_for(pause);
  }
  ::kill(-child, SIGKILL);
  ::kill(child, SIGKILL);
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return false;
}

// "ok", or the kind's number and the message.
void read_outcome(const PluginSpec& spec, const std::string& outcome, const std::string& said) {
  if (outcome == kSuccess) return;
  int kind = 0;
  const char* const end = outcome.data() + outcome.size();
  const auto [rest, code] = std::from_chars(outcome.data(), end, kind);
  if (code != std::errc() || rest == end) fail(spec, "left without an answer", said);
  throw Error(static_cast<ErrorKind>(kind), label(spec), std::string(rest + 1, end));
}

std::string one_line(const fs::path& file) {
  std::string line;
  std::ifstream in(file);
  std::getline(in, line);
  return line;
}

// Everything a plugin's start depends on, as far as it can be known.
std::string circumstances(const PluginSpec& spec) {
  struct stat info{};
  if (::stat(spec.library.c_str(), &info) != 0) return {};
  std::string text = fmt::format("systole {}\n{}\nsize {} modified {}.{:09}\nboot {}\n", SYSTOLE_VERSION,
                                 spec.library.string(), info.st_size, info.st_mtim.tv_sec,
                                 info.st_mtim.tv_nsec, one_line("/proc/sys/kernel/random/boot_id"));
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry)
    for (const char* prefix : {"XLA_", "TF_", "TPU_", "LIBTPU_", "CUDA_", "NVIDIA_", "PJRT_", "SYSTOLE_PJRT_",
                               "JAX_", "LD_", "CLOUD_TPU_"})
      if (std::string_view(*entry).starts_with(prefix)) variables.emplace_back(*entry);
  std::sort(variables.begin(), variables.end());
  for (const std::string& variable : variables) text += variable + "\n";
  return text;
}

fs::path memo_of(const std::string& text, const fs::path& cache) {
  std::uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return cache / "pjrt" / fmt::format("probe-{:016x}", hash);
}

bool is_remembered(const std::string& text, const fs::path& memo) try {
  return !text.empty() && read_text_file(memo) == text;
} catch (const Error&) {
  return false;
}

void remember(const std::string& text, const fs::path& memo) {
  try {
    std::error_code code;
    fs::create_directories(memo.parent_path(), code);
    write_file(memo, std::as_bytes(std::span(text)));
  } catch (const Error& error) {  // then the next process probes again
    log(LogLevel::debug, error.what());
  }
}

fs::path cache_folder() {
  if (const auto chosen = env::text("SYSTOLE_CACHE")) return *chosen;
  if (const auto user = env::text("XDG_CACHE_HOME")) return fs::path(*user) / "systole";
  if (const auto home = env::text("HOME")) return fs::path(*home) / ".cache" / "systole";
  return {};
}

// A new process starts with none of this one's threads, locks and device contexts, so it is preferred to a
// fork that goes on in the middle.
fs::path find_helper() {
  std::error_code code;
  const fs::path program = fs::read_symlink("/proc/self/exe", code);
  if (code) return {};
  if (program.filename() == "systole") return program;
  for (const char* beside : {"systole", "../systole", "../bin/systole"})
    if (const fs::path helper = (program.parent_path() / beside).lexically_normal();
        fs::is_regular_file(helper, code) && ::access(helper.c_str(), X_OK) == 0)
      return helper;
  return {};
}

}  // namespace

ProbeOptions default_probe_options() {
  ProbeOptions options;
  options.helper = find_helper();
  options.cache = cache_folder();
  if (const auto text = env::text("SYSTOLE_PJRT_TIMEOUT")) {
    double seconds = 0;
    const auto [end, code] = std::from_chars(text->data(), text->data() + text->size(), seconds);
    if (code != std::errc() || end != text->data() + text->size() || !(seconds > 0 && seconds < 1e6))
      throw Error(ErrorKind::kInvalidArgument, "SYSTOLE_PJRT_TIMEOUT", "not a time", "seconds above 0",
                  *text);
    options.limit = std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
  }
  return options;
}

void probe(const PluginSpec& spec, const ProbeOptions& options) {
  const std::string now = options.cache.empty() ? std::string() : circumstances(spec);
  const fs::path memo = memo_of(now, options.cache);
  if (is_remembered(now, memo)) return;
  const Memory outcome(spec), output(spec);
  log(LogLevel::info, fmt::format("{}: trying {} in a child process", label(spec), spec.library.string()));
  const pid_t child = start(spec, options, outcome, output);
  if (child < 0) throw Error(ErrorKind::kIo, label(spec), "cannot start a process", {}, std::strerror(errno));
  int status = 0;
  const bool in_time = wait_for(child, options.limit, status);
  const std::string said = last_words(output.content());
  if (!in_time)
    fail(spec, fmt::format("took more than {:g} s", static_cast<double>(options.limit.count()) / 1000), said);
  if (WIFSIGNALED(status)) fail(spec, fmt::format("crashed ({})", ::strsignal(WTERMSIG(status))), said);
  if (outcome.content().empty() && WIFEXITED(status) && WEXITSTATUS(status) != 0)
    fail(spec, fmt::format("ended the process with code {}", WEXITSTATUS(status)), said);
  read_outcome(spec, outcome.content(), said);
  if (!now.empty()) remember(now, memo);
}

void probe_here(const PluginSpec& spec, int descriptor) {
  std::string outcome(kSuccess);
  try {
    const Plugin plugin(spec);
    const ClientHandle client = create_client(plugin.api(), spec.name);
  } catch (const Error& error) {
    outcome = fmt::format("{} {}", static_cast<int>(error.kind()), error.message());
    if (!error.expected().empty()) outcome += ", expected " + error.expected();
    if (!error.got().empty()) outcome += ", got " + error.got();
  } catch (const std::exception& error) {
    outcome = fmt::format("{} {}", static_cast<int>(ErrorKind::kUnsupported), error.what());
  }
  const bool written =
      ::write(descriptor, outcome.data(), outcome.size()) == static_cast<ssize_t>(outcome.size());
  // No destructors of the plugin's: a crash there would hide the answer.
  ::_exit(written ? 0 : 1);
}

}  // namespace systole::pjrt
