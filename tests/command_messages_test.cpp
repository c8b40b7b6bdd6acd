// What the command says when it is given something wrong: what failed, what was expected and what to do.

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "command_check.h"
#include "systole/io.h"

namespace systole {
namespace {

namespace fs = std::filesystem;

class CommandMessages : public CommandFolder {
 protected:
  void refused(const std::string& arguments, int code, const std::string& said) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, code) << arguments << "\n" << outcome.out << outcome.err;
    EXPECT_NE(outcome.err.find(said), std::string::npos) << arguments << "\n" << outcome.err;
  }

  // A run of one epoch on few digits.
  void train(const std::string& name, const std::string& more = "") {
    const Outcome outcome = run("train --model mlp --data \"digits?train=64&test=16\" --epochs 1 --out " +
                                name + " --set model.hidden=[8] --device cpu " + more);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }
};

TEST_F(CommandMessages, AMisspeltOptionGetsTheNearestOfItsCommand) {
  refused("train --modle mlp", 2, "there is no option '--modle'; did you mean '--model'?\n");
  refused("train --modle=mlp --data digits", 2, "there is no option '--modle'; did you mean '--model'?\n");
  refused("evaluate --bach 3", 2, "there is no option '--bach'; did you mean '--batch'?\n");
  refused("data get --form here", 2, "there is no option '--form'; did you mean '--from'?\n");
  refused("--versoin", 2, "there is no option '--versoin'; did you mean '--version'?\n");
  refused("run x.sir --qqqqqqq", 2, "there is no option '--qqqqqqq'; see systole run --help\n");
  refused("data gte mnist", 2, "there is no data command 'gte'; did you mean 'get'?\n");
}

TEST_F(CommandMessages, APluginThatIsNotThereIsNamedWithThePlacesItWasLookedForIn) {
  refused("predict model --device pjrt:nosuch", 1,
          "device \"pjrt:nosuch\": its plugin is not found. Looked for it in SYSTOLE_PJRT_PLUGIN, ");
  refused("predict model --device pjrt:nosuch", 1,
          "set SYSTOLE_PJRT_PLUGIN to the path of the plugin's library");
  refused("predict model --device nosuch", 1, "this build has no backend of that name");
}

TEST_F(CommandMessages, AFileThatIsNoModelIsToldByHowItBegins) {
  write("people.csv", "name,height\nann,180\n");
  for (const char* command : {"evaluate people.csv", "summary people.csv", "predict people.csv x.npy"})
    refused(command, 1,
            "people.csv: byte 0: this is not a safetensors file; expected one that `systole train`, save()");
  refused("evaluate people.csv", 1, "got text that begins with \"name,height\"");
  write("two.csv", "a,b\n");
  refused("evaluate two.csv", 1, "got text that begins with \"a,b\"");
  write("x.png", "\x89PNG\r\n\x1a\n....");
  refused("evaluate x.png", 1, "got the bytes 89 50 4e 47 0d 0a 1a 0a 2e");
}

TEST_F(CommandMessages, WeightsThatChangedAreRefusedWithAWayOfTheCommand) {
  train("run");
  const fs::path model = folder_ / "run/model.safetensors";
  std::string bytes = text_of(model);
  bytes[bytes.size() - 3] ^= 1;
  std::ofstream(model, std::ios::binary) << bytes;
  refused("evaluate run", 1,
          "the weights are not those that were saved with this graph: the file is damaged");
  refused("evaluate run", 1, "accept them with --other-weights");
  const Outcome accepted = run("evaluate run --other-weights");
  EXPECT_EQ(accepted.code, 0) << accepted.err;
}

TEST_F(CommandMessages, PredictRefusesWhatItCannotDoWithTheModel) {
  train("run");
  io::save_npy(folder_ / "x.npy", Literal::of<std::uint8_t>({28, 28}, std::vector<std::uint8_t>(784)));
  refused("predict run x.npy --out o.txt", 2, "--out: expected FILE.npz or FILE.npy, got 'o.txt'");
  EXPECT_FALSE(fs::exists(folder_ / "o.txt"));
  refused("run graph.sir --out o.txt", 2, "--out: expected FILE.npz or FILE.npy, got 'o.txt'");
  const Outcome written = run("predict run x.npy --out o.npz");
  EXPECT_EQ(written.code, 0) << written.err;
  const std::vector<io::NamedArray> arrays = io::load_npz(folder_ / "o.npz");
  ASSERT_EQ(arrays.size(), 1u);
  EXPECT_EQ(arrays[0].value.type(), (Type{DType::f32, {1, 10}}));
  for (const char* more : {"", " x.npy"})
    refused("predict run --prompt hi" + std::string(more), 2,
            "--prompt is for models that write text, and this one takes u8[N,28,28");
  refused("predict run --prompt hi --length -4", 2, "--length: expected a number above 0, got '-4'");
  refused("predict run --length 0", 2, "--length: expected a number above 0, got '0'");
  refused("evaluate run --batch -3", 2, "--batch: expected a number above 0, got '-3'");
}

