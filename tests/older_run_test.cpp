// A run that an older version wrote (tests/data/run: two epochs of an MLP of four hidden units on the
// digits): its model is loaded, and its training goes on to the numbers that the same version has after three
// epochs without a pause.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "command_check.h"
#include "systole/train/history.h"

namespace systole {
namespace {

class OlderRun : public CommandFolder {
 protected:
  void SetUp() override {
    CommandFolder::SetUp();
    std::filesystem::copy(SYSTOLE_TEST_DATA "/run", folder_ / "run",
                          std::filesystem::copy_options::recursive);
  }
};

TEST_F(OlderRun, ItsModelIsLoaded) {
  const Outcome outcome = run("evaluate run --device cpu");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.last_line(), "test accuracy 0.6958 loss 1.0460");
}

TEST_F(OlderRun, ItsTrainingGoesOn) {
  if (!reads_toml()) GTEST_SKIP() << "this build has no toml++";
  const Outcome outcome = run("train run/config.toml --out run --epochs 3");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("going on from step 626"), std::string::npos) << outcome.out;
  const training::History history = training::History::read_csv(folder_ / "run/history.csv");
  ASSERT_EQ(history.epochs(), 3u);
  EXPECT_NEAR(history.last("loss").value(), 0.9626006, 1e-4);
}

}  // namespace
}  // namespace systole
