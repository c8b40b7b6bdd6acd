// cuDNN that fails for a while, or threads that do: nothing that passes is remembered as a refusal. And cuDNN
// that takes its time to make a plan: calls that are ready do not wait for it. A library that does nothing
// stands in for it.

#include <stdlib.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "backend/cuda/by_threads.h"
#include "backend/cuda/dnn.h"
#include "backend/cuda/dnn_api.h"
#include "backend/cuda/dnn_attention.h"
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
  static void offer_engine(bool offers) {
    reinterpret_cast<void (*)(bool)>(dnn::symbol("fake_cudnn_offer_engine"))(offers);
  }
  static void hold(const char* function) {
    reinterpret_cast<void (*)(const char*)>(dnn::symbol("fake_cudnn_hold"))(function);
  }
  static void wait_for_held() { reinterpret_cast<void (*)()>(dnn::symbol("fake_cudnn_wait_for_held"))(); }
};

lower::Region region_of(const ir::Value& result, lower::Region&& region) {
  region.anchor = result.id().node;
  region.graph.output(result);
  return std::move(region);
}

lower::Region convolution(std::int64_t filters = 16) {
  lower::Region region;
  ir::ConvolutionAttrs attrs;
  attrs.layout = "b01f_o01i->b01f";
  attrs.pad_low = attrs.pad_high = {1, 1};
  const ir::Value x = region.graph.input("x", {DType::f32, {2, 5, 5, 8}});
  const ir::Value y = ops::convolution(x, region.graph.input("w", {DType::f32, {filters, 3, 3, 8}}), attrs);
  return region_of(y, std::move(region));
}

lower::Region pooling(std::int64_t channels) {
  lower::Region region;
  const ir::Value x = region.graph.input("x", {DType::f32, {4, 9, 8, channels}});
  return region_of(ops::max_pool(x, {2, 2}, {}, {}, {}), std::move(region));
}

lower::Region with_all_results(lower::Region&& region, const ir::Value& anchor) {
  region.anchor = anchor.id().node;
  for (std::size_t r = 0; r < region.graph.node(region.anchor).types.size(); ++r)
    region.graph.output(region.graph.value({region.anchor, static_cast<std::int32_t>(r)}));
  return std::move(region);
}

lower::Region attention() {
  lower::Region region;
  const Type type{DType::bf16, {2, 4, 128, 64}};
  const ir::Value q = region.graph.input("q", type), k = region.graph.input("k", type),
                  v = region.graph.input("v", type);
  const ir::Value o = ops::attention(q, k, v, true);
  return with_all_results(std::move(region), o);
}

lower::Region lstm() {
  lower::Region region;
  const auto input = [&](const char* name, Shape shape) {
    return region.graph.input(name, {DType::f32, std::move(shape)});
  };
  const ir::Value state = input("state", {3, 8}), x = input("x", {5, 3, 7}), w = input("w", {32, 7}),
                  r = input("r", {32, 8}), w_bias = input("w_bias", {32}), r_bias = input("r_bias", {32});
  const ir::Value y = ops::lstm(x, state, state, w, r, w_bias, r_bias).y;
  return with_all_results(std::move(region), y);
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

TEST_F(CudnnFaults, ReadyCallsDoNotWaitWhilePlansAndLayersAreMade) {
  ::setenv("SYSTOLE_CUDA_PREFER", "cudnn.pooling,cudnn.rnn", 1);
  FakeDriver fake({FakeGpu{}, FakeGpu{}});
  const Device device(
      1);  // not that of the tests above: plans are kept as long as the process, as devices are
  ASSERT_EQ(dnn_absence(), "");
  offer_engine(true);
  const lower::Region ready = convolution(24), ready_layer = pooling(7);
  ASSERT_EQ(dnn_offer(device, ready, {}).reason, "");
  ASSERT_EQ(dnn_layer_offer(device, ready_layer, {}).reason, "");
  const std::shared_ptr<const LibraryCall> calls[] = {dnn_call(device, ready, {}),
                                                      dnn_layer_call(device, ready_layer, {})};
  const lower::Region slow_convolution = convolution(32), slow_attention = attention(), slow_layer = lstm();
  const std::pair<const char*, std::function<void()>> compilations[] = {
      {"plan", [&] { dnn_offer(device, slow_convolution, {}); }},
      {"plan", [&] { dnn_attention_offer(device, slow_attention, {}); }},
      {"cudnnSetDropoutDescriptor", [&] { dnn_layer_offer(device, slow_layer, {}); }}};
  for (const auto& [function, compile] : compilations) {
    hold(function);
    std::future<void> compilation = std::async(std::launch::async, compile);
    wait_for_held();
    for (const auto& call : calls) {
      std::future<void> run = std::async(std::launch::async, [&] {
        const std::array<Address, 3> places{};
        call->run(nullptr, places, places, 0);
      });
      const bool has_waited = run.wait_for(std::chrono::seconds(20)) != std::future_status::ready;
      EXPECT_FALSE(has_waited) << function;
      if (has_waited) hold("");
      run.get();
    }
    hold("");
    compilation.get();
  }
  offer_engine(false);
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
