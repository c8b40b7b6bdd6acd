#pragma once

// The folder of a run as one process has it at a time. training.h lists its files.

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/folder_lock.h"
#include "cli/train/settings.h"

namespace systole::cli {

// The exit code of work that a signal interrupted, and its number: 130 after Ctrl-C, 143 after SIGTERM, as
// shells have it of a command that a signal ended.
inline constexpr int kInterrupted = 128;

struct TrainingPlace {
  std::string out;     // empty: runs/DATA-MODEL-NUMBER
  bool fresh = false;  // forget what is there
};

struct RunFolder {
  std::filesystem::path path;
  FolderLock lock;
};

// Whether systole train wrote there.
bool is_run(const std::filesystem::path& folder);

// Throws kIo naming the process and host that write to the run now.
FolderLock lock_run(const std::filesystem::path& folder);

// The folder, made, locked and with its config.toml; `name` is for one without --out. Throws when it holds a
// run of other settings, or a file of the user's, that would be lost.
RunFolder open_run(const Settings& settings, const TrainingPlace& place, const std::string& name,
                   std::optional<FolderLock> lock);

// The command with which the run in the folder goes on.
std::string command_to_go_on(const std::filesystem::path& folder);

// What the run in the folder has trained already; 0 where there is none.
std::size_t epochs_done(const std::filesystem::path& folder);

}  // namespace systole::cli
