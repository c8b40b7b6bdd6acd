#pragma once

#include <systole/systole.h>

#include <initializer_list>
#include <string>

// The first of these kinds of device that is here: first_device({"tpu", "pjrt:cpu", "reference"}).
inline std::string first_device(std::initializer_list<const char*> kinds) {
  for (const char* kind : kinds)
    for (const systole::runtime::DeviceInfo& device : systole::devices())
      if (device.name.backend_name() == kind) return kind;
  return "auto";
}
