// Kernels as ops on Tensors: on every device that takes sources, their results, derivatives, training with
// them, compiled functions and saved models.

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <tuple>
#include <vector>

#include "error_check.h"
#include "kernel_devices.h"
#include "scratch_folder.h"
#include "systole/systole.h"

namespace systole {

namespace {

using Doubles = std::vector<double>;

// y = x / (1 + e⁻ˣ) of floats or doubles.
KernelSources swish_sources(const std::string& type) {
  return {.portable = "S_ENTRY swish(S_GLOBAL const " + type + "* x, S_GLOBAL " + type + R"(* y) {
  if (S_THREAD < S_COUNT) y[S_THREAD] = x[S_THREAD] / (1 + s_exp(-x[S_THREAD]));
})"};
}
KernelSources swish_grad_sources(const std::string& type) {
  return {.portable = "S_ENTRY swish_grad(S_GLOBAL const " + type + "* x, S_GLOBAL const " + type +
                      "* dy, S_GLOBAL " + type + "* dx) {\n  if (S_THREAD < S_COUNT) {\n    const " + type +
                      R"( s = 1 / (1 + s_exp(-x[S_THREAD]));
    dx[S_THREAD] = dy[S_THREAD] * s * (1 + x[S_THREAD] * (1 - s));
  }
})"};
}
KernelOp swish_op(const std::string& type = "float") {
  // A source may have more kernels than the one that is asked for.
  const KernelOp back(
      {.name = "swish_grad",
       .sources = {.portable = swish_sources(type).portable + swish_grad_sources(type).portable}});
  return KernelOp(
      {.name = "swish", .sources = swish_sources(type), .backward = [back](const KernelOp::Backward& b) {
         return back(b.inputs[0], b.gradients[0]);
       }});
}

double swish_of(double x) { return x / (1 + std::exp(-x)); }

class KernelOps : public Kernels {
 protected:
  static Tensor on_device(const Doubles& values, Shape shape, DType dtype = DType::f32) {
    return tensor(values).reshape(std::move(shape)).to(dtype).to(device());
  }
};

INSTANTIATE_TEST_SUITE_P(Devices, KernelOps, testing::Values("cpu", "opencl:0", "cuda:0"), device_word);

TEST_P(KernelOps, AreOpsOnTensorsOfAnyShape) {
  const KernelOp swish = swish_op();
  const Doubles x{-2, -0.5, 0, 0.5, 1, 3};
  const Tensor y = swish(on_device(x, {2, 3})) * 2 + 1;
  EXPECT_EQ(y.shape(), (Shape{2, 3}));
  const auto got = y.to_vector<float>();
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(got[i], 2 * swish_of(x[i]) + 1, 1e-6);
  EXPECT_EQ(swish(zeros({0, 4}).to(device())).to_vector<float>(), Floats{});
  EXPECT_EQ(swish.name(), "swish");
}

TEST_P(KernelOps, HaveTheGradientOfTheirBackward) {
  const KernelOp swish = swish_op("double");
  const Tensor x = on_device({-2, -0.5, 0.1, 0.7, 1.3, 3}, {2, 3}, DType::f64);
  gradcheck(swish, x);
  gradcheck([&](const Tensor& x) { return sum(square(swish(x)) * x); }, x);
}

TEST_P(KernelOps, WithAWrongWayBackAreFoundByDifferences) {
  const KernelOp wrong({.name = "swish",
                        .sources = swish_sources("double"),
                        .backward = [](const KernelOp::Backward& b) { return b.gradients[0] * 0.5; }});
  const Tensor x = on_device({0, 0, 3, 0}, {2, 2}, DType::f64);  // the slope is 0.5 at 0
  const std::string words = error_of(ErrorKind::kInvalidArgument, [&] { gradcheck(wrong, x); });
  EXPECT_TRUE(contains(words, "argument 0, element [1, 0], of result 0, element [1, 0]") &&
              contains(words, "expected 1.0881041") && contains(words, "got 0.5"))
      << words;
}

