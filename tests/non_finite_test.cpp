// Scores that are not finite are never a hit: in every metric, in an evaluation and in the command, which
// name the first sample and the field that holds the reason. The expected numbers are counted by hand.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "base/log.h"
#include "error_check.h"
#include "systole/systole.h"
#include "trainer_fixture.h"
#ifdef SYSTOLE_COMMAND
#include "command_check.h"
#include "warnings_check.h"
#endif

namespace systole {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

// Rows of three scores with label 0. The finite ones are right; the last is right though class 2 is ruled
// out.
constexpr int kRows = 7;
Literal bad_scores() {
  return Literal::of<float>({kRows, 3}, std::vector<float>{kNaN,  kNaN,  kNaN,     // the whole row
                                                           kInf,  0,     0,        // the label's own score
                                                           3,     kNaN,  0,        // another class's
                                                           -kInf, -kInf, -kInf,    // no class is left
                                                           0,     kInf,  0,        // another class, sure
                                                           5,     1,     0,        // right
                                                           5,     1,     -kInf});  // right
}
const std::vector<std::int32_t> kZeros(kRows, 0);

double mean_of(const Tensor& values) { return mean(values).item<double>(); }

TEST(NonFiniteScores, AreNeverAHitOnTheHostOrInAStep) {
  const Tensor x(bad_scores()), y(Literal::of<std::int32_t>({kRows}, kZeros));
  const double two = 2.0 / kRows;
  EXPECT_DOUBLE_EQ(metrics::accuracy(x, y), two);
  EXPECT_FLOAT_EQ(mean_of(metrics::correct(x, y)), two);
  for (const std::int64_t k : {1, 2, 3, 5}) {
    EXPECT_DOUBLE_EQ(metrics::top_k_accuracy(x, y, k), two) << k;
    EXPECT_FLOAT_EQ(mean_of(metrics::top_k_correct(x, y, k)), two) << k;
  }
  // A class that is ruled out is not a hit, however many classes count.
  const Tensor last(Literal::of<float>({1, 3}, std::vector<float>{5, 1, -kInf}));
  EXPECT_EQ(metrics::top_k_accuracy(last, {2}, 3), 0);
  EXPECT_EQ(metrics::top_k_correct(last, tensor({2}), 3).item<float>(), 0);
  const std::vector<std::int32_t> predicted = metrics::predicted(x).to_vector<std::int32_t>();
  for (int i = 0; i < kRows; ++i)
    EXPECT_EQ(predicted[static_cast<std::size_t>(i)], i < 5 ? metrics::kUndecided : 0) << i;
}

TEST(NonFiniteScores, OfTwoClassesAreNeverAHit) {
  const Tensor x(Literal::of<float>({5}, std::vector<float>{kNaN, kInf, -kInf, 2, -2}));
  const Tensor y = tensor({1, 1, 0, 1, 0});
  EXPECT_DOUBLE_EQ(metrics::accuracy(x, y), 0.4);
  EXPECT_FLOAT_EQ(mean_of(metrics::correct(x, y)), 0.4);
  EXPECT_DOUBLE_EQ(metrics::top_k_accuracy(x, y, 1), 0.4);
  EXPECT_DOUBLE_EQ(metrics::top_k_accuracy(x, y, 2), 0.4);
  EXPECT_DOUBLE_EQ(metrics::recall(x, y), 1.0 / 3);  // of three samples of class 1 one is found
  EXPECT_DOUBLE_EQ(metrics::precision(x, y), 1);     // the one that is predicted as class 1
  EXPECT_DOUBLE_EQ(metrics::f1(x, y), 0.5);          // 2 * 1 / (1 + 3)
  EXPECT_TRUE(std::isnan(metrics::roc_auc(x, y)));
  EXPECT_TRUE(std::isnan(metrics::average_precision(x, y)));
  EXPECT_TRUE(std::isnan(metrics::log_loss(x, y)));
  // A sure and right score of infinity was a loss of 0.
  EXPECT_TRUE(std::isnan(metrics::log_loss(std::vector<float>{kInf}, {1})));
}

TEST(NonFiniteScores, AreNoClassOfTablesAndReports) {
  const Tensor x(bad_scores());
  const metrics::Numbers truth{0, 0, 0, 1, 1, 0, 1};
  // Class 0: 4 samples, 1 found. Class 1: 3 samples, none found, and the last is taken for class 0.
  const metrics::ConfusionMatrix matrix = metrics::confusion_matrix(x, truth);
  EXPECT_EQ(matrix.counts, (std::vector<std::int64_t>{1, 0, 0, 1, 0, 0, 0, 0, 0}));
  EXPECT_EQ(matrix.undecided, (std::vector<std::int64_t>{3, 2, 0}));
  EXPECT_DOUBLE_EQ(matrix.accuracy(), 1.0 / 7);
  EXPECT_DOUBLE_EQ(matrix.normalized(metrics::Normalize::truth)[0], 0.25);
  EXPECT_DOUBLE_EQ(matrix.normalized(metrics::Normalize::all)[3], 1.0 / 7);
  metrics::ConfusionMatrix sum = matrix;
  sum.add(matrix);
  EXPECT_EQ(sum.undecided, (std::vector<std::int64_t>{6, 4, 0}));
  EXPECT_DOUBLE_EQ(sum.accuracy(), 1.0 / 7);
  // Undecided samples make no class of their own, neither from scores nor from labels decided before.
  for (const metrics::Numbers& output : {metrics::Numbers(x), metrics::Numbers(metrics::predicted(x))}) {
    const metrics::ClassScores scores = metrics::per_class(output, truth);
    EXPECT_EQ(scores.labels, (std::vector<std::int64_t>{0, 1}));
    EXPECT_EQ(scores.recall, (std::vector<double>{0.25, 0}));
    EXPECT_EQ(scores.precision, (std::vector<double>{0.5, 0}));
    EXPECT_DOUBLE_EQ(metrics::recall(output, truth, {.average = metrics::Average::macro}), 0.125);
    EXPECT_DOUBLE_EQ(metrics::recall(output, truth), 0);  // of two classes: the sentinel is no third
    const std::string report = metrics::classification_report(output, truth);
    EXPECT_NE(report.find("undecided: 5 of 7 samples"), std::string::npos) << report;
    EXPECT_EQ(report.find("accuracy"), std::string::npos) << report;
  }
  EXPECT_TRUE(std::isnan(metrics::roc_auc(x, {0, 1, 2, 0, 1, 2, 0})));
}

TEST(NonFiniteScores, HaveNoOrderAndTheSampleIsNamed) {
  const std::string text = error_of(ErrorKind::kInvalidArgument, [] {
    metrics::roc_curve(std::vector<float>{0.5F, 1, kInf, kNaN}, {0, 1, 1, 0});
  });
  EXPECT_NE(text.find("sample 2"), std::string::npos) << text;
}

TEST(NonFiniteScores, OfNumbersAreNoGoodScore) {
  // With a constant target an infinite error gave 0, as if the mean had been met.
  EXPECT_TRUE(std::isnan(metrics::r2(std::vector<float>{1, kInf}, {1.0, 1.0})));
  EXPECT_TRUE(std::isnan(metrics::r2(std::vector<float>{1, kNaN}, {1.0, 1.0})));
  EXPECT_TRUE(std::isinf(metrics::mse(std::vector<float>{1, kInf}, {1.0, 1.0})));
}

TEST(NonFiniteTargets, AreNoClass) {
  const Tensor scores = tensor({{2., 1.}, {2., 1.}, {2., 1.}}, DType::f32);
  const Tensor labels(Literal::of<float>({3}, std::vector<float>{0, kNaN, 0.7F}));
  EXPECT_EQ(metrics::correct(scores, labels).to_vector<float>(), (std::vector<float>{1, 0, 0}));
  EXPECT_EQ(metrics::top_k_correct(scores, labels, 2).to_vector<float>(), (std::vector<float>{1, 0, 0}));
  const Tensor wide(Literal::of<std::int64_t>({3}, std::vector<std::int64_t>{0, std::int64_t{1} << 32, -1}));
  EXPECT_EQ(metrics::correct(scores, wide).to_vector<float>(), (std::vector<float>{1, 0, 0}));
  const Tensor one_hot(Literal::of<float>({3, 2}, std::vector<float>{1, 0, kNaN, 0, 1, 0}));
  EXPECT_EQ(metrics::correct(scores, one_hot).to_vector<float>(), (std::vector<float>{1, 0, 1}));
  const std::string text = error_of(ErrorKind::kInvalidArgument, [&] { metrics::accuracy(scores, one_hot); });
  EXPECT_NE(text.find("row 1 of the target"), std::string::npos) << text;
}

class NonFiniteEvaluation : public TrainerTest {
 protected:
  // The points, with inf in element 2 of samples 7 and 30.
  data::Source bad_source() {
    const std::span<const float> x = data.x.values<float>();
    std::vector<float> values(x.begin(), x.end());
    values[7 * 4 + 2] = kInf;
    values[30 * 4 + 2] = -kInf;
    return data::arrays(Literal::of<float>({50, 4}, values), data.y);
  }
  static void expect_named(const std::vector<std::string>& lines, const std::string& what) {
    ASSERT_EQ(lines.size(), 1U);
    EXPECT_TRUE(lines[0].starts_with(what + ": ")) << lines[0];
    EXPECT_NE(lines[0].find("sample 7 of the data is the first: the output is nan at [0]"), std::string::npos)
        << lines[0];
    EXPECT_NE(lines[0].find("holds inf at [2]"), std::string::npos) << lines[0];
  }
};

// A network whose hidden layer makes NaN of infinite inputs: inf - inf in the product.
struct Direct {
  nn::Linear fc{4, 2};
  Tensor forward(const Tensor& x) const {
    const Tensor centred = x - mean(x, -1, true);  // inf - inf
    return fc(centred);
  }
};

TEST_F(NonFiniteEvaluation, WarnsOnceAndNamesTheFirstSampleAndItsField) {
  Direct net;
  training::Trainer trainer(net, optim::SGD(net), {.metrics = {"accuracy", "top5", "f1_macro"}});
  training::Logs good, bad;
  EXPECT_TRUE(warnings_of([&] { good = trainer.evaluate(source); }).empty());
  EXPECT_TRUE(std::isfinite(good["loss"]));
  const std::vector<std::string> lines =
      warnings_of([&] { bad = trainer.evaluate(bad_source(), {.batch = 4}); });
  expect_named(lines, "evaluate");
  EXPECT_NE(lines[0].find("2 of 50 samples"), std::string::npos) << lines[0];
  EXPECT_TRUE(std::isnan(bad["loss"]));
  EXPECT_FLOAT_EQ(bad["top5"], 48.0 / 50);
  EXPECT_LE(bad["accuracy"], 48.0 / 50);
  // The same samples were right or wrong before; only the two may have been lost.
  EXPECT_GE(bad["accuracy"], good["accuracy"] - 2.0 / 50 - 1e-6);
  const std::string text = error_of(ErrorKind::kInvalidArgument, [&] {
    trainer.evaluate(bad_source(), {.batch = 4, .refuse_non_finite = true});
  });
  EXPECT_NE(text.find("sample 7"), std::string::npos) << text;
}

TEST_F(NonFiniteEvaluation, OfDataThatALoaderReadsNamesTheSameSample) {
  Direct net;
  training::Trainer trainer(net, optim::SGD(net), {.metrics = {"accuracy"}});
  const data::Transforms map{data::Custom{.on_sample = [](data::Sample s, std::uint64_t) { return s; }}};
  expect_named(warnings_of([&] { trainer.evaluate(bad_source(), {.batch = 4, .map = map}); }), "evaluate");
}

TEST_F(NonFiniteEvaluation, OfAValidationWarnsAndTheTrainingGoesOn) {
  Direct net;
  training::Trainer trainer(net, optim::SGD(net), {.metrics = {"accuracy", "top5"}});
  training::FitResult result;
  const std::vector<std::string> lines = warnings_of(
      [&] { result = trainer.fit(source, {.epochs = 1, .validation = bad_source(), .verbose = 0}); });
  expect_named(lines, "validation after epoch 1");
  EXPECT_FLOAT_EQ(result.logs["val_top5"], 48.0 / 50);
  EXPECT_TRUE(std::isnan(result.logs["val_loss"]));
  EXPECT_TRUE(std::isfinite(result.logs["loss"]));
}

TEST_F(NonFiniteEvaluation, OfAPredictionWarns) {
  Direct net;
  training::Trainer trainer(net, optim::SGD(net));
  expect_named(warnings_of([&] { trainer.predict(bad_source(), {.batch = 8}); }), "predict");
  const Tensor x(bad_source().columns()[0]);
  expect_named(warnings_of([&] { trainer.predict(x); }), "predict");
  expect_named(warnings_of([&] { trainer.predict({x}); }), "predict");
  EXPECT_TRUE(warnings_of([&] { trainer.predict(Tensor(data.x)); }).empty());
  error_of(ErrorKind::kInvalidArgument, [&] { trainer.predict(x, {.refuse_non_finite = true}); });
}

TEST_F(NonFiniteEvaluation, NamesTheWeightWhereTheFieldsAreFinite) {
  Net net = seeded_net();
  training::Trainer trainer(net, optim::SGD(net), {.metrics = {"accuracy"}});
  std::vector<float> bias(2, 0);
  bias[1] = kNaN;
  net.fc2.bias.assign(Tensor(Literal::of<float>({2}, bias)));
  training::Logs logs;
  const std::vector<std::string> lines = warnings_of([&] { logs = trainer.evaluate(source); });
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines[0].find("50 of 50"), std::string::npos) << lines[0];
  EXPECT_NE(lines[0].find("weight fc2.bias is nan at [1]"), std::string::npos) << lines[0];
  EXPECT_EQ(logs["accuracy"], 0);
}

