#pragma once

#include <memory>

#include "systole/runtime.h"

namespace systole::cuda {

std::unique_ptr<runtime::Backend> make_backend();

}  // namespace systole::cuda
