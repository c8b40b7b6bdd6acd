// How a Session uses the driver: what is captured when, which streams wait for which, what is copied, and
// that everything is given back.

#include <fmt/format.h>

#include <algorithm>
#include <latch>
#include <set>
#include <span>
#include <thread>

#include "fake_check.h"
#include "systole/ir/text.h"

namespace systole::cuda {
namespace {

using runtime::BufferRef;

using CudaSession = FakeCuda;
using FakeDriverItself = FakeCuda;

// The calls that are work or make work of it.
std::string work(const FakeDriver& fake) {
  std::string text;
  for (const FakeCall& call : fake.calls())
    for (const char* const name : {"cuLaunchKernel", "cuMemcpyDtoDAsync", "cuStreamBeginCapture",
                                   "cuStreamEndCapture", "cuGraphInstantiate", "cuGraphLaunch"})
      if (call.name == name) text += (text.empty() ? "" : " ") + call.name.substr(2);
  return text;
}

// The streams that were made to wait, but for those of a capture, whose lanes wait for each other.
std::vector<Stream> waits(const FakeDriver& fake) {
  std::vector<Stream> streams;
  bool captures = false;
  for (const FakeCall& call : fake.calls()) {
    captures = call.name == "cuStreamBeginCapture" || (captures && call.name != "cuStreamEndCapture");
    if (call.name == "cuStreamWaitEvent" && !captures) streams.push_back(call.stream);
  }
  return streams;
}

TEST_F(FakeDriverItself, SeesWorkWithoutOrderAndMemoryThatIsGone) {
  FakeDriver fake;
  const Driver& cu = fake.table();
  Context context = nullptr;
  cu.cuDevicePrimaryCtxRetain(&context, 0);
  cu.cuCtxSetCurrent(context);
  Stream a = nullptr, b = nullptr;
  cu.cuStreamCreate(&a, kStreamNonBlocking);
  cu.cuStreamCreate(&b, kStreamNonBlocking);
  Event event = nullptr;
  cu.cuEventCreate(&event, kEventDisableTiming);
  Address memory = 0;
  cu.cuMemAllocAsync(&memory, 4, a);
  cu.cuMemsetD8Async(memory, 1, 4, a);
  EXPECT_EQ(fake.violations(), "");
  int value = 0;
  cu.cuMemcpyDtoHAsync(&value, memory, 4, b);
  EXPECT_EQ(fake.violations(), "stream 2 reads what stream 1 may still write");
  cu.cuEventRecord(event, a);
  cu.cuStreamWaitEvent(b, event, 0);
  cu.cuMemcpyDtoHAsync(&value, memory, 4, b);
  EXPECT_EQ(value, 0x01010101);
  cu.cuMemFreeAsync(memory, a);
  EXPECT_EQ(fake.violations(),
            "stream 2 reads what stream 1 may still write; stream 1 frees what stream 2 may still read");
  EXPECT_EQ(fake.leaks(), "context of cuda:0; 1 event; 2 stream; ");
  cu.cuMemcpyDtoHAsync(&value, memory, 4, b);
  EXPECT_NE(fake.violations().find("not allocated"), std::string::npos);
  cu.cuEventDestroy(event);
}

TEST_F(FakeDriverItself, SeesWorkWithoutOrderInsideAGraph) {
  FakeDriver fake;
  const Driver& cu = fake.table();
  Context context = nullptr;
  cu.cuDevicePrimaryCtxRetain(&context, 0);
  cu.cuCtxSetCurrent(context);
  Stream a = nullptr, b = nullptr;
  cu.cuStreamCreate(&a, kStreamNonBlocking);
  cu.cuStreamCreate(&b, kStreamNonBlocking);
  Event begun = nullptr, done = nullptr, written = nullptr;
  for (Event* const event : {&begun, &done, &written}) cu.cuEventCreate(event, kEventDisableTiming);
  Address memory = 0;
  cu.cuMemAllocAsync(&memory, 4, a);
  for (const bool waits : {true, false}) {
    cu.cuStreamBeginCapture(a, kCaptureThreadLocal);
    cu.cuEventRecord(begun, a);
    cu.cuStreamWaitEvent(b, begun, 0);
    cu.cuMemsetD8Async(memory, 1, 4, a);
    cu.cuEventRecord(written, a);
    if (waits) cu.cuStreamWaitEvent(b, written, 0);
    cu.cuMemsetD8Async(memory, 2, 4, b);
    Graph graph = nullptr;
    if (!waits) {  // b is not waited for
      EXPECT_EQ(cu.cuStreamEndCapture(a, &graph), 904);
      EXPECT_EQ(graph, nullptr);
      cu.cuStreamBeginCapture(a, kCaptureThreadLocal);
      cu.cuEventRecord(begun, a);
      cu.cuStreamWaitEvent(b, begun, 0);
      cu.cuMemsetD8Async(memory, 1, 4, a);
      cu.cuMemsetD8Async(memory, 2, 4, b);
    }
    cu.cuEventRecord(done, b);
    cu.cuStreamWaitEvent(a, done, 0);
    ASSERT_EQ(cu.cuStreamEndCapture(a, &graph), kSuccess);
    GraphExec whole = nullptr;
    cu.cuGraphInstantiate(&whole, graph, 0);
    for (int i = 0; i < 2; ++i) cu.cuGraphLaunch(whole, a);
    EXPECT_EQ(fake.violations().empty(), waits) << fake.violations();
  }
}

TEST_F(CudaSession, BytesGoThereAndBackInParts) {
  FakeDriver fake;
  {
    const Device device(0);
    constexpr std::int64_t kMany = 5'000'000;  // 20 MB: more than is pinned
    std::vector<float> values(kMany);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 9973);
    const BufferRef buffer = uploaded(Literal::of<float>({kMany}, values), device);
    EXPECT_EQ(values_of(buffer->to_host()), values);
    EXPECT_EQ(fake.count("cuMemcpyHtoDAsync"), 3);
    EXPECT_EQ(fake.count("cuMemcpyDtoHAsync"), 3);
    EXPECT_EQ(fake.used_bytes(), 20'000'000u);
    EXPECT_EQ(uploaded(Literal::of<float>({0}, std::vector<float>{}), device)->to_host().byte_size(), 0u);
  }
  EXPECT_EQ(fake.leaks(), "");
  EXPECT_EQ(fake.violations(), "");
}

TEST_F(CudaSession, NoContextIsMadeBeforeTheFirstUse) {
  FakeDriver fake;
  const Device device(0);
  EXPECT_EQ(device.architecture(), "sm_90");
  EXPECT_EQ(fake.count("cuDevicePrimaryCtxRetain"), 0);
  device.activate();
  EXPECT_EQ(fake.count("cuDevicePrimaryCtxRetain"), 1);
  EXPECT_EQ(fake.count("cuMemHostAlloc"), 0);
}

TEST_F(CudaSession, TheFirstRunGoesByStepsTheSecondIsCapturedAndTheThirdOnlyLaunched) {
  SYSTOLE_NEEDS_NVRTC();
  FakeDriver fake;
  give_kernel(fake);
  {
    const Device device(0);
    const auto session = new_session(device);
    const BufferRef x = uploaded(numbers(1), device);
    fake.clear_log();
    EXPECT_EQ(first_of(run(*session, x)), (std::vector<float>{2, 4, 6, 8}));
    EXPECT_EQ(work(fake), "LaunchKernel MemcpyDtoDAsync");
    fake.clear_log();
    EXPECT_EQ(values_of(run(*session, x)[1]->to_host()), (std::vector<float>{5, 3, 9, 1}));
    EXPECT_EQ(
        work(fake),
        "StreamBeginCapture LaunchKernel MemcpyDtoDAsync StreamEndCapture GraphInstantiate GraphLaunch");
    fake.clear_log();
    EXPECT_EQ(first_of(run(*session, x)), (std::vector<float>{2, 4, 6, 8}));
    EXPECT_EQ(work(fake), "GraphLaunch");
    // Results that nobody holds are given again: nothing is allocated.
    EXPECT_EQ(fake.count("cuMemAllocAsync"), 0);
    EXPECT_EQ(fake.count("cuEventCreate"), 0);
  }
  EXPECT_EQ(fake.leaks(), "");
  EXPECT_EQ(fake.violations(), "");
}

// a and b change places, each written where the other lay; the results are in the inputs' memory, or copies.
TEST_F(CudaSession, ResultsInTheInputsMemoryAreRightAtManyAddresses) {
  const ir::Graph graph = ir::parse(
      "systole.ir 1\ngraph @main(%a: f32[4] {alias=0}, %b: f32[4] {alias=1}) {\n  return %b, %a\n}\n");
  for (const bool donated : {false, true}) {
    FakeDriver fake;
    {
      const Device device(0);
      const auto session = make_session(make_module(device, graph, {}));
      std::vector<BufferRef> held;
      for (int i = 0; i < 9; ++i) {
        const auto f = static_cast<float>(i);
        runtime::RunArguments arguments;
        arguments.per_device = {{uploaded(numbers(f), device), uploaded(numbers(100 + f), device)}};
        if (donated) arguments.donated = {0, 1};
        const std::vector<BufferRef> results = session->run(arguments)[0];
        EXPECT_EQ(results[0]->to_host().values<float>()[0], 100 + f) << i;
        EXPECT_EQ(results[1]->to_host().values<float>()[0], f) << i;
        held.insert(held.end(), results.begin(), results.end());
        held.insert(held.end(), arguments.per_device[0].begin(), arguments.per_device[0].end());
      }
      EXPECT_EQ(fake.count("cuGraphInstantiate"), 5);  // four, and the one with places
    }
    EXPECT_EQ(fake.leaks(), "");
    EXPECT_EQ(fake.violations(), "");
  }
}

TEST_F(CudaSession, WhatComesAtMoreThanFourAddressesIsCopiedToAPlaceOfItsOwn) {
  SYSTOLE_NEEDS_NVRTC();
  FakeDriver fake;
  give_kernel(fake);
  {
    const Device device(0);
    const auto session = new_session(device);
    std::vector<BufferRef> xs;
    for (int i = 0; i < 8; ++i) xs.push_back(uploaded(numbers(static_cast<float>(i)), device));
    run(*session, xs[0]);  // by steps
    for (std::size_t i = 0; i < 4; ++i) run(*session, xs[i]);
    EXPECT_EQ(fake.count("cuGraphInstantiate"), 4);
    fake.clear_log();
    EXPECT_EQ(first_of(run(*session, xs[4])), (std::vector<float>{8, 10, 12, 14}));
    EXPECT_EQ(work(fake),
              "MemcpyDtoDAsync StreamBeginCapture LaunchKernel MemcpyDtoDAsync StreamEndCapture "
              "GraphInstantiate GraphLaunch");
    for (std::size_t i = 5; i < 8; ++i) {
      fake.clear_log();
      const auto f = static_cast<float>(i);
      EXPECT_EQ(first_of(run(*session, xs[i])), (std::vector<float>{2 * f, 2 * f + 2, 2 * f + 4, 2 * f + 6}));
      EXPECT_EQ(work(fake), "MemcpyDtoDAsync GraphLaunch");
    }
    // The same address again is copied too, and results that are held stay what they are.
    std::vector<std::vector<BufferRef>> held;
    for (int i = 0; i < 12; ++i) held.push_back(run(*session, xs[static_cast<std::size_t>(i % 8)]));
    for (int i = 0; i < 12; ++i)
      EXPECT_EQ(first_of(held[static_cast<std::size_t>(i)])[0], 2 * static_cast<float>(i % 8));
    fake.clear_log();
    held.push_back(run(*session, xs[1]));
    EXPECT_EQ(first_of(held.back())[0], 2);
    EXPECT_EQ(work(fake), "MemcpyDtoDAsync GraphLaunch MemcpyDtoDAsync MemcpyDtoDAsync");
  }
  EXPECT_EQ(fake.leaks(), "");
  EXPECT_EQ(fake.violations(), "");
}

// A graph of a thousand steps is captured for one set of addresses only, where little moves.
TEST_F(CudaSession, WhatMovesHasAPlaceOfItsOwnAtOnceInALongGraphIfItIsLittle) {
  SYSTOLE_NEEDS_NVRTC();
  for (const std::int64_t width : {4, 4096}) {
    const std::string text = fmt::format(R"(systole.ir 1
graph @turn(%carry: f32[{0}], %x: f32[{0}]) {{
  %sum = add(%carry, %x) : f32[{0}]
  return %sum
}}
graph @main(%a: f32[{0}], %xs: f32[1200,{0}]) {{
  %c = scan(%a, %xs) {{length=1200, carries=1, xs=1, reverse=false}} @turn : f32[{0}]
  return %c
}}
)",
                                         width);
    const auto count = static_cast<std::size_t>(width);
    FakeDriver fake;
    fake.set_kernel(3, [&](FakeLaunch& launch) {
      const float* const x = launch.read(1, count);
      float* const y = launch.write(0, count);
      for (std::size_t i = 0; i < count; ++i) y[i] += x[i];
    });
    {
      const Device device(0);
      const auto session = make_session(make_module(device, ir::parse(text), {}));
      std::vector<BufferRef> given, held;
      for (int i = 0; i < 4; ++i)
        given.push_back(uploaded(Literal::full({DType::f32, {1200, width}}, i), device));
      for (const BufferRef& xs : given) {
        runtime::RunArguments arguments;
        arguments.per_device = {{uploaded(Literal({DType::f32, {width}}), device), xs}};
        held.push_back(session->run(arguments)[0][0]);
      }
      for (std::size_t i = 0; i < held.size(); ++i)
        EXPECT_EQ(held[i]->to_host().to_doubles()[3], 1200 * static_cast<double>(i));
      // For the first, and the one with places; or for each, but the one that goes by steps.
      EXPECT_EQ(fake.count("cuGraphInstantiate"), width == 4 ? 2 : 3);
    }
    EXPECT_EQ(fake.leaks(), "");
    EXPECT_EQ(fake.violations(), "");
  }
}

