// One process at a time writes to a folder; the lock ends with the process, whatever ends it, and no child
// keeps it alive.

#include "base/folder_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <functional>
#include <optional>
#include <string>

#include "error_check.h"
#include "scratch_folder.h"
#include "systole/train/checkpoint.h"

extern char** environ;

namespace systole {
namespace {

using Kind = FolderLock::Kind;

std::string process_name(pid_t process) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return "process " + std::to_string(process) + " on host " + host.data();
}

// A process that does the work, says so with a byte, and stays until it is killed or told to end.
class Child {
 public:
  explicit Child(const std::function<void()>& work) {
    int ready[2], end[2];
    EXPECT_EQ(::pipe(ready), 0);
    EXPECT_EQ(::pipe(end), 0);
    process_ = ::fork();
    if (process_ == 0) {
      ::close(ready[0]);
      ::close(end[1]);
      char byte = 'y';
      try {
        work();
      } catch (const Error& error) {
        byte = 'n';
      }
      (void)!::write(ready[1], &byte, 1);
      (void)!::read(end[0], &byte, 1);
      ::_exit(0);
    }
    ::close(ready[1]);
    ::close(end[0]);
    char byte = '?';
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    did_ = byte == 'y';
    ::close(ready[0]);
    end_ = end[1];
  }
  ~Child() {
    ::close(end_);
    if (process_ > 0) ::waitpid(process_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  bool did() const { return did_; }  // without an Error
  pid_t process() const { return process_; }
  void kill() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = -1;
  }

 private:
  pid_t process_ = -1;
  int end_ = -1;
  bool did_ = false;
};

class FolderLockTest : public ScratchFolder {
 protected:
  FolderLock lock(Kind kind = Kind::run) { return FolderLock(folder_, kind, "another folder"); }
  std::string refusal(Kind kind = Kind::run) {
    return error_of(ErrorKind::kIo, [&] { lock(kind); });
  }
};

TEST_F(FolderLockTest, AnotherProcessIsRefusedWithTheHoldersNumberAndHost) {
  std::optional<FolderLock> held;
  const Child child([&] { held.emplace(lock()); });
  ASSERT_TRUE(child.did());
  EXPECT_EQ(holder_of(folder_), process_name(child.process()));
  for (const Kind kind : {Kind::run, Kind::writer}) {
    const std::string message = refusal(kind);
    EXPECT_NE(message.find(process_name(child.process())), std::string::npos) << message;
    EXPECT_NE(message.find(folder_.string()), std::string::npos) << message;
    EXPECT_NE(message.find("another folder"), std::string::npos) << message;
  }
}

TEST_F(FolderLockTest, AHolderThatWasKilledHoldsNothing) {
  std::optional<FolderLock> held;
  Child child([&] { held.emplace(lock()); });
  ASSERT_TRUE(child.did());
  child.kill();
  EXPECT_EQ(holder_of(folder_), "");
  const FolderLock mine = lock();
  EXPECT_EQ(holder_of(folder_), process_name(::getpid()));
}

// As of a program that forked a helper and was killed: the helper has all descriptors but that one.
TEST_F(FolderLockTest, AChildOfTheKilledHolderHoldsNothing) {
  int grandchild[2];
  ASSERT_EQ(::pipe(grandchild), 0);
  std::optional<FolderLock> held;
  Child child([&] {
    held.emplace(lock());
    const pid_t helper = ::fork();
    if (helper == 0) {
      held.reset();  // what a helper that unwinds does must not matter either
      for (;;) ::pause();
    }
    (void)!::write(grandchild[1], &helper, sizeof helper);
  });
  ASSERT_TRUE(child.did());
  pid_t helper = -1;
  ASSERT_EQ(::read(grandchild[0], &helper, sizeof helper), static_cast<ssize_t>(sizeof helper));
  EXPECT_EQ(holder_of(folder_), process_name(child.process()));
  child.kill();
  ASSERT_EQ(::kill(helper, 0), 0);  // it lives
  const FolderLock mine = lock();
  EXPECT_TRUE(mine.is_held());
  ::kill(helper, SIGKILL);
  ::close(grandchild[0]);
  ::close(grandchild[1]);
}

TEST_F(FolderLockTest, AForkedChildHasNotTheRightOfItsParent) {
  std::optional<FolderLock> held(lock());
  const Child child([&] {
    if (held->is_held()) return;             // did() says that something is wrong
    held.reset();                            // releases nothing of the parent's
    FolderLock(folder_, Kind::writer, "x");  // throws
  });
  EXPECT_FALSE(child.did());
  EXPECT_TRUE(held->is_held());
  EXPECT_EQ(holder_of(folder_), process_name(::getpid()));
}

TEST_F(FolderLockTest, AProgramThatIsStartedDoesNotInheritIt) {
  const FolderLock held = lock();
  const std::string out = (folder_ / "descriptors").string();
  std::string shell = "/bin/sh", option = "-c", line = "ls -l /proc/self/fd > '" + out + "'";
  char* const arguments[] = {shell.data(), option.data(), line.data(), nullptr};
  pid_t child = -1;
  ASSERT_EQ(::posix_spawn(&child, shell.c_str(), nullptr, nullptr, arguments, environ), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  std::FILE* const file = std::fopen(out.c_str(), "r");
  ASSERT_NE(file, nullptr);
  std::string text;
  for (int c; (c = std::fgetc(file)) != EOF;) text += static_cast<char>(c);
  std::fclose(file);
  EXPECT_NE(text.find("descriptors"), std::string::npos) << text;
  EXPECT_EQ(text.find(FolderLock::kFile), std::string::npos) << text;
}

TEST_F(FolderLockTest, AProcessHasOneRunInAFolderAndWritersBesideIt) {
  std::optional<FolderLock> run(lock());
  const std::string message = refusal();
  EXPECT_NE(message.find(process_name(::getpid())), std::string::npos) << message;
  FolderLock writer = lock(Kind::writer);
  run.reset();
  EXPECT_TRUE(writer.is_held());
  {
    const Child child([&] { lock(); });
    EXPECT_FALSE(child.did());  // the writer still holds it
  }
  run.emplace(lock());
  FolderLock moved = std::move(*run);
  run.reset();
  refusal();
  moved = std::move(writer);
  const Child child([&] { lock(); });
  EXPECT_FALSE(child.did());
}

TEST_F(FolderLockTest, TheFolderIsFreeAfterTheLastHolder) {
  {
    const FolderLock a = lock(), b = lock(Kind::writer);
  }
  EXPECT_EQ(holder_of(folder_), "");
  const Child child([&] { lock(); });
  EXPECT_TRUE(child.did());
}

// In another container, or on another host, the number of the process that writes says nothing: its
// unfinished file looks like one that a dead process left.
TEST_F(FolderLockTest, TheHoldersUnfinishedFilesStay) {
  pid_t gone = ::fork();
  if (gone == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(gone, nullptr, 0), gone);
  const std::filesystem::path file = folder_ / (".systole-" + std::to_string(gone) + "-0.tmp");
  ASSERT_GE(::close(::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)), 0);
  {
    std::optional<FolderLock> held;
    const Child child([&] { held.emplace(lock()); });
    ASSERT_TRUE(child.did());
    const training::CheckpointFolder reader(folder_);
    EXPECT_FALSE(reader.load());
    EXPECT_TRUE(std::filesystem::exists(file));
  }
  const training::CheckpointFolder next(folder_);
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_EQ(holder_of(folder_), "");  // the lock was for that moment
}

TEST_F(FolderLockTest, WhoOnlyAsksDoesNotStandInTheWay) {
  const pid_t asking = ::fork();
  if (asking == 0)
    for (;;) {
      holder_of(folder_);
      ::usleep(200);
    }
  for (int round = 0; round < 200; ++round) EXPECT_TRUE(lock().is_held());
  ::kill(asking, SIGKILL);
  ::waitpid(asking, nullptr, 0);
}

TEST_F(FolderLockTest, WhatIsNoFileIsRefusedWithoutWaiting) {
  ASSERT_EQ(::mkfifo((folder_ / FolderLock::kFile).c_str(), 0600), 0);
  EXPECT_NE(refusal().find("lock file"), std::string::npos);
  EXPECT_EQ(holder_of(folder_), "");
  std::filesystem::remove(folder_ / FolderLock::kFile);
  std::filesystem::create_symlink(folder_ / "elsewhere", folder_ / FolderLock::kFile);
  EXPECT_NE(refusal().find("lock file"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "elsewhere"));
  error_of(ErrorKind::kNotFound, [&] { FolderLock(folder_ / "none", Kind::run, "x"); });
}

TEST_F(FolderLockTest, TheHoldersTextIsShownAsPlainText) {
  const Child child([&] {
    static FolderLock held = lock();
    const int file = ::open((folder_ / FolderLock::kFile).c_str(), O_WRONLY | O_TRUNC);
    (void)!::write(file, "a\x1b[2Jb\nc", 8);
  });
  EXPECT_EQ(holder_of(folder_), "a?[2Jb");
}

}  // namespace
}  // namespace systole
