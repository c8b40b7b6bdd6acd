#include "data/fetch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/nearest.h"
#include "systole/base/error.h"

extern char** environ;

namespace systole::data {

namespace {

namespace fs = std::filesystem;

// curl's exit codes.
constexpr int kRefused = 22, kNoRanges = 33, kBadRange = 36;
// What may be gone at the next attempt: a transfer that broke off or stood still.
constexpr int kBroken[] = {16, 18, 28, 52, 55, 56, 92};
// Names and connections: no reason to ask again at once, except where bytes have come before.
constexpr int kUnreachable[] = {5, 6, 7, 35};

struct Ended {
  int code = 0;
  std::string said;
};

Ended run_curl(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "curl");
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw Error(ErrorKind::kIo, "curl", std::generic_category().message(errno));
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
  pid_t child = -1;
  const int failed = ::posix_spawnp(&child, "curl", &actions, nullptr, pointers.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  Ended ended;
  char part[4096];
  for (;;) {
    const ssize_t n = failed != 0 ? 0 : ::read(ends[0], part, sizeof(part));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    if (ended.said.size() < sizeof(part)) ended.said.append(part, static_cast<std::size_t>(n));
  }
  ::close(ends[0]);
  if (failed != 0)
    throw Error(failed == ENOENT ? ErrorKind::kUnsupported : ErrorKind::kIo, "curl",
                failed == ENOENT ? "downloads need the command curl, which is not installed"
                                 : std::generic_category().message(failed));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  while (!ended.said.empty() && std::strchr("\r\n ", ended.said.back()) != nullptr) ended.said.pop_back();
  return ended;
}

std::uintmax_t size_of_file(const fs::path& file) {
  std::error_code code;
  const std::uintmax_t size = fs::file_size(file, code);
  return code ? 0 : size;
}

bool is_right(const fs::path& file, const Download& wanted) {
  std::error_code code;
  return fs::is_regular_file(file, code) && io::file_digest(wanted.kind, file) == wanted.digest;
}

bool may_pass(int code, bool began) {
  return std::ranges::count(kBroken, code) != 0 || (began && std::ranges::count(kUnreachable, code) != 0);
}

void remove_file(const fs::path& file) {
  std::error_code code;
  fs::remove(file, code);
}

}  // namespace

const std::vector<KnownSet>& known_sets() {
  using io::DigestKind;
  static const std::vector<KnownSet> sets = {
      {"mnist",
       "https://ossci-datasets.s3.amazonaws.com/mnist/",
       "CC BY-SA 3.0, as usually stated",
       {{"train-images-idx3-ubyte.gz", DigestKind::sha256,
         "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"},
        {"train-labels-idx1-ubyte.gz", DigestKind::sha256,
         "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"},
        {"t10k-images-idx3-ubyte.gz", DigestKind::sha256,
         "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"},
        {"t10k-labels-idx1-ubyte.gz", DigestKind::sha256,
         "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"}}},
      {"fashion",
       "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
       "MIT",
       {{"train-images-idx3-ubyte.gz", DigestKind::md5, "8d4fb7e6c68d591d4c3dfef9ec88bf0d"},
        {"train-labels-idx1-ubyte.gz", DigestKind::md5, "25c81989df183df01b3e8a0aad5dffbe"},
        {"t10k-images-idx3-ubyte.gz", DigestKind::md5, "bef4ecab320f06d8554ea6380940ec79"},
        {"t10k-labels-idx1-ubyte.gz", DigestKind::md5, "bb300cfdad3c16e7a12a480ee83cd310"}}},
      {"cifar10",
       "https://www.cs.toronto.edu/~kriz/",
       "none stated; cite Krizhevsky 2009",
       {{"cifar-10-binary.tar.gz", DigestKind::md5, "c32a1d4ab5d03f1284b67883e8d87530"}}},
  };
  return sets;
}

const KnownSet& known_set(std::string_view name) {
  std::vector<std::string_view> names;
  for (const KnownSet& set : known_sets()) {
    if (set.name == name) return set;
    names.push_back(set.name);
  }
  throw unknown_name("data get", "data set", name, names);
}

bool fetch(const std::string& address, const fs::path& target, const Download& wanted,
           const FetchOptions& options) {
  const auto report = [&](const std::string& line) {
    if (options.report) options.report(line);
  };
  if (is_right(target, wanted)) return false;
  fs::path part = target;
  part += ".part";
  bool afresh = false;  // whether what was there has been given up once
  Ended ended;
  for (int attempt = 0; attempt < options.attempts;) {
    const std::uintmax_t before = size_of_file(part);
    // All of it may be there already: a server has nothing to add, and says so with an error.
    if (before != 0 && is_right(part, wanted)) break;
    report(before == 0 ? fmt::format("fetching {}", address)
                       : fmt::format("fetching {} from byte {}", address, before));
    ended = run_curl({"--fail",
                      "--location",
                      "--silent",
                      "--show-error",
                      "--connect-timeout",
                      "20",
                      "--speed-limit",
                      "1",
                      "--speed-time",
                      "60",
                      "--proto",
                      "=http,https,file",
                      "--proto-redir",
                      "=http,https",
                      "--continue-at",
                      "-",
                      "--output",
                      part.string(),
                      "--url",
                      address});
    // A part that is longer than the file, or of another version of it, ends as a wrong file or is refused.
    const bool cannot_continue =
        before != 0 &&
        (ended.code == 0 ? !is_right(part, wanted)
                         : ended.code == kRefused || ended.code == kNoRanges || ended.code == kBadRange);
    if (ended.code == 0 && !cannot_continue) break;
    if (cannot_continue && !afresh) {
      report("what was there cannot be continued; starting again");
      remove_file(part);
      afresh = true;
      continue;
    }
    if (ended.code == 0 || !may_pass(ended.code, before != 0)) break;  // asking again changes nothing
    attempt = size_of_file(part) > before ? 0 : attempt + 1;
    report(fmt::format("{}", ended.said));
  }
  if (size_of_file(part) == 0 || (ended.code != 0 && !is_right(part, wanted)))
    throw Error(ErrorKind::kIo, address, "cannot be fetched: " + ended.said, {},
                fmt::format("curl's exit code {}", ended.code));
  if (!is_right(part, wanted)) {
    const std::string got = io::file_digest(wanted.kind, part);
    remove_file(part);
    throw Error(ErrorKind::kParse, address, "the file is not the one that is known", wanted.digest, got);
  }
  std::error_code code;
  fs::rename(part, target, code);
  if (code) throw Error(ErrorKind::kIo, target.string(), "cannot replace the file: " + code.message());
  return true;
}

}  // namespace systole::data
