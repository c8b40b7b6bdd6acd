#include "runtime/disk_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "base/descriptor.h"
#include "base/env.h"
#include "base/file.h"
#include "base/log.h"
#include "systole/base/error.h"

namespace systole::runtime {

namespace {

namespace fs = std::filesystem;
using Hash = std::array<std::uint64_t, 2>;

constexpr std::uint64_t kDefaultLimit = std::uint64_t{4} << 30;
// Below this a program compiles about as fast as it is read and loaded.
constexpr std::uint64_t kDefaultLeast = 50;
constexpr std::string_view kEnding = ".systole";
constexpr auto kAbandoned = std::chrono::hours(1);  // the age of a half-written file that nobody finishes
constexpr Hash kSeed = {0x6a09e667f3bcc908, 0xbb67ae8584caa73b};

// Two lanes that see each word differently. Each step can be undone, so no word is lost on the way.
void mix(Hash& h, std::uint64_t word) {
  h[0] = std::rotl(h[0] ^ word * 0x9e3779b97f4a7c15, 29) * 0xbf58476d1ce4e5b9;
  h[1] = std::rotl(h[1] + (word ^ 0x94d049bb133111eb), 37) * 0xd6e8feb86659fd93 + h[0];
}

void mix(Hash& h, std::string_view bytes) {
  for (; !bytes.empty(); bytes.remove_prefix(std::min<std::size_t>(bytes.size(), 8))) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), std::min<std::size_t>(bytes.size(), 8));
    mix(h, word);
  }
}

Hash finished(Hash h) {
  for (int round = 0; round < 4; ++round) {
    mix(h, h[1] >> 32);
    h[0] ^= h[0] >> 31;
    h[1] ^= h[1] >> 29;
  }
  return h;
}

Hash hash_of(std::string_view bytes) {
  Hash h = kSeed;
  mix(h, bytes.size());
  mix(h, bytes);
  return finished(h);
}

// What a file begins with. Every field is compared with what it must be, so a damaged one is noticed.
struct Head {
  std::array<char, 8> magic = {'S', 'Y', 'S', 'T', 'O', 'L', 'E', 'C'};
  std::uint64_t version = 1;
  Hash key{};
  std::uint64_t key_length = 0;
  std::uint64_t size = 0;  // of the value, which follows
  Hash check{};            // of the value
  bool operator==(const Head&) const = default;
};
static_assert(sizeof(Head) == 64);

Head head_of(const CacheKey& key, std::string_view value) {
  Head head;
  head.key = key.hash();
  head.key_length = key.length();
  head.size = value.size();
  head.check = hash_of(value);
  return head;
}

// The folder, opened, and why it is not ours alone; empty when it is. Code is loaded from here, so nobody
// else may have written it. The opened folder is checked and used: whoever owns the folders above it, which
// may be /tmp, can make the name lead elsewhere, but not to a folder of ours that others write to.
struct Place {
  Descriptor folder{-1};
  int code = 0;  // errno, when it could not be opened
  std::string refusal;
};
Place open_place(const fs::path& folder) {
  Place place{Descriptor(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)), 0, {}};
  struct stat info{};
  if (place.folder.get() < 0 || ::fstat(place.folder.get(), &info) != 0) {
    place.code = errno;
    place.refusal = place.code == ENOTDIR ? fmt::format("{} is not a folder", folder.string())
                                          : fmt::format("{}: {}", folder.string(), std::strerror(place.code));
  } else if (info.st_uid != ::geteuid()) {
    place.refusal = fmt::format("{} belongs to another user", folder.string());
  } else if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    place.refusal = fmt::format("others may write to {}", folder.string());
  }
  return place;
}

