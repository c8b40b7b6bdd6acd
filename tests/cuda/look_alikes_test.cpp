// Malformed composites that bear the names of what cuDNN, cuBLAS and the backend's own kernels take, on a
// pretended GPU: the CUDA backend's own target leaves each of them to its body, and keeps the well-formed
// ones. A cuDNN that has an engine for everything stands in for the real one, so that whatever is read is
// claimed.

#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>
#include <vector>

#include "../look_alikes.h"
#include "backend/cuda/device.h"
#include "backend/cuda/dnn.h"
#include "backend/cuda/dnn_api.h"
#include "backend/cuda/target.h"
#include "compile/program.h"
#include "fake_check.h"

namespace systole::cuda {
namespace {

class CudaLookAlikes : public FakeCuda {
 protected:
  CudaLookAlikes() {
    ::setenv("SYSTOLE_CUDA_LIBRARIES", SYSTOLE_FAKE_CUDNN, 1);
    ::setenv("SYSTOLE_CUDA_PREFER", "cudnn.pooling,cudnn.batch_norm,cudnn.rnn,cudnn.rnn_grad", 1);
  }
  ~CudaLookAlikes() override { ::unsetenv("SYSTOLE_CUDA_PREFER"); }

  void SetUp() override {
    ASSERT_EQ(dnn_absence(), "");
    offer_engine(true);
  }
  void TearDown() override { offer_engine(false); }

  static void offer_engine(bool offers) {
    reinterpret_cast<void (*)(bool)>(dnn::symbol("fake_cudnn_offer_engine"))(offers);
  }
};

// As the GPU's libraries take them: attention of 16-bit numbers, an LSTM of whole blocks of hidden units.
std::vector<WholeComposite> taken_composites() {
  const auto f32 = [](Shape shape) { return Type{DType::f32, std::move(shape)}; };
  const Type head{DType::bf16, {1, 2, 128, 64}}, lse = f32({1, 2, 128});
  const Type y = f32({3, 2, 32}), state = f32({2, 32}), r = f32({128, 32}), bias = f32({128});
  const std::vector<Type> lstm{f32({3, 2, 5}), state, state, f32({128, 5}), r, bias, bias};
  std::vector<Type> lstm_grad{y, state, state, y};
  lstm_grad.insert(lstm_grad.end(), lstm.begin(), lstm.end());
  std::vector<WholeComposite> all{{"attention", {head, head, head}, {}},
                                  {"attention_grad", {head, head, head, head, lse, head}, {}}};
  for (const WholeComposite& whole : claimed_composites())
    if (whole.name.ends_with("_pool") || whole.name == "batch_norm_inference") all.push_back(whole);
  if (no_compiler().empty()) {  // these have a kernel of ours
    all.push_back({"lstm", lstm, {}});
    all.push_back({"lstm_grad", lstm_grad, {}});
  }
  return all;
}

TEST_F(CudaLookAlikes, TheOriginalsAreTaken) {
  const FakeDriver fake;
  const Device device(0);
  ASSERT_EQ(device.capability(), 90);
  const Target target(device, runtime::Math::tf32);
  for (const WholeComposite& whole : taken_composites()) {
    SCOPED_TRACE(whole.name);
    EXPECT_TRUE(has_composite(lower::prepared(graph_of(whole), target)));
  }
}

TEST_F(CudaLookAlikes, AreLeftToTheirBodies) {
  const FakeDriver fake;
  const Device device(0);
  std::vector<LookAlike> all = look_alikes(taken_composites());
  for (LookAlike& each : look_alikes()) all.push_back(std::move(each));
  const Type some{DType::f32, {3}};
  for (const char* const name : kInsideNames) all.push_back({name, with_own_body(name, {some}, {}, {some})});
  for (const runtime::Math math : {runtime::Math::f32, runtime::Math::tf32}) {
    const Target target(device, math);
    for (const LookAlike& each : all) {
      SCOPED_TRACE(each.what);
      EXPECT_FALSE(has_composite(lower::prepared(each.graph, target)));
    }
  }
}

TEST_F(CudaLookAlikes, InTheBodyOfACompositeThatFitsAreLeftToTheirBodies) {
  const FakeDriver fake;
  const Device device(0);
  const Target target(device, runtime::Math::tf32);
  for (const LookAlike& each : nested_look_alikes()) {
    SCOPED_TRACE(each.what);
    EXPECT_FALSE(has_composite(lower::prepared(each.graph, target)));
  }
}

}  // namespace
}  // namespace systole::cuda
