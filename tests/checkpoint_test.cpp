// Checkpoints survive what disks and kills do to them (FAULTS 13, 14, 15).

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

#include "backend/tuning.h"
#include "base/file.h"
#include "base/folder_lock.h"
#include "base/log.h"
#include "error_check.h"
#include "scratch_folder.h"
#include "systole/systole.h"

namespace systole::training {
namespace {

namespace fs = std::filesystem;

class CheckpointTest : public ScratchFolder {
 protected:
  ~CheckpointTest() override {
    set_file_fault({});
    set_log_sink({});
  }
};

constexpr CheckpointOptions kPatient{.keep = 3, .retries = 2, .wait_seconds = 0};

// What a run that does not stop has after so many steps: a generator whose every state depends on all before.
std::vector<std::uint64_t> state_after(std::int64_t steps, std::vector<std::uint64_t> state = {},
                                       std::int64_t from = 0) {
  if (state.empty()) state.assign(300, 88172645463325252u);
  for (; from < steps; ++from)
    for (std::size_t i = 0; i < state.size(); ++i) {
      std::uint64_t x = state[i] + state[(i + 1) % state.size()] + i;
      x ^= x << 13, x ^= x >> 7, x ^= x << 17;
      state[i] = x;
    }
  return state;
}

Checkpoint checkpoint_of(std::int64_t step, const std::vector<std::uint64_t>& state) {
  Checkpoint out{.step = step, .values = {}, .metadata = {{"epoch", std::to_string(step / 10)}}};
  out.values.emplace("state", Literal::of<std::uint64_t>({static_cast<std::int64_t>(state.size())}, state));
  out.values.emplace("step", Literal::scalar(step));
  return out;
}
Checkpoint checkpoint_of(std::int64_t step) { return checkpoint_of(step, state_after(step)); }

std::vector<std::uint64_t> state_of(const Checkpoint& checkpoint) {
  const auto values = checkpoint.values.at("state").values<std::uint64_t>();
  return {values.begin(), values.end()};
}

void expect_whole(const std::optional<Checkpoint>& loaded, std::int64_t step) {
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(loaded->step, step);
  EXPECT_EQ(loaded->values.at("step").item<std::int64_t>(), step);
  EXPECT_EQ(state_of(*loaded), state_after(step));
  EXPECT_EQ(loaded->metadata, (io::Metadata{{"epoch", std::to_string(step / 10)}}));
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().filename() != FolderLock::kFile) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

TEST_F(CheckpointTest, KeepsTheNewestAndTheBest) {
  CheckpointFolder folder(folder_ / "run" / "checkpoints", kPatient);
  EXPECT_FALSE(folder.load().has_value());
  EXPECT_FALSE(folder.load_best().has_value());
  for (const std::int64_t step : {10, 20, 30, 40, 50}) {
    folder.write(checkpoint_of(step));
    if (step == 20) folder.write_best(checkpoint_of(step));
  }
  EXPECT_EQ(names_in(folder.folder()),
            (std::vector<std::string>{"best.safetensors", "step-00000030.safetensors",
                                      "step-00000040.safetensors", "step-00000050.safetensors"}));
  expect_whole(folder.load(), 50);
  expect_whole(folder.load(40), 40);
  expect_whole(folder.load_best(), 20);
  EXPECT_EQ(folder.list().front().step, 30);
  const std::string message = error_of(ErrorKind::kNotFound, [&] { folder.load(20); });
  EXPECT_NE(message.find("30, 40, 50"), message.npos) << message;
  folder.clear();
  EXPECT_TRUE(names_in(folder.folder()).empty());
}

TEST_F(CheckpointTest, AResumedRunGoesOnAsIfNothingHadHappened) {
  const Tensor x = Tensor(Literal::of<float>({4, 3}, {1, 0, 2, 1, 1, 0, -1, 2, 1, 0, 3, 1}));
  const Tensor y = Tensor(Literal::of<float>({4, 2}, {1, 0, 0, 1, 1, 1, 0, 0}));
  struct Run {
    nn::Sequential<nn::Linear, nn::BatchNorm, nn::Dropout, nn::Linear> net{
        nn::Linear(3, 5), nn::BatchNorm(5), nn::Dropout(0.3), nn::Linear(5, 2)};
    optim::Adam opt{parameters(net), {.lr = 0.05}};
    Parameters state = joined({{"model", variables(net)}, {"optimizer", opt.state()}, {"", key()}});
    static Parameters key() {
      Parameters list;
      list.add("random.key", random::default_key());
      return list;
    }
    void step(const Tensor& x, const Tensor& y) {
      auto [loss, grads] = value_and_grad(
          [&] {
            const Tensor d = net(x) - y;
            return mean(d * d);
          },
          parameters(net));
      opt.update(grads);
    }
  };
  random::seed(7);
  Run first;
  for (int i = 0; i < 5; ++i) first.step(x, y);
  CheckpointFolder folder(folder_);
  folder.save(5, first.state, {{"epoch", "1"}});
  const Checkpoint early = snapshot(5, first.state);
  for (int i = 0; i < 5; ++i) first.step(x, y);
  const Checkpoint a = snapshot(10, first.state);
  random::seed(8);
  Run second;
  restore(second.state, *folder.load());
  for (int i = 0; i < 5; ++i) second.step(x, y);
  const Checkpoint b = snapshot(10, second.state);
  ASSERT_EQ(a.values.size(), b.values.size());
  for (const auto& [name, value] : a.values) EXPECT_TRUE(value.same_bits(b.values.at(name))) << name;
  // A snapshot is a copy: five more steps changed nothing in it.
  const Checkpoint saved = *folder.load();
  for (const auto& [name, value] : early.values) EXPECT_TRUE(value.same_bits(saved.values.at(name))) << name;
}

TEST_F(CheckpointTest, AStateOfAnotherModelIsRefusedAndNothingIsAssigned) {
  Variable a(Tensor(Literal::scalar(1.0f))), b(Tensor(Literal::of<float>({2}, {1, 2})));
  Parameters state;
  state.add("a", a);
  state.add("b", b);
  const auto checkpoint = [](std::map<std::string, Literal> values) {
    return Checkpoint{.step = 1, .values = std::move(values), .metadata = {}};
  };
  const Literal one = Literal::scalar(5.0f), two = Literal::of<float>({2}, {5, 6});
  const std::string message =
      error_of(ErrorKind::kNotFound, [&] { restore(state, checkpoint({{"a", one}, {"c", two}})); });
  EXPECT_NE(message.find("missing: b"), message.npos) << message;
  EXPECT_NE(message.find("unexpected: c"), message.npos) << message;
  error_of(ErrorKind::kShape, [&] { restore(state, checkpoint({{"a", one}, {"b", one}})); });
  error_of(ErrorKind::kDType, [&] { restore(state, checkpoint({{"a", Literal::scalar(1.0)}, {"b", two}})); });
  EXPECT_EQ(a.item<float>(), 1);
  restore(state, checkpoint({{"a", one}, {"b", two}}));
  EXPECT_EQ(a.item<float>(), 5);
  EXPECT_EQ(b.to_vector<float>(), (std::vector<float>{5, 6}));
  error_of(ErrorKind::kInvalidArgument, [&] { joined({{"", state}, {"", state}}); });
}

TEST_F(CheckpointTest, AnotherThreadWritesWhileTrainingGoesOn) {
  CheckpointFolder folder(folder_, kPatient);
  Variable w(Tensor(Literal::full({DType::f32, {1000}}, 0)));
  Parameters state;
  state.add("w", w);
  std::vector<std::thread> writers;
  for (int step = 0; step < 8; ++step) {
    w.assign(Tensor(Literal::full({DType::f32, {1000}}, step)));
    writers.emplace_back([&folder, copy = snapshot(step, state)] { folder.write(copy); });
  }
  for (std::thread& writer : writers) writer.join();
  const Checkpoint last = *folder.load();
  EXPECT_EQ(last.values.at("w").to_doubles(), std::vector<double>(1000, static_cast<double>(last.step)));
}

// FAULTS 13. The child works on from the newest checkpoint and tells what it has saved; it is killed at any
// moment of its first saves.
TEST_F(CheckpointTest, TwoHundredKillsLoseNothingThatWasSaved) {
  std::mt19937 random(20240601);
  std::int64_t known = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 4; ++i) save_checkpoint(folder_ / "step-00000000.safetensors", checkpoint_of(0));
  const std::chrono::duration<double, std::micro> one_save = (std::chrono::steady_clock::now() - begin) / 4;
  std::uniform_int_distribution<std::int64_t> delay(0, 1 + static_cast<std::int64_t>(3 * one_save.count()));
  for (int round = 0; round < 200; ++round) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      try {
        CheckpointFolder folder(folder_, {.keep = 2});
        const std::optional<Checkpoint> last = folder.load();
        std::int64_t step = last->step;
        std::vector<std::uint64_t> state = state_of(*last);
        (void)!::write(ends[1], &step, sizeof step);  // from here on it saves
        for (;;) {
          state = state_after(step + 1, std::move(state), step);
          ++step;
          folder.write(checkpoint_of(step, state));
          (void)!::write(ends[1], &step, sizeof step);
        }
      } catch (...) {
      }
      ::_exit(1);
    }
    ::close(ends[1]);
    std::int64_t told = 0;
    ASSERT_EQ(::read(ends[0], &told, sizeof told), static_cast<ssize_t>(sizeof told));
    EXPECT_EQ(told, known);
    std::this_thread::sleep_for(std::chrono::microseconds(delay(random)));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status)) << "the child gave up by itself";
    while (::read(ends[0], &told, sizeof told) == sizeof told) known = told;
    ::close(ends[0]);
    std::vector<std::string> skipped;
    const CheckpointFolder folder(folder_, {.keep = 2});
    const std::optional<Checkpoint> loaded = folder.load(&skipped);
    EXPECT_TRUE(skipped.empty()) << skipped[0];
    ASSERT_TRUE(loaded.has_value());
    EXPECT_GE(loaded->step, known);
    EXPECT_LE(loaded->step, known + 1);
    known = loaded->step;
    if (round % 20 == 19) {
      EXPECT_EQ(state_of(*loaded), state_after(known));
    }
  }
  EXPECT_GT(known, 20);
  // What killed writers left unfinished is gone, and what they had no time to remove goes with the next save:
  // on a busy machine all of them may be killed before they remove anything.
  for (const std::string& name : names_in(folder_)) EXPECT_TRUE(name.starts_with("step-")) << name;
  CheckpointFolder(folder_, {.keep = 2}).write(checkpoint_of(known + 1));
  EXPECT_EQ(names_in(folder_).size(), 2u);
}

