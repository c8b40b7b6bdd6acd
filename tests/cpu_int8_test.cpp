// Products and convolutions of bytes with sums in i32: exact whoever makes them, oneDNN or generated kernels.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "int8_check.h"
#include "systole/compile.h"

namespace systole::cpu {
namespace {

constexpr const char* kEither =
    "oneDNN or a kernel";  // as the library's sums of signed bytes are exact or not

// By oneDNN, where it is, or not.
void expect_exact(const Factors& f, const std::string& name = "onednn.matmul_int8") {
  SCOPED_TRACE(testing::Message() << f.rows << "x" << f.depth << "x" << f.columns);
  Graph graph("main");
  graph.output(f.product(graph), "y");
  if (has_onednn() && name != kEither) {
    EXPECT_EQ(library_calls(graph), name);
  }
  const CompiledGraph program = compile(graph, "cpu");
  const Literal x = bytes({f.a, f.a_shape()}, 1), w = bytes({f.b, f.b_shape()}, 2);
  expect_same(program.run({x, w})[0], f.sums(x, w));
}

TEST(Int8, ProductsAreExactHoweverTheirFactorsLie) {
  for (const DType a : {DType::i8, DType::u8})
    for (const bool a_across : {false, true})
      for (const bool b_across : {false, true}) {
        expect_exact({64, 128, 96, a, DType::i8, a_across, b_across});
        expect_exact({37, 61, 43, a, DType::i8, a_across, b_across});
      }
}

TEST(Int8, ProductsOfOddSizesAreExact) {
  expect_exact({160, 1, 160});
  expect_exact({160, 3, 161, DType::u8});
  expect_exact({1, 4099, 17}, kEither);
  expect_exact({1, 4099, 17, DType::u8, DType::i8, false, true});
  expect_exact({203, 255, 1});
}

TEST(Int8, SmallProductsAreGenerated) { expect_exact({4, 8, 4}, ""); }

TEST(Int8, OtherPairsOfBytesAreGenerated) {
  expect_exact({64, 96, 48, DType::u8, DType::u8}, "");
  expect_exact({64, 96, 48, DType::i8, DType::u8}, "");
}

// Sums that f32 does not have, up to the ends of i32.
TEST(Int8, LongSumsOfTheLargestBytesAreExact) {
  const auto expect = [](DType a, std::int64_t depth, int x, int w, int last) {
    const Factors f{5, depth, 7, a};
    Graph graph("main");
    graph.output(f.product(graph), "y");
    std::vector<Literal> arguments = {Literal::full_int({a, f.a_shape()}, x),
                                      Literal::full_int({DType::i8, f.b_shape()}, w)};
    for (std::size_t n = 0; n < 7; ++n)
      arguments[1].mutable_values<std::int8_t>()[static_cast<std::size_t>(depth - 1) * 7 + n] =
          static_cast<std::int8_t>(last);
    const std::int64_t sum = (depth - 1) * x * w + std::int64_t{x} * last;
    ASSERT_EQ(sum, static_cast<std::int32_t>(sum));
    expect_same(compile(graph, "cpu").run(arguments)[0],
                std::vector<std::int32_t>(35, static_cast<std::int32_t>(sum)));
  };
  expect(DType::i8, 131071, -128, -128, -127);
  expect(DType::i8, 131071, 127, -128, -127);
  expect(DType::i8, 1040, -128, -128, 127);
  expect(DType::u8, 65535, 255, -128, 127);
  expect(DType::u8, 65535, 255, 127, 126);
  expect(DType::u8, 521, 255, -128, 127);
}

// Where the whole depth is not exact, parts of it may be.
TEST(Int8, DeepProductsAreExact) {
  expect_exact({65, 2048, 33}, kEither);
  expect_exact({65, 4096, 33, DType::i8, DType::i8, true, true}, kEither);
  expect_exact({33, 3072, 65, DType::u8});
}

TEST(Int8, SumsBeyondI32Wrap) {
  const Factors f{5, 140000, 7};
  Graph graph("main");
  graph.output(f.product(graph), "y");
  const std::vector<Literal> arguments = {Literal::full_int({DType::i8, f.a_shape()}, -128),
                                          Literal::full_int({DType::i8, f.b_shape()}, -128)};
  const auto wrapped = static_cast<std::int32_t>(static_cast<std::uint32_t>(140000u * 16384u));
  expect_same(compile(graph, "cpu").run(arguments)[0], std::vector<std::int32_t>(35, wrapped));
}

TEST(Int8, BatchesOfProductsAreExact) {
  Graph graph("main");
  const Value x = graph.input("x", {DType::i8, {3, 20, 64}}), w = graph.input("w", {DType::i8, {3, 64, 30}});
  graph.output(ops::dot_general(x, w, {2}, {1}, {0}, {0}, DType::i32), "y");
  if (has_onednn()) {
    EXPECT_EQ(library_calls(graph), "onednn.matmul_int8");
  }
  const Literal a = bytes({DType::i8, {3, 20, 64}}, 1), b = bytes({DType::i8, {3, 64, 30}}, 2);
  std::vector<std::int32_t> wanted;
  for (std::size_t i = 0; i < 3 * 20 * 30; ++i) {
    std::int64_t sum = 0;
    for (std::size_t k = 0; k < 64; ++k)
      sum += byte_at(a, i / 30 * 64 + k) * byte_at(b, i / 600 * 64 * 30 + k * 30 + i % 30);
    wanted.push_back(static_cast<std::int32_t>(sum));
  }
  expect_same(compile(graph, "cpu").run({a, b})[0], wanted);
}

TEST(Int8, ConvolutionsAreExact) {
  const BytesLayer layers[] = {
      {.name = "plain", .batch = 2, .channels = 16, .filters = 32, .image = 9, .window = 3},
      {.name = "padded", .batch = 1, .channels = 64, .filters = 64, .image = 14, .window = 3, .padding = 1},
      {.name = "u8",
       .batch = 1,
       .channels = 64,
       .filters = 64,
       .image = 8,
       .window = 3,
       .padding = 1,
       .dtype = DType::u8},
      {.name = "odd",
       .batch = 2,
       .channels = 3,
       .filters = 7,
       .image = 15,
       .window = 3,
       .stride = 2,
       .padding = 1},
      {.name = "point", .batch = 2, .channels = 33, .filters = 65, .image = 7, .window = 1},
      {.name = "dilated",
       .batch = 1,
       .channels = 8,
       .filters = 16,
       .image = 14,
       .window = 3,
       .padding = 2,
       .dilation = 2},
      {.name = "groups",
       .batch = 1,
       .channels = 32,
       .filters = 32,
       .image = 10,
       .window = 3,
       .padding = 1,
       .groups = 4},
      {.name = "depthwise",
       .batch = 2,
       .channels = 48,
       .filters = 48,
       .image = 12,
       .window = 3,
       .padding = 1,
       .groups = 48},
      {.name = "deep", .batch = 1, .channels = 512, .filters = 40, .image = 4, .window = 3, .padding = 1},
      {.name = "u8 deep",
       .batch = 1,
       .channels = 512,
       .filters = 40,
       .image = 4,
       .window = 3,
       .padding = 1,
       .dtype = DType::u8},
      {.name = "channels first",
       .batch = 2,
       .channels = 16,
       .filters = 24,
       .image = 10,
       .window = 3,
       .padding = 1,
       .is_last = false},
      {.name = "u8 first",
       .batch = 2,
       .channels = 3,
       .filters = 24,
       .image = 20,
       .window = 5,
       .stride = 2,
       .padding = 2,
       .dtype = DType::u8,
       .is_last = false},
  };
  for (const BytesLayer& layer : layers) {
    SCOPED_TRACE(layer.name);
    Graph graph("main");
    Value y = layer.convolution(graph);
    if (!layer.is_last) y = ops::transpose(y, {0, 2, 3, 1});
    graph.output(y, "y");
    const std::int64_t depth = layer.window * layer.window * layer.channels / layer.groups;
    if (has_onednn() && (depth <= 1024 || layer.dtype == DType::u8)) {
      EXPECT_EQ(library_calls(graph), "onednn.convolution_int8");
    }
    const Literal x = bytes(layer.x(), 3), w = bytes(layer.w(), 4);
    expect_same(compile(graph, "cpu").run({x, w})[0], layer.sums(x, w));
  }
}

}  // namespace
}  // namespace systole::cpu
