// Elementwise ops, conversions and sources: the corner cases that ops.def decides, by hand calculation.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <numbers>

#include "eval/philox.h"
#include "eval_check.h"

namespace systole::eval_check {
namespace {

using ir::ConvertAttrs;
using ir::Op;
using i8 = std::int8_t;
using i16 = std::int16_t;
using i32 = std::int32_t;
using i64 = std::int64_t;
using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

constexpr i64 kMin = std::numeric_limits<i64>::min(), kMax = std::numeric_limits<i64>::max();

template <class T>
void expect_unary(Op op, std::initializer_list<Given<T>> x, std::initializer_list<Given<T>> wanted) {
  SCOPED_TRACE(ir::name(op));
  expect_row<T>(run(op, {row<T>(x)}), wanted);
}

template <class T, class R = T>
void expect_binary(Op op, std::initializer_list<Given<T>> a, std::initializer_list<Given<T>> b,
                   std::initializer_list<Given<R>> wanted) {
  SCOPED_TRACE(ir::name(op));
  expect_row<R>(run(op, {row<T>(a), row<T>(b)}), wanted);
}

template <class From, class To>
void expect_convert(std::initializer_list<Given<From>> x, std::initializer_list<Given<To>> wanted) {
  SCOPED_TRACE(std::string(name(dtype_of<From>)) + " to " + std::string(name(dtype_of<To>)));
  expect_row<To>(run(Op::convert, {row<From>(x)}, ConvertAttrs{dtype_of<To>}), wanted);
}

TEST(EvalIntegers, AddSubMulNegAbsWrapAtTheirOwnWidth) {
  expect_binary<i8>(Op::add, {100, -100}, {100, -100}, {-56, 56});
  expect_binary<u8>(Op::add, {200}, {100}, {44});
  expect_binary<u8>(Op::sub, {0}, {1}, {255});
  expect_binary<i64>(Op::add, {kMax}, {1}, {kMin});
  expect_binary<i64>(Op::sub, {kMin}, {1}, {kMax});
  expect_binary<i64>(Op::mul, {kMin, i64{1} << 62}, {-1, 4}, {kMin, 0});
  expect_binary<u16>(Op::mul, {65535}, {65535}, {1});
  expect_unary<i8>(Op::neg, {-128, 5}, {-128, -5});
  expect_unary<i8>(Op::abs, {-128, -5}, {-128, 5});
  expect_unary<i64>(Op::abs, {kMin}, {kMin});
}

TEST(EvalIntegers, DivisionTruncatesAndHasNoTraps) {
  expect_binary<i8>(Op::div, {-128, 7, -7, 7, 0}, {-1, 0, 2, -2, 0}, {-128, -1, -3, -3, -1});
  expect_binary<u8>(Op::div, {7, 200}, {0, 7}, {255, 28});
  expect_binary<i64>(Op::div, {kMin, kMin}, {-1, 0}, {kMin, -1});
  expect_binary<u64>(Op::div, {5}, {0}, {~u64{0}});
  expect_binary<i8>(Op::rem, {-128, 7, -7, 7}, {-1, 0, 3, -3}, {0, 7, -1, 1});
  expect_binary<i64>(Op::rem, {kMin, kMin}, {-1, 0}, {0, kMin});
  expect_binary<u8>(Op::rem, {200, 9}, {7, 0}, {4, 9});
}

TEST(EvalIntegers, PowerWrapsAndNegativeExponentsGiveZeroUnlessTheBaseIsAUnit) {
  expect_binary<i8>(Op::pow, {2, 2, 3, 0, 0, 2, 1, -1, -1}, {7, 8, 5, 0, -1, -1, -5, -3, -2},
                    {-128, 0, -13, 1, 0, 0, 1, -1, 1});
  expect_binary<u8>(Op::pow, {2, 3}, {7, 5}, {128, 243});
  expect_binary<u64>(Op::pow, {3}, {41}, {18026252303461234787u});  // 3^41 mod 2^64
}

TEST(EvalIntegers, ShiftsBeyondTheWidthLeaveTheFill) {
  expect_binary<i8>(Op::shift_left, {1, 1, 1, -1, 1}, {7, 8, -1, 4, 127}, {-128, 0, 0, -16, 0});
  expect_binary<i8>(Op::shift_right, {-128, -128, 64, -5, 64}, {7, 8, 100, -1, 3}, {-1, -1, 0, -1, 8});
  expect_binary<i8>(Op::shift_right_logical, {-128, -1, -1, -1, 64}, {7, 1, 8, -1, 3}, {1, 127, 0, 0, 8});
  expect_binary<u8>(Op::shift_left, {255, 255}, {4, 200}, {240, 0});
  expect_binary<u8>(Op::shift_right, {200, 200, 200}, {3, 8, 255}, {25, 0, 0});
  expect_binary<u8>(Op::shift_right_logical, {200, 200}, {3, 8}, {25, 0});
  expect_binary<i64>(Op::shift_left, {-1, -1}, {63, 64}, {kMin, 0});
  expect_binary<i64>(Op::shift_right, {kMin, kMin, kMax}, {63, 64, 64}, {-1, -1, 0});
  expect_binary<i64>(Op::shift_right_logical, {-1, -1}, {63, 64}, {1, 0});
}

TEST(EvalIntegers, BitwiseOpsKeepBoolABool) {
  expect_unary<bool>(Op::bitwise_not, {true, false}, {false, true});
  expect_unary<u8>(Op::bitwise_not, {0x0f}, {0xf0});
  expect_unary<i8>(Op::bitwise_not, {0}, {-1});
  expect_binary<bool>(Op::bitwise_xor, {true, true}, {true, false}, {false, true});
  expect_binary<i16>(Op::bitwise_and, {-1}, {0x70f0}, {0x70f0});
  expect_binary<u32>(Op::bitwise_or, {0xf0000000}, {0xf}, {0xf000000f});
  // A caller's byte for true need not be 1.
  const std::byte two{2};
  const Literal odd = Literal::copy_of({DType::boolean, {1}}, {&two, 1});
  expect_row<bool>(run(Op::bitwise_not, {odd}), {false});
  expect_row<float>(run(Op::select, {odd, row<float>({1}), row<float>({2})}), {1});
}

TEST(EvalFloats, SpecialValuesOfUnaryOps) {
  expect_unary<float>(Op::sign, {-0.0, 0.0, -3, 7, kNan, -kInf}, {-0.0, 0.0, -1, 1, kNan, -1});
  expect_unary<float>(Op::neg, {0.0, -kInf}, {-0.0, kInf});
  expect_unary<float>(Op::abs, {-0.0, -kInf, kNan}, {0.0, kInf, kNan});
  expect_unary<float>(Op::sqrt, {-0.0, -1, 4, kInf}, {-0.0, kNan, 2, kInf});
  expect_unary<float>(Op::rsqrt, {0.0, -0.0, 4, -1, kInf}, {kInf, -kInf, 0.5, kNan, 0});
  expect_unary<float>(Op::log, {0.0, -0.0, -1, 1, kInf}, {-kInf, -kInf, kNan, 0, kInf});
  expect_unary<float>(Op::log1p, {-1, 1e-10}, {-kInf, 1e-10});
  expect_unary<float>(Op::expm1, {1e-10, -kInf}, {1e-10, -1});
  expect_unary<float>(Op::cbrt, {-27, -0.0}, {-3, -0.0});
  expect_unary<float>(Op::sin, {kInf, -0.0}, {kNan, -0.0});
  expect_unary<float>(Op::round, {0.5, 1.5, 2.5, -0.5, -2.5}, {0, 2, 2, -0.0, -2});
  expect_unary<float>(Op::floor, {-0.5, 1.5}, {-1, 1});
  expect_unary<float>(Op::ceil, {-0.5, 1.5}, {-0.0, 2});
}

TEST(EvalFloats, LogisticKeepsItsTails) {
  // e^-745 is the smallest denormal of f64; e^-100 is 27 of the smallest of f32.
  expect_unary<double>(Op::logistic, {-745, -800, 800, kNan, 0}, {std::ldexp(1.0, -1074), 0, 1, kNan, 0.5});
  expect_unary<float>(Op::logistic, {-100, kInf, -kInf}, {27 * std::ldexp(1.0, -149), 1, 0});
}

TEST(EvalFloats, IsFiniteKnowsEveryFormat) {
  const auto finite = [](const Literal& x) { return run(Op::is_finite, {x}); };
  expect_row<bool>(finite(row<float>({1, kInf, -kInf, kNan})), {true, false, false, false});
  expect_row<bool>(finite(row<f8e5m2>({57344, kInf, kNan})), {true, false, false});
  expect_row<bool>(finite(row<f8e4m3fn>({448, kNan})), {true, false});
}

TEST(EvalFloats, MaxMinAndClampPropagateNan) {
  expect_binary<float>(Op::max, {kNan, 1, 2, -kInf}, {1, kNan, 3, kInf}, {kNan, kNan, 3, kInf});
  expect_binary<float>(Op::min, {kNan, 1, 2, -kInf}, {1, kNan, 3, kInf}, {kNan, kNan, 2, -kInf});
  const Literal x = row<float>({-5, 0.5, 5, kNan});
  expect_row<float>(run(Op::clamp, {scalar<float>(0), x, scalar<float>(1)}), {0, 0.5, 1, kNan});
  expect_row<float>(run(Op::clamp, {scalar<float>(kNan), x, scalar<float>(1)}), {kNan, kNan, kNan, kNan});
  expect_row<float>(run(Op::clamp, {scalar<float>(0), x, scalar<float>(kNan)}), {kNan, kNan, kNan, kNan});
  expect_row<float>(run(Op::clamp, {scalar<float>(2), x, scalar<float>(1)}),
                    {1, 1, 1, kNan});  // lo above hi: hi
  expect_row<i8>(run(Op::clamp, {row<i8>({-1, 0}), row<i8>({-5, 5}), row<i8>({1, 3})}), {-1, 3});
  expect_same(run(Op::clamp, {scalar<float>(0), scalar<float>(5), scalar<float>(1)}), scalar<float>(1));
}

TEST(EvalFloats, BinarySpecialValues) {
  expect_binary<float>(Op::div, {1, -1, 0, 1}, {0, 0, 0, -0.0}, {kInf, -kInf, kNan, -kInf});
  expect_binary<float>(Op::rem, {5.5, -5.5, 5, 5, kInf}, {-2, 2, 0, kInf, 2}, {1.5, -1.5, kNan, 5, kNan});
  expect_binary<float>(Op::pow, {0, kNan, -2, -8, 2}, {0, 0, 3, 0.5, -1}, {1, 1, -8, kNan, 0.5});
  expect_binary<double>(Op::atan2, {0.0, -0.0, 0.0}, {-1, -1, 1}, {std::numbers::pi, -std::numbers::pi, 0.0});
}

TEST(EvalFloats, ResultsRoundOnceToNearestEven) {
  // The unit in the last place is 2^-7 at 1 in bf16, 32 at 65504 in f16, 32 at 448 in f8e4m3fn.
  expect_binary<bf16>(Op::add, {1, 1.0078125}, {0.00390625, 0.00390625}, {1, 1.015625});
  expect_binary<f16>(Op::add, {65504, 65504}, {16, 8}, {kInf, 65504});
  expect_binary<f8e4m3fn>(Op::add, {448, 448}, {32, 8}, {kNan, 448});
  expect_binary<f8e5m2>(Op::mul, {57344}, {2}, {kInf});
  expect_binary<float>(Op::add, {1, 1}, {std::ldexp(1.0, -24), std::ldexp(1.5, -24)},
                       {1, 1 + std::ldexp(1.0, -23)});
}

TEST(EvalComparisons, NanEqualsNothingAndFalseIsBelowTrue) {
  const auto check = [](Op op, std::initializer_list<bool> wanted) {
    expect_binary<float, bool>(op, {1, 2, kNan, 0.0}, {2, 2, kNan, -0.0}, wanted);
  };
  check(Op::equal, {false, true, false, true});
  check(Op::not_equal, {true, false, true, false});
  check(Op::less, {true, false, false, false});
  check(Op::less_equal, {true, true, false, true});
  check(Op::greater, {false, false, false, false});
  check(Op::greater_equal, {false, true, false, true});
  expect_binary<bool>(Op::less, {false, true, true}, {true, false, true}, {true, false, false});
  expect_binary<u64, bool>(Op::greater, {~u64{0}}, {1}, {true});
  expect_binary<i64, bool>(Op::greater, {-1}, {1}, {false});
}

TEST(EvalSelect, TakesBitsFromEitherSide) {
  const Literal a = row<u16>({1, 2, 3}), b = row<u16>({7, 8, 9});
  expect_row<u16>(run(Op::select, {row<bool>({true, false, true}), a, b}), {1, 8, 3});
  expect_row<u16>(run(Op::select, {scalar<bool>(false), a, b}), {7, 8, 9});
  // A signalling NaN stays one.
  const Literal signalling = row<u32>({0x7f800001}).reinterpreted(DType::f32);
  EXPECT_TRUE(run(Op::select, {row<bool>({true}), signalling, row<float>({0})}).same_bits(signalling));
}

TEST(EvalConvert, FloatToIntegerTruncatesAndSaturates) {
  expect_convert<float, i8>({300, -300, kNan, 1.9, -1.9, kInf, -kInf}, {127, -128, 0, 1, -1, 127, -128});
  expect_convert<float, u8>({-0.5, 256, 255.9, -7, kNan}, {0, 255, 255, 0, 0});
  expect_convert<double, i64>(
      {9.3e18, -9.3e18, 9223372036854775808.0, 9223372036854774784.0, -9223372036854775808.0},
      {kMax, kMin, kMax, 9223372036854774784, kMin});
  expect_convert<double, u64>({1.9e19, -1, 18446744073709551616.0, 18446744073709549568.0},
                              {~u64{0}, 0, ~u64{0}, 18446744073709549568u});
  expect_convert<float, i32>({2147483648.0, -2147483648.0, 2147483520.0},
                             {2147483647, -2147483647 - 1, 2147483520});
  expect_convert<f8e5m2, i64>({kInf, 1.75}, {kMax, 1});
}

TEST(EvalConvert, IntegerToFloatRoundsOnce) {
  // One more than half a unit above 2^60: rounding to double first would lose the one and then go to even,
  // down.
  const i64 a = (i64{1} << 60) + (i64{1} << 36) + 1, b = (i64{1} << 60) + (i64{1} << 52) + 1;
  expect_convert<i64, float>(
      {a, -a}, {std::ldexp(1.0, 60) + std::ldexp(1.0, 37), -std::ldexp(1.0, 60) - std::ldexp(1.0, 37)});
  expect_convert<i64, bf16>(
      {b, -b}, {std::ldexp(1.0, 60) + std::ldexp(1.0, 53), -std::ldexp(1.0, 60) - std::ldexp(1.0, 53)});
  expect_convert<u64, float>({(u64{1} << 63) + (u64{1} << 39) + 1},
                             {std::ldexp(1.0, 63) + std::ldexp(1.0, 40)});
  expect_convert<u64, bf16>({(u64{1} << 63) + (u64{1} << 55) + 1},
                            {std::ldexp(1.0, 63) + std::ldexp(1.0, 56)});
  expect_convert<i64, double>({kMax, kMin}, {9223372036854775808.0, -9223372036854775808.0});
  expect_convert<i64, f16>({kMax, 65519, 65520, -kMax}, {kInf, 65504, kInf, -kInf});
  expect_convert<i64, f8e4m3fn>({kMax, 464, 465}, {kNan, 448, kNan});
}

TEST(EvalConvert, FloatToFloatRoundsOnceAndOverflows) {
  // 1 + 2^-8 + 2^-40 is above the tie; by way of f32 it would become the tie and go down.
  expect_convert<double, bf16>({1 + std::ldexp(1.0, -8) + std::ldexp(1.0, -40)}, {1.0078125});
  expect_convert<double, f16>({std::ldexp(1.0, -25), std::ldexp(1.0001, -25), 65520},
                              {0, std::ldexp(1.0, -24), kInf});
  expect_convert<double, float>({1e300, -1e300, 1e-50, kNan}, {kInf, -kInf, 0, kNan});
  expect_convert<float, f8e4m3fn>({1e6, kInf, -kInf, 448}, {kNan, kNan, kNan, 448});
  expect_convert<float, f8e5m2>({1e6, -0.0, 61440}, {kInf, -0.0, kInf});
}

TEST(EvalConvert, IntegersWrapAndBoolIsNotZero) {
  expect_convert<i32, u8>({300, -1}, {44, 255});
  expect_convert<u64, i8>({~u64{0}, 128}, {-1, -128});
  expect_convert<i8, u64>({-1}, {~u64{0}});
  expect_convert<u32, i64>({0xffffffff}, {4294967295});
  expect_convert<float, bool>({0.0, -0.0, kNan, 0.25}, {false, false, true, true});
  expect_convert<i32, bool>({256, 0}, {true, false});
  expect_convert<bool, bf16>({true, false}, {1, 0});
  expect_row<u32>(run(Op::bitcast, {row<float>({1, -0.0})}, ConvertAttrs{DType::u32}),
                  {0x3f800000, 0x80000000});
}

TEST(EvalElementwise, UnalignedViewsAreRead) {
  alignas(8) unsigned char bytes[13] = {};
  const float values[3] = {1, 2, 3};
  std::memcpy(bytes + 1, values, sizeof(values));
  const Literal view = Literal::view({DType::f32, {3}}, bytes + 1);
  expect_row<float>(run(Op::add, {view, view}), {2, 4, 6});
  expect_row<float>(run(Op::reverse, {view}, ir::AxesAttrs{{0}}), {3, 2, 1});
}

TEST(EvalElementwise, ChunksJoinSeamlessly) {
  Literal x(Type{DType::i32, {1500}});
  for (i32 i = 0; i < 1500; ++i) x.mutable_values<i32>()[static_cast<std::size_t>(i)] = i;
  const Literal y = run(Op::add, {x, x});
  for (i32 i = 0; i < 1500; ++i) EXPECT_EQ(y.values<i32>()[static_cast<std::size_t>(i)], 2 * i);
}

TEST(EvalElementwise, EveryOpTakesEmptyAndScalarOperandsOfEveryDtypeItAllows) {
  for (const ir::OpInfo& op : ir::all_ops()) {
    if (op.op_class != ir::OpClass::elementwise || op.result == ir::ResultRule::custom) continue;
    for (int d = 0; d < kDTypeCount; ++d) {
      const auto dtype = static_cast<DType>(d);
      if (!op.dtypes.contains(dtype)) continue;
      for (const Shape& shape : {Shape{}, Shape{3, 0}, Shape{2, 1}}) {
        const std::vector<Literal> operands(static_cast<std::size_t>(op.least_operands),
                                            Literal(Type{dtype, shape}));
        EXPECT_EQ(run(op.op, operands).shape(), shape) << op.name << " " << name(dtype);
      }
    }
  }
}

TEST(EvalSources, IotaCountsAlongItsAxisAndRounds) {
  expect_same(run(Op::iota, {}, ir::IotaAttrs{DType::i8, {2, 3}, 1}), make<i8>({2, 3}, {0, 1, 2, 0, 1, 2}));
  expect_same(run(Op::iota, {}, ir::IotaAttrs{DType::f16, {2, 3}, 0}), make<f16>({2, 3}, {0, 0, 0, 1, 1, 1}));
  const Literal b = run(Op::iota, {}, ir::IotaAttrs{DType::bf16, {260}, 0});
  EXPECT_EQ(static_cast<double>(b.values<bf16>()[257]), 256);
  EXPECT_EQ(static_cast<double>(b.values<bf16>()[259]), 260);
  const Literal u = run(Op::iota, {}, ir::IotaAttrs{DType::u8, {1000}, 0});
  EXPECT_EQ(u.values<u8>()[700], 700 - 512);
  EXPECT_EQ(run(Op::iota, {}, ir::IotaAttrs{DType::f32, {0, 4}, 1}).count(), 0);
}

TEST(EvalSources, DimensionIsItsNumberAndRefusesASymbol) {
  expect_same(run(Op::dimension, {}, ir::DimensionAttrs{Dim(7), DType::f32}), scalar<float>(7));
  expect_error(ErrorKind::kShape, "must be bound to numbers first",
               [] { run(Op::dimension, {}, ir::DimensionAttrs{Dim::symbol("N"), DType::i32}); });
}

// The known answers that Random123 publishes (kat_vectors, philox4x32 with 10 rounds).
TEST(EvalRandom, PhiloxGivesThePublishedAnswers) {
  using eval::philox;
  using eval::PhiloxCounter;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(EvalRandom, BitsAreWordsOfConsecutiveBlocks) {
  const auto bits = [](DType dtype, std::int64_t n) {
    return run(Op::random_bits, {row<u32>({0, 0})}, ir::RandomBitsAttrs{dtype, {n}});
  };
  const eval::PhiloxCounter next = eval::philox({1, 0, 0, 0}, {0, 0});
  expect_row<u32>(bits(DType::u32, 6), {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8, next[0], next[1]});
  expect_row<u64>(bits(DType::u64, 3),
                  {0xe169c58d6627e8d5, 0x9b00dbd8bc57ac4c, u64{next[1]} << 32 | next[0]});
  expect_row<u16>(bits(DType::u16, 4), {0xe8d5, 0xc58d, 0xac4c, 0xdbd8});
  expect_row<u8>(bits(DType::u8, 4), {0xd5, 0x8d, 0x4c, 0xd8});
}

}  // namespace
}  // namespace systole::eval_check
