// What only a GPU can show: a kernel that destroys the context, memory that really runs out, and work that
// goes on at one time, by the times at which the GPU began and ended it.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "../child_check.h"
#include "../error_check.h"
#include "backend/cuda/buffer.h"
#include "backend/cuda/device.h"
#include "backend/cuda/nvrtc.h"
#include "backend/cuda/session.h"
#include "systole/backend/cuda.h"
#include "systole/ops.h"
#include "systole/runtime.h"
#include "systole/tensor/compiled.h"
#include "systole/tensor/creation.h"
#include "systole/tensor/linalg.h"
#include "systole/tensor/math.h"
#include "systole/tensor/neural.h"
#include "systole/tensor/shaping.h"
#include "systole/tensor/transforms.h"

namespace systole::cuda {
namespace {

using runtime::BufferRef;

class OnCudaGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_available()) GTEST_SKIP() << "no GPU: " << unavailable_reason();
  }
};
using OnCudaGpuChild = OnCudaGpu;

TEST_F(OnCudaGpuChild, DISABLED_LosesItsContext) {
  const DeviceScope scope("reference");
  const Device& device = device_of(0);
  device.activate();
  const std::string code =
      machine_code("extern \"C\" __global__ void wild(float* p) { p[threadIdx.x] = 1; }",
                   {.architecture = device.architecture(), .flags = {}, .file_name = "wild.cu"});
  LoadedModule module = nullptr;
  check(driver().cuModuleLoadData(&module, code.data()), "cuModuleLoadData");
  Function wild = nullptr;
  check(driver().cuModuleGetFunction(&wild, module, "wild"), "cuModuleGetFunction");

  const BufferRef before = uploaded(Literal::of<float>({2}, {1, 2}), device);
  const Stream stream = device.take_stream();
  const auto result = DeviceBuffer::make(device, Type{DType::f32, {32}}, stream);
  Address nowhere = 64;
  void* parameters[] = {&nowhere};
  check(driver().cuLaunchKernel(wild, 1, 1, 1, 32, 1, 1, 0, stream, parameters, nullptr), "cuLaunchKernel");
  result->memory().was_written(std::make_shared<const Moment>(device, stream));

  const std::string words = error_of(ErrorKind::kContextLost, [&] { result->to_host(); });
  EXPECT_NE(words.find("ILLEGAL_ADDRESS"), std::string::npos) << words;
  error_of(ErrorKind::kContextLost, [&] { before->to_host(); });
  error_of(ErrorKind::kContextLost, [&] { uploaded(Literal::of<float>({1}, {1}), device); });
  error_of(ErrorKind::kContextLost, [&] { (tensor({1.f}).to("cuda") + 1).eval(); });
  for (const char* const other : {"reference", "cpu"})
    EXPECT_EQ((tensor({1.f, 2.f}).to(other) + 1).to_vector<float>(), (std::vector<float>{2, 3}));
}

TEST_F(OnCudaGpu, AnIllegalAddressLosesTheContextAndOtherDevicesGoOn) {
  EXPECT_TRUE(passes_in_a_child("OnCudaGpuChild.DISABLED_LosesItsContext"));
}

TEST_F(OnCudaGpu, MoreMemoryThanThereIsIsRefusedAndTheNextArrayIsMade) {
  const Device& device = device_of(0);
  const std::int64_t bytes = 2 * device.memory_bytes();
  device.activate();
  const BufferRef held = uploaded(Literal(Type{DType::f32, {1'000'000}}), device);
  std::string words = error_of(ErrorKind::kOutOfMemory, [&] {
    DeviceBuffer::make(device, Type{DType::u8, {bytes}}, device.transfers());
  });
  for (const std::string& part : {std::to_string(bytes) + " bytes wanted", std::string(" free"),
                                  held->type().to_string() + " (4000000 bytes)"})
    EXPECT_NE(words.find(part), std::string::npos) << words;
  const DeviceScope scope("cuda");
  words = error_of(ErrorKind::kOutOfMemory, [&] { zeros({bytes}, DType::u8).eval(); });
  EXPECT_EQ((tensor({1.f, 2.f}) + 1).to_vector<float>(), (std::vector<float>{2, 3}));
}

