// The backends that must conform: one line each.

#include "conformance.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  systole::conformance::register_conformance_tests("reference");
  systole::conformance::register_conformance_tests("cpu");
  systole::conformance::register_conformance_tests("opencl");
  systole::conformance::register_conformance_tests("pjrt:cpu", {.flushes_denormals = true});
  return RUN_ALL_TESTS();
}
