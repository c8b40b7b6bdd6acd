#pragma once

// Tests of kernels that a program brings, once for each device that takes them. A device that is not here is
// skipped with its reason.

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cpu/jit.h"
#include "systole/runtime.h"
#include "systole/tensor/kernels.h"

namespace systole {

using Floats = std::vector<float>;

inline bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// scale: y = factor·x; fill: y = value; mixed: numbers of several types; where: the address of x.
inline const KernelSources kSources{.portable = R"(
S_ENTRY scale(S_GLOBAL const float* x, S_GLOBAL float* y, float factor, int n) {
  const int i = S_THREAD;
  if (i < n) y[i] = factor * x[i];
}
// A comment with a ( and a "quote.
S_ENTRY fill(S_GLOBAL float* y, float value, int n) { if (S_THREAD < n) y[S_THREAD] = value; }
S_ENTRY mixed(S_GLOBAL float* y, s_u8 a, s_i64 b, unsigned int c) {
  y[0] = a;
  y[1] = b;
  y[2] = c;
}
S_ENTRY where(S_GLOBAL const float* x, S_GLOBAL s_u64* y) { y[0] = (s_u64)x; }
)"};

class Kernels : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    runtime::Backend& backend = runtime::backend(device().substr(0, device().find(':')));
    if (backend.devices().empty()) GTEST_SKIP() << backend.unavailable_reason();
    if (device() == "cpu" && contains(cpu::kernels_in_words(), "without kernels"))
      GTEST_SKIP() << cpu::kernels_in_words();
  }
  static std::string device() { return GetParam(); }
  static DeviceArray<float> array(const Floats& values) { return {device(), values}; }
  static const SourceModule& module() {
    static std::map<std::string, SourceModule> made;
    return made.try_emplace(device(), device(), kSources).first->second;
  }
  static std::uint64_t address(const DeviceArray<float>& x) {
    DeviceArray<std::uint64_t> y(device(), {1});
    module().function("where")({.block = {1}})(x, y);
    return y.to_host()[0];
  }
};

inline std::string device_word(const testing::TestParamInfo<std::string>& info) {
  return info.param.substr(0, info.param.find(':'));
}

}  // namespace systole