// One after the other in a graph, kernels are launched before those end that they wait for; what goes by
// steps is not, nor what waits for more.
TEST_F(CudaSession, KernelsOfAGraphAreLaunchedEarly) {
  SYSTOLE_NEEDS_NVRTC();
  const ir::Graph graph = ir::parse(R"(systole.ir 1
graph @main(%x: f32[4]) {
  %a = sort(%x) : f32[4]
  %b = reverse(%a) {axes=[0]} : f32[4]
  %c = sort(%b) : f32[4]
  return %c
}
)");
  for (const bool prefers : {true, false}) {
    ::setenv("SYSTOLE_CUDA_PREFER", prefers ? "" : "-early_launch", 1);
    FakeDriver fake;
    {
      const Device device(0);
      const auto session = make_session(make_module(device, graph, {}));
      const BufferRef x = uploaded(numbers(1), device);
      for (int i = 0; i < 3; ++i) {
        runtime::RunArguments arguments;
        arguments.per_device = {{x}};
        session->run(arguments);
        EXPECT_EQ(fake.count("cuLaunchKernelEx") > 0, prefers && i > 0) << i;
      }
      EXPECT_LT(fake.count("cuLaunchKernelEx"), fake.count("cuLaunchKernel"));
    }
    ::unsetenv("SYSTOLE_CUDA_PREFER");
    EXPECT_EQ(fake.violations(), "");
  }
}

