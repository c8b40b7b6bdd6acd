// Malformed composites that bear the names of what cuDNN and cuBLAS take, on a pretended GPU: the CUDA
// backend's own target leaves each of them to its body.

#include <gtest/gtest.h>

#include <string>

#include "../look_alikes.h"
#include "backend/cuda/device.h"
#include "backend/cuda/target.h"
#include "compile/program.h"
#include "fake_check.h"

namespace systole::cuda {
namespace {

class CudaLookAlikes : public FakeCuda {};

bool has_composite(const ir::Graph& graph) {
  for (const ir::Node& node : graph.nodes())
    if (node.op == ir::Op::composite) return true;
  return false;
}

TEST_F(CudaLookAlikes, AreLeftToTheirBodies) {
  const FakeDriver fake;
  const Device device(0);
  const Target target(device, runtime::Math::f32);
  for (const LookAlike& each : look_alikes()) {
    SCOPED_TRACE(each.what);
    EXPECT_FALSE(has_composite(lower::prepared(each.graph, target)));
  }
  for (const char* name : {"lstm_loop", "lstm_loop_grad", "library.product"}) {
    SCOPED_TRACE(name);
    const Type some{DType::f32, {3}};
    EXPECT_FALSE(has_composite(lower::prepared(with_own_body(name, {some}, {}, {some}), target)));
  }
}

}  // namespace
}  // namespace systole::cuda
