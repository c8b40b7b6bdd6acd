#pragma once

#include <cstdint>

namespace systole {

std::int64_t last_cache_bytes();  // that a core of this machine has; 0 when the system does not tell

}  // namespace systole
