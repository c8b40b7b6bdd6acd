#pragma once

// Kernels written by hand, for composites that neither a library nor the compiler does well. They are C text
// for the sizes at hand, compiled with the program's other kernels; bench/kernels has their measurements.

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/kernel.h"
#include "compile/target.h"

namespace systole::cpu {

struct Tuned {               // one of `reason` and `kernels` is empty
  std::string name, reason;  // "systole.attention"; why it is not taken
  std::int64_t workspace_bytes = 0;
  double nanoseconds = 0;  // of one thread, roughly: decides how many are woken
  std::vector<codegen::Kernel>
      kernels;  // launched one after the other, each with its items cut over the threads
};

// The region's anchor is a composite. No claim where no kernel is written for it.
std::vector<lower::Claim> tuned_offers(const lower::Region& region);
bool is_tuned(const std::string& implementation);                                  // by the name of a claim
Tuned tuned_kernels(const lower::Region& region, const std::string& kernel_name);  // of what was claimed

}  // namespace systole::cpu