// The machine's driver with a timing event before and after every launch of a graph and every upload.
class Stopwatch {
 public:
  struct Interval {
    Stream stream = nullptr;
    float begin = 0, end = 0;  // ms
  };

  Stopwatch() {
    std::string reason;
    real = find_driver(reason);
    timed = *real;
    launches.clear();
    copies.clear();
    timed.cuGraphLaunch = [](GraphExec graph, Stream stream) {
      return measured(launches, stream, [&] { return real->cuGraphLaunch(graph, stream); });
    };
    timed.cuMemcpyHtoDAsync = [](Address to, const void* from, std::size_t bytes, Stream stream) {
      return measured(copies, stream, [&] { return real->cuMemcpyHtoDAsync(to, from, bytes, stream); });
    };
    device_of(0).activate();
    const Stream stream = device_of(0).transfers();
    check(real->cuEventCreate(&zero_, 0), "cuEventCreate");
    check(real->cuEventRecord(zero_, stream), "cuEventRecord");
    check(real->cuEventSynchronize(zero_), "cuEventSynchronize");
    set_driver(&timed);
  }
  ~Stopwatch() { set_driver(nullptr); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  std::vector<Interval> launched() const { return read(launches); }
  std::vector<Interval> copied() const { return read(copies); }

 private:
  struct Pair {
    Stream stream = nullptr;
    Event begin = nullptr, end = nullptr;
  };

  template <class Call>
  static Status measured(std::vector<Pair>& into, Stream stream, Call&& call) {
    Pair pair{stream};
    check(real->cuEventCreate(&pair.begin, 0), "cuEventCreate");
    check(real->cuEventCreate(&pair.end, 0), "cuEventCreate");
    check(real->cuEventRecord(pair.begin, stream), "cuEventRecord");
    const Status status = call();
    check(real->cuEventRecord(pair.end, stream), "cuEventRecord");
    const std::lock_guard lock(mutex);
    into.push_back(pair);
    return status;
  }
  std::vector<Interval> read(const std::vector<Pair>& pairs) const {
    device_of(0).synchronize();
    std::vector<Interval> intervals;
    for (const Pair& pair : pairs) {
      Interval& interval = intervals.emplace_back(Interval{pair.stream});
      check(real->cuEventElapsedTime(&interval.begin, zero_, pair.begin), "cuEventElapsedTime");
      check(real->cuEventElapsedTime(&interval.end, zero_, pair.end), "cuEventElapsedTime");
    }
    return intervals;
  }

  inline static const Driver* real = nullptr;
  inline static Driver timed;
  inline static std::mutex mutex;
  inline static std::vector<Pair> launches, copies;
  Event zero_ = nullptr;
};

float common(const Stopwatch::Interval& a, const Stopwatch::Interval& b) {
  return std::max(0.f, std::min(a.end, b.end) - std::max(a.begin, b.begin));
}

std::string in_words(const std::vector<Stopwatch::Interval>& intervals) {
  std::string words;
  for (const Stopwatch::Interval& interval : intervals)
    words += fmt::format(" {:.2f}-{:.2f}", interval.begin, interval.end);
  return words;
}

// y = tanh(y·w + x), many times one after another.
ir::Graph chain(std::int64_t size, int length) {
  ir::Graph graph("chain");
  const Type type{DType::f32, {size, size}};
  const ir::Value x = graph.input("x", type), w = graph.input("w", type);
  ir::Value y = x;
  for (int i = 0; i < length; ++i)
    y = graph.add(ir::Op::tanh, {graph.add(ir::Op::add, {ops::matmul(y, w), x})});
  graph.output(y, "y");
  return graph;
}

Literal hashed(std::int64_t size, std::uint32_t seed, double scale) {
  Literal value(Type{DType::f32, {size, size}});
  std::uint32_t state = seed;
  for (float& x : value.mutable_values<float>()) {
    state = state * 1664525u + 1013904223u;
    x = static_cast<float>(scale * (static_cast<double>(state >> 8) / (1 << 24) - 0.5));
  }
  return value;
}

std::vector<BufferRef> run(runtime::Session& session, const BufferRef& x, const BufferRef& w) {
  runtime::RunArguments arguments;
  arguments.per_device.push_back({x, w});
  return session.run(arguments)[0];
}

TEST_F(OnCudaGpu, TheNextBatchIsCopiedWhileThisOneIsComputed) {
  constexpr std::int64_t kSize = 4096;
  constexpr int kBatches = 8;
  const Device& device = device_of(0);
  const auto session = make_session(make_module(device, chain(kSize, 8), {}));
  const BufferRef w = uploaded(hashed(kSize, 1, 0.01), device);
  const Literal batch = hashed(kSize, 2, 1);
  {
    // By steps, then captured, until what comes at many addresses has a place of its own: no graph is made
    // while batches are timed. Waited for: copies beside work that is not timed would count as alone.
    std::vector<BufferRef> held, last;
    for (int i = 0; i < 7; ++i) last = run(*session, held.emplace_back(uploaded(batch, device)), w);
    last[0]->to_host();
  }
  std::vector<Stopwatch::Interval> computed, copied;
  {
    const Stopwatch watch;
    std::vector<BufferRef> last;
    for (int i = 0; i < kBatches; ++i) last = run(*session, uploaded(batch, device), w);
    last[0]->to_host();
    computed = watch.launched();
    copied = watch.copied();
  }
  float copying = 0, computing = 0, both = 0;
  for (const Stopwatch::Interval& launch : computed) computing += launch.end - launch.begin;
  for (const Stopwatch::Interval& copy : copied) {
    copying += copy.end - copy.begin;
    for (const Stopwatch::Interval& launch : computed) both += common(copy, launch);
  }
  RecordProperty("copying_ms", std::to_string(copying));
  RecordProperty("computing_ms", std::to_string(computing));
  RecordProperty("both_ms", std::to_string(both));
  EXPECT_EQ(computed.size(), static_cast<std::size_t>(kBatches));
  // All batches but the first have a computation to go beside.
  EXPECT_GT(both, 0.5f * copying) << copying << " ms of copies, " << computing << " ms of work\ncopies"
                                  << in_words(copied) << "\nwork" << in_words(computed);
}

// Against sums in f64. A factor rounded to tf32 is off by 2⁻¹¹ of itself at most; of sums of up to 128 terms,
// which are made of two parts each, 2⁻²⁰ of the terms is left at most, and what f32 takes in adding.
TEST_F(OnCudaGpu, SmallProductsInTf32AreWithinItsRounding) {
  struct Case {
    std::int64_t rows, columns, depth;
    bool left_turned, right_turned;
  };
  const Case cases[] = {
      {1, 1, 1, false, false},     {17, 9, 5, false, true},      {64, 10, 128, false, false},
      {64, 128, 10, false, true},  {128, 784, 64, true, true},   {10, 128, 64, true, false},
      {64, 128, 784, false, true}, {3, 200, 333, true, false},   {33, 7, 4096, false, false},
      {512, 10, 128, false, true}, {512, 128, 784, false, true}, {784, 128, 512, true, false},
      {500, 131, 208, false, true}};
  const auto number = [](std::int64_t i) {
    return static_cast<float>(std::sin(static_cast<double>(i) * 1.7 + 0.3));
  };
  for (const Case& c : cases) {
    const auto array = [&](std::int64_t high, std::int64_t wide, std::int64_t seed) {
      std::vector<float> all;
      for (std::int64_t i = 0; i < high * wide; ++i) all.push_back(number(i + seed));
      return all;
    };
    const std::vector<float> a = array(c.rows, c.depth, 0), b = array(c.depth, c.columns, 5);
    const Shape a_shape = c.left_turned ? Shape{c.depth, c.rows} : Shape{c.rows, c.depth},
                b_shape = c.right_turned ? Shape{c.columns, c.depth} : Shape{c.depth, c.columns};
    const auto at_a = [&](std::int64_t m, std::int64_t k) {
      return static_cast<double>(
          a[static_cast<std::size_t>(c.left_turned ? k * c.rows + m : m * c.depth + k)]);
    };
    const auto at_b = [&](std::int64_t k, std::int64_t n) {
      return static_cast<double>(
          b[static_cast<std::size_t>(c.right_turned ? n * c.depth + k : k * c.columns + n)]);
    };
    const auto f = compile(
        [&](const Tensor& x, const Tensor& y) {
          return matmul(c.left_turned ? transpose(x) : x, c.right_turned ? transpose(y) : y) + 1;
        },
        {.device = "cuda:0", .math = runtime::Math::tf32});
    const std::vector<float> got =
        f(Tensor(Literal::of<float>(a_shape, a)), Tensor(Literal::of<float>(b_shape, b))).to_vector<float>();
    double worst = 0;
    for (std::int64_t m = 0; m < c.rows; ++m)
      for (std::int64_t n = 0; n < c.columns; ++n) {
        double sum = 1, size = 1;
        for (std::int64_t k = 0; k < c.depth; ++k) {
          sum += at_a(m, k) * at_b(k, n);
          size += std::abs(at_a(m, k) * at_b(k, n));
        }
        const double share = c.depth <= 128 ? std::ldexp(1, -20) : std::ldexp(1, -10) + std::ldexp(1, -14);
        worst = std::max(worst,
                         std::abs(got[static_cast<std::size_t>(m * c.columns + n)] - sum) / (share * size));
      }
    EXPECT_LE(worst, 1) << c.rows << "×" << c.columns << "×" << c.depth;
  }
}

// By the GPU's own 2^x beyond 1: as near as the op promises, as anywhere.
TEST_F(OnCudaGpu, ErfIsWithinItsUlps) {
  constexpr std::size_t kCount = 1'000'000;
  std::vector<float> x(kCount);
  for (std::size_t i = 0; i < kCount; ++i) x[i] = static_cast<float>(static_cast<double>(i) * 1.1e-5 - 5.5);
  const auto f = compile([](const Tensor& v) { return erf(v); }, {.device = "cuda:0"});
  const std::vector<float> got = f(Tensor(Literal::of<float>({kCount}, x))).to_vector<float>();
  double worst = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    const double wanted = std::erf(static_cast<double>(x[i]));
    const double step = std::ldexp(1, std::max(std::ilogb(wanted), -126) - 23);
    worst = std::max(worst, std::abs(static_cast<double>(got[i]) - wanted) / step);
  }
  EXPECT_LE(worst, 4);
}

