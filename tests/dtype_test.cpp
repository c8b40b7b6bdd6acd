// Dtypes, small floats, shapes and literals. Bit patterns are those of the formats' definitions (checked with
// ml_dtypes).

#include "systole/base/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "systole/base/error.h"
#include "systole/base/literal.h"

namespace systole {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(SmallFloat, RoundsToNearestEvenAndKeepsDenormals) {
  EXPECT_EQ(f16(1.0).bits(), 0x3c00);
  EXPECT_EQ(f16(65504.0).bits(), 0x7bff);
  EXPECT_EQ(f16(65519.0).bits(), 0x7bff);
  EXPECT_EQ(f16(65520.0).bits(), 0x7c00);  // halfway to 65536 goes to even, which is infinity
  EXPECT_EQ(f16(5.960464477539063e-08).bits(), 0x0001);
  EXPECT_EQ(f16(2.980232238769531e-08).bits(), 0x0000);  // half the smallest denormal ties to zero
  EXPECT_EQ(f16(2.9802322387695316e-08).bits(), 0x0001);
  EXPECT_EQ(f16(-0.0).bits(), 0x8000);
  EXPECT_EQ(bf16(1.00390625).bits(), 0x3f80);  // tie to even
  EXPECT_EQ(bf16(1.01171875).bits(), 0x3f82);
  EXPECT_EQ(bf16(3.4e38).bits(), 0x7f80);
  EXPECT_EQ(f8e5m2(57344.0).bits(), 0x7b);
  EXPECT_EQ(f8e5m2(61440.0).bits(), 0x7c);
  EXPECT_EQ(f8e5m2(kInf).bits(), 0x7c);
}

TEST(SmallFloat, F8e4m3fnHasNoInfinity) {
  EXPECT_EQ(f8e4m3fn(448.0).bits(), 0x7e);
  EXPECT_EQ(f8e4m3fn(464.0).bits(), 0x7e);
  EXPECT_EQ(f8e4m3fn(465.0).bits(), 0x7f);
  EXPECT_EQ(f8e4m3fn(kInf).bits(), 0x7f);
  EXPECT_EQ(f8e4m3fn(-kInf).bits(), 0xff);
  EXPECT_TRUE(std::isnan(static_cast<double>(f8e4m3fn::from_bits(0x7f))));
  EXPECT_EQ(static_cast<double>(f8e4m3fn::from_bits(0x01)), 0.001953125);
}

template <class F, class Bits>
void every_value_survives() {
  for (unsigned b = 0; b <= std::numeric_limits<Bits>::max(); ++b) {
    const F f = F::from_bits(static_cast<Bits>(b));
    const auto wide = static_cast<double>(f);
    if (std::isnan(wide))
      EXPECT_TRUE(std::isnan(static_cast<double>(F(wide))));
    else
      ASSERT_EQ(F(wide).bits(), b);
  }
}

TEST(SmallFloat, EveryValueSurvivesDouble) {
  every_value_survives<f16, std::uint16_t>();
  every_value_survives<bf16, std::uint16_t>();
  every_value_survives<f8e4m3fn, std::uint8_t>();
  every_value_survives<f8e5m2, std::uint8_t>();
}

// jax.numpy.promote_types, with f64 never implied.
TEST(Promotion, FollowsJaxLattice) {
  using enum DType;
  EXPECT_EQ(promote(i32, f32), f32);
  EXPECT_EQ(promote(i64, f16), f16);
  EXPECT_EQ(promote(f16, bf16), f32);
  EXPECT_EQ(promote(bf16, f32), f32);
  EXPECT_EQ(promote(f32, f64), f64);
  EXPECT_EQ(promote(u8, i8), i16);
  EXPECT_EQ(promote(i16, u8), i16);
  EXPECT_EQ(promote(u32, i32), i64);
  EXPECT_EQ(promote(i64, u32), i64);
  EXPECT_EQ(promote(u64, i8), f32);
  EXPECT_EQ(promote(boolean, i8), i8);
  EXPECT_EQ(promote(f8e4m3fn, i32), f8e4m3fn);
  EXPECT_EQ(promote(f8e4m3fn, f8e5m2), std::nullopt);
  EXPECT_EQ(promote(f8e5m2, f32), std::nullopt);
}

TEST(Dim, AffineArithmetic) {
  const Dim n = Dim::symbol("N");
  EXPECT_EQ((n * Dim(2) + Dim(3)).to_string(), "2*N+3");
  EXPECT_EQ((n - n), Dim(0));
  EXPECT_EQ((Dim(4) * n - Dim(2)).to_string(), "4*N-2");
  EXPECT_EQ(floor_div(Dim(4) * n + Dim(3), 2).to_string(), "2*N+1");
  EXPECT_THROW(n + Dim::symbol("M"), Error);
  EXPECT_THROW(floor_div(n, 2), Error);
  EXPECT_THROW(Dim(std::int64_t{1} << 62) * Dim(4), Error);
}

TEST(Dim, ProductsOfSymbols) {
  const Dim b = Dim::symbol("B"), t = Dim::symbol("T");
  EXPECT_EQ((t * b).to_string(), "B*T");
  EXPECT_EQ(t * b, b * t);
  EXPECT_EQ((Dim(2) * t * Dim(3) * b - Dim(1)).to_string(), "6*B*T-1");
  EXPECT_EQ((t * b + b * t * Dim(2)).to_string(), "3*B*T");
  EXPECT_EQ(t * t * b, Dim::affine(1, "T*B*T", 0));
  EXPECT_EQ((b * t).symbols(), (std::vector<std::string_view>{"B", "T"}));
  EXPECT_EQ((Shape{b, 4, t, t}).elements().to_string(), "4*B*T*T");
  EXPECT_EQ(exact_quotient(Dim(12) * b * t, Dim(4) * t), Dim(3) * b);
  EXPECT_EQ(exact_quotient(Dim(12) * b * t, t * b), Dim(12));
  EXPECT_EQ(exact_quotient(b * t * t, t), b * t);
  EXPECT_EQ(exact_quotient(b * t, b * b), std::nullopt);
  EXPECT_EQ(exact_quotient(Dim(3) * b, Dim(2)), std::nullopt);
  SymbolValues values;
  values.set("B", 3);
  EXPECT_THROW(values.bind(b * t), Error);
  values.set("T", 5);
  EXPECT_EQ(values.bind(b * t * t * Dim(2) + Dim(1)), Dim(151));
  values.set("T", std::int64_t{1} << 62);
  EXPECT_THROW(values.bind(b * t), Error);
  EXPECT_THROW(b * t + b, Error);
  EXPECT_THROW((b + Dim(1)) * t, Error);
  EXPECT_THROW(Dim::symbol("B*T"), Error);
  EXPECT_THROW(Dim::affine(1, "B**T", 0), Error);
  Dim many = b;
  for (int i = 1; i < 16; ++i) many = many * t;
  EXPECT_THROW(many * t, Error);
}

TEST(Shape, RefusesSizesBeyond64Bits) {
  EXPECT_THROW(check_type({DType::f32, {Dim(std::int64_t{1} << 62), 2}}, "x"), Error);
  EXPECT_THROW(check_type({DType::f32, {-1}}, "x"), Error);
  EXPECT_NO_THROW(check_type({DType::f32, {0, std::int64_t{1} << 60}}, "x"));
  EXPECT_THROW(check_type({DType::f32, {0, std::int64_t{1} << 60, 1 << 10}}, "x"), Error);
}

TEST(Literal, CopiesShareUntilWritten) {
  Literal a = Literal::of<float>({3}, {1, 2, 3});
  Literal b = a;
  EXPECT_EQ(a.bytes(), b.bytes());
  b.mutable_values<float>()[0] = 9;
  EXPECT_EQ(a.values<float>()[0], 1);
  EXPECT_EQ(b.values<float>()[0], 9);
}

TEST(Literal, ViewKeepsItsOwnerAndIsNeverWritten) {
  auto data = std::make_shared<std::vector<float>>(std::vector<float>{1, 2});
  Literal v = Literal::view({DType::f32, {2}}, data->data(), data);
  std::weak_ptr<std::vector<float>> watch = data;
  data.reset();
  EXPECT_FALSE(watch.expired());
  v.mutable_values<float>()[0] = 5;  // copies, and lets the owner go
  EXPECT_TRUE(watch.expired());
  EXPECT_EQ(v.values<float>()[1], 2);
}

TEST(Literal, BoolBytesAreNormalised) {
  const std::byte raw[] = {std::byte{0}, std::byte{2}, std::byte{255}};
  const Literal b = Literal::copy_of({DType::boolean, {3}}, raw);
  EXPECT_EQ(static_cast<int>(b.bytes()[1]), 1);
  EXPECT_EQ(static_cast<int>(b.bytes()[2]), 1);
}

TEST(Literal, ErrorsAreTyped) {
  try {
    Literal::of<float>({2, 2}, {1, 2, 3});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kShape);
    EXPECT_EQ(e.expected(), "16");
    EXPECT_EQ(e.got(), "12");
  }
  EXPECT_THROW(Literal::of<float>({2}, {1, 2}).values<double>(), Error);
  EXPECT_THROW(Literal::of<float>({2}, {1, 2}).item<float>(), Error);
  EXPECT_TRUE(Literal::scalar(true).item<bool>());
  EXPECT_THROW(Literal::full({DType::i8, {2}}, 128), Error);
  EXPECT_THROW(Literal::full({DType::u8, {2}}, -1), Error);
  EXPECT_THROW(Literal::full({DType::i64, {2}}, kNan), Error);
  EXPECT_EQ(Literal::full({DType::i8, {1}}, -128).item<std::int8_t>(), -128);
}