// z = a·b + c with c broadcast by the kernel itself; the way back by a kernel with three results.
TEST_P(KernelOps, TakeAKernelOfInputsResultsAndGradientsForTheWayBack) {
  const KernelOp back({.name = "back",
                       .sources = {.portable = R"(
S_ENTRY back(S_GLOBAL const double* a, S_GLOBAL const double* b, S_GLOBAL const double* z,
             S_GLOBAL const double* dz, S_GLOBAL double* da, S_GLOBAL double* db) {
  if (S_THREAD >= S_COUNT) return;
  da[S_THREAD] = dz[S_THREAD] * (b[S_THREAD] + z[S_THREAD] * 0);
  db[S_THREAD] = dz[S_THREAD] * a[S_THREAD];
})"},
                       .results = [](std::span<const Type> in) { return std::vector<Type>{in[0], in[1]}; }});
  const KernelOp product({.name = "product",
                          .sources = {.portable = R"(
S_ENTRY product(S_GLOBAL const double* a, S_GLOBAL const double* b, S_GLOBAL double* z) {
  if (S_THREAD < S_COUNT) z[S_THREAD] = a[S_THREAD] * b[S_THREAD];
})"},
                          .backward = back});
  const Tensor a = on_device({1, -2, 0.5}, {3}, DType::f64), b = on_device({3, 0.25, -1}, {3}, DType::f64);
  EXPECT_EQ(product(a, b).to_vector<double>(), (Doubles{3, -0.5, -0.5}));
  gradcheck(product, std::tuple(a, b));
  gradcheck([&](const Tensor& a, const Tensor& b) { return sum(exp(product(a, b))); }, std::tuple(a, b));
}

TEST_P(KernelOps, HaveSecondDerivativesWhereTheWayBackHasThem) {
  // y = x³; the way back by Tensor ops.
  const KernelOp cube(
      {.name = "cube",
       .sources = {.portable = R"(
S_ENTRY cube(S_GLOBAL const double* x, S_GLOBAL double* y) {
  if (S_THREAD < S_COUNT) y[S_THREAD] = x[S_THREAD] * x[S_THREAD] * x[S_THREAD];
})"},
       .backward = [](const KernelOp::Backward& b) { return 3 * square(b.inputs[0]) * b.gradients[0]; }});
  const auto slope = grad([&](const Tensor& x) { return sum(cube(x)); });
  const Tensor x = on_device({2, -1}, {2}, DType::f64);
  EXPECT_EQ(slope(x).to_vector<double>(), (Doubles{12, 3}));
  EXPECT_EQ(grad([&](const Tensor& x) { return sum(slope(x)); })(x).to_vector<double>(), (Doubles{12, -6}));
}

TEST_P(KernelOps, ArePartOfCompiledFunctions) {
  const KernelOp swish = swish_op();
  const auto f = compile([&](const Tensor& x) { return std::pair{sum(swish(x)), swish(x + 1)}; });
  const Doubles x{-1, 0.5, 2};
  for (int round = 0; round < 3; ++round) {
    const auto [total, shifted] = f(on_device(x, {3}));
    EXPECT_NEAR(total.item<float>(), swish_of(-1) + swish_of(0.5) + swish_of(2), 1e-5);
    EXPECT_NEAR(shifted.to_vector<float>()[2], swish_of(3), 1e-5);
  }
  // A kernel's types are its own: contractions around it may be in bf16.
  const auto low = compile(autocast([&](const Tensor& x, const Tensor& w) { return swish(matmul(x, w)); }));
  EXPECT_NEAR(low(on_device({1, 1}, {1, 2}), on_device({1, 1}, {2, 1})).item<float>(), swish_of(2), 1e-2);
  const auto both = compile(value_and_grad([&](const Tensor& x) { return sum(swish(x)); }));
  const auto [value, slope] = both(on_device({0}, {1}));
  EXPECT_EQ(value.item<float>(), 0);
  EXPECT_NEAR(slope.to_vector<float>()[0], 0.5, 1e-6);
}

TEST_P(KernelOps, StandOnTheTimelineByTheirNames) {
  const KernelOp swish = swish_op();
  const Tensor x = on_device({1, 2}, {2});
  swish(x).eval();
  const std::string path = testing::TempDir() + "kernel_op_timeline_" + device().substr(0, 3) + ".json";
  Timeline::start(path);
  swish(x).eval();
  synchronize(device());
  Timeline::stop();
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::filesystem::remove(path);
  EXPECT_TRUE(contains(text, "kernel_call swish")) << text;
}

