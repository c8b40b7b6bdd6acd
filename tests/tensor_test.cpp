// Values, recording and evaluation: each sentence of docs/tensors.md about Tensors that a program relies on.

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "error_check.h"
#include "systole/tensor/compiled.h"
#include "systole/tensor/creation.h"
#include "systole/tensor/math.h"
#include "systole/tensor/shaping.h"
#include "systole/tensor/transforms.h"
#include "tensor/evaluate.h"
#include "tensor/record.h"

namespace systole {
namespace {

Tensor vec(std::vector<float> v) {
  const auto n = static_cast<std::int64_t>(v.size());
  return Tensor(Literal::of<float>(Shape{n}, std::span<const float>(v)));
}

TEST(Tensor, NothingRunsUntilAValueIsRead) {
  const Tensor y = vec({1, 2}) + vec({3, 4});
  EXPECT_FALSE(y.evaluated());
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{4, 6}));
  EXPECT_TRUE(y.evaluated());
}

TEST(Tensor, EqualStructureIsCompiledOnce) {
  const auto f = [](const Tensor& x) { return (x * 3.f + x).eval(); };
  f(vec({1, 2, 3, 5, 7}));
  const auto before = recording::cache_counts();
  for (int i = 0; i < 5; ++i) f(vec({1, 2, 3, 5, 7}));
  EXPECT_EQ(recording::cache_counts().misses, before.misses);
  EXPECT_EQ(recording::cache_counts().hits, before.hits + 5);
}

TEST(Tensor, LoopOverIndicesCompilesOnce) {
  const Tensor x = reshape(arange(24), {6, 4}).eval();
  EXPECT_EQ((x[0] + 1).to_vector<std::int32_t>(), (std::vector<std::int32_t>{1, 2, 3, 4}));
  const auto before = recording::cache_counts();
  for (std::int32_t i = 1; i < 6; ++i)
    EXPECT_EQ((x[i] + 1).to_vector<std::int32_t>(),
              (std::vector<std::int32_t>{4 * i + 1, 4 * i + 2, 4 * i + 3, 4 * i + 4}));
  EXPECT_EQ(x[-1].to_vector<std::int32_t>()[0], 20);
  EXPECT_LE(recording::cache_counts().misses, before.misses + 1);  // x[-1] alone is another program
}

TEST(Tensor, AChangingHostScalarDoesNotRecompile) {
  const Tensor x = vec({1, 2, 3});
  (x * 0.125).eval();
  const auto before = recording::cache_counts();
  for (int i = 0; i < 4; ++i) EXPECT_EQ((x * (i + 0.5)).to_vector<float>()[1], 2 * (i + 0.5f));
  EXPECT_EQ(recording::cache_counts().misses, before.misses);
}

TEST(Tensor, EqualWorkIsMergedAtTheCut) {
  const Tensor x = vec({1, 2, 3, 4});
  const Tensor once = exp(x);
  (once + once).eval();
  const auto before = recording::cache_counts();
  (exp(x) + exp(x)).eval();                                        // the same structure after merging
  EXPECT_EQ(recording::cache_counts().misses, before.misses + 1);  // `once` was held, so it was an output
  (exp(x) + exp(x)).eval();
  EXPECT_EQ(recording::cache_counts().misses, before.misses + 1);
}

TEST(Tensor, WhatIsHeldIsComputedAlongAndNotAgain) {
  const Tensor x = vec({1, 2});
  const Tensor h = exp(x);
  const Tensor y = h + 1;
  y.eval();
  EXPECT_TRUE(h.evaluated());
}

TEST(Tensor, PendingWorkFlushesAt4096Nodes) {
  Tensor x = vec({0});
  for (int i = 0; i < 5000; ++i) x = abs(x);
  EXPECT_LE(x.record()->sequence - x.record()->oldest, recording::kFlushLength);
  EXPECT_EQ(x.item<float>(), 0);
}

TEST(Tensor, ManyKeptValuesDoNotRunOneByOne) {
  const Tensor x = vec({1});
  std::vector<Tensor> kept;
  for (int i = 0; i < 6000; ++i) kept.push_back(x * 2);
  const auto runs = [] { return recording::cache_counts().hits + recording::cache_counts().misses; };
  const auto before = runs();
  Tensor total = x;
  for (const Tensor& k : kept) total = total + k;
  EXPECT_EQ(total.item<float>(), 12001);
  EXPECT_LE(runs() - before, 5);
}

TEST(Tensor, AnEagerTrainingLoopCompilesOnceAndDoesNotGrow) {
  Variable w(vec({1, 2, 3}));
  const Tensor x = vec({1, 0, 1});
  std::int64_t misses = 0;
  for (int i = 0; i < 300; ++i) {
    auto [loss, grads] = value_and_grad(
        [&] {
          Tensor y = w * x;
          for (int layer = 0; layer < 30; ++layer) y = tanh(y);
          return sum(y);
        },
        {w});
    w -= 0.01 * grads[0];
    loss.item<float>();
    if (i == 20) misses = recording::cache_counts().misses;
  }
  EXPECT_EQ(recording::cache_counts().misses, misses);
}

