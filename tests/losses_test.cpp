// Losses against PyTorch, values and gradients; tests/parity/make_losses.py makes PyTorch's numbers.

#include "systole/nn/losses.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "error_check.h"
#include "systole/tensor.h"

#if __has_include(<nlohmann/json.hpp>)

#include "parity_digest.h"

namespace systole {
namespace {

using Tensors = std::vector<Tensor>;

const Shape kRows{4, 5}, kPair{3, 4}, kSteps{6, 4, 5};

class LossParity : public ParityDevice {
 protected:
  template <class F>
  void expect_loss(const std::string& name, const std::vector<Shape>& inputs, const F& loss) {
    expect_parity("losses.json", name, inputs, {}, [&](const Tensors& x) { return Tensors{loss(x)}; });
  }
  // As in make_losses.py.
  Tensor labels() const { return tensor({3, 0, 4, 1}); }
  Tensor gaps() const { return tensor({3, -100, 4, -100}); }
  Tensor weights() const { return number(abs(wave({5}, 0.2)) + 0.1); }
  Tensor soft() const { return number(softmax(wave(kRows, 1.3))); }
  Tensor hot() const { return number(one_hot(labels(), 5)); }
  Tensor between() const { return number(sigmoid(wave(kPair, 0.6))); }
  Tensor target() const { return number(wave(kPair, 0.6) > 0); }
};
INSTANTIATE_TEST_SUITE_P(On, LossParity, parity_devices(), device_suffix);

TEST_P(LossParity, CrossEntropy) {
  const Tensor l = labels(), g = gaps(), w = weights(), s = soft();
  expect_loss("cross_entropy_sum", {kRows},
              [&](const Tensors& x) { return cross_entropy(x[0], l, {.reduction = Reduction::sum}); });
  expect_loss("cross_entropy_smoothing", {kRows},
              [&](const Tensors& x) { return cross_entropy(x[0], l, {.label_smoothing = 0.2}); });
  expect_loss("cross_entropy_weights", {kRows},
              [&](const Tensors& x) { return cross_entropy(x[0], l, {.class_weights = w}); });
  expect_loss("cross_entropy_ignore", {kRows},
              [&](const Tensors& x) { return cross_entropy(x[0], g, {.ignore_index = -100}); });
  CrossEntropyOptions all{.label_smoothing = 0.1, .class_weights = w, .ignore_index = -100};
  expect_loss("cross_entropy_all", {kRows}, [&](const Tensors& x) { return cross_entropy(x[0], g, all); });
  all.reduction = Reduction::none;
  expect_loss("cross_entropy_all_none", {kRows},
              [&](const Tensors& x) { return cross_entropy(x[0], g, all); });
  expect_loss("cross_entropy_soft", {kRows}, [&](const Tensors& x) { return cross_entropy(x[0], s); });
  expect_loss("cross_entropy_soft_all", {kRows}, [&](const Tensors& x) {
    return cross_entropy(x[0], s, {.label_smoothing = 0.1, .class_weights = w});
  });
}

TEST_P(LossParity, CrossEntropyInKerassForms) {
  const Tensor l = labels(), g = gaps(), w = weights(), h = hot(), s = soft();
  const auto positive = [](const Tensors& x) { return 0.1 + abs(x[0]); };
  expect_loss("categorical", {kRows},
              [&](const Tensors& x) { return categorical_cross_entropy(positive(x), h); });
  expect_loss("categorical_smoothing", {kRows}, [&](const Tensors& x) {
    return categorical_cross_entropy(positive(x), h, {.label_smoothing = 0.3});
  });
  expect_loss("sparse", {kRows}, [&](const Tensors& x) {
    return sparse_categorical_cross_entropy(positive(x), l, {.reduction = Reduction::sum});
  });
  const Tensor kept = number(tensor({0.0, 1.0, 1.0, 0.0, 1.0}));
  expect_loss("clamped", {kRows}, [&](const Tensors& x) {
    return categorical_cross_entropy(square(x[0]) * kept, h, {.reduction = Reduction::none});
  });
  expect_loss("cross_entropy_soft_all", {kRows}, [&](const Tensors& x) {
    return categorical_cross_entropy(x[0], s,
                                     {.from_logits = true, .label_smoothing = 0.1, .class_weights = w});
  });
  expect_loss("cross_entropy_all", {kRows}, [&](const Tensors& x) {
    return sparse_categorical_cross_entropy(
        x[0], g.reshape({4, 1}),
        {.from_logits = true, .label_smoothing = 0.1, .class_weights = w, .ignore_index = -100});
  });
  expect_loss("cross_entropy_all", {kRows}, [&](const Tensors& x) {
    return sparse_categorical_cross_entropy(
        softmax(x[0]), g, {.label_smoothing = 0.1, .class_weights = w, .ignore_index = -100});
  });
}

TEST_P(LossParity, Nll) {
  const Tensor l = labels(), g = gaps(), w = weights();
  expect_loss("nll", {kRows}, [&](const Tensors& x) {
    return nll_loss(log_softmax(x[0]), g, {.class_weights = w, .ignore_index = -100});
  });
  expect_loss("nll_none", {kRows}, [&](const Tensors& x) {
    return nll_loss(log_softmax(x[0]), l, {.reduction = Reduction::none});
  });
}

TEST_P(LossParity, YesAndNo) {
  const Tensor yes = target(), some = between(), pos = number(tensor({0.5, 2.0, 3.0, 1.0}));
  expect_loss("bce_with_logits", {kPair}, [&](const Tensors& x) { return bce_with_logits(4 * x[0], yes); });
  expect_loss("bce_with_logits_zero", {kPair}, [&](const Tensors& x) {
    return bce_with_logits(0 * x[0], yes, {.reduction = Reduction::sum});
  });
  expect_loss("bce_with_logits_weights", {kPair}, [&](const Tensors& x) {
    return bce_with_logits(4 * x[0], some,
                           {.reduction = Reduction::none, .pos_weight = pos, .weight = pos + 1});
  });
  expect_loss("bce", {kPair},
              [&](const Tensors& x) { return binary_cross_entropy(sigmoid(4 * x[0]), some); });
  expect_loss("bce_smoothing", {kPair}, [&](const Tensors& x) {
    return binary_cross_entropy(sigmoid(x[0]), yes, {.reduction = Reduction::sum, .label_smoothing = 0.1});
  });
  if (dtype() == DType::f64) {  // in f32, 1 - 1e-7 is another number
    const Tensor ends = number(tensor({0.0, 1.0, 0.5, 1.0}));
    expect_loss("bce_clamped", {kPair}, [&](const Tensors& x) {
      return binary_cross_entropy(0 * x[0] + ends, yes, {.reduction = Reduction::none});
    });
  }
}

TEST_P(LossParity, Margins) {
  const Tensor yes = target(), signs = 2 * yes - 1, l = labels(), h = hot(), w = weights();
  expect_loss("hinge", {kPair}, [&](const Tensors& x) { return hinge_loss(x[0], signs); });
  expect_loss("hinge", {kPair}, [&](const Tensors& x) { return hinge_loss(x[0], yes); });
  expect_loss("hinge_squared", {kPair}, [&](const Tensors& x) {
    return hinge_loss(x[0], yes, {.reduction = Reduction::sum, .squared = true});
  });
  expect_loss("categorical_hinge", {kRows}, [&](const Tensors& x) { return categorical_hinge(x[0], h); });
  expect_loss("multi_margin", {kRows}, [&](const Tensors& x) { return multi_margin_loss(x[0], l); });
  expect_loss("multi_margin_squared", {kRows}, [&](const Tensors& x) {
    return multi_margin_loss(x[0], l,
                             {.reduction = Reduction::none, .p = 2, .margin = 0.7, .class_weights = w});
  });
}

TEST_P(LossParity, Numbers) {
  const std::vector<Shape> two{kPair, kPair};
  expect_loss("mse", two, [](const Tensors& x) { return mse_loss(x[0], x[1]); });
  expect_loss("mse_half", two, [](const Tensors& x) {
    return mse_loss(3 * x[0], x[1], {.reduction = Reduction::sum, .half = true});
  });
  expect_loss("mae", two, [](const Tensors& x) { return mae_loss(3 * x[0], x[1]); });
  expect_loss("huber", two, [](const Tensors& x) { return huber_loss(3 * x[0], x[1], {.delta = 0.8}); });
  expect_loss("smooth_l1", two, [](const Tensors& x) {
    return smooth_l1_loss(3 * x[0], x[1], {.reduction = Reduction::none, .beta = 0.8});
  });
  expect_loss("smooth_l1_zero", two,
              [](const Tensors& x) { return smooth_l1_loss(3 * x[0], x[1], {.beta = 0}); });
  expect_loss("log_cosh", two, [](const Tensors& x) { return log_cosh_loss(3 * x[0], x[1]); });
}

TEST_P(LossParity, Distributions) {
  const Tensor s = soft(), h = hot();
  expect_loss("kl_div", {kRows}, [&](const Tensors& x) { return kl_div(log_softmax(x[0]), s); });
  expect_loss("kl_div_zeros", {kRows},
              [&](const Tensors& x) { return kl_div(log_softmax(x[0]), h, {.reduction = Reduction::sum}); });
  expect_loss("kl_div_batch_mean", {kRows, kRows}, [&](const Tensors& x) {
    return kl_div(log_softmax(x[0]), softmax(x[1]), {.batch_mean = true});
  });
  expect_loss("kl_div_log_target", {kRows, kRows}, [&](const Tensors& x) {
    return kl_div(log_softmax(x[0]), log_softmax(x[1]), {.reduction = Reduction::none, .log_target = true});
  });
  expect_loss("kl_divergence", {kRows}, [&](const Tensors& x) { return kl_divergence(softmax(x[0]), s); });
}

TEST_P(LossParity, Vectors) {
  expect_loss("cosine_similarity", {kPair, kPair},
              [](const Tensors& x) { return cosine_similarity(x[0], x[1]); });
  const Tensor signs = tensor({1, -1, -1});
  expect_loss("cosine_embedding", {kPair, kPair},
              [&](const Tensors& x) { return cosine_embedding_loss(x[0], x[1], signs, {.margin = -0.3}); });
  expect_loss("triplet", {kPair, kPair, kPair},
              [](const Tensors& x) { return triplet_margin_loss(x[0], x[1], 2 * x[2], {.margin = 0.5}); });
  expect_loss("triplet_swap", {kPair, kPair, kPair}, [](const Tensors& x) {
    return triplet_margin_loss(x[0], x[1], 2 * x[2],
                               {.reduction = Reduction::none, .margin = 2, .p = 1.5, .swap = true});
  });
}

TEST_P(LossParity, Ctc) {
  const Tensor text = tensor({{1, 2, 2}, {3, 1, 4}, {4, 0, 0}, {2, 2, 2}});
  const Tensor read = tensor({6, 5, 4, 5}), lengths = tensor({3, 2, 1, 3}), empty = tensor({3, 2, 0, 3});
  expect_loss("ctc", {kSteps},
              [&](const Tensors& x) { return ctc_loss(log_softmax(x[0]), text, read, lengths); });
  expect_loss("ctc_none", {kSteps}, [&](const Tensors& x) {
    return ctc_loss(log_softmax(x[0]), text, read, lengths, {.reduction = Reduction::none});
  });
  expect_loss("ctc_sum_blank", {kSteps}, [&](const Tensors& x) {
    return ctc_loss(log_softmax(x[0]), text % 4, read, lengths, {.reduction = Reduction::sum, .blank = 4});
  });
  const Tensor few = tensor({6, 5, 4, 4});
  expect_loss("ctc_zero_infinity", {kSteps}, [&](const Tensors& x) {
    return ctc_loss(log_softmax(x[0]), text, few, empty,
                    {.reduction = Reduction::none, .zero_infinity = true});
  });
  expect_loss("ctc_mean_of_empty", {kSteps},
              [&](const Tensors& x) { return ctc_loss(log_softmax(x[0]), text, read, empty); });
}

}  // namespace
}  // namespace systole

