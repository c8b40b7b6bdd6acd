// systole train and its companions as a person meets them: the real program is run on small sets, and its
// last line, files, messages and exit codes are checked.

#include <gtest/gtest.h>

#ifdef SYSTOLE_COMMAND

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "command_check.h"
#include "systole/data.h"
#include "systole/io.h"
#include "systole/nn.h"
#include "systole/tensor.h"
#include "systole/train/checkpoint.h"
#include "systole/train/history.h"
#include "systole/train/saved_model.h"

namespace systole {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSmall = "--data 'digits?train=600&test=200' --set train.batch=32";

using TrainCli = CommandFolder;

#define NEEDS_TOML() \
  if (!reads_toml()) GTEST_SKIP() << "this build reads no TOML files"

void expect_failure(const Outcome& outcome, std::string_view part) {
  EXPECT_EQ(outcome.code, 1) << outcome.out << outcome.err;
  EXPECT_TRUE(outcome.err.starts_with("systole: error: ")) << outcome.err;
  EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
}

// "test accuracy 0.9781 loss 0.0721", and the first number.
double metric_in(const Outcome& outcome, const std::string& name) {
  std::smatch found;
  const std::string line = outcome.last_line();
  const bool matches = std::regex_match(
      line, found, std::regex("test " + name + R"( (-?[0-9]+\.[0-9]{4}) loss [0-9]+\.[0-9]{4}( .*)?)"));
  EXPECT_TRUE(matches) << outcome.out << outcome.err;
  return matches ? std::stod(found[1]) : NAN;
}

TEST_F(TrainCli, UnknownKeysAreErrorsWithTheNearestNameAndThePlace) {
  expect_failure(run("train --model mlp --data digits --set train.epoch=5"),
                 "there is no key epoch in [train]; did you mean 'epochs'?");
  expect_failure(run("train --model mlp --data digits --set epochs=5"), "did you mean train.epochs?");
  expect_failure(run("train --model mlp --data digits --set model.hiden=[5]"), "did you mean 'hidden'?");
  expect_failure(run("train --model mlp --data digits --set trian.epochs=5"), "did you mean 'train'?");
  expect_failure(run("train --model mpl --data digits"), "mlp");
  expect_failure(run("train --model mlp --data digit"), "did you mean 'digits'?");
  expect_failure(run("train --model mlp --data digits --set train.precision=bf61"), "did you mean 'bf16'?");
  expect_failure(run("train --model mlp --data digits --set data.augment=[flop]"), "did you mean 'flip'?");
  NEEDS_TOML();
  write("run.toml",
        "[data]\nsource = \"digits\"\n[model]\nname = \"mlp\"\n\n[train]\nepochs = 1\nbacth = 3\n");
  expect_failure(run("train run.toml"),
                 "run.toml:8: there is no key bacth in [train]; did you mean 'batch'?");
  write("run.toml", "[data]\nsource = \"digits\"\n[modle]\nname = \"mlp\"\n");
  expect_failure(run("train run.toml"), "run.toml:3: there is no section [modle]; did you mean 'model'?");
  write("run.toml", "[train]\nepochs = \n");
  expect_failure(run("train run.toml"), "run.toml:2:");
}

TEST_F(TrainCli, AValueOfAnotherKindNamesWhatIsExpectedAndWhatIsThere) {
  const Outcome wrong = run("train --model mlp --data digits --set train.epochs=many");
  EXPECT_EQ(wrong.err, "systole: error: train.epochs: expected a whole number, got 'many'\n");
  EXPECT_EQ(run("train --model mlp --data digits --set train.lr=abc").err,
            "systole: error: train.lr: expected a number, got 'abc'\n");
  EXPECT_EQ(run("train --model mlp --data digits --lr abc").err,
            "systole: error: train.lr: expected a number, got 'abc'\n");
  expect_failure(run("train --model mlp --data digits --set train.epochs=2.5"), "whole number");
  const std::string digits = "train --model mlp --data 'digits?train=20&test=10' ";
  for (const char* option : {"weight_decay", "beta1"})
    EXPECT_EQ(run(digits + "--set train.optimizer_options." + option + "=abc").err,
              std::string("systole: error: train.optimizer_options.") + option +
                  ": expected a number, got 'abc'\n");
  EXPECT_EQ(run(digits + "--set train.optimizer_options.amsgrad=1").err,
            "systole: error: train.optimizer_options.amsgrad: expected true or false, got 1\n");
  EXPECT_EQ(
      run(digits + "--set 'train.optimizer_options.beta1={a = 1}'").err,
      "systole: error: train.optimizer_options.beta1: expected a number, text, true or false, or a list of "
      "one kind, got a table\n");
  EXPECT_EQ(run(digits + "--set train.schedule=cosine --set train.schedule_options.warmup=abc").err,
            "systole: error: train.schedule_options.warmup: expected a number, got 'abc'\n");
  const Outcome unknown = run(digits + "--schedule cosin");
  EXPECT_NE(unknown.err.find("did you mean 'cosine'? Expected one of constant,"), std::string::npos)
      << unknown.err;
  EXPECT_NE(unknown.err.find(", plateau"), std::string::npos) << unknown.err;
  EXPECT_EQ(run(digits + "--set train.schedule=plateau --set train.schedule_options.factor=abc").err,
            "systole: error: train.schedule_options.factor: expected a number, got 'abc'\n");
  expect_failure(run("train --model mlp --data digits --set train.shuffle=1"), "true or false");
  expect_failure(run("train --model mlp --data digits --set data.validation=1.5"), "between 0 and 1");
  EXPECT_EQ(run("train").code, 2);
}

// As an unset variable of a shell gives it: --lr "$LR".
TEST_F(TrainCli, AnEmptyValueOfAnOptionIsNoDefault) {
  const auto said = [&](const std::string& options) {
    const Outcome outcome = run("train " + options + " --out run");
    EXPECT_EQ(outcome.code, 1) << options << outcome.out;
    EXPECT_TRUE(outcome.err.starts_with("systole: error: ")) << outcome.err;
    return outcome.err.substr(std::string("systole: error: ").size());
  };
  const std::string digits = "--model mlp --data 'digits?train=20&test=10' ";
  EXPECT_EQ(said(digits + "--lr ''"), "train.lr: expected a number, got ''\n");
  EXPECT_EQ(said(digits + "--epochs ''"), "train.epochs: expected a whole number, got ''\n");
  EXPECT_EQ(said(digits + "--weights ''"), "model.weights: expected a value, got ''\n");
  EXPECT_EQ(said(digits + "--metrics ''"), "train.metrics: expected a value, got ''\n");
  EXPECT_EQ(said(digits + "--validation ''"), "data.validation: expected a value, got ''\n");
  EXPECT_EQ(said(digits + "--device ''"), "train.device: expected a value, got ''\n");
  EXPECT_EQ(said("--model '' --data digits"), "model.name: expected a value, got ''\n");
  EXPECT_EQ(said("--model mlp --data ''"), "data.source: expected a value, got ''\n");
  EXPECT_EQ(said("--data ''"), "data.source: expected a value, got ''\n");
  EXPECT_FALSE(fs::exists(folder_ / "run"));
  const Outcome out = run("train " + digits + "--out ''");
  EXPECT_EQ(out.err, "systole: error: --out: expected a value, got ''\n");
  EXPECT_FALSE(fs::exists(folder_ / "runs"));
  // A key has its default as a value of its own.
  EXPECT_EQ(run("train " + digits + "--epochs 0 --set model.weights= --out run").code, 0);
}

TEST_F(TrainCli, CommonKeysAreOptionsOfTheirOwn) {
  const std::string digits = "train --model mlp --data 'digits?train=64&test=32' ";
  const Outcome run_by_options = run(digits + "--epochs 2 --lr 0.01 --batch 32 --seed 3 --out one");
  EXPECT_EQ(run_by_options.code, 0) << run_by_options.err;
  const Outcome run_by_keys = run(
      digits + "--set train.epochs=2 --set train.lr=0.01 --set train.batch=32 --set train.seed=3 --out two");
  EXPECT_EQ(run_by_options.last_line(), run_by_keys.last_line());
  EXPECT_EQ(text_of(folder_ / "one/config.toml"), text_of(folder_ / "two/config.toml"));
  EXPECT_NE(run("train --help").out.find("passes over the training data (train.epochs)"), std::string::npos);
}

TEST_F(TrainCli, AKnownSetWithoutItsFolderNamesTheCommandThatFetchesIt) {
  expect_failure(run("train --model mlp --data mnist"),
                 "expected mnist:FOLDER; `systole data get mnist` fetches the files into data/mnist (--from "
                 "ADDRESS takes them from a mirror)");
  fs::create_directories(folder_ / "data/mnist");
  expect_failure(run("train --model mlp --data mnist"), "expected mnist:data/mnist, which is there");
  expect_failure(run("train --model mlp --data mnist:data/mnist"),
                 "`systole data get mnist --out data/mnist`");
  for (const std::string set : {"fashion", "cifar10"}) {
    const std::string command = "`systole data get " + set;
    expect_failure(run("train --model mlp --data " + set), "expected " + set + ":FOLDER; " + command +
                                                               "` fetches the files into data/" + set +
                                                               " (--from ADDRESS takes them from a mirror)");
    fs::create_directories(folder_ / "data" / set);
    const Outcome outcome = run("train --model mlp --data " + set + ":data/" + set);
    expect_failure(outcome, command + " --out data/" + set + "`");
    EXPECT_NE(outcome.err.find("--from"), std::string::npos) << outcome.err;
  }
  expect_failure(run("train --model mlp --data csv"), "expected csv:PLACE");
}

TEST_F(TrainCli, ExportAndCompileFindTheGraphInsideASavedModel) {
  ASSERT_EQ(run("train --model mlp --data 'digits?train=32&test=32' --epochs 1 --out run").code, 0);
  const Outcome exported = run("export run --size N=2");
  ASSERT_EQ(exported.code, 0) << exported.err;
  EXPECT_NE(exported.out.find("stablehlo.dot_general"), std::string::npos) << exported.out;
  EXPECT_EQ(run("export run/model.safetensors --size N=2").out, exported.out);
  const Outcome compiled = run("compile run --size N=2");
  ASSERT_EQ(compiled.code, 0) << compiled.err;
  EXPECT_NE(compiled.out.find("peak"), std::string::npos) << compiled.out;
  // On cpu the plan tells what was timed.
  const Outcome for_opencl = run("compile run --size N=2 --target opencl");
  EXPECT_NE(for_opencl.out.find("peak"), std::string::npos) << for_opencl.out;
  EXPECT_EQ(run("compile run/model.safetensors --size N=2 --target opencl").out, for_opencl.out);
  expect_failure(run("export no_such_run"), "no_such_run: cannot open");
  fs::create_directories(folder_ / "empty");
  expect_failure(run("export empty"), "the folder holds no model.safetensors");
}

TEST_F(TrainCli, FmtPrintsTheGraphInsideASavedModelAndRunNamesPredict) {
  ASSERT_EQ(run("train --model mlp --data 'digits?train=32&test=32' --epochs 1 --out run").code, 0);
  const Outcome text = run("fmt run");
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_TRUE(text.out.starts_with("systole.ir ")) << text.out;
  EXPECT_EQ(run("fmt run/model.safetensors").out, text.out);
  write("graph.sir", text.out);
  EXPECT_EQ(run("fmt graph.sir").out, text.out);  // it is a graph as text like any other
  EXPECT_EQ(run("fmt --check graph.sir").code, 0);
  const std::string model = text_of(folder_ / "run/model.safetensors");
  for (const char* option : {"--check", "--write"}) {
    const Outcome refused = run(std::string("fmt run/model.safetensors ") + option);
    EXPECT_EQ(refused.code, 2);
    EXPECT_NE(refused.err.find("is a saved model"), std::string::npos) << refused.err;
  }
  EXPECT_EQ(text_of(folder_ / "run/model.safetensors"), model);

  for (const std::string place : {"run", "run/model.safetensors"}) {
    const Outcome refused = run("run " + place + " --in x.npy");
    EXPECT_EQ(refused.code, 2);
    EXPECT_NE(refused.err.find(place + " is a saved model, not a graph as text: `systole predict " + place +
                               " FILE…`"),
              std::string::npos)
        << refused.err;
  }
  fs::create_directories(folder_ / "empty");
  expect_failure(run("run empty"), "the folder holds no model.safetensors");
  expect_failure(run("run none.safetensors"), "none.safetensors: cannot open");
}

// "4 devices" was printed, and one computed.
TEST_F(TrainCli, MoreDevicesThanTheBackendSplitsOverAreRefused) {
  const std::string digits =
      "train --model mlp --data 'digits?train=16&test=8' --set train.batch=8 --set train.epochs=1 --out run ";
  const Outcome four = run(digits + "--set train.device=cpu --set train.devices=4");
  expect_failure(four, "train.devices: cpu: a program of this backend runs on one device");
  EXPECT_NE(four.err.find("a mesh of 4 devices"), std::string::npos) << four.err;
  EXPECT_EQ(four.out.find("4 devices"), std::string::npos) << four.out;
  expect_failure(run(digits + "--set train.device=cpu --set train.devices=0"), "train.devices: ");
  expect_failure(run(digits + "--set train.device=cpu --set train.devices=-2"), "train.devices: ");
  const Outcome all = run(digits + "--set train.device=cpu --set train.devices=-1");
  EXPECT_EQ(all.code, 0) << all.err;
  EXPECT_NE(all.out.find(" cpu\n"), std::string::npos) << all.out;  // one, as there is
  const Outcome reference = run(digits + "--fresh --set train.device=reference --set train.devices=4");
  EXPECT_EQ(reference.code, 0) << reference.err;
  EXPECT_NE(reference.out.find(" reference, 4 devices\n"), std::string::npos) << reference.out;
}

TEST_F(TrainCli, AKeyOfAnotherProgramOrInNoSectionNamesTheRightOne) {
  const std::string digits = "train --model mlp --data 'digits?train=20&test=10' ";
  expect_failure(run(digits + "--set train.learning_rate=0.1"), "did you mean train.lr?");
  expect_failure(run(digits + "--set train.batch_size=1"), "did you mean train.batch?");
  expect_failure(run(digits + "--set patience=3"), "did you mean train.early_stopping?");
  expect_failure(run(digits + "--set data.epochs=1"), "did you mean train.epochs?");
  NEEDS_TOML();
  write("run.toml", "epochs = 5\n[data]\nsource = \"digits\"\n");
  expect_failure(run("train run.toml"),
                 "run.toml:1: epochs stands in no section; did you mean epochs below [train]?");
  // A model of the command line replaces the file's.
  write("run.toml",
        "[data]\nsource = \"digits?train=20&test=10\"\n[model]\nlayers = [\"flatten\", \"dense "
        "10\"]\n[train]\nepochs "
        "= 0\n");
  const Outcome named = run("train run.toml --model mlp --out named");
  EXPECT_NE(named.out.find("mlp, 101,770 parameters"), std::string::npos) << named.out << named.err;
}

// What is wrong is said before anything is trained or written, and names the key.
TEST_F(TrainCli, SettingsThatCannotBeAreRefusedBeforeTheFolderIsMade) {
  const std::string digits = "train --data 'digits?train=20&test=10' --out run ",
                    mlp = digits + "--model mlp ";
  expect_failure(run(mlp + "--set train.early_stopping=2 --set train.monitor=val_acc"),
                 "did you mean 'val_accuracy'?");
  expect_failure(
      run(mlp + "--set train.save_best=true --set train.monitor=val_loss --set data.validation=none"),
      "train.monitor");
  expect_failure(run(mlp + "--set train.restore_best=true"), "train.restore_best");
  expect_failure(run(mlp + "--set train.validation_every=0"), "train.validation_every");
  expect_failure(run(mlp + "--set train.class_weights=[1,2]"), "train.class_weights");
  for (const char* last : {"softmax", "LogSoftmax", "sigmoid"})
    expect_failure(run(digits + "--set 'model.layers=[flatten, dense 10 " + last + "]'"),
                   std::string("leave ") + last + " out");
  EXPECT_FALSE(fs::exists(folder_ / "run"));
  EXPECT_EQ(run(digits + "--set 'model.layers=[flatten, dense 10 softmax]' --set train.epochs=0 --set "
                         "train.loss=sparse_categorical_cross_entropy")
                .code,
            0);
}

// One training that the tests below look at.
class TrainedRun : public TrainCli {
 protected:
  void SetUp() override {
    outcome_ = run(std::string("train --model mlp ") + kSmall + " --set train.epochs=4 --out run");
    ASSERT_EQ(outcome_.code, 0) << outcome_.out << outcome_.err;
  }
  Outcome outcome_;
};

TEST_F(TrainedRun, LeavesItsFilesAndSaysTheResultLastAsEvaluateDoes) {
  EXPECT_GT(metric_in(outcome_, "accuracy"), 0.7);
  // 784·128 + 128 + 128·10 + 10
  EXPECT_NE(outcome_.out.find("mlp, 101,770 parameters"), std::string::npos) << outcome_.out;
  for (const char* file : {"model.safetensors", "history.csv", "config.toml", "loss.svg", "accuracy.svg",
                           "confusion.svg", "confusion.csv", "checkpoints"})
    EXPECT_TRUE(fs::exists(folder_ / "run" / file)) << file;
  const training::History history = training::History::read_csv(folder_ / "run/history.csv");
  EXPECT_EQ(history.epochs(), 4u);
  for (const char* column : {"loss", "accuracy", "val_loss", "val_accuracy", "lr"})
    EXPECT_TRUE(history.has(column)) << column;

  const Outcome again = run("evaluate run --report");
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.last_line(), outcome_.last_line());
  EXPECT_NE(again.out.find("precision"), std::string::npos);
  EXPECT_NE(again.out.find("confusion matrix"), std::string::npos);
  const Outcome file = run("evaluate run/model.safetensors --data 'digits?train=1&test=200' --batch 7");
  EXPECT_NEAR(metric_in(file, "accuracy"), metric_in(outcome_, "accuracy"), 1e-9) << file.out;

