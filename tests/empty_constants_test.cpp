// Constants without elements, which random graphs found: a kernel's text asks for them at points that no loop
// reaches.

#include <gtest/gtest.h>

#include <vector>

#include "systole/ops.h"
#include "systole/runtime.h"

namespace systole {
namespace {

TEST(EmptyConstants, AreReadByKernelsOnEveryDevice) {
  for (const bool optimized : {false, true}) {
    ir::Graph graph;
    const ir::Value x = graph.input("x", {DType::f32, {2}});
    const ir::Value nothing = graph.constant(Literal(Type{DType::f32, {0, 2}}));
    const ir::Value rows = ops::broadcast_to(x, {0, 2});
    const ir::Value product = ops::mul(ops::add(nothing, rows), nothing);
    graph.output(product);
    graph.output(ops::add(ops::sum(product, {0}), x));
    graph.output(ops::pad(nothing, graph.constant(Literal::scalar<float>(7)), {1, 0}, {1, 0}));
    for (const runtime::DeviceInfo& device : devices()) {
      if (device.name.ordinal > 0) continue;
      SCOPED_TRACE(device.name.to_string());
      const std::vector<Literal> got = compile(graph, device.name.to_string(), {.optimize = optimized})
                                           .run({Literal::of<float>({2}, {3, 4})});
      EXPECT_EQ(got[0].count(), 0);
      EXPECT_EQ(got[1].to_doubles(), (std::vector<double>{3, 4}));
      EXPECT_EQ(got[2].to_doubles(), (std::vector<double>{7, 7, 7, 7}));
    }
  }
}

}  // namespace
}  // namespace systole
