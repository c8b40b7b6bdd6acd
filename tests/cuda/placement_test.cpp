// Devices as users name them, on a machine of three GPUs of which one is too old.

#include <functional>

#include "../child_check.h"
#include "fake_check.h"
#include "systole/backend/cuda.h"
#include "systole/runtime.h"
#include "systole/tensor/creation.h"
#include "systole/tensor/math.h"
#include "systole/tensor/tensor.h"

namespace systole::cuda {
namespace {

// As long as the process, as its devices.
FakeDriver& fake() {
  static FakeDriver& only =
      *std::make_unique<FakeDriver>(std::vector<FakeGpu>{{.name = "Fake H200"},
                                                         {.name = "Tesla V100", .major = 7},
                                                         {.name = "Fake B200", .major = 10}})
           .release();
  return only;
}

class CudaPlacement : public FakeCuda {
 protected:
  void SetUp() override {
    SYSTOLE_NEEDS_NVRTC();
    fake().clear_log();
    fake().recover();
    give_kernel(fake());
  }
};

TEST_F(CudaPlacement, SaysWhatThereIs) {
  EXPECT_TRUE(is_available());
  EXPECT_EQ(device_count(), 2);
  EXPECT_NE(unavailable_reason().find("Tesla V100 is too old"), std::string::npos) << unavailable_reason();
  std::vector<std::string> found;
  for (const runtime::DeviceInfo& info : devices())
    if (info.name.backend == "cuda") found.push_back(info.name.to_string() + " " + info.description);
  EXPECT_EQ(found, (std::vector<std::string>{"cuda:0 Fake H200, sm_90", "cuda:2 Fake B200, sm_100"}));
  EXPECT_EQ(fake().count("cuDevicePrimaryCtxRetain"), 0);  // to look is not to use
}

// By the table of compute capability 9.0: 64 warps, 65536 registers, 228 KiB and 32 blocks a multiprocessor.
TEST_F(CudaPlacement, OccupancyIsWhatFits) {
  const Device& device = device_of(0);
  EXPECT_DOUBLE_EQ(device.occupancy(256, 32, 0), 1);
  EXPECT_DOUBLE_EQ(device.occupancy(256, 40, 0), 0.75);
  EXPECT_DOUBLE_EQ(device.occupancy(1024, 64, 0), 0.5);
  EXPECT_DOUBLE_EQ(device.occupancy(128, 16, 100 * 1024), 0.125);
  EXPECT_DOUBLE_EQ(device.occupancy(32, 16, 0), 0.5);
  EXPECT_DOUBLE_EQ(device.occupancy(0, 16, 0), 0);
}

TEST_F(CudaPlacement, NamesMayBeInAnyCase) {
  for (const char* const name : {"cuda", "CUDA:0", "Cuda", "gpu", "GPU:0", "/gpu:0", "/device:GPU:0"})
    EXPECT_EQ(tensor({1.f}).to(name).device().to_string(), "cuda:0") << name;
  EXPECT_EQ(tensor({1.f}).to("Cuda:2").device().to_string(), "cuda:2");
}

TEST_F(CudaPlacement, AScopeMakesValuesOnItsGpuAndResultsStayThere) {
  const DeviceScope scope("GPU:2");
  const Tensor x = tensor({1.f, 2.f, 3.f, 4.f});
  const Tensor y = (x + x).eval();
  EXPECT_EQ(y.device().to_string(), "cuda:2");
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{2, 4, 6, 8}));
  EXPECT_EQ(fake().violations(), "");
}

TEST_F(CudaPlacement, ToMovesBetweenGpusWithoutTheHostAndToTheHostAndBack) {
  const Tensor x = tensor({1.f, 2.f}).to("cuda:0");
  fake().clear_log();
  const Tensor y = x.to("CUDA:2");
  EXPECT_EQ(y.device().to_string(), "cuda:2");
  EXPECT_EQ(fake().count("cuMemcpyPeerAsync"), 1);
  EXPECT_EQ(fake().count("cuMemcpyDtoHAsync"), 0);
  EXPECT_EQ(y.to("reference").to_vector<float>(), (std::vector<float>{1, 2}));
  EXPECT_EQ(y.to("reference").to("cuda").to_vector<float>(), (std::vector<float>{1, 2}));
  EXPECT_EQ(fake().violations(), "");
}

TEST_F(CudaPlacement, ANumberThatThereIsNotSaysWhatThereIs) {
  for (const char* const name : {"cuda:7", "cuda:1"}) {
    const std::string words = error_of(ErrorKind::kNotFound, [&] { tensor({1.f}).to(name); });
    for (const char* const part : {name, "one of cuda:0, cuda:2", "Tesla V100 is too old"})
      EXPECT_NE(words.find(part), std::string::npos) << words;
  }
}

TEST_F(CudaPlacement, AFailedRunIsAnErrorAndTheNextOneRuns) {
  const DeviceScope scope("cuda");
  const Tensor x = tensor({1.f, 2.f, 3.f, 4.f}).eval();
  fake().fail(1, 1, "cuLaunchKernel");
  const std::string words = error_of(ErrorKind::kInternal, [&] { (x + x).eval(); });
  EXPECT_NE(words.find("cuLaunchKernel"), std::string::npos) << words;
  fake().recover();
  EXPECT_EQ((x + x).to_vector<float>(), (std::vector<float>{2, 4, 6, 8}));
}

using CudaPlacementChild = CudaPlacement;

TEST_F(CudaPlacementChild, DISABLED_LosesAGpu) {
  const DeviceScope scope("reference");
  const Tensor x = tensor({1.f, 2.f, 3.f, 4.f}), there = x.to("cuda:0"), elsewhere = x.to("cuda:2");
  const Tensor before = (there + there).eval(), y = there + there;
  fake().fail(1, kErrorIllegalAddress, "cuLaunchKernel");
  const std::string words = error_of(ErrorKind::kContextLost, [&] { (there * there).eval(); });
  EXPECT_NE(words.find("ILLEGAL_ADDRESS"), std::string::npos) << words;
  fake().recover();
  fake().clear_log();
  for (const std::function<void()>& later :
       std::vector<std::function<void()>>{[&] { before.to_vector<float>(); }, [&] { y.to_vector<float>(); },
                                          [&] { there.to("cuda:2"); }, [&] { x.to("cuda:0"); }})
    error_of(ErrorKind::kContextLost, later);
  EXPECT_EQ(fake().names(), "");
  const std::vector<float> doubled{2, 4, 6, 8};
  EXPECT_EQ((elsewhere + elsewhere).to_vector<float>(), doubled);
  for (const char* const other : {"reference", "cpu"}) {
    const Tensor z = x.to(other);
    EXPECT_EQ((z + z).to_vector<float>(), doubled) << other;
  }
}

TEST_F(CudaPlacement, ALostGpuIsAnErrorInEveryTensorOnItAndOthersGoOn) {
  EXPECT_TRUE(passes_in_a_child("CudaPlacementChild.DISABLED_LosesAGpu"));
}

}  // namespace
}  // namespace systole::cuda