  // systole::load runs the model on the pictures as they are.
  const data::Source test = data::embedded_digits(1, 200).test;
  const SavedModel model = load(folder_ / "run/model.safetensors");
  const std::vector<Literal> columns = test.columns();
  const std::vector<std::int32_t> said =
      model(Tensor(columns[0])).argmax(-1).to(DType::i32).to_vector<std::int32_t>();
  std::int64_t right = 0;
  for (std::size_t i = 0; i < said.size(); ++i) right += said[i] == columns[1].values<std::int32_t>()[i];
  EXPECT_NEAR(static_cast<double>(right) / 200, metric_in(outcome_, "accuracy"), 1e-9);
  EXPECT_EQ(model.classes().size(), 10u);
}

TEST_F(TrainedRun, PredictNamesClassesOfPicturesAndArrays) {
  const data::Digits digits = data::digits(20, 77);
  io::save_npy(folder_ / "digits.npy", digits.images);
  io::save_png(folder_ / "one.png",
               Literal::copy_of({DType::u8, {28, 28}}, digits.images.as_bytes().first(784)));
  const Outcome picture = run("predict run one.png --top 2");
  EXPECT_EQ(picture.code, 0) << picture.err;
  EXPECT_TRUE(
      std::regex_match(picture.out, std::regex(R"(one\.png  [0-9] [01]\.[0-9]{4}  [0-9] 0\.[0-9]{4}\n)")))
      << picture.out;
  ASSERT_EQ(run("predict run digits.npy --out p.npy").code, 0);
  const Literal p = io::load_npy(folder_ / "p.npy");
  ASSERT_EQ(p.shape(), (Shape{20, 10}));
  const std::span<const float> values = p.values<float>();
  for (std::size_t row = 0; row < 20; ++row) {
    double sum = 0;
    for (std::size_t c = 0; c < 10; ++c) sum += values[row * 10 + c];
    EXPECT_NEAR(sum, 1, 1e-5);
  }
  const auto best = std::max_element(values.begin(), values.begin() + 10) - values.begin();
  EXPECT_EQ(picture.out.substr(9, 1), std::to_string(best)) << picture.out;
  expect_failure(run("predict run nothing.png"), "nothing.png");
  EXPECT_EQ(run("predict run").code, 2);
}