TEST_F(NonFiniteEvaluation, OfTargetsThatAreNotFiniteNamesTheirField) {
  nn::Linear net(4, 1);
  training::Trainer trainer(net, optim::SGD(net), {.loss = "mse"});
  std::vector<float> y(50, 0);
  y[9] = kNaN;
  const std::vector<std::string> lines = warnings_of(
      [&] { trainer.evaluate(data::arrays(data.x, Literal::of<float>({50, 1}, y)), {.batch = 4}); });
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines[0].find("the loss is not finite"), std::string::npos) << lines[0];
  EXPECT_NE(lines[0].find("sample 9"), std::string::npos) << lines[0];
}

// A number in a batch, or in a part of the data, is of no use to somebody who looks for the sample.
TEST_F(NonFiniteEvaluation, NamesTheSampleByItsNumberInTheWholeData) {
  const data::Source whole = bad_source();
  const auto [some, rest] = whole.split(0.5, 3);
  const std::vector<data::Source> parts{whole.skip(5).take(20), whole.skip(3).named("part", {"x", "y"}),
                                        whole.map([](data::Sample s) { return s; }).skip(7), some, rest};
  const std::span<const float> x = data.x.values<float>();
  for (const data::Source& part : parts)
    for (std::int64_t i = 0; i < part.size(); ++i)
      EXPECT_EQ(part[i][0].values<float>()[0], x[static_cast<std::size_t>(4 * part.rows()->origin(i))]);

  const data::Transforms map{data::Custom{.on_sample = [](data::Sample s, std::uint64_t) { return s; }}};
  const data::Source nans = whole.map([](data::Sample s) {
    for (float& value : s[0].mutable_values<float>())
      if (std::isinf(value)) value = kNaN;
    return s;
  });
  const data::Source in_memory = data::arrays(nans.columns()).select({12, 3, 7, 41, 5});
  for (const bool by_loader : {false, true}) {
    Direct net;
    training::Trainer trainer(net, optim::SGD(net));
    const std::string text = error_of(ErrorKind::kInvalidArgument, [&] {
      trainer.fit(
          in_memory,
          {.epochs = 1, .batch = 4, .seed = 5, .map = by_loader ? map : data::Transforms(), .verbose = 0});
    });
    EXPECT_NE(text.find("field x of sample 7 of the data holds nan at [2]"), std::string::npos) << text;
  }
  Direct net;
  training::Trainer trainer(net, optim::SGD(net));
  const data::Source part = data::arrays(nans.columns()).skip(26);
  const std::vector<std::string> lines = warnings_of([&] { trainer.evaluate(part, {.batch = 4}); });
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines[0].find("1 of 24 samples"), std::string::npos) << lines[0];
  EXPECT_NE(lines[0].find("sample 30 of the data is the first"), std::string::npos) << lines[0];
  const std::vector<Literal> rows = part.read({0, 4, 5});
  const std::string batch = error_of(ErrorKind::kInvalidArgument,
                                     [&] { trainer.train_on_batch({Tensor(rows[0]), Tensor(rows[1])}); });
  EXPECT_NE(batch.find("field 0 of sample 1 of the batch holds nan at [2]"), std::string::npos) << batch;
}

