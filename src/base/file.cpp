#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <mutex>
#include <new>
#include <system_error>
#include <utility>

#include "base/descriptor.h"
#include "systole/base/error.h"

namespace systole {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLargestTransfer = std::size_t{1}
                                         << 30;  // the kernel caps one read or write near 2 GiB

[[noreturn]] void refuse(const fs::path& file, const char* what, int code) {
  throw Error(code == ENOENT ? ErrorKind::kNotFound : ErrorKind::kIo, file.string(),
              std::string(what) + ": " + std::generic_category().message(code));
}

[[noreturn]] void no_memory(const fs::path& file, std::uint64_t bytes) {
  throw Error(ErrorKind::kOutOfMemory, file.string(), "no memory for the content",
              std::to_string(bytes) + " bytes");
}

struct Faults {
  std::atomic<bool> any{false};
  std::mutex mutex;
  std::function<int(FileStep)> of;
};
Faults& faults() {
  static Faults* const all = new Faults;  // never destroyed: threads may still write
  return *all;
}

// Whether the step is to fail, with errno set.
bool fails(FileStep step) {
  if (!faults().any.load(std::memory_order_relaxed)) return false;
  const std::lock_guard lock(faults().mutex);
  const int code = faults().of ? faults().of(step) : 0;
  if (code != 0) errno = code;
  return code != 0;
}

class OpenFile final : public ByteSource {
 public:
  OpenFile(fs::path file, int descriptor, std::uint64_t size)
      : file_(std::move(file)), descriptor_(descriptor), size_(size) {}

  std::uint64_t size() const override { return size_; }

  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    while (!out.empty()) {
      const ssize_t n = ::pread(descriptor_.get(), out.data(), std::min(out.size(), kLargestTransfer),
                                static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) refuse(file_, "cannot read", errno);
      if (n == 0)
        throw Error(ErrorKind::kIo, file_.string(), "the file ends at byte " + std::to_string(offset),
                    "more bytes");
      offset += static_cast<std::uint64_t>(n);
      out = out.subspan(static_cast<std::size_t>(n));
    }
  }

 private:
  fs::path file_;
  Descriptor descriptor_;
  std::uint64_t size_;
};

class Memory final : public ByteSource {
 public:
  explicit Memory(std::span<const std::byte> borrowed) : bytes_(borrowed) {}
  explicit Memory(std::vector<std::byte> owned) : owned_(std::move(owned)), bytes_(owned_) {}

  std::uint64_t size() const override { return bytes_.size(); }

  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    if (offset > bytes_.size() || out.size() > bytes_.size() - offset)
      throw Error(ErrorKind::kIo, "memory", "the bytes end at " + std::to_string(bytes_.size()),
                  "more bytes");
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
  }

 private:
  std::vector<std::byte> owned_;
  std::span<const std::byte> bytes_;
};

// Into `bytes`, a string or vector of bytes.
template <class Container>
void read_to_end(const fs::path& file, int descriptor, std::uint64_t largest, Container& bytes) {
  constexpr std::uint64_t kFirst = 1 << 16;
  std::size_t used = 0;
  for (;;) try {
      if (used > largest)
        throw Error(ErrorKind::kLimit, file.string(), "a pipe or device without an end in sight",
                    "at most " + std::to_string(largest) + " bytes", "more");
      if (used == bytes.size())
        bytes.resize(2 * used < largest ? std::max<std::uint64_t>(2 * used, kFirst) : largest + 1);
      const ssize_t n =
          ::read(descriptor, bytes.data() + used, std::min(bytes.size() - used, kLargestTransfer));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) refuse(file, "cannot read", errno);
      if (n == 0) break;
      used += static_cast<std::size_t>(n);
    } catch (const std::bad_alloc&) {
      no_memory(file, 2 * used);
    }
  bytes.resize(used);
}

// The file that writing to `target` must replace.
fs::path follow_links(const fs::path& target) {
  std::error_code code;
  if (!fs::is_symlink(fs::symlink_status(target, code))) return target;
  fs::path real = fs::weakly_canonical(target, code);
  if (code) refuse(target, "cannot follow the link", code.value());
  return real;
}

fs::path folder_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

}  // namespace

std::unique_ptr<ByteSource> open_file(const fs::path& file, std::uint64_t largest) {
  Descriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (descriptor.get() < 0) refuse(file, "cannot open", errno);
  struct stat info;
  if (::fstat(descriptor.get(), &info) != 0) refuse(file, "cannot read", errno);
  if (S_ISDIR(info.st_mode)) refuse(file, "cannot read", EISDIR);
  // Files of /proc are regular and claim size 0, so an empty file is read to its end as well.
  if (!S_ISREG(info.st_mode) || info.st_size == 0) {
    std::vector<std::byte> bytes;
    read_to_end(file, descriptor.get(), largest, bytes);
    return std::make_unique<Memory>(std::move(bytes));
  }
  return std::make_unique<OpenFile>(file, descriptor.release(), static_cast<std::uint64_t>(info.st_size));
}