TEST_F(TrainedRun, PlotWritesPicturesOfOneRunOrSeveral) {
  EXPECT_EQ(run("plot run --out all.svg").code, 0);
  const std::string svg = text_of(folder_ / "all.svg");
  EXPECT_NE(svg.find("<svg"), std::string::npos);
  EXPECT_NE(svg.find("</svg>"), std::string::npos);
  fs::copy(folder_ / "run/history.csv", folder_ / "other.csv");
  EXPECT_EQ(run("plot run other.csv --y loss --log --out two.svg").code, 0);
  EXPECT_NE(text_of(folder_ / "two.svg").find("other"), std::string::npos);
  EXPECT_EQ(run("plot run --y confusion --out matrix.svg").code, 0);
  EXPECT_NE(text_of(folder_ / "matrix.svg").find("</svg>"), std::string::npos);
  if (const Outcome png = run("plot run --y loss --out loss.png"); png.code == 0)
    EXPECT_TRUE(text_of(folder_ / "loss.png").starts_with("\x89PNG\r\n"));
  else
    EXPECT_NE(png.err.find("libpng"), std::string::npos) << png.err;
  expect_failure(run("plot run --y los"), "did you mean 'loss'?");
  expect_failure(run("plot nowhere"), "there is no such run");
  expect_failure(run("plot run --out picture.gif"), "picture.gif");
}

TEST_F(TrainCli, TheSameFolderGoesOnAndEndsAsIfItHadNeverStopped) {
  const std::string command = std::string("train --model mlp --set model.hidden=[32] ") + kSmall;
  ASSERT_EQ(run(command + " --set train.epochs=1 --out part").code, 0);
  const Outcome rest = run(command + " --set train.epochs=3 --out part");
  ASSERT_EQ(rest.code, 0) << rest.err;
  EXPECT_NE(rest.out.find("going on"), std::string::npos) << rest.out;
  const Outcome whole = run(command + " --set train.epochs=3 --out whole");
  EXPECT_EQ(rest.last_line(), whole.last_line());
  const training::History a = training::History::read_csv(folder_ / "part/history.csv"),
                          b = training::History::read_csv(folder_ / "whole/history.csv");
  EXPECT_EQ(a["loss"], b["loss"]);
  EXPECT_EQ(a["val_accuracy"], b["val_accuracy"]);
  const auto weights = io::load_safetensors(folder_ / "whole/model.safetensors");
  for (const auto& [name, value] : io::load_safetensors(folder_ / "part/model.safetensors"))
    EXPECT_TRUE(value.literal().same_bits(weights.at(name).literal())) << name;

  const Outcome again = run(command + " --set train.epochs=3 --out part");
  EXPECT_EQ(again.last_line(), whole.last_line());
  expect_failure(run(command + " --set train.epochs=3 --set train.lr=0.5 --out part"),
                 "train.lr was 0.0 and is 0.5");
  const Outcome fresh = run(command + " --set train.epochs=1 --set train.seed=2 --out part --fresh");
  EXPECT_EQ(fresh.code, 0) << fresh.err;
  EXPECT_EQ(training::History::read_csv(folder_ / "part/history.csv").epochs(), 1u);
  NEEDS_TOML();
  const Outcome repeated = run("train whole/config.toml --out copy");
  EXPECT_EQ(repeated.last_line(), whole.last_line()) << repeated.err;
}

TEST_F(TrainCli, ATrainingThatFailedOrStoppedEarlyGoesOnWithOtherSettings) {
  const std::string digits = "train --model mlp --data 'digits?train=40&test=10' --out run ";
  expect_failure(run(digits + "--set train.lr=1e30 --set train.batch=8"), "not finite");
  const std::string stopping = digits + "--set train.min_delta=100 ";
  const auto epochs = [&] { return training::History::read_csv(folder_ / "run/history.csv").epochs(); };
  ASSERT_EQ(run(stopping + "--set train.epochs=4 --set train.early_stopping=1").code, 0);
  EXPECT_EQ(epochs(), 2u);
  const Outcome same = run(stopping + "--set train.epochs=4 --set train.early_stopping=1");
  EXPECT_NE(same.out.find("stopped early"), std::string::npos) << same.out << same.err;
  EXPECT_EQ(epochs(), 2u);
  EXPECT_EQ(run(stopping + "--set train.epochs=5 --set train.early_stopping=1").code, 0);
  EXPECT_EQ(epochs(), 3u);
  EXPECT_EQ(run(stopping + "--set train.epochs=5").code, 0);
  EXPECT_EQ(epochs(), 5u);
  const std::string config = text_of(folder_ / "run/config.toml");
  expect_failure(run(stopping + "--set train.epochs=2"), "train.epochs is 2 and 5 are done");
  EXPECT_EQ(text_of(folder_ / "run/config.toml"), config);
}