// y = swish(2x − 1) is learned from its values.
TEST_P(KernelOps, AreTrainedThrough) {
  const DeviceScope scope(device());
  const KernelOp swish = swish_op();
  Doubles xs, ys;
  for (int i = -20; i <= 20; ++i) {
    xs.push_back(0.1 * i);
    ys.push_back(swish_of(0.2 * i - 1));
  }
  const Tensor x = on_device(xs, {41}), y = on_device(ys, {41});
  Tensor w = full({}, 0.5), b = full({}, 0.0);
  const auto step = compile([&](const Tensor& w, const Tensor& b) {
    const auto loss = [&](const Tensor& w, const Tensor& b) { return mean(square(swish(w * x + b) - y)); };
    const auto [value, grads] = value_and_grad<0, 1>(loss)(w, b);
    return std::tuple{value, w - 0.3 * std::get<0>(grads), b - 0.3 * std::get<1>(grads)};
  });
  float first = 0, last = 0;
  for (int i = 0; i < 400; ++i) {
    const auto [value, new_w, new_b] = step(w, b);
    w = new_w;
    b = new_b;
    last = value.item<float>();
    if (i == 0) first = last;
  }
  EXPECT_LT(last, 1e-3 * first);
  EXPECT_NEAR(w.item<float>(), 2, 0.1);
  EXPECT_NEAR(b.item<float>(), -1, 0.1);
}

// What is missing is said with the kernel's name.
TEST_P(KernelOps, WithoutAWayBackOrAGraphSayWhatToGiveThem) {
  const KernelOp plain({.name = "swish", .sources = swish_sources("float")});
  const Tensor x = on_device({1, 2}, {2});
  const std::string back = error_of(ErrorKind::kUnsupported,
                                    [&] { grad([&](const Tensor& x) { return sum(plain(x)); })(x).eval(); });
  EXPECT_TRUE(contains(back, "kernel_call swish") && contains(back, ".backward or .fallback")) << back;
  const std::string mapped = error_of(
      ErrorKind::kUnsupported, [&] { vmap([&](const Tensor& row) { return swish_op()(row); })(x).eval(); });
  EXPECT_TRUE(contains(mapped, "kernel_call swish") && contains(mapped, ".fallback")) << mapped;
}

