#pragma once

// Tests against the fake driver, with a small program of a kernel, y = x + x, and a copy, of a constant.

#include <gtest/gtest.h>
#include <stdlib.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../error_check.h"
#include "../scratch_folder.h"
#include "backend/cuda/buffer.h"
#include "backend/cuda/device.h"
#include "backend/cuda/nvrtc.h"
#include "backend/cuda/session.h"
#include "fake_driver.h"
#include "systole/ir/graph.h"

namespace systole::cuda {

inline constexpr std::int64_t kLength = 4;

inline ir::Graph doubling() {
  ir::Graph graph("doubling");
  const ir::Value x = graph.input("x", {DType::f32, {kLength}});
  graph.output(graph.add(ir::Op::add, {x, x}), "y");
  graph.output(graph.constant(Literal::of<float>({kLength}, {5, 3, 9, 1})), "c");
  return graph;
}

inline Literal numbers(float first) {
  return Literal::of<float>({kLength}, {first, first + 1, first + 2, first + 3});
}

inline std::vector<float> values_of(const Literal& literal) {
  const auto values = literal.values<float>();
  return {values.begin(), values.end()};
}

class FakeCuda : public ScratchFolder {
 protected:
  FakeCuda() {
    ::setenv("SYSTOLE_PLUGIN_PATH", SYSTOLE_SOURCE_DIR "/.deps", 0);
    ::setenv("SYSTOLE_CACHE_DIR", folder_.c_str(), 1);  // a test compiles its kernel once
    ::setenv("SYSTOLE_CACHE_MIN_MS", "0", 1);
    ::setenv("SYSTOLE_CACHE", "1", 1);
  }
};

// What the program's kernel does.
inline void give_kernel(FakeDriver& fake) {
  fake.set_kernel(2, [](FakeLaunch& launch) {
    const float* const x = launch.read(0, kLength);
    float* const y = launch.write(1, kLength);
    for (std::int64_t i = 0; i < kLength; ++i) y[i] = x[i] + x[i];
  });
}

// A session of the program, and its results for x, on the host.
inline std::unique_ptr<runtime::Session> new_session(const Device& device) {
  return make_session(make_module(device, doubling(), {}));
}
inline std::vector<runtime::BufferRef> run(runtime::Session& session, const runtime::BufferRef& x,
                                           bool donated = false) {
  runtime::RunArguments arguments;
  arguments.per_device.push_back({x});
  if (donated) arguments.donated.push_back(0);
  return session.run(arguments)[0];
}
inline std::vector<float> first_of(const std::vector<runtime::BufferRef>& results) {
  return values_of(results[0]->to_host());
}

// Why kernels cannot be compiled here; empty when they can.
inline std::string no_compiler() {
  ::setenv("SYSTOLE_PLUGIN_PATH", SYSTOLE_SOURCE_DIR "/.deps", 0);
  return nvrtc_absence();
}

#define SYSTOLE_NEEDS_NVRTC() \
  if (const std::string reason = systole::cuda::no_compiler(); !reason.empty()) GTEST_SKIP() << reason

}  // namespace systole::cuda
