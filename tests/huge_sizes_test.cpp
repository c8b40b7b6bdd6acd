// Sizes near 2^63 bytes: each fits 64 bits, their sums do not. Refused with kLimit by every device and by the
// planner, never a negative size, and never an allocation that is smaller than what is written.

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "backend/cpu/target.h"
#include "compile/program.h"
#include "error_check.h"
#include "systole/ir/text.h"
#include "systole/ops.h"
#include "systole/runtime.h"

namespace systole {
namespace {

constexpr std::int64_t kMost = 1152921504606846975;  // elements of i64: 2^63 - 8 bytes

ir::Graph iotas(int count, bool summed) {
  ir::Graph graph;
  for (int i = 0; i < count; ++i) {
    const ir::Value v = ops::iota(graph, {DType::i64, {kMost}}, 0);
    graph.output(summed ? ops::reverse(ops::sort(v, 0), {0}) : v);
  }
  return graph;
}

TEST(HugeSizes, TwoResultsThatFitAloneAreRefusedByEveryDevice) {
  for (const runtime::DeviceInfo& device : devices()) {
    const std::string message =
        error_of(ErrorKind::kLimit, [&] { compile(iotas(2, false), device.name.to_string()); });
    EXPECT_NE(message.find("does not fit 64 bits"), std::string::npos) << message;
  }
}

TEST(HugeSizes, OneOfThemRunsOutOfMemoryAndNothingElse) {
  for (const runtime::DeviceInfo& device : devices()) {
    SCOPED_TRACE(device.name.to_string());
    EXPECT_THROW(compile(iotas(1, false), device.name.to_string()).run({}), Error);
  }
}

TEST(HugeSizes, ThePlannerRefusesTemporariesWhoseSumWraps) {
  const lower::Target& target = cpu::target();
  for (const bool summed : {false, true})
    error_of(ErrorKind::kLimit,
             [&] { lower::make_program(lower::prepared(iotas(2, summed), target, false), target); });
  // One alone: its scratch of 8 bytes an element does not fit beside it.
  error_of(ErrorKind::kLimit,
           [&] { lower::make_program(lower::prepared(iotas(1, true), target, false), target); });
}

TEST(HugeSizes, PaddingThatCancelsIsRefusedWhereItsNegativeDoesNotFit) {
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  ir::Graph graph;
  const ir::Value x = graph.input("x", {DType::f32, {4}});
  const ir::Value zero = graph.constant(Literal::scalar<float>(0));
  const auto pad = [&](std::int64_t low, std::int64_t high) { return ops::pad(x, zero, {low}, {high}, {0}); };
  error_of(ErrorKind::kLimit, [&] { pad(kLeast, -(kLeast + 1)); });
  error_of(ErrorKind::kLimit, [&] { pad(kMost * 2, -kMost * 2); });
  // In range, the padding pushes every element out: 4 zeros.
  graph.output(pad(-kMost, kMost));
  for (const runtime::DeviceInfo& device : devices()) {
    SCOPED_TRACE(device.name.to_string());
    EXPECT_EQ(
        compile(graph, device.name.to_string()).run({Literal::of<float>({4}, {1, 2, 3, 4})})[0].to_doubles(),
        (std::vector<double>{0, 0, 0, 0}));
  }
}

TEST(HugeSizes, WindowsAndStridesBeyondAllSizesAreRefused) {
  ir::Graph graph;
  const ir::Value x = graph.input("x", {DType::f32, {4}});
  for (const bool strided : {false, true}) {
    ir::WindowAttrs attrs;
    attrs.kind = ir::Combine::sum;
    attrs.window = {1};
    (strided ? attrs.strides : attrs.pad_low) = {std::numeric_limits<std::int64_t>::max()};
    error_of(ErrorKind::kLimit, [&] { graph.add(ir::Op::reduce_window, x, attrs); });
  }
}

}  // namespace
}  // namespace systole
