// What the command does with files that nobody vouches for: their kernels do not run unless it is said, their
// links do not lead out of their folder, and their names do not drive the terminal.

#include <gtest/gtest.h>
#include <sys/stat.h>

#ifdef SYSTOLE_COMMAND

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cpu/jit.h"
#include "command_check.h"
#include "systole/io.h"

namespace systole {
namespace {

namespace fs = std::filesystem;

// y = x + 1 by a kernel of the graph's own.
constexpr const char* kGraph =
    "systole.ir 1\n\ngraph @own(%x: f32[1,2]) {\n  %y = kernel_call(%x) {name=\"next\", c=\"void next(const "
    "float* x, float* y) { y[0] = x[0] + 1; y[1] = x[1] + 1; }\", results=[f32[1,2]]}\n  return y: %y\n}\n";

class TrustCli : public CommandFolder {
 protected:
  void save_model(const std::string& graph, const std::string& classes) {
    io::save_safetensors(
        folder_ / "model.safetensors", std::vector<io::NamedArray>{{"w", Literal::of<float>({2}, {1, 2})}},
        {{"systole.model", R"({"version":1,"name":"m","inputs":1,"outputs":1,"variables":["w"],)"
                           R"("classes":)" +
                               classes + "}"},
         {"systole.graph", graph}},
        {.digest = true});
  }
  void SetUp() override {
    if (cpu::kernels_in_words().find("without kernels") != std::string::npos)
      GTEST_SKIP() << cpu::kernels_in_words();
    io::save_npy(folder_ / "x.npy", Literal::of<float>({1, 2}, {1, 5}));
  }
  static void expect_refused(const Outcome& outcome) {
    EXPECT_EQ(outcome.code, 1) << outcome.out;
    EXPECT_NE(outcome.err.find("the graph calls kernels whose source is in the file (next)"),
              std::string::npos)
        << outcome.err;
    EXPECT_NE(outcome.err.find("--kernels"), std::string::npos) << outcome.err;
  }
};

TEST_F(TrustCli, AGraphsOwnKernelsRunOnlyWithTheOption) {
  write("own.sir", kGraph);
  const std::string eval = "eval own.sir --in x.npy --device cpu";
  expect_refused(run(eval));
  const Outcome outcome = run(eval + " --kernels");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("2"), std::string::npos);
  EXPECT_EQ(run(eval + " --kernels --out y.npy").code, 0);
  EXPECT_EQ(io::load_npy(folder_ / "y.npy").to_doubles(), (std::vector<double>{2, 6}));
  expect_refused(run("profile own.sir --device cpu --steps 1 --no-roof"));
  EXPECT_EQ(run("profile own.sir --device cpu --steps 1 --no-roof --kernels").code, 0);
}

// In a graph inside the graph as well.
TEST_F(TrustCli, KernelsOfAnInnerGraphAreFoundToo) {
  write("cond.sir",
        "systole.ir 1\n\ngraph @calls(%a: f32[1,2]) {\n  %k = kernel_call(%a) {name=\"next\", c=\"void "
        "next(const "
        "float* x, float* y) { y[0] = x[0]; y[1] = x[1]; }\", results=[f32[1,2]]}\n  return %k\n}\n\n"
        "graph @keeps(%a: f32[1,2]) {\n  return %a\n}\n\n"
        "graph @main(%p: bool[], %x: f32[1,2]) {\n  %y = cond(%p, %x) @calls @keeps\n  return y: %y\n}\n");
  io::save_npy(folder_ / "p.npy", Literal::scalar(true));
  expect_refused(run("eval cond.sir --in p.npy x.npy --device cpu"));
  const Outcome outcome = run("eval cond.sir --in p.npy x.npy --device cpu --kernels");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

TEST_F(TrustCli, ASavedModelsOwnKernelsRunOnlyWithTheOption) {
  save_model(kGraph, R"(["cat","dog"])");
  io::save_npz(folder_ / "data.npz", std::vector<io::NamedArray>{{"x", Literal::of<float>({1, 2}, {1, 5})},
                                                                 {"y", Literal::of<std::int32_t>({1}, {1})}});
  for (const std::string command : {"predict model.safetensors x.npy --device cpu",
                                    "evaluate model.safetensors --data npz:data.npz --device cpu",
                                    "profile model.safetensors --device cpu --steps 1 --no-roof"}) {
    expect_refused(run(command));
    const Outcome outcome = run(command + " --kernels");
    EXPECT_EQ(outcome.code, 0) << command << outcome.err;
  }
  EXPECT_EQ(run("summary model.safetensors").code, 0);  // which runs nothing
}

TEST_F(TrustCli, LinksOutOfAFolderOfWeightsAreFollowedOnlyWithTheOption) {
  const std::string train =
      "train --model mlp --data 'digits?train=64&test=32' --set train.epochs=1 --set train.plots=false --set "
      "model.hidden=[8] --device cpu ";
  ASSERT_EQ(run(train + "--out first").code, 0);
  fs::create_directory(folder_ / "weights");
  fs::create_symlink("../first/model.safetensors", folder_ / "weights/model.safetensors");
  const Outcome outcome = run(train + "--out second --set model.weights=weights");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(
      outcome.err.find("weights/model.safetensors: a link that leads out of its folder; expected a file in "
                       "the folder itself; --follow-links"),
      std::string::npos)
      << outcome.err;
  EXPECT_FALSE(fs::exists(folder_ / "second"));
  const Outcome followed = run(train + "--out second --set model.weights=weights --follow-links");
  EXPECT_EQ(followed.code, 0) << followed.err;
  EXPECT_NE(run("predict weights x.npy").err.find("--follow-links"), std::string::npos);
  EXPECT_NE(run("evaluate weights").err.find("--follow-links"), std::string::npos);
  EXPECT_EQ(run("evaluate weights --follow-links --device cpu").code, 0);
  for (const std::string command : {"compile weights --size N=1", "export weights --size N=1"}) {
    const Outcome refused = run(command);
    EXPECT_EQ(refused.code, 1) << command << refused.out;
    EXPECT_NE(refused.err.find("a link that leads out of its folder"), std::string::npos) << refused.err;
    EXPECT_NE(refused.err.find("--follow-links"), std::string::npos) << refused.err;
    EXPECT_EQ(run(command + " --follow-links").code, 0) << command;
  }
  // Nothing is waited for that may never answer.
  fs::create_directory(folder_ / "pipe");
  ASSERT_EQ(::mkfifo((folder_ / "pipe/model.safetensors").c_str(), 0600), 0);
  for (const std::string command :
       {"compile pipe", "export pipe", "summary pipe", "compile pipe --follow-links"})
    EXPECT_NE(run(command).err.find("expected a regular file, got a pipe"), std::string::npos) << command;
  // A setting of a file cannot allow it.
  EXPECT_NE(run(train + "--out third --set model.follow_links=true").code, 0);
}

TEST_F(TrustCli, FilesOfARunThatArePipesAreNamedAndNotWaitedFor) {
  fs::create_directory(folder_ / "config");
  ASSERT_EQ(::mkfifo((folder_ / "config/config.toml").c_str(), 0600), 0);
  fs::create_directory(folder_ / "history");
  ASSERT_EQ(::mkfifo((folder_ / "history/history.csv").c_str(), 0600), 0);
  for (const std::string command :
       {"train --model mlp --data digits --out config", "profile config", "plot history"}) {
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.code, 1) << command;
    EXPECT_NE(outcome.err.find("expected a regular file, got a pipe"), std::string::npos)
        << command << ": " << outcome.err;
  }
}

// ESC, CSI of C1, a carriage return, a newline and a mark of direction.
constexpr std::string_view kWild[] = {"\x1b", "\xc2\x9b", "\r", "\u202e"};

void expect_tame(const Outcome& outcome) {
  for (const std::string_view wild : kWild) {
    EXPECT_EQ(outcome.out.find(wild), std::string::npos) << outcome.out;
    EXPECT_EQ(outcome.err.find(wild), std::string::npos) << outcome.err;
  }
}

TEST_F(TrustCli, NamesFromFilesAreWrittenOutInResultsAndErrors) {
  save_model("systole.ir 1\n\ngraph @m(%x: f32[1,2]) {\n  %y = neg(%x)\n  return y: %y\n}\n",
             R"(["\u001b[31mcat\ntest accuracy 1.0000\r","\u202egod\u009b2J"])");
  const Outcome predicted = run("predict model.safetensors x.npy --device cpu");
  EXPECT_EQ(predicted.code, 0) << predicted.err;
  expect_tame(predicted);
  EXPECT_NE(predicted.out.find("\\x1b[31mcat\\x0atest accuracy 1.0000\\x0d"), std::string::npos)
      << predicted.out;
  EXPECT_NE(predicted.out.find("\\u202egod\\u009b2J"), std::string::npos) << predicted.out;
  EXPECT_EQ(std::count(predicted.out.begin(), predicted.out.end(), '\n'), 1);
  const Outcome summary = run("summary model.safetensors");
  expect_tame(summary);
  EXPECT_NE(summary.out.find("  classes \\x1b[31mcat\\x0atest accuracy 1.0000\\x0d, \\u202egod"),
            std::string::npos)
      << summary.out;

  io::save_npz(folder_ / "data.npz", std::vector<io::NamedArray>{{"x", Literal::of<float>({1, 2}, {1, 5})},
                                                                 {"y", Literal::of<std::int32_t>({1}, {1})}});
  const Outcome report = run("evaluate model.safetensors --data npz:data.npz --device cpu --report");
  EXPECT_EQ(report.code, 0) << report.err;
  expect_tame(report);

  write("bad\x1b[2J\u202e.safetensors", "short");
  const Outcome error = run("summary 'bad\x1b[2J\u202e.safetensors'");
  EXPECT_EQ(error.code, 1);
  expect_tame(error);
  EXPECT_NE(error.err.find("bad\\x1b[2J\\u202e.safetensors"), std::string::npos) << error.err;

  io::save_npz(folder_ / "wild.npz", std::vector<io::NamedArray>{{"a\u202e", Literal::scalar(1.0f)}});
  const Outcome unknown = run("data info npz:wild.npz");
  expect_tame(unknown);
}

std::string repeated(std::string_view part, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += part;
  return text;
}

TEST_F(TrustCli, TomlWithLettersBeyondAsciiOutsideQuotesIsRefused) {
  if (!reads_toml()) GTEST_SKIP() << "this build reads no TOML files";
  for (const char* text : {"4[\u0120data]\nsou", "[data]\n\u0120 = 1\n", "[data]\nsource = \u0120\n"}) {
    write("letters.toml", text);
    const Outcome outcome = run("train letters.toml");
    EXPECT_EQ(outcome.code, 1) << text;
    EXPECT_NE(outcome.err.find("letters beyond ASCII stand outside quotes"), std::string::npos)
        << outcome.err;
  }
  // In quotes and comments they are read: the key is what is wrong.
  write("letters.toml", "\xEF\xBB\xBF# \u0120\n[data]\n\"Gr\u00f6\u00dfe\" = '\u0120'\n");
  const Outcome outcome = run("train letters.toml");
  EXPECT_EQ(outcome.err.find("beyond ASCII"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("Gr\u00f6\u00dfe"), std::string::npos) << outcome.err;
}

TEST_F(TrustCli, TomlOfAnyDepthIsReadOrRefused) {
  if (!reads_toml()) GTEST_SKIP() << "this build reads no TOML files";
  constexpr int kDeep = 20'000;
  const std::string too_deep[] = {"\n[" + repeated("a.", kDeep) + "a]\nx = 1\n",
                                  "\n[[" + repeated("a . ", kDeep) + "a]]\n",
                                  "\n" + repeated("\"a\".", kDeep) + "a = 1\n",
                                  "\nx = " + repeated("[", kDeep) + repeated("]", kDeep) + "\n",
                                  "\nx = " + repeated("{a=", kDeep) + "1" + repeated("}", kDeep) + "\n",
                                  "\nx = {" + repeated("a.", kDeep) + "a = 1}\n",
                                  "\nx = [\"]\", '}', " + repeated("[", kDeep),
                                  "\nx = \"\"\"two \\\" quotes \"\" \"\"\"\ny = " + repeated("[", kDeep)};
  for (const std::string& text : too_deep) {
    write("deep.toml", text);
    const Outcome outcome = run("train deep.toml");
    EXPECT_EQ(outcome.code, 1) << text.substr(0, 60);
    EXPECT_NE(outcome.err.find("expected at most 32 levels, got more"), std::string::npos)
        << text.substr(0, 60) << outcome.err.substr(0, 300);
    EXPECT_NE(outcome.err.find("systole: error: deep.toml:"), std::string::npos)
        << outcome.err.substr(0, 300);
  }
  // What is in a text or comment has no depth, and what is a little deep is read: the key is what is wrong.
  const std::string read[] = {"[data]\nsource = \"" + repeated("[.", kDeep) + "\"\n",
                              "[data]\n# " + repeated("[{.", kDeep) + "\nnone = 1\n",
                              "[data]\nsource = '''\n" + repeated("{.\n", kDeep) + "'''\n",
                              "[" + repeated("a.", 31) + "a]\n",
                              "x = " + repeated("[", 32) + repeated("]", 32) + "\n"};
  for (const std::string& text : read) {
    write("deep.toml", text);
    const Outcome outcome = run("train deep.toml");
    EXPECT_EQ(outcome.code, 1);
    EXPECT_EQ(outcome.err.find("levels"), std::string::npos)
        << text.substr(0, 60) << outcome.err.substr(0, 300);
  }
  const Outcome set = run("train --set " + repeated("a.", 30'000) + "a=1");
  EXPECT_EQ(set.code, 1);
  EXPECT_NE(set.err.find("a key has too many parts"), std::string::npos) << set.err.substr(0, 300);
}

TEST_F(TrustCli, AVariableWithAWrongValueIsOneLineAndNoAbort) {
  const auto run_with = [&](const std::string& variables, const std::string& arguments) {
    const std::string line = "cd '" + folder_.string() + "' && env " + variables + " '" + SYSTOLE_COMMAND +
                             "' " + arguments + " > stdout 2> stderr";
    const int status = std::system(line.c_str());
    return Outcome{WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of(folder_ / "stdout"),
                   text_of(folder_ / "stderr")};
  };
  for (const std::string wrong :
       {"SYSTOLE_THREADS=abc", "SYSTOLE_THREADS=-1", "SYSTOLE_THREADS=4G", "SYSTOLE_TUNE=maybe",
        "SYSTOLE_CACHE=/dir", "SYSTOLE_MATH=f16", "SYSTOLE_LOG=loud"}) {
    const std::string name = wrong.substr(0, wrong.find('=')), value = wrong.substr(wrong.find('=') + 1);
    const Outcome outcome = run_with(wrong, "data info digits");
    EXPECT_EQ(outcome.code, 1) << wrong;
    EXPECT_TRUE(outcome.err.starts_with("systole: error: " + name +
                                        ": the environment variable has a wrong value; expected "))
        << outcome.err;
    EXPECT_NE(outcome.err.find("got '" + value + "'\n"), std::string::npos) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
  const Outcome doctor = run_with("SYSTOLE_THREADS=abc SYSTOLE_THREAD=2", "doctor");
  EXPECT_EQ(doctor.code, 1);
  EXPECT_NE(doctor.out.find("FAIL     SYSTOLE_THREADS: the environment variable has a wrong value"),
            std::string::npos)
      << doctor.out;
  EXPECT_NE(doctor.out.find("did you mean SYSTOLE_THREADS?"), std::string::npos) << doctor.out;
}

// Text that another program reads is as it is when it does not go to a terminal.
TEST_F(TrustCli, AGraphThatIsPrintedIsNotChanged) {
  const std::string text =
      "systole.ir 1\n\n// \u202e a comment\ngraph @m(%x: f32[2]) {\n  %y = neg(%x) : f32[2]\n  return y: "
      "%y\n}\n";
  write("m.sir", text);
  EXPECT_EQ(run("fmt m.sir").out, text);
}

}  // namespace
}  // namespace systole

#endif
