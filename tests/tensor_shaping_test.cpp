// Shapes, joining, cutting, indexing, gathering and scattering of Tensors. Numbers by numpy 2.2 or by hand.

#include <gtest/gtest.h>

#include <array>
#include <span>
#include <vector>

#include "error_check.h"
#include "systole/tensor/creation.h"
#include "systole/tensor/shaping.h"
#include "systole/tensor/transforms.h"
#include "systole/tensor/variable.h"
#include "tensor_check.h"

namespace systole {
namespace {

const DType f32 = DType::f32, i32 = DType::i32, i64 = DType::i64;

Tensor range(Shape shape) { return reshape(arange(shape.count()), shape); }
std::vector<double> counted(std::int64_t n) {
  std::vector<double> v;
  for (std::int64_t i = 0; i < n; ++i) v.push_back(static_cast<double>(i));
  return v;
}

TEST(Shaping, ReshapeFillsInOneAxis) {
  const Tensor x = arange(12);
  expect_tensor(reshape(x, {3, -1}), {i32, {3, 4}}, counted(12));
  expect_tensor(x.reshape({-1, 2, 3}), {i32, {2, 2, 3}}, counted(12));
  expect_tensor(reshape(x, {12}), {i32, {12}}, counted(12));
  expect_tensor(reshape(tensor(5), {1, 1}), {i32, {1, 1}}, {5});
  expect_tensor(reshape(zeros({0, 3}), {-1, 3}), {f32, {0, 3}}, {});
  const std::string message = error_of(ErrorKind::kShape, [&] { reshape(x, {5, -1}); });
  EXPECT_NE(message.find("reshape"), std::string::npos);
  EXPECT_NE(message.find("i32[12]"), std::string::npos) << message;
  error_of(ErrorKind::kShape, [&] { reshape(x, {5, 2}); });
  error_of(ErrorKind::kShape, [&] { reshape(x, {-1, -1}); });
  error_of(ErrorKind::kShape, [&] { reshape(zeros({0}), {0, -1}); });
  expect_tensor(reshape(x, std::vector<std::int64_t>{2, -1}), {i32, {2, 6}}, counted(12));
  const std::vector<std::int64_t> sizes{2, -1};
  expect_tensor(x.reshape(sizes), {i32, {2, 6}}, counted(12));
  expect_tensor(x.reshape(std::vector<std::int64_t>{12}), {i32, {12}}, counted(12));
  expect_tensor(x.reshape(std::array{2, 6}), {i32, {2, 6}}, counted(12));
  expect_tensor(x.reshape(Ints{6, 2}), {i32, {6, 2}}, counted(12));
  expect_tensor(x.reshape({12}), {i32, {12}}, counted(12));
  EXPECT_EQ(Shape(sizes), (Shape{2, -1}));
  EXPECT_EQ(Shape(std::vector<std::int64_t>{}), Shape());
  EXPECT_EQ(Shape(x.shape().dims()), x.shape());
  expect_tensor(broadcast_to(tensor({5}), std::array{2, 2}), {i32, {2, 2}}, {5, 5, 5, 5});
}

TEST(Shaping, FlattenSqueezeUnsqueeze) {
  const Tensor x = range({2, 3, 4});
  expect_tensor(flatten(x), {i32, {24}}, counted(24));
  expect_tensor(ravel(x), {i32, {24}}, counted(24));
  expect_tensor(x.flatten(1), {i32, {2, 12}}, counted(24));
  expect_tensor(flatten(x, 0, 1), {i32, {6, 4}}, counted(24));
  expect_tensor(flatten(tensor(3)), {i32, {1}}, {3});
  const Tensor y = range({1, 3, 1});
  expect_tensor(squeeze(y), {i32, {3}}, {0, 1, 2});
  expect_tensor(y.squeeze({-1}), {i32, {1, 3}}, {0, 1, 2});
  expect_tensor(squeeze(y, 0), {i32, {3, 1}}, {0, 1, 2});
  expect_tensor(y.squeeze(-1), {i32, {1, 3}}, {0, 1, 2});
  expect_tensor(squeeze(y, Ints{}), {i32, {1, 3, 1}}, {0, 1, 2});
  error_of(ErrorKind::kShape, [&] { squeeze(y, {1}); });
  expect_tensor(unsqueeze(arange(3), -1), {i32, {3, 1}}, {0, 1, 2});
  expect_tensor(expand_dims(arange(3), 0), {i32, {1, 3}}, {0, 1, 2});
  expect_tensor(tensor(3).unsqueeze(0), {i32, {1}}, {3});
  error_of(ErrorKind::kInvalidArgument, [&] { unsqueeze(y, 4); });
}

TEST(Shaping, OrderOfAxes) {
  const Tensor x = range({2, 3});
  expect_tensor(transpose(x), {i32, {3, 2}}, {0, 3, 1, 4, 2, 5});
  expect_tensor(x.transpose(), {i32, {3, 2}}, {0, 3, 1, 4, 2, 5});
  expect_tensor(permute(x, {0, -1}), {i32, {2, 3}}, counted(6));
  expect_tensor(matrix_transpose(range({1, 2, 3})), {i32, {1, 3, 2}}, {0, 3, 1, 4, 2, 5});
  expect_tensor(swap_axes(range({2, 1, 3}), 0, -1), {i32, {3, 1, 2}}, {0, 3, 1, 4, 2, 5});
  expect_tensor(move_axis(range({2, 3, 1}), 0, -1), {i32, {3, 1, 2}}, {0, 3, 1, 4, 2, 5});
  expect_tensor(move_axis(range({2, 3}), -1, 0), {i32, {3, 2}}, {0, 3, 1, 4, 2, 5});
  error_of(ErrorKind::kInvalidArgument, [&] { transpose(x, {0, 2}); });
  error_of(ErrorKind::kShape, [&] { matrix_transpose(arange(2)); });
  expect_tensor(broadcast_to(tensor({{1}, {2}}), {2, 2, 2}), {i32, {2, 2, 2}}, {1, 1, 2, 2, 1, 1, 2, 2});
  error_of(ErrorKind::kShape, [&] { broadcast_to(x, {3}); });
}

TEST(Shaping, JoiningPromotes) {
  expect_tensor(concat({tensor({1, 2}), tensor({3.5})}), {f32, {3}}, {1, 2, 3.5});
  expect_tensor(concat({range({2, 1}), range({2, 2})}, -1), {i32, {2, 3}}, {0, 0, 1, 1, 2, 3});
  expect_tensor(stack({tensor({1, 2}), tensor({3, 4})}), {i32, {2, 2}}, {1, 2, 3, 4});
  expect_tensor(stack({tensor({1, 2}), tensor({3, 4})}, -1), {i32, {2, 2}}, {1, 3, 2, 4});
  expect_tensor(stack({Tensor(1), Tensor(2.5)}), {f32, {2}}, {1, 2.5});
  const std::string message = error_of(ErrorKind::kShape, [] { concat({ones({2, 2}), ones({2, 3})}); });
  EXPECT_NE(message.find("concat"), std::string::npos);
  EXPECT_NE(message.find("f32[2,3]"), std::string::npos) << message;
  error_of(ErrorKind::kShape, [] { stack({ones({2}), ones({3})}); });
  error_of(ErrorKind::kInvalidArgument, [] { concat(std::vector<Tensor>{}); });
}

TEST(Shaping, Cutting) {
  const Tensor x = range({2, 6});
  const std::vector<Tensor> halves = split(x, 2, 1);
  ASSERT_EQ(halves.size(), 2u);
  expect_tensor(halves[1], {i32, {2, 3}}, {3, 4, 5, 9, 10, 11});
  const std::vector<Tensor> parts = split(x, {1, 0, 5}, -1);
  ASSERT_EQ(parts.size(), 3u);
  expect_tensor(parts[0], {i32, {2, 1}}, {0, 6});
  expect_tensor(parts[1], {i32, {2, 0}}, {});
  const std::vector<Tensor> whole = split(x, {2});  // one part of 2 rows, not 2 parts
  ASSERT_EQ(whole.size(), 1u);
  expect_tensor(whole[0], {i32, {2, 6}}, counted(12));
  EXPECT_EQ(split(x, Ints{2, 4}, 1).size(), 2u);
  EXPECT_EQ(split(x, std::vector<std::int64_t>{6}, 1).size(), 1u);
  error_of(ErrorKind::kShape, [&] { split(x, {3}, 1); });
  const std::vector<Tensor> chunks = chunk(arange(7), 3);
  ASSERT_EQ(chunks.size(), 3u);
  expect_tensor(chunks[2], {i32, {1}}, {6});
  error_of(ErrorKind::kShape, [&] { split(x, 4, 1); });
  error_of(ErrorKind::kShape, [&] { split(x, {1, 2}, 1); });
}

TEST(Shaping, RepeatingTurningPadding) {
  const Tensor x = tensor({{1, 2}, {3, 4}});
  expect_tensor(tile(x, {2, 1, 2}), {i32, {2, 2, 4}}, {1, 2, 1, 2, 3, 4, 3, 4, 1, 2, 1, 2, 3, 4, 3, 4});
  expect_tensor(tile(x, {2}), {i32, {2, 4}}, {1, 2, 1, 2, 3, 4, 3, 4});
  expect_tensor(repeat(x, 2, 1), {i32, {2, 4}}, {1, 1, 2, 2, 3, 3, 4, 4});
  expect_tensor(repeat(x, 2, 0), {i32, {4, 2}}, {1, 2, 1, 2, 3, 4, 3, 4});
  expect_tensor(flip(x), {i32, {2, 2}}, {4, 3, 2, 1});
  expect_tensor(flip(x, {-1}), {i32, {2, 2}}, {2, 1, 4, 3});
  expect_tensor(flip(x, 0), {i32, {2, 2}}, {3, 4, 1, 2});
  expect_tensor(flip(x, Ints{}), {i32, {2, 2}}, {1, 2, 3, 4});
  expect_tensor(roll(range({2, 3}), {1, -1}, {0, 1}), {i32, {2, 3}}, {4, 5, 3, 1, 2, 0});
  expect_tensor(roll(arange(4), 5, 0), {i32, {4}}, {3, 0, 1, 2});
  expect_tensor(pad(x, {0, 1}, {1, 0}), {i32, {3, 3}}, {0, 1, 2, 0, 3, 4, 0, 0, 0});
  expect_tensor(pad(x, {0, 0}, {0, 1}, 9), {i32, {2, 3}}, {1, 2, 9, 3, 4, 9});
  expect_tensor(pad(x, {-1, 0}, {0, 0}), {i32, {1, 2}}, {3, 4});
  expect_tensor(pad(range({2, 3}), {1, 1}, {0, 2}, PadMode::edge), {i32, {3, 6}},
                {0, 0, 1, 2, 2, 2, 0, 0, 1, 2, 2, 2, 3, 3, 4, 5, 5, 5});
  expect_tensor(pad(range({2, 3}), {1, 1}, {0, 2}, PadMode::reflect), {i32, {3, 6}},
                {4, 3, 4, 5, 4, 3, 1, 0, 1, 2, 1, 0, 4, 3, 4, 5, 4, 3});
  error_of(ErrorKind::kShape, [&] { pad(x, {2, 0}, {0, 0}, PadMode::reflect); });
}

TEST(Indexing, NumbersSlicesAndNewAxes) {
  const Tensor x = range({2, 3, 4});
  expect_tensor(x[1][0], {i32, {4}}, {12, 13, 14, 15});
  expect_tensor(x[{1, 2, 3}], {i32, {}}, {23});
  expect_tensor(x[{-1, -1, -1}], {i32, {}}, {23});
  expect_tensor(x[{ellipsis, -1}], {i32, {2, 3}}, {3, 7, 11, 15, 19, 23});
  expect_tensor(x[{1, slice({}, {}, -2), slice(1, 3)}], {i32, {2, 2}}, {21, 22, 13, 14});
  expect_tensor(x[{newaxis, 1, ellipsis, newaxis, 0}], {i32, {1, 3, 1}}, {12, 16, 20});
  expect_tensor(x[slice(5, 1, -1)], {i32, {0, 3, 4}}, {});
  expect_tensor(x[{all, slice(-1, -4, -2), 3}], {i32, {2, 2}}, {11, 3, 23, 15});
  expect_tensor(x[{all, all, slice(1, {}, 2)}], {i32, {2, 3, 2}},
                {1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23});
  expect_tensor(x[{all, slice(-100, 100)}], {i32, {2, 3, 4}}, counted(24));
  expect_tensor(arange(5)[slice({}, {}, 1000000000000)], {i32, {1}}, {0});
  expect_tensor(arange(5)[slice({}, {}, INT64_MIN)], {i32, {1}}, {4});
  expect_tensor(x[ellipsis], {i32, {2, 3, 4}}, counted(24));
}

TEST(Indexing, ErrorsNameTheAxisAndItsSize) {
  const Tensor x = range({2, 3});
  const std::string message = error_of(ErrorKind::kInvalidArgument, [&] { x[{0, 3}]; });
  EXPECT_NE(message.find("index 3 is outside axis 1 of size 3; expected -3 to 2"), std::string::npos)
      << message;
  error_of(ErrorKind::kInvalidArgument, [&] { x[-3]; });
  error_of(ErrorKind::kShape, [&] { x[{0, 0, 0}]; });
  error_of(ErrorKind::kShape, [&] { x[{ellipsis, ellipsis}]; });
  error_of(ErrorKind::kInvalidArgument, [&] { x[slice(0, 1, 0)]; });
  error_of(ErrorKind::kDType, [&] { x[tensor({1.5})]; });
  error_of(ErrorKind::kShape, [&] { x[tensor({true, false, true})]; });
  error_of(ErrorKind::kShape, [&] { x[{tensor({0, 1}), tensor({0, 1, 2})}]; });
  error_of(ErrorKind::kShape, [&] { tensor(1)[0]; });
}

TEST(Indexing, IndexTensorsStandWhereNumpyPutsThem) {
  const Tensor x = range({2, 3, 4});
  expect_tensor(x[{0, all, tensor({0, 1})}], {i32, {2, 3}}, {0, 4, 8, 1, 5, 9});
  expect_tensor(x[{all, 0, tensor({1, 3})}], {i32, {2, 2}}, {1, 3, 13, 15});
  expect_tensor(x[{tensor({0, 1}), all, tensor({2, 3})}], {i32, {2, 3}}, {2, 6, 10, 15, 19, 23});
  expect_tensor(x[{tensor({{0}, {1}}), tensor({0, 2})}], {i32, {2, 2, 4}},
                {0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 20, 21, 22, 23});
  expect_tensor(x[{tensor({1, 0}), newaxis, tensor({2, 1})}], {i32, {2, 1, 4}}, {20, 21, 22, 23, 4, 5, 6, 7});
  expect_tensor(x[1][tensor({{2, 0}, {1, 1}})], {i32, {2, 2, 4}},
                {20, 21, 22, 23, 12, 13, 14, 15, 16, 17, 18, 19, 16, 17, 18, 19});
  expect_tensor(x[{all, tensor({2, 0}), tensor({1, 3})}], {i32, {2, 2}}, {9, 3, 21, 15});
  expect_tensor(x[{slice(1, {}), tensor({2, 0}), slice({}, {}, -3)}], {i32, {1, 2, 2}}, {23, 20, 15, 12});
  expect_tensor(x[{tensor(1), tensor(2), tensor(3)}], {i32, {}}, {23});
  expect_tensor(x[tensor(std::vector<std::int64_t>{}, {0})], {i32, {0, 3, 4}}, {});
}

TEST(Indexing, IndexTensorsWrapAndAreLimited) {
  const Tensor x = range({2, 3, 4});
  expect_tensor(x[{all, tensor({-1, 0})}], {i32, {2, 2, 4}},
                {8, 9, 10, 11, 0, 1, 2, 3, 20, 21, 22, 23, 12, 13, 14, 15});
  expect_tensor(arange(3)[tensor({-4, -3, 2, 3, 100})], {i32, {5}}, {0, 0, 2, 2, 2});
  // -1 of 200 elements does not fit i8 when it is counted from the end.
  expect_tensor(arange(200)[tensor({-1, -128}, DType::i8)], {i32, {2}}, {199, 72});
  expect_tensor(arange(200)[tensor({199}, DType::u8)], {i32, {1}}, {199});
}

TEST(Indexing, MasksAreRead) {
  const Tensor x = range({2, 3, 4});
  expect_tensor(x[{all, tensor({true, false, true})}], {i32, {2, 2, 4}},
                {0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 20, 21, 22, 23});
  expect_tensor(x[x % 5 == 0], {i32, {5}}, {0, 5, 10, 15, 20});
  expect_tensor(x[{0, tensor({true, false, true}), tensor({1, 2})}], {i32, {2}}, {1, 10});
  expect_tensor(x[tensor({false, false})], {i32, {0, 3, 4}}, {});
  EXPECT_NE(error_of(ErrorKind::kInvalidArgument,
                     [] { grad([](const Tensor& t) { return sum(t[t > 0]); })(tensor({1.0, -1.0})); })
                .find("where()"),
            std::string::npos);
}

TEST(Indexing, VariablesAreIndicesToo) {
  expect_tensor(arange(4)[Variable(tensor({3, 1}))], {i32, {2}}, {3, 1});
}

TEST(Indexing, ListsMadeAtRunTime) {
  const Tensor x = range({2, 3, 4});
  std::vector<Index> indices(1, all);
  indices.push_back(2);
  indices.push_back(slice(1, {}, 2));
  expect_tensor(x[indices], {i32, {2, 2}}, {9, 11, 21, 23});
  expect_tensor(x[std::span<const Index>(indices).first(2)], {i32, {2, 4}}, {8, 9, 10, 11, 20, 21, 22, 23});
  expect_tensor(x.at(indices).get(), {i32, {2, 2}}, {9, 11, 21, 23});
  expect_tensor(range({2, 2}).at(std::vector<Index>{1, 0}).add(10), {i32, {2, 2}}, {0, 1, 12, 3});
  expect_tensor(x[std::vector<Index>{}], {i32, {2, 3, 4}}, counted(24));
}

TEST(Places, OneIndexNeedsNoBraces) {
  const Tensor x = range({3, 2});
  expect_tensor(x.at(0).set(tensor({7, 8})), {i32, {3, 2}}, {7, 8, 2, 3, 4, 5});
  expect_tensor(x.at(tensor({1, 1})).add(10), {i32, {3, 2}}, {0, 1, 22, 23, 4, 5});
  expect_tensor(x.at(slice(1, {})).multiply(0), {i32, {3, 2}}, {0, 1, 0, 0, 0, 0});
  expect_tensor(x.at(x > 3).set(-1), {i32, {3, 2}}, {0, 1, 2, 3, -1, -1});
  expect_tensor(x.at(ellipsis).min(2), {i32, {3, 2}}, {0, 1, 2, 2, 2, 2});
  expect_tensor(x.at(Variable(tensor({2}))).get(), {i32, {1, 2}}, {4, 5});
}

TEST(Places, BasicPlacesAreChanged) {
  const Tensor x = range({2, 3});
  expect_tensor(x.at({0, all}).set(9), {i32, {2, 3}}, {9, 9, 9, 3, 4, 5});
  expect_tensor(x.at({1}).set(tensor({7, 8, 9})), {i32, {2, 3}}, {0, 1, 2, 7, 8, 9});
  expect_tensor(x.at({all, slice({}, {}, -2)}).set(tensor({{10, 20}, {30, 40}})), {i32, {2, 3}},
                {20, 1, 10, 40, 4, 30});
  expect_tensor(x.at({all, slice({}, {}, 2)}).add(tensor({{10}, {20}})), {i32, {2, 3}},
                {10, 1, 12, 23, 4, 25});
  expect_tensor(x.at({-1, -1}).multiply(3), {i32, {2, 3}}, {0, 1, 2, 3, 4, 15});
  expect_tensor(x.at({slice(0, 1)}).max(1), {i32, {2, 3}}, {1, 1, 2, 3, 4, 5});
  expect_tensor(x.at({ellipsis, slice(1, {})}).min(1), {i32, {2, 3}}, {0, 1, 1, 3, 1, 1});
  expect_tensor(x.at({}).add(1), {i32, {2, 3}}, {1, 2, 3, 4, 5, 6});
  expect_tensor(x.at({slice(1, 1)}).set(5), {i32, {2, 3}}, counted(6));
  expect_tensor(x.at({all, 1}).get(), {i32, {2}}, {1, 4});
  expect_tensor(x.at({0}).set(2.7), {i32, {2, 3}}, {2, 2, 2, 3, 4, 5});
  expect_tensor(x, {i32, {2, 3}}, counted(6));
  const std::string message = error_of(ErrorKind::kShape, [&] { x.at({0}).set(ones({2})); });
  EXPECT_NE(message.find("i32[3]"), std::string::npos) << message;
}

TEST(Places, IndexTensorsScatter) {
  const Tensor x = zeros({3, 2});
  expect_tensor(x.at({tensor({2, 0})}).set(tensor({{1.0, 2.0}, {3.0, 4.0}})), {f32, {3, 2}},
                {3, 4, 0, 0, 1, 2});
  expect_tensor(x.at({tensor({1, 1, -1})}).add(1), {f32, {3, 2}}, {0, 0, 2, 2, 1, 1});
  expect_tensor(x.at({tensor({0, 3, -4})}).add(1), {f32, {3, 2}}, {1, 1, 0, 0, 0, 0});
  expect_tensor(x.at({tensor({0, 2}), tensor({1, 0})}).set(tensor({5.0, 6.0})), {f32, {3, 2}},
                {0, 5, 0, 0, 6, 0});
  expect_tensor(x.at({slice(1, {}), tensor({1, 1})}).add(2), {f32, {3, 2}}, {0, 0, 0, 4, 0, 4});
  expect_tensor(x.at({tensor({2, 2})}).set(tensor({{1.0}, {2.0}})), {f32, {3, 2}}, {0, 0, 0, 0, 2, 2});
  expect_tensor((x + 2).at({tensor({0, 0}), 1}).multiply(3), {f32, {3, 2}}, {2, 18, 2, 2, 2, 2});
  expect_tensor(x.at({tensor({0}), all}).max(tensor({-1.0, 1.0})), {f32, {3, 2}}, {0, 1, 0, 0, 0, 0});
}

TEST(Places, MasksWithOneValueNeedNoCount) {
  const Tensor x = tensor({{1.0, -2.0}, {-3.0, 4.0}});
  expect_tensor(x.at({x < 0}).set(0), {f32, {2, 2}}, {1, 0, 0, 4});
  expect_tensor(x.at({tensor({true, false})}).add(tensor({10.0, 20.0})), {f32, {2, 2}}, {11, 18, -3, 4});
  expect_tensor(x.at({x < 0}).set(tensor({8.0, 9.0})), {f32, {2, 2}}, {1, 8, 9, 4});
  expect_tensor(grad([](const Tensor& t) { return sum(t.at({t < 0}).set(0) * t); })(tensor({3.0, -1.0})),
                {f32, {2}}, {6, 0});
}

TEST(Places, GradientsFollowTheElements) {
  const Tensor x = tensor({1.0, 2.0, 3.0}), w = tensor({10.0, 20.0, 30.0});
  const auto by = [&](auto f) { return grad([&](const Tensor& t) { return sum(f(t) * w); })(x); };
  expect_tensor(by([](const Tensor& t) { return t[tensor({2, 2, 0})]; }), {f32, {3}}, {30, 0, 30});
  expect_tensor(by([](const Tensor& t) { return t.at({1}).set(0); }), {f32, {3}}, {10, 0, 30});
  expect_tensor(by([](const Tensor& t) { return t.at({tensor({0, 0})}).add(t[{slice(0, 2)}]); }), {f32, {3}},
                {20, 30, 30});
  expect_tensor(by([](const Tensor& t) { return t[slice({}, {}, -1)]; }), {f32, {3}}, {30, 20, 10});
}

TEST(Gathering, TakeAndFriends) {
  const Tensor x = tensor({{10, 30, 20}, {60, 40, 50}});
  expect_tensor(take(x, tensor({2, 0}), 1), {i32, {2, 2}}, {20, 10, 50, 60});
  expect_tensor(take(x, tensor({{1, 0}}), 0), {i32, {1, 2, 3}}, {60, 40, 50, 10, 30, 20});
  expect_tensor(take(x, tensor({-1, 1})), {i32, {2}}, {50, 30});
  expect_tensor(take_along_axis(x, tensor({{1, -1}, {0, 2}}), 1), {i32, {2, 2}}, {30, 20, 60, 50});
  expect_tensor(take_along_axis(x, tensor({{1}}), 0), {i32, {1, 3}}, {60, 40, 50});
  expect_tensor(take_along_axis(x, argsort(x, 1), 1), {i32, {2, 3}}, {10, 20, 30, 40, 50, 60});
  error_of(ErrorKind::kShape, [&] { take_along_axis(x, tensor({{0}, {0}, {0}}), 1); });
  expect_tensor(one_hot(tensor({1, 0, 5}), 3), {f32, {3, 3}}, {0, 1, 0, 1, 0, 0, 0, 0, 0});
  expect_tensor(one_hot(tensor(2), 3, i64), {i64, {3}}, {0, 0, 1});
  ir::GatherAttrs g;
  g.offset_axes = {1};
  g.collapsed_axes = g.start_index_map = {0};
  g.index_vector_axis = 1;
  g.slice_sizes = {1, 3};
  expect_tensor(gather(x, tensor({1, 1}), g), {i32, {2, 3}}, {60, 40, 50, 60, 40, 50});
  ir::ScatterAttrs s;
  s.combine = ir::Combine::sum;
  s.inserted_axes = s.index_map = {0};
  s.index_vector_axis = 1;
  expect_tensor(scatter(zeros({3}), tensor({2, 2}), tensor({1, 2}), s), {f32, {3}}, {0, 0, 3});
}

}  // namespace
}  // namespace systole
