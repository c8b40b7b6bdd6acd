// The cache of compiled programs on disk: what was stored is found, what is damaged is not, many processes
// share a folder, and the limit holds.

#include "runtime/disk_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "base/log.h"
#include "scratch_folder.h"
#include "systole/base/error.h"

namespace systole::runtime {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

class DiskCaches : public ScratchFolder {
 protected:
  DiskCache cache(std::uint64_t limit = 1 << 20) const { return {folder_ / "cache", limit}; }
  static CacheKey key(const std::string& part) { return std::move(CacheKey("test").add(part)); }
  fs::path file(const CacheKey& key) const { return folder_ / "cache" / key.file_name(); }
};

std::string content(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void overwrite(const fs::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

void age(const fs::path& file, std::chrono::hours hours) {
  fs::last_write_time(file, fs::file_time_type::clock::now() - hours);
}

TEST_F(DiskCaches, WhatIsStoredIsFoundByOthersUnderTheSameKeyOnly) {
  const std::string value("code\0with a zero", 16);
  cache().store(key("a"), value);
  EXPECT_EQ(cache().find(key("a")), value);
  EXPECT_EQ(cache().find(key("b")), std::nullopt);
  EXPECT_EQ(cache().find(CacheKey("other").add("a")), std::nullopt);
  cache().store(key("empty"), "");
  EXPECT_EQ(cache().find(key("empty")), "");
  cache().store(key("a"), "newer");
  EXPECT_EQ(cache().find(key("a")), "newer");
  EXPECT_EQ(cache().usage().entries, 2u);
  EXPECT_EQ(cache().clear().entries, 2u);
  EXPECT_EQ(cache().usage().entries, 0u);
  EXPECT_EQ(cache().find(key("a")), std::nullopt);
}

TEST_F(DiskCaches, KeysThatDifferInOneBitOrInTheirPartsDiffer) {
  std::set<std::string> names;
  std::size_t count = 0;
  const auto add = [&](const CacheKey& key) {
    names.insert(key.file_name());
    ++count;
  };
  add(std::move(CacheKey("k").add("ab").add("c")));
  add(std::move(CacheKey("k").add("a").add("bc")));
  add(std::move(CacheKey("k").add("abc")));
  add(std::move(CacheKey("k").add("abc").add("")));
  for (std::size_t length = 1; length < 40; ++length) {
    std::string text(length, '\0');
    add(key(text));
    for (std::size_t bit = 0; bit < 8 * length; ++bit) {
      text[bit / 8] = static_cast<char>(1 << bit % 8);
      add(key(text));
      text[bit / 8] = 0;
    }
  }
  for (int i = 0; i < 100'000; ++i) add(key("program " + std::to_string(i)));
  EXPECT_EQ(names.size(), count);
}

// The two halves of a hash must not follow from each other: each alone tells these keys apart.
TEST_F(DiskCaches, EachHalfOfAHashTellsKeysApart) {
  std::set<std::uint64_t> first, second;
  for (int i = 0; i < 100'000; ++i) {
    const auto hash = key(std::to_string(i)).hash();
    first.insert(hash[0]);
    second.insert(hash[1]);
  }
  EXPECT_EQ(first.size(), 100'000u);
  EXPECT_EQ(second.size(), 100'000u);
}

TEST_F(DiskCaches, ADamagedEntryIsNotFoundAndGoes) {
  const std::string value(300, 'v');
  cache().store(key("a"), value);
  const std::string good = content(file(key("a")));
  ASSERT_GT(good.size(), value.size());
  const auto expect_lost = [&](const std::string& bytes, const std::string& what) {
    overwrite(file(key("a")), bytes);
    EXPECT_EQ(cache().find(key("a")), std::nullopt) << what;
    EXPECT_FALSE(fs::exists(file(key("a")))) << what;
  };
  for (std::size_t size = 0; size < good.size(); size += 7)
    expect_lost(good.substr(0, size), "cut to " + std::to_string(size));
  expect_lost(good + "x", "one byte more");
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 4);
    expect_lost(bad, "byte " + std::to_string(at));
  }
  cache().store(key("b"), value);
  fs::rename(file(key("b")), file(key("a")));  // whole, but of another key
  EXPECT_EQ(cache().find(key("a")), std::nullopt);
  cache().store(key("a"), value);
  EXPECT_EQ(cache().find(key("a")), value);
}

// A folder's trouble is one text whatever is looked for in it; what is repaired is not a warning.
TEST_F(DiskCaches, OneWarningTellsOfAFolder) {
  std::set<std::string> warnings;
  set_log_sink([&](LogLevel, std::string_view line) { warnings.emplace(line); }, LogLevel::warn);
  cache().store(key("a"), "value");
  overwrite(file(key("a")), "damaged");
  EXPECT_EQ(cache().find(key("a")), std::nullopt);
  EXPECT_EQ(warnings, std::set<std::string>());
  for (const char* name : {"a", "b"})
    fs::create_directories(file(key(name)));  // folders in the entries' places
  for (const char* name : {"a", "b"}) cache().store(key(name), "value");
  set_log_sink({});
  ASSERT_EQ(warnings.size(), 1u) << *warnings.begin();
  EXPECT_NE(warnings.begin()->find((folder_ / "cache").string() + ": cannot be written"), std::string::npos)
      << *warnings.begin();
  EXPECT_NE(warnings.begin()->find("SYSTOLE_CACHE_DIR"), std::string::npos) << *warnings.begin();
}

TEST_F(DiskCaches, AFolderThatCannotBeUsedIsNoError) {
  overwrite(folder_ / "cache", "a file");
  cache().store(key("a"), "value");
  EXPECT_EQ(cache().find(key("a")), std::nullopt);
  EXPECT_EQ(cache().usage().entries, 0u);
  fs::remove(folder_ / "cache");

  fs::create_directories(file(key("a")));  // a folder in the entry's place
  fs::permissions(folder_ / "cache", fs::perms::owner_all);
  cache().store(key("a"), "value");
  EXPECT_EQ(cache().find(key("a")), std::nullopt);
  const DiskCache nowhere("/proc/nowhere", 1 << 20);
  nowhere.store(key("a"), "value");
  EXPECT_EQ(nowhere.find(key("a")), std::nullopt);
}

TEST_F(DiskCaches, AFolderThatOthersMayWriteToIsNotUsed) {
  cache().store(key("a"), "value");
  struct stat info{};
  ASSERT_EQ(::stat((folder_ / "cache").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  fs::permissions(folder_ / "cache", fs::perms::all);
  EXPECT_EQ(cache().find(key("a")), std::nullopt);
  cache().store(key("b"), "value");
  EXPECT_FALSE(fs::exists(file(key("b"))));
  EXPECT_EQ(cache().refusal(), "others may write to " + (folder_ / "cache").string());
  fs::permissions(folder_ / "cache", fs::perms::owner_all);
  EXPECT_EQ(cache().refusal(), "");
}

// What is checked is the folder that was opened, however the name leads there.
TEST_F(DiskCaches, OwnerAndModeAreThoseOfTheFolderThatALinkLeadsTo) {
  fs::create_directory(folder_ / "open");
  fs::permissions(folder_ / "open", fs::perms::all);
  fs::create_directory_symlink(folder_ / "open", folder_ / "cache");
  cache().store(key("a"), "value");
  EXPECT_TRUE(fs::is_empty(folder_ / "open"));
  EXPECT_EQ(cache().refusal(), "others may write to " + (folder_ / "cache").string());
  fs::permissions(folder_ / "open", fs::perms::owner_all);
  cache().store(key("a"), "value");
  EXPECT_EQ(cache().find(key("a")), "value");
  fs::permissions(folder_ / "open", fs::perms::group_write, fs::perm_options::add);
  EXPECT_EQ(cache().find(key("a")), std::nullopt);
}

TEST_F(DiskCaches, FoldersAboveItMayBelongToAllAsSlashTmpDoes) {
  fs::create_directory(folder_ / "tmp");
  ASSERT_EQ(::chmod((folder_ / "tmp").c_str(), 01777), 0);
  const DiskCache below(folder_ / "tmp/compiled", 1 << 20);
  below.store(key("a"), "value");
  EXPECT_EQ(below.find(key("a")), "value");
  EXPECT_EQ(below.refusal(), "");
}

// A pipe answers only when somebody writes to it, a device perhaps never.
TEST_F(DiskCaches, APipeOrLinkInAnEntrysPlaceIsNotReadAndGoes) {
  cache().store(key("other"), "value");
  ASSERT_EQ(::mkfifo(file(key("a")).c_str(), 0600), 0);
  EXPECT_EQ(cache().find(key("a")), std::nullopt);
  EXPECT_FALSE(fs::exists(fs::symlink_status(file(key("a")))));
  fs::create_symlink(file(key("other")), file(key("a")));
  EXPECT_EQ(cache().find(key("a")), std::nullopt);
  EXPECT_FALSE(fs::exists(fs::symlink_status(file(key("a")))));
  cache().store(key("a"), "value");
  EXPECT_EQ(cache().find(key("a")), "value");
}

// Written while others could write there, or moved here by who owns the folder above.
TEST_F(DiskCaches, AnEntryOfAnotherUserIsNotReadAndGoes) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may give a file away";
  cache().store(key("a"), "value");
  ASSERT_EQ(cache().find(key("a")), "value");
  ASSERT_EQ(::chown(file(key("a")).c_str(), 1, 1), 0);
  EXPECT_EQ(cache().find(key("a")), std::nullopt);
  EXPECT_FALSE(fs::exists(file(key("a"))));
}

TEST_F(DiskCaches, ALinkInAnEntrysPlaceIsReplacedAndNotWrittenThrough) {
  cache().store(key("other"), "value");
  overwrite(folder_ / "mine", "untouched");
  fs::create_symlink(folder_ / "mine", file(key("a")));
  cache().store(key("a"), "value");
  EXPECT_EQ(cache().find(key("a")), "value");
  EXPECT_EQ(content(folder_ / "mine"), "untouched");
  // Nor are files beyond a link counted or removed.
  fs::create_symlink(folder_ / "mine", folder_ / "cache/link.systole");
  EXPECT_EQ(cache().usage().entries, 2u);
  EXPECT_EQ(cache().clear().entries, 2u);
  EXPECT_EQ(content(folder_ / "mine"), "untouched");
}

TEST_F(DiskCaches, WhyAFolderIsNotUsedIsSaidBeforeItIsMade) {
  EXPECT_EQ(cache().refusal(), "");
  EXPECT_EQ(DiskCache(folder_ / "a/b/c", 1 << 20).refusal(), "");
  EXPECT_EQ(DiskCache("relative", 1 << 20).refusal(), "");
  overwrite(folder_ / "file", "a file");
  const std::string reason = (folder_ / "file").string() + " is not a folder";
  EXPECT_EQ(DiskCache(folder_ / "file", 1 << 20).refusal(), reason);
  EXPECT_EQ(DiskCache(folder_ / "file/compiled", 1 << 20).refusal(), reason);
  fs::create_directory_symlink(folder_ / "nowhere", folder_ / "link");
  EXPECT_NE(DiskCache(folder_ / "link", 1 << 20).refusal(), "");
  EXPECT_NE(DiskCache(folder_ / "link/compiled", 1 << 20).refusal(), "");
  if (::geteuid() != 0) return;  // who may not give a folder away
  fs::create_directory(folder_ / "given");
  ASSERT_EQ(::chown((folder_ / "given").c_str(), 1, 1), 0);
  EXPECT_EQ(DiskCache(folder_ / "given", 1 << 20).refusal(),
            (folder_ / "given").string() + " belongs to another user");
}

TEST_F(DiskCaches, OverTheLimitWhatWasUsedLongestAgoGoes) {
  const std::string value(1000, 'v');
  const DiskCache small = cache(5 * 1100);
  for (int i = 0; i < 5; ++i) {
    small.store(key(std::to_string(i)), value);
    age(file(key(std::to_string(i))), 10h - std::chrono::hours(i));
  }
  EXPECT_EQ(small.usage().entries, 5u);
  EXPECT_TRUE(small.find(key("0")));  // now the newest
  small.store(key("5"), value);
  EXPECT_LE(small.usage().bytes, small.limit());
  EXPECT_TRUE(small.find(key("0")));
  EXPECT_FALSE(small.find(key("1")));
  EXPECT_TRUE(small.find(key("5")));
  small.store(key("huge"), std::string(6000, 'v'));
  EXPECT_FALSE(small.find(key("huge")));
  EXPECT_TRUE(small.find(key("5")));
}

TEST_F(DiskCaches, HalfWrittenFilesThatNobodyFinishesGo) {
  cache().store(key("a"), "value");
  overwrite(folder_ / "cache/.systole-1-0.tmp", "old");
  overwrite(folder_ / "cache/.systole-2-0.tmp", "being written");
  age(folder_ / "cache/.systole-1-0.tmp", 2h);
  cache().store(key("b"), "value");
  EXPECT_FALSE(fs::exists(folder_ / "cache/.systole-1-0.tmp"));
  EXPECT_TRUE(fs::exists(folder_ / "cache/.systole-2-0.tmp"));
}

TEST_F(DiskCaches, ManyProcessesShareAFolder) {
  constexpr int kProcesses = 6, kKeys = 8, kRounds = 40;
  const auto value_of = [](int k) { return std::string(static_cast<std::size_t>(1000 * (k + 1)), 'a' + k); };
  // Small enough that entries are removed while others read them.
  const DiskCache shared = cache(30'000);
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      bool right = true;
      for (int i = 0; i < kRounds; ++i) {
        const int k = (i * (p + 1) + p) % kKeys;
        if (const auto found = shared.find(key(std::to_string(k))))
          right = right && *found == value_of(k);
        else
          shared.store(key(std::to_string(k)), value_of(k));
      }
      ::_exit(right ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  for (const auto& entry : fs::directory_iterator(folder_ / "cache"))
    EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
  EXPECT_LE(shared.usage().bytes, shared.limit());
}

// Sets variables for one test.
class Variables {
 public:
  void set(const char* name, const std::string& value) {
    names_.insert(name);
    ::setenv(name, value.c_str(), 1);
  }
  ~Variables() {
    for (const char* name : names_) ::unsetenv(name);
  }

 private:
  std::set<const char*> names_;
};

TEST_F(DiskCaches, VariablesNameTheFolderTheLimitAndTheSwitch) {
  Variables variables;
  const char* const old = std::getenv("HOME");
  const std::string home = old != nullptr ? old : "";
  for (const char* name : {"SYSTOLE_CACHE", "SYSTOLE_CACHE_DIR", "XDG_CACHE_HOME"}) variables.set(name, "");
  ::setenv("HOME", "/home/one", 1);
  EXPECT_EQ(cache_folder(), "/home/one/.cache/systole");
  variables.set("XDG_CACHE_HOME", "/xdg");
  EXPECT_EQ(cache_folder(), "/xdg/systole");
  variables.set("SYSTOLE_CACHE_DIR", "/chosen");
  EXPECT_EQ(cache_folder(), "/chosen");
  EXPECT_EQ(disk_cache()->folder(), "/chosen/compiled");
  EXPECT_EQ(disk_cache()->limit(), std::uint64_t{4} << 30);
  EXPECT_FALSE(disk_cache()->is_worth(49ms));
  EXPECT_TRUE(disk_cache()->is_worth(50ms));
  variables.set("SYSTOLE_CACHE_LIMIT", "1000");
  variables.set("SYSTOLE_CACHE_MIN_MS", "0");
  EXPECT_EQ(disk_cache()->limit(), 1000u);
  EXPECT_TRUE(disk_cache()->is_worth(0ms));
  const std::pair<const char*, std::uint64_t> sizes[] = {{"0", 0},
                                                         {"3K", 3072},
                                                         {"500M", 524288000},
                                                         {"4G", 4294967296},
                                                         {"18446744073709551615", ~std::uint64_t{0}}};
  for (const auto& [text, bytes] : sizes) {
    variables.set("SYSTOLE_CACHE_LIMIT", text);
    EXPECT_EQ(disk_cache()->limit(), bytes) << text;
  }
  for (const char* wrong :
       {"G", "4 G", "4GB", "4g ", "-1", "-1K", "1.5G", "18446744073709551616", "17179869184G"}) {
    variables.set("SYSTOLE_CACHE_LIMIT", wrong);
    EXPECT_THROW(disk_cache(), Error) << wrong;
  }
  variables.set("SYSTOLE_CACHE", "0");
  EXPECT_EQ(cache_folder(), "");
  EXPECT_FALSE(disk_cache().has_value());
  old != nullptr ? ::setenv("HOME", home.c_str(), 1) : ::unsetenv("HOME");
}

}  // namespace
}  // namespace systole::runtime
