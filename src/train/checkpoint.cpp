#include "systole/train/checkpoint.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>

#include "backend/tuning.h"
#include "base/file.h"
#include "base/folder_lock.h"
#include "base/log.h"
#include "base/whole_number.h"
#include "systole/base/error.h"
#include "systole/io.h"

namespace systole::training {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kStepKey = "systole.step";
constexpr std::string_view kPrefix = "step-", kSuffix = ".safetensors";

std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return std::nullopt;
  return whole_number(
      std::string_view(name).substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size()));
}

// ".systole-PID-NUMBER.tmp", of a process that is gone, or runs in another container or on another host:
// numbers of processes mean nothing there.
bool is_left_over(const std::string& name) {
  constexpr std::string_view kBegin = ".systole-", kEnd = ".tmp";
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) return false;
  const std::string_view rest = std::string_view(name).substr(kBegin.size());
  const std::optional<std::int64_t> process = whole_number(rest.substr(0, rest.find('-')));
  return process && *process > 0 && ::kill(static_cast<pid_t>(*process), 0) != 0 && errno == ESRCH;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code code;
  for (fs::directory_iterator it(folder, code), end; !code && it != end; it.increment(code))
    names.push_back(it->path().filename().string());
  if (code && code != std::errc::no_such_file_or_directory)
    throw Error(ErrorKind::kIo, folder.string(), "cannot list the folder: " + code.message());
  return names;
}

// What killed writers left, unless another process writes there: it may be that one's. What stays costs room,
// nothing else.
void remove_left_over(const fs::path& folder) {
  std::vector<std::string> names = names_in(folder);
  std::erase_if(names, [](const std::string& name) { return !is_left_over(name); });
  if (names.empty()) return;
  try {
    const FolderLock lock(folder, FolderLock::Kind::writer, "another folder");
    std::error_code code;
    for (const std::string& name : names) fs::remove(folder / name, code);
  } catch (const Error&) {
  }
}

// One that was found in a folder: a pipe of that name would be waited for.
Checkpoint load_found(const fs::path& file) {
  (void)open_regular_file(file);
  return load_checkpoint(file);
}

void remove_file(const fs::path& file) {
  std::error_code code;
  fs::remove(file, code);
  if (code) throw Error(ErrorKind::kIo, file.string(), "cannot remove the file: " + code.message());
}

}  // namespace

Parameters joined(std::initializer_list<std::pair<std::string, Parameters>> parts) {
  Parameters all;
  std::set<std::string> taken;
  for (const auto& [prefix, list] : parts)
    for (const auto& [name, variable] : list) {
      std::string full = prefix.empty() ? name : prefix + "." + name;
      if (!taken.insert(full).second)
        throw Error(ErrorKind::kInvalidArgument, "joined", fmt::format("the name \"{}\" stands twice", full),
                    "a prefix of its own for each part");
      all.add(std::move(full), variable);
    }
  return all;
}

Checkpoint snapshot(std::int64_t step, const Parameters& state, io::Metadata metadata) {
  std::vector<Tensor> values;
  for (const Variable& variable : state.variables()) values.push_back(variable.value());
  evaluate(std::span<const Tensor>(values));
  Checkpoint out{.step = step, .values = {}, .metadata = std::move(metadata)};
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!out.values.emplace(state.names()[i], values[i].literal()).second)
      throw Error(ErrorKind::kInvalidArgument, "snapshot",
                  fmt::format("the name \"{}\" stands twice", state.names()[i]), "joined() with prefixes");
  return out;
}