// FAULTS 14.
TEST_F(CheckpointTest, ADiskThatFailsAtAnyStepLeavesTheOldFilesAndIsTriedAgain) {
  CheckpointFolder folder(folder_, kPatient);
  folder.write(checkpoint_of(1));
  int count = 0;
  set_file_fault([&](FileStep) { return ++count, 0; });
  folder.write(checkpoint_of(1));
  const int steps = count;
  ASSERT_GE(steps, 7);  // open, three writes, sync, close, rename, sync of the folder
  for (const int code : {ENOSPC, EIO})
    for (int n = 1; n <= steps; ++n) {
      SCOPED_TRACE(std::to_string(code) + " at " + std::to_string(n));
      // Once: the next attempt succeeds.
      count = 0;
      set_file_fault([&](FileStep) { return ++count == n ? code : 0; });
      folder.write(checkpoint_of(2));
      expect_whole(folder.load(), 2);
      fs::remove(folder.file(2));
      // For good: a clear end, and what was there is there.
      count = 0;
      set_file_fault([&](FileStep) { return ++count >= n ? code : 0; });
      const std::string message = error_of(ErrorKind::kIo, [&] { folder.write(checkpoint_of(2)); });
      EXPECT_NE(message.find("3 attempts"), message.npos) << message;
      EXPECT_NE(message.find(code == ENOSPC ? "No space left" : "Input/output error"), message.npos)
          << message;
      set_file_fault({});
      const std::optional<Checkpoint> loaded = folder.load();
      ASSERT_TRUE(loaded.has_value());
      expect_whole(folder.load(1), 1);
      for (const std::string& name : names_in(folder_)) EXPECT_TRUE(name.starts_with("step-")) << name;
      fs::remove(folder.file(2));
    }
}