TEST_P(KernelOps, RunInTheBlocksThatTheirSourceIsFor) {
  const KernelOp twice({.name = "twice", .sources = {.portable = R"(
S_KERNEL(64) twice(S_GLOBAL const float* x, S_GLOBAL float* y) {
  if (S_THREAD < S_COUNT) y[S_THREAD] = 2 * x[S_THREAD] + (S_LANES == 64 ? 0 : 100);
})"}});
  const Tensor x = arange(200, DType::f32).to(device());
  EXPECT_EQ(twice(x).to_vector<float>(), (x * 2).to_vector<float>());
  EXPECT_EQ(twice(zeros({0}).to(device())).to_vector<float>(), Floats{});
}

// The device's own language is what it was given as, whatever words are in it.
TEST_P(KernelOps, MayNameThePortableWordsInASourceOfTheDevices) {
  const KernelOp triple({.name = "triple",
                         .sources = {.opencl = R"(// not S_ENTRY
__kernel void triple(__global const float* x, __global float* y) {
  if (get_global_id(0) < S_COUNT) y[get_global_id(0)] = 3 * x[get_global_id(0)];
})",
                                     .cuda = R"(// not S_ENTRY
extern "C" __global__ void triple(const float* x, float* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < S_COUNT) y[i] = 3 * x[i];
})",
                                     .c = R"(// not S_ENTRY
void triple(const float* x, float* y, long long begin, long long end) {
  for (; begin < end; ++begin) y[begin] = 3 * x[begin];
})"}});
  EXPECT_EQ(triple(on_device({1, 2}, {2})).to_vector<float>(), (Floats{3, 6}));
}

TEST_P(KernelOps, WithoutElementsHaveNothingThatCouldBeWrong) {
  gradcheck(swish_op("double"), zeros({0, 4}, DType::f64).to(device()));
  error_of(ErrorKind::kInvalidArgument,
           [] { gradcheck([](const Tensor& x) { return x + 1; }, zeros({0}, DType::i32)); });
}

struct Rooted {
  nn::Linear fc{2, 2};
  KernelOp root;
  Tensor forward(const Tensor& x) const { return root(fc(x)); }
};
KernelOp with_slope_of_two(const std::string& name, const std::string& value) {
  return KernelOp({.name = name,
                   .sources = {.portable = "S_ENTRY " + name +
                                           "(S_GLOBAL const float* x, S_GLOBAL float* y) {\n"
                                           "  if (S_THREAD < S_COUNT) y[S_THREAD] = " +
                                           value + ";\n}"},
                   .backward = [](const KernelOp::Backward& b) { return 2 * b.gradients[0]; }});
}

// They are looked for on the device, where its sources run.
TEST_P(KernelOps, BadNumbersOfATrainingAreFoundThroughThem) {
  const DeviceScope scope(device());
  const auto told = [](const KernelOp& op, double lr) {
    Rooted net{.root = op};
    training::Trainer trainer(net, optim::SGD(net, {.lr = lr}), {.loss = "mse"});
    return error_of(ErrorKind::kInvalidArgument, [&] {
      trainer.fit(ones({32, 2}), ones({32, 2}) * 3, {.epochs = 3, .batch = 4, .verbose = 0});
    });
  };
  // The weights grow until the loss overflows: not by the kernel.
  const std::string other = told(with_slope_of_two("twice", "2 * x[S_THREAD]"), 1e20);
  EXPECT_TRUE(contains(other, "epoch 1") && contains(other, "not finite") &&
              !contains(other, "the search ends"))
      << other;
  const std::string own = told(with_slope_of_two("root", "s_sqrt(-1 - x[S_THREAD] * x[S_THREAD])"), 0.1);
  EXPECT_TRUE(contains(own, "the KernelOp root of f32[4,2] gives nan at [0,0]") && contains(own, "fc.weight"))
      << own;
}

struct Net {
  nn::Linear fc{2, 3};
  KernelOp swish = swish_op();
  Tensor forward(const Tensor& x) const { return swish(fc(x)); }
};

class SavedKernelOps : public ScratchFolder {};

TEST_F(SavedKernelOps, AreSavedWithTheirModelForAnyBatch) {
  const auto file = folder_ / "net.safetensors";
  const Net net;
  save(file, net, {{DType::f32, {1, 2}}});
  const std::string refused = error_of(ErrorKind::kUnsupported, [&] { load(file); });
  EXPECT_NE(refused.find("trust"), refused.npos) << refused;
  const SavedModel m = load(file, {.kernels = true});
  for (const int n : {1, 4}) {
    const Tensor x = ones({n, 2}) * 0.5;
    const auto want = net.forward(x).to_vector<float>(), got = m(x).to_vector<float>();
    ASSERT_EQ(want.size(), got.size());
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-6);
  }
}

// 256 elements a group: a few batches have the same number of groups, and others have not.
TEST_F(SavedKernelOps, WithALaunchByTypesAreOfTheBatchTheyWereSavedWith) {
  struct Doubling {
    KernelOp doubled{{.name = "doubled",
                      .sources = {.portable = R"(
S_ENTRY doubled(S_GLOBAL const float* x, S_GLOBAL float* y) {
  if (S_THREAD < S_COUNT) y[S_THREAD] = 2 * x[S_THREAD];
})"},
                      .launch = [](const KernelTypes& t) {
                        return Launch{.grid = {(t.inputs[0].shape.count() + 255) / 256}, .block = {256}};
                      }}};
    Tensor forward(const Tensor& x) const { return doubled(x); }
  };
  const auto file = folder_ / "doubling.safetensors";
  const Doubling net;
  save(file, net, {{DType::f32, {4, 10}}});
  const SavedModel m = load(file, {.kernels = true});
  EXPECT_EQ(m(ones({4, 10})).to_vector<float>(), Floats(40, 2));
  const std::string words = error_of(ErrorKind::kShape, [&] { m(ones({200, 10})).eval(); });
  EXPECT_TRUE(contains(words, "f32[4,10]") && contains(words, "launch, defines or results") &&
              contains(words, "(doubled)"))
      << words;
}

