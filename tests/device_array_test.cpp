// Arrays on devices: values that share memory with each other and with Tensors.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
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