TEST_F(TrainCli, AFileOfTheUsersIsNeverOverwritten) {
  NEEDS_TOML();
  const std::string own = "[data]\nsource = \"digits?train=20&test=10\"\n[model]\nname = \"mlp\"  # mine\n";
  write("config.toml", own);
  expect_failure(run("train config.toml --out ."), "not written by systole train");
  expect_failure(run("train config.toml --out . --fresh"), "not written by systole train");
  EXPECT_EQ(text_of(folder_ / "config.toml"), own);
}

// `systole train` in a process of its own, in the folder "run" and without an end; its output is in "said".
class LongTraining {
 public:
  explicit LongTraining(const fs::path& folder, std::vector<std::string> more = {}) : folder_(folder) {
    std::vector<std::string> words{
        SYSTOLE_COMMAND,       "train", "--model", "mlp", "--data", "digits?train=600&test=50", "--set",
        "train.epochs=100000", "--out", "run"};
    words.insert(words.end(), more.begin(), more.end());
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    process_ = fork();
    if (process_ == 0) {
      if (chdir(folder_.c_str()) != 0) _exit(99);
      const int out = open("said", O_CREAT | O_WRONLY | O_TRUNC, 0600);
      dup2(out, STDOUT_FILENO);
      execv(SYSTOLE_COMMAND, arguments.data());
      _exit(98);
    }
  }
  ~LongTraining() {
    if (process_ > 0) end(SIGKILL);
  }
  LongTraining(const LongTraining&) = delete;
  LongTraining& operator=(const LongTraining&) = delete;

  pid_t process() const { return process_; }
  void wait_for(const char* file) const {
    for (int i = 0; i < 1200 && !fs::exists(folder_ / file); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_TRUE(fs::exists(folder_ / file)) << said();
  }
  // The status with which the signal ends it.
  int end(int signal) {
    kill(process_, signal);
    int status = 0;
    waitpid(std::exchange(process_, -1), &status, 0);
    return status;
  }
  std::string said() const { return text_of(folder_ / "said"); }

 private:
  const fs::path folder_;
  pid_t process_ = -1;
};

TEST_F(TrainCli, ASecondTrainingInTheSameFolderIsRefusedUntilTheFirstIsGone) {
  const std::string again = "train --model mlp --data 'digits?train=600&test=50' --out run ";
  LongTraining first(folder_);
  first.wait_for("run/history.csv");
  const std::string holder = "process " + std::to_string(first.process()) + " on host ";
  expect_failure(run(again + "--set train.epochs=100000"), holder);
  expect_failure(run(again + "--set train.epochs=1"), holder);
  expect_failure(run(again + "--set train.epochs=1 --fresh"), holder);
  EXPECT_FALSE(training::CheckpointFolder(folder_ / "run/checkpoints").list().empty());
  if (reads_toml()) {
    expect_failure(run("profile run --steps 2 --no-roof"), holder);
    EXPECT_FALSE(fs::exists(folder_ / "run/profile"));
    expect_failure(run("profile run --steps 2 --no-roof --out run/other/place"), holder);
    EXPECT_EQ(run("profile run --steps 2 --skip 0 --no-roof --out elsewhere").code, 0);
  }
  expect_failure(run("evaluate run"), holder);
  // It is gone at once after kill -9, and the next one goes on.
  EXPECT_TRUE(WIFSIGNALED(first.end(SIGKILL)));
  const std::size_t done = training::History::read_csv(folder_ / "run/history.csv").epochs();
  const Outcome resumed =
      run(again + "--set train.plots=false --set train.epochs=" + std::to_string(done + 2));
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_NE(resumed.out.find("going on from step"), std::string::npos) << resumed.out;
}

TEST_F(TrainCli, ACommandsOwnFoldersAreEachOfOneTraining) {
  const std::string line = "cd '" + folder_.string() + "' && for i in 1 2 3 4; do '" + SYSTOLE_COMMAND +
                           "' train --model mlp --data 'digits?train=40&test=10' --set train.epochs=1 --set "
                           "train.plots=false > out$i 2>&1 & done; wait";
  EXPECT_EQ(std::system(line.c_str()), 0);
  for (int i = 1; i <= 4; ++i)
    EXPECT_TRUE(fs::exists(folder_ / ("runs/digits-mlp-" + std::to_string(i)) / "model.safetensors"))
        << text_of(folder_ / ("out" + std::to_string(i)));
}

TEST_F(TrainCli, CtrlCKeepsACheckpointAndSaysHowToGoOn) {
  LongTraining training(folder_);
  training.wait_for("run/history.csv");
  const int status = training.end(SIGINT);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
  const std::string said = training.said();
  EXPECT_NE(said.find("systole train run/config.toml --out run"), std::string::npos) << said;
  EXPECT_FALSE(training::CheckpointFolder(folder_ / "run/checkpoints").list().empty());
  EXPECT_FALSE(fs::exists(folder_ / "run/model.safetensors"));
  expect_failure(run("evaluate run"), "systole train run/config.toml --out run");
}

TEST_F(TrainCli, SigtermKeepsACheckpointToGoOnFromAndTheCodeSaysIt) {
  LongTraining training(folder_);
  training.wait_for("run/history.csv");
  const auto begin = std::chrono::steady_clock::now();
  const int status = training.end(SIGTERM);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  ASSERT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), 143);
  const std::string said = training.said();
  EXPECT_NE(said.find("systole train run/config.toml --out run"), std::string::npos) << said;
  const auto kept = training::CheckpointFolder(folder_ / "run/checkpoints").list();
  ASSERT_FALSE(kept.empty());
  EXPECT_NE(said.find("stopped after " + std::to_string(kept.back().step) + " steps"), std::string::npos);
}

