#pragma once

// What a plugin says of a topology and of a program compiled for it.

#include <cstdint>
#include <string>

namespace systole::pjrt {

struct TopologyFacts {
  std::string kind;  // of a device: "TPU v5 lite"
  std::int64_t devices = 0;
  std::int64_t memory_bytes = 0;  // of a device, as far as a program can use it; 0: unknown
};

// What the compiler says; of one device.
struct ProgramFacts {
  std::int64_t argument_bytes = 0, output_bytes = 0, alias_bytes = 0, temporary_bytes = 0, code_bytes = 0;
  double flops = 0, bytes_accessed = 0;
  double optimal_seconds = 0;  // not above 0: it does not know
};

}  // namespace systole::pjrt
