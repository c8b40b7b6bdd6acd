#include "base/beneath.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include "base/descriptor.h"
#include "systole/base/error.h"

namespace systole {

namespace {

namespace fs = std::filesystem;

constexpr const char* kAllowed =
    "a file in the folder itself; --follow-links (follow_links in a program) accepts it, for a folder that "
    "you trust";
// Without O_NONBLOCK opening a FIFO waits for its writer.
constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

[[noreturn]] void refuse(const fs::path& file, const char* what, int code) {
  throw Error(code == ENOENT ? ErrorKind::kNotFound : ErrorKind::kIo, file.string(),
              std::string(what) + ": " + std::generic_category().message(code));
}

// Opens a name that no link leads out of the folder; −1 with errno. Kernels before 5.6, and sandboxes that do
// not know the call, get the stricter rule: no link at all.
int open_inside(int folder, const char* name) {
  open_how how{};
  how.flags = kFlags;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  for (int attempt = 0; attempt < 16; ++attempt) {
    const long opened = ::syscall(SYS_openat2, folder, name, &how, sizeof how);
    if (opened >= 0 || errno != EAGAIN) {  // EAGAIN: the folder changed meanwhile
      if (opened >= 0 || (errno != ENOSYS && errno != EPERM && errno != EINVAL))
        return static_cast<int>(opened);
      break;
    }
  }
  return ::openat(folder, name, kFlags | O_NOFOLLOW);
}

// A folder by its name in another; no link, and nothing is opened for reading.
Descriptor open_folder(int folder, const char* name) {
  return Descriptor(::openat(folder, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

bool is_same(const Descriptor& a, const Descriptor& b) {
  struct stat first{}, second{};
  return a.get() >= 0 && b.get() >= 0 && ::fstat(a.get(), &first) == 0 && ::fstat(b.get(), &second) == 0 &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

// The folder ROOT/blobs of a cache that has the opened folder below ROOT/snapshots; −1 when it is in none.
// From the folder upwards, so that no name which others may exchange says where that is.
Descriptor blobs_beside(int folder) {
  constexpr int kMostLevels = 64;
  Descriptor below = open_folder(folder, "..");
  for (int level = 0; level < kMostLevels && below.get() >= 0; ++level) {
    Descriptor above = open_folder(below.get(), "..");
    if (is_same(below, above)) break;  // the root of all
    if (is_same(below, open_folder(above.get(), "snapshots"))) return open_folder(above.get(), "blobs");
    below = std::move(above);
  }
  return Descriptor(-1);
}

// Opens the blob that a link of a snapshot names: ROOT/blobs/HASH, where neither is a link. −1 when the link
// names anything else.
int open_blob(int folder, const std::string& name) {
  std::string target(PATH_MAX, '\0');
  const ssize_t length = ::readlinkat(folder, name.c_str(), target.data(), target.size());
  if (length <= 0 || static_cast<std::size_t>(length) == target.size()) return -1;
  target.resize(static_cast<std::size_t>(length));
  const fs::path named = target;
  const Descriptor blobs = blobs_beside(folder);
  const fs::path parent = named.parent_path();
  const Descriptor where(
      ::openat(folder, parent.empty() ? "." : parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const std::string blob = named.filename();
  if (!is_same(blobs, where) || blob.empty() || blob == "." || blob == "..") return -1;
  return ::openat(blobs.get(), blob.c_str(), kFlags | O_NOFOLLOW);
}

}  // namespace

std::unique_ptr<ByteSource> open_beneath(const fs::path& folder, std::string_view name, LinkRule rule) {
  const fs::path place = folder.empty() ? fs::path(".") : folder, file = place / name;
  const std::string text(name);
  const Descriptor parent(::open(place.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (parent.get() < 0) refuse(place, "cannot open", errno);
  Descriptor opened(rule == LinkRule::any ? ::openat(parent.get(), text.c_str(), kFlags)
                                          : open_inside(parent.get(), text.c_str()));
  if (opened.get() < 0 && rule != LinkRule::any && (errno == EXDEV || errno == ELOOP)) {
    opened = Descriptor(open_blob(parent.get(), text));
    if (opened.get() < 0)
      throw Error(ErrorKind::kUnsupported, file.string(), "a link that leads out of its folder", kAllowed);
  }
  if (opened.get() < 0) refuse(file, "cannot open", errno);
  struct stat info{};
  if (::fstat(opened.get(), &info) != 0) refuse(file, "cannot read", errno);
  if (rule == LinkRule::inside_unique && S_ISREG(info.st_mode) && info.st_nlink > 1)
    throw Error(ErrorKind::kUnsupported, file.string(),
                "the file has another name too (a hard link) and may be from elsewhere", kAllowed,
                std::to_string(info.st_nlink) + " names");
  return regular_file(opened.release(), file);
}

std::string read_text_beneath(const fs::path& folder, std::string_view name, LinkRule rule,
                              std::uint64_t largest) {
  const std::unique_ptr<ByteSource> source = open_beneath(folder, name, rule);
  if (source->size() > largest)
    throw Error(ErrorKind::kLimit, (folder / name).string(), "the file is too large",
                std::to_string(largest) + " bytes at most", std::to_string(source->size()));
  std::string text(static_cast<std::size_t>(source->size()), '\0');
  source->read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace systole