// A run that had ended was asked for more epochs and killed in them: its model is not the one that was asked
// for.
TEST_F(TrainCli, EvaluatingAKilledRunNamesTheCommandThatGoesOn) {
  const std::string again =
      "train --model mlp --data 'digits?train=600&test=50' --set train.plots=false --out run";
  ASSERT_EQ(run(again + " --set train.epochs=1").code, 0);
  EXPECT_EQ(run("evaluate run").err, "");
  {
    LongTraining training(folder_);
    const std::string before = text_of(folder_ / "run/history.csv");
    for (int i = 0; i < 1200 && text_of(folder_ / "run/history.csv").size() <= before.size(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    training.end(SIGKILL);
  }
  NEEDS_TOML();
  const Outcome older = run("evaluate run");
  EXPECT_EQ(older.code, 0) << older.err;
  EXPECT_NE(older.err.find("systole train run/config.toml --out run"), std::string::npos) << older.err;
  fs::remove(folder_ / "run/model.safetensors");
  expect_failure(run("evaluate run"), "to go on: systole train run/config.toml --out run");
  expect_failure(run("predict run nothing.npy"), "to go on: systole train run/config.toml --out run");
}

TEST_F(TrainCli, NumbersAreLearnedFromATableWithItsMeansKeptInTheModel) {
  // y = 3·a - 2·b + 100, with features of very different sizes and a word that says which sign b has.
  std::string table = "a,sign,b,y\n";
  for (int i = 0; i < 200; ++i) {
    const double a = 1000 + 10 * (i % 17), b = 0.01 * (i % 11);
    const bool plus = i % 3 != 0;
    table += std::to_string(a) + (plus ? ",plus," : ",minus,") + std::to_string(b) + "," +
             std::to_string(0.03 * a - (plus ? 50 : -50) * b + 1) + "\n";
  }
  write("table.csv", table);
  const Outcome outcome = run(
      "train --model mlp --data 'csv:table.csv?regression' --set model.hidden=[32] --set train.epochs=150 "
      "--set train.lr=0.02 --set train.verbose=0 --set train.metrics=r2 --out run");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_LT(metric_in(outcome, "mae"), 0.5);  // y spreads over some 6
  EXPECT_TRUE(std::regex_search(outcome.last_line(), std::regex(R"( loss [0-9.]+ r2 0\.[0-9]{4}$)")))
      << outcome.out;
  EXPECT_EQ(run("evaluate run").last_line(), outcome.last_line());
  // Columns in another order, without the target, and with one word only.
  write("new.csv", "b,sign,a\n0.1,plus,1080\n");
  const Outcome said = run("predict run new.csv");
  ASSERT_EQ(said.code, 0) << said.err;
  EXPECT_NEAR(std::stod(said.out.substr(said.out.find("  "))), 0.03 * 1080 - 50 * 0.1 + 1, 1.5) << said.out;
  write("new.csv", "b,sign,a\n0.1,times,1080\n0.1,plus,1080\n");
  expect_failure(run("predict run new.csv"),
                 "new.csv, line 2, column 'sign': the training had no such value");
}

TEST_F(TrainCli, WordsOfATableHaveTheNumbersOfTheTrainingEverywhere) {
  // 7 is one kind, 8 and red the other: a number of x for each.
  std::string table = "a,word,kind\n", test = "a,word,kind\n";
  for (int i = 0; i < 90; ++i)
    table += std::to_string(i % 5) + (i % 3 == 0 ? ",7,low\n" : i % 3 == 1 ? ",8,high\n" : ",red,high\n");
  for (int i = 0; i < 10; ++i) test += std::to_string(i % 5) + (i % 2 == 0 ? ",8,high\n" : ",red,high\n");
  write("table.csv", table);
  write("test.csv", test);
  const Outcome outcome = run(
      "train --model mlp --data 'csv:table.csv?label=-1' --set data.test=csv:test.csv --set "
      "model.hidden=[16] "
      "--set train.epochs=30 --set train.lr=0.03 --set train.verbose=0 --set train.plots=false --out run");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(metric_in(outcome, "accuracy"), 1.0);
  EXPECT_EQ(metric_in(run("evaluate run --data csv:test.csv"), "accuracy"), 1.0);
  write("new.csv", "word,a\n8,1\n7,1\n");
  const Outcome said = run("predict run new.csv --top 1");
  EXPECT_TRUE(std::regex_match(said.out, std::regex(R"(new\.csv\[0\]  high .*\nnew\.csv\[1\]  low .*\n)")))
      << said.out << said.err;
  write("new.csv", "size,a\n8,1\n7,1\n");
  const Outcome missing = run("predict run new.csv");
  expect_failure(missing, "new.csv: there is no column 'word'");
  EXPECT_NE(missing.err.find("size, a"), std::string::npos) << missing.err;
}

TEST_F(TrainCli, StandardTargetsAreRestoredInTheModel) {
  // y = 20000·a + 1000000: far from 0 for a model that begins there.
  std::string table = "a,y\n";
  for (int i = 0; i < 120; ++i)
    table += std::to_string(i % 12) + ".5," + std::to_string(1000000 + 20000 * (i % 12) + 10000) + "\n";
  write("table.csv", table);
  const std::string line =
      "train --data 'csv:table.csv?regression' --set 'model.layers=[dense 1]' --set train.epochs=150 --set "
      "train.lr=0.05 --set train.verbose=0 --set train.plots=false ";
  const Outcome outcome = run(line + "--set data.targets=standard --out run");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_LT(metric_in(outcome, "mae"), 5000) << outcome.out;
  std::smatch loss;
  const std::string last = outcome.last_line();
  ASSERT_TRUE(std::regex_search(last, loss, std::regex("loss ([0-9.]+)"))) << last;
  EXPECT_LT(std::stod(loss[1]), 0.01) << last;  // of the standardised numbers, whose variance is 1
  EXPECT_EQ(run("evaluate run").last_line(), last);
  write("new.csv", "a\n2.5\n");
  const Outcome said = run("predict run new.csv");
  EXPECT_NEAR(std::stod(said.out.substr(said.out.find("  "))), 1050000, 10000) << said.out << said.err;
  EXPECT_GT(metric_in(run(line + "--out plain"), "mae"), 100000);
  expect_failure(run("train --model mlp --data 'digits?train=20&test=10' --set data.targets=standard"),
                 "data.targets: the targets are classes");
}

TEST_F(TrainCli, MetricsAndLossesOfAnotherTaskAreRefused) {
  std::string table = "a,y\n";
  for (int i = 0; i < 40; ++i) table += std::to_string(i % 5) + ".5," + std::to_string(i % 7) + ".25\n";
  write("table.csv", table);
  const std::string numbers = "train --model mlp --data 'csv:table.csv?regression' --out run ";
  for (const char* metric : {"accuracy", "top5", "f1_macro", "auc", "log_loss"})
    expect_failure(run(numbers + "--set train.metrics=" + metric), "it is of classes");
  expect_failure(run(numbers + "--set train.loss=cross_entropy"), "it is of classes");
  const std::string digits = "train --model mlp --data 'digits?train=20&test=10' --set train.epochs=0 --out ";
  expect_failure(run(digits + "run --set train.metrics=[mae]"), "it is of numbers");
  EXPECT_FALSE(fs::exists(folder_ / "run"));
  ASSERT_EQ(run(digits + "digits").code, 0);
  expect_failure(run("evaluate digits --metric r2"), "it is of numbers");
}

TEST_F(TrainCli, DataInfoListsTheColumnsOfATable) {
  std::string table = "ID,city,size,y\n";
  for (int i = 0; i < 40; ++i)
    table += std::to_string(i) + (i % 2 == 0 ? ",rome," : ",oslo,") + (i == 3 ? "" : "2.5") + ",no\n";
  write("table.csv", table);
  const Outcome good = run("data info csv:table.csv");
  ASSERT_EQ(good.code, 0) << good.err;
  for (const char* line :
       {"column  type          missing  use\n",
        "ID      whole number  0        feature; looks like an identifier (by its name)\n",
        "city    text          0        feature, one-hot of 2 values\n",
        "size    number        1        feature\n", "y       text          0        label\n"})
    EXPECT_NE(good.out.find(line), std::string::npos) << good.out;
  // The columns are listed of a table that is refused, too.
  const Outcome refused = run("data info 'csv:table.csv?one_hot=1'");
  EXPECT_EQ(refused.code, 1);
  EXPECT_NE(refused.out.find("city    text          0        refused: 2 values"), std::string::npos)
      << refused.out;
  EXPECT_NE(refused.err.find("drop=city"), std::string::npos) << refused.err;
}

TEST_F(TrainCli, ATestFolderWithoutAClassKeepsTheNumbersOfTheOthers) {
  // One half of the picture is white: left, right or upper.
  const auto draw = [&](const char* part, const char* name, int number) {
    std::vector<std::uint8_t> pixels(64, 0);
    for (std::size_t i = 0; i < 64; ++i) {
      const bool white = name[0] == 'l' ? i % 8 < 4 : name[0] == 'r' ? i % 8 >= 4 : i < 32;
      pixels[i] = white ? static_cast<std::uint8_t>(250 - number) : 0;
    }
    const fs::path folder = folder_ / "pictures" / part / name;
    fs::create_directories(folder);
    io::save_png(folder / (std::to_string(number) + ".png"), Literal::of<std::uint8_t>({8, 8}, pixels));
  };
  for (int i = 0; i < 8; ++i)
    for (const char* name : {"left", "right", "upper"}) draw("train", name, i);
  for (const char* name : {"right", "upper"}) draw("test", name, 20);
  const Outcome outcome =
      run("train --data 'images:pictures?size=8&channels=1' --set 'model.layers=[flatten, dense 3]' --set "
          "train.epochs=10 --set train.lr=0.05 --set train.batch=8 --set train.verbose=0 --set "
          "train.plots=false --out run");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(metric_in(outcome, "accuracy"), 1.0);
}

TEST_F(TrainCli, ASoundOfAnotherRateIsRefused) {
  const auto record = [&](const std::string& file, std::int32_t rate, float level) {
    fs::create_directories((folder_ / file).parent_path());
    const std::vector<float> samples(32, level);
    io::save_wav(folder_ / file, {Literal::of<float>({32}, samples), rate});
  };
  for (int i = 0; i < 8; ++i) {
    record("sounds/high/" + std::to_string(i) + ".wav", 8000, 0.5f);
    record("sounds/low/" + std::to_string(i) + ".wav", 8000, -0.5f);
  }
  record("new/same.wav", 8000, 0.5f);
  record("new/other.wav", 16000, 0.5f);
  const Outcome outcome =
      run("train --model mlp --data 'audio:sounds?samples=32&folders' --set train.epochs=1 --set "
          "train.verbose=0 --set "
          "train.plots=false --out run");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(run("predict run new/same.wav").code, 0);
  const Outcome other = run("predict run new/other.wav");
  expect_failure(other, "another rate");
  EXPECT_NE(other.err.find("8000"), std::string::npos) << other.err;
  record("others/high/0.wav", 16000, 0.5f);
  expect_failure(run("evaluate run --data 'audio:others?samples=32&folders'"), "another rate");
}

TEST_F(TrainCli, ALayersListAndTwoClassesWithOneOutput) {
  std::string table = "a,b,kind\n";
  for (int i = 0; i < 120; ++i)
    table += std::to_string(i % 10) + "," + std::to_string(i % 7) + (i % 10 > 4 ? ",high\n" : ",low\n");
  write("table.csv", table);
  const Outcome outcome =
      run("train --data csv:table.csv --set 'model.layers=[dense 8 relu, dense 1]' --set train.epochs=60 "
          "--set train.lr=0.05 --set train.schedule=cosine --set train.schedule_options.warmup=2 --set "
          "train.metrics=auc --set train.verbose=0 --out run");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_GT(metric_in(outcome, "accuracy"), 0.9);
  EXPECT_TRUE(std::regex_search(outcome.last_line(), std::regex(R"( loss [0-9.]+ auc [01]\.[0-9]{4}$)")))
      << outcome.out;
  write("new.csv", "a,b\n9,3\n0,3\n");
  const Outcome said = run("predict run new.csv --top 1");
  EXPECT_TRUE(std::regex_match(said.out, std::regex(R"(new\.csv\[0\]  high .*\nnew\.csv\[1\]  low .*\n)")))
      << said.out << said.err;
}

TEST_F(TrainCli, AModelOfProbabilitiesIsMeasuredAndReadAsSuch) {
  std::string table = "a,b,kind\n";
  for (int i = 0; i < 120; ++i)
    table += std::to_string(i % 10) + "," + std::to_string(i % 7) + (i % 10 > 4 ? ",high\n" : ",low\n");
  write("table.csv", table);
  const Outcome outcome = run(
      "train --data csv:table.csv --set 'model.layers=[dense 8 relu, dense 1 sigmoid]' --set train.loss=bce "
      "--set train.epochs=40 --set train.lr=0.05 --set train.verbose=0 --set train.plots=false --out run");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_GT(metric_in(outcome, "accuracy"), 0.9);  // half, if what is above 0 were the second class
  write("new.csv", "a,b\n9,3\n0,3\n");
  const Outcome said = run("predict run new.csv --top 1");
  EXPECT_TRUE(std::regex_match(
      said.out, std::regex(R"(new\.csv\[0\]  high (0\.9|1\.0).*\nnew\.csv\[1\]  low (0\.9|1\.0).*\n)")))
      << said.out << said.err;
}

// Folders of tests/data/make_pretrained.py: as transformers leaves them.
class PublishedWeights : public TrainCli {
 protected:
  PublishedWeights() {
    fs::copy(fs::path(SYSTOLE_TEST_DATA) / "pretrained", folder_ / "pretrained", fs::copy_options::recursive);
    std::string text;
    for (int i = 0; i < 300; ++i) text += static_cast<char>('a' + i * 7 % 26);
    write("text.txt", text);
  }
  Outcome train(const std::string& model, const std::string& weights, const std::string& more = "") {
    return run("train --model " + model +
               " --data 'text:text.txt?window=8&stride=8' --set model.weights=pretrained/" + weights +
               " --set train.epochs=0 --set train.verbose=0 --set train.plots=false --out run --fresh " +
               more);
  }
  // Texts of six words with one of two classes each.
  Outcome classify(const std::string& weights, const std::string& more = "") {
    std::vector<std::int32_t> words, labels;
    for (int i = 0; i < 40; ++i) {
      for (int k = 0; k < 6; ++k) words.push_back(2 + (i * 5 + k) % 38);
      labels.push_back(i % 2);
    }
    io::save_npz(folder_ / "texts.npz",
                 std::vector<io::NamedArray>{{"x", Literal::of<std::int32_t>({40, 6}, words)},
                                             {"y", Literal::of<std::int32_t>({40}, labels)}});
    return run("train --model bert --data npz:texts.npz --set model.weights=pretrained/" + weights +
               " --set train.epochs=1 --set train.verbose=0 --set train.plots=false --out run --fresh " +
               more);
  }
};

TEST_F(PublishedWeights, Gpt2WithoutAPrefixIsTakenWholeWithItsSettings) {
  for (const char* weights : {"gpt2", "gpt2/model.safetensors"}) {
    const Outcome outcome = train("gpt2", weights);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("28 of 28 arrays"), std::string::npos) << outcome.out;
  }
  const SavedModel model = load(folder_ / "run" / "model.safetensors");
  const auto arrays = io::load_npz(folder_ / "pretrained/gpt2/expected.npz");
  const auto first_8 = [](const Literal& values) { return Tensor(values)[{all, slice(0, 8)}]; };
  const Tensor given = model(first_8(arrays[0].value)), wanted = first_8(arrays[1].value);
  EXPECT_LT(max(abs(given.to(DType::f64) - wanted)).item<double>(), 1e-3);
}

TEST_F(PublishedWeights, SettingsThatContradictConfigJsonAreRefused) {
  expect_failure(train("gpt2", "gpt2", "--set model.heads=2"),
                 "model.heads is not that of the weights, as config.json beside them says");
  expect_failure(train("lstm", "gpt2"), "of the family gpt2");
  expect_failure(train("bert", "gpt2"), "of the family gpt2");
  write("pretrained/gpt2/config.json", "{\"model_type\": \"llama\"}");
  expect_failure(train("gpt2", "gpt2"), "of the family llama");
}

TEST_F(PublishedWeights, BlocksThatStayNewAreRefusedUnlessTold) {
  fs::remove(folder_ / "pretrained/gpt2/config.json");
  const std::string sizes =
      "--set model.vocabulary=40 --set model.width=16 --set model.heads=4 --set model.length=12 ";
  expect_failure(train("gpt2", "gpt2", sizes + "--set model.layers=3"),
                 "12 of the model's 40 arrays have no value in it: h.2.");
  expect_failure(train("gpt2", "gpt2", sizes + "--set model.layers=1"),
                 "it has blocks that the model has not: h.1.");
  for (const char* flag : {"--partial-weights", "--set model.partial_weights=true"}) {
    const Outcome more = train("gpt2", "gpt2", sizes + "--set model.layers=3 " + flag);
    ASSERT_EQ(more.code, 0) << more.err;
    EXPECT_NE(more.out.find("28 of 40 arrays"), std::string::npos) << more.out;
  }
  const Outcome fewer = train("gpt2", "gpt2", sizes + "--set model.layers=1 --partial-weights");
  EXPECT_NE(fewer.out.find("left out: h.1."), std::string::npos) << fewer.out << fewer.err;
}

TEST_F(PublishedWeights, AnOutputLayerOfItsOwnIsNotLeftOutUnlessTold) {
  fs::remove(folder_ / "pretrained/gpt2_untied/config.json");
  const std::string sizes =
      "--set model.vocabulary=40 --set model.width=16 --set model.heads=4 --set model.length=12 --set "
      "model.layers=2 --set model.intermediate=24 --set model.activation=relu --set model.epsilon=0.05 ";
  const Outcome tied = train("gpt2", "gpt2_untied", sizes);
  expect_failure(tied, "lm_head.weight is not the word embedding");
  EXPECT_NE(tied.err.find("--set model.tied=false"), std::string::npos) << tied.err;
  const Outcome own = train("gpt2", "gpt2_untied", sizes + "--set model.tied=false");
  ASSERT_EQ(own.code, 0) << own.err;
  EXPECT_NE(own.out.find("29 of 29 arrays"), std::string::npos) << own.out;
  const Outcome without = train("gpt2", "gpt2_untied", sizes + "--partial-weights");
  ASSERT_EQ(without.code, 0) << without.err;
  EXPECT_NE(without.out.find("left out: lm_head.weight"), std::string::npos) << without.out;
  // BERT's is always tied.
  const fs::path bert = folder_ / "pretrained/bert_old_names/model.safetensors";
  std::map<std::string, Tensor> values = io::load_safetensors(bert);
  values.emplace("cls.predictions.decoder.weight", zeros({40, 16}));
  io::save_safetensors(bert, values);
  expect_failure(train("bert", "bert_old_names"), "cls.predictions.decoder.weight is not the word embedding");
  EXPECT_EQ(train("bert", "bert_old_names", "--partial-weights").code, 0);
}

TEST_F(PublishedWeights, AHeadOfOtherClassesIsNew) {
  const Outcome outcome = classify("roberta_classify");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("new: classifier.weight, classifier.bias"), std::string::npos) << outcome.out;
}

