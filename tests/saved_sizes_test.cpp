// Models saved for sizes that are not known: of the batch, and of axes that the caller gave symbols.

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/log.h"
#include "error_check.h"
#include "saved_model_check.h"
#include "systole/systole.h"

namespace systole {
namespace {

using SavedSizesTest = SavedModelTest;

// It asks for the number of rows, which a symbol does not have.
struct Reshaping {
  nn::Linear fc{6, 2};
  Tensor forward(const Tensor& x) const {
    const std::int64_t rows = x.size(0);
    const Tensor flat = x.reshape({rows, 6});
    return fc(flat.reshape({rows * 2, 3}).reshape({rows, 6})) + fc(x.reshape({rows, -1}));
  }
};

TEST_F(SavedSizesTest, AModelThatAsksForItsBatchSizeTakesAnyAllTheSame) {
  const Reshaping net;
  save(file(), net, {Shape{4, 2, 3}});
  const SavedModel m = load(file());
  EXPECT_EQ(m.inputs()[0].type.to_string(), "f32[N,2,3]");
  expect_same(m, [&](const Tensor& x) { return net.forward(x); },
              {waves({1, 2, 3}), waves({61, 2, 3}), waves({7, 2, 3})});
}

// A size as a number of the computation.
struct Dividing {
  Tensor forward(const Tensor& x) const { return x / static_cast<double>(x.size(0)); }
};

TEST_F(SavedSizesTest, AModelThatDividesByItsBatchSizeTakesAny) {
  save(file(), Dividing{}, {Shape{4, 1}});
  expect_same(load(file()), [](const Tensor& x) { return Dividing{}.forward(x); },
              {waves({4, 1}), waves({1, 1}), waves({100, 1})});
}

// A quotient, of which no symbol tells.
struct Counting {
  Tensor forward(const Tensor& x) const { return x * (1.0 / static_cast<double>(x.size(0))); }
};

TEST_F(SavedSizesTest, AModelThatCalculatesWithItsBatchSizeTakesThatOneOnlyAndSaysSo) {
  std::string warning;
  set_log_sink([&](LogLevel, std::string_view message) { warning = message; }, LogLevel::warn);
  save(file(), Counting{}, {Shape{4, 1}});
  set_log_sink({});
  EXPECT_NE(warning.find("batches of 4 only"), warning.npos) << warning;
  EXPECT_NE(warning.find("any_batch"), warning.npos) << warning;  // what to do
  const SavedModel m = load(file());
  EXPECT_EQ(m(Tensor(Literal::of<float>({4, 1}, {4, 8, 12, 16}))).to_vector<float>(),
            (std::vector<float>{1, 2, 3, 4}));
  const std::string message = error_of(ErrorKind::kShape, [&] { m(waves({3, 1})); });
  EXPECT_NE(message.find("f32[4,1]"), message.npos) << message;
  save(file(), tiny(), {Shape{4, 2}}, {.any_batch = false});
  EXPECT_EQ(load(file()).inputs()[0].type.to_string(), "f32[4,2]");
}

struct Centred {
  Tensor forward(const Tensor& x) const { return x - mean(x, {0}, Flag(true)); }
};

TEST_F(SavedSizesTest, AMeanOverTheBatchFollowsItsSize) {
  save(file(), Centred{}, {Shape{4, 1}});
  const SavedModel m = load(file());
  EXPECT_EQ(m.inputs()[0].type.to_string(), "f32[N,1]");
  EXPECT_EQ(m(Tensor(Literal::of<float>({2, 1}, {1, 3}))).to_vector<float>(), (std::vector<float>{-1, 1}));
  EXPECT_EQ(m(Tensor(Literal::of<float>({4, 1}, {1, 3, 5, 7}))).to_vector<float>(),
            (std::vector<float>{-3, -1, 1, 3}));
}

TEST_F(SavedSizesTest, SymbolsOfTheCallersOwnAreTaken) {
  save(file(), nn::Linear(2, 3), {{DType::f32, {Dim::symbol("B"), Dim::symbol("T"), 2}}});
  const SavedModel m = load(file());
  EXPECT_EQ(m(waves({2, 5, 2})).shape(), (Shape{2, 5, 3}));
  EXPECT_EQ(m(waves({1, 3, 2})).shape(), (Shape{1, 3, 3}));
  error_of(ErrorKind::kShape, [&] { save(file(), Counting{}, {Shape{Dim::symbol("B"), 1}}); });
}

struct Attending {
  nn::MultiHeadAttention attention{8, 2};
  Tensor forward(const Tensor& x) const {
    const Tensor y = attention(x);
    return y.reshape({-1, 8}).reshape(x.shape()) + x;  // batch and length as one axis
  }
};

TEST_F(SavedSizesTest, AttentionTakesAnyBatchAndLength) {
  const Dim b = Dim::symbol("B"), t = Dim::symbol("T");
  const nn::MultiHeadAttention attention(8, 2);
  save(file(), attention, {Shape{b, t, 8}});
  const SavedModel m = load(file());
  EXPECT_EQ(m.outputs()[0].type.to_string(), "f32[B,T,8]");
  expect_same(m, [&](const Tensor& x) { return attention(x); },
              {waves({1, 1, 8}), waves({2, 5, 8}), waves({3, 40, 8})});
  const Attending both;
  save(file(), both, {Shape{b, t, 8}});
  expect_same(load(file()), [&](const Tensor& x) { return both.forward(x); },
              {waves({1, 3, 8}), waves({4, 6, 8})});
  EXPECT_NE(ir::print(load(file()).graph()).find("B*T"), std::string::npos);
  nn::TransformerEncoder encoder(8, 2, {.layers = 1, .layer = {.dim_feedforward = 16}});
  nn::eval(encoder);
  save(file(), encoder, {Shape{b, t, 8}});
  expect_same(load(file()), [&](const Tensor& x) { return encoder(x); }, {waves({2, 7, 8})});
}

// These ask for their length, and cut a table of positions or the last step by it.
TEST_F(SavedSizesTest, ModelsOfSequencesTakeAnyBatchAndLength) {
  using namespace nn::models;
  const Dim b = Dim::symbol("B"), t = Dim::symbol("T");
  const auto check = [&](const auto& fn, const auto& model) {
    save(file(), model, fn, {{DType::i32, {b, t}}});
    const SavedModel m = load(file());
    EXPECT_EQ(m.inputs()[0].type.to_string(), "i32[B,T]");
    expect_same(m, fn, {words({1, 1}, 30), words({3, 5}, 30), words({2, 18}, 30)});
  };
  const Gpt2 gpt{{.layers = 2, .width = 8, .heads = 2, .vocabulary = 30, .length = 18}};
  check([&](const Tensor& x) { return gpt.forward(x); }, gpt);
  const std::string message = error_of(ErrorKind::kShape, [&] { load(file())(words({1, 19}, 30)); });
  EXPECT_NE(message.find("18"), std::string::npos) << message;
  const BertOptions options{
      .layers = 1, .width = 8, .heads = 2, .vocabulary = 30, .length = 18, .dropout = 0, .classes = 3};
  const BertClassifier bert(options);
  check([&](const Tensor& x) { return bert.forward({.words = x}); }, bert);
  const BertMaskedLanguageModel masked(options);
  check([&](const Tensor& x) { return masked.forward({.words = x, .mask = (x > 3).to(DType::i32)}); },
        masked);
  for (const bool bidirectional : {false, true}) {
    const LstmClassifier classifier{
        {.vocabulary = 30, .embedding = 4, .hidden = 5, .classes = 3, .bidirectional = bidirectional}};
    check([&](const Tensor& x) { return classifier.forward(x); }, classifier);
  }
  const LstmLanguageModel language{{.vocabulary = 30, .embedding = 4, .hidden = 5}};
  check([&](const Tensor& x) { return language.forward(x); }, language);
  const Bert plain(options);
  check([&](const Tensor& x) { return plain.forward(x); }, plain);
  BertOptions counting = options;  // RoBERTa's positions, which count the words that are not the padding
  counting.padding = 1;
  counting.length = 20;
  const Bert roberta(counting, false);
  check([&](const Tensor& x) { return roberta.forward(x); }, roberta);
  const BertMaskedLanguageModel masked_roberta(counting);
  check([&](const Tensor& x) { return masked_roberta.forward(x); }, masked_roberta);
  for (const char* task : {"classify", "next"}) {
    nn::AnyModule lstm = nn::zoo::make(
        "lstm",
        {.input = {18}, .classes = 30, .options = {{"task", task}, {"vocabulary", 30}, {"hidden", 5}}});
    nn::eval(lstm);
    check([&](const Tensor& x) { return lstm(x); }, lstm);
  }
}

TEST_F(SavedSizesTest, RecurrentLayersTakeAnyBatchAndLength) {
  const Dim b = Dim::symbol("B"), t = Dim::symbol("T");
  const auto check = [&](const auto& layer, bool batch_first) {
    const auto fn = [&](const Tensor& x) { return layer(x).y; };
    save(file(), layer, fn, {{DType::f32, batch_first ? Shape{b, t, 3} : Shape{t, b, 3}}});
    expect_same(load(file()), fn, {waves({1, 1, 3}), waves({4, 7, 3}), waves({2, 30, 3})});
  };
  for (const bool both : {false, true}) {
    check(nn::LSTM(3, 5, {.batch_first = true, .bidirectional = both}), true);
    check(nn::GRU(3, 5, {.layers = 2, .batch_first = true, .bidirectional = both}), true);
    check(nn::GRU(3, 5, {.bidirectional = both}), false);
    check(nn::RNN(3, 5, {.layers = 2, .bidirectional = both}), false);
    check(nn::RNN(3, 5, {.batch_first = true, .nonlinearity = RnnForm::relu}), true);
  }
}

// Tensors that the function makes anew in each call.
struct Normalizing {
  Tensor forward(const Tensor& x) const {
    const Tensor means(Literal::of<float>({2}, {0.5, -1}));
    return (x - means) / tensor({0.25, 2.0}) + arange(2) + ones({2});
  }
};

TEST_F(SavedSizesTest, AModelThatMakesTensorsTakesAnyBatch) {
  save(file(), Normalizing{}, {Shape{4, 2}});
  expect_same(load(file()), [](const Tensor& x) { return Normalizing{}.forward(x); },
              {waves({4, 2}), waves({1, 2}), waves({9, 2})});
  save(file(), Normalizing{}, {Shape{Dim::symbol("B"), 2}});
  expect_same(load(file()), [](const Tensor& x) { return Normalizing{}.forward(x); }, {waves({3, 2})});
}

// Tables of positions, which are constants of one length otherwise.
struct Positioned {
  nn::SinusoidalPositions positions{7};
  nn::LearnedPositions learned{20, 7};
  Tensor forward(const Tensor& x) const {  // [b, t, 7]
    const Tensor y = learned(positions(x));
    return nn::rotary(y[{systole::all, newaxis, systole::all, slice(0, 6)}], {.first = 2}) +
           nn::rotary(y[{systole::all, newaxis, systole::all, slice(1, 7)}], {.interleaved = true});
  }
};

TEST_F(SavedSizesTest, PositionsTakeAnyLength) {
  Positioned net;
  nn::eval(net);
  save(file(), net, {Shape{Dim::symbol("B"), Dim::symbol("T"), 7}});
  const SavedModel m = load(file());
  for (const std::int64_t length : {1, 6, 19}) {
    const Tensor x = waves({2, length, 7});
    EXPECT_TRUE(allclose(m(x), net.forward(x), 1e-6, 1e-6)) << m(x) << "\n" << net.forward(x);
  }
}

// Steps counted from the end, and numbers in the graph that are products of the sizes.
struct Sequence {
  nn::Linear fc{4, 4};
  Tensor forward(const Tensor& x) const {  // [b, t, 4]
    const std::int64_t b = x.size(0), t = x.size(1);
    const Tensor flat = fc(x.reshape({b * t, 4}));
    const Tensor scores = matmul(flat.reshape({b, t, 4}), swap_axes(x, 1, 2));  // [b, t, t]
    const Tensor all = scores.reshape({b * t * t});
    return x[{systole::all, -1}] + x[{systole::all, slice(-1, {})}].reshape({b, 4}) +
           all.reshape({b, t * t})[{systole::all, slice(0, 4)}];
  }
};

TEST_F(SavedSizesTest, CodeThatCalculatesWithSeveralSizesTakesAny) {
  const Sequence net;
  save(file(), net, {Shape{Dim::symbol("B"), Dim::symbol("T"), 4}});
  expect_same(load(file()), [&](const Tensor& x) { return net.forward(x); },
              {waves({1, 2, 4}), waves({5, 3, 4}), waves({2, 30, 4})});
}

// Random numbers, of an even or odd count per sample.
struct Noisy {
  std::int64_t features;
  Tensor forward(const Tensor& x) const {
    return x + random::normal(random::next_key(), x.shape()) + random::uniform(random::next_key(), x.shape());
  }
};

TEST_F(SavedSizesTest, AModelWithRandomNumbersTakesAnyBatch) {
  std::vector<std::string> warnings;
  set_log_sink([&](LogLevel, std::string_view message) { warnings.emplace_back(message); }, LogLevel::warn);
  for (const std::int64_t features : {2, 3}) {
    save(file(), Noisy{features}, {Shape{1, features}});
    const SavedModel m = load(file());
    ASSERT_EQ(m.inputs()[0].type.shape[0].to_string(), "N") << features << ": " << warnings.back();
    const Tensor y = m(zeros({500, features}));
    EXPECT_NEAR(mean(y).item<double>(), 0.5, 0.2);
    EXPECT_NEAR(stddev(y).item<double>(), std::sqrt(1 + 1.0 / 12), 0.15);
    const Noisy noisy{features};
    const auto fn = [&](const Tensor& x) { return noisy.forward(x); };
    random::seed(7);
    save(file(), noisy, {Shape{1, features}});
    expect_same(load(file()), fn, {zeros({7, features})});  // from the same key
    random::seed(7);
    save(file(), noisy, {Shape{1, features}});
    expect_same(load(file()), fn, {zeros({6, features})});
  }
  set_log_sink({});
  EXPECT_EQ(warnings, std::vector<std::string>());
}

}  // namespace
}  // namespace systole
