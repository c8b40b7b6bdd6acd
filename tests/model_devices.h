#pragma once

// The devices that whole models are tried on: the reference, generated kernels in C, OpenCL and CUDA and,
// where scripts/setup brought its plugin, XLA's CPU; a plugin that is there and does not start is a failure.
// A test with these as its parameter is named MODEL/reference, MODEL/pjrt_cpu; new values are made on its
// device.

#include <gtest/gtest.h>
#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "sanitized_xla.h"
#include "systole/runtime.h"
#include "systole/tensor/tensor.h"

namespace systole {

class ModelDevice : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    ::setenv("SYSTOLE_PLUGIN_PATH", SYSTOLE_SOURCE_DIR "/.deps", 0);
    const DeviceName name = DeviceName::parse(GetParam());
    const std::string registered = name.backend_name();
    const std::vector<std::string> names = runtime::backend_names();
    if (std::find(names.begin(), names.end(), registered) == names.end())
      GTEST_SKIP() << "no plugin " << registered << " on this machine";
    runtime::Backend& backend = runtime::backend(registered);
    if (backend.devices().empty() && (registered == "opencl" || registered == "cuda"))
      GTEST_SKIP() << "no " << registered << " on this machine: " << backend.unavailable_reason();
    if (backend.devices().empty())
      FAIL() << registered << " is here but does not start: " << backend.unavailable_reason();
    scope_.emplace(GetParam());
  }

  // What was computed elsewhere and moved proves nothing.
  void expect_here(const Tensor& x) const { EXPECT_EQ(x.device(), DeviceName::parse(GetParam())); }

 private:
  std::optional<DeviceScope> scope_;
};

inline auto model_devices() { return testing::Values("reference", "cpu", "opencl:0", "cuda:0", "pjrt:cpu"); }

inline std::string device_suffix(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), ':', '_');
  return name;
}

}  // namespace systole