TEST_F(PublishedWeights, AClassifierBeginsWithAMaskedModelsWeightsAndAPoolerOfItsOwn) {
  const Outcome outcome = classify("roberta_mask");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find(
                "new: bert.pooler.dense.weight, bert.pooler.dense.bias, classifier.weight, classifier.bias"),
            std::string::npos)
      << outcome.out;
}

TEST_F(PublishedWeights, ARobertaWithoutConfigJsonNeedsItsPadding) {
  fs::remove(folder_ / "pretrained/roberta_classify/config.json");
  const std::string sizes =
      "--set model.vocabulary=40 --set model.width=16 --set model.heads=4 --set model.length=14 --set "
      "model.layers=2 --set model.intermediate=32 --set model.segments=1 ";
  expect_failure(classify("roberta_classify", sizes), "positions begin after its padding word");
  const Outcome outcome = classify("roberta_classify", sizes + "--set model.padding=1");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("new: classifier.weight, classifier.bias"), std::string::npos) << outcome.out;
}

TEST_F(TrainCli, ADamagedPictureStopsOrIsSkippedAndCounted) {
  for (int i = 0; i < 16; ++i) {
    const fs::path folder = folder_ / "pictures" / (i % 2 == 0 ? "dark" : "light");
    fs::create_directories(folder);
    const std::vector<std::uint8_t> pixels(64, i % 2 == 0 ? 10 : 240);
    io::save_png(folder / (std::to_string(i) + ".png"), Literal::of<std::uint8_t>({8, 8}, pixels));
  }
  write("pictures/dark/6.png", "no picture");
  const std::string line =
      "train --data 'images:pictures?channels=1&size=8' --set 'model.layers=[flatten, dense 2]' --set "
      "train.epochs=2 "
      "--set train.batch=4 --set train.verbose=0 --set train.plots=false --out run --fresh ";
  const Outcome stopped = run(line);
  EXPECT_EQ(stopped.code, 1);
  EXPECT_NE(stopped.err.find("6.png"), std::string::npos) << stopped.err;
  EXPECT_NE(stopped.err.find("data.on_bad = \"skip\""), std::string::npos) << stopped.err;
  const Outcome skipped = run(line + "--set data.on_bad=skip");
  ASSERT_EQ(skipped.code, 0) << skipped.err;
  EXPECT_NE(skipped.out.find("1 sample could not be read"), std::string::npos) << skipped.out;
  expect_failure(run(line + "--set data.on_bad=skp"), "did you mean 'skip'?");
  expect_failure(run("train --model mlp --data digits --set data.on_bad=skip --out other"),
                 "the samples of digits are no files of their own");
}

