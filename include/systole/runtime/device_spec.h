#pragma once

#include <concepts>
#include <string_view>
#include <utility>

#include "systole/runtime.h"

namespace systole {

// Which device, as text ("opencl:0") or as the name that objects on it give.
class DeviceSpec {
 public:
  DeviceSpec(DeviceName name) : name_(std::move(name)) {}
  template <std::convertible_to<std::string_view> Text>
  DeviceSpec(const Text& text) : name_(DeviceName::parse(text)) {}
  const DeviceName& name() const { return name_; }

 private:
  DeviceName name_;
};

}  // namespace systole
