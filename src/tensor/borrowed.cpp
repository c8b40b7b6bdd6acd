#include "tensor/borrowed.h"

#include "runtime/host_memory.h"
#include "tensor/devices.h"
#include "tensor/record.h"

namespace systole::recording {

namespace {

runtime::HostMemoryBackend* host_memory(const runtime::ResolvedDevice& place) {
  return dynamic_cast<runtime::HostMemoryBackend*>(place.backend);
}

}  // namespace

bool computes_in_host_memory(std::string_view name) {
  return host_memory(device(device_id(name))) != nullptr;
}

Tensor borrowed(const Literal& value, std::string_view name) {
  const runtime::ResolvedDevice& place = device(device_id(name));
  runtime::HostMemoryBackend* const host = host_memory(place);
  return from_buffer(host != nullptr ? host->borrow(value, place.name.ordinal)
                                     : place.backend->upload(value, place.name.ordinal));
}

}  // namespace systole::recording
