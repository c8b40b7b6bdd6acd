#pragma once

// The conformance suite. Every fixture is a test of every backend that joins, by one line in backends.cpp:
// the graph is compiled with and without the standard passes, run, and compared with values that never came
// from this library. Its gradient is compared with differences.

#include <gtest/gtest.h>
#include <string>

#include "systole/runtime.h"

namespace systole::conformance {

class Conformance : public testing::Test {};

// What a backend may do that docs/ir.md allows to it alone.
struct BackendRules {
  bool flushes_denormals = false;
};

// Tests Conformance.ROW/DEVICE, Unoptimised_ROW/DEVICE and Gradient_ROW/DEVICE for every fixture, and
// Conformance.RandomGraphs/DEVICE.
void register_conformance_tests(const std::string& device, const BackendRules& rules = {});
// The same for a device of this machine; one skipped test, Conformance.Rows/DEVICE, where it has none.
void register_conformance_tests_if_there(const std::string& device);
void register_gradient_tests(const std::string& device);
std::string test_name(const std::string& row, const std::string& device);

// The device's backend when it has devices here, else null and the reason.
runtime::Backend* available(const std::string& device, std::string& reason);
// Why the backend cannot run the graph, or empty. What a kernel call or composite has a body for runs as its
// body.
std::string refusal(const runtime::Backend& backend, const ir::Graph& graph);

// Compares `device` with the evaluation of unoptimised random graphs; the seed is SYSTOLE_SEED or a fixed
// one.
void check_random_graphs(const std::string& device);

}  // namespace systole::conformance