TEST_F(CudaSession, AStreamWaitsOnlyWhereTwoTouchOneArray) {
  SYSTOLE_NEEDS_NVRTC();
  FakeDriver fake;
  give_kernel(fake);
  {
    const Device device(0);
    const auto session = new_session(device);
    BufferRef x = uploaded(numbers(1), device);
    fake.clear_log();
    std::vector<BufferRef> y = run(*session, x);  // x came by another stream
    EXPECT_EQ(waits(fake).size(), 1u);
    run(*session, x);  // and is there
    EXPECT_EQ(waits(fake).size(), 1u);
    const BufferRef other = uploaded(numbers(2), device);  // nobody else has that one
    EXPECT_EQ(waits(fake).size(), 1u);
    y[0]->to_host();  // waits for the run
    EXPECT_EQ(waits(fake).size(), 2u);
    y[0]->to_host();
    EXPECT_EQ(waits(fake).size(), 2u);
    x.reset();  // goes back where it was read: nobody waits
    EXPECT_EQ(waits(fake).size(), 2u);
    EXPECT_EQ(fake.count("cuMemFreeAsync"), 1);
    // The result of one session goes to another, which waits for it; the first writes it again after that.
    const auto second = new_session(device);
    fake.clear_log();
    const std::vector<BufferRef> z = run(*second, y[0]);
    EXPECT_EQ(waits(fake).size(), 1u);
    y.clear();
    const std::vector<BufferRef> again = run(*session, other);
    EXPECT_EQ(first_of(z), (std::vector<float>{4, 8, 12, 16}));
  }
  EXPECT_EQ(fake.leaks(), "");
  EXPECT_EQ(fake.violations(), "");
}