// The README of a project has only commands that work as they stand.
TEST_F(CommandMessages, ANewProjectHasThePictureThatItsReadmeNames) {
  const Outcome made = run("new project");
  ASSERT_EQ(made.code, 0) << made.err;
  const std::string readme = text_of(folder_ / "project/README.md");
  const std::size_t at = readme.find("systole predict run picture.");
  ASSERT_NE(at, std::string::npos) << readme;
  const std::string picture = readme.substr(at + 20, 11);
  EXPECT_TRUE(fs::exists(folder_ / "project" / picture)) << picture;
  EXPECT_NE(made.out.find(picture), std::string::npos) << made.out;
  train("run");
  const Outcome asked = run("predict run project/" + picture);
  EXPECT_EQ(asked.code, 0) << asked.err;
  for (const char* file : {"project/README.md", "project/CMakeLists.txt"})
    EXPECT_NE(text_of(folder_ / file).find("-D CMAKE_PREFIX_PATH=DIR"), std::string::npos) << file;
}

TEST_F(CommandMessages, HelpSaysWhatInvertIsFor) {
  EXPECT_NE(run("predict --help").out.find("swap light and dark first"), std::string::npos);
}

TEST_F(CommandMessages, EvaluateSaysThatThePlaceOfItsDataIsRelative) {
  fs::create_directories(folder_ / "work/data");
  std::string table = "a,b,kind\n";
  for (int i = 0; i < 40; ++i)
    table += std::to_string(i % 7) + "," + std::to_string(i % 5) + (i % 2 ? ",x\n" : ",y\n");
  write("work/data/table.csv", table);
  const std::string command =
      std::string("cd '") + (folder_ / "work").string() + "' && '" + SYSTOLE_COMMAND +
      "' train --model mlp --data csv:data/table.csv --epochs 1 --out run > /dev/null";
  ASSERT_EQ(std::system(command.c_str()), 0);
  refused("evaluate work/run", 1,
          "the model was trained on \"csv:data/table.csv\", a place relative to the folder in which train "
          "ran, and this "
          "one is " +
              fs::canonical(folder_).string() + "; evaluate in that folder, or name the place with --data");
  EXPECT_EQ(run("evaluate work/run --data csv:work/data/table.csv").code, 0);
}

TEST_F(CommandMessages, DataGetTakesAFolderAndLeavesNoEmptyOne) {
  if (std::system("command -v curl > /dev/null") != 0) GTEST_SKIP() << "there is no curl";
  fs::create_directories(folder_ / "my files");
  refused("data get mnist --from 'my files'", 1,
          "/my%20files/train-images-idx3-ubyte.gz: cannot be fetched: ");
  EXPECT_FALSE(fs::exists(folder_ / "data"));
  write("my files/train-images-idx3-ubyte.gz", "something else");  // it is found, and is not the one
  refused("data get mnist --from 'my files'", 1, "the file is not the one that is known");
  EXPECT_FALSE(fs::exists(folder_ / "data"));
  for (const char* from : {"no/such/folder", "ftp://127.0.0.1/"})
    refused("data get mnist --from " + std::string(from), 2,
            "--from: expected an address that begins with http://, https:// or file://, or a folder that is "
            "there, got '" +
                std::string(from) + "'");
  fs::create_directories(folder_ / "mine");
  const Outcome nobody = run("data get mnist --out mine --from http://127.0.0.1:1/");
  EXPECT_EQ(nobody.code, 1);
  const std::size_t first = nobody.err.find("systole: fetching ");
  ASSERT_NE(first, std::string::npos) << nobody.err;
  EXPECT_EQ(nobody.err.find("systole: fetching ", first + 1), std::string::npos) << nobody.err;
  EXPECT_TRUE(fs::exists(folder_ / "mine"));  // it was there before
}

TEST_F(CommandMessages, TheResultLineHasTheMetricsThatWereAskedFor) {
  train("run", "--set train.metrics=f1_macro");
  const Outcome outcome = run("evaluate run --metric top3");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const std::string line = outcome.last_line();
  EXPECT_EQ(line.find("test accuracy "), 0u) << line;
  EXPECT_LT(line.find(" loss "), line.find(" f1_macro ")) << line;
  EXPECT_LT(line.find(" f1_macro "), line.find(" top3 ")) << line;
}

TEST_F(CommandMessages, ATextThatIsNoGraphIsToldBothVersions) {
  write("hello.sir", "hello\n");
  refused("fmt hello.sir", 1,
          "hello.sir:1:1: not a Systole graph; expected a first line of \"systole.ir 1\" or \"systole.ir "
          "2\", got "
          "'hello'");
}

// A composite without a body gets one, which stands before the graph that uses it.
TEST_F(CommandMessages, FmtKeepsCommentsWithTheirGraph) {
  const Outcome outcome = run("fmt " + (fs::path(SYSTOLE_SOURCE_DIR) / "examples/demo.sir").string());
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find(
                "// One layer of a network: three features in, the probabilities of two classes out, for any "
                "number N of rows.\ngraph @layer("),
            std::string::npos)
      << outcome.out;
}

TEST_F(CommandMessages, ATrainingOfNoEpochSaysSo) {
  const Outcome outcome = run("train --model mlp --data 'digits?train=64&test=16' --epochs 0 --out run");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("no epoch was trained, since train.epochs is 0: the model is as it began\n"),
            std::string::npos)
      << outcome.out;
}

TEST_F(CommandMessages, ARunThatHasAllItsEpochsSaysThatNoneWasTrained) {
  train("run");
  const Outcome again =
      run("train --model mlp --data \"digits?train=64&test=16\" --epochs 1 --out run --set model.hidden=[8] "
          "--device cpu");
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.out.find("no epoch was trained: the run has all 1 already; a larger --epochs continues it, "
                           "--fresh starts over\n"),
            std::string::npos)
      << again.out;
}

}  // namespace
}  // namespace systole
