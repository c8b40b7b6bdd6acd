// Arrays to and from other libraries: memory is shared, and given back exactly once.

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "error_check.h"
#include "systole/tensor/creation.h"
#include "systole/tensor/dlpack.h"
#include "systole/tensor/math.h"
#include "systole/tensor/shaping.h"
#include "tensor/dlpack_abi.h"
#include "tensor_check.h"

namespace systole {
namespace {

// What another library would hand over; counts how often it gets it back.
template <class Managed>
struct Foreign {
  std::vector<std::int64_t> shape, strides;
  Managed managed{};
  int deleted = 0;

  Foreign(void* data, DLDataType dtype, std::vector<std::int64_t> dims, std::vector<std::int64_t> steps = {})
      : shape(std::move(dims)), strides(std::move(steps)) {
    managed.dl_tensor = {data,  {kDLCPU, 0},  static_cast<std::int32_t>(shape.size()),
                         dtype, shape.data(), strides.empty() ? nullptr : strides.data(),
                         0};
    managed.manager_ctx = this;
    managed.deleter = [](Managed* self) { ++static_cast<Foreign*>(self->manager_ctx)->deleted; };
    if constexpr (requires { managed.version; }) managed.version = {1, 1};
  }
};
using Plain = Foreign<DLManagedTensor>;
using Versioned = Foreign<DLManagedTensorVersioned>;

constexpr DLDataType kFloat32{2, 32, 1};

TEST(Dlpack, ExportDescribesTheArrayAndKeepsItAlive) {
  DLManagedTensor* managed = nullptr;
  {
    const Tensor x = reshape(arange(6, DType::f32), {2, 3}) * 2;
    managed = to_dlpack(x);
  }
  const DLTensor& t = managed->dl_tensor;
  EXPECT_EQ(t.device.device_type, kDLCPU);
  EXPECT_EQ(t.ndim, 2);
  EXPECT_EQ(std::vector<std::int64_t>(t.shape, t.shape + 2), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(std::vector<std::int64_t>(t.strides, t.strides + 2), (std::vector<std::int64_t>{3, 1}));
  EXPECT_EQ(t.dtype.code, 2);
  EXPECT_EQ(t.dtype.bits, 32);
  EXPECT_EQ(t.dtype.lanes, 1);
  const auto* data = static_cast<const float*>(t.data);
  EXPECT_EQ(std::vector<float>(data, data + 6), (std::vector<float>{0, 2, 4, 6, 8, 10}));
  managed->deleter(managed);
}

TEST(Dlpack, VersionedExportIsReadOnly) {
  DLManagedTensorVersioned* managed = to_dlpack_versioned(tensor(7));
  EXPECT_EQ(managed->version.major, 1u);
  EXPECT_EQ(managed->flags, kDlpackReadOnly);
  EXPECT_EQ(managed->dl_tensor.ndim, 0);
  EXPECT_EQ(*static_cast<const std::int32_t*>(managed->dl_tensor.data), 7);
  managed->deleter(managed);
}

TEST(Dlpack, CompactArraysAreUsedInPlace) {
  const DeviceScope device("reference");  // whose memory is what literal() shows
  alignas(64) float data[] = {1, 2, 3, 4, 5, 6};
  Plain foreign(data, kFloat32, {2, 3});
  {
    const Tensor x = from_dlpack(&foreign.managed);
    EXPECT_EQ(static_cast<const void*>(x.literal().bytes()), data);
    expect_tensor(x + 1, {DType::f32, {2, 3}}, {2, 3, 4, 5, 6, 7});
    EXPECT_EQ(foreign.deleted, 0);
  }
  EXPECT_EQ(foreign.deleted, 1);
  Versioned strided(data + 0, kFloat32, {2, 1, 3}, {3, 77, 1});  // an axis of size 1 has any stride
  {
    const Tensor x = from_dlpack(&strided.managed);
    EXPECT_EQ(static_cast<const void*>(x.literal().bytes()), data);
  }
  EXPECT_EQ(strided.deleted, 1);
}

TEST(Dlpack, StridedArraysAreCopied) {
  float data[] = {1, 2, 3, 4, 5, 6};
  Plain foreign(data, kFloat32, {3, 2}, {1, 3});  // the transpose of 2×3
  const Tensor x = from_dlpack(&foreign.managed);
  EXPECT_EQ(foreign.deleted, 1);
  data[0] = 99;
  expect_tensor(x, {DType::f32, {3, 2}}, {1, 4, 2, 5, 3, 6});
  Plain reversed(data + 5, kFloat32, {3}, {-2});
  expect_tensor(from_dlpack(&reversed.managed), {DType::f32, {3}}, {6, 4, 2});
  Plain repeated(data + 1, kFloat32, {2, 2}, {0, 1});
  expect_tensor(from_dlpack(&repeated.managed), {DType::f32, {2, 2}}, {2, 3, 2, 3});
}

TEST(Dlpack, OffsetsAndEmptyArrays) {
  float data[] = {1, 2, 3, 4};
  Plain offset(data, kFloat32, {2});
  offset.managed.dl_tensor.byte_offset = 8;
  expect_tensor(from_dlpack(&offset.managed), {DType::f32, {2}}, {3, 4});
  Plain empty(nullptr, kFloat32, {0, 3});
  expect_tensor(from_dlpack(&empty.managed), {DType::f32, {0, 3}}, {});
  EXPECT_EQ(empty.deleted, 1);
}

TEST(Dlpack, EveryDTypeGoesRound) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const Tensor x = tensor({0, 1, 1, 0}).to(dtype);
    const Tensor y = from_dlpack(to_dlpack(x));
    expect_tensor(y, {dtype, {4}}, {0, 1, 1, 0});
    expect_tensor(from_dlpack(to_dlpack_versioned(x)), {dtype, {4}}, {0, 1, 1, 0});
  }
}

TEST(Dlpack, CodesAreThoseOfTheSpecification) {
  const auto code = [](DType dtype) {
    DLManagedTensor* managed = to_dlpack(zeros({1}, dtype));
    const DLDataType t = managed->dl_tensor.dtype;
    managed->deleter(managed);
    return std::pair<int, int>(t.code, t.bits);
  };
  EXPECT_EQ(code(DType::i8), std::pair(0, 8));
  EXPECT_EQ(code(DType::u64), std::pair(1, 64));
  EXPECT_EQ(code(DType::f16), std::pair(2, 16));
  EXPECT_EQ(code(DType::bf16), std::pair(4, 16));
  EXPECT_EQ(code(DType::boolean), std::pair(6, 8));
  EXPECT_EQ(code(DType::f8e4m3fn), std::pair(10, 8));
  EXPECT_EQ(code(DType::f8e5m2), std::pair(12, 8));
}

TEST(Dlpack, OddBoolsBecomeTrue) {
  std::uint8_t data[] = {0, 1, 200};
  Plain foreign(data, {6, 8, 1}, {3});
  expect_tensor(from_dlpack(&foreign.managed), {DType::boolean, {3}}, {0, 1, 1});
  EXPECT_EQ(data[2], 200);
}

TEST(Dlpack, WhatCannotBeTakenIsGivenBackBeforeTheError) {
  float data[] = {1};
  const auto refuses = [&](ErrorKind kind, auto change) {
    Versioned foreign(data, kFloat32, {1});
    change(foreign.managed);
    error_of(kind, [&] { from_dlpack(&foreign.managed); });
    EXPECT_EQ(foreign.deleted, 1);
  };
  using M = DLManagedTensorVersioned;
  refuses(ErrorKind::kUnsupported,
          [](M& m) { m.dl_tensor.device.device_type = static_cast<DLDeviceType>(2); });
  refuses(ErrorKind::kUnsupported, [](M& m) { m.version.major = 2; });
  refuses(ErrorKind::kUnsupported, [](M& m) { m.dl_tensor.dtype = {5, 64, 1}; });
  refuses(ErrorKind::kUnsupported, [](M& m) { m.dl_tensor.dtype.lanes = 4; });
  refuses(ErrorKind::kShape, [](M& m) { m.dl_tensor.ndim = 1000; });
  refuses(ErrorKind::kShape, [](M& m) { m.dl_tensor.shape[0] = -1; });
  error_of(ErrorKind::kInvalidArgument, [] { from_dlpack(static_cast<DLManagedTensor*>(nullptr)); });
}

TEST(Dlpack, ATensorWithoutDeleterIsFine) {
  float data[] = {1};
  Plain foreign(data, kFloat32, {1});
  foreign.managed.deleter = nullptr;
  expect_tensor(from_dlpack(&foreign.managed), {DType::f32, {1}}, {1});
}

}  // namespace
}  // namespace systole
