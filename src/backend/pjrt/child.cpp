#include "backend/pjrt/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <optional>
#include <sstream>
#include <string_view>
#include <thread>

#include "backend/packages.h"
#include "base/env.h"
#include "systole/base/error.h"

extern char** environ;

namespace systole::pjrt {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kNoDescriptors = 126, kNoProgram = 127;  // how a child ends that could not become the helper
constexpr std::chrono::seconds kLongestDeath{2};       // of a killed child that the kernel still holds
constexpr std::size_t kLongestOutput = 64 << 10;       // what of it is read

bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(descriptor, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

// A file in memory that one process writes and the other reads.
class Memory {
 public:
  explicit Memory(const std::string& where) : descriptor_(::memfd_create("systole-child", MFD_CLOEXEC)) {
    if (descriptor_ < 0) throw Error(ErrorKind::kIo, where, std::strerror(errno));
  }
  ~Memory() { ::close(descriptor_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

// The last lines that mean something.
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

// This process's variables and those of `more` that it lacks.
std::vector<std::string> environment_with(const std::vector<std::string>& more) {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) entries.emplace_back(*entry);
  for (const std::string& variable : more) {
    const std::string name = variable.substr(0, variable.find('=') + 1);
    const auto has = [&](const std::string& entry) { return entry.starts_with(name); };
    if (std::none_of(entries.begin(), entries.end(), has)) entries.push_back(variable);
  }
  return entries;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

// Between fork and exec only async-signal-safe calls are made, so all lists are ready before.
pid_t start(const ChildWork& work, const Memory& question, const Memory& answer, const Memory& output) {
  std::vector<std::string> arguments = work.arguments, variables = environment_with(work.variables);
  std::string helper = work.helper.string();
  arguments.insert(arguments.begin(), helper);
  const std::vector<char*> argument_list = pointers(arguments);
  std::vector<char*> variable_list = pointers(variables);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  for (const int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGILL, SIGFPE, SIGTERM, SIGPIPE})
    ::signal(signal, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  // All above the numbers they go to first: one of them may stand where another is to go.
  const int nothing = ::open("/dev/null", O_RDWR);
  const int from = ::fcntl(nothing, F_DUPFD, kChildQuestion + 1),
            to = ::fcntl(output.descriptor(), F_DUPFD, kChildQuestion + 1),
            given = ::fcntl(question.descriptor(), F_DUPFD, kChildQuestion + 1),
            result = ::fcntl(answer.descriptor(), F_DUPFD, kChildQuestion + 1);
  if (from < 0 || to < 0 || given < 0 || result < 0 || ::dup2(from, STDIN_FILENO) < 0 ||
      ::dup2(to, STDOUT_FILENO) < 0 || ::dup2(to, STDERR_FILENO) < 0 || ::dup2(result, kChildAnswer) < 0 ||
      ::dup2(given, kChildQuestion) < 0)
    ::_exit(kNoDescriptors);
  for (const int descriptor : {nothing, from, to, given, result})
    if (descriptor > kChildQuestion) ::close(descriptor);
  environ = variable_list.data();
  if (!helper.empty()) {
    ::execv(helper.c_str(), argument_list.data());
    ::_exit(kNoProgram);
  }
  work.here();
  ::_exit(1);
}

// The status of the child; nothing when it is still running at the end.
std::optional<int> wait_until(pid_t child, Clock::time_point end) {
  int status = 0;
  for (std::chrono::microseconds pause{500};;
       pause = std::min(pause * 2, std::chrono::microseconds{10'000})) {
    const pid_t done = ::waitpid(child, &status, WNOHANG);
    if (done == child) return status;
    if (done < 0 && errno != EINTR) return 0;  // the program ignores SIGCHLD: nobody knows the status
    if (Clock::now() > end) return std::nullopt;
    std::this_thread::sleep_for(pause);
  }
}

// The same; one that was still running at the limit is killed.
std::optional<int> wait_for(pid_t child, std::chrono::milliseconds limit) {
  if (const std::optional<int> status = wait_until(child, Clock::now() + limit)) return status;
  ::kill(-child, SIGKILL);
  ::kill(child, SIGKILL);
  // A driver may hold it for as long as it likes.
  (void)wait_until(child, Clock::now() + kLongestDeath);
  return std::nullopt;
}

// The end of what a child has written.
std::string read_end(int descriptor) {
  struct stat info{};
  if (::fstat(descriptor, &info) != 0) return {};
  const auto size = static_cast<std::size_t>(info.st_size);
  std::string text(std::min(size, kLongestOutput), '\0');
  const ssize_t n = ::pread(descriptor, text.data(), text.size(), static_cast<off_t>(size - text.size()));
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  return text;
}

bool is_unstarted(const ChildWork& work, int code) {
  return code == kNoDescriptors || (code == kNoProgram && !work.helper.empty());
}

bool is_program(const fs::path& file) {
  std::error_code code;
  return fs::is_regular_file(file, code) && ::access(file.c_str(), X_OK) == 0;
}

}  // namespace

std::string read_all(int descriptor) {
  std::string text;
  for (;;) {
    const std::size_t had = text.size();
    text.resize(had + (1 << 20));
    const ssize_t n = ::pread(descriptor, text.data() + had, text.size() - had, static_cast<off_t>(had));
    text.resize(had + static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return text;
  }
}

// No destructors of a plugin's: a crash there would hide the answer.
void answer_and_leave(const std::string& answer, int descriptor) {
  ::_exit(write_all(descriptor, answer) ? 0 : 1);
}

ChildResult run_in_child(const ChildWork& work, const std::string& where) {
  const Memory question(where), answer(where), output(where);
  if (!write_all(question.descriptor(), work.question))
    throw Error(ErrorKind::kIo, where, "cannot hand work to a process", {}, std::strerror(errno));
  const pid_t child = start(work, question, answer, output);
  if (child < 0) throw Error(ErrorKind::kIo, where, "cannot start a process", {}, std::strerror(errno));
  const std::optional<int> status = wait_for(child, work.limit);
  ChildResult result{read_all(answer.descriptor()), last_words(read_end(output.descriptor())), {}};
  if (!status)
    result.failure = fmt::format("took more than {:g} s", static_cast<double>(work.limit.count()) / 1000);
  else if (WIFSIGNALED(*status))
    result.failure = fmt::format("crashed ({})", ::strsignal(WTERMSIG(*status)));
  else if (result.answer.empty() && WIFEXITED(*status) && is_unstarted(work, WEXITSTATUS(*status)))
    throw Error(ErrorKind::kIo, where,
                fmt::format("cannot start {}: {}", work.helper.empty() ? "a process" : work.helper.string(),
                            WEXITSTATUS(*status) == kNoProgram ? "it cannot be run" : "too few descriptors"));
  else if (result.answer.empty() && WIFEXITED(*status) && WEXITSTATUS(*status) != 0)
    result.failure = fmt::format("ended the process with code {}", WEXITSTATUS(*status));
  else if (result.answer.empty())
    result.failure = "left without an answer";
  return result;
}

fs::path find_helper(const fs::path& program, const fs::path& library, const std::string& search) {
  if (program.filename() == "systole") return program;
  std::vector<fs::path> places;
  for (const char* beside : {"systole", "../systole", "../bin/systole"})
    places.push_back(program.parent_path() / beside);
  for (const char* beside : {"../bin/systole", "../../bin/systole"})  // lib, or lib/MACHINE
    places.push_back(library.parent_path() / beside);
  std::istringstream folders(search);
  for (std::string folder; std::getline(folders, folder, ':');)
    places.push_back(fs::path(folder) / "systole");
  for (const fs::path& place : places)
    if (place.is_absolute() && is_program(place.lexically_normal())) return place.lexically_normal();
  return {};
}

fs::path find_helper() {
  std::error_code code;
  const fs::path program = fs::read_symlink("/proc/self/exe", code);
  return find_helper(program, runtime::own_file(), env::text("PATH").value_or(""));
}

}  // namespace systole::pjrt