TEST_F(NonFiniteEvaluation, AClassThatIsRuledOutIsNoneAndIgnoreSaysNothing) {
  Net net = seeded_net();
  const auto masked = [](const Tensor& out, const Tensor& y) { return cross_entropy(out, y); };
  net.fc2.bias.assign(Tensor(Literal::of<float>({2}, std::vector<float>{0, -kInf})));
  training::Trainer trainer(net, optim::SGD(net), {.loss = masked});
  EXPECT_TRUE(warnings_of([&] { trainer.predict(source); }).empty());
  Direct direct;
  training::Trainer silent(direct, optim::SGD(direct), {.bad_numbers = training::BadNumbers::ignore});
  EXPECT_TRUE(warnings_of([&] { silent.evaluate(bad_source()); }).empty());
}

TEST_F(NonFiniteEvaluation, AnEpochOfInfiniteLossIsNeverTheBest) {
  nn::Linear net(4, 1);
  training::Trainer trainer(net, optim::SGD(net, {.lr = 0.0}),
                            {.loss = "mse", .bad_numbers = training::BadNumbers::ignore});
  std::vector<float> y(50, 0);
  y[0] = kInf;
  Scratch scratch;
  const std::string file = (scratch.path() / "best.safetensors").string();
  warnings_of([&] {
    const data::Source zeros = data::arrays(data.x, Literal({DType::f32, {50, 1}}));
    trainer.fit(zeros, {.epochs = 1,
                        .validation = data::arrays(data.x, Literal::of<float>({50, 1}, y)),
                        .verbose = 0,
                        .callbacks = {training::model_file({.file = file, .best_only = true})}});
  });
  EXPECT_FALSE(std::filesystem::exists(file));
}

