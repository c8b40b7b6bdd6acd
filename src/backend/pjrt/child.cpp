#include "backend/pjrt/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
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

#include "systole/base/error.h"

extern char** environ;

namespace systole::pjrt {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

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
  const int nothing = ::open("/dev/null", O_RDWR);
  // All at high numbers first: one of them may stand where another is to go.
  const int from = ::fcntl(nothing, F_DUPFD, 64), to = ::fcntl(output.descriptor(), F_DUPFD, 64),
            given = ::fcntl(question.descriptor(), F_DUPFD, 64),
            result = ::fcntl(answer.descriptor(), F_DUPFD, 64);
  ::dup2(from, STDIN_FILENO);
  ::dup2(to, STDOUT_FILENO);
  ::dup2(to, STDERR_FILENO);
  ::dup2(result, kChildAnswer);
  ::dup2(given, kChildQuestion);
  environ = variable_list.data();
  if (!helper.empty()) {
    ::execv(helper.c_str(), argument_list.data());
    ::_exit(127);
  }
  work.here();
  ::_exit(1);
}

// The status of the child; nothing when it was still running at the limit and was killed.
std::optional<int> wait_for(pid_t child, std::chrono::milliseconds limit) {
  int status = 0;
  const Clock::time_point end = Clock::now() + limit;
  for (std::chrono::microseconds pause{500};;
       pause = std::min(pause * 2, std::chrono::microseconds{10'000})) {
    const pid_t done = ::waitpid(child, &status, WNOHANG);
    if (done == child) return status;
    if (done < 0 && errno != EINTR) return 0;  // the program ignores SIGCHLD: nobody knows the status
    if (Clock::now() > end) break;
    std::this_thread::sleep_for(pause);
  }
  ::kill(-child, SIGKILL);
  ::kill(child, SIGKILL);
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return std::nullopt;
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
  ChildResult result{read_all(answer.descriptor()), last_words(read_all(output.descriptor())), {}};
  if (!status)
    result.failure = fmt::format("took more than {:g} s", static_cast<double>(work.limit.count()) / 1000);
  else if (WIFSIGNALED(*status))
    result.failure = fmt::format("crashed ({})", ::strsignal(WTERMSIG(*status)));
  else if (result.answer.empty() && WIFEXITED(*status) && WEXITSTATUS(*status) != 0)
    result.failure = fmt::format("ended the process with code {}", WEXITSTATUS(*status));
  else if (result.answer.empty())
    result.failure = "left without an answer";
  return result;
}

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

}  // namespace systole::pjrt