TEST(Tensor, AChainThatTwoThreadsExtendIsRunInPieces) {
  Tensor x = vec({0});
  for (int round = 0; round < 60; ++round) {
    std::thread([&] {
      for (int i = 0; i < 100; ++i) x = abs(x);
    }).join();
    for (int i = 0; i < 100; ++i) x = abs(x);
  }
  EXPECT_LT(recording::pending_work(x, 1 << 20), 2 * recording::kFlushLength);
}

TEST(Tensor, ASmallResultDoesNotKeepItsSiblings) {
  const auto two = recording::record_multi(ir::Op::sort, std::vector<Tensor>{vec({2, 1}), vec({3, 4})},
                                           ir::SortAttrs{0, false});
  const Tensor a = two[0], b = two[1];
  a.eval();
  b.eval();
  EXPECT_TRUE(a.record()->operands.empty());
  EXPECT_TRUE(b.record()->operands.empty());
  EXPECT_EQ(b.to_vector<float>(), (std::vector<float>{4, 3}));
}

TEST(Tensor, UnsignedNumbersKeepTheirValue) {
  EXPECT_EQ(Tensor(~std::uint64_t{0}).item<std::uint64_t>(), ~std::uint64_t{0});
  EXPECT_EQ((vec({1}) * 4000000000u).item<float>(), 4e9f);
}

TEST(Tensor, AnIntegerVariableRefusesAFraction) {
  Variable n(Tensor(1));
  error_of(ErrorKind::kDType, [&] { n.assign(2.7); });
  n.assign(3);
  EXPECT_EQ(n.item<int>(), 3);
}

TEST(Tensor, AChainOfAMillionOpsIsFreedWithoutOverflow) {
  recording::RecordRef held;
  auto f = compile([&](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < 1'000'000; ++i) y = abs(y);
    held = y.record();
    return x + 1;  // the chain is not part of the program
  });
  EXPECT_EQ(f(vec({1})).item<float>(), 2);
  held = {};
}

TEST(Tensor, EightThreadsRecordAndEvaluate) {
  const Tensor shared = vec({1, 2, 3});
  const Tensor pending = exp(shared * 0);
  std::vector<std::thread> threads;
  std::vector<float> results(8);
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      Tensor x = shared;
      for (int i = 0; i < 50; ++i) {
        x = x + pending;
        if (i % 10 == t % 10) x.eval();
      }
      results[static_cast<std::size_t>(t)] = sum(x).item<float>();
    });
  for (std::thread& t : threads) t.join();
  for (float r : results) EXPECT_EQ(r, 6 + 150);
}

TEST(Tensor, OpsNameThemselvesAndTheShapesInErrors) {
  const std::string shapes = error_of(ErrorKind::kShape, [] { vec({1, 2}) + vec({1, 2, 3}); });
  EXPECT_NE(shapes.find("add"), std::string::npos) << shapes;
  EXPECT_NE(shapes.find("f32[2] and f32[3]"), std::string::npos) << shapes;
  const std::string undefined = error_of(ErrorKind::kInvalidArgument, [] { Tensor() + 1; });
  EXPECT_NE(undefined.find("undefined"), std::string::npos) << undefined;
}

TEST(Tensor, ScalarsAreWeak) {
  const Tensor i = Tensor(Literal::of<std::int32_t>({2}, {1, 2}));
  EXPECT_EQ((i + 1).dtype(), DType::i32);
  EXPECT_EQ((i * 2.5).dtype(), DType::f32);
  EXPECT_EQ((i.to(DType::bf16) * 2.5).dtype(), DType::bf16);
  EXPECT_EQ((i.to(DType::f64) + 1).dtype(), DType::f64);
  EXPECT_EQ((i.to(DType::u8) + 1).dtype(), DType::u8);
  EXPECT_EQ((Tensor(1) + 2.5).item<double>(), 3.5);
  // In f64 the number is exact, not rounded to f32 first.
  EXPECT_EQ((i.to(DType::f64) * 0.1).to_vector<double>()[0], 0.1);
}

static_assert(!std::is_assignable_v<Tensor, Tensor>, "x[0] = y would change nothing");
static_assert(std::is_assignable_v<Tensor&, Tensor>);

TEST(Tensor, ItemConverts) {
  EXPECT_EQ(double(Tensor(0.5f).item<bf16>()), 0.5);
  EXPECT_EQ(Tensor(Literal::scalar<std::uint64_t>(18446744073709551615u)).item<std::uint64_t>(),
            18446744073709551615u);
  EXPECT_EQ(Tensor(true).item<int>(), 1);
  EXPECT_EQ(Tensor(7).item<double>(), 7);
  EXPECT_EQ(Tensor(Literal::scalar<std::int64_t>(9007199254740993)).item<std::int64_t>(), 9007199254740993);
  error_of(ErrorKind::kShape, [] { vec({1, 2}).item<float>(); });
}

}  // namespace
}  // namespace systole