#ifdef SYSTOLE_COMMAND

using NonFiniteCommand = CommandFolder;

TEST_F(NonFiniteCommand, EvaluateFailsAndNamesTheSampleAndAFlagAllowsIt) {
  std::string good = "a,b,label\n", bad = good;
  for (int i = 0; i < 40; ++i) {
    const bool first = i % 2 == 0;
    const std::string row = std::to_string(first ? i % 7 : -i % 5 - 3) + "," + std::to_string(i % 3) + ",";
    good += row + (first ? "yes\n" : "no\n");
    bad += (i == 5 ? "1,inf," : row) + (first ? "yes\n" : "no\n");
  }
  write("good.csv", good);
  write("bad.csv", bad);
  const Outcome trained =
      run("train --data 'csv:good.csv?label=label' --model mlp --set train.epochs=2 --out run");
  ASSERT_EQ(trained.code, 0) << trained.err;
  const std::string command = "evaluate run --data 'csv:bad.csv?label=label'";
  EXPECT_EQ(run("evaluate run --data 'csv:good.csv?label=label'").code, 0);
  const Outcome refused = run(command + " --report");
  EXPECT_EQ(refused.code, 1) << refused.out;
  EXPECT_EQ(refused.out.find("accuracy"), std::string::npos) << refused.out;
  EXPECT_NE(refused.err.find("sample 5 of the data is the first"), std::string::npos) << refused.err;
  EXPECT_NE(refused.err.find("field x holds inf at [1]"), std::string::npos) << refused.err;
  EXPECT_NE(refused.err.find("--allow-non-finite"), std::string::npos) << refused.err;
  const Outcome allowed = run(command + " --allow-non-finite --report --confusion matrix.svg");
  EXPECT_EQ(allowed.code, 0) << allowed.err;
  EXPECT_NE(allowed.err.find("sample 5"), std::string::npos) << allowed.err;
  EXPECT_NE(allowed.out.find("undecided"), std::string::npos) << allowed.out;
  EXPECT_TRUE(allowed.last_line().starts_with("test accuracy 0.")) << allowed.out;

  write("rows.csv", "a,b\n1,2\n1,inf\n");
  const Outcome predicted = run("predict run rows.csv");
  EXPECT_EQ(predicted.code, 0) << predicted.err;
  EXPECT_NE(predicted.err.find("sample 1 of the data is the first"), std::string::npos) << predicted.err;
  EXPECT_NE(predicted.out.find("rows.csv[1]  no class: nan"), std::string::npos) << predicted.out;
  EXPECT_EQ(predicted.out.find("rows.csv[0]  no class"), std::string::npos) << predicted.out;
}