// An entry, by the name in the opened folder; null when there is none. A link, pipe or folder in its place is
// kParse, as a damaged file is, and so is what another user wrote: there was a time when others could.
std::unique_ptr<ByteSource> open_entry(const Place& place, const fs::path& file) {
  Descriptor opened(::openat(place.folder.get(), file.filename().c_str(),
                             O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  struct stat info{};
  if (opened.get() >= 0 && ::fstat(opened.get(), &info) == 0) {
    if (info.st_uid != ::geteuid() && info.st_uid != 0)
      throw Error(ErrorKind::kParse, file.string(), "it belongs to another user");
    return regular_file(opened.release(), file);
  }
  if (errno == ENOENT) return nullptr;
  throw Error(errno == ELOOP ? ErrorKind::kParse : ErrorKind::kIo, file.string(),
              errno == ELOOP ? "a link" : fmt::format("cannot open: {}", std::strerror(errno)));
}

struct File {
  std::string name;
  std::uint64_t bytes;
  std::chrono::nanoseconds used;  // since 1970
};

// The files of an opened folder whose names end so; other processes may remove some meanwhile.
std::vector<File> files_in(const Place& place, std::string_view ending) {
  std::vector<File> files;
  if (place.folder.get() < 0) return files;
  const int opened = ::openat(place.folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (opened < 0) return files;
  DIR* const list = ::fdopendir(opened);
  if (list == nullptr) {
    ::close(opened);
    return files;
  }
  const std::unique_ptr<DIR, int (*)(DIR*)> owner(list, ::closedir);
  while (const dirent* const entry = ::readdir(list)) {
    const std::string_view name = entry->d_name;
    struct stat info{};
    if (!name.ends_with(ending) || ::fstatat(opened, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(info.st_mode))
      continue;
    files.push_back(
        {std::string(name), static_cast<std::uint64_t>(info.st_size),
         std::chrono::seconds(info.st_mtim.tv_sec) + std::chrono::nanoseconds(info.st_mtim.tv_nsec)});
  }
  return files;
}

bool remove_in(const Place& place, const std::string& name) {
  if (place.folder.get() < 0) return false;
  if (::unlinkat(place.folder.get(), name.c_str(), 0) == 0) return true;
  return errno == EISDIR && ::unlinkat(place.folder.get(), name.c_str(), AT_REMOVEDIR) == 0;
}

void note(LogLevel level, const fs::path& file, std::string_view what) {
  if (log_enabled(level)) log(level, fmt::format("cache {}: {}", file.string(), what));
}

void trim(const Place& place, const fs::path& folder, std::uint64_t limit) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  for (const File& file : files_in(place, ".tmp"))
    if (now - file.used > kAbandoned) remove_in(place, file.name);
  std::vector<File> files = files_in(place, kEnding);
  std::uint64_t bytes = 0;
  for (const File& file : files) bytes += file.bytes;
  if (bytes <= limit) return;
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.used < b.used; });
  // A tenth more than needed, so that a full cache is not trimmed at every entry; the newest stays.
  const std::uint64_t goal = limit - limit / 10;
  for (std::size_t i = 0; i + 1 < files.size() && bytes > goal; ++i) {
    note(LogLevel::debug, folder / files[i].name, "removed: over the limit");
    remove_in(place, files[i].name);
    bytes -= files[i].bytes;
  }
}

// What keeps the cache from being used. Of the folder, not of the file: a full disk or a folder without the
// right to write is one thing to read, however many programs it meets.
void warn_of(const fs::path& folder, std::string_view trouble) {
  log(LogLevel::warn,
      fmt::format(
          "cache {}: {}; programs are compiled again in each process. SYSTOLE_CACHE_DIR names another "
          "folder, SYSTOLE_CACHE=0 does without",
          folder.string(), trouble));
}

}  // namespace

fs::path cache_folder() {
  constexpr const char* kSwitch = "SYSTOLE_CACHE";
  if (const auto folder = env::text(kSwitch); folder && folder->find('/') != std::string::npos)
    throw Error(ErrorKind::kInvalidArgument, kSwitch, "a switch, and no folder",
                "1 or 0; SYSTOLE_CACHE_DIR names the folder", *folder);
  if (!env::flag(kSwitch, true)) return {};
  if (const auto chosen = env::text("SYSTOLE_CACHE_DIR")) return *chosen;
  if (const auto user = env::text("XDG_CACHE_HOME")) return fs::path(*user) / "systole";
  if (const auto home = env::text("HOME")) return fs::path(*home) / ".cache" / "systole";
  return {};
}

CacheKey::CacheKey(std::string_view kind) : kind_(kind), state_(kSeed) { add(kind); }

CacheKey& CacheKey::add(std::string_view part) {
  mix(state_, part.size());
  mix(state_, part);
  length_ += part.size();
  return *this;
}

Hash CacheKey::hash() const { return finished(state_); }

std::string CacheKey::file_name() const {
  const Hash h = hash();
  return fmt::format("{}-{:016x}{:016x}{}", kind_, h[0], h[1], kEnding);
}

DiskCache::DiskCache(fs::path folder, std::uint64_t limit, std::chrono::milliseconds least)
    : folder_(std::move(folder)), limit_(limit), least_(least) {}

