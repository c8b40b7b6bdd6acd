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

// One f32 element of a device that flushes: it may give `flushed` too.
bool passes_flushing(double got, double want, double flushed, double tolerance) {
  const Type type{DType::f32, {}};
  const Rule rule{tolerance, false, true, Literal::full(type, flushed)};
  return compare(Literal::full(type, got), type, {Literal::scalar(want), {}, false}, rule).empty();
}

bool passes_flushing_exactly(const Literal& got, const Literal& want, const Literal& flushed) {
  return compare(got, want.type(), {want, {}, true}, {0, false, true, flushed}).empty();
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

// The square root of the denormal 1e-40 is 1e-20, and 0 where the argument is taken for zero.
TEST_F(Conformance, OnlyAFlushingDeviceMayTakeDenormalsForZero) {
  EXPECT_TRUE(passes_close(DType::f32, 1e-20, 1e-20, 2));
  EXPECT_FALSE(passes_close(DType::f32, 0, 1e-20, 2));
  EXPECT_TRUE(passes_flushing(1e-20, 1e-20, 0, 2));
  EXPECT_TRUE(passes_flushing(0, 1e-20, 0, 2));
  // A denormal result, whose arguments are none.
  EXPECT_FALSE(passes_close(DType::f32, 0, 1e-40, 2));
  EXPECT_TRUE(passes_flushing(0, 1e-40, 1e-40, 2));
  const Literal denormal = Literal::scalar(1e-40f), zero = Literal::scalar(0.f);
  EXPECT_FALSE(passes_exact(zero, denormal));
  EXPECT_TRUE(passes_flushing_exactly(zero, denormal, denormal));
  EXPECT_TRUE(passes_flushing_exactly(Literal::scalar(false), Literal::scalar(true), Literal::scalar(false)));
}

TEST_F(Conformance, AFlushingDeviceMayGiveNothingElseAtDenormals) {
  const double eps = epsilon(DType::f32);
  for (const double wrong : {0.5e-20, 2e-20, -1e-20, 1e-30, kInf, kNaN})
    EXPECT_FALSE(passes_flushing(wrong, 1e-20, 0, 2)) << wrong;
  for (const double wrong : {2e-40, -1e-40, 1e-30, 1.0})
    EXPECT_FALSE(passes_flushing(wrong, 1e-40, 1e-40, 2)) << wrong;
  // No zero for a result that is no denormal, no wider tolerance around what flushing gives.
  EXPECT_FALSE(passes_flushing(0, 1.2e-38, 1.2e-38, 2));
  EXPECT_TRUE(passes_flushing(3 + 6 * eps, 1, 3, 2));
  EXPECT_FALSE(passes_flushing(3 + 8 * eps, 1, 3, 2));
  const Literal denormal = Literal::scalar(1e-40f);
  for (const float wrong : {-0.f, 2e-40f, 1.f})
    EXPECT_FALSE(passes_flushing_exactly(Literal::scalar(wrong), denormal, denormal)) << wrong;
  const Literal half = Literal::full({DType::f16, {}}, 1e-6);  // a denormal there, not in f32
  EXPECT_FALSE(passes_flushing_exactly(Literal::full({DType::f16, {}}, 0), half, half));
}

TEST_F(Conformance, FlushedArgumentsKeepTheirSignAndAllThatIsNormal) {
  const float least = std::numeric_limits<float>::min();
  const Literal value = Literal::of<float>({6}, {1e-45f, -1e-40f, least, -least, 0, 3}),
                wanted = Literal::of<float>({6}, {0, -0.f, least, -least, 0, 3});
  EXPECT_TRUE(without_denormals(value).same_bits(wanted));
  EXPECT_TRUE(without_denormals(Literal::scalar(-1e-310)).same_bits(Literal::scalar(-0.0)));
  EXPECT_EQ(without_denormals(Literal::full({DType::bf16, {}}, 1e-39)).to_doubles(), std::vector<double>{0});
  const Literal half = Literal::full({DType::f16, {}}, 1e-6), one = Literal::scalar(std::int32_t{1});
  EXPECT_TRUE(without_denormals(half).same_bits(half));
  EXPECT_TRUE(without_denormals(one).same_bits(one));
}

}  // namespace systole::conformance
