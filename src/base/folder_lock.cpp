#include "base/folder_lock.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <list>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/lasting.h"
#include "base/log.h"
#include "systole/base/error.h"

namespace systole {

namespace fs = std::filesystem;

// The process's lock of one folder, which its FolderLocks share.
struct FolderLock::Held {
  int descriptor;  // -1 in the child of a fork
  dev_t device;
  ino_t inode;
  int users;
  bool has_run;
};

namespace {

struct Locks {
  std::mutex mutex;
  std::list<FolderLock::Held> all;
};

Locks& locks() {
  static Locks& instance = lasting<Locks>();
  return instance;
}

// A child that kept the descriptor would keep the lock when its parent is killed.
void close_in_children() {
  static const bool registered = [] {
    ::pthread_atfork([] { locks().mutex.lock(); }, [] { locks().mutex.unlock(); },
                     [] {
                       for (FolderLock::Held& held : locks().all)
                         if (held.descriptor >= 0) ::close(std::exchange(held.descriptor, -1));
                       locks().mutex.unlock();
                     });
    return true;
  }();
  static_cast<void>(registered);
}

std::string message_of(int code) { return std::generic_category().message(code); }

std::string own_name() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return "process " + std::to_string(::getpid()) + " on host " +
         (host[0] == '\0' ? "unknown" : std::string(host.data()));
}

// The holder as the lock file names it. What stands in a file reaches a terminal only as plain text.
std::string name_in(int descriptor) {
  std::array<char, 300> text;
  const ssize_t n = ::pread(descriptor, text.data(), text.size(), 0);
  std::string name;
  for (ssize_t i = 0; i < n && text[static_cast<std::size_t>(i)] != '\n'; ++i) {
    const char c = text[static_cast<std::size_t>(i)];
    name += c < ' ' || c > '~' ? '?' : c;
  }
  return name;
}

// 0, or the reason why not.
int try_flock(int descriptor, int operation) {
  for (;;) {
    if (::flock(descriptor, operation | LOCK_NB) == 0) return 0;
    if (errno != EINTR) return errno;
  }
}

int open_lock_file(const fs::path& file, int flags, struct stat& info) {
  // Neither a link nor a pipe may stand there: the one leads elsewhere, the other blocks.
  const int descriptor = ::open(file.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0666);
  if (descriptor < 0) return -1;
  if (::fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode)) return descriptor;
  ::close(descriptor);
  errno = EINVAL;
  return -1;
}

Error busy(const fs::path& folder, const std::string& holder, std::string_view advice) {
  return {ErrorKind::kIo, folder.string(),
          "another training or profile writes there: " +
              (holder.empty() ? "a process that does not say its name" : holder) +
              "; wait until it ends, or use " + std::string(advice)};
}

}  // namespace

FolderLock::FolderLock(const fs::path& folder, Kind kind, std::string_view advice) : kind_(kind) {
  close_in_children();
  const fs::path file = folder / kFile;
  // Somebody who only asks for the holder has the lock for a moment.
  constexpr int kTries = 10;
  constexpr std::chrono::milliseconds kPause(10);
  for (int attempt = 1;; ++attempt) {
    std::string trouble;
    {
      // A fork() while the descriptor is open but not listed would leave it to the child.
      const std::lock_guard guard(locks().mutex);
      struct stat info;
      const int descriptor = open_lock_file(file, O_RDWR | O_CREAT, info);
      if (descriptor < 0)
        throw Error(errno == ENOENT ? ErrorKind::kNotFound : ErrorKind::kIo, file.string(),
                    "cannot make the lock file: " + message_of(errno));
      for (Held& held : locks().all) {
        if (held.descriptor < 0 || held.device != info.st_dev || held.inode != info.st_ino) continue;
        ::close(descriptor);
        if (kind == Kind::run && held.has_run) throw busy(folder, own_name() + " (this one)", advice);
        ++held.users;
        held.has_run = held.has_run || kind == Kind::run;
        held_ = &held;
        return;
      }
      const int refused = try_flock(descriptor, LOCK_EX);
      if (refused == EWOULDBLOCK) {
        const std::string holder = name_in(descriptor);
        ::close(descriptor);
        if (attempt == kTries) throw busy(folder, holder, advice);
      } else {
        if (refused != 0) trouble = message_of(refused);
        const std::string text = own_name() + "\n";
        // Without its text the lock still holds.
        if (::ftruncate(descriptor, 0) == 0) (void)!::pwrite(descriptor, text.data(), text.size(), 0);
        held_ = &locks().all.emplace_back(Held{descriptor, info.st_dev, info.st_ino, 1, kind == Kind::run});
      }
    }
    if (held_ != nullptr) {
      if (!trouble.empty())
        log(LogLevel::warn, folder.string() + ": the file system has no locks (" + trouble +
                                "); see to it that no other training writes to the folder");
      return;
    }
    std::this_thread::sleep_for(kPause);
  }
}

void FolderLock::release() noexcept {
  if (held_ == nullptr) return;
  const std::lock_guard guard(locks().mutex);
  Held& held = *std::exchange(held_, nullptr);
  if (kind_ == Kind::run) held.has_run = false;
  if (--held.users > 0) return;
  if (held.descriptor >= 0) {
    (void)!::ftruncate(held.descriptor, 0);
    ::close(held.descriptor);
  }
  locks().all.remove_if([&](const Held& one) { return &one == &held; });
}

FolderLock::~FolderLock() { release(); }

FolderLock::FolderLock(FolderLock&& other) noexcept
    : held_(std::exchange(other.held_, nullptr)), kind_(other.kind_) {}

FolderLock& FolderLock::operator=(FolderLock&& other) noexcept {
  if (this == &other) return *this;
  release();
  held_ = std::exchange(other.held_, nullptr);
  kind_ = other.kind_;
  return *this;
}

bool FolderLock::is_held() const {
  if (held_ == nullptr) return false;
  const std::lock_guard guard(locks().mutex);
  return held_->descriptor >= 0;
}

std::string holder_of(const fs::path& folder) {
  const std::lock_guard guard(locks().mutex);  // as above: a fork() must not get the descriptor
  struct stat info;
  const int descriptor = open_lock_file(folder / FolderLock::kFile, O_RDONLY, info);
  if (descriptor < 0) return {};
  std::string holder;
  if (try_flock(descriptor, LOCK_SH) == EWOULDBLOCK) {
    holder = name_in(descriptor);
    if (holder.empty()) holder = "another process";
  }
  ::close(descriptor);
  return holder;
}

}  // namespace systole