// A file that is replaced in place stays as it was, too.
TEST_F(CheckpointTest, AFailedWriteOfTheBestKeepsTheOldBest) {
  CheckpointFolder folder(folder_, kPatient);
  folder.write_best(checkpoint_of(1));
  for (const FileStep at :
       {FileStep::open, FileStep::write, FileStep::sync, FileStep::close, FileStep::rename}) {
    set_file_fault([&](FileStep step) { return step == at ? ENOSPC : 0; });
    error_of(ErrorKind::kIo, [&] { folder.write_best(checkpoint_of(2)); });
    set_file_fault({});
    expect_whole(folder.load_best(), 1);
  }
}

TEST_F(CheckpointTest, APipeInACheckpointsPlaceIsPassedOverAndNotWaitedFor) {
  const CheckpointFolder folder(folder_, kPatient);
  save_checkpoint(folder.file(1), checkpoint_of(1));
  ASSERT_EQ(::mkfifo(folder.file(2).c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo(folder.best_file().c_str(), 0600), 0);
  std::vector<std::string> skipped;
  expect_whole(folder.load(&skipped), 1);
  ASSERT_EQ(skipped.size(), 1u);
  EXPECT_NE(skipped[0].find("a regular file, got a pipe"), std::string::npos) << skipped[0];
  error_of(ErrorKind::kParse, [&] { folder.load(2); });
  error_of(ErrorKind::kParse, [&] { folder.load_best(); });
}

// FAULTS 15.
TEST_F(CheckpointTest, ATornFileIsNoticedAndTheOneBeforeItLoaded) {
  std::mutex mutex;
  std::vector<std::string> warnings;
  set_log_sink(
      [&](LogLevel, std::string_view message) {
        const std::lock_guard lock(mutex);
        warnings.emplace_back(message);
      },
      LogLevel::warn);
  const CheckpointFolder folder(folder_, kPatient);
  save_checkpoint(folder.file(1), checkpoint_of(1));
  save_checkpoint(folder.file(2), checkpoint_of(2));
  std::ifstream in(folder.file(2), std::ios::binary);
  const std::string whole(std::istreambuf_iterator<char>(in), {});
  const auto falls_back = [&](std::string_view what, const std::string& content) {
    SCOPED_TRACE(what);
    if (content == whole) return;
    std::ofstream(folder.file(2), std::ios::binary) << content;
    warnings.clear();
    std::vector<std::string> skipped;
    expect_whole(folder.load(&skipped), 1);
    ASSERT_EQ(skipped.size(), 1u);
    EXPECT_NE(skipped[0].find("step-00000002.safetensors"), std::string::npos) << skipped[0];
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_NE(warnings[0].find("passing over"), std::string::npos) << warnings[0];
  };
  constexpr std::size_t kBlock = 128;
  for (std::size_t at = 0; at < whole.size(); at += kBlock) {
    falls_back("the tail is missing", whole.substr(0, at));
    falls_back("the tail was never written", whole.substr(0, at) + std::string(whole.size() - at, '\0'));
    std::string hole = whole;
    hole.replace(at, std::min(kBlock, whole.size() - at), std::min(kBlock, whole.size() - at), '\0');
    falls_back("a block was never written", hole);
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 1);
    falls_back("a bit is another", flipped);
  }
  falls_back("the name came before the data", "");
  falls_back("bytes after the end", whole + "x");
  // Work goes on from 1; the damaged file neither counts nor stays for good.
  CheckpointFolder again(folder_, {.keep = 1});
  again.write(checkpoint_of(2));
  expect_whole(again.load(), 2);
  EXPECT_EQ(again.list().size(), 1u);
  for (const auto& entry : again.list()) std::ofstream(entry.file, std::ios::binary) << "torn";
  const std::string message = error_of(ErrorKind::kParse, [&] { again.load(); });
  EXPECT_NE(message.find("no checkpoint is whole"), message.npos) << message;
}

