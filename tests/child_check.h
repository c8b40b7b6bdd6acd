#pragma once

// Tests that leave a process in which others cannot run: each has one of its own.

#include <spawn.h>
#include <sys/wait.h>

#include <filesystem>
#include <string>

extern char** environ;

namespace systole {

// This program again, running one test that is otherwise off.
inline bool passes_in_a_child(const std::string& test) {
  std::string program = std::filesystem::read_symlink("/proc/self/exe").string(),
              filter = "--gtest_filter=" + test, off = "--gtest_also_run_disabled_tests",
              brief = "--gtest_brief=1";
  char* const arguments[] = {program.data(), filter.data(), off.data(), brief.data(), nullptr};
  pid_t child = -1;
  if (::posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments, environ) != 0) return false;
  int status = -1;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace systole