TEST_F(NonFiniteCommand, TrainAndEvaluateNameTheSampleOfTheArrays) {
  std::vector<float> x;
  std::vector<std::int32_t> y;
  for (int i = 0; i < 80; ++i) {
    for (int k = 0; k < 4; ++k) x.push_back(static_cast<float>(i * (k + 3) % 11));
    y.push_back(i % 2);
  }
  const auto save = [&](const char* name) {
    io::save_npz(folder_ / name, std::vector<io::NamedArray>{{"x", Literal::of<float>({80, 4}, x)},
                                                             {"y", Literal::of<std::int32_t>({80}, y)}});
  };
  save("good.npz");
  x[24 * 4 + 3] = kNaN;
  save("data.npz");
  const std::string train =
      "train --model mlp --set train.epochs=2 --set train.batch=32 --set train.plots=false ";
  const Outcome refused = run(train + "--out bad --data npz:data.npz --set data.validation=none");
  EXPECT_EQ(refused.code, 1) << refused.out;
  EXPECT_NE(refused.err.find("field x of sample 24 of the data holds nan at [3]"), std::string::npos)
      << refused.err;
  ASSERT_EQ(run(train + "--out run --data npz:good.npz --set data.test=0.9").code, 0);
  save("good.npz");  // with the NaN, which is in the part that the run tests on
  for (const char* data : {"", " --data npz:data.npz"}) {
    const Outcome evaluated = run(std::string("evaluate run") + data);
    EXPECT_NE(evaluated.err.find("sample 24 of the data is the first"), std::string::npos) << evaluated.err;
  }
}