void restore(const Parameters& state, const Checkpoint& checkpoint) {
  std::vector<std::string> missing, unexpected;
  std::set<std::string_view> known;
  for (const auto& [name, variable] : state) {
    const auto found = checkpoint.values.find(name);
    if (found == checkpoint.values.end()) {
      missing.push_back(name);
      continue;
    }
    known.insert(found->first);
    const Type& got = found->second.type();
    if (got == variable.type()) continue;
    throw Error(got.shape == variable.shape() ? ErrorKind::kDType : ErrorKind::kShape, "restore",
                fmt::format("the value of \"{}\"", name), variable.type().to_string(), got.to_string());
  }
  for (const auto& [name, value] : checkpoint.values)
    if (!known.contains(name)) unexpected.push_back(name);
  if (!missing.empty() || !unexpected.empty()) {
    std::string message = "the checkpoint is of another model or optimiser";
    if (!missing.empty()) message += fmt::format("; missing: {}", fmt::join(missing, ", "));
    if (!unexpected.empty()) message += fmt::format("; unexpected: {}", fmt::join(unexpected, ", "));
    throw Error(ErrorKind::kNotFound, "restore", std::move(message));
  }
  std::vector<Tensor> values;  // all uploads succeed before the first assignment
  for (const auto& [name, variable] : state)
    values.push_back(Tensor(checkpoint.values.find(name)->second).to(variable.value().device().to_string()));
  for (std::size_t i = 0; i < values.size(); ++i) state[i].variable.assign(values[i]);
}

void save_checkpoint(const fs::path& file, const Checkpoint& checkpoint) {
  io::Metadata metadata = checkpoint.metadata;
  for (const auto& [key, value] : metadata)
    if (key.starts_with("systole."))
      throw Error(ErrorKind::kInvalidArgument, file.string(), "metadata under a key of the file's own",
                  "another than systole.…", key);
  metadata.emplace(kStepKey, std::to_string(checkpoint.step));
  std::vector<io::NamedArray> arrays;
  for (const auto& [name, value] : checkpoint.values) arrays.push_back({name, value});
  io::save_safetensors(file, arrays, metadata, {.digest = true});
}

Checkpoint load_checkpoint(const fs::path& file) {
  const io::SafetensorsReader reader(file);
  const std::optional<std::string> text = reader.metadata(kStepKey);
  const std::optional<std::int64_t> step = text ? whole_number(*text) : std::nullopt;
  const io::Digest digest = reader.check_digest();
  if (digest == io::Digest::none || !step)
    throw Error(ErrorKind::kParse, file.string(), "no checkpoint", "a file of save_checkpoint()",
                "a safetensors file without step and checksum");
  if (digest != io::Digest::right)
    throw Error(ErrorKind::kParse, file.string(), "the checkpoint is damaged", "the checksum of its content",
                digest == io::Digest::metadata ? "another one, of the header" : "another one, of the arrays");
  Checkpoint out{.step = *step, .values = {}, .metadata = reader.metadata()};
  out.metadata.erase(std::string(kStepKey));
  for (std::string& name : reader.names()) {
    Literal value = reader.read(name);
    out.values.emplace(std::move(name), std::move(value));
  }
  return out;
}

struct CheckpointFolder::Lock {
  std::mutex mutex;
  std::optional<FolderLock> held;
};

CheckpointFolder::CheckpointFolder(fs::path folder, CheckpointOptions options)
    : folder_(std::move(folder)), options_(options), lock_(std::make_shared<Lock>()) {
  if (options_.keep < 1 || options_.retries < 0)
    throw Error(ErrorKind::kInvalidArgument, "CheckpointFolder", "the options",
                "keep of 1, retries of 0, or more",
                fmt::format("keep {}, retries {}", options_.keep, options_.retries));
  std::error_code code;
  fs::create_directories(folder_, code);
  if (std::error_code other; !fs::is_directory(folder_, other))
    throw Error(ErrorKind::kIo, folder_.string(), "cannot make the folder: " + code.message());
  remove_left_over(folder_);
}

void CheckpointFolder::lock() const {
  const std::lock_guard guard(lock_->mutex);
  if (lock_->held && lock_->held->is_held()) return;
  lock_->held.reset();  // of the process that this one was forked from
  lock_->held.emplace(folder_, FolderLock::Kind::writer, "another folder");
}

fs::path CheckpointFolder::file(std::int64_t step) const {
  return folder_ / fmt::format("{}{:08}{}", kPrefix, step, kSuffix);
}

