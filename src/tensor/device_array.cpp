// A backend that runs kernels allocates, reads and writes memory where it lies; the others (reference, PJRT)
// take and give whole values.

#include "systole/tensor/device_array.h"

#include <fmt/format.h>

#include <cstring>
#include <string>

#include "runtime/source_kernels.h"
#include "systole/base/error.h"
#include "tensor/evaluate.h"
#include "tensor/record.h"

namespace systole::detail {

namespace {

constexpr const char* kWhere = "DeviceArray";
constexpr const char* kHost = "HostArray";

runtime::SourceBackend* kernels_on(const runtime::ResolvedDevice& place) {
  return dynamic_cast<runtime::SourceBackend*>(place.backend);
}

runtime::BufferRef uploaded(const runtime::ResolvedDevice& place, const Type& type,
                            std::span<const std::byte> values) {
  // Who takes whole values may keep them as they are, so they must be its own.
  const bool is_copied = kernels_on(place) != nullptr;
  return place.backend->upload(
      is_copied ? Literal::view(type, values.data()) : Literal::copy_of(type, values), place.name.ordinal);
}

void check_bytes(const Type& type, std::size_t got) {
  const auto wanted = static_cast<std::size_t>(type.bytes());
  if (got == wanted) return;
  const std::size_t size = size_of(type.dtype);
  throw Error(ErrorKind::kShape, kWhere, "another number of elements than the array has",
              fmt::format("{} elements ({})", wanted / size, type.to_string()),
              fmt::format("{} elements", got / size));
}

}  // namespace

DeviceMemory::DeviceMemory(const DeviceSpec& device, Type type, Contents contents) {
  check_type(type, kWhere);
  const runtime::ResolvedDevice place = runtime::resolve(device.name());
  if (runtime::SourceBackend* const kernels = kernels_on(place))
    buffer_ = kernels->make_buffer(type, place.name.ordinal, contents == Contents::zeros);
  else
    buffer_ = place.backend->upload(Literal(std::move(type)), place.name.ordinal);
}

DeviceMemory::DeviceMemory(const DeviceSpec& device, Type type, std::span<const std::byte> values) {
  check_type(type, kWhere);
  check_bytes(type, values.size());
  buffer_ = uploaded(runtime::resolve(device.name()), type, values);
}

DeviceMemory::DeviceMemory(const Tensor& tensor, DType wanted) {
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
    throw Error(ErrorKind::kInvalidArgument, kWhere,
                "the array is undefined: never made, moved from or freed");
  return *buffer_;
}

Tensor DeviceMemory::tensor() const {
  buffer();
  return recording::from_buffer(buffer_);
}

bool DeviceMemory::is_exclusive() const {
  if (buffer_.use_count() == 1) return true;
  const runtime::SourceBackend* const kernels = kernels_on(runtime::resolve(buffer_->device()));
  return kernels != nullptr && buffer_.use_count() == 1 + kernels->idle_references(*buffer_);
}

void DeviceMemory::discard() {
  if (buffer().type().bytes() == 0 || is_exclusive()) return;
  const runtime::ResolvedDevice place = runtime::resolve(buffer_->device());
  if (runtime::SourceBackend* const kernels = kernels_on(place))
    buffer_ = kernels->make_buffer(buffer_->type(), place.name.ordinal, false);
}

void DeviceMemory::write(std::span<const std::byte> values) {
  check_bytes(type(), values.size());
  if (values.empty()) return;
  const runtime::ResolvedDevice place = runtime::resolve(buffer_->device());
  runtime::SourceBackend* const kernels = kernels_on(place);
  if (kernels != nullptr && is_exclusive())
    kernels->write(*buffer_, values);
  else
    buffer_ = uploaded(place, buffer_->type(), values);
}

void DeviceMemory::read(std::span<std::byte> values) const {
  check_bytes(type(), values.size());
  if (values.empty()) return;
  const runtime::ResolvedDevice place = runtime::resolve(buffer_->device());
  if (runtime::SourceBackend* const kernels = kernels_on(place)) {
    kernels->read(*buffer_, values);
  } else {
    const Literal all = buffer_->to_host();
    std::memcpy(values.data(), all.bytes(), values.size());
  }
}

void DeviceMemory::copy(const DeviceMemory& from) {
  check_bytes(type(), static_cast<std::size_t>(from.type().bytes()));
  if (buffer_ == from.buffer_) return;
  const runtime::ResolvedDevice place = runtime::resolve(buffer_->device());
  runtime::SourceBackend* const kernels = kernels_on(place);
  if (kernels != nullptr && from.device() == device()) {
    discard();
    kernels->copy(*from.buffer_, *buffer_);
  } else {
    write(from.literal().as_bytes());
  }
}

void DeviceMemory::begin_write(const PinnedMemory& values, const Stream& stream) {
  values.device();  // throws when it is undefined
  check_bytes(type(), values.memory_->size());
  const runtime::ResolvedDevice place = runtime::resolve(buffer_->device());
  const runtime::WorkQueue* const queue = runtime::queue_of(stream, place.name, kWhere);
  runtime::SourceBackend* const kernels = kernels_on(place);
  if (values.memory_->size() == 0) return;
  if (kernels == nullptr) return write({values.bytes(), values.memory_->size()});
  discard();
  kernels->begin_write(*buffer_, *values.memory_, queue);
}

void DeviceMemory::begin_read(PinnedMemory& values, const Stream& stream) const {
  values.device();
  check_bytes(type(), values.memory_->size());
  const runtime::ResolvedDevice place = runtime::resolve(buffer_->device());
  const runtime::WorkQueue* const queue = runtime::queue_of(stream, place.name, kWhere);
  runtime::SourceBackend* const kernels = kernels_on(place);
  if (values.memory_->size() == 0) return;
  if (kernels == nullptr) return read({values.bytes(), values.memory_->size()});
  kernels->begin_read(*buffer_, *values.memory_, queue);
}

PinnedMemory::PinnedMemory(const DeviceSpec& device, std::int64_t count, std::size_t element_bytes) {
  std::int64_t bytes = 0;
  if (count < 0 || __builtin_mul_overflow(count, static_cast<std::int64_t>(element_bytes), &bytes))
    throw Error(ErrorKind::kInvalidArgument, kHost, "a number of elements", "0 or more that can be counted",
                std::to_string(count));
  const runtime::ResolvedDevice place = runtime::resolve(device.name());
  runtime::SourceBackend* const kernels = kernels_on(place);
  const auto size = static_cast<std::size_t>(bytes);
  memory_ = kernels != nullptr ? kernels->make_host_memory(size, place.name)
                               : runtime::plain_host_memory(size, place.name);
}

const DeviceName& PinnedMemory::device() const {
  if (memory_ == nullptr)
    throw Error(ErrorKind::kInvalidArgument, kHost, "it is undefined: never made, moved from or freed");
  return memory_->device();
}

bool PinnedMemory::is_busy() const {
  device();
  return memory_->is_busy();
}

void PinnedMemory::wait() const {
  device();
  memory_->wait();
}

void PinnedMemory::free() { memory_.reset(); }

std::byte* PinnedMemory::bytes() const {
  wait();
  return memory_->data();
}

std::size_t PinnedMemory::byte_size() const { return memory_ != nullptr ? memory_->size() : 0; }

void DeviceMemory::make_exclusive() {
  if (buffer().type().bytes() == 0 || is_exclusive()) return;
  const runtime::ResolvedDevice place = runtime::resolve(buffer_->device());
  runtime::SourceBackend& kernels = runtime::source_backend(place);
  const runtime::BufferRef made = kernels.make_buffer(buffer_->type(), place.name.ordinal, false);
  kernels.copy(*buffer_, *made);
  buffer_ = made;
}

}  // namespace systole::detail
