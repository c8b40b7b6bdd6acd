// Indices and labels outside: the Trainer and data::check_labels name the sample before anything is computed,
// and SYSTOLE_CHECK or FunctionOptions::check_indices names the op of a program that read outside.

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "error_check.h"
#include "systole/data/labels.h"
#include "systole/ir/text.h"
#include "systole/ops.h"
#include "systole/systole.h"
#include "tensor/record.h"
#include "trainer_fixture.h"

namespace systole {
namespace {

void expect_all(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

std::string refused(const std::function<void()>& body) { return error_of(ErrorKind::kInvalidArgument, body); }

Literal ints(const std::vector<std::int32_t>& values) {
  return Literal::of<std::int32_t>({static_cast<std::int64_t>(values.size())}, values);
}

class LabelCheck : public TrainerTest {
 protected:
  data::Source with_label(std::int64_t sample, std::int32_t label) const {
    const std::span<const std::int32_t> y = data.y.values<std::int32_t>();
    std::vector<std::int32_t> labels(y.begin(), y.end());
    labels[static_cast<std::size_t>(sample)] = label;
    return data::arrays(data.x, ints(labels));
  }
};

TEST_F(LabelCheck, NamesTheSampleTheLabelAndTheRangeBeforeTheFirstStep) {
  for (const std::int32_t label : {7, -1, 2, -100}) {
    Net net = seeded_net();
    const std::vector<float> before = flat(parameters(net));
    training::Trainer trainer(net, "sgd");
    const data::Source bad = with_label(17, label);
    expect_all(refused([&] { trainer.fit(bad, {.epochs = 1, .verbose = 0}); }),
               {"fit", "sample 17", "0 to 1 (2 classes)", std::to_string(label)});
    expect_all(refused([&] { trainer.evaluate(bad); }), {"evaluate", "sample 17"});
    expect_all(refused([&] { trainer.fit(source, {.epochs = 1, .validation = bad, .verbose = 0}); }),
               {"validation", "sample 17"});
    expect_all(refused([&] { trainer.train_on_batch({Tensor(data.x), Tensor(bad.columns()[1])}); }),
               {"train_on_batch", "sample 17"});
    if (label == 7) {
      Net fresh = seeded_net();
      training::Trainer second(fresh, "sgd");
      refused([&] { second.fit(bad, {.epochs = 1, .verbose = 0}); });
      EXPECT_EQ(flat(parameters(fresh)), before);  // nothing was trained
    }
  }
}

TEST_F(LabelCheck, OfDataThatIsReadInBatchesNamesTheSampleOfTheSet) {
  Net net = seeded_net();
  training::Trainer trainer(net, "sgd");
  const data::Source bad = with_label(17, 5);
  const data::Transforms map{data::Custom{.on_sample = [](data::Sample s, std::uint64_t) { return s; }}};
  expect_all(refused([&] { trainer.fit(bad, {.epochs = 1, .batch = 10, .map = map, .verbose = 0}); }),
             {"fit", "sample 17", "0 to 1"});
  // Batch by batch, before the batch's step: sample 17 is in the second.
  Net fresh = seeded_net();
  training::Trainer second(fresh, "sgd");
  refused([&] {
    second.fit(bad,
               {.epochs = 1, .batch = 10, .shuffle = false, .map = map, .verbose = 0, .steps_per_call = 1});
  });
  EXPECT_EQ(second.optimizer().step().item<int>(), 1);
}

TEST_F(LabelCheck, OfLossesOfTwoClassesAreZeroAndOne) {
  nn::Linear net(4, 1);
  const auto prepared = [](const char* loss) {
    return training::Loss([loss](const Tensor& out, const Tensor& y) {
             return losses::by_name(loss)(out.squeeze(-1), y);
           })
        .set_labels(*training::Loss(loss).labels());
  };
  for (const char* loss : {"bce_with_logits", "binary_crossentropy", "bce"}) {
    ASSERT_TRUE(training::Loss(loss).labels()) << loss;
    training::Trainer trainer(net, "sgd", {.loss = prepared(loss)});
    expect_all(refused([&] { trainer.fit(with_label(17, 2), {.epochs = 1, .verbose = 0}); }),
               {"sample 17", "0 to 1", "2"});
  }
  // [n,1] labels go as they are, and those of -1 and 1 that a hinge takes.
  const Literal column = data.y.reshaped({50, 1});
  training::Trainer direct(net, "sgd", {.loss = "bce_with_logits"});
  direct.fit(data::arrays(data.x, column), {.epochs = 1, .verbose = 0});
  std::vector<std::int32_t> labels(50, 1);
  labels[17] = -1;
  const data::Source signs = data::arrays(data.x, Literal::of<std::int32_t>({50, 1}, labels));
  expect_all(refused([&] { direct.fit(signs, {.epochs = 1, .verbose = 0}); }), {"sample 17", "-1"});
  training::Trainer(net, "sgd", {.loss = "hinge"}).fit(signs, {.epochs = 1, .verbose = 0});
}

TEST_F(LabelCheck, AgainOnTheSecondSetOfData) {
  Net net = seeded_net();
  training::Trainer trainer(net, "sgd");
  trainer.fit(source, {.epochs = 1, .verbose = 0});
  expect_all(refused([&] { trainer.fit(with_label(3, 9), {.epochs = 1, .verbose = 0}); }), {"sample 3"});
}

TEST_F(LabelCheck, LeavesOutWhatTheLossIgnoresAndLossesOfOnesOwn) {
  Net net = seeded_net();
  training::Loss loss("cross_entropy", {.ignore_index = -100});
  training::Trainer trainer(net, "sgd", {.loss = loss});
  trainer.fit(with_label(17, -100), {.epochs = 1, .verbose = 0});
  expect_all(refused([&] { trainer.fit(with_label(17, 2), {.epochs = 1, .verbose = 0}); }),
             {"or -100, which is ignored"});
  const auto own = [](const Tensor& out, const Tensor& y) { return cross_entropy(out, where(y < 0, 0, y)); };
  training::Trainer free(net, "sgd", {.loss = own});
  free.fit(with_label(17, -1), {.epochs = 1, .verbose = 0});
  training::Trainer checked(net, "sgd", {.loss = training::Loss(own).set_labels({})});
  refused([&] { checked.fit(with_label(17, -1), {.epochs = 1, .verbose = 0}); });
}

TEST(CheckLabels, NamesElementsOfLabelsPerPosition) {
  const Literal y = Literal::of<std::int32_t>({2, 3}, std::vector<std::int32_t>{0, 1, 2, 0, 3, 1});
  const data::Source set = data::arrays(Literal({DType::f32, {2, 4}}), y);
  data::check_labels(set, {.classes = 4});
  expect_all(refused([&] { data::check_labels(set, {.classes = 3}); }),
             {"sample 1 at element 1", "0 to 2", "3"});
  error_of(ErrorKind::kDType, [&] { data::check_labels(set, {.classes = 3, .field = 0}); });
  refused([&] { data::check_labels(set, {.classes = 0}); });
}

class IndexCheck : public testing::TestWithParam<const char*> {
 protected:
  DeviceScope device{GetParam()};
  const Tensor table{Literal::of<float>({4, 2}, std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7})};
};
INSTANTIATE_TEST_SUITE_P(Devices, IndexCheck, testing::Values("reference", "cpu"));

TEST_P(IndexCheck, NamesTheOpItsOperandsTheIndexAndTheRange) {
  const auto rows = compile([](const Tensor& t, const Tensor& i) { return embedding(t, i); },
                            {.name = "lookup", .check_indices = true});
  EXPECT_EQ(rows(table, tensor({3, 0})).to_vector<float>(), (std::vector<float>{6, 7, 0, 1}));
  expect_all(
      refused([&] { rows(table, tensor({1, 9, -1})); }),
      {"lookup", "embedding of f32[4,2] (argument 0)", "2 indices", "(argument 1)", "0 to 3", "9 at [1]"});
  expect_all(refused([&] { rows(table, tensor({0, -1, 1})); }), {"an index", "-1 at [1]"});
  const auto wide =
      compile([](const Tensor& t, const Tensor& i) { return embedding(t, i); }, {.check_indices = true});
  expect_all(refused([&] { wide(table, Tensor(Literal::of<std::int64_t>({1}, {std::int64_t{1} << 40}))); }),
             {"1099511627776 at [0]"});
}

TEST_P(IndexCheck, CoversEveryOpWithIndices) {
  const FunctionOptions on{.check_indices = true};
  const Tensor nine = tensor({9}), two = tensor({2});
  const auto gathered = compile([](const Tensor& t, const Tensor& i) { return t[{all, i}]; }, on);
  gathered(table, tensor({-1}));  // counts from the end
  expect_all(refused([&] { gathered(table, two); }), {"gather", "0 to 1", "2 at [0]"});
  const auto along = compile([](const Tensor& t, const Tensor& i) { return take_along_axis(t, i, 1); }, on);
  expect_all(refused([&] { along(table, tensor({{0}, {1}, {5}, {0}})); }), {"gather", "5 at [2,0]"});
  const auto written = compile([](const Tensor& t, const Tensor& i) { return t.at(i).add(1.0); }, on);
  written(table, two);
  expect_all(refused([&] { written(table, nine); }), {"scatter", "0 to 3", "9 at [0]"});
  const auto loss = compile([](const Tensor& x, const Tensor& y) { return cross_entropy(x, y); }, on);
  loss(table, tensor({0, 1, 0, 1}));
  expect_all(refused([&] { loss(table, tensor({0, 1, -1, 7})); }),
             {"cross_entropy of f32[4,2]", "2 indices", "0 to 1", "-1 at [2]"});
  const auto block = compile(
      [](const Tensor& t, const Tensor& i, const Tensor& j) {
        return recording::built(
            {t, i, j}, [](const ir::Values& v) { return ops::dynamic_slice(v[0], {v[1], v[2]}, {3, 1}); });
      },
      on);
  EXPECT_EQ(block(table, Tensor(1), Tensor(1)).to_vector<float>(), (std::vector<float>{3, 5, 7}));
  expect_all(refused([&] { block(table, Tensor(2), Tensor(1)); }),
             {"dynamic_slice of f32[4,2]", "0 to 1 along axis 0", "2 at []"});
  expect_all(refused([&] { block(table, Tensor(1), Tensor(-1)); }), {"0 to 1 along axis 1", "-1 at []"});
  const auto replaced = compile(
      [](const Tensor& t, const Tensor& i) {
        return recording::built({t, zeros({1, 2}), i}, [](const ir::Values& v) {
          return ops::dynamic_update_slice(v[0], v[1], {v[2], ops::scalar_like(v[2], 0)});
        });
      },
      on);
  EXPECT_EQ(replaced(table, Tensor(3)).to_vector<float>(), (std::vector<float>{0, 1, 2, 3, 4, 5, 0, 0}));
  expect_all(refused([&] { replaced(table, Tensor(4)); }),
             {"dynamic_update_slice of f32[4,2]", "0 to 3 along axis 0", "4 at []"});
}

TEST_P(IndexCheck, CoversTheLabelsOfEveryLoss) {
  const Tensor weights = tensor({1.0, 2.0});
  const auto check = [&](const char* name, bool ignores, const auto& loss) {
    const auto f = compile(loss, {.check_indices = true});
    const auto refused_of = [&](const Tensor& y) { return refused([&] { f(table, y); }); };
    const Tensor good = tensor({0, 1, ignores ? -100 : 1, 0});
    EXPECT_TRUE(all(is_finite(f(table, good))).template item<bool>()) << name;
    expect_all(refused_of(tensor({0, 1, 2, 7})),
               {std::string(name) + " of 2 classes", "2 indices", "i32[4] (argument 1)", "0 to 1", "2 at [2]",
                ignores ? "or -100, which is ignored" : ""});
    expect_all(refused_of(tensor({0, 1, 0, -1})), {"an index", "-1 at [3]"});
    // Nothing of it is in the program otherwise.
    EXPECT_EQ(ir::print(compile(loss).graph(table, good)).find("checked_labels"), std::string::npos);
  };
  using T = const Tensor&;
  check("cross_entropy", false, [](T x, T y) { return cross_entropy(x, y, {.label_smoothing = 0.1}); });
  check("cross_entropy", false, [&](T x, T y) { return cross_entropy(x, y, {.class_weights = weights}); });
  check("cross_entropy", true, [](T x, T y) { return cross_entropy(x, y, {.ignore_index = -100}); });
  check("cross_entropy", true, [](T x, T y) {
    const auto loss = [](T a, T b) { return cross_entropy(a, b, {.ignore_index = -100}); };
    return autocast(loss, DType::bf16)(x, y);
  });
  check("nll_loss", false, [](T x, T y) { return nll_loss(log_softmax(x), y); });
  check("nll_loss", true, [](T x, T y) { return nll_loss(log_softmax(x), y, {.ignore_index = -100}); });
  check("sparse_categorical_cross_entropy", false,
        [](T x, T y) { return sparse_categorical_cross_entropy(softmax(x), y); });
  check("multi_margin_loss", false, [](T x, T y) { return multi_margin_loss(x, y); });
  // In a step, through its gradients.
  nn::Linear net(2, 2);
  optim::SGD opt(parameters(net), {.lr = 1.0});
  const auto step = compile(
      [&](T x, T y) {
        auto [loss, grads] =
            value_and_grad([&] { return cross_entropy(net(x), y, {.ignore_index = -100}); }, parameters(net));
        opt.update(grads);
        return loss;
      },
      {.check_indices = true});
  const std::vector<float> before = flat(parameters(net));
  const Tensor labels = tensor({0, 1, -100, 3});
  expect_all(refused([&] { step(table, labels); }), {"cross_entropy of 2 classes", "an index", "3 at [3]"});
  EXPECT_EQ(flat(parameters(net)), before);
  step(table, tensor({0, 1, -100, 1}));
  EXPECT_NE(flat(parameters(net)), before);
}

TEST_P(IndexCheck, CoversCtcTargets) {
  const auto of = [](const Tensor& log_p, const Tensor& targets) {
    return ctc_loss(log_p, targets, tensor({4}), tensor({2}));
  };
  const auto loss = compile(of, {.check_indices = true});
  const Tensor log_p = log_softmax(ones({4, 1, 3}));
  EXPECT_TRUE(is_finite(loss(log_p, tensor({{1, 2}}))).item<bool>());
  expect_all(refused([&] { loss(log_p, tensor({{1, 3}})); }), {"gather", "0 to 2", "3 at "});
}

TEST_P(IndexCheck, LooksIntoLoopsAndBranches) {
  const FunctionOptions on{.check_indices = true};
  const auto step = compile([](const Tensor& t, const Tensor& i) { return embedding(t, i); }, on);
  step.many(stack({table, table}), tensor({{1, 2}, {0, 3}}));
  expect_all(refused([&] { step.many(stack({table, table}), tensor({{1, 2}, {0, 4}})); }),
             {"embedding", "step 1", "4 at [1]"});
  const auto summed = compile(
      [](const Tensor& t, const Tensor& rows) {
        return scan(
                   [&](const Tensor& sum, const Tensor& i) {
                     const Tensor next = sum + take(t, i, 0);
                     return std::pair(next, next);
                   },
                   zeros({2}), rows)
            .first;
      },
      on);
  summed(table, tensor({0, 1, 3}));
  expect_all(refused([&] { summed(table, tensor({0, 8, 3, 9})); }), {"2 indices", "8 at []"});
  using Carry = std::pair<Tensor, Tensor>;
  const auto looped = compile(
      [](const Tensor& t, const Tensor& n) {
        return while_loop([&](const Carry& c) { return c.first < n; },
                          [&](const Carry& c) { return Carry{c.first + 1, c.second + take(t, c.first, 0)}; },
                          Carry{Tensor(0), zeros({2})})
            .second;
      },
      on);
  EXPECT_EQ(looped(table, Tensor(4)).to_vector<float>(), (std::vector<float>{12, 16}));
  expect_all(refused([&] { looped(table, Tensor(6)); }), {"gather", "4 at []"});
  const auto chosen = compile(
      [](const Tensor& t, const Tensor& i) {
        return cond(i > 5, [&] { return take(t, i, 0); }, [&] { return take(t, i + 3, 0); });
      },
      on);
  chosen(table, Tensor(0));
  expect_all(refused([&] { chosen(table, Tensor(7)); }), {"7 at []"});
  expect_all(refused([&] { chosen(table, Tensor(2)); }), {"5 at []"});
}

TEST_P(IndexCheck, LeavesVariablesAsTheyWereAndNamesThem) {
  nn::Embedding words(4, 2);
  nn::Linear head(2, 2);
  optim::SGD opt(parameters(words), {.lr = 1.0});
  const auto step = compile(
      [&](const Tensor& i) {
        auto [loss, grads] = value_and_grad([&] { return sum(square(words.forward(i))); }, parameters(words));
        opt.update(grads);
        return loss;
      },
      {.name = "step", .check_indices = true});
  const std::vector<float> before = flat(parameters(words));
  expect_all(refused([&] { step(tensor({1, 4})); }), {"step", "gather of f32[4,2] (weight)", "4 at [1]"});
  EXPECT_EQ(flat(parameters(words)), before);
  step(tensor({1, 3}));
  EXPECT_NE(flat(parameters(words)), before);
  const auto labelled = compile(
      [&](const Tensor& i, const Tensor& y) {
        auto [loss, grads] =
            value_and_grad([&] { return cross_entropy(words.forward(i), y); }, parameters(words));
        opt.update(grads);
        return loss;
      },
      {.check_indices = true});
  expect_all(refused([&] { labelled(tensor({1, 2}), tensor({0, 7})); }),
             {"cross_entropy", "7 at [1]", "(argument 1)", "0 to 1"});
}

// The way of the Trainer for data on the device: a launch takes the steps' rows by itself.
TEST_P(IndexCheck, NamesTheStepOfALaunchThatTakesItsRows) {
  nn::Embedding words(4, 2);
  optim::SGD opt(parameters(words), {.lr = 1.0});
  const auto step = compile(
      [&](const Tensor& i) {
        auto [loss, grads] = value_and_grad([&] { return sum(square(words.forward(i))); }, parameters(words));
        opt.update(grads);
        return loss;
      },
      {.name = "step", .check_indices = true});
  const std::vector<float> before = flat(parameters(words));
  const Tensor data = tensor({0, 1, 2, 3, 9});
  expect_all(refused([&] { step.many_at(tensor({{0, 1}, {2, 4}, {3, 3}}), data); }),
             {"step", "gather of f32[4,2] (weight)", "step 1", "9 at [1]"});
  EXPECT_EQ(flat(parameters(words)), before);
  expect_all(refused([&] { step.many_at(tensor({{0, 1}, {5, 2}}), data); }),
             {"many_at", "i32[5] (argument 0)", "0 to 4", "5 at [1,0]"});
  EXPECT_EQ(flat(parameters(words)), before);
  step.many_at(tensor({{0, 1}, {2, 3}}), data);
  EXPECT_NE(flat(parameters(words)), before);
}

struct Words {
  nn::Embedding table{4, 2};
  Tensor forward(const Tensor& i) const { return table.forward(i); }
};

TEST_P(IndexCheck, OfATrainersStepsLeavesItsWeights) {
  Words net;
  std::vector<std::int32_t> x(16, 1), y(16, 0);
  x[11] = 4;
  ::setenv("SYSTOLE_CHECK", "1", 1);
  training::Trainer trainer(net, "sgd");
  const std::vector<float> before = flat(parameters(net));
  expect_all(refused([&] {
               trainer.fit(data::arrays(ints(x), ints(y)),
                           {.epochs = 1, .batch = 16, .verbose = 0, .steps_per_call = 1});
             }),
             {"gather of f32[4,2] (table.weight)", "0 to 3", "4 at "});
  ::unsetenv("SYSTOLE_CHECK");
  EXPECT_EQ(flat(parameters(net)), before);
}

TEST_P(IndexCheck, IsAnOutputMoreAndNothingWithoutIt) {
  const auto f = [](const Tensor& t, const Tensor& i) { return embedding(t, i); };
  const ir::Graph off = compile(f).graph(table, tensor({1}));
  EXPECT_EQ(off.outputs().size(), 1U);
  EXPECT_EQ(ir::print(off), ir::print(compile(f, {.check_indices = false}).graph(table, tensor({1}))));
  EXPECT_EQ(compile(f, {.check_indices = true}).graph(table, tensor({1})).outputs().size(), 2U);
  // Without indices there is nothing to count.
  const auto plain = [](const Tensor& x) { return x + 1; };
  EXPECT_EQ(compile(plain, {.check_indices = true}).graph(table).outputs().size(), 1U);
  // Without the check they are clamped, as docs/ir.md says.
  EXPECT_EQ(compile(f)(table, tensor({9, -1})).to_vector<float>(), (std::vector<float>{6, 7, 0, 1}));
}

TEST_P(IndexCheck, IsAskedForByAVariableToo) {
  ::setenv("SYSTOLE_CHECK", "1", 1);
  const auto rows = compile([](const Tensor& t, const Tensor& i) { return embedding(t, i); });
  expect_all(refused([&] { rows(table, tensor({9})); }), {"9 at [0]"});
  expect_all(refused([&] { embedding(table, tensor({9})).eval(); }), {"embedding", "9 at [0]", "0 to 3"});
  expect_all(refused([&] { cross_entropy(table, tensor({0, 1, 7, 0})).eval(); }),
             {"cross_entropy", "7 at [2]"});
  EXPECT_EQ(embedding(table, tensor({3})).to_vector<float>(), (std::vector<float>{6, 7}));
  EXPECT_EQ(table[2].to_vector<float>(), (std::vector<float>{4, 5}));
  ::unsetenv("SYSTOLE_CHECK");
  EXPECT_EQ(embedding(table, tensor({9})).to_vector<float>(), (std::vector<float>{6, 7}));
}

}  // namespace
}  // namespace systole
