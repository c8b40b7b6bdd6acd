#pragma once

// Comparison of a Tensor with numbers written in a test.

#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>
#include <vector>

#include "systole/tensor/tensor.h"

namespace systole {

inline void expect_tensor(const Tensor& x, const Type& type, const std::vector<double>& expected,
                          double tolerance = 0) {
  EXPECT_EQ(x.type().to_string(), type.to_string());
  const std::vector<double> got = x.literal().to_doubles();
  ASSERT_EQ(got.size(), expected.size()) << x.to_string();
  for (std::size_t i = 0; i < got.size(); ++i) {
    const bool same = got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i]));
    EXPECT_TRUE(same || std::abs(got[i] - expected[i]) <= tolerance * std::max(1.0, std::abs(expected[i])))
        << "element " << i << ": " << got[i] << ", expected " << expected[i] << "\n"
        << x.to_string();
  }
}

}  // namespace systole