// What tf32 leaves of a factor is multiplied too, and an infinity leaves nothing.
TEST_F(OnCudaGpu, InfinitiesStayInfinitiesInSmallProducts) {
  const float inf = std::numeric_limits<float>::infinity();
  const auto f = compile([](const Tensor& x, const Tensor& y) { return matmul(x, y); },
                         {.device = "cuda:0", .math = runtime::Math::tf32});
  const Tensor x(Literal::of<float>({2, 2}, {inf, 1, -inf, 1})), y(Literal::of<float>({2, 1}, {2.1f, 0.3f}));
  EXPECT_EQ(f(x, y).to_vector<float>(), (std::vector<float>{inf, -inf}));
}

// Each overwrites what the other reads.
TEST_F(OnCudaGpu, VariablesThatTakeEachOthersPlaceAreReadBeforeTheyAreWritten) {
  const DeviceScope scope("cuda:0");
  constexpr std::int64_t kCount = 300'000;
  const Variable a(arange(kCount).to(DType::f32).eval(), "a"), b(full({kCount}, -1.0).eval(), "b");
  const auto swap = compile([a, b] {
    Variable left = a, right = b;
    const Tensor sum = b + 1, half = a * 0.5;
    left.assign(sum);
    right.assign(half);
  });
  std::vector<float> x(kCount), y(kCount, -1);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  for (int turn = 0; turn < 20; ++turn) {
    swap();
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float before = x[i];
      x[i] = y[i] + 1;
      y[i] = before * 0.5f;
    }
  }
  EXPECT_EQ(a.to_vector<float>(), x);
  EXPECT_EQ(b.to_vector<float>(), y);
}

