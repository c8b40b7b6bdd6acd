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
}

}  // namespace
}  // namespace systole

#endif
