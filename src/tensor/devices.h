#pragma once

// Devices by small numbers, since every record carries one.

#include <cstdint>
#include <string_view>

#include "runtime/registry.h"
#include "systole/tensor/tensor.h"

namespace systole::recording {

std::uint8_t device_id(std::string_view name);
const runtime::ResolvedDevice& device(std::uint8_t id);
std::uint8_t current_device_id();
std::uint8_t device_id(const DeviceName& name);

}  // namespace systole::recording