// The neighbour that a training takes in the place of a damaged picture would count twice.
TEST_F(TrainCli, AScoreLeavesOutWhatCannotBeRead) {
  for (const char* set : {"pictures", "clean"})
    for (const char* part : {"train", "test"})
      for (int i = 0; i < 12; ++i) {
        const fs::path folder = folder_ / set / part / (i % 2 == 0 ? "dark" : "light");
        fs::create_directories(folder);
        const std::vector<std::uint8_t> pixels(16, static_cast<std::uint8_t>(40 + 17 * i));
        io::save_png(folder / (std::to_string(i) + ".png"), Literal::of<std::uint8_t>({4, 4}, pixels));
      }
  write("pictures/test/dark/4.png", "no picture");
  fs::remove(folder_ / "clean/test/dark/4.png");
  const Outcome trained =
      run("train --data 'images:pictures?channels=1&size=4' --set 'model.layers=[flatten, dense 2]' --set "
          "train.epochs=1 --set train.batch=4 --set train.verbose=0 --set train.plots=false --set "
          "data.on_bad=skip --out run");
  ASSERT_EQ(trained.code, 0) << trained.err;
  const Outcome clean = run("evaluate run --report --data 'images:clean?channels=1&size=4'");
  ASSERT_EQ(clean.code, 0) << clean.err;
  EXPECT_EQ(clean.out.find("could not be read"), std::string::npos) << clean.out;
  EXPECT_EQ(trained.last_line(), clean.last_line());
  for (const char* data : {"", " --data 'images:pictures?channels=1&size=4'"}) {
    const Outcome skipped = run(std::string("evaluate run --report") + data);
    ASSERT_EQ(skipped.code, 0) << skipped.err;
    EXPECT_NE(skipped.out.find("1 sample could not be read"), std::string::npos) << skipped.out;
    EXPECT_EQ(skipped.last_line(), clean.last_line());
    // The report counts the samples of each class.
    EXPECT_EQ(skipped.out.substr(skipped.out.find("precision")),
              clean.out.substr(clean.out.find("precision")));
  }
}

TEST_F(TrainCli, ADamagedSoundStopsOrIsSkippedAndCounted) {
  fs::create_directories(folder_ / "sounds");
  for (int i = 0; i < 16; ++i)
    io::save_wav(folder_ / "sounds" / (std::to_string(i % 2) + "_" + std::to_string(i) + ".wav"),
                 {Literal::of<float>({32}, std::vector<float>(32, i % 2 == 0 ? 0.5f : -0.5f)), 8000});
  write("sounds/0_6.wav", "no sound");
  const std::string line =
      "train --model mlp --data 'audio:sounds?samples=32' --set train.epochs=1 --set train.verbose=0 --set "
      "train.plots=false --out run --fresh ";
  const Outcome stopped = run(line);
  EXPECT_EQ(stopped.code, 1);
  EXPECT_NE(stopped.err.find("0_6.wav"), std::string::npos) << stopped.err;
  EXPECT_NE(stopped.err.find("data.on_bad = \"skip\""), std::string::npos) << stopped.err;
  const Outcome skipped = run(line + "--set data.on_bad=skip");
  ASSERT_EQ(skipped.code, 0) << skipped.err;
  EXPECT_NE(skipped.out.find("sounds: 12 samples, x f32[32], y i32[] of 2 classes; validation 3"),
            std::string::npos)
      << skipped.out;
  for (const Outcome& outcome : {skipped, run("evaluate run --data 'audio:sounds?samples=32'")}) {
    EXPECT_NE(outcome.out.find("1 sample could not be read"), std::string::npos)
        << outcome.out << outcome.err;
    EXPECT_NE(outcome.err.find("0_6.wav"), std::string::npos) << outcome.err;
  }
}

TEST_F(TrainCli, PredictWritesOutTheEscapesInNamesOfPlaces) {
  const auto scores = [](const Tensor& x) { return stack({x, 1 - x}, -1); };
  save(folder_ / "places.safetensors", nn::Linear(1, 1), scores, {{DType::f32, {1, 4}}},
       {.classes = {"\x1b[31mred", "blue"}, .metadata = {{"places", "true"}}});
  io::save_npy(folder_ / "x.npy", Literal::of<float>({4}, {1, 0, 0, 1}));
  EXPECT_EQ(run("predict places.safetensors x.npy").out, "x.npy  \\x1b[31mred blue blue \\x1b[31mred\n");
  io::save_npy(folder_ / "none.npy", Literal({DType::f32, {0, 4}}));
  expect_failure(run("predict places.safetensors none.npy"), "there are no samples in it");
  save(folder_ / "nothing.safetensors", nn::Linear(1, 1),
       [&](const Tensor& x) { return scores(x)[{all, all, slice(0, 0)}]; }, {{DType::f32, {1, 4}}},
       {.metadata = {{"places", "true"}}});
  expect_failure(run("predict nothing.safetensors x.npy"), "the model gives no numbers");
}

