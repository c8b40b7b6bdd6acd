// Objects of a program that live longer than main(): what they do with Tensors in their destructors.

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmath>
#include <iostream>
#include <optional>

#include "child_check.h"
#include "systole/systole.h"

namespace systole {

namespace {

// Made before main(), so before all that the library makes when it is first used, and destroyed after it. No
// compiler may be needed then: LLVM's own objects are gone.
struct Report {
  std::optional<Variable> total;

  bool is_right() const {
    const DeviceScope scope(total->value().device().to_string());
    const auto norm = compile([](const Tensor& x) { return layer_norm(x, ones({2}), zeros({2})); });
    return (*total / 2.0).item<float>() == 3 && sum(exp(zeros({2}))).item<float>() == 2 &&
           softmax(zeros({4})).to_vector<float>()[1] == 0.25f &&
           std::abs(norm(tensor({1.f, 3.f})).to_vector<float>()[0] + 1) < 1e-4f &&
           random::randint(random::next_key(), {1}, 7, 8).to_vector<std::int32_t>()[0] == 7;
  }
  ~Report() {
    if (!total) return;
    try {
      if (is_right()) return;
      std::cerr << "other numbers after main()\n";
    } catch (const std::exception& error) {
      std::cerr << "after main(): " << error.what() << "\n";
    }
    ::_exit(1);
  }
};
Report report;

TEST(StaticObjectsChild, DISABLED_ComputeInTheirDestructors) {
  const char* const device = ::getenv("SYSTOLE_TEST_DEVICE");
  ASSERT_NE(device, nullptr);
  const DeviceScope scope(device);
  report.total.emplace(tensor(6.f));
  EXPECT_TRUE(report.is_right());
}

class StaticObjects : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(On, StaticObjects, testing::Values("reference", "cpu", "opencl:0", "cuda:0"),
                         [](const auto& info) {
                           std::string name = info.param;
                           return name.substr(0, name.find(':'));
                         });

TEST_P(StaticObjects, ComputeInTheirDestructors) {
  try {
    zeros({}).to(GetParam()).eval();
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  ::setenv("SYSTOLE_TEST_DEVICE", GetParam(), 1);
  EXPECT_TRUE(passes_in_a_child("StaticObjectsChild.DISABLED_ComputeInTheirDestructors"));
  ::unsetenv("SYSTOLE_TEST_DEVICE");
}

}  // namespace

}  // namespace systole
