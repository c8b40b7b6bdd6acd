// cuDNN that fails for a while, or threads that do: nothing that passes is remembered as a refusal. A library
// that does nothing stands in for it.

#include <stdlib.h>

#include <atomic>
#include <cerrno>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "backend/cuda/by_threads.h"
#include "backend/cuda/dnn.h"
#include "backend/cuda/dnn_api.h"
#include "backend/cuda/dnn_layers.h"
#include "fake_check.h"
#include "systole/ops.h"
#include "systole/runtime.h"

namespace systole::cuda {
namespace {

class CudnnFaults : public FakeCuda {
 protected:
  CudnnFaults() { ::setenv("SYSTOLE_CUDA_LIBRARIES", SYSTOLE_FAKE_CUDNN, 1); }
  ~CudnnFaults() override { ::unsetenv("SYSTOLE_CUDA_PREFER"); }

  static void fail_creations(int times) {
    reinterpret_cast<void (*)(int)>(dnn::symbol("fake_cudnn_fail_creations"))(times);
  }
};

lower::Region region_of(const ir::Value& result, lower::Region&& region) {
  region.anchor = result.id().node;
  region.graph.output(result);
  return std::move(region);
}

lower::Region convolution() {
  lower::Region region;
  ir::ConvolutionAttrs attrs;
  attrs.layout = "b01f_o01i->b01f";
  attrs.pad_low = attrs.pad_high = {1, 1};
  const ir::Value x = region.graph.input("x", {DType::f32, {2, 5, 5, 8}});
  const ir::Value y = ops::convolution(x, region.graph.input("w", {DType::f32, {16, 3, 3, 8}}), attrs);
  return region_of(y, std::move(region));
}

lower::Region pooling(std::int64_t channels) {
  lower::Region region;
  const ir::Value x = region.graph.input("x", {DType::f32, {4, 9, 8, channels}});
  return region_of(ops::max_pool(x, {2, 2}, {}, {}, {}), std::move(region));
}

TEST_F(CudnnFaults, AConvolutionIsTriedAgainWhenThereWasNoHandle) {
  FakeDriver fake;
  const Device device(0);
  ASSERT_EQ(dnn_absence(), "");
  const lower::Region region = convolution();
  fail_creations(1);
  const std::string words = error_of(ErrorKind::kInternal, [&] { dnn_offer(device, region, {}); });
  EXPECT_NE(words.find("cudnnCreate"), std::string::npos) << words;
  EXPECT_EQ(dnn_offer(device, region, {}).reason, "cudnn: no engine for it");
  EXPECT_EQ(dnn_offer(device, region, {}).reason, "cudnn: no engine for it");
}

TEST_F(CudnnFaults, ALayerIsTriedAgainWhenThereWasNoHandleOrNoMemory) {
  ::setenv("SYSTOLE_CUDA_PREFER", "cudnn.pooling", 1);
  FakeDriver fake;
  const Device device(0);
  ASSERT_EQ(dnn_absence(), "");
  const lower::Region first = pooling(5), second = pooling(6);
  const auto refusal = [&](const lower::Region& region) {
    return dnn_layer_offer(device, region, {}).reason;
  };
  fail_creations(1);
  EXPECT_NE(refusal(first).find("cudnnCreate"), std::string::npos);
  EXPECT_EQ(refusal(first), "");
  fake.fail(1, kErrorOutOfMemory, "cuMemAllocAsync", 2);
  EXPECT_NE(refusal(second).find("bytes wanted"), std::string::npos);
  fake.recover();
  EXPECT_EQ(refusal(second), "");
  EXPECT_EQ(dnn_layer_offer(device, second, {}).implementation, "cudnn.pooling");
  EXPECT_TRUE(dnn_layer_call(device, second, {}));
}

TEST(CudaThreads, TellOfTheFirstItemThatFailedAfterAllAreDone) {
  std::atomic<int> done = 0;
  const auto work = [&](std::size_t item, std::size_t) {
    ++done;
    if (item == 7) throw std::bad_alloc();
    if (item > 7) throw item;  // of any type
  };
  EXPECT_THROW(by_threads(20, 4, work), std::bad_alloc);
  EXPECT_EQ(done, 20);
  EXPECT_THROW(by_threads(20, 1, work), std::bad_alloc);
  by_threads(0, 4, work);
  EXPECT_EQ(done, 40);
}

// The first of them starts; there are no more.
struct RareThread {
  template <class... Arguments>
  explicit RareThread(Arguments&&... arguments) {
    static int made = 0;
    if (++made > 1) throw std::system_error(EAGAIN, std::generic_category());
    thread = std::thread(std::forward<Arguments>(arguments)...);
  }
  void join() { thread.join(); }
  std::thread thread;
};

TEST(CudaThreads, ThatCannotBeStartedLeaveTheirItemsToTheOthers) {
  std::atomic<int> sum = 0;
  by_threads<RareThread>(100, 8, [&](std::size_t item, std::size_t thread) {
    EXPECT_LT(thread, 2u);
    sum += static_cast<int>(item);
  });
  EXPECT_EQ(sum, 4950);
}

TEST(CudaKernelCalls, WithoutASourceOrABodyAreRefusedWhenTheyAreCompiled) {
  EXPECT_EQ(runtime::backend("cuda").refusal(ir::Op::kernel_call), "");
  const Type type{DType::f32, {4}};
  ir::Graph graph("calls");
  graph.output(graph.add(ir::Op::kernel_call, {graph.input("x", type)},
                         ir::KernelAttrs{.name = "mine", .c = "void mine() {}", .results = {type}}));
  const std::string words =
      error_of(ErrorKind::kUnsupported, [&] { runtime::backend("cuda").compile(graph, 0, {}); });
  EXPECT_NE(words.find("kernel_call mine: it has no source in this device's language and no body graph"),
            std::string::npos)
      << words;
}

}  // namespace
}  // namespace systole::cuda
