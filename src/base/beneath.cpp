#include "base/beneath.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <string>
#include <system_error>

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

// The root of a cache that has `folder` among its snapshots; empty when it is in none.
fs::path cache_root(const fs::path& folder) {
  for (fs::path place = folder; place.has_relative_path(); place = place.parent_path())
    if (place.parent_path().filename() == "snapshots") return place.parent_path().parent_path();
  return {};
}

// Opens the blob that a link of a snapshot names: ROOT/blobs/HASH, where neither is a link. −1 when the link
// names anything else.
int open_blob(const fs::path& folder, int descriptor, const std::string& name) {
  std::string target(PATH_MAX, '\0');
  const ssize_t length = ::readlinkat(descriptor, name.c_str(), target.data(), target.size());
  if (length <= 0 || static_cast<std::size_t>(length) == target.size()) return -1;
  target.resize(static_cast<std::size_t>(length));
  std::error_code code;
  const fs::path real = fs::canonical(folder, code);
  const fs::path root = code ? fs::path() : cache_root(real);
  if (root.empty()) return -1;
  const fs::path blob = (real / target).lexically_normal();  // an absolute target replaces `real`
  if (blob.parent_path() != root / "blobs" || !blob.has_filename()) return -1;
  const Descriptor blobs(::open((root / "blobs").c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (blobs.get() < 0) return -1;
  return ::openat(blobs.get(), blob.filename().c_str(), kFlags | O_NOFOLLOW);
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
    opened = Descriptor(open_blob(place, parent.get(), text));
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

}  // namespace systole
