// Bits by a separate implementation of Philox-4x32-10 in Python; distributions by their moments and by the
// largest distance from the true distribution function (Kolmogorov and Smirnov), with bounds that a right
// generator misses about once in a million.

#include "systole/tensor/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <set>
#include <span>
#include <thread>
#include <vector>

#include "error_check.h"
#include "systole/tensor/compiled.h"
#include "systole/tensor/creation.h"
#include "systole/tensor/math.h"

namespace systole {
namespace {

using Words = std::vector<std::uint32_t>;

const Tensor kKey = random::key(0x0123456789abcdef);
constexpr std::int64_t kCount = 20000;

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

// √n times the largest distance between the sample's distribution and `cdf`.
double distance(const Tensor& x, const std::function<double(double)>& cdf) {
  std::vector<double> values = x.literal().to_doubles();
  std::sort(values.begin(), values.end());
  const auto n = static_cast<double>(values.size());
  double largest = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double expected = cdf(values[i]), rank = static_cast<double>(i);
    largest = std::max({largest, std::abs(expected - rank / n), std::abs(expected - (rank + 1) / n)});
  }
  return largest * std::sqrt(n);
}

double average(const Tensor& x) { return mean(x.to(DType::f64)).item<double>(); }
double variance(const Tensor& x) { return var(x.to(DType::f64)).item<double>(); }

TEST(RandomBits, AreThoseOfPhilox) {
  EXPECT_EQ(random::bits(kKey, {8}).to_vector<std::uint32_t>(),
            (Words{0xb850222e, 0xc58cb04b, 0x14a7a020, 0x7a84fff9, 0xadca1466, 0x523e0d85, 0x65401425,
                   0xb299da3f}));
  EXPECT_EQ(random::bits(random::key(0), {4}).to_vector<std::uint32_t>(),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(random::bits(kKey, {2}, DType::u64).to_vector<std::uint64_t>(),
            (std::vector<std::uint64_t>{0xc58cb04bb850222e, 0x7a84fff914a7a020}));
}

TEST(RandomKeys, SplitIntoOthers) {
  const std::vector<Tensor> keys = random::split(kKey, 3);
  ASSERT_EQ(keys.size(), 3u);
  EXPECT_EQ(keys[0].to_vector<std::uint32_t>(), (Words{0xd0e1fe69, 0xfee38b5f}));
  EXPECT_EQ(keys[2].to_vector<std::uint32_t>(), (Words{0xe7d8478b, 0xc50a03b2}));
  EXPECT_EQ(random::split_rows(kKey, 3).to_vector<std::uint32_t>(),
            (Words{0xd0e1fe69, 0xfee38b5f, 0x702f1bd3, 0x7201ad2f, 0xe7d8478b, 0xc50a03b2}));
  error_of(ErrorKind::kInvalidArgument, [] { random::split(kKey, 0); });
  const std::string message = error_of(ErrorKind::kShape, [] { random::split(zeros({2})); });
  EXPECT_NE(message.find("u32[2]"), std::string::npos) << message;
}

TEST(RandomKeys, TheStreamGivesANewKeyEachTime) {
  random::seed(7);
  EXPECT_EQ(random::next_key().to_vector<std::uint32_t>(), (Words{0xbd563aba, 0xa6b6376b}));
  EXPECT_EQ(random::default_key().value().to_vector<std::uint32_t>(), (Words{0xd6a62573, 0x71eade72}));
  EXPECT_NE(random::next_key().to_vector<std::uint32_t>(), (Words{0xbd563aba, 0xa6b6376b}));
}

TEST(RandomKeys, ACompiledProgramGoesOnWithTheSameStream) {
  random::seed(7);
  auto draw = compile([] { return random::next_key(); });
  const Words first = draw().to_vector<std::uint32_t>(), second = draw().to_vector<std::uint32_t>();
  const Words third = random::next_key().to_vector<std::uint32_t>();
  random::seed(7);
  for (const Words& words : {first, second, third})
    EXPECT_EQ(random::next_key().to_vector<std::uint32_t>(), words);
}

TEST(RandomKeys, ThreadsDrawDifferentOnes) {
  random::seed(1);
  std::vector<std::vector<Words>> drawn(4);
  std::vector<std::thread> threads;
  for (auto& mine : drawn)
    threads.emplace_back([&mine] {
      for (int i = 0; i < 50; ++i) mine.push_back(random::next_key().to_vector<std::uint32_t>());
    });
  for (std::thread& thread : threads) thread.join();
  std::set<Words> all;
  for (const auto& mine : drawn) all.insert(mine.begin(), mine.end());
  EXPECT_EQ(all.size(), 200u);
}

TEST(RandomNumbers, TheSameKeyGivesTheSameNumbersAndAnotherKeyOthers) {
  const auto numbers = [](std::uint64_t seed) {
    return random::normal(random::key(seed), {100}).to_vector<float>();
  };
  EXPECT_EQ(numbers(1), numbers(1));
  EXPECT_NE(numbers(1), numbers(2));
}

TEST(RandomNumbers, TakeTheSizesAsAVectorArrayOrSpan) {
  const std::vector<std::int64_t> sizes{2, 3};
  const std::array<int, 2> others{2, 3};
  const Shape shape{2, 3};
  const auto same = [](const Tensor& a, const Tensor& b) { EXPECT_TRUE(a.literal().same_bits(b.literal())); };
  same(random::bits(kKey, sizes), random::bits(kKey, shape));
  same(random::uniform(kKey, sizes, -1, 1), random::uniform(kKey, shape, -1, 1));
  same(random::normal(kKey, others), random::normal(kKey, shape));
  same(random::normal(kKey, std::span(sizes), 1, 2), random::normal(kKey, {2, 3}, 1, 2));
  same(random::truncated_normal(kKey, sizes), random::truncated_normal(kKey, shape));
  same(random::gumbel(kKey, sizes), random::gumbel(kKey, shape));
  same(random::randint(kKey, sizes, 0, 9), random::randint(kKey, shape, 0, 9));
  same(random::bernoulli(kKey, 0.5, sizes), random::bernoulli(kKey, 0.5, shape));
}

TEST(RandomUniform, HasTheStatedNumbersAndDistribution) {
  const std::vector<float> values = random::uniform(kKey, {4}).to_vector<float>();
  const std::vector<double> expected{0.71997273, 0.771677971, 0.0806827545, 0.478591859};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(values[i], expected[i], 1e-9);
  for (const DType dtype : {DType::f64, DType::f32}) {
    const Tensor x = random::uniform(kKey, {kCount}, -2, 3, dtype);
    EXPECT_EQ(x.dtype(), dtype);
    EXPECT_LT(distance(x, [](double v) { return (v + 2) / 5; }), 2.7);
  }
  const Tensor small = random::uniform(kKey, {kCount}, 1, 2, DType::bf16);
  EXPECT_GE(min(small).item<float>(), 1);
  EXPECT_LT(max(small).item<float>(), 2);
  error_of(ErrorKind::kInvalidArgument, [] { random::uniform(kKey, {1}, 2, 1); });
  error_of(ErrorKind::kDType, [] { random::uniform(kKey, {1}, 0, 1, DType::i32); });
}

TEST(RandomNormal, HasTheStatedNumbersAndDistribution) {
  const std::vector<double> values = random::normal(kKey, {2, 2}, 0, 1, DType::f64).to_vector<double>();
  const std::vector<double> expected{-0.744077564001885, -0.368583420982688, -1.54930475035366,
                                     1.08008833586802};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(values[i], expected[i], 1e-13);
  for (const DType dtype : {DType::f64, DType::f32}) {
    const Tensor x = random::normal(kKey, {kCount + 1}, 1, 2, dtype);  // an odd count
    EXPECT_LT(distance(x, [](double v) { return normal_cdf((v - 1) / 2); }), 2.7);
    EXPECT_NEAR(average(x), 1, 5 * 2 / std::sqrt(kCount));
    EXPECT_NEAR(variance(x), 4, 5 * 4 * std::sqrt(2.0 / kCount));
  }
  const Tensor small = random::normal(kKey, {kCount}, 0, 1, DType::bf16);
  EXPECT_EQ(small.dtype(), DType::bf16);
  EXPECT_NEAR(variance(small), 1, 5 * std::sqrt(2.0 / kCount));
  EXPECT_EQ(random::normal(kKey, {0, 3}).size(), 0);
}

TEST(RandomTruncatedNormal, StaysBetweenItsBounds) {
  const std::vector<double> values =
      random::truncated_normal(kKey, {4}, -2, 2, 0, 1, DType::f64).to_vector<double>();
  const std::vector<double> expected{0.70410584029264, -0.0512428824074539, -0.441592385304852,
                                     0.492074091291779};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(values[i], expected[i], 1e-13);
  for (const DType dtype : {DType::f64, DType::f32}) {
    const Tensor x = random::truncated_normal(kKey, {kCount}, -1, 2.5, 3, 0.5, dtype);
    EXPECT_GE(min(x).item<double>(), 2.5);
    EXPECT_LE(max(x).item<double>(), 4.25);
    const double below = normal_cdf(-1), inside = normal_cdf(2.5) - below;
    EXPECT_LT(distance(x, [&](double v) { return (normal_cdf((v - 3) / 0.5) - below) / inside; }), 2.7);
  }
}

TEST(RandomGumbel, HasItsDistribution) {
  const Tensor x = random::gumbel(kKey, {kCount});
  EXPECT_LT(distance(x, [](double v) { return std::exp(-std::exp(-v)); }), 2.7);
}

TEST(RandomIntegers, CoverTheirRangeEvenly) {
  const Tensor x = random::randint(kKey, {kCount}, -3, 4);
  EXPECT_EQ(x.dtype(), DType::i32);
  std::vector<int> counts(7);
  for (const std::int32_t value : x.to_vector<std::int32_t>()) {
    ASSERT_GE(value, -3);
    ASSERT_LT(value, 4);
    ++counts[static_cast<std::size_t>(value + 3)];
  }
  for (const int count : counts) EXPECT_NEAR(count, kCount / 7.0, 5 * std::sqrt(kCount / 7.0));
  EXPECT_EQ(random::randint(kKey, {3}, 200, 256, DType::u8).dtype(), DType::u8);
  error_of(ErrorKind::kInvalidArgument, [] { random::randint(kKey, {3}, 0, 257, DType::u8); });
  error_of(ErrorKind::kInvalidArgument, [] { random::randint(kKey, {3}, 4, 4); });
}

TEST(RandomBernoulli, HasTheProbabilityOfEachPlace) {
  const Tensor x = random::bernoulli(kKey, tensor({0.0, 0.3, 1.0}), {kCount, 3});
  EXPECT_EQ(x.dtype(), DType::boolean);
  const std::vector<float> rates = mean(x.to(DType::f32), {0}).to_vector<float>();
  EXPECT_EQ(rates[0], 0);
  EXPECT_NEAR(rates[1], 0.3, 5 * std::sqrt(0.21 / kCount));
  EXPECT_EQ(rates[2], 1);
}

TEST(RandomPermutation, IsAPermutation) {
  std::vector<std::int32_t> order = random::permutation(kKey, 1000).to_vector<std::int32_t>();
  std::vector<std::int32_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(sorted, arange(1000).to_vector<std::int32_t>());
  EXPECT_NE(sorted, order);
  const Tensor x = arange(12).reshape({3, 4});
  const std::vector<std::int32_t> columns = random::permutation(kKey, x, 1).to_vector<std::int32_t>();
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(columns[static_cast<std::size_t>(i) + 4], columns[static_cast<std::size_t>(i)] + 4);
    EXPECT_EQ(columns[static_cast<std::size_t>(i) + 8], columns[static_cast<std::size_t>(i)] + 8);
  }
}

TEST(RandomCategorical, PicksByTheSoftmaxOfItsLogits) {
  const Tensor logits = log(tensor({0.1, 0.2, 0.7})) + 5;
  const Tensor picks = random::categorical(kKey, logits + zeros({kCount, 1}));
  EXPECT_EQ(picks.shape(), Shape{kCount});
  std::vector<double> counts(3);
  for (const std::int32_t pick : picks.to_vector<std::int32_t>()) ++counts[static_cast<std::size_t>(pick)];
  const std::vector<double> expected{0.1, 0.2, 0.7};
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_NEAR(counts[i], kCount * expected[i], 5 * std::sqrt(kCount * 0.25));
}

}  // namespace
}  // namespace systole
