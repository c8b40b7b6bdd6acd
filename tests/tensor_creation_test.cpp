// Tensors from numbers, memory, rules and files. Numbers by numpy 2.2 or by hand.

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "error_check.h"
#include "systole/io.h"
#include "systole/tensor/creation.h"
#include "systole/tensor/math.h"
#include "systole/tensor/shaping.h"
#include "tensor_check.h"

namespace systole {
namespace {

const DType f32 = DType::f32, f64 = DType::f64, i32 = DType::i32, boolean = DType::boolean;

TEST(Creation, ListsTakeTheirNaturalDType) {
  expect_tensor(tensor({1, 2, 3}), {i32, {3}}, {1, 2, 3});
  expect_tensor(tensor({1.5, 2.0}), {f32, {2}}, {1.5, 2});
  expect_tensor(tensor({true, false}), {boolean, {2}}, {1, 0});
  expect_tensor(tensor({{1.0, 2.0}, {3.0, 4.0}}, f64), {f64, {2, 2}}, {1, 2, 3, 4});
  expect_tensor(tensor({{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}}), {i32, {2, 2, 2}}, {1, 2, 3, 4, 5, 6, 7, 8});
  expect_tensor(tensor(2.5), {f32, {}}, {2.5});
  expect_tensor(tensor({1, 300}, DType::bf16), {DType::bf16, {2}}, {1, 300});
  expect_tensor(tensor({1.0, 0.1}, f64), {f64, {2}}, {1, 0.1});
}

TEST(Creation, ListsMayMixKindsOfNumbers) {
  expect_tensor(tensor({1, 2.5}), {f32, {2}}, {1, 2.5});
  expect_tensor(tensor({1.5f, 2.0}), {f32, {2}}, {1.5, 2});
  expect_tensor(tensor({true, 2}), {i32, {2}}, {1, 2});
  expect_tensor(tensor({1, 2.5}, f64), {f64, {2}}, {1, 2.5});
  expect_tensor(tensor({{1, 2.5}, {3.0, 4}}), {f32, {2, 2}}, {1, 2.5, 3, 4});
  expect_tensor(tensor({{{1}, {0.5}}}), {f32, {1, 2, 1}}, {1, 0.5});
  expect_tensor(tensor({{1}, {0.5}}), {f32, {2, 1}}, {1, 0.5});
  error_of(ErrorKind::kShape, [] { tensor({{1, 2.5}, {3}}); });
  error_of(ErrorKind::kInvalidArgument, [] { tensor({1, 300.5}, DType::u8); });
}

TEST(Creation, ListsNestAsDeepAsTheyLike) {
  expect_tensor(tensor({{{{1, 2}}, {{3, 4}}}}), {i32, {1, 2, 1, 2}}, {1, 2, 3, 4});
  expect_tensor(tensor({{{{{true}}}}}), {boolean, {1, 1, 1, 1, 1}}, {1});
  expect_tensor(tensor({}), {f32, {0}}, {});
  expect_tensor(tensor({{}, {}}, i32), {i32, {2, 0}}, {});
  EXPECT_NE(error_of(ErrorKind::kShape, [] { tensor({1, {2}}); }).find("a number beside a list"),
            std::string::npos);
  error_of(ErrorKind::kShape, [] { tensor({{1}, 2}); });
  error_of(ErrorKind::kShape, [] { tensor({{}, {1}}); });
  error_of(ErrorKind::kShape, [] { tensor({{1}, {}}); });
  error_of(ErrorKind::kShape, [] { tensor({{}, 1}); });
}

TEST(Creation, RaggedListsAndNumbersOutOfRangeAreRefused) {
  EXPECT_NE(error_of(ErrorKind::kShape, [] { tensor({{1, 2}, {3}}); }).find("different lengths"),
            std::string::npos);
  error_of(ErrorKind::kInvalidArgument, [] { tensor({300}, DType::u8); });
  error_of(ErrorKind::kInvalidArgument, [] { tensor({-1}, DType::u64); });
  error_of(ErrorKind::kInvalidArgument, [] { tensor({~std::uint64_t{0}}, DType::i64); });
  EXPECT_EQ(tensor({~std::uint64_t{0}}, DType::u64).item<std::uint64_t>(), ~std::uint64_t{0});
}

TEST(Creation, VectorsAndSpansKeepTheirDType) {
  expect_tensor(tensor(std::vector<double>{0.1, 0.2}), {f64, {2}}, {0.1, 0.2});
  expect_tensor(tensor(std::vector<std::uint8_t>{1, 2, 3, 4}, {2, 2}), {DType::u8, {2, 2}}, {1, 2, 3, 4});
  expect_tensor(tensor(std::vector<bool>{true, false}), {boolean, {2}}, {1, 0});
  const float data[] = {1, 2, 3};
  expect_tensor(tensor(std::span<const float>(data), {3, 1}), {f32, {3, 1}}, {1, 2, 3});
  error_of(ErrorKind::kShape, [] { tensor(std::vector<int>{1, 2, 3}, {2, 2}); });
  expect_tensor(tensor(data), {f32, {3}}, {1, 2, 3});
  expect_tensor(tensor(std::array{1.0, 2.0}), {f64, {2}}, {1, 2});
  std::vector<float> changing{1, 2};
  const Tensor copy = tensor(std::span(changing), {2, 1});
  changing[0] = 9;
  expect_tensor(copy, {f32, {2, 1}}, {1, 2});
}

TEST(Creation, MemoryIsConvertedWhenADTypeIsGiven) {
  expect_tensor(tensor(std::vector{1.5, 2.5}, f32), {f32, {2}}, {1.5, 2.5});
  expect_tensor(tensor(std::array{1, 2, 3, 4}, {2, 2}, f64), {f64, {2, 2}}, {1, 2, 3, 4});
  expect_tensor(tensor(std::vector<bool>{true, false}, i32), {i32, {2}}, {1, 0});
  const std::vector<std::int64_t> labels{3, 1};
  expect_tensor(tensor(std::span(labels), i32), {i32, {2}}, {3, 1});
}

TEST(Creation, MemoryIsUsedInPlaceAndGivenBackOnce) {
  const DeviceScope device("reference");  // others have memory of their own
  alignas(64) const float data[] = {1, 2, 3, 4};
  expect_tensor(from_span(std::span<const float>(data), {2, 2}), {f32, {2, 2}}, {1, 2, 3, 4});
  error_of(ErrorKind::kShape, [&] { from_span(std::span<const float>(data), {3}); });
  std::vector<float> changing{1, 2};
  const Tensor lent = from_span(changing), square = from_span(std::span(data), {2, 2});
  EXPECT_EQ(lent.type().to_string(), "f32[2]");
  expect_tensor(square, {f32, {2, 2}}, {1, 2, 3, 4});
  expect_tensor(from_span(data), {f32, {4}}, {1, 2, 3, 4});
  int freed = 0;
  double numbers[] = {5, 6};
  {
    const Tensor x = from_pointer(numbers, {f64, {2}}, [&](void* p) {
      EXPECT_EQ(p, numbers);
      ++freed;
    });
    expect_tensor(x, {f64, {2}}, {5, 6});
    EXPECT_EQ(freed, 0);
  }
  EXPECT_EQ(freed, 1);
}

template <class R>
concept Lends = requires(R&& range) { from_span(std::forward<R>(range)); };
static_assert(Lends<std::vector<float>&> && Lends<const std::array<int, 2>&> && Lends<std::span<float>>);
static_assert(!Lends<std::vector<float>> && !Lends<std::array<int, 2>> && !Lends<std::vector<bool>&>);

TEST(Creation, ShapesMayBeVectors) {
  const std::vector<std::int64_t> sizes{2, 1};
  expect_tensor(zeros(sizes), {f32, {2, 1}}, {0, 0});
  expect_tensor(ones(std::array{2}, i32), {i32, {2}}, {1, 1});
  expect_tensor(full(Ints{1, 2}, 7), {i32, {1, 2}}, {7, 7});
  expect_tensor(zeros(std::vector<std::int64_t>{}), {f32, {}}, {0});
}

TEST(Creation, FilledTensors) {
  expect_tensor(zeros({2, 2}), {f32, {2, 2}}, {0, 0, 0, 0});
  expect_tensor(ones({3}, DType::i64), {DType::i64, {3}}, {1, 1, 1});
  expect_tensor(zeros({}), {f32, {}}, {0});
  expect_tensor(zeros({0, 3}), {f32, {0, 3}}, {});
  expect_tensor(full({2}, 2.5), {f32, {2}}, {2.5, 2.5});
  expect_tensor(full({2}, 7), {i32, {2}}, {7, 7});
  expect_tensor(full({2, 2}, tensor({1, 2}), f64), {f64, {2, 2}}, {1, 2, 1, 2});
  const Tensor x = tensor({1, 2}, DType::i16);
  expect_tensor(zeros_like(x), {DType::i16, {2}}, {0, 0});
  expect_tensor(ones_like(x, f32), {f32, {2}}, {1, 1});
  expect_tensor(full_like(x, 3), {DType::i16, {2}}, {3, 3});
  error_of(ErrorKind::kShape, [] { zeros({-2}); });
}

TEST(Creation, Ranges) {
  expect_tensor(arange(4), {i32, {4}}, {0, 1, 2, 3});
  expect_tensor(arange(3, f32), {f32, {3}}, {0, 1, 2});
  expect_tensor(arange(2, 11, 3), {i32, {3}}, {2, 5, 8});
  expect_tensor(arange(2, 5, f32), {f32, {3}}, {2, 3, 4});
  expect_tensor(arange(0.5, 3, f64), {f64, {3}}, {0.5, 1.5, 2.5});
  expect_tensor(arange(5, 0, -2), {i32, {3}}, {5, 3, 1});
  expect_tensor(arange(5, 2), {i32, {0}}, {});
  expect_tensor(arange(0.0, 1.0, 0.25), {f32, {4}}, {0, 0.25, 0.5, 0.75});
  expect_tensor(arange(1, 4, 1, DType::u8), {DType::u8, {3}}, {1, 2, 3});
  expect_tensor(arange(3000000000, 3000000002, DType::u32), {DType::u32, {2}}, {3e9, 3000000001.0});
  expect_tensor(arange(-2000000000, 2000000000, 3000000000), {i32, {2}}, {-2e9, 1e9});
  error_of(ErrorKind::kInvalidArgument, [] { arange(0, 1, 0); });
  expect_tensor(linspace(-1, 2, 5), {f32, {5}}, {-1, -0.25, 0.5, 1.25, 2}, 1e-7);
  expect_tensor(linspace(0.1, 0.7, 4, f64)[-1], {f64, {}}, {0.7});
  expect_tensor(linspace(3, 4, 1), {f32, {1}}, {3});
  const std::vector<Tensor> grids = meshgrid({arange(2), arange(3)});
  expect_tensor(grids[0], {i32, {2, 3}}, {0, 0, 0, 1, 1, 1});
  expect_tensor(grids[1], {i32, {2, 3}}, {0, 1, 2, 0, 1, 2});
}

TEST(Creation, Matrices) {
  expect_tensor(eye(2), {f32, {2, 2}}, {1, 0, 0, 1});
  expect_tensor(eye(2, 3, i32), {i32, {2, 3}}, {1, 0, 0, 0, 1, 0});
  expect_tensor(tri(2, 4, 1), {f32, {2, 4}}, {1, 1, 0, 0, 1, 1, 1, 0});
  const Tensor x = reshape(arange(12), {3, 4});
  expect_tensor(tril(x, 1), {i32, {3, 4}}, {0, 1, 0, 0, 4, 5, 6, 0, 8, 9, 10, 11});
  expect_tensor(triu(x, -1), {i32, {3, 4}}, {0, 1, 2, 3, 4, 5, 6, 7, 0, 9, 10, 11});
  expect_tensor(diag(tensor({1, 2}), -1), {i32, {3, 3}}, {0, 0, 0, 1, 0, 0, 0, 2, 0});
  expect_tensor(diag(tensor({1, 2}), 1), {i32, {3, 3}}, {0, 1, 0, 0, 0, 2, 0, 0, 0});
  expect_tensor(diag(x, 1), {i32, {3}}, {1, 6, 11});
  expect_tensor(diag(x, -2), {i32, {1}}, {8});
  expect_tensor(diagonal(x, 9), {i32, {0}}, {});
  expect_tensor(diagonal(reshape(arange(8), {2, 2, 2})), {i32, {2, 2}}, {0, 3, 4, 7});
  error_of(ErrorKind::kShape, [] { tril(arange(3)); });
}

TEST(Creation, TensorsGoThroughNpy) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / "systole_tensor_creation_test.npy";
  io::save_npy(file, tensor({{1.0, 2.0}, {3.0, 4.0}}, f64) * 2);
  expect_tensor(io::load_npy_tensor(file), {f64, {2, 2}}, {2, 4, 6, 8});
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace systole
