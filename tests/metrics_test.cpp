// Metrics against scikit-learn's values (tests/parity/make_metrics.py), the forms of outputs and targets, and
// histories.

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "error_check.h"
#include "scratch_folder.h"
#include "systole/tensor.h"
#include "systole/train/history.h"
#include "systole/train/metrics.h"

#if __has_include(<nlohmann/json.hpp>)
#include <nlohmann/json.hpp>
#define SYSTOLE_JSON 1
#endif

namespace systole {
namespace {

using metrics::Average;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

#ifdef SYSTOLE_JSON

using nlohmann::json;

const json& fixture() {
  static const json read = [] {
    std::ifstream in(std::string(SYSTOLE_SOURCE_DIR) + "/tests/parity/metrics.json");
    return json::parse(in);
  }();
  return read;
}

double number(const json& j) {
  if (j.is_null()) return kNaN;
  if (j.is_string()) return std::numeric_limits<double>::infinity() * (j == "inf" ? 1 : -1);
  return j.get<double>();
}
std::vector<double> numbers(const json& j) {  // of nested lists, in order
  std::vector<double> all;
  for (const json& entry : j) {
    if (entry.is_array()) {
      const std::vector<double> inner = numbers(entry);
      all.insert(all.end(), inner.begin(), inner.end());
    } else {
      all.push_back(number(entry));
    }
  }
  return all;
}
std::vector<std::int64_t> integers(const json& j) { return j.get<std::vector<std::int64_t>>(); }
Literal array(const json& j) {
  const std::vector<double> values = numbers(j);
  const auto rows = static_cast<std::int64_t>(j.size());
  const Shape shape = j[0].is_array() ? Shape{rows, static_cast<std::int64_t>(j[0].size())} : Shape{rows};
  return Literal::of<double>(shape, values);
}

void expect_near(double got, double wanted, const std::string& what = {}) {
  if (std::isnan(wanted))
    EXPECT_TRUE(std::isnan(got)) << what << " " << got;
  else if (std::isinf(wanted))
    EXPECT_EQ(got, wanted) << what;
  else
    EXPECT_NEAR(got, wanted, 1e-12 * std::max(1.0, std::abs(wanted))) << what;
}
void expect_near(double got, const json& wanted, const std::string& what = {}) {
  expect_near(got, number(wanted), what);
}
template <class T>
void expect_near(const std::vector<T>& got, const json& wanted, const std::string& what) {
  const std::vector<double> all = numbers(wanted);
  ASSERT_EQ(got.size(), all.size()) << what;
  for (std::size_t i = 0; i < all.size(); ++i)
    expect_near(static_cast<double>(got[i]), all[i], what + " " + std::to_string(i));
}

TEST(Metrics, ScoresOfDecisionsAreScikitLearns) {
  ASSERT_GE(fixture()["decisions"].size(), 6u);
  for (const json& f : fixture()["decisions"]) {
    const std::vector<std::int64_t> truth = integers(f["truth"]), predicted = integers(f["predicted"]);
    metrics::ScoreOptions options{.zero_division = number(f["zero_division"])};
    if (!f["labels"].is_null()) options.labels = integers(f["labels"]);
    const std::string which = f["labels"].dump() + f["zero_division"].dump();
    for (const auto& [name, average] :
         {std::pair("micro", Average::micro), std::pair("macro", Average::macro),
          std::pair("weighted", Average::weighted)}) {
      options.average = average;
      expect_near(metrics::precision(predicted, truth, options), f[name][0], which + name);
      expect_near(metrics::recall(predicted, truth, options), f[name][1], which + name);
      expect_near(metrics::f1(predicted, truth, options), f[name][2], which + name);
    }
    const metrics::ClassScores scores = metrics::per_class(predicted, truth, options);
    expect_near(scores.precision, f["per_class"]["precision"], which);
    expect_near(scores.recall, f["per_class"]["recall"], which);
    expect_near(scores.f1, f["per_class"]["f1"], which);
    expect_near(scores.support, f["per_class"]["support"], which);
    expect_near(metrics::accuracy(predicted, truth), f["accuracy"], which);
    EXPECT_EQ(metrics::classification_report(predicted, truth, {}, 3, options), f["report"]);
    const metrics::ConfusionMatrix matrix = metrics::confusion_matrix(predicted, truth, options);
    expect_near(matrix.counts, f["confusion"], which);
    expect_near(matrix.normalized(metrics::Normalize::truth), f["confusion_true"], which);
    expect_near(matrix.normalized(metrics::Normalize::predicted), f["confusion_pred"], which);
    expect_near(matrix.normalized(metrics::Normalize::all), f["confusion_all"], which);
  }
}

TEST(Metrics, TwoClassesAreScikitLearns) {
  const json& f = fixture()["binary"];
  const Literal logits = array(f["logits"]);
  const std::vector<std::int64_t> truth = integers(f["truth"]);
  const std::int64_t n = logits.count();
  // The same scores as one column and as two.
  std::vector<double> pairs;
  for (const double x : numbers(f["logits"])) pairs.insert(pairs.end(), {3, x + 3});
  for (const Literal& output : {logits, logits.reshaped({n, 1}), Literal::of<double>({n, 2}, pairs)}) {
    const std::string which = output.type().to_string();
    if (output.count() == n) expect_near(metrics::accuracy(output, truth), f["accuracy"], which);
    expect_near(metrics::roc_auc(output, truth), f["auc"], which);
    expect_near(metrics::average_precision(output, truth), f["average_precision"], which);
    expect_near(metrics::log_loss(output, truth), f["log_loss"], which);
  }
  expect_near(metrics::precision(logits, truth), f["precision"]);
  expect_near(metrics::recall(logits, truth), f["recall"]);
  expect_near(metrics::f1(logits, truth), f["f1"]);
  expect_near(metrics::f1(logits, truth, {.positive = 0}), f["f1_of_0"]);
  for (const bool drop : {true, false}) {
    const metrics::RocCurve curve = metrics::roc_curve(logits, truth, drop);
    const json& wanted = f[drop ? "roc" : "roc_all"];
    expect_near(curve.false_positive_rate, wanted[0], "fpr");
    expect_near(curve.true_positive_rate, wanted[1], "tpr");
    expect_near(curve.thresholds, wanted[2], "thresholds");
  }
  const metrics::PrecisionRecallCurve curve = metrics::precision_recall_curve(logits, truth);
  expect_near(curve.precision, f["pr"][0], "precision");
  expect_near(curve.recall, f["pr"][1], "recall");
  expect_near(curve.thresholds, f["pr"][2], "thresholds");

  // Probabilities: the threshold is a half, and the order is the same.
  std::vector<double> chance;
  for (const double x : numbers(f["logits"])) chance.push_back(1 / (1 + std::exp(-x)));
  expect_near(metrics::accuracy(chance, truth, {.from_logits = false}), f["accuracy"]);
  expect_near(metrics::f1(chance, truth, {.from_logits = false}), f["f1"]);
  expect_near(metrics::log_loss(chance, truth, {.from_logits = false}), f["log_loss"]);
  expect_near(metrics::log_loss({0.0, 0.25, 0.0}, {0, 1, 1}, {.from_logits = false}), f["clipped_log_loss"]);
}

TEST(Metrics, SeveralClassesAreScikitLearns) {
  using metrics::MultiClass;
  for (const bool from_logits : {true, false}) {
    const json& f = fixture()[from_logits ? "logits" : "probabilities"];
    const Literal scores = array(f["scores"]);
    const std::vector<std::int64_t> truth = integers(f["truth"]);
    const metrics::Options options{.from_logits = from_logits};
    expect_near(metrics::accuracy(scores, truth, options), f["accuracy"]);
    for (std::int64_t k = 1; k <= 4; ++k)
      expect_near(metrics::top_k_accuracy(scores, truth, k, options),
                  f["top"][static_cast<std::size_t>(k - 1)]);
    expect_near(metrics::f1(scores, truth, {.average = Average::macro}), f["f1_macro"]);
    for (const auto& [name, average] :
         {std::pair("macro", Average::macro), std::pair("micro", Average::micro),
          std::pair("weighted", Average::weighted)}) {
      expect_near(metrics::roc_auc(scores, truth, {MultiClass::ovr, average, from_logits}), f["auc"][name],
                  name);
      if (average != Average::micro)
        expect_near(metrics::roc_auc(scores, truth, {MultiClass::ovo, average, from_logits}),
                    f["auc_ovo"][name], name);
    }
    expect_near(metrics::average_precision(scores, truth, options), f["average_precision"]);
    expect_near(metrics::log_loss(scores, truth, options), f["log_loss"]);
  }
}

TEST(Metrics, ErrorsOfNumbersAreScikitLearns) {
  for (const json& f : fixture()["numbers"]) {
    const Literal output = array(f["output"]), target = array(f["target"]);
    expect_near(metrics::mse(output, target), f["mse"]);
    expect_near(metrics::rmse(output, target), f["rmse"]);
    expect_near(metrics::mae(output, target), f["mae"]);
    expect_near(metrics::r2(output, target), f["r2"]);
  }
}

// In batches of uneven sizes, as a Trainer gives them.
TEST(Metrics, BatchesGiveTheSameAsTheWhole) {
  const json& f = fixture()["logits"];
  const Tensor logits(array(f["scores"]));
  const std::vector<double> labels = numbers(f["truth"]);
  const Tensor truth(Literal::of<double>({static_cast<std::int64_t>(labels.size())}, labels));
  const Tensor one_hot_truth = one_hot(truth.to(DType::i64), 4);
  const auto batched = [&](std::string_view name, const Tensor& target) {
    metrics::Accumulator metric(name);
    EXPECT_TRUE(std::isnan(metric.result()));
    metric.update(logits, target);  // forgotten
    metric.reset();
    for (const auto& [from, to] : {std::pair(0, 50), std::pair(50, 51), std::pair(51, 120)})
      metric.update(logits[slice(from, to)], target[slice(from, to)]);
    EXPECT_EQ(metric.samples(), 120);
    return metric.result();
  };
  for (const Tensor& target : {truth.to(DType::i32), truth, one_hot_truth}) {
    expect_near(batched("accuracy", target), f["accuracy"]);
    expect_near(batched("top2", target), f["top"][1]);
    expect_near(batched("f1_macro", target), f["f1_macro"]);
    expect_near(batched("auc", target), f["auc"]["macro"]);
    expect_near(batched("auc_ovo", target), f["auc_ovo"]["macro"]);
    expect_near(batched("log_loss", target), f["log_loss"]);
  }
  const json& r = fixture()["numbers"][1];
  const Tensor output(array(r["output"])), target(array(r["target"]));
  for (const std::string name : {"mse", "mae", "rmse", "r2"}) {
    metrics::Accumulator metric(name);
    metric.update(output[slice(0, 7)], target[slice(0, 7)]);
    metric.update(output[slice(7, 30)], target[slice(7, 30)]);
    expect_near(metric.result(), r[name], name);
  }
}

#endif  // SYSTOLE_JSON

TEST(Metrics, FormsOfOutputsAndTargets) {
  const Tensor scores = tensor({{0.1, 0.9}, {0.8, 0.2}, {0.3, 0.7}}, DType::f32);
  for (const Tensor& target :
       {tensor({1, 0, 0}), tensor({{1}, {0}, {0}}), tensor({{0, 1}, {1, 0}, {1, 0}}),
        tensor({{0.0, 1.0}, {1.0, 0.0}, {1.0, 0.0}}, DType::f32), tensor({1, 0, 0}).to(DType::u8)}) {
    EXPECT_DOUBLE_EQ(metrics::accuracy(scores, target), 2.0 / 3) << target.type().to_string();
    EXPECT_EQ(metrics::correct(scores, target).to_vector<float>(), (std::vector<float>{1, 1, 0}));
  }
  // Integers are labels, floats of one column are logits.
  EXPECT_DOUBLE_EQ(metrics::accuracy({1, 0, 5}, {1, 0, 4}), 2.0 / 3);
  EXPECT_DOUBLE_EQ(metrics::accuracy({0.2, -0.1, 0.4}, {1, 0, 0}), 2.0 / 3);
  const Tensor logits = tensor({{0.2}, {-0.1}, {0.4}}, DType::f32);
  EXPECT_EQ(metrics::predicted(logits).to_vector<std::int32_t>(), (std::vector<std::int32_t>{1, 0, 1}));
  EXPECT_EQ(metrics::correct(logits, tensor({1, 0, 0})).to_vector<float>(), (std::vector<float>{1, 1, 0}));
  EXPECT_EQ(metrics::correct(logits, tensor({1, 0, 0}), {.from_logits = false}).to_vector<float>(),
            (std::vector<float>{0, 1, 1}));
  // A text's tokens count one by one, and padding does not count at all: hand calculation.
  const Tensor text = tensor({{{1., 0., 0.}, {0., 1., 0.}}, {{0., 0., 1.}, {1., 0., 0.}}}, DType::f32);
  EXPECT_DOUBLE_EQ(metrics::accuracy(text, tensor({{0, 2}, {2, 0}})), 0.75);
  EXPECT_EQ(metrics::correct(text, tensor({{0, 2}, {2, 0}})).to_vector<float>(),
            (std::vector<float>{0.5, 1}));
  EXPECT_DOUBLE_EQ(metrics::accuracy(text, tensor({{0, -100}, {1, -100}}), {.ignore_index = -100}), 0.5);
  metrics::Accumulator padded(metrics::by_name("accuracy", {.ignore_index = -100}));
  padded.update(text, tensor({{0, -100}, {1, -100}}));
  EXPECT_DOUBLE_EQ(padded.result(), 0.5);
}

TEST(Metrics, StandInACompiledStep) {
  const metrics::Metric accuracy = metrics::by_name("accuracy"), top = metrics::by_name("top2"),
                        mae = metrics::by_name("mae");
  ASSERT_TRUE(accuracy.streams() && top.streams() && mae.streams());
  const Tensor x = tensor({{3., 2., 1.}, {1., 3., 2.}, {2., 2., 2.}}, DType::f32);
  const auto step = compile([&](const Tensor& output, const Tensor& target) {
    return std::pair(accuracy.per_sample(output, target), top.per_sample(output, target));
  });
  const auto [right, among] = step(x, tensor({0, 2, 0}));
  EXPECT_EQ(right.to_vector<float>(), (std::vector<float>{1, 0, 1}));
  EXPECT_EQ(among.to_vector<float>(), (std::vector<float>{1, 1, 0}));  // of equals the later ones are better
  EXPECT_EQ(mae.per_sample(tensor({{1.}, {2.}}, DType::f32), tensor({3., 1.}, DType::f32)).to_vector<float>(),
            (std::vector<float>{2, 1}));
}

TEST(Metrics, NanIsNeverRight) {
  const Tensor x = tensor({{kNaN, kNaN, kNaN}}, DType::f32);
  EXPECT_EQ(metrics::top_k_accuracy(x, tensor({1}), 2), 0);
  EXPECT_EQ(metrics::top_k_correct(x, tensor({1}), 2).item<float>(), 0);
  EXPECT_TRUE(std::isnan(metrics::roc_auc({kNaN, 0.5}, {0, 1})));
  EXPECT_TRUE(std::isnan(metrics::roc_auc({0.1, 0.5}, {1, 1})));  // one class
  EXPECT_TRUE(std::isnan(metrics::mse({kNaN}, {1.0})));
  EXPECT_TRUE(std::isnan(metrics::r2({1.0}, {1.0})));
}

TEST(Metrics, ErrorsNameWhatWasExpected) {
  const Tensor scores = tensor({{0.1, 0.9}, {0.8, 0.2}}, DType::f32);
  std::string text = error_of(ErrorKind::kShape, [&] { metrics::accuracy(scores, {1, 0, 1}); });
  EXPECT_NE(text.find("[2] or [2,2]"), std::string::npos) << text;
  text = error_of(ErrorKind::kInvalidArgument, [&] { metrics::accuracy(scores, {1, 2}); });
  EXPECT_NE(text.find("label 1"), std::string::npos) << text;
  EXPECT_NE(text.find("0 to 1"), std::string::npos) << text;
  text = error_of(ErrorKind::kInvalidArgument, [] { metrics::f1({0, 1, 2}, {0, 1, 2}); });
  EXPECT_NE(text.find("macro"), std::string::npos) << text;
  error_of(ErrorKind::kDType, [] { metrics::roc_auc({0, 1}, {0, 1}); });
  error_of(ErrorKind::kShape, [] { metrics::mse({0.0, 1.0}, {0.0}); });
  error_of(ErrorKind::kInvalidArgument, [] { metrics::accuracy({0.5}, {0.5}); });
  text = error_of(ErrorKind::kNotFound, [] { metrics::by_name("acuracy"); });
  EXPECT_NE(text.find("'accuracy'?"), std::string::npos) << text;
  text = error_of(ErrorKind::kNotFound, [] { metrics::by_name("f1_makro"); });
  EXPECT_NE(text.find("'f1_macro'?"), std::string::npos) << text;
  for (const char* wrong : {"top", "top0", "top05", "top5x", ""})
    error_of(ErrorKind::kNotFound, [&] { metrics::by_name(wrong); });
  for (const std::string& name : metrics::names()) EXPECT_EQ(metrics::by_name(name).name, name);
  EXPECT_FALSE(metrics::by_name("mae").higher_is_better);
  EXPECT_TRUE(metrics::by_name("r2").higher_is_better);
}

class HistoryTest : public ScratchFolder {};

TEST_F(HistoryTest, CsvKeepsEveryBitAndWhatIsMissing) {
  training::History history;
  history.add({{"loss", 0.1}, {"lr", 1e-3}});
  history.add({{"loss", kNaN}, {"lr", 1e-300}, {"val_loss", -1.0 / 3}});
  history.add({{"val_loss", std::numeric_limits<double>::infinity()}});
  EXPECT_EQ(history.to_csv(),
            "epoch,loss,lr,val_loss\n1,0.1,0.001,\n2,nan,1e-300,-0.3333333333333333\n3,,,inf\n");
  history.write_csv(folder_ / "h.csv");
  const training::History read = training::History::read_csv(folder_ / "h.csv");
  EXPECT_TRUE(read == history);
  EXPECT_EQ(read.names(), (std::vector<std::string>{"loss", "lr", "val_loss"}));
  EXPECT_FALSE(read.at(0, "val_loss").has_value());
  EXPECT_TRUE(std::isnan(*read.at(1, "loss")));
  EXPECT_EQ(*read.last("lr"), 1e-300);
  EXPECT_EQ(*read.best("loss", false), 0u);
  EXPECT_EQ(read["lr"][1], 1e-300);
}

TEST_F(HistoryTest, RefusesWhatIsNoHistory) {
  training::History history;
  error_of(ErrorKind::kInvalidArgument, [&] { history.add({{"a,b", 1}}); });
  error_of(ErrorKind::kInvalidArgument, [&] { history.add({{"a", 1}, {"a", 2}}); });
  error_of(ErrorKind::kInvalidArgument, [&] { history.add({{"epoch", 1}}); });
  EXPECT_TRUE(history.empty());
  history.add({{"val_loss", 1}});
  std::string text = error_of(ErrorKind::kNotFound, [&] { history["val_los"]; });
  EXPECT_NE(text.find("'val_loss'?"), std::string::npos) << text;
  const auto parse = [](std::string_view csv) { return training::History::parse_csv(csv, "h.csv"); };
  text = error_of(ErrorKind::kParse, [&] { parse("epoch,loss\n1,0.5\n2,x\n"); });
  EXPECT_NE(text.find("h.csv: line 3"), std::string::npos) << text;
  error_of(ErrorKind::kParse, [&] { parse("epoch,loss\n1\n"); });
  error_of(ErrorKind::kParse, [&] { parse("loss,loss\n1,2\n"); });
  error_of(ErrorKind::kParse, [&] { parse(""); });
  EXPECT_EQ(parse("loss\r\n0.5\r\n").epochs(), 1u);
}

}  // namespace
}  // namespace systole
