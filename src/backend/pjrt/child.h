#pragma once

// Work that may crash, hang or call exit(), done in a process of its own with a time limit. A new process of
// a `systole` command has none of this one's threads, locks and device contexts, so it is preferred to a fork
// that goes on in the middle.

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace systole::pjrt {

inline constexpr int kChildAnswer = 3, kChildQuestion = 4;  // descriptors of the child

struct ChildWork {
  std::filesystem::path helper;        // the `systole` to run; empty: a fork of this process
  std::vector<std::string> arguments;  // … with these
  std::function<void()> here;          // what the fork does instead; it ends the process
  std::string question;                // what the child reads from kChildQuestion
  std::vector<std::string> variables;  // "NAME=value", each set when the environment has no NAME
  std::chrono::milliseconds limit{60'000};
};

struct ChildResult {
  std::string answer;  // what it wrote to kChildAnswer
  std::string said;    // the last lines of its output, for a message
  std::string
      failure;  // how it ended when not by itself: "crashed (Aborted)", "took more than 5 s"; else empty
};

// Throws kIo when no process can be started, be it that the helper cannot be run.
ChildResult run_in_child(const ChildWork& work, const std::string& where);

// This program when it is `systole`, one beside it, one that belongs to this library, or one in PATH; empty
// when there is none.
std::filesystem::path find_helper();
std::filesystem::path find_helper(const std::filesystem::path& program, const std::filesystem::path& library,
                                  const std::string& search);

// For the child: everything a descriptor has from its start, and the end of the process with an answer.
std::string read_all(int descriptor);
[[noreturn]] void answer_and_leave(const std::string& answer, int descriptor = kChildAnswer);

}  // namespace systole::pjrt
