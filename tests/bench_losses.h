#pragma once

// The first three losses of a workload against the peers', on every device that models are tried on.

#include <gtest/gtest.h>

#include <cstddef>
#include <string_view>
#include <vector>

#include "cli/bench/prepared.h"
#include "cli/bench/workloads.h"
#include "model_devices.h"

namespace systole::cli::bench {

inline const std::vector<double> kT3Losses = {7.8104, 10.6075, 10.9031}, kT5Losses = {2.3081, 2.2647, 2.2218},
                                 kT6Losses = {10.8780, 10.4907, 10.1510};

class BenchLosses : public ModelDevice {
 protected:
  void expect_losses(std::string_view name, std::int64_t batch, std::string_view mode,
                     const std::vector<double>& wanted, double tolerance = 2e-4) const;
};

inline void BenchLosses::expect_losses(std::string_view name, std::int64_t batch, std::string_view mode,
                                       const std::vector<double>& wanted, double tolerance) const {
  for (const Workload& work : workloads(false)) {
    if (work.name != name || work.batch != batch) continue;
    const std::vector<double> losses = prepare(work, std::string(mode)).first_losses;
    ASSERT_GE(losses.size(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i)
      EXPECT_NEAR(losses[i], wanted[i], tolerance)
          << name << "@" << batch << " " << mode << ", step " << i + 1;
    return;
  }
  ADD_FAILURE() << "there is no " << name << " with batch " << batch;
}

}  // namespace systole::cli::bench
