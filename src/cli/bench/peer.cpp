#include "cli/bench/peer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "systole/base/error.h"

extern char** environ;

namespace systole::cli::bench {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kLongestLine = 1 << 20, kLongestQuote = 200;

[[noreturn]] void refused(const char* call, int code) {
  throw Error(ErrorKind::kIo, "--pairs", fmt::format("{}: {}", call, std::generic_category().message(code)));
}

Clock::time_point after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

std::pair<int, int> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) refused("pipe", errno);
  return {ends[0], ends[1]};
}

// In memory, and always written at its end: several processes of the peer may write to it.
int make_scratch_file() {
  const int descriptor = ::memfd_create("systole-peer", MFD_CLOEXEC);
  if (descriptor < 0) refused("memfd_create", errno);
  if (::fcntl(descriptor, F_SETFL, O_APPEND) != 0) {
    const int code = errno;
    ::close(descriptor);
    refused("fcntl", code);
  }
  return descriptor;
}

std::string in_quotes(std::string_view line) {
  return fmt::format("'{}{}'", line.substr(0, kLongestQuote), line.size() > kLongestQuote ? "…" : "");
}

}  // namespace

Peer::Peer(std::string command) : command_(std::move(command)) {
  std::signal(SIGPIPE, SIG_IGN);  // a peer that has ended shows by its output
  const auto [child_in, to] = make_pipe();
  const auto [from, child_out] = make_pipe();
  to_ = to;
  from_ = from;
  errors_ = make_scratch_file();

  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, child_in, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, child_out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, errors_, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t to_default;
  sigemptyset(&to_default);
  sigaddset(&to_default, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &to_default);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
  char shell[] = "sh", option[] = "-c";
  char* const arguments[] = {shell, option, command_.data(), nullptr};
  const int code = ::posix_spawn(&process_, "/bin/sh", &files, &attributes, arguments, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  ::close(child_in);
  ::close(child_out);
  if (code != 0) {
    process_ = -1;
    for (const int descriptor : {to_, from_, errors_}) ::close(descriptor);
    refused("cannot start /bin/sh", code);
  }
}

// A closed input ends a well-behaved peer; the others get a signal, and in the end one they cannot ignore.
// The process is waited for last: until then its number, which is the group's, belongs to nobody else.
Peer::~Peer() {
  ::close(to_);
  ::close(from_);
  const auto wait = [&](std::chrono::milliseconds most) {
    for (const Clock::time_point end = Clock::now() + most; !ended() && Clock::now() < end;)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  };
  wait(std::chrono::seconds(1));
  if (!ended()) ::kill(-process_, SIGTERM);
  wait(std::chrono::seconds(2));
  ::kill(-process_, SIGKILL);  // also what the shell may have left behind
  while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
  ::close(errors_);
}

bool Peer::ended() const {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
         info.si_pid != 0;
}

void Peer::wait_ready(double limit_s) {
  const Clock::time_point end = after(limit_s);
  for (;;) {
    const double left = std::chrono::duration<double>(end - Clock::now()).count();
    if (read_line(left, "#ready") == "#ready") return;
  }
}

nlohmann::json Peer::window(double limit_s) {
  const ssize_t ignored = ::write(to_, "\n", 1);  // a failure shows when the answer is read
  static_cast<void>(ignored);
  std::string line;
  do line = read_line(limit_s, "a result");
  while (line.empty() || line[0] == '#');
  const nlohmann::json result = nlohmann::json::parse(line, nullptr, false);
  if (!result.is_object() || !result.contains("metric") || !result["metric"].is_string() ||
      !result.contains("value"))
    throw Error(ErrorKind::kParse, "--pairs", "the peer printed no result",
                "a JSON line with metric and value", in_quotes(line));
  if (!result["value"].is_number() || !(result["value"].get<double>() > 0))
    throw Error(ErrorKind::kIo, "--pairs", "the peer reports no value", "a number above 0", in_quotes(line));
  return result;
}

std::string Peer::read_line(double limit_s, const char* awaited) {
  const Clock::time_point end = after(limit_s);
  for (;;) {
    if (const std::size_t newline = buffer_.find('\n'); newline != std::string::npos) {
      std::string line = buffer_.substr(0, newline);
      buffer_.erase(0, newline + 1);
      if (!line.empty()) last_line_ = line;
      return line;
    }
    if (buffer_.size() > kLongestLine) fail("printed a line without end");
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd poll{from_, POLLIN, 0};
    const int got = left > 0 ? ::poll(&poll, 1, static_cast<int>(std::min<long>(left + 1, 3'600'000))) : 0;
    if (got < 0 && errno != EINTR) refused("poll", errno);
    if (got == 0 && left <= 0) fail(fmt::format("did not print {} in time", awaited));
    if (got <= 0) continue;
    char bytes[4096];
    const ssize_t size = ::read(from_, bytes, sizeof(bytes));
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) fail(fmt::format("ended before it printed {}", awaited));
    buffer_.append(bytes, static_cast<std::size_t>(size));
  }
}

std::string Peer::last_words() const {
  char bytes[4096];
  const off_t size = ::lseek(errors_, 0, SEEK_END);
  const off_t start = std::max<off_t>(0, size - static_cast<off_t>(sizeof(bytes)));
  const ssize_t got = size > 0 ? ::pread(errors_, bytes, sizeof(bytes), start) : 0;
  std::string_view text(bytes, got > 0 ? static_cast<std::size_t>(got) : 0);
  while (text.ends_with('\n')) text.remove_suffix(1);
  text.remove_prefix(text.rfind('\n') + 1);  // npos + 1 is 0
  return std::string(text.empty() ? std::string_view(last_line_) : text);
}

void Peer::fail(const std::string& what) {
  const std::string words = last_words();
  throw Error(ErrorKind::kIo, "--pairs",
              fmt::format("the peer {}{}; its command was {}", what,
                          words.empty() ? "" : fmt::format("; it said last: {}", in_quotes(words)),
                          in_quotes(command_)));
}

}  // namespace systole::cli::bench
