#include "cli/train/run_folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "base/file.h"
#include "cli/train/value.h"
#include "systole/base/error.h"
#include "systole/train/history.h"

namespace systole::cli {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kConfigHead = "# Every setting of this run, written by systole train.\n";

// A word as a shell reads it.
std::string in_shell(const std::string& word) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=:,./@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

[[noreturn]] void refuse_folder(const fs::path& folder, const std::error_code& error) {
  throw Error(ErrorKind::kIo, folder.string(), fmt::format("cannot make the folder: {}", error.message()));
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) refuse_folder(folder, error);
}

// runs/NAME-1 and so on. Of two commands that begin at the same time each makes its own.
fs::path new_folder(const std::string& name) {
  make_folder("runs");
  for (int number = 1;; ++number) {
    fs::path folder = fs::path("runs") / fmt::format("{}-{}", name, number);
    std::error_code error;
    if (fs::create_directory(folder, error)) return folder;
    if (error && error != std::errc::file_exists) refuse_folder(folder, error);
  }
}

// What is in the folder beside its lock; nothing when there is no folder.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (it->path().filename() != FolderLock::kFile) entries.push_back(it->path());
  return entries;
}

void empty_folder(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return;
  const FolderLock lock = lock_run(folder);  // a program may train there without the command
  for (const fs::path& entry : entries_of(folder)) fs::remove_all(entry, error);
}

void forget_run(const fs::path& folder) {
  std::error_code error;
  empty_folder(folder / "checkpoints");
  fs::remove_all(folder / "logs", error);
  for (const char* old : {"model.safetensors", "best.safetensors", "history.csv", "confusion.csv"})
    fs::remove(folder / old, error);
}

// Throws when the folder holds a run that would be lost.
void refuse_other_run(const Settings& settings, const fs::path& folder) {
  if (!fs::exists(folder / "model.safetensors") && entries_of(folder / "checkpoints").empty()) return;
  std::vector<std::string> changes = changed_keys(read_regular_text_file(folder / "config.toml"), settings);
  if (const std::size_t done = epochs_done(folder); static_cast<std::int64_t>(done) > settings.train.epochs)
    changes.push_back(fmt::format("train.epochs is {} and {} are done", settings.train.epochs, done));
  if (!changes.empty())
    throw Error(ErrorKind::kInvalidArgument, folder.string(),
                fmt::format("it holds a run with other settings: {}; --fresh begins anew, another --out "
                            "keeps both",
                            fmt::join(changes, ", ")));
}

bool has_config(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / "config.toml", error);
}

bool wrote_config(const fs::path& folder) {
  return read_regular_text_file(folder / "config.toml").starts_with(kConfigHead);
}

}  // namespace

bool is_run(const fs::path& folder) try {
  return has_config(folder) && wrote_config(folder);
} catch (const Error&) {
  return false;  // it cannot be read
}

FolderLock lock_run(const fs::path& folder) {
  return FolderLock(folder, FolderLock::Kind::run, "another --out");
}

std::string command_to_go_on(const fs::path& folder) {
  const std::string place = in_shell(folder.string());
  return reads_toml()
             ? fmt::format("systole train {} --out {}", in_shell((folder / "config.toml").string()), place)
             : fmt::format("the command that began it, with --out {}", place);
}

std::size_t epochs_done(const fs::path& folder) {
  const fs::path history = folder / "history.csv";
  if (!fs::exists(history)) return 0;
  open_regular_file(history);
  return training::History::read_csv(history).epochs();
}

RunFolder open_run(const Settings& settings, const TrainingPlace& place, const std::string& name,
                   std::optional<FolderLock> lock) {
  const fs::path folder = place.out.empty() ? new_folder(name) : fs::path(place.out);
  const fs::path config = folder / "config.toml";
  if (has_config(folder) && !wrote_config(folder))
    throw Error(ErrorKind::kInvalidArgument, config.string(),
                "it was not written by systole train and would be overwritten", "another --out");
  make_folder(folder);
  RunFolder run{folder, lock ? *std::move(lock) : lock_run(folder)};
  if (has_config(folder)) {
    if (place.fresh)
      forget_run(folder);
    else
      refuse_other_run(settings, folder);
  }
  const std::string text = fmt::format("{}{}", kConfigHead, to_toml(settings));
  write_file(config, std::as_bytes(std::span(text)));
  return run;
}

}  // namespace systole::cli