TEST_F(CudaSession, AnUploadDoesNotWaitForTheRunThatReadTheLastOne) {
  SYSTOLE_NEEDS_NVRTC();
  FakeDriver fake;
  give_kernel(fake);
  {
    const Device device(0);
    const auto session = new_session(device);
    for (int i = 0; i < 3; ++i) run(*session, uploaded(numbers(1), device));
    fake.clear_log();
    run(*session, uploaded(numbers(2), device));  // a batch that nobody keeps
    run(*session, uploaded(numbers(3), device));
    for (const Stream stream : waits(fake)) EXPECT_NE(stream, device.transfers());
    EXPECT_EQ(waits(fake).size(), 2u);  // of the runs for their batches
  }
  EXPECT_EQ(fake.leaks(), "");
  EXPECT_EQ(fake.violations(), "");
}

TEST_F(CudaSession, DonatedMemoryIsNotReadAfterwards) {
  SYSTOLE_NEEDS_NVRTC();
  FakeDriver fake;
  give_kernel(fake);
  {
    const Device device(0);
    const auto session = new_session(device);
    const BufferRef x = uploaded(numbers(1), device);
    EXPECT_EQ(first_of(run(*session, x, true))[3], 8);
    const std::string words = error_of(ErrorKind::kInvalidArgument, [&] { x->to_host(); });
    EXPECT_NE(words.find("donated"), std::string::npos) << words;
    error_of(ErrorKind::kInvalidArgument, [&] { run(*session, x); });
  }
  EXPECT_EQ(fake.leaks(), "");
}

