#include "cli/probe.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

namespace systole::cli {

namespace {

// In the child: reports through the pipe and never returns. _exit, because the parent's buffers are not ours
// to flush.
[[noreturn]] void load_and_report(const std::string& library, const std::string& symbol, int pipe,
                                  int seconds) {
  ::alarm(static_cast<unsigned>(seconds));
  std::signal(SIGALRM, SIG_DFL);
  // What a library prints while loading is not the answer.
  if (const int nowhere = ::open("/dev/null", O_WRONLY); nowhere >= 0) {
    ::dup2(nowhere, STDOUT_FILENO);
    ::dup2(nowhere, STDERR_FILENO);
  }
  std::string problem;
  void* const handle = ::dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr || (!symbol.empty() && ::dlsym(handle, symbol.c_str()) == nullptr)) {
    const char* const text = ::dlerror();
    problem = text != nullptr ? text : "unknown reason";
  }
  if (!problem.empty()) (void)!::write(pipe, problem.data(), problem.size());
  ::_exit(problem.empty() ? 0 : 1);
}

}  // namespace

Probe probe_library(const std::string& library, const std::string& symbol, int seconds) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {false, std::strerror(errno)};
  const pid_t child = ::fork();
  if (child == 0) load_and_report(library, symbol, ends[1], seconds);
  ::close(ends[1]);
  Probe probe;
  char part[512];
  ssize_t n;
  while (child > 0 && ((n = ::read(ends[0], part, sizeof(part))) > 0 || (n < 0 && errno == EINTR)))
    if (n > 0) probe.detail.append(part, static_cast<std::size_t>(n));
  ::close(ends[0]);
  int status = 0;
  if (child < 0) return {false, "cannot start a process"};
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status))
    return {false, WTERMSIG(status) == SIGALRM
                       ? fmt::format("loading it took more than {} seconds", seconds)
                       : fmt::format("loading it crashed ({})", ::strsignal(WTERMSIG(status)))};
  probe.ok = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return probe;
}

}  // namespace systole::cli
