// Child processes: how they start, what is told of one that does not, and where their program is found.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>

#include "../sanitized.h"
#include "../scratch_folder.h"
#include "backend/pjrt/child.h"
#include "systole/base/error.h"

namespace systole::pjrt {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

// Sets the number of descriptors that this process may have, until the end of a test.
class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t count) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit few{count, before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  rlimit before_{};
};

ChildWork child_that(std::function<void()> here) {
  ChildWork work;
  work.here = std::move(here);
  work.question = "question";
  work.limit = 20s;
  return work;
}

std::string error_of(const ChildWork& work) {
  try {
    run_in_child(work, "test");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    return error.what();
  }
  return "nothing was thrown";
}

TEST(PjrtChild, StartsWithFewDescriptors) {
  const FewDescriptors few(40);
  const ChildResult result =
      run_in_child(child_that([] { answer_and_leave(read_all(kChildQuestion) + ", answer"); }), "test");
  EXPECT_EQ(result.failure, "");
  EXPECT_EQ(result.answer, "question, answer");
}

TEST(PjrtChild, OneThatCannotStartIsAnErrorThatNamesIt) {
  ChildWork work = child_that([] { answer_and_leave("unreachable"); });
  if (!kSanitized) {
    const std::array<int, 3> next = {::dup(STDIN_FILENO), ::dup(STDIN_FILENO), ::dup(STDIN_FILENO)};
    for (const int descriptor : next) ::close(descriptor);
    const FewDescriptors few(static_cast<rlim_t>(next[2]) + 1);  // enough to try
    EXPECT_EQ(error_of(work), "test: cannot start a process: too few descriptors");
  }
  work.helper = "/nowhere/systole";
  EXPECT_EQ(error_of(work), "test: cannot start /nowhere/systole: it cannot be run");
}

TEST(PjrtChild, HasNoBlockedSignals) {
  sigset_t blocked, before;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before);
  const ChildResult result =
      run_in_child(child_that([] {
                     sigset_t mine;
                     ::sigprocmask(SIG_BLOCK, nullptr, &mine);
                     answer_and_leave(::sigismember(&mine, SIGTERM) ? "blocked" : "open");
                   }),
                   "test");
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(result.answer, "open");
}

TEST(PjrtChild, OfALongOutputTheEndIsTold) {
  const ChildResult result = run_in_child(child_that([] {
                                            const std::string lines(1 << 20, '\n');
                                            const std::string end = "last but one\nlast\n";
                                            for (const std::string& text : {"first\n" + lines, end})
                                              if (::write(STDERR_FILENO, text.data(), text.size()) < 0)
                                                ::_exit(1);
                                            ::_exit(3);
                                          }),
                                          "test");
  EXPECT_EQ(result.said, "last but one / last");
  EXPECT_EQ(result.failure, "ended the process with code 3");
}

class PjrtHelper : public ScratchFolder {};

TEST_F(PjrtHelper, IsFoundBesideTheProgramTheLibraryOrInPath) {
  const auto program = [&](const std::string& file) {
    fs::create_directories((folder_ / file).parent_path());
    std::ofstream(folder_ / file) << "#!/bin/sh\n";
    fs::permissions(folder_ / file, fs::perms::owner_all);
    return folder_ / file;
  };
  const fs::path mine = folder_ / "app/mine", library = folder_ / "usr/lib/libsystole.so";
  const std::string search = "relative:" + (folder_ / "none").string() + ":" + (folder_ / "path").string();
  EXPECT_EQ(find_helper("/a/systole", library, search), "/a/systole");
  EXPECT_EQ(find_helper(mine, library, search), "");
  const fs::path in_path = program("path/systole");
  EXPECT_EQ(find_helper(mine, library, search), in_path);
  const fs::path of_library = program("usr/bin/systole");
  EXPECT_EQ(find_helper(mine, library, search), of_library);
  EXPECT_EQ(find_helper(mine, folder_ / "usr/lib/x86_64-linux-gnu/libsystole.so", search), of_library);
  const fs::path beside = program("app/systole");
  EXPECT_EQ(find_helper(mine, library, search), beside);
  fs::permissions(beside, fs::perms::owner_read);  // no program any more
  EXPECT_EQ(find_helper(mine, library, search), of_library);
}

}  // namespace
}  // namespace systole::pjrt