TEST_F(CudaSession, TwoThreadsHaveTwoStreamsAndTheirOwnResults) {
  SYSTOLE_NEEDS_NVRTC();
  FakeDriver fake;
  give_kernel(fake);
  {
    const Device device(0);
    const std::shared_ptr<const Module> module = make_module(device, doubling(), {});
    fake.clear_log();
    std::vector<std::vector<float>> got(2);
    std::latch both(2);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < 2; ++t)
      threads.emplace_back([&, t] {
        const auto session = make_session(module);
        const BufferRef x = uploaded(numbers(static_cast<float>(10 * t)), device);
        both.arrive_and_wait();
        for (int i = 0; i < 50; ++i) got[t] = first_of(run(*session, x));
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(got[0], (std::vector<float>{0, 2, 4, 6}));
    EXPECT_EQ(got[1], (std::vector<float>{20, 22, 24, 26}));
    std::set<Stream> streams;
    for (const FakeCall& call : fake.calls())
      if (call.name == "cuGraphLaunch") streams.insert(call.stream);
    EXPECT_EQ(streams.size(), 2u);
    EXPECT_EQ(fake.count("cuGraphInstantiate"), 2);
  }
  EXPECT_EQ(fake.leaks(), "");
  EXPECT_EQ(fake.violations(), "");
}

TEST_F(CudaSession, AModuleThatGoesRightAfterARunIsNotInUseAnyMore) {
  SYSTOLE_NEEDS_NVRTC();
  FakeDriver fake;
  give_kernel(fake);
  {
    const Device device(0);
    const std::vector<BufferRef> results = run(*new_session(device), uploaded(numbers(1), device));
    EXPECT_EQ(fake.violations(), "");
    EXPECT_EQ(fake.count("cuModuleUnload"), 1);
    EXPECT_EQ(first_of(results), (std::vector<float>{2, 4, 6, 8}));
  }
  EXPECT_EQ(fake.leaks(), "");
}

// Copies only, so that the numbers are right without a GPU: loops go into the graph whole, with what may run
// beside what.
TEST_F(CudaSession, LoopsAreUnrolledIntoTheGraphAndItsLanesAreInOrder) {
  const ir::Graph graph = ir::parse(R"(systole.ir 1
graph @shift(%carry: f32[], %x: f32[]) {
  return %x, %carry
}
graph @main(%a: f32[], %xs: f32[3], %b: f32[], %ys: f32[3]) {
  %c, %before = scan(%a, %xs) {length=3, carries=1, xs=1, reverse=false} @shift : f32[], f32[3]
  %d, %after = scan(%b, %ys) {length=3, carries=1, xs=1, reverse=true} @shift : f32[], f32[3]
  return %c, %before, %d, %after
}
)");
  FakeDriver fake;
  {
    const Device device(0);
    const auto session = make_session(make_module(device, graph, {}));
    runtime::RunArguments arguments;
    const auto put = [&](const Shape& shape, const std::vector<float>& values) {
      return uploaded(Literal::of<float>(shape, std::span<const float>(values)), device);
    };
    for (const float first : {1.f, 10.f, 20.f, 30.f, 40.f, 50.f, 60.f}) {
      arguments.per_device = {{put({}, {first}), put({3}, {2, 3, 4}), put({}, {9}), put({3}, {6, 7, 8})}};
      const std::vector<BufferRef> results = session->run(arguments)[0];
      EXPECT_EQ(values_of(results[0]->to_host()), (std::vector<float>{4}));
      EXPECT_EQ(values_of(results[1]->to_host()), (std::vector<float>{first, 2, 3}));
      EXPECT_EQ(values_of(results[2]->to_host()), (std::vector<float>{6}));
      EXPECT_EQ(values_of(results[3]->to_host()), (std::vector<float>{7, 8, 9}));
    }
    EXPECT_EQ(fake.count("cuGraphLaunch"), 6);
  }
  EXPECT_EQ(fake.leaks(), "");
  EXPECT_EQ(fake.violations(), "");
}

// Sorting a turn's x does not wait for the carry, only for the sum that reads the sorted x of the turn
// before; the driver sees what touches memory without an order.
TEST_F(CudaSession, AScanMakesItsNextTurnReadBesideTheEndOfThisOne) {
  SYSTOLE_NEEDS_NVRTC();
  const ir::Graph graph = ir::parse(R"(systole.ir 1
graph @turn(%carry: f32[4], %x: f32[4]) {
  %sorted = sort(%x) : f32[4]
  %sum = add(%carry, %sorted) : f32[4]
  return %sum
}
graph @main(%a: f32[4], %xs: f32[5,4]) {
  %c = scan(%a, %xs) {length=5, carries=1, xs=1, reverse=false} @turn : f32[4]
  return %c
}
)");
  FakeDriver fake;
  fake.set_kernel(3, [](FakeLaunch& launch) {
    const bool sorts = launch.kernel().ends_with("_0");
    const float* const x = launch.read(sorts ? 0 : 1, 4);
    float* const y = launch.write(sorts ? 1 : 0, 4);
    for (int i = 0; i < 4; ++i) y[i] = sorts ? x[i] : x[i] + y[i];
    if (sorts) std::sort(y, y + 4);
  });
  {
    const Device device(0);
    const auto session = make_session(make_module(device, graph, {}));
    std::vector<float> xs(20);
    for (std::size_t i = 0; i < xs.size(); ++i) xs[i] = static_cast<float>(7 * i % 20);
    // 0 7 14 1 | 8 15 2 9 | 16 3 10 17 | 4 11 18 5 | 12 19 6 13
    const std::vector<float> sums{0 + 2 + 3 + 4 + 6, 1 + 8 + 10 + 5 + 12, 7 + 9 + 16 + 11 + 13,
                                  14 + 15 + 17 + 18 + 19};
    for (int i = 0; i < 3; ++i) {
      runtime::RunArguments arguments;
      arguments.per_device = {
          {uploaded(Literal({DType::f32, {4}}), device), uploaded(Literal::of<float>({5, 4}, xs), device)}};
      EXPECT_EQ(first_of(session->run(arguments)[0]), sums) << i;
    }
    EXPECT_EQ(fake.count("cuGraphLaunch"), 2);
  }
  EXPECT_EQ(fake.leaks(), "");
  EXPECT_EQ(fake.violations(), "");
}

TEST_F(CudaSession, WhatAsksTheHostIsNeverCaptured) {
  const ir::Graph graph = ir::parse(R"(systole.ir 1
graph @first(%x: f32[2], %y: f32[2]) {
  return %x
}
graph @second(%x: f32[2], %y: f32[2]) {
  return %y
}
graph @main(%p: bool[], %x: f32[2], %y: f32[2]) {
  %z = cond(%p, %x, %y) @first @second : f32[2]
  return %z
}
)");
  FakeDriver fake;
  {
    const Device device(0);
    const auto session = make_session(make_module(device, graph, {}));
    const BufferRef x = uploaded(Literal::of<float>({2}, {1, 2}), device),
                    y = uploaded(Literal::of<float>({2}, {3, 4}), device);
    for (const bool p : {true, false, true}) {
      runtime::RunArguments arguments;
      arguments.per_device = {{uploaded(Literal::of<bool>({}, {p}), device), x, y}};
      EXPECT_EQ(first_of(session->run(arguments)[0]),
                (p ? std::vector<float>{1, 2} : std::vector<float>{3, 4}));
    }
    EXPECT_EQ(fake.count("cuStreamBeginCapture"), 0);
  }
  EXPECT_EQ(fake.leaks(), "");
  EXPECT_EQ(fake.violations(), "");
}

TEST_F(CudaSession, AStreamThatIsGivenBackIsTakenAgain) {
  FakeDriver fake;
  {
    const Device device(0);
    device.activate();
    const Stream first = device.take_stream();
    device.give_stream(first);
    EXPECT_EQ(device.take_stream(), first);
    device.give_stream(first);
  }
  EXPECT_EQ(fake.leaks(), "");
}

TEST_F(CudaSession, GpusThatReadEachOthersMemoryCopyWithoutTheHost) {
  FakeDriver fake({FakeGpu{}, FakeGpu{}});
  {
    const Device first(0), second(1);
    BufferRef x = uploaded(numbers(3), first);
    fake.clear_log();
    const BufferRef y = copied(*x, second);
    x.reset();  // goes back to its GPU after the other has read it
    EXPECT_EQ(y->device().to_string(), "cuda:1");
    EXPECT_EQ(fake.count("cuMemcpyPeerAsync"), 1);
    EXPECT_EQ(fake.count("cuMemPoolSetAccess"), 1);
    EXPECT_EQ(fake.count("cuMemcpyDtoHAsync"), 0);
    EXPECT_EQ(values_of(y->to_host()), (std::vector<float>{3, 4, 5, 6}));
    copied(*y, second);
    EXPECT_EQ(fake.count("cuMemPoolSetAccess"), 1);
  }
  EXPECT_EQ(fake.leaks(), "");
  EXPECT_EQ(fake.violations(), "");
}

TEST_F(CudaSession, GpusThatDoNotCopyThroughTheHost) {
  FakeGpu lonely;
  lonely.reads_peers = false;
  FakeDriver fake({lonely, lonely});
  {
    const Device first(0), second(1);
    const BufferRef x = uploaded(numbers(3), first);
    fake.clear_log();
    EXPECT_EQ(values_of(copied(*x, second)->to_host()), (std::vector<float>{3, 4, 5, 6}));
    EXPECT_EQ(fake.count("cuMemcpyPeerAsync"), 0);
  }
  EXPECT_EQ(fake.leaks(), "");
  EXPECT_EQ(fake.violations(), "");
}

}  // namespace
}  // namespace systole::cuda
