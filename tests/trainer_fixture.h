#pragma once

// What tests of the Trainer share: a small set of points, a network for it, a folder of the test's own.

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "systole/systole.h"

namespace systole {

// Points of two noisy classes, [count, 4] and labels 0 and 1.
struct Points {
  Literal x, y;
};
inline Points points(std::int64_t count) {
  std::vector<float> x;
  std::vector<std::int32_t> y;
  for (std::int64_t i = 0; i < count; ++i) {
    const int label = static_cast<int>(i * 7 % 13 % 2);
    y.push_back(label);
    for (int k = 0; k < 4; ++k)
      x.push_back(
          static_cast<float>(std::sin(static_cast<double>(i * 31 + k * 17)) + (label != 0 ? 0.7 : -0.7)));
  }
  return {Literal::of<float>({count, 4}, x), Literal::of<std::int32_t>({count}, y)};
}

struct Net {
  nn::Linear fc1{4, 8}, fc2{8, 2};
  Tensor forward(const Tensor& x) const { return fc2(tanh(fc1(x))); }
};
inline Net seeded_net() {
  random::seed(3);
  return {};
}

inline std::vector<float> flat(const Parameters& list) {
  std::vector<float> all;
  for (const auto& [name, variable] : list)
    for (const double x : variable.literal().to_doubles()) all.push_back(static_cast<float>(x));
  return all;
}

// A folder within the test's own.
class Scratch {
 public:
  Scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "systole-test-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~Scratch() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

class TrainerTest : public testing::Test {
 protected:
  DeviceScope device{"reference"};
  Points data = points(50);
  data::Source source = data::arrays(data.x, data.y);
};

}  // namespace systole