std::unique_ptr<ByteSource> regular_file(int opened, const fs::path& file) {
  Descriptor descriptor(opened);
  struct stat info;
  if (::fstat(descriptor.get(), &info) != 0) refuse(file, "cannot read", errno);
  if (!S_ISREG(info.st_mode))
    throw Error(ErrorKind::kParse, file.string(), "not a file", "a regular file",
                S_ISDIR(info.st_mode)    ? "a folder"
                : S_ISFIFO(info.st_mode) ? "a pipe (FIFO)"
                                         : "a device or socket");
  return std::make_unique<OpenFile>(file, descriptor.release(), static_cast<std::uint64_t>(info.st_size));
}

std::unique_ptr<ByteSource> open_regular_file(const fs::path& file) {
  // Without O_NONBLOCK opening a FIFO waits for its writer.
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0) refuse(file, "cannot open", errno);
  return regular_file(descriptor, file);
}

std::unique_ptr<ByteSource> memory_source(std::span<const std::byte> bytes) {
  return std::make_unique<Memory>(bytes);
}

namespace {

std::string text_of(const ByteSource& source, const fs::path& file) {
  std::string text;
  try {
    text.resize(source.size());
  } catch (const std::exception&) {  // bad_alloc or length_error
    no_memory(file, source.size());
  }
  source.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace

std::string read_text_file(const fs::path& file) { return text_of(*open_file(file), file); }

std::string read_regular_text_file(const fs::path& file) { return text_of(*open_regular_file(file), file); }

std::string read_text_stream(int descriptor, const std::string& label, std::uint64_t largest) {
  std::string text;
  read_to_end(label, descriptor, largest, text);
  return text;
}

AtomicFile::AtomicFile(const fs::path& target)
    : label_(target), folder_(AT_FDCWD), target_(follow_links(target).string()) {
  struct stat old;
  const bool exists = ::stat(target_.c_str(), &old) == 0;
  if (exists && !S_ISREG(old.st_mode))
    throw Error(ErrorKind::kIo, label_.string(), "cannot write", "a regular file",
                S_ISDIR(old.st_mode) ? "a folder" : "a device or pipe");
  open();
  // Without the right to copy the permissions the file keeps the default ones: no reason to lose the content.
  if (exists) (void)!::fchmod(descriptor_, old.st_mode & 07777);
}

AtomicFile::AtomicFile(int folder, const std::string& name, fs::path label)
    : label_(std::move(label)), folder_(folder), target_(name) {
  struct stat old;
  if (::fstatat(folder_, target_.c_str(), &old, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(old.st_mode))
    throw Error(ErrorKind::kIo, label_.string(), "cannot write", "a regular file", "a folder");
  open();
}

void AtomicFile::open() {
  // A short name of its own: the target's may already be as long as the file system allows.
  static std::atomic<unsigned> counter{0};
  const fs::path folder = fs::path(target_).parent_path();
  do {
    temporary_ =
        (folder / (".systole-" + std::to_string(::getpid()) + "-" + std::to_string(counter++) + ".tmp"))
            .string();
    descriptor_ = fails(FileStep::open)
                      ? -1
                      : ::openat(folder_, temporary_.c_str(),
                                 O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ >= 0) return;
  temporary_.clear();
  refuse(label_, "cannot write in its folder", errno);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlinkat(folder_, temporary_.c_str(), 0);
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  if (fails(FileStep::write)) {
    const int code = errno;
    (void)!::write(descriptor_, bytes.data(), bytes.size() / 2);
    refuse(label_, "cannot write", code);
  }
  while (!bytes.empty()) {
    const ssize_t n = ::write(descriptor_, bytes.data(), std::min(bytes.size(), kLargestTransfer));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) refuse(label_, "cannot write", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

void AtomicFile::commit() {
  if (fails(FileStep::sync) || ::fsync(descriptor_) != 0) refuse(label_, "cannot write", errno);
  replace();
  // The rename is durable once the folder is; some file systems cannot sync a folder (EINVAL) and need not.
  const Descriptor folder(::openat(folder_, folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() >= 0 && (fails(FileStep::sync_folder) || ::fsync(folder.get()) != 0) && errno != EINVAL)
    refuse(label_, "the file is written but its folder is not on the disk", errno);
}

void AtomicFile::replace() {
  const bool refused = fails(FileStep::close);
  const int code = errno;
  if (::close(std::exchange(descriptor_, -1)) != 0 || refused)
    refuse(label_, "cannot write", refused ? code : errno);
  if (fails(FileStep::rename) || ::renameat(folder_, temporary_.c_str(), folder_, target_.c_str()) != 0)
    refuse(label_, "cannot replace the file", errno);
  temporary_.clear();
}

void set_file_fault(std::function<int(FileStep)> fault) {
  const std::lock_guard lock(faults().mutex);
  faults().of = std::move(fault);
  faults().any = static_cast<bool>(faults().of);
}

void write_file(const fs::path& target, std::span<const std::byte> bytes) {
  AtomicFile file(target);
  file.write(bytes);
  file.commit();
}

}  // namespace systole
