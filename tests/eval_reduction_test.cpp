// Reductions, sorting and contractions: empty axes, NaN, ties and wrapping by hand; convolution against the
// definition written as a plain loop.

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>

#include "eval_check.h"

namespace systole::eval_check {
namespace {

using ir::Combine;
using ir::Op;
using i8 = std::int8_t;
using i32 = std::int32_t;
using i64 = std::int64_t;
using u8 = std::uint8_t;
using u64 = std::uint64_t;

Literal reduce(const Literal& x, Combine kind, Ints axes) {
  return run(Op::reduce, {x}, ir::ReduceAttrs{kind, axes});
}

TEST(EvalReduce, EmptyGivesTheIdentity) {
  const auto empty = [](DType dtype, Combine kind) {
    return reduce(Literal(Type{dtype, {2, 0}}), kind, {1});
  };
  expect_row<float>(empty(DType::f32, Combine::sum), {0, 0});
  expect_row<float>(empty(DType::f32, Combine::prod), {1, 1});
  expect_row<float>(empty(DType::f32, Combine::max), {-kInf, -kInf});
  expect_row<float>(empty(DType::f32, Combine::min), {kInf, kInf});
  expect_row<f8e4m3fn>(empty(DType::f8e4m3fn, Combine::max), {-448, -448});
  expect_row<f8e4m3fn>(empty(DType::f8e4m3fn, Combine::min), {448, 448});
  expect_row<f8e5m2>(empty(DType::f8e5m2, Combine::max), {-kInf, -kInf});
  expect_row<i8>(empty(DType::i8, Combine::max), {-128, -128});
  expect_row<i8>(empty(DType::i8, Combine::min), {127, 127});
  expect_row<u8>(empty(DType::u8, Combine::max), {0, 0});
  expect_row<u8>(empty(DType::u8, Combine::min), {255, 255});
  expect_row<i64>(empty(DType::i64, Combine::max), {INT64_MIN, INT64_MIN});
  expect_row<i64>(empty(DType::i64, Combine::min), {INT64_MAX, INT64_MAX});
  expect_row<u64>(empty(DType::u64, Combine::min), {UINT64_MAX, UINT64_MAX});
  expect_row<i8>(empty(DType::i8, Combine::bitwise_and), {-1, -1});
  expect_row<bool>(empty(DType::boolean, Combine::bitwise_and), {true, true});
  expect_row<bool>(empty(DType::boolean, Combine::bitwise_or), {false, false});
}

TEST(EvalReduce, ReducesAnySetOfAxes) {
  const Literal x = make<i32>({2, 3, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  expect_same(reduce(x, Combine::sum, {0, 1, 2}), scalar<i32>(78));
  expect_same(reduce(x, Combine::sum, {1}), make<i32>({2, 2}, {9, 12, 27, 30}));
  expect_same(reduce(x, Combine::sum, {0, 2}), row<i32>({18, 26, 34}));
  expect_same(reduce(x, Combine::max, {2, 0}), row<i32>({8, 10, 12}));
  expect_same(reduce(x, Combine::sum, {}), x);
  expect_same(reduce(scalar<i32>(5), Combine::sum, {}), scalar<i32>(5));
}

TEST(EvalReduce, WrapsPropagatesNanAndAccumulatesWide) {
  expect_same(reduce(row<i8>({100, 100}), Combine::sum, {0}), scalar<i8>(-56));
  expect_same(reduce(row<i64>({INT64_MAX, 2}), Combine::prod, {0}), scalar<i64>(-2));
  expect_same(reduce(row<float>({1, kNan, 2}), Combine::max, {0}), scalar<float>(kNan));
  expect_same(reduce(row<float>({kNan, 1}), Combine::min, {0}), scalar<float>(kNan));
  expect_same(reduce(row<bool>({true, false}), Combine::bitwise_and, {0}), scalar<bool>(false));
  // f16 would stop at 2048, and f32 would lose the small terms.
  expect_same(reduce(Literal::full({DType::f16, {3000}}, 1), Combine::sum, {0}), scalar<f16>(3000));
  expect_same(reduce(row<float>({1e8, 1, -1e8}), Combine::sum, {0}), scalar<float>(1));
}

TEST(EvalArgReduce, LowestIndexOfTiesAndTheFirstNanWins) {
  const auto arg = [](const Literal& x, Combine kind, i64 axis) {
    return run(Op::arg_reduce, {x}, ir::ArgReduceAttrs{kind, axis});
  };
  expect_same(arg(row<i32>({1, 3, 3, 1}), Combine::max, 0), scalar<i32>(1));
  expect_same(arg(row<i32>({1, 3, 3, 1}), Combine::min, 0), scalar<i32>(0));
  expect_same(arg(row<float>({kInf, 2, kNan, kNan}), Combine::max, 0), scalar<i32>(2));
  expect_same(arg(row<float>({-kInf, kNan, 0}), Combine::min, 0), scalar<i32>(1));
  expect_same(arg(row<float>({-0.0, 0.0}), Combine::max, 0), scalar<i32>(0));
  expect_same(arg(make<u8>({2, 2}, {1, 200, 7, 2}), Combine::max, 0), row<i32>({1, 0}));
  expect_same(
      run(Op::arg_reduce, {make<i32>({2, 2}, {1, 2, 4, 3})}, ir::ArgReduceAttrs{Combine::max, 1, DType::i64}),
      row<i64>({1, 0}));
  EXPECT_EQ(arg(Literal(Type{DType::f32, {0, 3}}), Combine::max, 1).count(), 0);
}

TEST(EvalCumulative, RunsBothWaysAndNanStays) {
  const auto run_of = [](const Literal& x, Combine kind, i64 axis, bool reverse) {
    return run(Op::cumulative, {x}, ir::CumulativeAttrs{kind, axis, reverse});
  };
  expect_row<i32>(run_of(row<i32>({1, 2, 3}), Combine::sum, 0, false), {1, 3, 6});
  expect_row<i32>(run_of(row<i32>({1, 2, 3}), Combine::sum, 0, true), {6, 5, 3});
  expect_row<float>(run_of(row<float>({1, kNan, 5, 2}), Combine::max, 0, false), {1, kNan, kNan, kNan});
  expect_row<float>(run_of(row<float>({1, kNan, 5, 2}), Combine::min, 0, true), {kNan, kNan, 2, 2});
  expect_same(run_of(make<i8>({2, 2}, {100, 1, 100, 2}), Combine::sum, 0, false),
              make<i8>({2, 2}, {100, 1, -56, 3}));
  expect_row<float>(run_of(row<float>({1e8, 1, -1e8}), Combine::sum, 0, false), {1e8, 1e8, 1});
  expect_same(run_of(Literal(Type{DType::f32, {2, 0}}), Combine::sum, 1, false),
              Literal(Type{DType::f32, {2, 0}}));
}

TEST(EvalReduceWindow, PadsAndSpreadsWithTheIdentity) {
  const Literal x = row<i32>({1, 2, 3, 4});
  expect_row<i32>(
      run(Op::reduce_window, {x},
          ir::WindowAttrs{
              .kind = Combine::sum, .window = {3}, .strides = {2}, .pad_low = {1}, .pad_high = {1}}),
      {3, 9});
  expect_row<i32>(run(Op::reduce_window, {x},
                      ir::WindowAttrs{.kind = Combine::max, .window = {2}, .window_dilation = {2}}),
                  {3, 4});
  // 1 . 2 . 3 . 4 with holes of the identity
  expect_row<i32>(run(Op::reduce_window, {x},
                      ir::WindowAttrs{.kind = Combine::prod, .window = {2}, .base_dilation = {2}}),
                  {1, 2, 2, 3, 3, 4});
  expect_row<i32>(run(Op::reduce_window, {x},
                      ir::WindowAttrs{.kind = Combine::min, .window = {1}, .pad_low = {1}, .pad_high = {-3}}),
                  {INT32_MAX, 1});
  expect_row<float>(run(Op::reduce_window, {row<float>({1, kNan, 3, 4})},
                        ir::WindowAttrs{.kind = Combine::max, .window = {2}, .strides = {2}}),
                    {kNan, 4});
  // Windows that see nothing at all, by padding of a size no loop could walk.
  const i64 far = INT64_C(1) << 60;
  expect_row<i32>(
      run(Op::reduce_window, {x},
          ir::WindowAttrs{
              .kind = Combine::sum, .window = {1}, .strides = {far}, .pad_low = {far}, .pad_high = {0}}),
      {0, 1});
}

TEST(EvalSort, NanIsLastZerosAreEqualAndOrderIsStable) {
  const Literal keys = row<float>({kNan, 0.0, -0.0, 3, -kInf, kInf, kNan}),
                tags = row<i32>({0, 1, 2, 3, 4, 5, 6});
  const std::vector<Literal> up = run_all(Op::sort, {keys, tags}, ir::SortAttrs{0, false});
  expect_row<float>(up[0], {-kInf, 0.0, -0.0, 3, kInf, kNan, kNan});
  expect_row<i32>(up[1], {4, 1, 2, 3, 5, 0, 6});
  const std::vector<Literal> down = run_all(Op::sort, {keys, tags}, ir::SortAttrs{0, true});
  expect_row<float>(down[0], {kNan, kNan, kInf, 3, 0.0, -0.0, -kInf});
  expect_row<i32>(down[1], {0, 6, 5, 3, 1, 2, 4});
  expect_same(run(Op::sort, {make<u8>({2, 2}, {200, 1, 7, 0})}, ir::SortAttrs{0, false}),
              make<u8>({2, 2}, {7, 0, 200, 1}));
  expect_row<bool>(run(Op::sort, {row<bool>({true, false, true})}, ir::SortAttrs{0, false}),
                   {false, true, true});
  EXPECT_EQ(run(Op::sort, {Literal(Type{DType::f32, {3, 0}})}, ir::SortAttrs{1, false}).count(), 0);
}

TEST(EvalTopK, NanIsLargestAndTiesGoToTheLowerIndex) {
  const std::vector<Literal> r =
      run_all(Op::top_k, {make<float>({2, 4}, {1, kNan, 5, 5, 2, 2, 2, 1})}, ir::TopKAttrs{3});
  expect_same(r[0], make<float>({2, 3}, {kNan, 5, 5, 2, 2, 2}));
  expect_same(r[1], make<i32>({2, 3}, {1, 2, 3, 0, 1, 2}));
  EXPECT_EQ(run_all(Op::top_k, {row<i32>({1, 2})}, ir::TopKAttrs{0})[1].count(), 0);
}

TEST(EvalDot, BatchesFreeAxesAndEmptyContractions) {
  const Literal a = make<i32>({2, 2, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}),
                b = make<i32>({3, 2}, {1, 2, 3, 4, 5, 6});
  // [batch of a's axis 0 with b's axis 1]: result[i, j] = sum over k of a[i, j, k] · b[k, i]
  expect_same(run(Op::dot_general, {a, b}, ir::DotAttrs{{0}, {1}, {2}, {0}, DType::i32}),
              make<i32>({2, 2}, {22, 49, 100, 136}));
  expect_same(run(Op::dot_general, {a, b}, ir::DotAttrs{{}, {}, {2, 0}, {0, 1}, DType::i32}),
              row<i32>({122, 185}));
  expect_same(
      run(Op::dot_general, {row<i32>({1, 2}), row<i32>({3, 4})}, ir::DotAttrs{{}, {}, {}, {}, DType::i32}),
      make<i32>({2, 2}, {3, 4, 6, 8}));
  expect_same(run(Op::dot_general, {Literal(Type{DType::f32, {2, 0}}), Literal(Type{DType::f32, {0, 1}})},
                  ir::DotAttrs{{}, {}, {1}, {0}, DType::f32}),
              make<float>({2, 1}, {0, 0}));
}

TEST(EvalDot, AccumulatesWideAndRoundsOrWrapsOnce) {
  expect_same(run(Op::dot_general, {row<i8>({100, 100}), row<i8>({100, 100})},
                  ir::DotAttrs{{}, {}, {0}, {0}, DType::i8}),
              scalar<i8>(32));
  expect_same(run(Op::dot_general, {row<i8>({100, -128}), row<u8>({200, 255})},
                  ir::DotAttrs{{}, {}, {0}, {0}, DType::i32}),
              scalar<i32>(-12640));
  expect_same(run(Op::dot_general, {row<f16>({60000, 60000}), row<f16>({1, 1})},
                  ir::DotAttrs{{}, {}, {0}, {0}, DType::f32}),
              scalar<float>(120000));
  expect_same(run(Op::dot_general, {row<float>({1e8, 1, -1e8}), row<float>({1, 1, 1})},
                  ir::DotAttrs{{}, {}, {0}, {0}, DType::f32}),
              scalar<float>(1));
  // Longer than every block: 1000 · 0.5 · 0.25.
  expect_same(
      run(Op::dot_general,
          {Literal::full({DType::f32, {70, 1000}}, 0.5), Literal::full({DType::f32, {1000, 5}}, 0.25)},
          ir::DotAttrs{{}, {}, {1}, {0}, DType::f32}),
      Literal::full({DType::f32, {70, 5}}, 125));
}

// The definition: every result element is a sum over kernel positions and input features of its group.
std::vector<double> convolve(const Literal& x, const Literal& kernel, const ir::ConvolutionAttrs& a,
                             const Ints& result) {
  const std::string lx = a.layout.substr(0, a.layout.find('_'));
  const std::string lk = a.layout.substr(lx.size() + 1, lx.size()), lr = a.layout.substr(2 * lx.size() + 3);
  const std::size_t rank = lx.size();
  using Place = std::map<char, i64>;
  const auto sizes = [&](const std::string& layout, const Ints& dims) {
    Place out;
    for (std::size_t i = 0; i < rank; ++i) out[layout[i]] = dims[i];
    return out;
  };
  const auto offset = [&](const std::string& layout, const Ints& dims, Place place) {
    i64 at = 0;
    for (std::size_t i = 0; i < rank; ++i) at = at * dims[i] + place[layout[i]];
    return static_cast<std::size_t>(at);
  };
  const auto place_of = [&](const std::string& layout, const Ints& dims, i64 at) {
    Place place;
    for (std::size_t i = rank; i-- > 0; at /= dims[i]) place[layout[i]] = at % dims[i];
    return place;
  };
  Place nx = sizes(lx, x.dims()), nk = sizes(lk, kernel.dims()), nr = sizes(lr, result);
  const std::vector<double> xs = x.to_doubles(), ks = kernel.to_doubles();
  const i64 group_outputs = nr['f'] / (a.feature_groups * a.batch_groups);
  std::vector<double> out;
  for (i64 r = 0, count = Shape(result).count(); r < count; ++r) {
    Place to = place_of(lr, result, r);
    const i64 group = to['f'] / group_outputs;
    double sum = 0;
    for (i64 k = 0; k < kernel.count(); ++k) {
      Place tap = place_of(lk, kernel.dims(), k), from;
      if (tap['o'] != to['f']) continue;
      from['b'] = to['b'] + (a.batch_groups > 1 ? group * nr['b'] : 0);
      from['f'] = tap['i'] + (a.feature_groups > 1 ? group * nk['i'] : 0);
      bool inside = true;
      for (std::size_t d = 0; d + 2 < rank; ++d) {
        const char axis = static_cast<char>('0' + d);
        const i64 step = a.reverse[d] ? nk[axis] - 1 - tap[axis] : tap[axis];
        const i64 at = to[axis] * a.strides[d] + step * a.kernel_dilation[d] - a.pad_low[d];
        inside =
            inside && at >= 0 && at % a.operand_dilation[d] == 0 && at / a.operand_dilation[d] < nx[axis];
        from[axis] = at / a.operand_dilation[d];
      }
      if (inside) sum += xs[offset(lx, x.dims(), from)] * ks[static_cast<std::size_t>(k)];
    }
    out.push_back(sum);
  }
  return out;
}

void expect_convolution(const ir::ConvolutionAttrs& a, const Shape& x_shape, const Shape& kernel_shape) {
  SCOPED_TRACE(a.layout);
  std::mt19937 random(1);
  const auto filled = [&](const Shape& shape) {
    Literal out(Type{DType::f32, shape});
    for (float& v : out.mutable_values<float>()) v = static_cast<float>(static_cast<int>(random() % 17) - 8);
    return out;
  };
  const Literal x = filled(x_shape), kernel = filled(kernel_shape);
  const Literal got = run(Op::convolution, {x, kernel}, a);
  EXPECT_GT(got.count(), 0);
  EXPECT_EQ(got.to_doubles(), convolve(x, kernel, a, got.dims()));  // small integers: every sum is exact
}

TEST(EvalConvolution, FollowsTheDefinitionForEveryAttribute) {
  expect_convolution({"b01f_01io->b01f", {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {0, 0}}, {2, 5, 4, 3},
                     {3, 3, 3, 5});
  expect_convolution({"bf01_oi01->bf01", {2, 3}, {0, 2}, {1, 0}, {1, 1}, {2, 1}, {0, 0}}, {2, 3, 7, 6},
                     {4, 3, 2, 3});
  expect_convolution({"01bf_io01->f0b1", {1, 2}, {2, -1}, {-1, 3}, {2, 3}, {1, 2}, {1, 0}}, {4, 3, 2, 2},
                     {2, 3, 3, 2});
  expect_convolution({"b0f_0io->b0f", {1}, {1}, {1}, {1}, {1}, {1}, 3}, {2, 6, 6}, {3, 2, 9});
  expect_convolution({"b0f_0io->b0f", {1}, {1}, {1}, {1}, {1}, {0}, 6}, {2, 6, 6}, {3, 1, 6});
  expect_convolution({"b0f_0io->b0f", {2}, {0}, {1}, {1}, {1}, {1}, 1, 2}, {4, 6, 3}, {2, 3, 4});
  expect_convolution({"bf_io->fb", {}, {}, {}, {}, {}, {}}, {3, 4}, {4, 2});
  expect_convolution({"b012f_012io->b012f", {1, 1, 2}, {0, 1, 1}, {1, 0, 1}, {1, 2, 1}, {1, 1, 1}, {0, 1, 0}},
                     {1, 3, 3, 3, 2}, {2, 2, 2, 2, 3});
}

TEST(EvalConvolution, EmptyFeaturesAreZeroAndIntegersWrap) {
  const ir::ConvolutionAttrs a{.layout = "b0f_0io->b0f", .dtype = DType::f32};
  expect_same(
      run(Op::convolution, {Literal(Type{DType::f32, {1, 3, 0}}), Literal(Type{DType::f32, {2, 0, 1}})}, a),
      make<float>({1, 2, 1}, {0, 0}));
  const ir::ConvolutionAttrs i{.layout = "b0f_0io->b0f", .dtype = DType::i8};
  expect_same(run(Op::convolution, {make<i8>({1, 2, 1}, {100, 100}), make<i8>({2, 1, 1}, {1, 1})}, i),
              make<i8>({1, 1, 1}, {-56}));
}

TEST(EvalLinalg, CholeskyReadsOneTriangleAndMarksIndefiniteMatrices) {
  // [[4, 2], [2, 5]] = L·Lᵀ with L = [[2, 0], [1, 2]]; the second matrix is not positive definite.
  const Literal lower = make<double>({2, 2, 2}, {4, 99, 2, 5, 1, 0, 2, 1}),
                upper = make<double>({2, 2}, {4, 2, 99, 5});
  expect_same(run(Op::cholesky, {lower}, ir::CholeskyAttrs{true}),
              make<double>({2, 2, 2}, {2, 0, 1, 2, kNan, kNan, kNan, kNan}));
  expect_same(run(Op::cholesky, {upper}, ir::CholeskyAttrs{false}), make<double>({2, 2}, {2, 1, 0, 2}));
  EXPECT_EQ(run(Op::cholesky, {Literal(Type{DType::f32, {2, 0, 0}})}, ir::CholeskyAttrs{}).count(), 0);
}

TEST(EvalLinalg, TriangularSolveInAllFourDirections) {
  // The other triangle (99) is never read.
  const Literal l = make<double>({2, 2}, {2, 99, 1, 4}), u = make<double>({2, 2}, {2, 1, 99, 4});
  const Literal column = make<double>({2, 1}, {2, 9}), line = make<double>({1, 2}, {2, 9});
  const auto solve = [](const Literal& a, const Literal& b, bool left, bool lower, bool unit,
                        bool transpose) {
    return run(Op::triangular_solve, {a, b}, ir::TriangularSolveAttrs{left, lower, unit, transpose});
  };
  expect_same(solve(l, column, true, true, false, false),
              make<double>({2, 1}, {1, 2}));  // 2x = 2, x + 4y = 9
  expect_same(solve(l, column, true, true, false, true),
              make<double>({2, 1}, {-0.125, 2.25}));  // 2x + y = 2, 4y = 9
  expect_same(solve(u, column, true, false, false, false), make<double>({2, 1}, {-0.125, 2.25}));
  expect_same(solve(l, line, false, true, false, false), make<double>({1, 2}, {-0.125, 2.25}));  // (x y)·l
  expect_same(solve(l, line, false, true, false, true), make<double>({1, 2}, {1, 2}));
  expect_same(solve(l, column, true, true, true, false),
              make<double>({2, 1}, {2, 7}));  // ones on the diagonal
  expect_same(solve(make<double>({1, 1}, {0}), make<double>({1, 1}, {3}), true, true, false, false),
              make<double>({1, 1}, {kInf}));
}

}  // namespace
}  // namespace systole::eval_check