// Convolutions of images against sums in f64: with what stands on them, and by their kernels.
struct ImageCase {
  std::int64_t images, high, wide, channels, filters, window, stride, padding, dilation;
};

class OnCudaGpuImages : public OnCudaGpu, public testing::WithParamInterface<ImageCase> {};

TEST_P(OnCudaGpuImages, AreConvolvedAsSumsSay) {
  const ImageCase& c = GetParam();
  const auto places = [&](std::int64_t size) {
    return (size + 2 * c.padding - c.dilation * (c.window - 1) - 1) / c.stride + 1;
  };
  const std::int64_t high = places(c.high), wide = places(c.wide);
  // Eighths, which all dtypes have, so that nothing is rounded on the way in.
  const auto array = [](std::int64_t count, std::int64_t seed) {
    std::vector<float> all;
    for (std::int64_t i = 0; i < count; ++i)
      all.push_back(static_cast<float>((i * 7919 + seed * 104729) % 31 - 15) / 8);
    return all;
  };
  const std::vector<float> x = array(c.images * c.high * c.wide * c.channels, 1),
                           w = array(c.filters * c.channels * c.window * c.window, 2),
                           b = array(c.filters, 3), r = array(c.images * high * wide * c.filters, 4);
  std::vector<double> y(r.size()), dw(w.size());
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  for (std::int64_t n = 0; n < c.images; ++n)
    for (std::int64_t i = 0; i < high; ++i)
      for (std::int64_t j = 0; j < wide; ++j)
        for (std::int64_t f = 0; f < c.filters; ++f) {
          const std::size_t place = at(((n * high + i) * wide + j) * c.filters + f);
          y[place] = static_cast<double>(b[at(f)]);
          for (std::int64_t u = 0; u < c.window; ++u)
            for (std::int64_t v = 0; v < c.window; ++v) {
              const std::int64_t row = i * c.stride + u * c.dilation - c.padding,
                                 column = j * c.stride + v * c.dilation - c.padding;
              if (row < 0 || row >= c.high || column < 0 || column >= c.wide) continue;
              for (std::int64_t k = 0; k < c.channels; ++k) {
                const double pixel = x[at(((n * c.high + row) * c.wide + column) * c.channels + k)];
                const std::size_t tap = at(((f * c.channels + k) * c.window + u) * c.window + v);
                y[place] += pixel * w[tap];
                dw[tap] += pixel * r[place];
              }
            }
          y[place] = std::max(y[place], 0.0);
        }
  const auto conv = [&](const Tensor& image, const Tensor& kernel) {
    return conv2d(image, kernel, {}, {.stride = c.stride, .padding = c.padding, .dilation = c.dilation});
  };
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const auto tensor = [&](const Shape& shape, const std::vector<float>& values) {
      return Tensor(Literal::of<float>(shape, values)).to(dtype);
    };
    const Tensor image = tensor({c.images, c.high, c.wide, c.channels}, x),
                 kernel = tensor({c.filters, c.channels, c.window, c.window}, w),
                 bias = tensor({c.filters}, b), back = tensor({c.images, high, wide, c.filters}, r);
    const FunctionOptions options{.device = "cuda:0", .math = runtime::Math::tf32};
    const std::vector<float> forwards =
        compile([&](const Tensor& i, const Tensor& k,
                    const Tensor& add) { return relu(conv(i, k).to(DType::f32) + add.to(DType::f32)); },
                options)(image, kernel, bias)
            .to_vector<float>();
    const double grain = dtype == DType::f32 ? 1e-6 : dtype == DType::bf16 ? 1.0 / 256 : 1.0 / 2048;
    ASSERT_EQ(forwards.size(), y.size());
    for (std::size_t i = 0; i < y.size(); ++i)
      ASSERT_NEAR(forwards[i], y[i], grain * (std::abs(y[i]) + 4)) << name(dtype) << " at " << i;
    const std::vector<float> by_kernel =
        compile(
            [&](const Tensor& i, const Tensor& k, const Tensor& weight) {
              const auto loss = [&](const Tensor& own) {
                return sum(conv(i, own).to(DType::f32) * weight.to(DType::f32));
              };
              return grad(loss)(k).to(DType::f32);
            },
            options)(image, kernel, back)
            .to_vector<float>();
    ASSERT_EQ(by_kernel.size(), dw.size());
    for (std::size_t i = 0; i < dw.size(); ++i)
      ASSERT_NEAR(by_kernel[i], dw[i], grain * (std::abs(dw[i]) + 400)) << name(dtype) << " at " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, OnCudaGpuImages,
    testing::Values(ImageCase{6, 32, 32, 3, 32, 3, 1, 0, 1}, ImageCase{5, 33, 31, 3, 32, 3, 1, 1, 1},
                    ImageCase{17, 28, 28, 1, 64, 5, 1, 2, 1}, ImageCase{3, 90, 101, 4, 32, 4, 2, 1, 1},
                    ImageCase{4, 40, 41, 2, 96, 3, 1, 2, 2}, ImageCase{300, 9, 9, 3, 32, 3, 2, 1, 1}));

