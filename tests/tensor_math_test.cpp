// Arithmetic, promotion and reductions of Tensors. Numbers by numpy 2.2 or by hand.

#include <gtest/gtest.h>

#include <any>
#include <cmath>
#include <limits>
#include <span>
#include <valarray>
#include <vector>

#include "error_check.h"
#include "systole/tensor/creation.h"
#include "systole/tensor/math.h"
#include "systole/tensor/shaping.h"
#include "systole/tensor/transforms.h"
#include "systole/tensor/variable.h"
#include "tensor_check.h"

namespace systole {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
const DType f32 = DType::f32, f64 = DType::f64, i32 = DType::i32, boolean = DType::boolean;

TEST(Promotion, NumbersTakeTheDTypeBesideThem) {
  EXPECT_EQ((tensor({1, 2}) * 2.5).type().to_string(), "f32[2]");
  EXPECT_EQ((tensor({1, 2}, DType::bf16) * 2.0).type().to_string(), "bf16[2]");
  EXPECT_EQ((tensor({1, 2}, f64) + 1).type().to_string(), "f64[2]");
  EXPECT_EQ((tensor({1, 2}, DType::u8) + 1).type().to_string(), "u8[2]");
  EXPECT_EQ((tensor({true}) + 1).type().to_string(), "i32[1]");
  EXPECT_EQ((2 * tensor({1.0}, DType::f16)).type().to_string(), "f16[1]");
  expect_tensor(tensor({1, 2}) * 2.5, {f32, {2}}, {2.5, 5});
  // 0.1 beside f64 is not rounded to f32 first.
  expect_tensor(tensor({1.0}, f64) * 0.1, {f64, {1}}, {0.1});
  EXPECT_EQ((tensor({1}) + tensor({1.0}, DType::f16)).dtype(), DType::f16);
  EXPECT_EQ((tensor({1.0}, DType::bf16) + tensor({1.0}, DType::f16)).dtype(), f32);
  EXPECT_EQ((tensor({1.0}) + tensor({1.0}, f64)).dtype(), f64);
}

TEST(Promotion, NumbersThatTheDTypeDoesNotHoldAreRefused) {
  const Tensor bytes = tensor({1, 2}, DType::u8);
  const std::string message = error_of(ErrorKind::kInvalidArgument, [&] { bytes + 300; });
  EXPECT_NE(message.find("u8"), std::string::npos) << message;
  EXPECT_NE(message.find("300"), std::string::npos) << message;
  expect_tensor(bytes + 253, {DType::u8, {2}}, {254, 255});
  error_of(ErrorKind::kInvalidArgument, [&] { bytes + 256; });
  error_of(ErrorKind::kInvalidArgument, [&] { bytes * -1; });
  error_of(ErrorKind::kInvalidArgument, [] { tensor({1}, DType::u32) + -1; });
  error_of(ErrorKind::kInvalidArgument, [] { tensor({1}, DType::u32) & (std::int64_t{1} << 32); });
  error_of(ErrorKind::kInvalidArgument, [] { tensor({1}, DType::i8) + 128; });
  error_of(ErrorKind::kInvalidArgument, [] { greater(tensor({1}, DType::i8), -129); });
  error_of(ErrorKind::kInvalidArgument, [] { tensor({1}) + 5000000000; });
  error_of(ErrorKind::kInvalidArgument, [&] { bytes.at(0).set(300); });
  expect_tensor(tensor({1}, DType::u32) + 4294967294, {DType::u32, {1}}, {4294967295.0});
  expect_tensor(tensor({1}, DType::i8) + -128, {DType::i8, {1}}, {-127});
  expect_tensor(tensor({1}, DType::i64) + 5000000000, {DType::i64, {1}}, {5000000001.0});
  expect_tensor(tensor({1}, DType::u64) & ~std::uint64_t{0}, {DType::u64, {1}}, {1});
  expect_tensor(bytes * 300.0, {f32, {2}}, {300, 600});
}

TEST(Arithmetic, BroadcastsOrNamesTheOpAndTheShapes) {
  expect_tensor(tensor({{1}, {2}}) + tensor({10, 20, 30}), {i32, {2, 3}}, {11, 21, 31, 12, 22, 32});
  const std::string message = error_of(ErrorKind::kShape, [] { ones({2, 3}) + ones({4}); });
  EXPECT_NE(message.find("add"), std::string::npos) << message;
  EXPECT_NE(message.find("f32[2,3] and f32[4]"), std::string::npos) << message;
  EXPECT_NE(error_of(ErrorKind::kShape, [] { where(tensor({true, false}), ones({3}), 0); }).find("where"),
            std::string::npos);
  error_of(ErrorKind::kInvalidArgument, [] { Tensor() + 1; });
}

TEST(Arithmetic, OperatorsAndCompoundAssignment) {
  Tensor x = tensor({1.0, -2.0, 4.0});
  expect_tensor(-x, {f32, {3}}, {-1, 2, -4});
  expect_tensor(x - 1, {f32, {3}}, {0, -3, 3});
  expect_tensor(1 - x, {f32, {3}}, {0, 3, -3});
  expect_tensor(8 / x, {f32, {3}}, {8, -4, 2});
  const Tensor old = x;
  x += 1;
  x *= 2;
  x -= 3;
  x /= 2;
  expect_tensor(x, {f32, {3}}, {0.5, -2.5, 3.5});
  expect_tensor(old, {f32, {3}}, {1, -2, 4});
  Tensor n = tensor({5, 6});
  n %= 4;
  n <<= 2;
  n |= 1;
  n &= 13;
  n ^= 2;
  n >>= 1;
  expect_tensor(n, {i32, {2}}, {(((1 << 2 | 1) & 13) ^ 2) >> 1, (((2 << 2 | 1) & 13) ^ 2) >> 1});
}

TEST(Arithmetic, DivisionIsTrueAndTheOthersRoundAsTheySay) {
  const Tensor a = tensor({7, -7, 7, -7}), b = tensor({3, 3, -3, -3});
  expect_tensor(a / b, {f32, {4}}, {7.0 / 3, -7.0 / 3, -7.0 / 3, 7.0 / 3}, 1e-7);
  expect_tensor(floor_divide(a, b), {i32, {4}}, {2, -3, -3, 2});
  expect_tensor(a % b, {i32, {4}}, {1, 2, -2, -1});
  expect_tensor(div(a, b), {i32, {4}}, {2, -2, -2, 2});
  expect_tensor(rem(a, b), {i32, {4}}, {1, -1, 1, -1});
  const Tensor x = tensor({7.5, -7.5, 7.5, -7.5, 1.0}, f64), y = tensor({2.0, 2.0, -2.0, -2.0, 0.1}, f64);
  expect_tensor(floor_divide(x, y), {f64, {5}}, {3, -4, -4, 3, 9});
  expect_tensor(mod(x, y), {f64, {5}}, {1.5, 0.5, -0.5, -1.5, 0.09999999999999995}, 1e-15);
  expect_tensor(floor_divide(tensor({1.0}), 0.0), {f32, {1}}, {kInf});
  expect_tensor(tensor({7}, DType::u8) % 4, {DType::u8, {1}}, {3});
  expect_tensor(floor_divide(tensor({7}, DType::u8), 4), {DType::u8, {1}}, {1});
}

TEST(Arithmetic, Comparisons) {
  const Tensor a = tensor({1.0, 2.0, kNan}), b = tensor({2.0, 2.0, 2.0});
  expect_tensor(a == b, {boolean, {3}}, {0, 1, 0});
  expect_tensor(a != b, {boolean, {3}}, {1, 0, 1});
  expect_tensor(a < b, {boolean, {3}}, {1, 0, 0});
  expect_tensor(a <= b, {boolean, {3}}, {1, 1, 0});
  expect_tensor(a > 1, {boolean, {3}}, {0, 1, 0});
  expect_tensor(a >= b, {boolean, {3}}, {0, 1, 0});
  EXPECT_TRUE(allclose(tensor({1.0, kInf}), tensor({1.000001, kInf})));
  EXPECT_FALSE(allclose(tensor({1.0}), tensor({1.001})));
  EXPECT_FALSE(allclose(tensor({kNan}), tensor({kNan})));
  expect_tensor(isclose(tensor({1.0, 2.0}), tensor({1.1, 2.0}), 0, 0.2), {boolean, {2}}, {1, 1});
}

TEST(Arithmetic, LogicAndBits) {
  const Tensor p = tensor({true, true, false, false}), q = tensor({true, false, true, false});
  expect_tensor(p && q, {boolean, {4}}, {1, 0, 0, 0});
  expect_tensor(p || q, {boolean, {4}}, {1, 1, 1, 0});
  expect_tensor(!p, {boolean, {4}}, {0, 0, 1, 1});
  expect_tensor(!tensor({0.0, 0.5}), {boolean, {2}}, {1, 0});
  expect_tensor(tensor({0, 2}) && true, {boolean, {2}}, {0, 1});
  const Tensor a = tensor({12, -8}), b = tensor({10, 1});
  expect_tensor(a & b, {i32, {2}}, {8, 0});
  expect_tensor(a | b, {i32, {2}}, {14, -7});
  expect_tensor(a ^ b, {i32, {2}}, {6, -7});
  expect_tensor(~a, {i32, {2}}, {-13, 7});
  expect_tensor(a << 1, {i32, {2}}, {24, -16});
  expect_tensor(a >> 1, {i32, {2}}, {6, -4});
  expect_tensor(shift_right_logical(tensor({-1}, DType::i8), 1), {DType::i8, {1}}, {127});
}

TEST(Elementwise, ChoiceAndLimits) {
  expect_tensor(where(tensor({true, false}), tensor({1, 2}), 0.5), {f32, {2}}, {1, 0.5});
  expect_tensor(where(tensor({{true}, {false}}), tensor({1, 2}), 0), {i32, {2, 2}}, {1, 2, 0, 0});
  expect_tensor(where(true, tensor({1, 2}), 0), {i32, {2}}, {1, 2});
  error_of(ErrorKind::kDType, [] { where(tensor({1, 0}), 1, 2); });
  expect_tensor(clip(tensor({-1, 5, 9}), 0, 6), {i32, {3}}, {0, 5, 6});
  expect_tensor(clip(tensor({-1.0, 5.0}), tensor({0.0, 6.0}), 7), {f32, {2}}, {0, 6});
  expect_tensor(clip(0.5, tensor({0.0, 1.0}), 2), {f32, {2}}, {0.5, 1});
  expect_tensor(maximum(tensor({1.0, kNan}), 2), {f32, {2}}, {2, kNan});
  expect_tensor(minimum(tensor({1, 3}), 2), {i32, {2}}, {1, 2});
  expect_tensor(max(tensor({1, 3}), 2), {i32, {2}}, {2, 3});
}

TEST(Elementwise, PrimitivesOfOneOperand) {
  const Tensor x = tensor({0.25, 0.75}, f64);
  const auto check = [&](const Tensor& y, double a, double b) {
    expect_tensor(y, {f64, {2}}, {a, b}, 1e-14);
  };
  check(exp(x), 1.2840254166877414, 2.117000016612675);
  check(expm1(x), 0.2840254166877415, 1.1170000166126746);
  check(log(x), -1.3862943611198906, -0.2876820724517809);
  check(log1p(x), 0.22314355131420976, 0.5596157879354227);
  check(sqrt(x), 0.5, 0.8660254037844386);
  check(rsqrt(x), 2, 1 / 0.8660254037844386);
  check(cbrt(x), 0.6299605249474366, 0.9085602964160698);
  check(sin(x), 0.24740395925452294, 0.6816387600233341);
  check(cos(x), 0.9689124217106447, 0.7316888688738209);
  check(tan(x), 0.25534192122103627, 0.9315964599440725);
  check(tanh(x), 0.24491866240370913, 0.6351489523872873);
  check(logistic(x), 1 / (1 + 1 / 1.2840254166877414), 1 / (1 + 1 / 2.117000016612675));
  check(erf(x), std::erf(0.25), std::erf(0.75));
  check(floor(x), 0, 0);
  check(ceil(x), 1, 1);
  check(round(x), 0, 1);
  check(sign(-x), -1, -1);
  check(abs(-x), 0.25, 0.75);
  check(sinh(x), 0.2526123168081683, 0.82231673193583);
  check(cosh(x), 1.0314130998795732, 1.2946832846768448);
  check(exp2(x), 1.189207115002721, 1.681792830507429);
  check(log2(x), -2, -0.4150374992788438);
  check(log10(x), -0.6020599913279624, -0.12493873660829995);
  check(atan(x), 0.24497866312686414, 0.6435011087932844);
  check(trunc(-4 * x), -1, -3);
  check(square(x), 0.0625, 0.5625);
  check(reciprocal(x), 4, 4.0 / 3);
  const Tensor y = tensor({-0.5, 0.25}, f64);
  check(asin(y), -0.5235987755982989, 0.25268025514207865);
  check(acos(y), 2.0943951023931957, 1.318116071652818);
  check(atan2(tensor({1.0, -1.0}, f64), tensor({2.0, -0.5}, f64)), 0.4636476090008061, -2.0344439357957027);
  check(logaddexp(tensor({1.0, -3.0}, f64), tensor({2.0, -3.0}, f64)), 2.313261687518223,
        -2.3068528194400546);
  check(logaddexp(tensor({-kInf, kInf}, f64), tensor({-kInf, kInf}, f64)), -kInf, kInf);
}

TEST(Elementwise, RealFunctionsTakeIntegersAndBools) {
  expect_tensor(sqrt(tensor({4, 9})), {f32, {2}}, {2, 3});
  expect_tensor(exp(tensor({false, true})), {f32, {2}}, {1, std::exp(1.0)}, 1e-6);
  expect_tensor(floor(tensor({4, -9})), {i32, {2}}, {4, -9});
  expect_tensor(is_finite(tensor({4, -9})), {boolean, {2}}, {1, 1});
  expect_tensor(reciprocal(tensor({4})), {f32, {1}}, {0.25});
  expect_tensor(atan2(tensor({0}), tensor({1})), {f32, {1}}, {0});
}

TEST(Elementwise, InfinitiesAndNaN) {
  const Tensor x = tensor({1.0, kInf, -kInf, kNan});
  expect_tensor(isnan(x), {boolean, {4}}, {0, 0, 0, 1});
  expect_tensor(isinf(x), {boolean, {4}}, {0, 1, 1, 0});
  expect_tensor(is_finite(x), {boolean, {4}}, {1, 0, 0, 0});
}

TEST(Elementwise, Powers) {
  const Tensor x = tensor({4.0, 9.0});
  expect_tensor(pow(x, 2), {f32, {2}}, {16, 81});
  expect_tensor(pow(x, 3.0), {f32, {2}}, {64, 729});
  expect_tensor(pow(x, 1), {f32, {2}}, {4, 9});
  expect_tensor(pow(x, 0), {f32, {2}}, {1, 1});
  expect_tensor(pow(x, 4), {f32, {2}}, {256, 6561});
  expect_tensor(pow(x, 0.5), {f32, {2}}, {2, 3});
  expect_tensor(pow(x, -0.5), {f32, {2}}, {0.5, 1.0 / 3}, 1e-7);
  expect_tensor(pow(x, -1), {f32, {2}}, {0.25, 1.0 / 9}, 1e-7);
  expect_tensor(pow(x, 1.5), {f32, {2}}, {8, 27}, 1e-6);
  expect_tensor(pow(2.0, tensor({3.0, -1.0})), {f32, {2}}, {8, 0.5}, 1e-6);
  expect_tensor(pow(tensor({2, 3}), 5), {i32, {2}}, {32, 243});
  expect_tensor(pow(tensor({2, 3}), 2.0), {f32, {2}}, {4, 9});
  error_of(ErrorKind::kInvalidArgument, [] { pow(tensor({2}), -2); });
}

const Tensor kMatrix = tensor({{1.5, -2.0, 0.5}, {3.0, 0.25, -1.0}}, DType::f64);

TEST(Reductions, SumsMeansAndProducts) {
  expect_tensor(sum(kMatrix), {f64, {}}, {2.25});
  expect_tensor(sum(kMatrix, {0}), {f64, {3}}, {4.5, -1.75, -0.5});
  expect_tensor(sum(kMatrix, {-1}, true), {f64, {2, 1}}, {0, 2.25});
  expect_tensor(sum(kMatrix, {1, 0}), {f64, {}}, {2.25});
  expect_tensor(kMatrix.sum({0}), {f64, {3}}, {4.5, -1.75, -0.5});
  expect_tensor(sum(tensor({true, true, false})), {DType::i64, {}}, {2});
  expect_tensor(sum(tensor(3.0)), {f32, {}}, {3});
  expect_tensor(sum(zeros({0, 2}), {0}), {f32, {2}}, {0, 0});
  expect_tensor(prod(kMatrix, {1}), {f64, {2}}, {-1.5, -0.75});
  expect_tensor(mean(kMatrix, {0}), {f64, {3}}, {2.25, -0.875, -0.25});
  expect_tensor(mean(tensor({1, 2})), {f32, {}}, {1.5});
  expect_tensor(mean(tensor({true, false})), {f32, {}}, {0.5});
  expect_tensor(mean(full({3}, 60000.0, DType::f16)), {DType::f16, {}}, {60000});
  expect_tensor(mean(tensor(2.0)), {f32, {}}, {2});
  expect_tensor(mean(zeros({0})), {f32, {}}, {kNan});
  expect_tensor(kMatrix.mean({-1}), {f64, {2}}, {0, 0.75});
  error_of(ErrorKind::kInvalidArgument, [] { sum(kMatrix, {2}); });
}

// As numpy: np.sum(np.array([200, 201], np.uint8)) is uint64 401, and so on.
TEST(Reductions, SumsOfSmallIntegersAreWide) {
  const DType u8 = DType::u8, i8 = DType::i8, i64 = DType::i64, u64 = DType::u64;
  const Tensor bytes = tensor({200, 201}, u8);
  expect_tensor(sum(bytes), {u64, {}}, {401});
  expect_tensor(bytes.sum(), {u64, {}}, {401});
  expect_tensor(sum(tensor({{-100, 90}, {-100, 90}}, i8), 0), {i64, {2}}, {-200, 180});
  expect_tensor(sum(tensor({2147483647, 1})), {i64, {}}, {2147483648});
  expect_tensor(sum(full({3}, 4294967295.0, DType::u32), {0}, true), {u64, {1}}, {12884901885});
  expect_tensor(sum(full({28, 28}, 255, u8)), {u64, {}}, {199920});
  expect_tensor(prod(tensor({16, 17}, u8)), {u64, {}}, {272});
  expect_tensor(prod(tensor({true, true})), {i64, {}}, {1});
  expect_tensor(cumsum(bytes, 0), {u64, {2}}, {200, 401});
  expect_tensor(cumsum(bytes, 0, true), {u64, {2}}, {401, 201});
  expect_tensor(cumprod(tensor({-100, 2, 3}, i8), 0), {i64, {3}}, {-100, -200, -600});
  expect_tensor(mean(bytes), {f32, {}}, {200.5});
  EXPECT_EQ(sum(full({2}, 1.0, DType::f16)).dtype(), DType::f16);
  const Tensor with_own = vmap([](const Tensor& x) { return sum(x); })(tensor({{200, 201}, {255, 255}}, u8));
  expect_tensor(with_own, {u64, {2}}, {401, 510});
  // A count of places beside floats: no f64, and a gradient as before.
  const auto positive = [](const Tensor& x) { return sum(x * x) * sum(x > 0); };
  EXPECT_EQ(positive(tensor({1.0, -1.0, 2.0})).type().to_string(), "f32[]");
  expect_tensor(grad(positive)(tensor({1.0, -1.0, 2.0})), {f32, {3}}, {4, -4, 8});
}

TEST(Reductions, SumsTakeADtype) {
  const DType u8 = DType::u8, i64 = DType::i64;
  const Tensor bytes = tensor({200, 201}, u8);
  expect_tensor(sum(bytes, {}, {.dtype = u8}), {u8, {}}, {145});  // 401 - 256
  expect_tensor(bytes.sum({0}, {.keep = true, .dtype = i32}), {i32, {1}}, {401});
  expect_tensor(sum(tensor({true, true}), {}, {.dtype = i32}), {i32, {}}, {2});
  expect_tensor(sum(full({3}, 40000.0, DType::f16), {}, {.dtype = f32}), {f32, {}}, {120000});
  expect_tensor(prod(tensor({16, 17}, u8), {}, {.dtype = u8}), {u8, {}}, {16});  // 272 - 256
  expect_tensor(cumsum(bytes, 0, {.dtype = u8}), {u8, {2}}, {200, 145});
  expect_tensor(cumprod(tensor({1.5, 2.0}), 0, {.reverse = true, .dtype = i64}), {i64, {2}}, {2, 2});
  const std::string message = error_of(ErrorKind::kDType, [&] { sum(bytes, {}, {.dtype = boolean}); });
  EXPECT_NE(message.find("any()"), std::string::npos) << message;
}

TEST(Reductions, AxesAreOneOrAListOrAll) {
  expect_tensor(sum(kMatrix, -1), {f64, {2}}, {0, 2.25});
  expect_tensor(sum(kMatrix, {}), {f64, {}}, {2.25});
  expect_tensor(sum(kMatrix, {}, true), {f64, {1, 1}}, {2.25});
  expect_tensor(mean(kMatrix, 0, true), {f64, {1, 3}}, {2.25, -0.875, -0.25});
  expect_tensor(prod(kMatrix, 1), {f64, {2}}, {-1.5, -0.75});
  expect_tensor(var(kMatrix, 0), {f64, {3}}, {0.5625, 1.265625, 0.5625});
  expect_tensor(stddev(kMatrix, 0), {f64, {3}}, {0.75, 1.125, 0.75}, 1e-15);
  expect_tensor(norm(kMatrix, 0, {.order = 1}), {f64, {3}}, {4.5, 2.25, 1.5});
  expect_tensor(amax(kMatrix, 1), {f64, {2}}, {1.5, 3});
  expect_tensor(amax(kMatrix), {f64, {}}, {3});
  expect_tensor(amin(kMatrix, {0}, true), {f64, {1, 3}}, {1.5, -2, -1});
  expect_tensor(any(kMatrix > 1, 1), {boolean, {2}}, {1, 1});
  expect_tensor(all(kMatrix > -1.5, 0), {boolean, {3}}, {1, 0, 1});
  EXPECT_EQ(logsumexp(kMatrix, 1).type().to_string(), "f64[2]");
  expect_tensor(kMatrix.sum(0), {f64, {3}}, {4.5, -1.75, -0.5});
  expect_tensor(kMatrix.mean(0), {f64, {3}}, {2.25, -0.875, -0.25});
  expect_tensor(kMatrix.max(1), {f64, {2}}, {1.5, 3});
  expect_tensor(kMatrix.min(-1, true), {f64, {2, 1}}, {-2, -1});
  const std::vector<std::int64_t> both{0, 1};
  expect_tensor(sum(kMatrix, both), {f64, {}}, {2.25});
  expect_tensor(sum(kMatrix, std::span(both).first(1)), {f64, {3}}, {4.5, -1.75, -0.5});
  error_of(ErrorKind::kInvalidArgument, [] { sum(kMatrix, 2); });
}

TEST(Reductions, AnEmptyListOfAxesReducesNothing) {
  const Tensor x = tensor({1.0, -2.0, 3.0});
  const Ints none;
  expect_tensor(sum(x, none), {f32, {3}}, {1, -2, 3});
  expect_tensor(mean(x, none), {f32, {3}}, {1, -2, 3});
  expect_tensor(mean(tensor({1, 2}), none), {f32, {2}}, {1, 2});
  expect_tensor(prod(x, none), {f32, {3}}, {1, -2, 3});
  expect_tensor(max(x, none), {f32, {3}}, {1, -2, 3});
  expect_tensor(amin(x, std::vector<std::int64_t>{}), {f32, {3}}, {1, -2, 3});
  expect_tensor(var(x, none), {f32, {3}}, {0, 0, 0});
  expect_tensor(stddev(x, none), {f32, {3}}, {0, 0, 0});
  expect_tensor(norm(x, none), {f32, {3}}, {1, 2, 3});
  expect_tensor(logsumexp(x, none), {f32, {3}}, {1, -2, 3});
  expect_tensor(any(tensor({0, 2}), none), {boolean, {2}}, {0, 1});
  expect_tensor(all(tensor({0, 2}), none, true), {boolean, {2}}, {0, 1});
  expect_tensor(sum(tensor({true, true}), none), {DType::i64, {2}}, {1, 1});
  expect_tensor(x.sum(none), {f32, {3}}, {1, -2, 3});
  expect_tensor(x.max(none), {f32, {3}}, {1, -2, 3});
}

template <class... Arguments>
concept SumTakes = requires(const Tensor& x, Arguments... arguments) { sum(x, arguments...); };
template <class Axes, class Option>
concept VarianceTakes = requires(const Tensor& x, Axes axes, Option option) { var(x, axes, option); };
template <class Axes, class Option>
concept NormTakes = requires(const Tensor& x, Axes axes, Option option) { norm(x, axes, option); };
static_assert(SumTakes<Ints, bool> && SumTakes<int> && SumTakes<int, bool>);
static_assert(!SumTakes<Ints, int> && !SumTakes<Ints, double> && !SumTakes<bool> && !SumTakes<double>);
static_assert(!VarianceTakes<Ints, int> && !VarianceTakes<Ints, double> && VarianceTakes<Ints, VarOptions>);
static_assert(!NormTakes<Ints, int> && !NormTakes<Ints, double> && NormTakes<Ints, NormOptions>);

TEST(Reductions, ExtremesAndTheirPlaces) {
  expect_tensor(max(kMatrix), {f64, {}}, {3});
  expect_tensor(max(kMatrix, {1}), {f64, {2}}, {1.5, 3});
  expect_tensor(max(kMatrix, {0}, true), {f64, {1, 3}}, {3, 0.25, 0.5});
  expect_tensor(max(kMatrix, {}), {f64, {}}, {3});
  expect_tensor(max(kMatrix, Ints{0}), {f64, {3}}, {3, 0.25, 0.5});
  expect_tensor(min(kMatrix, {0}), {f64, {3}}, {1.5, -2, -1});
  expect_tensor(min(kMatrix), {f64, {}}, {-2});
  expect_tensor(kMatrix.max({1}), {f64, {2}}, {1.5, 3});
  expect_tensor(kMatrix.min(), {f64, {}}, {-2});
  expect_tensor(max(tensor({false, true})), {boolean, {}}, {1});
  expect_tensor(min(tensor({false, true})), {boolean, {}}, {0});
  expect_tensor(argmax(kMatrix, 1), {i32, {2}}, {0, 0});
  expect_tensor(argmax(kMatrix), {i32, {}}, {3});
  expect_tensor(argmin(kMatrix, -1, true), {i32, {2, 1}}, {1, 2});
  expect_tensor(argmin(kMatrix, {}, true), {i32, {1, 1}}, {1});
  expect_tensor(argmax(tensor({false, true, true}), 0), {i32, {}}, {1});
  expect_tensor(kMatrix.argmax(0), {i32, {3}}, {1, 1, 0});
  error_of(ErrorKind::kShape, [] { argmax(zeros({2, 0}), 1).eval(); });
}

TEST(Reductions, VarianceDividesByTheCountLessTheCorrection) {
  expect_tensor(var(kMatrix), {f64, {}}, {2.6197916666666665}, 1e-15);
  expect_tensor(var(kMatrix, {1}, {.correction = 1}), {f64, {2}}, {3.25, 4.1875}, 1e-15);
  expect_tensor(stddev(kMatrix, {0}), {f64, {3}}, {0.75, 1.125, 0.75}, 1e-15);
  expect_tensor(stddev(kMatrix, {0}, {.keep = true}), {f64, {1, 3}}, {0.75, 1.125, 0.75}, 1e-15);
  expect_tensor(var(tensor({1, 2, 3, 4})), {f32, {}}, {1.25});
  expect_tensor(var(tensor({2.0}), {}, {.correction = 1}), {f32, {}}, {kNan});
  // 1000 ± 1 in f16: a squared mean would overflow.
  expect_tensor(var(tensor({999.0, 1001.0}, DType::f16)), {DType::f16, {}}, {1});
}

TEST(Reductions, NormsAndLogSumExp) {
  expect_tensor(norm(kMatrix), {f64, {}}, {4.0697051490249265}, 1e-15);
  expect_tensor(norm(kMatrix, {0}, {.order = 1}), {f64, {3}}, {4.5, 2.25, 1.5});
  expect_tensor(norm(kMatrix, {1}, {.order = 3}), {f64, {2}}, {2.2571787177370006, 3.0371537085395803},
                1e-14);
  expect_tensor(norm(kMatrix, {1}, {.order = kInf, .keep = true}), {f64, {2, 1}}, {2, 3});
  expect_tensor(norm(kMatrix, {}, {.order = -kInf}), {f64, {}}, {0.25});
  error_of(ErrorKind::kInvalidArgument, [] { norm(kMatrix, {}, {.order = 0}); });
  expect_tensor(logsumexp(kMatrix, {1}), {f64, {2}}, {1.835097595516167, 3.0790362014040995}, 1e-14);
  expect_tensor(logsumexp(tensor({1000.0, 1000.0})), {f32, {}}, {1000 + std::log(2.0)}, 1e-6);
  expect_tensor(logsumexp(tensor({{-kInf, -kInf}, {kInf, 0.0}}), {1}), {f32, {2}}, {-kInf, kInf});
  EXPECT_EQ(logsumexp(kMatrix, {0, 1}, true).type().to_string(), "f64[1,1]");
}

TEST(Reductions, AnyAndAll) {
  const Tensor x = tensor({{0, 1}, {2, 3}});
  expect_tensor(any(x, {1}), {boolean, {2}}, {1, 1});
  expect_tensor(any_true(x, {0}), {boolean, {2}}, {1, 1});
  expect_tensor(all_true(x, 1, true), {boolean, {2, 1}}, {0, 1});
  expect_tensor(all(x, {1}), {boolean, {2}}, {0, 1});
  expect_tensor(all(x), {boolean, {}}, {0});
  expect_tensor(all(x, {0}, true), {boolean, {1, 2}}, {0, 1});
  expect_tensor(any(zeros({0})), {boolean, {}}, {0});
  expect_tensor(all(zeros({0})), {boolean, {}}, {1});
}

TEST(Reductions, RunningSumsAndSorting) {
  const Tensor x = tensor({{1, 2, 3}, {4, 5, 6}});
  expect_tensor(cumsum(x, 1), {DType::i64, {2, 3}}, {1, 3, 6, 4, 9, 15});
  expect_tensor(cumsum(x, 0, true), {DType::i64, {2, 3}}, {5, 7, 9, 4, 5, 6});
  expect_tensor(cumprod(x, -1), {DType::i64, {2, 3}}, {1, 2, 6, 4, 20, 120});
  expect_tensor(cumsum(tensor({true, true}), 0), {DType::i64, {2}}, {1, 2});
  const Tensor y = tensor({3, 1, 2, 1});
  expect_tensor(sort(y), {i32, {4}}, {1, 1, 2, 3});
  expect_tensor(sort(y, 0, true), {i32, {4}}, {3, 2, 1, 1});
  expect_tensor(argsort(y), {i32, {4}}, {1, 3, 2, 0});
  expect_tensor(argsort(y, -1, true), {i32, {4}}, {0, 2, 1, 3});
  const auto [values, indices] = top_k(tensor({{1.0, 5.0, 3.0}, {9.0, 7.0, 8.0}}), 2);
  expect_tensor(values, {f32, {2, 2}}, {5, 3, 9, 8});
  expect_tensor(indices, {i32, {2, 2}}, {1, 2, 0, 2});
}

TEST(Reductions, GradientOfLogSumExpIsSoftmax) {
  auto slope = grad([](const Tensor& x) { return logsumexp(x); });
  expect_tensor(slope(tensor({1000.0, 1000.0, -kInf})), {f32, {3}}, {0.5, 0.5, 0}, 1e-6);
  const double e = std::exp(1.0);
  expect_tensor(slope(tensor({0.0, 1.0}, f64)), {f64, {2}}, {1 / (1 + e), e / (1 + e)}, 1e-15);
}

TEST(Conversion, ToADType) {
  expect_tensor(tensor({1.9, -1.9, kNan}).to(i32), {i32, {3}}, {1, -1, 0});
  expect_tensor(tensor({0, 3}).to(boolean), {boolean, {2}}, {0, 1});
}

}  // namespace
}  // namespace systole

