// A backend that runs kernels allocates, reads and writes memory where it lies; the others (reference, PJRT)
// take and give whole values.

#include "systole/tensor/device_array.h"

#include <fmt/format.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

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

DeviceMemory::DeviceMemory(const DeviceMemory& other)
    : storage_(other.storage_ ? std::make_shared<Storage>(*other.storage_) : nullptr),
      type_(other.type_),
      offset_(other.offset_) {}

DeviceMemory& DeviceMemory::operator=(const DeviceMemory& other) & {
  if (this != &other) *this = DeviceMemory(other);
  return *this;
}

DeviceMemory::DeviceMemory(const DeviceSpec& device, Type type, Contents contents) {
  check_type(type, kWhere);
  const runtime::ResolvedDevice place = runtime::resolve(device.name());
  if (runtime::SourceBackend* const kernels = kernels_on(place))
    hold(kernels->make_buffer(type, place.name.ordinal, contents == Contents::zeros));
  else
    hold(place.backend->upload(Literal(std::move(type)), place.name.ordinal));
}

DeviceMemory::DeviceMemory(const DeviceSpec& device, Type type, std::span<const std::byte> values) {
  check_type(type, kWhere);
  check_bytes(type, values.size());
  hold(uploaded(runtime::resolve(device.name()), type, values));
}

DeviceMemory::DeviceMemory(const Tensor& tensor, DType wanted) {
  if (tensor.defined() && tensor.dtype() != wanted)
    throw Error(ErrorKind::kDType, kWhere, "the tensor has another dtype", std::string(name(wanted)),
                std::string(name(tensor.dtype())));
  recording::run_pending({&tensor, 1}, kWhere);
  runtime::BufferRef buffer = recording::buffer_of(tensor);
  if (buffer->placement().devices.size() > 1)
    throw Error(ErrorKind::kUnsupported, kWhere,
                "the tensor lies on several devices: bring it to one by to()");
  hold(std::move(buffer));
}

void DeviceMemory::hold(runtime::BufferRef buffer) {
  type_ = buffer->type();
  storage_ = std::make_shared<Storage>(Storage{std::move(buffer)});
}

const runtime::Buffer& DeviceMemory::buffer() const {
  if (storage_ == nullptr)
    throw Error(ErrorKind::kInvalidArgument, kWhere,
                "the array is undefined: never made, moved from or freed");
  return *storage_->buffer;
}

runtime::BufferPart DeviceMemory::part() const {
  return {&buffer(), offset_, static_cast<std::size_t>(type_.bytes())};
}

bool DeviceMemory::is_whole() const { return type_.bytes() == buffer().type().bytes(); }

bool DeviceMemory::is_exclusive() const {
  const runtime::BufferRef& buffer = storage_->buffer;
  if (buffer.use_count() == 1) return true;
  const runtime::SourceBackend* const kernels = kernels_on(runtime::resolve(buffer->device()));
  return kernels != nullptr && buffer.use_count() == 1 + kernels->idle_references(*buffer);
}

void DeviceMemory::make_exclusive() {
  if (type().bytes() == 0 || is_exclusive()) return;
  const runtime::ResolvedDevice place = runtime::resolve(device());
  runtime::SourceBackend& kernels = runtime::source_backend(place);
  // Slices move with the array; a part that nobody else sees needs no more than itself.
  const bool is_alone = storage_.use_count() == 1 && !is_whole();
  const Type type = is_alone ? type_ : buffer().type();
  const auto bytes = static_cast<std::size_t>(type.bytes());
  runtime::BufferRef made = kernels.make_buffer(type, place.name.ordinal, false);
  kernels.copy({&buffer(), is_alone ? offset_ : 0, bytes}, {made.get(), 0, bytes});
  storage_->buffer = std::move(made);
  if (is_alone) offset_ = 0;
}

DeviceMemory DeviceMemory::alias() const {
  DeviceMemory same;
  same.storage_ = storage_;
  same.type_ = type_;
  same.offset_ = offset_;
  same.is_slice_ = true;
  return same;
}

void DeviceMemory::narrow(std::int64_t start, std::int64_t stop) {
  const std::int64_t rows = shape().rank() > 0 ? shape()[0].value() : 0;
  if (shape().rank() == 0 || start < 0 || start > stop || stop > rows)
    throw Error(ErrorKind::kInvalidArgument, kWhere, "a slice has rows of the first axis",
                fmt::format("a range inside 0 … {}", rows), fmt::format("{} … {}", start, stop));
  runtime::source_backend(runtime::resolve(device()));  // others have whole values
  if (rows > 0) offset_ += static_cast<std::size_t>(type_.bytes() / rows * start);
  type_.shape[0] = stop - start;
}

Literal DeviceMemory::literal() const {
  if (is_whole()) return buffer().to_host().reshaped(type_.shape);
  Literal values(type_);
  read({values.mutable_bytes(), values.byte_size()});
  return values;
}

