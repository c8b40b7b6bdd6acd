// The comparison itself: what it must let pass and what it must not.

#include <cmath>
#include <limits>
#include <optional>

#include "compare.h"
#include "conformance.h"
#include "systole/base/error.h"

namespace systole::conformance {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

bool passes_exact(const Literal& got, const Literal& want, bool zeros_are_equal = false,
                  bool nans_are_equal = true) {
  return compare(got, want.type(), {want, {}, true}, {0, zeros_are_equal, nans_are_equal}).empty();
}

// One element within `tolerance`·eps·scale.
bool passes_close(DType dtype, double got, double want, double tolerance, std::optional<double> scale = {}) {
  std::optional<Literal> scales;
  if (scale) scales = Literal::scalar(*scale);
  const Type type{dtype, {}};
  return compare(Literal::full(type, got), type, {Literal::scalar(want), scales, false}, {tolerance}).empty();
}

}  // namespace

TEST_F(Conformance, ExactComparisonSeesEveryBit) {
  const Literal one = Literal::of<float>({2}, {1, 2});
  EXPECT_TRUE(passes_exact(one, one));
  EXPECT_FALSE(passes_exact(Literal::of<float>({2}, {1, std::nextafter(2.f, 3.f)}), one));
  EXPECT_FALSE(passes_exact(Literal::of<float>({2, 1}, {1, 2}), one));
  EXPECT_FALSE(passes_exact(Literal::of<double>({2}, {1, 2}), one));
  const Literal large = Literal::scalar(std::int64_t{1} << 62),
                next = Literal::scalar((std::int64_t{1} << 62) + 1);
  EXPECT_FALSE(passes_exact(large, next));
}

TEST_F(Conformance, ExactComparisonKnowsZerosAndNaNs) {
  const Literal zero = Literal::scalar(0.f), minus_zero = Literal::scalar(-0.f);
  EXPECT_FALSE(passes_exact(zero, minus_zero));
  EXPECT_TRUE(passes_exact(zero, minus_zero, true));
  const Literal nan = Literal::scalar(std::nanf("1")), other = Literal::scalar(std::nanf("2"));
  EXPECT_TRUE(passes_exact(nan, other));
  EXPECT_FALSE(passes_exact(nan, other, false, false));
  EXPECT_FALSE(passes_exact(nan, zero));
}

TEST_F(Conformance, CloseComparisonAllowsTheToleranceAndNoMore) {
  const double eps = epsilon(DType::f32);
  EXPECT_TRUE(passes_close(DType::f32, 1 + 2 * eps, 1, 2));
  EXPECT_FALSE(passes_close(DType::f32, 1 + 3 * eps, 1, 2));
  EXPECT_TRUE(passes_close(DType::f32, 1 + 8 * eps, 1, 2, 4.0));
  EXPECT_FALSE(passes_close(DType::f32, 1 + 9 * eps, 1, 2, 4.0));
  // Below the normal range there is nothing finer than the smallest denormal.
  const double least = smallest_denormal(DType::f32);
  EXPECT_TRUE(passes_close(DType::f32, 0, 0.9 * least, 1));
  EXPECT_FALSE(passes_close(DType::f32, 3 * least, least, 1));
}

TEST_F(Conformance, TheTypeIsThatOfTheOutputWhateverTheResultSays) {
  const Literal want = Literal::of<double>({2}, {1, 2});
  const Expected expected{want, {}, false};
  const Type type{DType::f32, {2}};
  EXPECT_EQ(compare(Literal::of<float>({2}, {1, 2}), type, expected, {1}), "");
  EXPECT_NE(compare(Literal::full({DType::bf16, {2}}, 1), type, expected, {1}), "");  // no wider eps
  EXPECT_NE(compare(want, type, expected, {1}), "");
  EXPECT_NE(compare(Literal::of<float>({2, 1}, {1, 2}), type, expected, {1}), "");
  EXPECT_NE(compare(Literal::of<float>({1}, {1}), {DType::f32, {1}}, expected, {1}), "");
}

TEST_F(Conformance, OnlySmallFloatsAreStoredAsTheirBits) {
  const Literal words = Literal::of<std::uint16_t>({1}, {0x3f80}),
                bytes = Literal::of<std::uint8_t>({1}, {0});
  EXPECT_EQ(in_dtype(words, DType::u16).dtype(), DType::u16);
  EXPECT_EQ(in_dtype(words, DType::bf16).to_doubles(), std::vector<double>{1});
  EXPECT_EQ(in_dtype(bytes, DType::f8e4m3fn).dtype(), DType::f8e4m3fn);
  EXPECT_EQ(in_dtype(bytes, DType::f8e5m2).dtype(), DType::f8e5m2);
  for (const DType dtype : {DType::f16, DType::i16}) EXPECT_THROW(in_dtype(words, dtype), Error);
  for (const DType dtype : {DType::i8, DType::boolean}) EXPECT_THROW(in_dtype(bytes, dtype), Error);
  EXPECT_THROW(in_dtype(Literal::of<float>({1}, {1}), DType::i32), Error);
  EXPECT_THROW(in_dtype(Literal::of<double>({1}, {1}), DType::i64), Error);
}

TEST_F(Conformance, CloseComparisonMatchesNaNAndInfinity) {
  EXPECT_TRUE(passes_close(DType::f32, kNaN, kNaN, 4));
  EXPECT_FALSE(passes_close(DType::f32, 1, kNaN, 4));
  EXPECT_FALSE(passes_close(DType::f32, kNaN, 1, 4));
  EXPECT_TRUE(passes_close(DType::f32, -kInf, -kInf, 4));
  EXPECT_FALSE(passes_close(DType::f32, kInf, -kInf, 4));
  EXPECT_FALSE(passes_close(DType::f32, 3e38, kInf, 4));
  EXPECT_FALSE(passes_close(DType::f32, kInf, 1e30, 4));
}

TEST_F(Conformance, CloseComparisonAcceptsOverflowOfTheDType) {
  EXPECT_TRUE(passes_close(DType::f16, kInf, 70000, 1));
  EXPECT_FALSE(passes_close(DType::f16, -kInf, 70000, 1));
  EXPECT_FALSE(passes_close(DType::f16, 65504, 70000, 1));
  EXPECT_TRUE(passes_close(DType::f8e4m3fn, kNaN, 1000, 1));
  EXPECT_TRUE(passes_close(DType::f8e4m3fn, kNaN, kInf, 1));
  EXPECT_FALSE(passes_close(DType::f8e4m3fn, kNaN, 100, 1));
}

}  // namespace systole::conformance