TEST_F(OnCudaGpu, TwoThreadsRunAtOneTimeAndBothAreRight) {
  constexpr std::int64_t kSize = 64;
  constexpr int kRuns = 30;
  const Device& device = device_of(0);
  const ir::Graph graph = chain(kSize, 200);
  const std::shared_ptr<const Module> module = make_module(device, graph, {});
  const Literal w = hashed(kSize, 3, 0.2);  // errors die away
  std::vector<Literal> got(2);
  std::vector<Stopwatch::Interval> launched;
  {
    const Stopwatch watch;
    std::vector<std::thread> threads;
    for (std::uint32_t t = 0; t < 2; ++t)
      threads.emplace_back([&, t] {
        const auto session = make_session(module);
        const BufferRef x = uploaded(hashed(kSize, 10 + t, 1), device), weights = uploaded(w, device);
        std::vector<BufferRef> last;
        for (int i = 0; i < kRuns; ++i) last = run(*session, x, weights);
        got[t] = last[0]->to_host();
      });
    for (std::thread& thread : threads) thread.join();
    launched = watch.launched();
  }
  for (std::uint32_t t = 0; t < 2; ++t) {
    const Literal wanted = systole::compile(graph, "cpu").run({hashed(kSize, 10 + t, 1), w})[0];
    const auto a = got[t].values<float>(), b = wanted.values<float>();
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-3) << t << " " << i;
  }
  std::set<Stream> streams;
  float both = 0;
  for (const Stopwatch::Interval& one : launched) {
    streams.insert(one.stream);
    for (const Stopwatch::Interval& other : launched)
      if (one.stream < other.stream) both += common(one, other);
  }
  EXPECT_EQ(streams.size(), 2u);
  RecordProperty("both_ms", std::to_string(both));
  EXPECT_GT(both, 0.f);
}

}  // namespace
}  // namespace systole::cuda