Tensor DeviceMemory::tensor() const {
  if (is_whole() && type_ == buffer().type()) return recording::from_buffer(storage_->buffer);
  DeviceMemory own(*this);
  const runtime::ResolvedDevice place = runtime::resolve(device());
  runtime::SourceBackend& kernels = runtime::source_backend(place);
  own.hold(kernels.make_buffer(type_, place.name.ordinal, false));
  own.offset_ = 0;
  if (type_.bytes() > 0) kernels.copy(part(), own.part());
  return recording::from_buffer(own.storage_->buffer);
}

std::uint64_t DeviceMemory::address() {
  make_exclusive();
  return std::as_const(*this).address();
}

std::uint64_t DeviceMemory::address() const {
  return runtime::source_backend(runtime::resolve(device())).address(buffer()) + offset_;
}

void DeviceMemory::discard() {
  if (type().bytes() == 0 || is_exclusive()) return;
  if (!is_whole()) return make_exclusive();  // the rest has values
  const runtime::ResolvedDevice place = runtime::resolve(device());
  if (runtime::SourceBackend* const kernels = kernels_on(place))
    storage_->buffer = kernels->make_buffer(buffer().type(), place.name.ordinal, false);
}

void DeviceMemory::write(std::span<const std::byte> values) {
  check_bytes(type(), values.size());
  if (values.empty()) return;
  const runtime::ResolvedDevice place = runtime::resolve(device());
  runtime::SourceBackend* const kernels = kernels_on(place);
  if (kernels == nullptr || (is_whole() && !is_exclusive())) {
    storage_->buffer = uploaded(place, buffer().type(), values);
  } else {
    make_exclusive();
    kernels->write(part(), values);
  }
}

void DeviceMemory::fill(std::span<const std::byte> element, const Stream& stream) {
  const auto bytes = static_cast<std::size_t>(type().bytes());
  const runtime::ResolvedDevice place = runtime::resolve(device());
  const runtime::WorkQueue* const queue = runtime::queue_of(stream, place.name, kWhere);
  if (bytes == 0) return;
  if (runtime::SourceBackend* const kernels = kernels_on(place)) {
    discard();
    kernels->fill(part(), element, queue);
  } else {
    std::vector<std::byte> all(bytes);
    for (std::size_t at = 0; at < bytes; at += element.size())
      std::memcpy(all.data() + at, element.data(), element.size());
    write(all);
  }
}

void DeviceMemory::read(std::span<std::byte> values) const {
  check_bytes(type(), values.size());
  if (values.empty()) return;
  const runtime::ResolvedDevice place = runtime::resolve(device());
  if (runtime::SourceBackend* const kernels = kernels_on(place)) {
    kernels->read(part(), values);
  } else {
    const Literal all = buffer().to_host();
    std::memcpy(values.data(), all.bytes(), values.size());
  }
}

void DeviceMemory::copy(const DeviceMemory& from) {
  check_bytes(type(), static_cast<std::size_t>(from.type().bytes()));
  if (type_.bytes() == 0 || (&buffer() == &from.buffer() && offset_ == from.offset_)) return;
  const runtime::ResolvedDevice place = runtime::resolve(device());
  runtime::SourceBackend* const kernels = kernels_on(place);
  if (kernels == nullptr || !(from.device() == device())) return write(from.literal().as_bytes());
  discard();
  const runtime::BufferPart source = from.part(), target = part();
  const std::size_t apart =
      source.offset > target.offset ? source.offset - target.offset : target.offset - source.offset;
  if (source.buffer == target.buffer && apart < source.bytes) {  // slices of one array
    const runtime::BufferRef between = kernels->make_buffer(type_, place.name.ordinal, false);
    kernels->copy(source, {between.get(), 0, source.bytes});
    kernels->copy({between.get(), 0, source.bytes}, target);
  } else {
    kernels->copy(source, target);
  }
}

void DeviceMemory::begin_write(const PinnedMemory& values, const Stream& stream) {
  values.device();  // throws when it is undefined
  check_bytes(type(), values.memory_->size());
  const runtime::ResolvedDevice place = runtime::resolve(device());
  const runtime::WorkQueue* const queue = runtime::queue_of(stream, place.name, kWhere);
  runtime::SourceBackend* const kernels = kernels_on(place);
  if (values.memory_->size() == 0) return;
  if (kernels == nullptr) return write({values.bytes(), values.memory_->size()});
  discard();
  kernels->begin_write(part(), *values.memory_, queue);
}

void DeviceMemory::begin_read(PinnedMemory& values, const Stream& stream) const {
  values.device();
  check_bytes(type(), values.memory_->size());
  const runtime::ResolvedDevice place = runtime::resolve(device());
  const runtime::WorkQueue* const queue = runtime::queue_of(stream, place.name, kWhere);
  runtime::SourceBackend* const kernels = kernels_on(place);
  if (values.memory_->size() == 0) return;
  if (kernels == nullptr) return read({values.bytes(), values.memory_->size()});
  kernels->begin_read(part(), *values.memory_, queue);
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

}  // namespace systole::detail