std::vector<CheckpointFolder::Entry> CheckpointFolder::list() const {
  std::vector<Entry> entries;
  for (const std::string& name : names_in(folder_))
    if (const std::optional<std::int64_t> step = step_of(name)) entries.push_back({*step, folder_ / name});
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.step < b.step; });
  return entries;
}

void CheckpointFolder::write_to(const fs::path& file, const Checkpoint& checkpoint) const {
  lock();
  std::chrono::duration<double> wait(options_.wait_seconds);
  for (int attempt = 0;; ++attempt) try {
      return save_checkpoint(file, checkpoint);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kIo) throw;
      if (attempt == options_.retries)
        throw Error(
            ErrorKind::kIo, file.string(),
            fmt::format("the checkpoint of step {} could not be written in {} attempts, the files there "
                        "are as they were: {}",
                        checkpoint.step, attempt + 1, error.message()));
      log(LogLevel::warn, fmt::format("checkpoint: {}; trying again", error.what()));
      std::this_thread::sleep_for(wait);
      wait *= 2;
    }
}

// Files of later steps are another run's, or damaged ones that were passed over: they do not count.
void CheckpointFolder::remove_old(std::int64_t newest) const {
  std::vector<Entry> entries = list();
  std::erase_if(entries, [&](const Entry& entry) { return entry.step > newest; });
  const auto keep = static_cast<std::size_t>(options_.keep);
  for (std::size_t i = 0; i + keep < entries.size(); ++i) try {
      remove_file(entries[i].file);
    } catch (const Error& error) {
      log(LogLevel::warn, fmt::format("checkpoint: {}", error.what()));
    }
}

void CheckpointFolder::write(const Checkpoint& checkpoint) {
  if (checkpoint.step < 0)
    throw Error(ErrorKind::kInvalidArgument, "CheckpointFolder", "a negative step", "0 or more",
                std::to_string(checkpoint.step));
  write_to(file(checkpoint.step), checkpoint);
  remove_old(checkpoint.step);
}

void CheckpointFolder::write_best(const Checkpoint& checkpoint) { write_to(best_file(), checkpoint); }

void CheckpointFolder::save(std::int64_t step, const Parameters& state, io::Metadata metadata) {
  write(snapshot(step, state, std::move(metadata)));
}
void CheckpointFolder::save_best(std::int64_t step, const Parameters& state, io::Metadata metadata) {
  write_best(snapshot(step, state, std::move(metadata)));
}

std::optional<Checkpoint> CheckpointFolder::load(std::vector<std::string>* skipped) const {
  const std::vector<Entry> entries = list();
  std::string reasons;
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) try {
      return load_found(entry->file);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kOutOfMemory) throw;
      log(LogLevel::warn, fmt::format("checkpoint: passing over {}: {}", entry->file.string(), error.what()));
      if (skipped != nullptr) skipped->push_back(error.what());
      reasons += fmt::format("{}{}", reasons.empty() ? "" : "; ", error.what());
    }
  if (!entries.empty())
    throw Error(ErrorKind::kParse, folder_.string(), "no checkpoint is whole: " + reasons);
  return std::nullopt;
}

Checkpoint CheckpointFolder::load(std::int64_t step) const {
  std::vector<std::int64_t> steps;
  for (const Entry& entry : list()) {
    if (entry.step == step) return load_found(entry.file);
    steps.push_back(entry.step);
  }
  throw Error(ErrorKind::kNotFound, folder_.string(), fmt::format("no checkpoint of step {}", step),
              steps.empty() ? "a folder with checkpoints" : fmt::format("one of {}", fmt::join(steps, ", ")));
}

std::optional<Checkpoint> CheckpointFolder::load_best() const {
  std::error_code code;
  if (!fs::exists(best_file(), code)) return std::nullopt;
  return load_found(best_file());
}

void CheckpointFolder::clear() {
  lock();
  for (const Entry& entry : list()) remove_file(entry.file);
  remove_file(best_file());
}

std::string tuning_choices() { return tuning::choices(); }
void set_tuning_choices(std::string_view text) { tuning::set_choices(text, "checkpoint"); }

}  // namespace systole::training