std::optional<std::string> DiskCache::find(const CacheKey& key) const {
  const fs::path file = folder_ / key.file_name();
  Place place;
  try {
    place = open_place(folder_);
    if (place.code == ENOENT) return std::nullopt;
    if (!place.refusal.empty()) {
      warn_of(folder_, "not used: " + place.refusal);
      return std::nullopt;
    }
    const std::unique_ptr<ByteSource> source = open_entry(place, file);
    if (source == nullptr) return std::nullopt;
    if (source->size() < sizeof(Head)) throw Error(ErrorKind::kParse, file.string(), "shorter than its head");
    Head head;
    source->read(0, std::as_writable_bytes(std::span(&head, 1)));
    std::string value(source->size() - sizeof(Head), '\0');
    source->read(sizeof(Head), std::as_writable_bytes(std::span(value)));
    if (!(head == head_of(key, value))) throw Error(ErrorKind::kParse, file.string(), "damaged");
    // Used now; without the right to say so it ages.
    ::utimensat(place.folder.get(), file.filename().c_str(), nullptr, 0);
    note(LogLevel::debug, file, "found");
    return value;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kParse) {  // the program is compiled and stored again
      note(LogLevel::info, file, error.what());
      remove_in(place, key.file_name());
    } else if (error.kind() != ErrorKind::kNotFound) {
      warn_of(folder_, "cannot be read: " + error.message());
    }
  } catch (const std::exception& error) {  // no memory for it
    note(LogLevel::info, file, error.what());
  }
  return std::nullopt;
}

void DiskCache::store(const CacheKey& key, std::string_view value) const {
  const fs::path file = folder_ / key.file_name();
  if (value.size() + sizeof(Head) > limit_) return note(LogLevel::debug, file, "larger than the limit");
  try {
    std::error_code code;
    if (folder_.has_parent_path()) fs::create_directories(folder_.parent_path(), code);
    (void)::mkdir(folder_.c_str(), 0700);  // it may be there; opening it tells
    const Place place = open_place(folder_);
    if (!place.refusal.empty()) return warn_of(folder_, "not used: " + place.refusal);
    const Head head = head_of(key, value);
    AtomicFile out(place.folder.get(), key.file_name(), file);
    out.write(std::as_bytes(std::span(&head, 1)));
    out.write(std::as_bytes(std::span(value)));
    out.replace();
    note(LogLevel::debug, file, "stored");
    trim(place, folder_, limit_);
  } catch (const Error& error) {
    warn_of(folder_, "cannot be written: " + error.message());
  } catch (const std::exception& error) {  // no memory for it
    note(LogLevel::info, file, error.what());
  }
}

void DiskCache::remove(const CacheKey& key) const { remove_in(open_place(folder_), key.file_name()); }

std::string DiskCache::refusal() const {
  fs::path place = folder_;  // or the nearest above it that is there, in which it would be made
  std::error_code code;
  while (!fs::exists(fs::symlink_status(place, code))) {
    const fs::path above = place.has_parent_path() ? place.parent_path() : fs::path(".");
    if (above == place) return fmt::format("{}: {}", place.string(), code.message());
    place = above;
  }
  if (place == folder_) {
    if (std::string reason = open_place(folder_).refusal; !reason.empty()) return reason;
  } else if (!fs::is_directory(place, code)) {
    return fmt::format("{} is not a folder", place.string());
  }
  if (::access(place.c_str(), W_OK | X_OK) != 0) return fmt::format("{} is not writable", place.string());
  return {};
}

DiskCache::Usage DiskCache::usage() const {
  Usage usage;
  for (const File& file : files_in(open_place(folder_), kEnding))
    usage = {usage.entries + 1, usage.bytes + file.bytes};
  return usage;
}

DiskCache::Usage DiskCache::clear() const {
  Usage removed;
  const Place place = open_place(folder_);
  for (const File& file : files_in(place, kEnding))
    if (remove_in(place, file.name)) removed = {removed.entries + 1, removed.bytes + file.bytes};
  return removed;
}

std::optional<DiskCache> disk_cache() {
  const fs::path folder = cache_folder();
  if (folder.empty()) return std::nullopt;
  const std::uint64_t limit = env::size("SYSTOLE_CACHE_LIMIT").value_or(kDefaultLimit);
  const std::uint64_t least = env::whole_number("SYSTOLE_CACHE_MIN_MS").value_or(kDefaultLeast);
  return DiskCache(folder / "compiled", limit, std::chrono::milliseconds(least));
}

}  // namespace systole::runtime