TEST(Shape, GoesToAStreamAsItPrints) {
  const Dim n = Dim::symbol("N");
  std::ostringstream out;
  out << Shape{2, n, 3} << ' ' << Shape{} << ' ' << 2 * n + 1 << ' ' << DType::bf16 << ' '
      << Type{DType::boolean, {4}};
  EXPECT_EQ(out.str(), "[2,N,3] [] 2*N+1 bf16 bool[4]");
}

TEST(Literal, PrintsLikeNumpy) {
  EXPECT_EQ(Literal::of<float>({2, 2}, {1, -2.5f, 3, 0.1f}).to_string(), "[[  1., -2.5],\n [  3.,  0.1]]");
  EXPECT_EQ(Literal::of<std::int32_t>({0}, {}).to_string(), "[]");
  EXPECT_EQ(Literal::scalar(std::int64_t{7}).to_string(), "7");
  EXPECT_EQ(Literal::of<double>({2}, {kNan, -kInf}).to_string(), "[ nan, -inf]");
  EXPECT_EQ(Literal::of<std::int32_t>({2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7}).to_string(),
            "[[[0, 1],\n  [2, 3]],\n\n [[4, 5],\n  [6, 7]]]");
  EXPECT_EQ(Literal::of<std::int32_t>({2, 1, 2, 1}, {0, 1, 2, 3}).to_string(),
            "[[[[0],\n   [1]]],\n\n\n [[[2],\n   [3]]]]");
  const std::vector<std::int8_t> zeros(8 * 2);
  EXPECT_EQ(Literal::of<std::int8_t>({8, 1, 2}, zeros).to_string(10),
            "[[[0, 0]],\n\n [[0, 0]],\n\n [[0, 0]],\n\n …,\n\n [[0, 0]],\n\n [[0, 0]],\n\n [[0, 0]]]");
}

}  // namespace
}  // namespace systole