TEST_F(CheckpointTest, ADamagedNewerFileDoesNotPushTheGoodOnesOut) {
  CheckpointFolder folder(folder_, {.keep = 1});
  folder.write(checkpoint_of(10));
  std::ofstream(folder.file(30), std::ios::binary) << "torn";
  expect_whole(folder.load(), 10);
  folder.write(checkpoint_of(20));
  expect_whole(folder.load(), 20);
}

TEST_F(CheckpointTest, AnotherProcessMayReadButNotWriteWhatOneWrites) {
  std::optional<CheckpointFolder> folder(std::in_place, folder_);
  folder->write(checkpoint_of(1));
  const auto in_child = [&](const auto& work) {
    const pid_t child = ::fork();
    if (child == 0) {
      bool refused = false;
      try {
        work();
      } catch (const Error& error) {
        refused = error.kind() == ErrorKind::kIo &&
                  std::string(error.what()).find(std::to_string(::getppid())) != std::string::npos;
      }
      ::_exit(refused ? 1 : 0);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  const auto writes = [&] { CheckpointFolder(folder_).write(checkpoint_of(2)); };
  EXPECT_EQ(in_child([&] { CheckpointFolder(folder_).load(); }), 0);
  EXPECT_EQ(in_child(writes), 1);
  EXPECT_EQ(in_child([&] { CheckpointFolder(folder_).write_best(checkpoint_of(2)); }), 1);
  EXPECT_EQ(in_child([&] { CheckpointFolder(folder_).clear(); }), 1);
  EXPECT_EQ(in_child([&] { folder->write(checkpoint_of(2)); }), 1);
  CheckpointFolder(folder_).write_best(checkpoint_of(3));  // of the same process
  const CheckpointFolder copy = *folder;
  folder.reset();
  EXPECT_EQ(in_child(writes), 1);  // the copy holds it
  EXPECT_EQ(copy.list().size(), 1u);
}

TEST_F(CheckpointTest, AFolderIsFreeForTheNextProcessWhenItsWriterIsGone) {
  CheckpointFolder(folder_).write(checkpoint_of(1));
  const pid_t child = ::fork();
  if (child == 0) {
    CheckpointFolder(folder_).write(checkpoint_of(2));
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  expect_whole(CheckpointFolder(folder_).load(), 2);
}

TEST_F(CheckpointTest, OtherFilesAreNoCheckpoints) {
  io::save_safetensors(folder_ / "plain.safetensors",
                       std::vector<io::NamedArray>{{"a", Literal::scalar(1.0f)}});
  EXPECT_NE(
      error_of(ErrorKind::kParse, [&] { load_checkpoint(folder_ / "plain.safetensors"); }).find("checksum"),
      std::string::npos);
  error_of(ErrorKind::kNotFound, [&] { load_checkpoint(folder_ / "none.safetensors"); });
  error_of(ErrorKind::kInvalidArgument, [&] {
    save_checkpoint(folder_ / "x.safetensors",
                    {.step = 1, .values = {}, .metadata = {{"systole.step", "2"}}});
  });
  std::ofstream(folder_ / "file") << "x";
  error_of(ErrorKind::kIo, [&] { CheckpointFolder(folder_ / "file"); });
  error_of(ErrorKind::kInvalidArgument, [&] { CheckpointFolder(folder_, {.keep = 0}); });
  std::ofstream(folder_ / "step-abc.safetensors") << "x";
  EXPECT_TRUE(CheckpointFolder(folder_).list().empty());
}

TEST_F(CheckpointTest, ChoicesOfKernelsAreThoseOfTheRunThatIsResumed) {
  const tuning::Device device{"test", "a device\\of ours"};
  const tuning::Question question{.name = "product 3x4\tf32", .details = "here", .count = 3};
  int measured = 0;
  const auto measure = [&](int choice, double) { return ++measured, choice == 2 ? 1e-6 : 1e-3; };
  ASSERT_EQ(tuning::tuned(device, question, measure).choice, 2);
  const std::string text = tuning_choices();
  EXPECT_NE(text.find("product 3x4"), text.npos);
  std::string other = text;
  const std::size_t line = other.find("product 3x4");
  const std::size_t tab = other.find("\\n3\t", line) + 4;
  ASSERT_EQ(other[tab], '2');
  other[tab] = '1';
  set_tuning_choices(other);
  measured = 0;
  EXPECT_EQ(tuning::tuned(device, question, measure).choice, 1);
  EXPECT_EQ(measured, 0);
  EXPECT_EQ(tuning_choices(), other);
  set_tuning_choices("");
  for (const char* bad : {"x", "a\\n3\t7 0 0", "a\\n3\t1", "a\\nb\t1 0 0", "\t"})
    error_of(ErrorKind::kParse, [&] { set_tuning_choices(bad); });
}

}  // namespace
}  // namespace systole::training
