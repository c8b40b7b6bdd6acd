// systole profile as a person meets it: what it prints, the files it leaves, and what it refuses.

#include <gtest/gtest.h>

#ifdef SYSTOLE_COMMAND

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "command_check.h"

namespace systole {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kSmall = " --device cpu --steps 6 --skip 2 --no-roof";

class ProfileCli : public CommandFolder {
 protected:
  // Ctrl-C after so many seconds. Without --foreground it comes twice, and the second ends the process.
  Outcome interrupted(const std::string& arguments, int seconds) {
    const std::string line = "cd '" + folder_.string() +
                             "' && timeout --foreground --preserve-status -s INT " + std::to_string(seconds) +
                             " '" + SYSTOLE_COMMAND + "' " + arguments + " < /dev/null > stdout 2> stderr";
    const int status = std::system(line.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of(folder_ / "stdout"),
            text_of(folder_ / "stderr")};
  }
  // The folder has the three files, and they are what they should be.
  Json checked(const std::string& folder) {
    EXPECT_GT(fs::file_size(folder_ / folder / "index.html"), 10'000U);
    EXPECT_FALSE(Json::parse(text_of(folder_ / folder / "trace.json"))["traceEvents"].empty());
    Json json = Json::parse(text_of(folder_ / folder / "profile.json"));
    EXPECT_FALSE(json["rows"].empty());
    EXPECT_EQ(json["device"], "cpu");
    EXPECT_NEAR(json["busy_seconds"].get<double>() + json["idle_seconds"].get<double>(),
                json["seconds"].get<double>(), 1e-6);
    return json;
  }
};

TEST_F(ProfileCli, ATrainingOnDataAndTheRunItLeft) {
  const Outcome named = run("profile --model mlp --data 'digits?train=600&test=200' --set train.batch=32" +
                            std::string(kSmall));
  ASSERT_EQ(named.code, 0) << named.err;
  EXPECT_NE(named.out.find("mlp on digits, batch 32, cpu"), std::string::npos) << named.out;
  EXPECT_NE(named.out.find("profile/index.html"), std::string::npos) << named.out;
  EXPECT_GE(checked("profile")["steps"].get<int>(), 6);

  ASSERT_EQ(
      run("train --model mlp --data 'digits?train=600&test=200' --set train.epochs=1 --set train.plots=false "
          "--device cpu --out run")
          .code,
      0);
  const Outcome of_run = run("profile run" + std::string(kSmall));
  if (reads_toml()) {
    ASSERT_EQ(of_run.code, 0) << of_run.err;
    checked("run/profile");
  }
  const Outcome of_file = run("profile run/model.safetensors --batch 8 --out forwards" + std::string(kSmall));
  ASSERT_EQ(of_file.code, 0) << of_file.err;
  EXPECT_NE(of_file.out.find("batch 8"), std::string::npos) << of_file.out;
  checked("forwards");
}

TEST_F(ProfileCli, AModelByItselfBothWays) {
  const Outcome trained = run("profile --model mlp --batch 16 --out a" + std::string(kSmall));
  ASSERT_EQ(trained.code, 0) << trained.err;
  checked("a");
  const Outcome forwards = run("profile --model mlp --infer --batch 16 --out b" + std::string(kSmall));
  ASSERT_EQ(forwards.code, 0) << forwards.err;
  EXPECT_NE(forwards.out.find("mlp forwards, batch 16"), std::string::npos) << forwards.out;
  const Json json = checked("b");
  EXPECT_EQ(json["steps"], 6);
}

TEST_F(ProfileCli, AGraphAndAWorkload) {
  write(
      "sum.sir",
      "systole.ir 1\ngraph @main(%x: f32[N,4]) {\n  %y = reduce(%x) {kind=sum, axes=[1]}\n  return %y\n}\n");
  const Outcome graph = run("profile sum.sir --size N=8 --json" + std::string(kSmall));
  ASSERT_EQ(graph.code, 0) << graph.err;
  EXPECT_EQ(Json::parse(graph.out)["title"], "sum.sir");
  checked("profile");
  const Outcome work = run("profile T1 --batch 8 --many --out t1" + std::string(kSmall));
  ASSERT_EQ(work.code, 0) << work.err;
  EXPECT_NE(work.out.find("T1 mlp, batch 8, fp32, many steps a launch"), std::string::npos) << work.out;
  checked("t1");
}

TEST_F(ProfileCli, SaysWhatIsWrong) {
  EXPECT_EQ(run("profile").code, 2);
  EXPECT_EQ(run("profile T1 --model mlp").code, 2);
  const Outcome missing = run("profile nothing" + std::string(kSmall));
  EXPECT_EQ(missing.code, 1);
  EXPECT_NE(missing.err.find("nothing: there is no such file, run or workload"), std::string::npos)
      << missing.err;
  EXPECT_EQ(run("profile --model mpl" + std::string(kSmall)).code, 1);
  EXPECT_EQ(run("profile T1 --steps 0").code, 2);
  EXPECT_EQ(run("profile T1 --steps 99999999999999999999").code, 2);
  EXPECT_EQ(run("profile T1 --dtype foo").code, 2);
  EXPECT_EQ(run("profile T1 --data digits").code, 2);
  EXPECT_EQ(run("profile x.sir --batch 8").code, 2);
  EXPECT_EQ(run("profile --model mlp --many").code, 2);
  const Outcome kernel = run("profile K1 --many" + std::string(kSmall));
  EXPECT_EQ(kernel.code, 2);
  EXPECT_NE(kernel.err.find("--many is for workloads that train, which K1 does not"), std::string::npos)
      << kernel.err;
  for (const char* number : {"2.5", "1e9", "0", "x"}) {
    const Outcome wrong = run(std::string("profile T1 --steps ") + number);
    EXPECT_EQ(wrong.code, 2);
    EXPECT_NE(wrong.err.find(number + std::string(" is not a whole number from 1 to 1000000")),
              std::string::npos)
        << wrong.err;
  }
  EXPECT_NE(run("profile T1 --rows 0").err.find("0 is not a whole number from 1 to 1000000"),
            std::string::npos);
}

// Before the work is done: nothing is recorded for a folder that cannot be, or is another's.
TEST_F(ProfileCli, LooksAtTheFolderFirst) {
  write("file", "mine");
  fs::create_directory(folder_ / "site");
  write("site/index.html", "<!DOCTYPE html><title>Mine</title>");
  const std::string long_one = "profile --model mlp --batch 16 --device cpu --no-roof --steps 1000000 --out ";
  for (const char* place : {"file", "file/deep", "/proc/x", "site"}) {
    const Outcome refused = run(long_one + place);
    EXPECT_EQ(refused.code, 1);
    EXPECT_NE(refused.err.find(place), std::string::npos) << refused.err;
  }
  EXPECT_EQ(run("profile nothing --out none" + std::string(kSmall)).code, 1);
  EXPECT_FALSE(fs::exists(folder_ / "none"));
  EXPECT_EQ(text_of(folder_ / "site" / "index.html"), "<!DOCTYPE html><title>Mine</title>");
  EXPECT_EQ(run("profile --model mlp --batch 16 --out mine" + std::string(kSmall)).code, 0);
  EXPECT_EQ(run("profile --model mlp --batch 16 --out mine" + std::string(kSmall)).code, 0);  // its own
}

// The table is there when the disk is full at last.
TEST_F(ProfileCli, PrintsTheTableBeforeItSaves) {
  fs::create_directories(folder_ / "full" / "trace.json" / "in the way");
  const Outcome outcome = run("profile --model mlp --batch 16 --out full" + std::string(kSmall));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.out.find("mlp on random numbers, batch 16, cpu"), std::string::npos) << outcome.out;
}

TEST_F(ProfileCli, TakesAsManyStepsAsAreWanted) {
  // Of 300 steps an epoch: 20 each, as eight launches that may have 40 have 37.
  const Outcome some =
      run("profile --model mlp --data 'digits?train=600&test=200' --set train.batch=2 --device cpu --steps "
          "40 --skip "
          "0 --no-roof");
  ASSERT_EQ(some.code, 0) << some.err;
  EXPECT_EQ(checked("profile")["steps"], 40);
  const Outcome few =
      run("profile --model mlp --data 'digits?train=600&test=200' --set train.batch=2 --device cpu --steps 1 "
          "--skip 0 "
          "--no-roof");
  ASSERT_EQ(few.code, 0) << few.err;
  EXPECT_EQ(checked("profile")["steps"], 1);
}

// Ctrl-C ends it with what was recorded.
TEST_F(ProfileCli, TellsWhatWasRecordedWhenItIsInterrupted) {
  for (const std::string what : {"--model mlp --batch 16", "T1 --batch 8"}) {
    const Outcome cut =
        interrupted("profile " + what + " --device cpu --steps 1000000 --skip 0 --no-roof", 6);
    EXPECT_EQ(cut.code, 130) << cut.err;
    const bool recorded = cut.out.find("steps, ") != std::string::npos;
    EXPECT_NE(cut.err.find(recorded ? "interrupted after " : "interrupted before a step was recorded"),
              std::string::npos)
        << cut.err;
    EXPECT_EQ(cut.err.find("more samples"), std::string::npos) << cut.err;
  }
}

}  // namespace
}  // namespace systole

#endif
