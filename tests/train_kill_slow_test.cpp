// kill -9 at any moment loses at most the work since the last checkpoint: `systole train`, killed twenty
// times at random moments and started again each time, ends with the very weights of a run that was left
// alone.

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "systole/io/safetensors.h"
#include "systole/tensor/tensor.h"

#ifdef SYSTOLE_COMMAND

namespace systole {
namespace {

constexpr int kKills = 20;

// Started in a process of its own; nothing of it is seen.
pid_t start(const std::filesystem::path& out) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  if (::freopen("/dev/null", "w", stdout) == nullptr || ::freopen("/dev/null", "w", stderr) == nullptr)
    ::_exit(9);
  const std::string folder = out.string();
  ::execl(SYSTOLE_COMMAND, SYSTOLE_COMMAND, "train", "--model", "cnn3", "--data", "digits", "--device", "cpu",
          "--out", folder.c_str(), "--set", "data.limit=2000", "--set", "train.epochs=6", "--set",
          "train.batch=32", "--set", "train.checkpoint_steps=5", "--set", "train.ema=0.9", "--set",
          "data.augment=[\"crop 2\"]", nullptr);
  ::_exit(9);
}

int wait_for(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

TEST(KilledTraining, EndsWithTheWeightsOfOneThatWasLeftAlone) {
  std::string name = (std::filesystem::temp_directory_path() / "systole-test-XXXXXX").string();
  const std::filesystem::path folder = ::mkdtemp(name.data());
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(wait_for(start(folder / "whole")), 0);
  const double whole = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();

  std::mt19937 random(std::random_device{}());
  // Each attempt lives long enough to get somewhere, and short enough for all kills to come.
  std::uniform_real_distribution<double> moment(0.05 * whole, 0.35 * whole);
  int kills = 0, ended = 0;
  while (kills < kKills && ended < kKills) {
    const pid_t child = start(folder / "killed");
    std::this_thread::sleep_for(std::chrono::duration<double>(moment(random)));
    ::kill(child, SIGKILL);
    const int status = wait_for(child);
    WIFSIGNALED(status) ? ++kills : ++ended;
    if (!WIFSIGNALED(status)) {
      ASSERT_EQ(status, 0);
      // Done before all kills came: the rest hits a run that begins anew.
      std::filesystem::rename(folder / "killed", folder / ("done" + std::to_string(ended)));
    }
  }
  EXPECT_EQ(kills, kKills);
  ASSERT_EQ(wait_for(start(folder / "killed")), 0);
  if (ended > 0) std::printf("%d runs ended between the kills\n", ended);

  const std::map<std::string, Tensor> expected = io::load_safetensors(folder / "whole" / "model.safetensors");
  ASSERT_FALSE(expected.empty());
  for (int i = 0; i <= ended; ++i) {
    const std::filesystem::path run = folder / (i == 0 ? "killed" : "done" + std::to_string(i));
    const std::map<std::string, Tensor> got = io::load_safetensors(run / "model.safetensors");
    ASSERT_EQ(got.size(), expected.size());
    for (const auto& [key, value] : expected)
      EXPECT_TRUE(got.at(key).literal().same_bits(value.literal())) << run << " " << key;
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace systole

#endif