namespace beside_the_standard_library {

using namespace std;
using namespace systole;

template <class A, class B>
concept MaxTakes = requires(A a, B b) { systole::max(a, b); };
static_assert(!MaxTakes<int, int> && !MaxTakes<int, double> && MaxTakes<Tensor, int>);
static_assert(same_as<decltype(max(1, 2)), const int&>);

TEST(BesideTheStandardLibrary, ExtremesOfVariablesAreElementwise) {
  const Variable v(tensor({1.0, 4.0})), w(tensor({3.0, 2.0}));
  expect_tensor(max(v, w), {DType::f32, {2}}, {3, 4});
  expect_tensor(min(v, w), {DType::f32, {2}}, {1, 2});
  expect_tensor(max(v.value(), w.value()), {DType::f32, {2}}, {3, 4});
  expect_tensor(max(v.value(), {0}), {DType::f32, {}}, {4});
  expect_tensor(max(v, 2), {DType::f32, {2}}, {2, 4});
}

TEST(BesideTheStandardLibrary, TruthAndSlicesHaveOtherNames) {
  const Tensor x = tensor({0, 1, 2});
  expect_tensor(any_true(x), {DType::boolean, {}}, {1});
  expect_tensor(all_true(x), {DType::boolean, {}}, {0});
  expect_tensor(x[Slice{1, {}}], {DType::i32, {2}}, {1, 2});
  expect_tensor(x[{Slice{.step = -1}}], {DType::i32, {3}}, {2, 1, 0});
}

}  // namespace beside_the_standard_library
