// Arrays on devices: values that share memory with each other and with Tensors.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "error_check.h"
#include "kernel_devices.h"
#include "systole/tensor.h"

namespace systole {

namespace {

INSTANTIATE_TEST_SUITE_P(Devices, Kernels, testing::Values("cpu", "opencl:0", "cuda:0"), device_word);

TEST_P(Kernels, ArraysAreValues) {
  const auto fill = module().function("fill");
  DeviceArray<float> a = array({1, 2}), b = a;
  EXPECT_EQ(address(a), address(b));
  fill({.block = {2}})(b, 7, 2);
  EXPECT_EQ(a.to_host(), (Floats{1, 2}));
  EXPECT_EQ(b.to_host(), (Floats{7, 7}));
  const std::uint64_t own = address(b);
  EXPECT_NE(own, address(a));
  fill({.block = {2}})(b, 8, 2);
  EXPECT_EQ(address(b), own);  // nobody else has it: written in place
}

TEST_P(Kernels, MayReadAndWriteOneArray) {
  const auto scale = module().function("scale");
  DeviceArray<float> a = array({1, 2});
  const DeviceArray<float> old = a;  // makes the write copy first
  scale({.block = {2}})(a, a, 10, 2);
  scale({.block = {2}})(a, a, 10, 2);
  EXPECT_EQ(a.to_host(), (Floats{100, 200}));
  EXPECT_EQ(old.to_host(), (Floats{1, 2}));
}

TEST_P(Kernels, ArraysAndTensorsShareMemoryAndTensorsDoNotChange) {
  const auto fill = module().function("fill");
  DeviceArray<float> a = array({1, 2});
  const Tensor t = a.tensor();
  EXPECT_EQ(t.device(), DeviceName::parse(device()));
  const DeviceArray<float> back(t);
  EXPECT_EQ(address(back), address(a));
  fill({.block = {2}})(a, 5, 2);
  EXPECT_EQ(t.to_vector<float>(), (Floats{1, 2}));
  EXPECT_EQ(a.to_host(), (Floats{5, 5}));
  DeviceArray<float> computed(t * 2 + a.tensor());  // evaluated where it lies
  EXPECT_EQ(computed.to_host(), (Floats{7, 9}));
  const std::uint64_t memory = address(computed);
  fill({.block = {1}})(computed, 0, 1);
  EXPECT_EQ(address(computed), memory);
  EXPECT_EQ(computed.to_host(), (Floats{0, 9}));
}

TEST_P(Kernels, AVariablesValueIsKeptWhileItIsAssigned) {
  const DeviceScope scope(device());
  Variable v(tensor({1, 2}, DType::f32));
  auto step = compile([&] {
    v += 1;
    return sum(v);
  });
  DeviceArray<float> before(v.value());
  step().eval();
  EXPECT_EQ(before.to_host(), (Floats{1, 2}));
  module().function("fill")({.block = {2}})(before, 9, 2);
  EXPECT_EQ(v.value().to_vector<float>(), (Floats{2, 3}));
}

TEST_P(Kernels, ArraysTakeNewValuesWhereTheyLie) {
  DeviceArray<float> a(device(), Floats{1, 2, 3, 4}, {2, 2});
  EXPECT_EQ(a.size(), 4);
  EXPECT_EQ(a.shape(), (Shape{2, 2}));
  const std::uint64_t place = address(a);
  a.copy_from(Floats{5, 6, 7, 8});
  EXPECT_EQ(a.to_host(), (Floats{5, 6, 7, 8}));
  EXPECT_EQ(address(a), place);
  const Tensor before = a.tensor();
  a.copy_from(std::array<float, 4>{9, 9, 9, 9});
  EXPECT_EQ(before.to_vector<float>(), (Floats{5, 6, 7, 8}));
  EXPECT_NE(address(a), place);
  EXPECT_EQ(a.shape(), (Shape{2, 2}));
  const std::string words = error_of(ErrorKind::kShape, [&] { a.copy_from(Floats{1}); });
  EXPECT_TRUE(contains(words, "DeviceArray") && contains(words, "expected 4 elements") &&
              contains(words, "got 1 element"))
      << words;
  error_of(ErrorKind::kShape, [&] { DeviceArray<float>(device(), Floats{1, 2}, {3}); });
}

TEST_P(Kernels, ArraysAreCopiedToArraysAndTheHost) {
  const DeviceArray<float> a = array({1, 2, 3});
  DeviceArray<float> b(device(), {3, 1}), far("reference", {3});
  const std::uint64_t place = address(b);
  b.copy_from(a);
  EXPECT_EQ(b.to_host(), (Floats{1, 2, 3}));
  EXPECT_EQ(address(b), place);
  far.copy_from(a);
  EXPECT_EQ(far.to_host(), (Floats{1, 2, 3}));
  far.copy_from(Floats{4, 5, 6});
  b.copy_from(far);
  float values[3];
  b.copy_to(values);
  EXPECT_EQ(Floats(values, values + 3), (Floats{4, 5, 6}));
  EXPECT_EQ(a.to_host(), (Floats{1, 2, 3}));
  Floats few(2);
  error_of(ErrorKind::kShape, [&] { a.copy_to(few); });
  error_of(ErrorKind::kShape, [&] { b.copy_from(DeviceArray<float>(device(), {2})); });
  b.copy_from(b);
  EXPECT_EQ(b.to_host(), (Floats{4, 5, 6}));
}

TEST_P(Kernels, ADiscardedArrayTakesNoCopyOfWhatOthersSee) {
  DeviceArray<float> a = array({1, 2});
  const std::uint64_t place = address(a);
  a.discard();
  EXPECT_EQ(address(a), place);  // nobody else sees it
  const Tensor t = a.tensor();
  a.copy_from(Floats{3, 4});
  const DeviceArray<float> b = a;
  a.discard();
  EXPECT_NE(address(a), address(b));
  module().function("fill")({.block = {2}})(a, 6, 2);
  EXPECT_EQ(a.to_host(), (Floats{6, 6}));
  EXPECT_EQ(b.to_host(), (Floats{3, 4}));
}

// Of 64 rows of 4 floats: from a place where every device lets an object begin, and from one where not.
TEST_P(Kernels, ASliceIsAPartOfItsArraysMemory) {
  const auto fill = module().function("fill"), scale = module().function("scale");
  for (const int row : {32, 3}) {
    Floats wanted(256, 1);
    DeviceArray<float> a(device(), wanted, {64, 4});
    const Tensor before = a.tensor();
    auto part = a.slice(row, row + 2);
    EXPECT_TRUE(part.is_slice());
    EXPECT_EQ(part.shape(), (Shape{2, 4}));
    fill({.block = {8}})(part, 7, 8);
    const auto at = static_cast<std::ptrdiff_t>(4 * row);
    std::fill_n(wanted.begin() + at, 8, 7.0f);
    EXPECT_EQ(a.to_host(), wanted) << row;
    EXPECT_EQ(before.to_vector<float>(), Floats(256, 1));  // no Tensor changes
    EXPECT_EQ(part.to_host(), Floats(8, 7));
    EXPECT_EQ(part.tensor().to_vector<float>(), Floats(8, 7));
    EXPECT_EQ(part.literal().to_doubles()[7], 7);

    scale({.block = {8}})(part, a.slice(0, 2), 2, 8);  // a temporary that is written to
    std::fill_n(wanted.begin(), 8, 14.0f);
    scale({.block = {8}})(part, part, 3, 8);
    std::fill_n(wanted.begin() + at, 8, 21.0f);
    part.slice(1, 2).copy_from(Floats{1, 2, 3, 4});  // a slice of a slice
    for (std::ptrdiff_t i = 0; i < 4; ++i) wanted[static_cast<std::size_t>(at + 4 + i)] = 1.0f + i;
    EXPECT_EQ(a.to_host(), wanted) << row;
    a.slice(row + 1, row + 3).copy_from(part);  // they overlap
    for (std::ptrdiff_t i = 7; i >= 0; --i)
      wanted[static_cast<std::size_t>(at + 4 + i)] = wanted[static_cast<std::size_t>(at + i)];
    EXPECT_EQ(a.to_host(), wanted) << row;
    HostArray<float> host(device(), Floats(8, 5));
    part.copy_from_async(host);
    std::fill_n(wanted.begin() + at, 8, 5.0f);
    part.slice(0, 1).fill(6);
    std::fill_n(wanted.begin() + at, 4, 6.0f);
    part.copy_to_async(host);
    EXPECT_EQ(host[3] * 10 + host[4], 65);
    EXPECT_EQ(a.to_host(), wanted) << row;

    DeviceArray<float> copy = part;  // a value, like any copy
    EXPECT_FALSE(copy.is_slice());
    fill({.block = {8}})(copy, 9, 8);
    EXPECT_EQ(copy.to_host(), Floats(8, 9));
    const DeviceArray<float>& constant = a;
    auto seen = constant.slice(row, row + 1);
    fill({.block = {4}})(seen, 9, 4);
    EXPECT_EQ(seen.to_host(), Floats(4, 9));
    EXPECT_EQ(a.to_host(), wanted) << row;
    a.free();
    EXPECT_EQ(part.to_host()[0], 6);  // it keeps the memory
  }
}

// Where the device lets no memory begin, all that overlaps is one copy or is refused.
TEST_P(Kernels, NothingThatIsWrittenThroughOverlappingSlicesIsLost) {
  const auto fill = SourceModule(device(), {.portable = R"(
S_ENTRY fill(S_GLOBAL float* y, S_GLOBAL float* same, int n) { if (S_THREAD < n) y[S_THREAD] = 1 + S_THREAD; })"})
                        .function("fill");
  DeviceArray<float> a(device(), {8});
  fill({.block = {4}})(a.slice(3, 7), a.slice(3, 5), 4);
  EXPECT_EQ(a.to_host(), (Floats{0, 0, 0, 1, 2, 3, 4, 0}));
  fill({.block = {4}})(a.slice(3, 5), a.slice(3, 7), 1);
  EXPECT_EQ(a.to_host(), (Floats{0, 0, 0, 1, 2, 3, 4, 0}));
  for (const bool is_whole : {true, false}) try {
      fill({.block = {8}})(is_whole ? a.slice(0, 8) : a.slice(2, 8), a.slice(3, 7), 6);
      EXPECT_EQ(a.to_host()[5], is_whole ? 6 : 4);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
      EXPECT_TRUE(contains(error.what(), "overlaps another argument's")) << error.what();
      EXPECT_EQ(device(), "opencl:0");
    }
}

// a.slice(0, 2) = b would make the temporary another array, and leave a as it is.
static_assert(!std::is_assignable_v<DeviceArray<float>, const DeviceArray<float>&>);
static_assert(!std::is_assignable_v<DeviceArray<float>, DeviceArray<float>>);
static_assert(std::is_nothrow_move_assignable_v<DeviceArray<float>>);

TEST_P(Kernels, SlicesHaveTheRowsThereAre) {
  DeviceArray<float> a(device(), {4, 2});
  EXPECT_EQ(a.slice(2, 2).to_host(), Floats{});
  EXPECT_EQ(a.slice(0, 4).shape(), (Shape{4, 2}));
  EXPECT_EQ(a.slice(2, 2).tensor().shape(), (Shape{0, 2}));
  for (const auto& [begin, end] : {std::pair{-1, 2}, {3, 2}, {0, 5}}) {
    const std::string words = error_of(ErrorKind::kInvalidArgument, [&] { a.slice(begin, end); });
    EXPECT_TRUE(contains(words, "0 … 4")) << words;
  }
  for (const int stop : {0, 1})  // a scalar has no rows
    error_of(ErrorKind::kInvalidArgument, [&] { DeviceArray<float>(device(), {}).slice(0, stop); });
  error_of(ErrorKind::kInvalidArgument, [] { DeviceArray<float>().slice(0, 1); });
  error_of(ErrorKind::kUnsupported, [] { DeviceArray<float>("reference", {2}).slice(0, 1); });
  const DeviceArray<float> constant(device(), {4});
  error_of(ErrorKind::kInvalidArgument,
           [&] { module().function("fill")({.block = {2}})(constant.slice(0, 2), 1, 2); });
}

TEST_P(Kernels, ArraysAreFilledWithAValue) {
  const auto check = [&]<class T>(T value) {
    DeviceArray<T> a(device(), {1001});
    const Tensor before = a.tensor();
    a.fill(value);
    EXPECT_EQ(a.to_host(), std::vector<T>(1001, value));
    EXPECT_EQ(before.to_vector<T>()[1000], T{});
    const Stream stream(device());
    a.slice(1, 1000).fill(T{}, stream);
    std::vector<T> wanted(1001, T{});
    wanted.front() = wanted.back() = value;
    EXPECT_EQ(a.to_host(), wanted);
  };
  check.operator()<float>(1.5f);
  check.operator()<double>(-2.25);
  check.operator()<std::int64_t>(0x0123456789abcdef);
  check.operator()<std::uint8_t>(200);
  check.operator()<std::int16_t>(-300);
  check.operator()<bool>(true);
  DeviceArray<float> none(device(), {0}), elsewhere("reference", {2});
  none.fill(1);
  elsewhere.fill(3);
  EXPECT_EQ(elsewhere.to_host(), (Floats{3, 3}));
}

// A table of rows, and a struct with an address.
TEST_P(Kernels, AddressesStandInTablesAndStructs) {
  DeviceArray<float> a = array({1, 2, 3}), b = array({10, 20, 30});
  if (device() == "opencl:0") {
    const std::string words = error_of(ErrorKind::kUnsupported, [&] { a.address(); });
    EXPECT_TRUE(contains(words, "opencl:0") && contains(words, "as an argument")) << words;
    return;
  }
  EXPECT_EQ(a.address(), address(a));
  EXPECT_EQ(a.slice(1, 3).address(), address(a) + sizeof(float));
  const DeviceArray<float> copy = a;
  EXPECT_EQ(copy.address(), address(a));
  EXPECT_NE(a.address(), copy.address());  // it is to be written to: memory of its own
  const SourceModule module(device(), {.portable = R"(
typedef struct { S_GLOBAL float* y; int n; } target;
S_ENTRY sums(S_GLOBAL const float* const* rows, target t) {
  if (S_THREAD < t.n) t.y[S_THREAD] = rows[0][S_THREAD] + rows[1][S_THREAD];
})"});
  struct Target {
    std::uint64_t y;
    int n;
  };
  DeviceArray<float> y(device(), {3});
  const DeviceArray<std::uint64_t> rows(device(), std::vector<std::uint64_t>{a.address(), b.address()});
  module.function<void(const std::uint64_t*, Target)>("sums")(Launch::over(3))(rows, Target{y.address(), 3});
  synchronize(device());
  EXPECT_EQ(y.to_host(), (Floats{11, 22, 33}));
  error_of(ErrorKind::kUnsupported, [] { DeviceArray<float>("reference", {2}).address(); });
}

// Who computes with what it kept of a weight asks whether the weight is as it was.
TEST_P(Kernels, WhatIsWrittenThroughAnAddressIsSeenByCompiledFunctions) {
  if (device() == "opencl:0") GTEST_SKIP() << "it has no addresses";
  constexpr std::int64_t kSize = 128;
  const SourceModule module(device(), {.portable = R"(
S_ENTRY set(S_GLOBAL float* const* rows, float value, int n) { if (S_THREAD < n) rows[0][S_THREAD] = value; })"});
  DeviceArray<float> w(device(), {kSize, kSize});
  const DeviceArray<std::uint64_t> rows(device(), std::vector<std::uint64_t>{w.address()});
  const Tensor x = DeviceArray<float>(device(), Floats(kSize * kSize, 1), {kSize, kSize}).tensor();
  const auto product = compile([](const Tensor& x, const Tensor& w) { return matmul(x, w.transpose()); });
  for (int round = 0; round < 5; ++round) {
    const auto value = static_cast<float>(round / 2);  // twice each: what comes again is kept
    module.function("set")(Launch::over(kSize * kSize))(rows, value, kSize * kSize);
    synchronize(device());
    EXPECT_EQ(product(x, w.tensor()).to_vector<float>(), Floats(kSize * kSize, value * kSize)) << round;
  }
}

TEST_P(Kernels, BracesOfAnArrayAreItsShape) {
  const DeviceArray<float> a(device(), {1024}), b(device(), {2, 3});
  const std::int64_t n = 7;
  const DeviceArray<std::int64_t> c(device(), {n});
  EXPECT_EQ(a.to_host(), Floats(1024, 0));
  EXPECT_EQ(b.shape(), (Shape{2, 3}));
  EXPECT_EQ(c.shape(), Shape{7});
  EXPECT_EQ(DeviceArray<float>::zeros(device(), {2}).to_host(), (Floats{0, 0}));
  EXPECT_EQ(DeviceArray<float>::empty(device(), {5}).shape(), Shape{5});
  EXPECT_EQ(DeviceArray<float>::of(device(), {5}).to_host(), Floats{5});
  EXPECT_EQ(DeviceArray<double>(device(), {}).size(), 1);
}

TEST_P(Kernels, ArraysAreMadeOfAnyRangeOfTheirType) {
  const Floats values{1, 2, 3};
  float plain[] = {1, 2, 3};
  EXPECT_EQ(DeviceArray<float>(device(), values).to_host(), values);
  EXPECT_EQ(DeviceArray<float>(device(), plain).to_host(), values);
  EXPECT_EQ(DeviceArray<float>(device(), std::array<float, 3>{1, 2, 3}).to_host(), values);
  EXPECT_EQ(DeviceArray<float>(device(), std::span<float>(plain)).to_host(), values);
  EXPECT_EQ(DeviceArray<float>(device(), std::span<const float>(values).subspan(1)).to_host(),
            (Floats{2, 3}));
  const std::vector<bool> flags{true, false};
  EXPECT_EQ(DeviceArray<bool>(device(), flags).to_host(), flags);
  static_assert(!std::is_constructible_v<DeviceArray<float>, std::string, std::vector<double>>);
  static_assert(std::is_constructible_v<DeviceArray<float>, DeviceName, Shape>);
}

TEST(DeviceArrays, ComeOnlyFromTensorsOfTheirTypeThatHaveAValue) {
  const std::string words =
      error_of(ErrorKind::kDType, [] { DeviceArray<float>(tensor({1, 2}, DType::i32)); });
  EXPECT_TRUE(contains(words, "i32")) << words;
  error_of(ErrorKind::kInvalidArgument, [] { DeviceArray<float>{Tensor()}; });
  auto traced = compile([](const Tensor& x) { return DeviceArray<float>(x).tensor(); });
  error_of(ErrorKind::kInvalidArgument, [&] { traced(tensor({1, 2}, DType::f32)); });
}

}  // namespace

}  // namespace systole
