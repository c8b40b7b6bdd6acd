#pragma once

// The devices that whole models are tried on: the reference and, where scripts/setup brought its plugin,
// XLA's CPU. A test with these as its parameter is named MODEL/reference, MODEL/pjrt_cpu; new values are made
// on its device.

#include <gtest/gtest.h>
#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>

#include "sanitized_xla.h"
#include "systole/base/error.h"
#include "systole/runtime.h"
#include "systole/tensor/tensor.h"

namespace systole {

class ModelDevice : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    ::setenv("SYSTOLE_PLUGIN_PATH", SYSTOLE_SOURCE_DIR "/.deps", 0);
    const DeviceName name = DeviceName::parse(GetParam());
    try {
      runtime::Backend& backend =
          runtime::backend(name.plugin.empty() ? name.backend : name.backend + ":" + name.plugin);
      if (backend.devices().empty()) GTEST_SKIP() << GetParam() << ": " << backend.unavailable_reason();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kNotFound) throw;
      GTEST_SKIP() << error.what();
    }
    scope_.emplace(GetParam());
  }

  // What was computed elsewhere and moved proves nothing.
  void expect_here(const Tensor& x) const { EXPECT_EQ(x.device(), DeviceName::parse(GetParam())); }

 private:
  std::optional<DeviceScope> scope_;
};

inline auto model_devices() { return testing::Values("reference", "pjrt:cpu"); }

inline std::string device_suffix(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), ':', '_');
  return name;
}

}  // namespace systole