TEST_F(TrainCli, ALanguageModelOnTokensOfAnArray) {
  // The next token is the one after it, round 11.
  std::vector<std::int64_t> x, y;
  for (std::int64_t i = 0; i < 60; ++i)
    for (std::int64_t k = 0; k < 8; ++k) {
      x.push_back((i + k) % 11);
      y.push_back((i + k + 1) % 11);
    }
  io::save_npz(folder_ / "tokens.npz",
               std::vector<io::NamedArray>{{"x", Literal::of<std::int64_t>({60, 8}, x)},
                                           {"y", Literal::of<std::int64_t>({60, 8}, y)}});
  const std::string more =
      " --data npz:tokens.npz --set train.epochs=20 --set train.lr=0.01 --set train.batch=12 --set "
      "train.verbose=0 --set train.plots=false ";
  const Outcome outcome = run(
      "train --model gpt2 --set model.layers=1 --set model.width=16 --set model.heads=2 --out run" + more);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_GT(metric_in(outcome, "accuracy"), 0.95) << outcome.out;
  EXPECT_EQ(run("evaluate run").last_line(), outcome.last_line());
  EXPECT_EQ(run("evaluate run --data npz:tokens.npz").code, 0);
  io::save_npy(folder_ / "new.npy", Literal::of<std::int32_t>({8}, {3, 4, 5, 6, 7, 8, 9, 10}));
  const Outcome said = run("predict run new.npy");
  EXPECT_EQ(said.out, "new.npy  4 5 6 7 8 9 10 0\n") << said.err;
  ASSERT_EQ(run("predict run new.npy --out out.npy").code, 0);
  EXPECT_EQ(io::load_npy(folder_ / "out.npy").type(), (Type{DType::f32, {1, 8, 11}}));
  for (const char* model : {"lstm", "bert"})
    EXPECT_EQ(run(std::string("train --model ") + model + " --out " + model + more + "--set train.epochs=1 " +
                  (model[0] == 'b' ? "--set model.layers=1 --set model.width=8 --set model.heads=2" : ""))
                  .code,
              0)
        << model;
  // Words that the model does not know, and labels that are none.
  expect_failure(run("train --model lstm --set model.vocabulary=5 --out small" + more), "model.vocabulary");
  y[3] = -1;
  io::save_npz(folder_ / "tokens.npz",
               std::vector<io::NamedArray>{{"x", Literal::of<std::int64_t>({60, 8}, x)},
                                           {"y", Literal::of<std::int64_t>({60, 8}, y)}});
  expect_failure(run("train --model lstm --out small" + more), "sample 0: y");
  // Bytes are pictures.
  const std::vector<std::uint8_t> bytes(x.begin(), x.end());
  io::save_npz(folder_ / "tokens.npz",
               std::vector<io::NamedArray>{{"x", Literal::of<std::uint8_t>({60, 8}, bytes)},
                                           {"y", Literal::of<std::int64_t>({60, 8}, x)}});
  expect_failure(run("train --model lstm --out small" + more), "save tokens as i32");
}

TEST_F(TrainCli, SegmentationOfPicturesOfAnArray) {
  // Bright pixels are class 1; the upper border does not count.
  std::vector<std::uint8_t> x;
  std::vector<std::int32_t> y;
  for (int i = 0; i < 40; ++i)
    for (int row = 0; row < 6; ++row)
      for (int column = 0; column < 6; ++column) {
        const bool bright = (i * 7 + row * 5 + column * 3) % 4 < 2, border = row == 0;
        x.push_back(bright ? 220 : 30);
        y.push_back(border ? 255 : bright ? 1 : 0);
      }
  io::save_npz(folder_ / "masks.npz",
               std::vector<io::NamedArray>{{"x", Literal::of<std::uint8_t>({40, 6, 6}, x)},
                                           {"y", Literal::of<std::int32_t>({40, 6, 6}, y)}});
  const std::string line =
      "train --data npz:masks.npz --set train.loss_options='{ignore_index = 255}' --set train.epochs=30 "
      "--set "
      "train.lr=0.05 --set train.batch=8 --set train.verbose=0 --set train.plots=false ";
  const Outcome outcome = run(line + "--set 'model.layers=[conv 4 3x3 pad same relu, conv 2 1x1]' --out run");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(metric_in(outcome, "accuracy"), 1.0) << outcome.out;
  EXPECT_EQ(run("evaluate run").last_line(), outcome.last_line());
  std::vector<std::uint8_t> picture(36, 30);
  picture[7] = 220;
  io::save_png(folder_ / "new.png", Literal::of<std::uint8_t>({6, 6}, picture));
  const Outcome said = run("predict run new.png");
  EXPECT_NE(said.out.find(" 0 1 0 "), std::string::npos) << said.out << said.err;
  EXPECT_NE(said.out.find("of 36"), std::string::npos) << said.out;
  expect_failure(run(line + "--set 'model.layers=[flatten, dense 2]' --out other"), "[6,6,2]");
  // The mask stays where it is.
  const std::string changed =
      line + "--set 'model.layers=[conv 4 3x3 pad same relu, conv 2 1x1]' --set train.epochs=1 --out other ";
  for (const char* word : {"flip", "upside-down", "crop 1", "rotate 5"})
    expect_failure(run(changed + "--set 'data.augment=[\"" + word + "\"]'"),
                   "it moves the picture and not the labels at each of its places");
  EXPECT_EQ(run(changed + "--set 'data.augment=[\"cutout 2\", \"jitter 0.1\"]'").code, 0);
}

TEST_F(TrainCli, SummaryCountsParametersAndListsTheZoo) {
  const Outcome mlp = run("summary mlp --input 28x28 --classes 10");
  EXPECT_EQ(mlp.code, 0) << mlp.err;
  EXPECT_NE(mlp.out.find("101,770"), std::string::npos) << mlp.out;
  EXPECT_NE(run("summary").out.find("resnet18"), std::string::npos);
  expect_failure(run("summary resnet81"), "resnet18");
  EXPECT_EQ(run("summary mlp --input 28xx28").code, 2);
}

TEST_F(TrainCli, NewProjectsTrainAtOnceAndNothingIsOverwritten) {
  EXPECT_EQ(run("new fruit --template csv").code, 0);
  expect_failure(run("new fruit"), "nothing is overwritten");
  expect_failure(run("new other --template cvs"), "did you mean 'csv'?");
  EXPECT_FALSE(fs::exists(folder_ / "other"));
  for (const char* name : {"digits", "mnist", "cifar10", "text", "images"}) {
    const Outcome made = run(std::string("new ") + name + " --template " + name);
    EXPECT_EQ(made.code, 0) << made.err;
    for (const char* file : {"train.toml", "main.cpp", "CMakeLists.txt", "README.md"})
      EXPECT_TRUE(fs::exists(folder_ / name / file)) << name << "/" << file;
    const std::string get = std::string("systole data get ") + name + " --out data/" + name;
    const bool fetched = std::string_view(name) == "mnist" || std::string_view(name) == "cifar10";
    EXPECT_EQ(made.out.find(get) != std::string::npos, fetched) << made.out;
    if (fetched) expect_failure(run(std::string("train --model mlp --data ") + name + ":data/" + name), get);
  }
  NEEDS_TOML();
  const auto train = [&](const std::string& name, const std::string& sets) {
    const std::string line = "cd '" + (folder_ / name).string() + "' && '" + SYSTOLE_COMMAND +
                             "' train train.toml --out run " + sets + " > ../stdout 2> ../stderr";
    const int status = std::system(line.c_str());
    return Outcome{WEXITSTATUS(status), text_of(folder_ / "stdout"), text_of(folder_ / "stderr")};
  };
  EXPECT_GT(metric_in(train("fruit", "--set train.verbose=0"), "accuracy"), 0.9);
  EXPECT_GT(metric_in(train("images", "--set train.epochs=1"), "accuracy"), 0.0);
  EXPECT_GT(metric_in(train("text", "--set train.epochs=1"), "accuracy"), 0.05);
  const Outcome written = run("predict text/run --prompt 'Shall I' --length 20 --temperature 0");
  EXPECT_TRUE(written.out.starts_with("Shall I")) << written.out << written.err;
  EXPECT_EQ(written.out, run("predict text/run --prompt 'Shall I' --length 20 --temperature 0").out);
  // Those that need a download, on data that does not: the models are those of the file.
  EXPECT_GT(metric_in(train("mnist", "--set train.epochs=1 --set 'data.source=digits?train=64&test=32'"),
                      "accuracy"),
            -1);
}

TEST_F(TrainCli, TensorBoardFilesAndBestModelAreWrittenOnDemand) {
  const Outcome outcome =
      run(std::string("train --model mlp ") + kSmall +
          " --set train.epochs=2 --set train.tensorboard=true --set train.save_best=true --set "
          "train.early_stopping=5 --set train.ema=0.9 --set train.clip_norm=1 --out run");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(fs::exists(folder_ / "run/best.safetensors"));
  EXPECT_EQ(run("plot run/logs --y loss --out board.svg").code, 0);
  // The best model says as much of itself as the last.
  EXPECT_GT(metric_in(run("evaluate run/best.safetensors"), "accuracy"), 0.0);
  EXPECT_EQ(load(folder_ / "run/best.safetensors").metadata(),
            load(folder_ / "run/model.safetensors").metadata());
  EXPECT_EQ(run("evaluate run").last_line(), outcome.last_line());
}

}  // namespace
}  // namespace systole

#endif
