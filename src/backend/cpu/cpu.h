#pragma once

#include <memory>

#include "systole/runtime.h"

namespace systole::cpu {

std::unique_ptr<runtime::Backend> make_backend();

}  // namespace systole::cpu
