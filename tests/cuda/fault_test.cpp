// A driver that fails: every call in turn, memory that runs out, a context that is lost. Each time the caller
// gets a typed Error that names the call, nothing leaks, and what can go on does.

#include <array>
#include <cstddef>
#include <functional>
#include <memory>

#include "backend/cuda/schedule.h"
#include "fake_check.h"
#include "systole/backend/cuda.h"
#include "systole/runtime.h"

namespace systole::cuda {
namespace {

using runtime::BufferRef;

using CudaFault = FakeCuda;

// Open, upload, compile, run by steps, captured and launched, download; then everything goes again, which
// no failure stops.
std::vector<float> whole_way(const Device& device, const std::function<void()>& at_end = [] {}) {
  const BufferRef x = uploaded(numbers(1), device);
  const auto session = new_session(device);
  std::vector<float> last;
  for (int i = 0; i < 3; ++i) last = first_of(run(*session, x));
  at_end();
  return last;
}

const std::vector<float> kRight{2, 4, 6, 8};

TEST_F(CudaFault, EveryCallMayFailOnceAndTheNextTrySucceeds) {
  SYSTOLE_NEEDS_NVRTC();
  for (const Status status : {Status{1}, Status{kErrorOutOfMemory}}) {
    int calls = 0;
    for (int n = 1;; ++n) {
      FakeDriver fake;
      give_kernel(fake);
      std::string call;
      {
        const Device device(0);
        fake.fail(n, status);
        try {
          // Memory that is not there is asked for again.
          const auto expect_none = [&] {
            EXPECT_TRUE(!fake.has_failed() ||
                        (status == kErrorOutOfMemory && fake.failed_call() == "cuMemAllocAsync"))
                << "call " << n << ", " << fake.failed_call();
            fake.recover();
          };
          EXPECT_EQ(whole_way(device, expect_none), kRight);
        } catch (const Error& error) {
          call = fake.failed_call();
          EXPECT_EQ(error.kind(),
                    status == kErrorOutOfMemory ? ErrorKind::kOutOfMemory : ErrorKind::kInternal)
              << n << ": " << error.what();
          EXPECT_NE(std::string(error.what()).find(call + ":"), std::string::npos) << error.what();
        }
        fake.recover();
        EXPECT_EQ(whole_way(device), kRight) << "after " << call << " failed, call " << n;
      }
      EXPECT_EQ(fake.leaks(), "") << "after " << call << " failed, call " << n;
      EXPECT_EQ(fake.violations(), "") << "after " << call << " failed, call " << n;
      if (!fake.has_failed()) break;
      calls = n;
    }
    EXPECT_GT(calls, 40);
  }
}

TEST_F(CudaFault, AnyAllocationMayFindNoMemoryAndTheProgramGoesOn) {
  SYSTOLE_NEEDS_NVRTC();
  FakeDriver fake;
  give_kernel(fake);
  int failures = 0;
  {
    const Device device(0);
    const auto session = new_session(device);
    for (int n = 1;; ++n) {
      fake.fail(n, kErrorOutOfMemory, "cuMemAllocAsync", 2);
      std::string words;
      try {
        whole_way(device);
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kOutOfMemory) << error.what();
        ++failures;
      }
      const bool reached = fake.has_failed();
      fake.recover();
      EXPECT_EQ(first_of(run(*session, uploaded(numbers(1), device))), kRight) << n;
      if (!reached) break;
    }
  }
  EXPECT_GE(failures, 4);  // x, the constant, two results
  EXPECT_EQ(fake.leaks(), "");
  EXPECT_EQ(fake.violations(), "");
}

TEST_F(CudaFault, OutOfMemoryTellsWhatWasWantedWhatIsFreeAndWhoHasTheRest) {
  FakeGpu small;
  small.bytes = 1'000'000;
  FakeDriver fake({small});
  {
    const Device device(0);
    const auto zeros = [](std::int64_t n) { return Literal(Type{DType::f32, {n}}); };
    BufferRef large = uploaded(zeros(150'000), device);
    const BufferRef little = uploaded(zeros(10'000), device);
    const std::string words = error_of(ErrorKind::kOutOfMemory, [&] { uploaded(zeros(125'000), device); });
    for (const std::string& part :
         {std::string("500000 bytes wanted for ") + Type{DType::f32, {125'000}}.to_string(),
          std::string("360000 of 1000000 free"),
          Type{DType::f32, {150'000}}.to_string() + " (600000 bytes), " +
              Type{DType::f32, {10'000}}.to_string() + " (40000 bytes)",
          std::string("cuda:0")})
      EXPECT_NE(words.find(part), std::string::npos) << part << " in " << words;
    EXPECT_EQ(values_of(little->to_host()).size(), 10'000u);
    large.reset();
    EXPECT_EQ(uploaded(zeros(125'000), device)->to_host().byte_size(), 500'000u);
  }
  EXPECT_EQ(fake.leaks(), "");
}

TEST_F(CudaFault, MemoryThatIsStillOnItsWayBackIsWaitedFor) {
  FakeDriver fake;
  const Device device(0);
  fake.fail(1, kErrorOutOfMemory, "cuMemAllocAsync");  // only once
  EXPECT_EQ(values_of(uploaded(numbers(1), device)->to_host()), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_GE(fake.count("cuStreamSynchronize"), 2);
  EXPECT_EQ(fake.count("cuMemPoolTrimTo"), 1);
}

// What waits for everything, when memory runs out or cannot be given back in order, leaves captures alone:
// the driver gives up those of a context, or a stream, that is waited for.
TEST_F(CudaFault, AGraphThatIsCapturedMeanwhileIsNotLost) {
  FakeDriver fake;
  {
    const Device device(0);
    device.activate();
    const Stream one = device.take_stream(), two = device.take_stream();
    Lanes lanes(device, false);
    const Stream captures = lanes.stream(0);
    ASSERT_EQ(driver().cuStreamBeginCapture(captures, kCaptureThreadLocal), kSuccess);
    fake.fail(1, kErrorOutOfMemory, "cuMemAllocAsync");
    EXPECT_EQ(values_of(uploaded(numbers(1), device)->to_host()), (std::vector<float>{1, 2, 3, 4}));
    {
      Memory memory(device, 16, Type{DType::f32, {4}}, one);
      check(driver().cuMemsetD8Async(memory.address(), 1, 16, one), "cuMemsetD8Async");
      memory.was_written(std::make_shared<const Moment>(device, one));
      std::array<std::byte, 16> values{};
      memory.before_reading(two);
      check(driver().cuMemcpyDtoHAsync(values.data(), memory.address(), 16, two), "cuMemcpyDtoHAsync");
      memory.was_read(std::make_shared<const Moment>(device, two));
      memory.was_read(std::make_shared<const Moment>(device, one));  // it goes on `one`, after `two`
      fake.fail(1, 1, "cuStreamWaitEvent");
    }
    EXPECT_TRUE(fake.has_failed());
    fake.recover();
    device.synchronize();
    Graph graph = nullptr;
    EXPECT_EQ(driver().cuStreamEndCapture(captures, &graph), kSuccess);
    driver().cuGraphDestroy(graph);
    device.give_stream(one);
    device.give_stream(two);
  }
  EXPECT_EQ(fake.violations(), "");
  EXPECT_EQ(fake.leaks(), "");
}

TEST_F(CudaFault, ALostContextIsToldByEveryLaterCallWithoutTheDriver) {
  SYSTOLE_NEEDS_NVRTC();
  int calls = 0;
  for (int n = 1;; ++n) {
    FakeDriver fake({FakeGpu{}, FakeGpu{}});
    give_kernel(fake);
    const Device device(0), other(1);
    {
      // What was there before the fault.
      const BufferRef before = uploaded(numbers(1), device);
      const std::shared_ptr<const Module> module = make_module(device, doubling(), {});
      const auto session = make_session(module);
      const std::vector<BufferRef> results = run(*session, before);
      fake.fail(n, kErrorIllegalAddress);
      std::string words;
      try {
        whole_way(device);
        run(*session, before);
        run(*session, before);
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kContextLost) << error.what();
        EXPECT_NE(std::string(error.what()).find(fake.failed_call()), std::string::npos) << error.what();
        EXPECT_NE(std::string(error.what()).find("ILLEGAL_ADDRESS"), std::string::npos) << error.what();
      }
      if (!fake.has_failed()) break;
      calls = n;
      fake.recover();
      fake.clear_log();
      for (const std::function<void()>& later : std::vector<std::function<void()>>{
               [&] { uploaded(numbers(1), device); }, [&] { before->to_host(); },
               [&] { results[0]->to_host(); }, [&] { run(*session, before); }, [&] { make_session(module); },
               [&] { make_module(device, doubling(), {}); }, [&] { copied(*before, other); }}) {
        words = error_of(ErrorKind::kContextLost, later);
        EXPECT_NE(words.find("cuda:0"), std::string::npos) << words;
        EXPECT_NE(words.find("ILLEGAL_ADDRESS"), std::string::npos) << words;
      }
    }  // what was on the device goes
    EXPECT_EQ(fake.names(), "") << n;
    // Others go on.
    EXPECT_EQ(values_of(uploaded(numbers(7), other)->to_host()), (std::vector<float>{7, 8, 9, 10}));
    EXPECT_EQ(values_of(systole::compile(doubling(), "reference").run({numbers(1)})[0]), kRight);
  }
  EXPECT_GT(calls, 30);
}

// A kernel's fault is noticed by a call that has nothing to do with it.
TEST_F(CudaFault, ALibraryThatFailsWithoutAReasonIsAskedAbout) {
  SYSTOLE_NEEDS_NVRTC();
  FakeDriver fake;
  const Device device(0);
  const auto session = new_session(device);
  const BufferRef x = uploaded(numbers(1), device);
  fake.set_kernel(0, [](FakeLaunch&) { throw Error(ErrorKind::kInternal, "library", "it failed"); });
  fake.fail(1, kErrorIllegalAddress, "cuStreamSynchronize");
  error_of(ErrorKind::kContextLost, [&] { run(*session, x); });
}

TEST_F(CudaFault, ACaptureThatFailsIsEnded) {
  SYSTOLE_NEEDS_NVRTC();
  FakeDriver fake;
  give_kernel(fake);
  {
    const Device device(0);
    const auto session = new_session(device);
    const BufferRef x = uploaded(numbers(1), device);
    run(*session, x);
    fake.clear_log();
    fake.fail(1, 1, "cuLaunchKernel");
    error_of(ErrorKind::kInternal, [&] { run(*session, x); });
    EXPECT_EQ(fake.count("cuStreamBeginCapture"), 1);
    EXPECT_EQ(fake.count("cuStreamEndCapture"), 1);
    fake.recover();
    EXPECT_EQ(first_of(run(*session, x)), kRight);
  }
  EXPECT_EQ(fake.leaks(), "");
}

// A step whose memory was not to be had can be done again; one that broke off has spoilt what it was given.
TEST_F(CudaFault, ADonatedArrayIsUsedUpOnlyByARunThatBegan) {
  SYSTOLE_NEEDS_NVRTC();
  FakeDriver fake;
  give_kernel(fake);
  const Device device(0);
  const auto session = new_session(device);
  const BufferRef x = uploaded(numbers(1), device);
  fake.fail(1, kErrorOutOfMemory, "cuMemAllocAsync", 2);
  error_of(ErrorKind::kOutOfMemory, [&] { run(*session, x, true); });
  fake.recover();
  EXPECT_EQ(values_of(x->to_host()), (std::vector<float>{1, 2, 3, 4}));
  fake.fail(1, 1, "cuMemcpyDtoDAsync");
  error_of(ErrorKind::kInternal, [&] { run(*session, x, true); });
  fake.recover();
  error_of(ErrorKind::kInvalidArgument, [&] { x->to_host(); });
}

TEST_F(CudaFault, AnOldGpuIsRefusedInPlainWordsAndOthersAreUsed) {
  FakeGpu old;
  old.name = "Tesla V100";
  old.major = 7;
  {
    FakeDriver fake({old});
    const Devices found = find_devices();
    EXPECT_TRUE(found.usable.empty());
    for (const char* const part : {"cuda:0", "Tesla V100 is too old", "7.5 (Turing) or newer", "7.0"})
      EXPECT_NE(found.left_out.find(part), std::string::npos) << found.left_out;
  }
  FakeDriver fake({old, FakeGpu{}});
  const Devices found = find_devices();
  ASSERT_EQ(found.usable.size(), 1u);
  EXPECT_EQ(found.usable[0]->ordinal(), 1);
  EXPECT_NE(found.left_out.find("too old"), std::string::npos);
}

TEST_F(CudaFault, AGpuThatDoesNotSayWhatItIsIsLeftOutWithTheReason) {
  for (int n = 1;; ++n) {
    FakeDriver fake;
    fake.fail(n, 1);
    const Devices found = find_devices();
    if (!fake.has_failed()) break;
    EXPECT_TRUE(found.usable.empty()) << n;
    EXPECT_NE(found.left_out.find("CUDA_ERROR_INVALID_VALUE"), std::string::npos) << found.left_out;
    fake.recover();
    EXPECT_EQ(find_devices().usable.size(), 1u);
  }
}

TEST_F(CudaFault, AMachineWithoutAGpuSaysSo) {
  FakeDriver fake(std::vector<FakeGpu>{});
  EXPECT_EQ(find_devices().left_out, "no NVIDIA GPU on this machine");
  fake.fail(1, 1, "cuDeviceGetCount");
  EXPECT_NE(find_devices().left_out.find("CUDA_ERROR_INVALID_VALUE"), std::string::npos);
}

TEST_F(CudaFault, ADriverThatIsTooOldOrDoesNotStartSaysSo) {
  FakeDriver fake;
  EXPECT_EQ(start_driver(fake.table()), "");
  fake.version = 11080;
  EXPECT_EQ(start_driver(fake.table()), "the NVIDIA driver is too old: it knows CUDA 11.8, 12.0 is needed");
  fake.version = 12040;
  fake.init_status = kErrorNoDevice;
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(start_driver(fake.table()), "no NVIDIA GPU on this machine");
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
  EXPECT_EQ(start_driver(fake.table()), "no NVIDIA GPU: CUDA_VISIBLE_DEVICES is \"\"");
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  fake.init_status = 999;
  EXPECT_EQ(start_driver(fake.table()), "the NVIDIA driver does not start: by the fake driver (999)");
}

// No fake here: what this machine says.
TEST(CudaAbsence, IsToldToWhoAsksAndToWhoTries) {
  if (is_available()) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_EQ(device_count(), 0);
  const std::string reason = unavailable_reason();
  EXPECT_FALSE(reason.empty());
  const std::string words = error_of(ErrorKind::kUnsupported, [] { systole::compile(doubling(), "cuda:0"); });
  EXPECT_NE(words.find("device \"cuda:0\""), std::string::npos) << words;
  EXPECT_NE(words.find(reason), std::string::npos) << words;
}

}  // namespace
}  // namespace systole::cuda