// A row by a group, and in C by an item: the launch and the numbers come from the types.
TEST_P(KernelOps, HaveLaunchesAndNumbersByTheirTypes) {
  const KernelOp largest({
      .name = "largest",
      .sources = {.portable = R"(
S_KERNEL(64) largest(S_GLOBAL const float* x, S_GLOBAL float* most, S_GLOBAL int* at) {
  S_LOCAL float part[64];
  S_LOCAL int place[64];
  float best = -1e30f;
  int where = 0;
  for (int i = S_LANE; i < COLUMNS; i += 64)
    if (x[S_GROUP * COLUMNS + i] > best) best = x[S_GROUP * COLUMNS + (where = i)];
  part[S_LANE] = best;
  place[S_LANE] = where;
  S_BARRIER;
  if (S_LANE == 0) {
    for (int i = 1; i < 64; ++i)
      if (part[i] > part[0]) {
        part[0] = part[i];
        place[0] = place[i];
      }
    most[S_GROUP] = part[0];
    at[S_GROUP] = place[0];
  }
})",
                  .c = R"(
void largest(const float* x, float* most, int* at, long long begin, long long end) {
  for (long long r = begin; r < end; ++r) {
    int best = 0;
    for (int i = 1; i < COLUMNS; ++i)
      if (x[r * COLUMNS + i] > x[r * COLUMNS + best]) best = i;
    most[r] = x[r * COLUMNS + best];
    at[r] = best;
  }
})"},
      .results =
          [](std::span<const Type> in) {
            const Shape rows{in[0].shape[0]};
            return std::vector<Type>{{DType::f32, rows}, {DType::i32, rows}};
          },
      .launch =
          [on_cpu = device() == "cpu"](const KernelTypes& t) {
            const std::int64_t rows = t.inputs[0].shape[0].value();
            return on_cpu ? Launch::over(rows) : Launch{.grid = {rows}, .block = {64}};
          },
      .defines =
          [](const KernelTypes& t) {
            return KernelOp::Defines{{"COLUMNS", std::to_string(t.inputs[0].shape[1].value())}};
          },
  });
  Doubles values(3 * 100, 0.0);
  values[17] = 5;
  values[100 + 99] = 2;
  values[200 + 0] = 1;
  const std::vector<Tensor> both = largest.call({on_device(values, {3, 100})});
  EXPECT_EQ(both[0].to_vector<float>(), (Floats{5, 2, 1}));
  EXPECT_EQ(both[1].to_vector<std::int32_t>(), (std::vector<std::int32_t>{17, 99, 0}));
  const std::string words =
      error_of(ErrorKind::kInvalidArgument, [&] { largest(on_device(values, {3, 100})); });
  EXPECT_TRUE(contains(words, "KernelOp largest") && contains(words, "several results")) << words;
}

// How many numbers fall into each of four bins. Buffers are used again, so counts would go on.
KernelOp histogram_op() {
  return KernelOp(
      {.name = "histogram",
       .sources = {.portable = R"(
S_ENTRY histogram(S_GLOBAL const float* x, S_GLOBAL int* counts, S_GLOBAL float* sums) {
  if (S_THREAD >= COUNT) return;
  const int bin = (int)x[S_THREAD] & 3;
  s_atomic_add(counts + bin, 1);
  s_atomic_add(sums + bin, x[S_THREAD]);
})"},
       .results =
           [](std::span<const Type>) { return std::vector<Type>{{DType::i32, {4}}, {DType::f32, {4}}}; },
       .zeroed = true,
       .launch = [](const KernelTypes& t) { return Launch::over(t.inputs[0].shape.count()); },
       .defines =
           [](const KernelTypes& t) {
             return KernelOp::Defines{{"COUNT", std::to_string(t.inputs[0].shape.count())}};
           }});
}

TEST_P(KernelOps, WithZeroedResultsAddToThem) {
  const KernelOp histogram = histogram_op();
  Doubles values;
  for (int i = 0; i < 1000; ++i) values.push_back(i % 7);
  const Tensor x = on_device(values, {1000});
  const std::vector<std::int32_t> counts{286, 286, 285, 143};  // of 0 and 4, 1 and 5, 2 and 6, 3
  const auto both = compile([&](const Tensor& x) {
    const std::vector<Tensor> all = histogram.call({x});
    return std::pair{all[0] + 0, all[1] * 1};
  });
  const auto one =
      compile([&](const Tensor& x) { return histogram.call({x})[1]; });  // nobody wants the counts
  for (int round = 0; round < 4; ++round) {
    const auto [n, sums] = both(x);
    EXPECT_EQ(n.to_vector<std::int32_t>(), counts) << round;
    EXPECT_EQ(sums.to_vector<float>(), (Floats{572, 858, 1138, 429})) << round;
    EXPECT_EQ(one(x).to_vector<float>()[3], 429) << round;
    EXPECT_EQ(histogram.call({x})[0].to_vector<std::int32_t>(), counts) << round;
  }
  // In a loop, results are rows of a larger array.
  const auto rows = compile([&](const Tensor& x) {
                      return histogram.call({x})[0];
                    }).many(concat({x, x, x}).reshape({3, 1000}));
  EXPECT_EQ(rows.to_vector<std::int32_t>()[11], 143);
}