TEST_F(NonFiniteCommand, PredictHasNoClassAtAPlaceWithoutFiniteScores) {
  std::vector<float> x;
  std::vector<std::int32_t> y;
  for (int i = 0; i < 20 * 9; ++i) {
    x.push_back(i % 2 == 0 ? 1.0F : -1.0F);
    y.push_back(i % 2);
  }
  io::save_npz(folder_ / "masks.npz",
               std::vector<io::NamedArray>{{"x", Literal::of<float>({20, 3, 3, 1}, x)},
                                           {"y", Literal::of<std::int32_t>({20, 3, 3}, y)}});
  const Outcome trained =
      run("train --data npz:masks.npz --set 'model.layers=[conv 2 1x1]' --set train.epochs=1 --set "
          "train.plots=false --out run");
  ASSERT_EQ(trained.code, 0) << trained.err;
  // The layer sees one place at a time, so the others keep their classes.
  std::vector<float> row(9, 1.0F);
  row[1] = kInf;
  row[4] = kNaN;
  io::save_npy(folder_ / "new.npy", Literal::of<float>({1, 3, 3, 1}, row));
  const Outcome said = run("predict run new.npy");
  EXPECT_EQ(said.code, 0) << said.err;
  const std::size_t text = said.out.find("new.npy  ");
  ASSERT_NE(text, std::string::npos) << said.out << said.err;
  std::istringstream places(said.out.substr(text + 9));
  std::vector<bool> undecided;
  for (std::string word; places >> word;) undecided.push_back(word == "nan");
  EXPECT_EQ(undecided, (std::vector<bool>{false, true, false, false, true, false, false, false, false}))
      << said.out;
}

#endif

}  // namespace
}  // namespace systole
