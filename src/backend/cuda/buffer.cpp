#include "backend/cuda/buffer.h"

#include <utility>

#include "backend/cuda/device.h"
#include "systole/base/error.h"

namespace systole::cuda {

namespace {

using runtime::BufferRef;

constexpr const char* kName = "cuda";

}  // namespace

DeviceBuffer::DeviceBuffer(Type type, MemoryRef memory)
    : type_(std::move(type)), name_{kName, {}, memory->device().ordinal()}, memory_(std::move(memory)) {}

std::shared_ptr<DeviceBuffer> DeviceBuffer::make(const Device& device, const Type& type, Stream stream) {
  return std::make_shared<DeviceBuffer>(type, std::make_shared<Memory>(device, type.bytes(), type, stream));
}

Literal DeviceBuffer::to_host() const {
  if (donated_)
    throw Error(ErrorKind::kInvalidArgument, kName, "a buffer is used after it was donated", {},
                type_.to_string());
  Literal value(type_);
  memory_->device().download(*memory_, value.mutable_bytes());
  return value;
}

BufferRef uploaded(const Literal& value, const Device& device) {
  device.activate();
  auto buffer = DeviceBuffer::make(device, value.type(), device.transfers());
  device.upload(value.bytes(), buffer->memory());
  return buffer;
}

BufferRef copied(const runtime::Buffer& buffer, const Device& device) {
  const auto* const ours = dynamic_cast<const DeviceBuffer*>(&buffer);
  if (ours == nullptr || ours->is_donated() || !device.can_read(ours->memory().device()))
    return uploaded(buffer.to_host(), device);
  device.activate();
  auto copy = DeviceBuffer::make(device, ours->type(), device.transfers());
  device.copy(ours->memory(), copy->memory());
  return copy;
}

}  // namespace systole::cuda
