#pragma once

// From a device name to the backend that runs it.

#include <string>
#include <string_view>

#include "systole/runtime.h"

namespace systole::runtime {

// Defined beside the backends of the library; called once, before the registry is first read.
void register_builtin_backends();
// Why a backend that the library can have is not registered, and what to do; empty when it knows none of that
// name. Defined beside them too.
std::string why_absent(std::string_view backend);

struct ResolvedDevice {
  Backend* backend;  // lives as long as the process
  DeviceName name;   // never "auto"
};

// Throws kNotFound for an unknown backend or ordinal and kUnsupported, with the reason, when it has no device
// here.
ResolvedDevice resolve(const DeviceName& name);

}  // namespace systole::runtime
