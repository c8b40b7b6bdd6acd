// DLPack in and out. Both structs are wrapped and unwrapped by the same code: they differ in what surrounds
// the DLTensor.

#include "systole/tensor/dlpack.h"

#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "systole/base/error.h"
#include "tensor/dlpack_abi.h"

namespace systole {

namespace {

// The type codes of DLPack for each of ours.
struct Code {
  DType dtype;
  std::uint8_t code;
};
constexpr std::uint8_t kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kBoolean = 6, kE4m3fn = 10, kE5m2 = 12;
constexpr Code kCodes[] = {{DType::f64, kFloat},   {DType::f32, kFloat},       {DType::f16, kFloat},
                           {DType::bf16, kBfloat}, {DType::f8e4m3fn, kE4m3fn}, {DType::f8e5m2, kE5m2},
                           {DType::i64, kInt},     {DType::i32, kInt},         {DType::i16, kInt},
                           {DType::i8, kInt},      {DType::u64, kUInt},        {DType::u32, kUInt},
                           {DType::u16, kUInt},    {DType::u8, kUInt},         {DType::boolean, kBoolean}};
static_assert(std::size(kCodes) == kDTypeCount);

DLDataType code_of(DType dtype) {
  for (const Code& c : kCodes)
    if (c.dtype == dtype) return {c.code, static_cast<std::uint8_t>(8 * size_of(dtype)), 1};
  throw Error(ErrorKind::kInternal, "to_dlpack", "a dtype without a code");
}

[[noreturn]] void refuse(std::string message, std::string expected, std::string got,
                         ErrorKind kind = ErrorKind::kUnsupported) {
  throw Error(kind, "from_dlpack", std::move(message), std::move(expected), std::move(got));
}

DType dtype_of_code(DLDataType type) {
  if (type.lanes == 1)
    for (const Code& c : kCodes)
      if (c.code == type.code && 8 * size_of(c.dtype) == type.bits) return c.dtype;
  refuse("no dtype of this kind", "a scalar type of 8 to 64 bits",
         fmt::format("code {}, {} bits, {} lanes", type.code, type.bits, type.lanes));
}

// What an exported tensor keeps alive.
template <class Managed>
struct Export {
  Literal value;
  Ints dims, strides;
  Managed managed{};
};

template <class Managed>
Managed* exported(const Tensor& x) {
  auto owner = std::make_unique<Export<Managed>>();
  owner->value = x.literal();
  owner->dims = owner->value.dims();
  owner->strides = row_major_strides(owner->dims);
  DLTensor& t = owner->managed.dl_tensor;
  t.data = const_cast<std::byte*>(owner->value.bytes());
  t.device = {kDLCPU, 0};
  t.ndim = static_cast<std::int32_t>(owner->dims.size());
  t.dtype = code_of(owner->value.dtype());
  t.shape = owner->dims.data();
  t.strides = owner->strides.data();
  t.byte_offset = 0;
  owner->managed.manager_ctx = owner.get();
  owner->managed.deleter = [](Managed* self) {
    const std::unique_ptr<Export<Managed>> owned(static_cast<Export<Managed>*>(self->manager_ctx));
  };
  return &owner.release()->managed;
}

// Whether the elements stand densely in row-major order; axes of size 1 have any stride.
bool is_compact(const DLTensor& t) {
  if (t.strides == nullptr) return true;
  std::int64_t expected = 1;
  for (std::int32_t i = t.ndim; i-- > 0;) {
    if (t.shape[i] != 1 && t.strides[i] != expected) return false;
    expected *= t.shape[i];
  }
  return true;
}

Literal copied(const DLTensor& t, const Type& type, const std::byte* data) {
  Literal value = Literal::uninitialized(type);
  const auto item = static_cast<std::int64_t>(size_of(type.dtype));
  std::byte* out = value.mutable_bytes();
  Ints index(static_cast<std::size_t>(t.ndim), 0);
  std::int64_t offset = 0;
  for (std::int64_t i = 0; i < value.count(); ++i, out += item) {
    std::memcpy(out, data + offset * item, static_cast<std::size_t>(item));
    for (std::int32_t axis = t.ndim; axis-- > 0;) {
      offset += t.strides[axis];
      if (++index[static_cast<std::size_t>(axis)] < t.shape[axis]) break;
      offset -= t.shape[axis] * t.strides[axis];
      index[static_cast<std::size_t>(axis)] = 0;
    }
  }
  return value;
}

template <class Managed>
Tensor imported(Managed* managed) {
  if (managed == nullptr) refuse("nothing to take over", "a tensor", "null", ErrorKind::kInvalidArgument);
  const std::shared_ptr<const void> owner(managed, [](Managed* m) {
    if (m->deleter != nullptr) m->deleter(m);
  });
  if constexpr (std::is_same_v<Managed, DLManagedTensorVersioned>)
    if (managed->version.major != 1)
      refuse("another version of DLPack", "1.x",
             fmt::format("{}.{}", managed->version.major, managed->version.minor));
  const DLTensor& t = managed->dl_tensor;
  const std::int32_t device = t.device.device_type;
  if (device != kDLCPU && device != kDLCUDAHost && device != kDLROCMHost)
    refuse("memory of a device", "host memory: copy it there first", fmt::format("device type {}", device));
  if (t.ndim < 0 || t.ndim > kMaxRank)
    refuse("the number of axes", fmt::format("0 to {}", kMaxRank), std::to_string(t.ndim), ErrorKind::kShape);
  Type type{dtype_of_code(t.dtype), {}};
  for (std::int32_t i = 0; i < t.ndim; ++i) type.shape.push_back(t.shape[i]);
  check_type(type, "from_dlpack");
  if (type.shape.count() == 0) return Tensor(Literal(type));
  const std::byte* const data = static_cast<const std::byte*>(t.data) + t.byte_offset;
  Literal value = is_compact(t) ? Literal::view(type, data, owner) : copied(t, type, data);
  if (type.dtype == DType::boolean) {  // any other byte than 0 and 1 is no bool of ours
    bool clean = true;
    for (const std::byte b : value.as_bytes()) clean = clean && b <= std::byte{1};
    if (!clean)
      for (std::byte& b : std::span(value.mutable_bytes(), value.byte_size()))
        b = std::byte{b != std::byte{0}};
  }
  return Tensor(std::move(value));
}

}  // namespace

DLManagedTensor* to_dlpack(const Tensor& x) { return exported<DLManagedTensor>(x); }

DLManagedTensorVersioned* to_dlpack_versioned(const Tensor& x) {
  DLManagedTensorVersioned* managed = exported<DLManagedTensorVersioned>(x);
  managed->version = {1, 0};
  managed->flags = kDlpackReadOnly;
  return managed;
}

Tensor from_dlpack(DLManagedTensor* managed) { return imported(managed); }
Tensor from_dlpack(DLManagedTensorVersioned* managed) { return imported(managed); }

}  // namespace systole