#endif

namespace systole {
namespace {

// Two steps of two classes: the paths of "1" are 11, 01 and 10.
TEST(Ctc, CountsAllPathsOfAShortTarget) {
  const Tensor p = tensor({{{0.25, 0.75}}, {{0.5, 0.5}}}, DType::f64);
  const Tensor one = tensor({{1}}), n = tensor({1});
  EXPECT_NEAR(ctc_loss(log(p), one, tensor({2}), n).item<double>(), -std::log(0.375 + 0.125 + 0.375), 1e-14);
  EXPECT_NEAR(ctc_loss(log(p), one, tensor({1}), n).item<double>(), -std::log(0.75), 1e-14);
  EXPECT_NEAR(ctc_loss(log(p), one, tensor({2}), tensor({0})).item<double>(), -std::log(0.125), 1e-14);
  EXPECT_EQ(ctc_loss(log(p), one, tensor({0}), tensor({0})).item<double>(), 0);
  EXPECT_EQ(ctc_loss(log(p), one, tensor({0}), n).item<double>(), HUGE_VAL);
}

TEST(Ctc, TakesTargetsWithoutLabels) {
  const Tensor p = tensor({{{0.25, 0.75}}, {{0.5, 0.5}}}, DType::f64);
  const Tensor none = zeros({1, 0}, DType::i32);
  EXPECT_NEAR(ctc_loss(log(p), none, tensor({2}), tensor({0})).item<double>(), -std::log(0.125), 1e-14);
}

TEST(Ctc, GradientsAreFiniteWhereProbabilitiesAreZero) {
  const Tensor p = tensor({{{0.0, 1.0, 0.0}}, {{0.5, 0.5, 0.0}}}, DType::f64);
  const auto slope = grad(
      [](const Tensor& log_p) { return ctc_loss(log_p, tensor({{1}}), tensor({2}), tensor({1})); })(log(p));
  for (const double g : slope.to_vector<double>()) EXPECT_TRUE(std::isfinite(g)) << g;
}

TEST(Ctc, SaysWhatDoesNotFit) {
  const Tensor p = zeros({6, 2, 5}), text = zeros({2, 3}, DType::i32), n = tensor({3, 3});
  const auto refused = [](ErrorKind kind, const std::string& part, const auto& call) {
    const std::string message = error_of(kind, call);
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  refused(ErrorKind::kShape, "[length, batch, classes]", [&] { ctc_loss(zeros({6, 5}), text, n, n); });
  refused(ErrorKind::kShape, "[batch, labels]", [&] { ctc_loss(p, n, n, n); });
  refused(ErrorKind::kShape, "input lengths", [&] { ctc_loss(p, text, tensor({3}), n); });
  refused(ErrorKind::kDType, "target lengths", [&] { ctc_loss(p, text, n, zeros({2})); });
  refused(ErrorKind::kInvalidArgument, "blank", [&] { ctc_loss(p, text, n, n, {.blank = 5}); });
}

TEST(LossErrors, EachFormOfCategoricalCrossEntropyNamesTheOther) {
  const Tensor output = softmax(zeros({3, 5})), numbers = tensor({1, 2, 3}), hot = one_hot(numbers, 5);
  const std::string sparse = error_of(ErrorKind::kDType, [&] { categorical_cross_entropy(output, numbers); });
  EXPECT_NE(sparse.find("sparse_categorical_cross_entropy"), std::string::npos) << sparse;
  EXPECT_NE(sparse.find("i32[3]"), std::string::npos) << sparse;
  error_of(ErrorKind::kDType, [&] { categorical_cross_entropy(output, numbers.reshape({3, 1})); });
  const std::string dense =
      error_of(ErrorKind::kDType, [&] { sparse_categorical_cross_entropy(output, hot); });
  EXPECT_NE(dense.find(" categorical_cross_entropy"), std::string::npos) << dense;
  EXPECT_NE(dense.find("f32[3,5]"), std::string::npos) << dense;
  error_of(ErrorKind::kDType, [&] { sparse_categorical_cross_entropy(output, hot.to(DType::i32)); });
  error_of(ErrorKind::kShape, [&] { categorical_cross_entropy(output, zeros({3, 4})); });
  error_of(ErrorKind::kShape, [&] { sparse_categorical_cross_entropy(output, tensor({1, 2})); });
}

// Training on logits that are taken for probabilities would only be slow and bad.
TEST(LossErrors, LogitsTakenForProbabilitiesAreNaN) {
  const Tensor logits = tensor({{-1.0, 2.0}, {0.5, 0.5}}), numbers = tensor({1, 0});
  EXPECT_TRUE(std::isnan(sparse_categorical_cross_entropy(logits, numbers).item<double>()));
  EXPECT_TRUE(std::isnan(categorical_cross_entropy(logits, one_hot(numbers, 2)).item<double>()));
  EXPECT_TRUE(std::isnan(binary_cross_entropy(logits, one_hot(numbers, 2)).item<double>()));
  EXPECT_TRUE(std::isnan(kl_divergence(logits, one_hot(numbers, 2)).item<double>()));
  const Tensor rows = sparse_categorical_cross_entropy(logits, numbers, {.reduction = Reduction::none});
  EXPECT_NEAR(rows[1].item<double>(), std::log(2), 1e-6);
}

// 1 - 1e-7 is 1 in these dtypes: a certain answer costs nothing when right, and much when wrong, never NaN.
TEST(Losses, CertaintyIsFiniteInSmallFloats) {
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
    const Tensor sure = tensor({1.0, 0.0}).to(dtype), right = tensor({1.0, 0.0}), wrong = tensor({0.0, 1.0});
    EXPECT_NEAR(binary_cross_entropy(sure, right).to(DType::f64).item<double>(), 0, 1e-6) << name(dtype);
    // f16 has no 1e-7 but its neighbour 1.19e-7.
    EXPECT_NEAR(binary_cross_entropy(sure, wrong).to(DType::f64).item<double>(), -std::log(1e-7), 0.3)
        << name(dtype);
  }
}

// By hand: rows of equal logits lose log 5. A label that is no class was taken for the nearest one.
TEST_P(LossParity, LabelsThatAreNoClassesAreNotLearnedFrom) {
  const Tensor x = zeros({5, 5});
  const CrossEntropyOptions each{.reduction = Reduction::none}, ignoring{Reduction::none, 0, {}, -100};
  const auto is = [](const Tensor& terms, std::vector<bool> nan, double rest, const char* what) {
    const std::vector<double> all = terms.to(DType::f64).to_vector<double>();
    ASSERT_EQ(all.size(), nan.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(std::isnan(all[i]), nan[i]) << what << " " << i << ": " << all[i];
      if (!nan[i]) EXPECT_NEAR(all[i], rest, 1e-6) << what << " " << i;
    }
  };
  const double even = std::log(5.0);
  for (const DType dtype : {DType::i8, DType::i32, DType::i64}) {
    const Tensor labels = tensor({4, -1, 5, 0, -100}).to(dtype);
    is(cross_entropy(x, labels, each), {false, true, true, false, true}, even, "cross_entropy");
    is(nll_loss(log_softmax(x), labels, {.reduction = Reduction::none}), {false, true, true, false, true},
       even, "nll_loss");
    is(multi_margin_loss(x, labels, {.reduction = Reduction::none}), {false, true, true, false, true}, 0.8,
       "multi_margin_loss");
    // PyTorch's -100 counts nothing where it is named, and hides no other.
    const std::vector<double> all = cross_entropy(x, labels, ignoring).to(DType::f64).to_vector<double>();
    EXPECT_EQ(all[4], 0);
    EXPECT_TRUE(std::isnan(all[1]) && std::isnan(all[2]));
    const auto slopes = [&](const CrossEntropyOptions& options) {
      const Tensor d = grad([&](const Tensor& y) { return sum(cross_entropy(y, labels, options)); })(x);
      return sum(d * d, -1);
    };
    is(slopes(each), {false, true, true, false, true}, 0.8, "gradient");  // 4 of 0.2² and one of 0.8²
    const std::vector<double> kept = slopes(ignoring).to(DType::f64).to_vector<double>();
    EXPECT_EQ(kept[4], 0);
    EXPECT_TRUE(std::isnan(kept[1]) && std::isnan(kept[2]));
  }
  is(cross_entropy(zeros({2, 1000}), tensor({200, 255}).to(DType::u8), each), {false, false},
     std::log(1000.0), "labels of a byte");
  is(cross_entropy(zeros({2, 5}), tensor({4, 255}).to(DType::u8), each), {false, true}, even, "unsigned");
}

TEST(LossErrors, ALossOfNumbersSaysThatItTakesNoClassNumbers) {
  for (const char* name : {"mse", "mae", "huber", "bce_with_logits", "categorical_hinge", "kl_div"}) {
    const std::string text =
        error_of(ErrorKind::kShape, [&] { losses::by_name(name)(zeros({64, 10}), zeros({64}, DType::i32)); });
    for (const char* part :
         {"the target holds class numbers", "expected f32[64,10]", "one_hot", "cross_entropy", "got i32[64]"})
      EXPECT_NE(text.find(part), std::string::npos) << part << ": " << text;
  }
  // One number to each sample is no score of classes.
  const std::string numbers =
      error_of(ErrorKind::kShape, [] { losses::by_name("mse")(zeros({64, 1}), zeros({64}, DType::i32)); });
  EXPECT_EQ(numbers.find("class"), std::string::npos) << numbers;
}

TEST(LossErrors, SayWhatDoesNotFit) {
  const Tensor x = zeros({3, 5}), y = zeros({3, 4}), labels = tensor({1, 2, 3});
  for (const auto& call : std::vector<std::function<void()>>{
           [&] { mae_loss(x, y); }, [&] { huber_loss(x, y); }, [&] { smooth_l1_loss(x, y); },
           [&] { log_cosh_loss(x, y); }, [&] { bce_with_logits(x, y); }, [&] { binary_cross_entropy(x, y); },
           [&] { hinge_loss(x, y); }, [&] { categorical_hinge(x, y); }, [&] { kl_div(x, y); },
           [&] { kl_divergence(x, y); }, [&] { cosine_similarity(x, y); },
           [&] { cosine_embedding_loss(x, x, zeros({4})); }, [&] { triplet_margin_loss(x, x, y); },
           [&] { multi_margin_loss(x, tensor({1, 2})); }, [&] { nll_loss(x, tensor({1, 2})); },
           [&] { cross_entropy(x, labels, {.class_weights = zeros({4})}); }})
    error_of(ErrorKind::kShape, call);
  for (const auto& call : std::vector<std::function<void()>>{
           [&] { huber_loss(x, x, {.delta = 0}); }, [&] { smooth_l1_loss(x, x, {.beta = -1}); },
           [&] { cross_entropy(x, labels, {.label_smoothing = 1.5}); },
           [&] { cross_entropy(x, x, {.ignore_index = 0}); }, [&] { multi_margin_loss(x, labels, {.p = 3}); },
           [&] { triplet_margin_loss(x, x, x, {.p = 0}); }})
    error_of(ErrorKind::kInvalidArgument, call);
  error_of(ErrorKind::kDType, [&] { nll_loss(x, zeros({3})); });
}

TEST(Losses, LossOptionsStandForTheOptionsOfEveryLoss) {
  const LossOptions sum{.reduction = Reduction::sum};
  const Tensor x = tensor({{1.0, 2.0}, {3.0, 5.0}});
  EXPECT_NEAR(mse_loss(x, x + 2, sum).item<double>(), 16, 1e-6);
  EXPECT_NEAR(nll_loss(x, tensor({0, 1}), sum).item<double>(), -6, 1e-6);
  EXPECT_NEAR(cross_entropy(zeros({2, 2}), tensor({0, 1}), sum).item<double>(), 2 * std::log(2), 1e-6);
}

TEST(LossNames, FindTheLoss) {
  const Tensor x = tensor({{1.0, 2.0}, {3.0, 5.0}}, DType::f64), y = x + 2, labels = tensor({0, 1});
  const auto value = [&](const char* name, const Tensor& target) {
    return losses::by_name(name)(x, target).item<double>();
  };
  EXPECT_EQ(value("cross_entropy", labels), cross_entropy(x, labels).item<double>());
  EXPECT_EQ(value("CrossEntropyLoss", labels), value("cross_entropy", labels));
  for (const char* name : {"mse", "MSELoss", "mse_loss", "mean_squared_error", "MeanSquaredError"})
    EXPECT_EQ(value(name, y), 4) << name;
  for (const char* name : {"mae", "L1Loss", "mean_absolute_error"}) EXPECT_EQ(value(name, y), 2) << name;
  EXPECT_EQ(value("SmoothL1Loss", y), 1.5);
  EXPECT_EQ(value("BCEWithLogitsLoss", y), bce_with_logits(x, y).item<double>());
  EXPECT_EQ(value("sparse_categorical_crossentropy", labels),
            sparse_categorical_cross_entropy(x, labels).item<double>());
  for (const std::string& name : losses::names()) EXPECT_TRUE(losses::by_name(name)) << name;
}

TEST(LossNames, TakeSettings) {
  const Tensor x = tensor({{1.0, 2.0}, {3.0, 5.0}}, DType::f64), labels = tensor({0, 1});
  EXPECT_EQ(losses::by_name("mse", {.reduction = Reduction::sum, .half = true})(x, x + 2).item<double>(), 8);
  EXPECT_EQ(losses::by_name("sparse_categorical_crossentropy", {.from_logits = true, .label_smoothing = 0.1})(
                x, labels)
                .item<double>(),
            cross_entropy(x, labels, {.label_smoothing = 0.1}).item<double>());
  EXPECT_EQ(losses::by_name("bce", {.from_logits = true})(x, x).item<double>(),
            bce_with_logits(x, x).item<double>());
  const std::string message =
      error_of(ErrorKind::kInvalidArgument, [] { losses::by_name("mse", {.label_smoothing = 0.1}); });
  EXPECT_NE(message.find("label_smoothing"), std::string::npos) << message;
  EXPECT_NE(message.find("half"), std::string::npos) << message;
}

TEST(LossNames, AnUnknownOneGivesTheNearest) {
  const std::string message = error_of(ErrorKind::kNotFound, [] { losses::by_name("cross_entorpy"); });
  EXPECT_NE(message.find("'cross_entropy'"), std::string::npos) << message;
  const std::string none = error_of(ErrorKind::kNotFound, [] { losses::by_name("zzz"); });
  EXPECT_NE(none.find("huber"), std::string::npos) << none;
}

}  // namespace
}  // namespace systole
