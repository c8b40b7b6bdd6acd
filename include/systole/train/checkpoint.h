#pragma once

// Checkpoints: everything a run needs to go on as if nothing had happened, in numbered safetensors files with
// a checksum. A file appears under its name only when all of it is on the disk; the newest that is whole is
// loaded, whatever a crash left behind.
//
//   training::CheckpointFolder checkpoints("run/checkpoints", {.keep = 3});
//   Parameters state = training::joined({{"model", variables(net)}, {"optimizer", opt.state()}});
//   if (auto last = checkpoints.load()) training::restore(state, *last), epoch =
//   std::stoi(last->metadata["epoch"]); … checkpoints.save(step, state, {{"epoch", std::to_string(epoch)}});
//
// Saving beside training: snapshot() copies the state to the host, which is the only part that must wait; the
// copy is written by another thread while training goes on.
//
//   training::Checkpoint copy = training::snapshot(step, state, metadata);
//   std::jthread writer([&, copy] { checkpoints.write(copy); });

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "systole/base/export.h"
#include "systole/base/literal.h"
#include "systole/io/safetensors.h"
#include "systole/nn/module.h"

namespace systole::training {

// A state on the host.
struct Checkpoint {
  std::int64_t step = 0;
  std::map<std::string, Literal> values;  // by name
  io::Metadata metadata;                  // epoch, position in the data, history, …
};

// Several lists of Variables as one: "model.fc1.weight", "optimizer.adam.step". A prefix may be empty.
SYSTOLE_API Parameters joined(std::initializer_list<std::pair<std::string, Parameters>> parts);

// The values of now. Evaluates what is pending; nothing that is done to the Variables later changes the copy.
SYSTOLE_API Checkpoint snapshot(std::int64_t step, const Parameters& state, io::Metadata metadata = {});

// Assigns the values to the Variables, where they are. Throws kNotFound naming every Variable without a value
// and every value without a Variable, kShape or kDType for another type; then nothing was assigned.
SYSTOLE_API void restore(const Parameters& state, const Checkpoint& checkpoint);

// One file, complete and with the right checksum, or kParse saying what is wrong with it.
SYSTOLE_API Checkpoint load_checkpoint(const std::filesystem::path& file);
SYSTOLE_API void save_checkpoint(const std::filesystem::path& file, const Checkpoint& checkpoint);

struct CheckpointOptions {
  int keep = 3;               // newest files that stay, at least 1; what save_best() wrote stays in any case
  int retries = 3;            // when the disk is full or fails
  double wait_seconds = 0.5;  // before the first retry; twice as long before each further one
};

// A folder that one process writes to, of which threads may use it at the same time: what writes first locks
// it, until the last CheckpointFolder of the process that wrote is gone. Another process that wants to write
// gets kIo, which names the process and host that do. Reading needs no lock.
class SYSTOLE_API CheckpointFolder {
 public:
  // Makes the folder, and removes what killed writers left unfinished, unless another process writes there.
  explicit CheckpointFolder(std::filesystem::path folder, CheckpointOptions options = {});

  // Writes "step-00001200.safetensors" and removes old ones. When the disk refuses: tries again, then throws
  // kIo; every file is as it was.
  void save(std::int64_t step, const Parameters& state, io::Metadata metadata = {});
  void write(const Checkpoint& checkpoint);
  // Writes "best.safetensors", which stays until the next call.
  void save_best(std::int64_t step, const Parameters& state, io::Metadata metadata = {});
  void write_best(const Checkpoint& checkpoint);

  // The newest that is whole; those passed over are named, with the reason, in a warning of the log and in
  // `skipped`. None when there is no file at all; throws kParse when there are files and none is whole.
  std::optional<Checkpoint> load(std::vector<std::string>* skipped = nullptr) const;
  Checkpoint load(std::int64_t step) const;     // throws kNotFound with the steps there are
  std::optional<Checkpoint> load_best() const;  // none when there is no such file

  void clear();  // removes them all, for a run that begins anew

  struct Entry {
    std::int64_t step;
    std::filesystem::path file;
  };
  std::vector<Entry> list() const;  // by step, oldest first; not whether they are whole
  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path file(std::int64_t step) const;
  std::filesystem::path best_file() const { return folder_ / "best.safetensors"; }

 private:
  struct Lock;
  void write_to(const std::filesystem::path& file, const Checkpoint& checkpoint) const;
  void remove_old(std::int64_t newest) const;
  void lock() const;

  std::filesystem::path folder_;
  CheckpointOptions options_;
  std::shared_ptr<Lock> lock_;  // of the copies too
};

// Kernels that were chosen by their time, as text for a checkpoint's metadata: a resumed run that is given it
// before it compiles anything makes the same choices. In deterministic mode nothing is chosen by time and the
// text is empty. Throws kParse for text of another form.
SYSTOLE_API std::string tuning_choices();
SYSTOLE_API void set_tuning_choices(std::string_view text);

}  // namespace systole::training
