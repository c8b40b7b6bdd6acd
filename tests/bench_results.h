#pragma once

// The first result of a workload against numbers from elsewhere, on every device that models are tried on.

#include <gtest/gtest.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "cli/bench/prepared.h"
#include "cli/bench/workloads.h"
#include "model_devices.h"

namespace systole::cli::bench {

inline constexpr Checksums kResNetChecksums = {849.7503095673387, 1103118.165648812};  // of one image

inline Workload workload_named(std::string_view name) {
  for (const Workload& work : workloads(false))
    if (work.name == name) return work;
  throw std::runtime_error("there is no such workload");
}

class BenchResults : public ModelDevice {
 protected:
  // `tolerance` is relative; f32 sums of some hundred terms are well within it.
  void expect_checksums(std::string_view name, std::int64_t batch, const std::string& dtype,
                        const Checksums& wanted, double tolerance = 1e-5) const {
    Workload work = workload_named(name);
    work.batch = batch;
    work.dtype = dtype;
    const Checksums got = prepare(work, std::string(kOneStep)).checksums.value();
    EXPECT_NEAR(got.magnitude, wanted.magnitude, tolerance * wanted.magnitude) << name << "@" << batch;
    EXPECT_NEAR(got.square, wanted.square, 2 * tolerance * wanted.square) << name << "@" << batch;
  }
};

}  // namespace systole::cli::bench
