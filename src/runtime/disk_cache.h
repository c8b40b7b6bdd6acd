#pragma once

// Compiled programs that outlive the process. Every entry is a file named by a hash of all it depends on; it
// is written beside its place and renamed, so processes share the folder without locks. What is damaged,
// unreadable or cannot be written is logged and costs a compilation, never an error. When the files together
// exceed the limit, those used longest ago go.
//
//   SYSTOLE_CACHE=0       no cache
//   SYSTOLE_CACHE_DIR     its folder, else XDG_CACHE_HOME/systole, else ~/.cache/systole
//   SYSTOLE_CACHE_LIMIT   bytes, or 500M, 4G; 4 GiB when unset
//   SYSTOLE_CACHE_MIN_MS  what compiled faster is not stored; 50 when unset

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace systole::runtime {

// The folder for everything the library remembers; empty when there is none or SYSTOLE_CACHE=0.
std::filesystem::path cache_folder();

// What an entry depends on, part by part, as 128 bits.
class CacheKey {
 public:
  explicit CacheKey(
      std::string_view kind);            // who compiled it: "pjrt", "cpu"; the first word of the file name
  CacheKey& add(std::string_view part);  // its length counts too: "a", "bc" is not "ab", "c"

  std::string file_name() const;
  std::uint64_t length() const { return length_; }
  std::array<std::uint64_t, 2> hash() const;

 private:
  std::string kind_;
  std::array<std::uint64_t, 2> state_;
  std::uint64_t length_ = 0;
};

class DiskCache {
 public:
  DiskCache(std::filesystem::path folder, std::uint64_t limit,
            std::chrono::milliseconds least = std::chrono::milliseconds(0));

  std::optional<std::string> find(const CacheKey& key) const;
  void store(const CacheKey& key, std::string_view value) const;
  void remove(const CacheKey& key) const;  // an entry that its backend refuses

  struct Usage {
    std::uint64_t entries = 0, bytes = 0;
  };
  Usage usage() const;
  Usage clear() const;  // what was removed

  // Why the folder is not used, in words; empty when it is, or will be once it is made.
  std::string refusal() const;

  // Whether a program that took so long to compile is to be stored.
  bool is_worth(std::chrono::nanoseconds compilation) const { return compilation >= least_; }

  const std::filesystem::path& folder() const { return folder_; }
  std::uint64_t limit() const { return limit_; }

 private:
  std::filesystem::path folder_;
  std::uint64_t limit_;
  std::chrono::milliseconds least_;
};

// As the variables say now; nothing when there is none. Throws kInvalidArgument for a variable that is wrong.
std::optional<DiskCache> disk_cache();

}  // namespace systole::runtime
