#include "systole/tensor/device_array.h"

#include "runtime/source_kernels.h"
#include "systole/base/error.h"
#include "tensor/evaluate.h"
#include "tensor/record.h"

namespace systole {

namespace {

runtime::BufferRef uploaded(std::string_view device, const Literal& values) {
  const runtime::ResolvedDevice place = runtime::resolve(DeviceName::parse(device));
  return place.backend->upload(values, place.name.ordinal);
}

}  // namespace

DeviceMemory::DeviceMemory(std::string_view device, const Literal& values)
    : buffer_(uploaded(device, values)) {}

DeviceMemory::DeviceMemory(const Tensor& tensor, DType wanted) {
  constexpr const char* kWhere = "DeviceArray";
  if (tensor.defined() && tensor.dtype() != wanted)
    throw Error(ErrorKind::kDType, kWhere, "the tensor has another dtype", std::string(name(wanted)),
                std::string(name(tensor.dtype())));
  recording::run_pending({&tensor, 1}, kWhere);
  buffer_ = recording::buffer_of(tensor);
  if (buffer_->placement().devices.size() > 1)
    throw Error(ErrorKind::kUnsupported, kWhere,
                "the tensor lies on several devices: bring it to one by to()");
}

const runtime::Buffer& DeviceMemory::buffer() const {
  if (buffer_ == nullptr)
    throw Error(ErrorKind::kInvalidArgument, "DeviceArray", "the array is undefined: it was never made");
  return *buffer_;
}

Tensor DeviceMemory::tensor() const {
  buffer();
  return recording::from_buffer(buffer_);
}

void DeviceMemory::assign(const Literal& values) { buffer_ = uploaded(device().to_string(), values); }

void DeviceMemory::make_exclusive() {
  if (buffer().type().bytes() == 0 || buffer_.use_count() == 1) return;
  const runtime::ResolvedDevice place = runtime::resolve(buffer_->device());
  buffer_ = runtime::source_backend(place).copy(*buffer_);
}

}  // namespace systole
