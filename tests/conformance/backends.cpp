// The backends that must conform: one line each.

#include <cstdlib>
#include <string_view>

#include "conformance.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  systole::conformance::register_conformance_tests("reference");
  systole::conformance::register_conformance_tests("cpu");
  systole::conformance::register_conformance_tests("opencl");
  systole::conformance::register_conformance_tests("pjrt:cpu", {.flushes_denormals = true});
  systole::conformance::register_conformance_tests_if_there("cuda:0");
  // A further device of the machine at hand, e.g. opencl:1.
  if (const char* const device = std::getenv("SYSTOLE_CONFORMANCE_DEVICE");
      device != nullptr && std::string_view(device) != "cuda:0")
    systole::conformance::register_conformance_tests(device);
  return RUN_ALL_TESTS();
}