TEST_P(KernelOps, WithZeroedResultsAndAnEmptyLaunchGiveZeros) {
  const KernelOp histogram = histogram_op();
  const auto f = compile([&](const Tensor& x) {
    const std::vector<Tensor> all = histogram.call({x});
    return std::pair{all[0] + 0, all[1] * 1};
  });
  for (int round = 0; round < 3; ++round) {
    const Tensor none = on_device({}, {0});
    const auto [n, sums] = f(none);
    EXPECT_EQ(n.to_vector<std::int32_t>(), std::vector<std::int32_t>(4, 0)) << round;
    EXPECT_EQ(sums.to_vector<float>(), Floats(4, 0)) << round;
    EXPECT_EQ(histogram.call({none})[1].to_vector<float>(), Floats(4, 0)) << round;
    EXPECT_EQ(f(on_device({1, 5}, {2})).second.to_vector<float>()[1], 6) << round;
  }
  const auto rows = compile([&](const Tensor& x) { return histogram.call({x})[1]; });
  EXPECT_EQ(rows.many(on_device({}, {3, 0})).to_vector<float>(), Floats(12, 0));
}

// A function in C that is called once is not called for no thread.
TEST_F(SavedKernelOps, OfAnEmptyLaunchAreNotCalled) {
  const KernelOp one({.name = "one",
                      .sources = {.c = "void one(const float* x, float* y) { y[0] = 1; }"},
                      .results = {{DType::f32, {2}}},
                      .zeroed = true,
                      .launch = Launch{.grid = {0}, .block = {4}}});
  EXPECT_EQ(one(tensor({1.0f}).to("cpu")).to_vector<float>(), (Floats{0, 0}));
}

