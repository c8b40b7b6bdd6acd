#pragma once

// The reference backend: eval/ behind the runtime's interfaces. It is the oracle that other backends are
// compared with and runs wherever the library runs.

#include <memory>

#include "systole/runtime.h"

namespace systole::runtime {

std::unique_ptr<Backend> make_reference_backend();

}  // namespace systole::runtime