TEST_P(KernelOps, MayStandBesideOnesThatCannotBeCalled) {
  const KernelOp plus({.name = "plus", .sources = {.portable = R"(
S_ENTRY rows(S_GLOBAL float (*y)[4]) { y[S_THREAD][0] = 1; }
S_ENTRY plus(S_GLOBAL const float* x, S_GLOBAL float* y) {
  if (S_THREAD < S_COUNT) y[S_THREAD] = x[S_THREAD] + 1;
})"}});
  EXPECT_EQ(plus(on_device({1, 2}, {2})).to_vector<float>(), (Floats{2, 3}));
}

TEST_F(SavedKernelOps, WithZeroedResultsAreSavedSo) {
  struct Counts {
    KernelOp histogram = histogram_op();
    Tensor forward(const Tensor& x) const { return histogram.call({x})[0] + 0; }
  };
  const auto file = folder_ / "counts.safetensors";
  save(file, Counts{}, {{DType::f32, {6}}});
  const SavedModel m = load(file, {.kernels = true});
  for (int round = 0; round < 3; ++round)
    EXPECT_EQ(m(tensor({0.0f, 1.0f, 1.0f, 2.0f, 3.0f, 5.0f})).to_vector<std::int32_t>(),
              (std::vector<std::int32_t>{1, 3, 1, 1}));
}

// What a group of a GPU shares is no matter of the source in C.
TEST_F(SavedKernelOps, SharedMemoryOfOtherSourcesDoesNotKeepAProcessorFromRunning) {
  const KernelOp plus(
      {.name = "plus",
       .sources =
           {.cuda = "__global__ void plus(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x] + 1; }",
            .c = "void plus(const float* x, float* y, long long begin, long long end) {"
                 " for (long long i = begin; i < end; ++i) y[i] = x[i] + 1; }"},
       .launch = [](const KernelTypes& t) {
         Launch launch = Launch::over(t.inputs[0].shape.count());
         launch.shared_bytes = 1024;
         return launch;
       }});
  const DeviceScope scope("cpu");
  EXPECT_EQ(plus(ones({3})).to_vector<float>(), (Floats{2, 2, 2}));
}

TEST_P(KernelOps, SayWhatIsWrongWithThem) {
  const Tensor x = on_device({1, 2}, {2});
  const auto refused = [&](ErrorKind kind, KernelOp::Options options) {
    return error_of(kind, [&] { KernelOp(std::move(options)).call({x})[0].eval(); });
  };
  EXPECT_TRUE(contains(refused(ErrorKind::kInvalidArgument, {}), "no name"));
  EXPECT_TRUE(contains(refused(ErrorKind::kInvalidArgument, {.name = "f"}), "nothing that it could run"));
  const std::string line = refused(
      ErrorKind::kParse,
      {.name = "f",
       .sources = {.portable =
                       "S_ENTRY f(S_GLOBAL const float* x, S_GLOBAL float* y) {\n  y[0] = nothing;\n}"},
       .defines = {{"A", "1"}, {"B", "2"}}});
  EXPECT_TRUE(contains(line, "kernel_call f: kernel source on " + device() +
                                 ", line 2: the compiler refuses it: y[0] = nothing;"))
      << line;
  const std::string absent = refused(ErrorKind::kNotFound, {.name = "g", .sources = swish_sources("float")});
  EXPECT_TRUE(contains(absent, "kernel_call g") && contains(absent, "no such kernel")) << absent;
  const std::string count =
      refused(ErrorKind::kInvalidArgument,
              {.name = "f", .sources = {.portable = "S_ENTRY f(S_GLOBAL const float* x) {}"}});
  EXPECT_TRUE(contains(count, "operands, then the results")) << count;
  const std::string dtype = refused(
      ErrorKind::kDType,
      {.name = "f", .sources = {.portable = "S_ENTRY f(S_GLOBAL const int* x, S_GLOBAL float* y) {}"}});
  EXPECT_TRUE(contains(dtype, "kernel_call f")) << dtype;
  EXPECT_TRUE(contains(refused(ErrorKind::kInvalidArgument,
                               {.name = "f",
                                .sources = swish_sources("float"),
                                .launch = Launch{.grid = {1}, .block = {2}, .stream = Stream(device())}}),
                       "stream"));
  const KernelOp bare({.name = "swish", .sources = swish_sources("float")});
  error_of(ErrorKind::kUnsupported, [&] { grad([&](const Tensor& x) { return sum(bare(x)); })(x).eval(); });
  const KernelOp wrong({.name = "swish",
                        .sources = swish_sources("float"),
                        .backward = [](const KernelOp::Backward& b) { return sum(b.gradients[0]); }});
  const std::string shape = error_of(ErrorKind::kShape, [&] { wrong(x); });
  EXPECT_TRUE(contains(shape, "gradient of input 0") && contains(shape, "f32[2]")) << shape;
}

TEST_P(KernelOps, HaveAFallbackForOtherDevicesVmapAndDerivatives) {
  const KernelOp swish({.name = "swish",
                        .sources = swish_sources("float"),
                        .fallback = [](std::span<const Tensor> x) { return x[0] * sigmoid(x[0]); }});
  const Tensor x = on_device({-1, 0, 2}, {3});
  EXPECT_NEAR(swish(x).to_vector<float>()[2], swish_of(2), 1e-6);
  EXPECT_NEAR(swish(x.to("reference")).to_vector<float>()[2], swish_of(2), 1e-6);
  EXPECT_NEAR(grad([&](const Tensor& x) { return sum(swish(x)); })(x).to_vector<float>()[1], 0.5, 1e-6);
  const Tensor mapped = vmap([&](const Tensor& row) { return swish(row); })(x.reshape({3, 1}));
  EXPECT_NEAR(mapped.to_vector<float>()[0], swish_of(-1), 1e-6);
  // Without a source for the device, the body is part of the graph.
  KernelSources others{.opencl = "…", .cuda = "…"};
  if (device() == "opencl:0") others.opencl.clear();
  if (device() == "cuda:0") others.cuda.clear();
  const KernelOp other(
      {.name = "g", .sources = others, .fallback = [](std::span<const Tensor> x) { return -x[0]; }});
  EXPECT_EQ((other(x) + 1).to_vector<float>(), (Floats{2, 1, -1}));
}

}  // namespace

}  // namespace systole
