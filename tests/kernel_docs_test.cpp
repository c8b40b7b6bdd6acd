// The programs of docs/kernels.md, as they stand there: between the marks, this file has every line of them.

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "kernel_devices.h"
#include "systole/ops.h"
#include "systole/systole.h"

namespace systole {

namespace {

INSTANTIATE_TEST_SUITE_P(Devices, Kernels, testing::Values("cpu", "opencl:0", "cuda:0"), device_word);

// clang-format off
TEST_P(Kernels, OfTheDocumentationRun) {
  const std::string device = Kernels::device();
  const std::vector<float> x{1, 2, 3}, y{10, 20, 30};
// docs: begin
const int n = static_cast<int>(x.size());
SourceModule module(device, {.portable = R"(
  S_ENTRY add(S_GLOBAL const float* a, S_GLOBAL const float* b, S_GLOBAL float* c, int n) {
    const int i = S_THREAD;
    if (i < n) c[i] = a[i] + b[i];
  })"});
auto add = module.function<void(const float*, const float*, float*, int)>("add");

DeviceArray<float> a(device, x), b(device, y), c(device, {n});    // c: n zeros
add({.grid = {(n + 255) / 256}, .block = {256}})(a, b, c, n);     // or add(Launch::over(n))(…)

std::vector<float> sums = c.to_host();
Tensor t = c.tensor() * 2;              // the same memory
DeviceArray<float> d(t);                // evaluated; again without a copy
// docs: end
  EXPECT_EQ(sums, (Floats{11, 22, 33}));
  EXPECT_EQ(d.to_host(), (Floats{22, 44, 66}));
// docs: begin
HostArray<float> host(device, x);             // memory that the device copies from by itself
Stream copies(device), work(device);
DeviceArray<float> in(device, {n}), out(device, {n});
in.copy_from_async(host, copies);
const Event begin(work);
add(Launch::over(n).on(work))(in, in, out, n);    // after the copy: it reads `in`
const Event end(work);
out.copy_to_async(host, copies);
float first = host[0];                        // waits for the copies
double milliseconds = begin.elapsed_time(end);
// docs: end
  EXPECT_EQ(first, 2);
  EXPECT_GE(milliseconds, 0);
}

TEST_P(Kernels, OfTheDocumentationAreOps) {
  const Tensor t = tensor({1.0f, -2.0f, 0.0f}).to(Kernels::device());
// docs: begin
const KernelOp swish_grad({.name = "swish_grad", .sources = {.portable = R"(
  S_ENTRY swish_grad(S_GLOBAL const float* x, S_GLOBAL const float* dy, S_GLOBAL float* dx) {
    const s_i64 i = S_THREAD;
    if (i >= S_COUNT) return;
    const float s = 1 / (1 + s_exp(-x[i]));
    dx[i] = dy[i] * s * (1 + x[i] * (1 - s));
  })"}});
const KernelOp swish({.name = "swish", .sources = {.portable = R"(
  S_ENTRY swish(S_GLOBAL const float* x, S_GLOBAL float* y) {
    if (S_THREAD < S_COUNT) y[S_THREAD] = x[S_THREAD] / (1 + s_exp(-x[S_THREAD]));
  })"},
  .backward = [=](const KernelOp::Backward& b) { return swish_grad(b.inputs[0], b.gradients[0]); }});

Tensor y = swish(t);                                          // of any shape, on the device of t
auto loss = [&](const Tensor& t) { return sum(square(swish(t))); };
Tensor slope = compile(grad(loss))(t);                        // one program; on CUDA, one graph
// docs: end
  EXPECT_NEAR(y.to_vector<float>()[0], 0.7310586, 1e-6);          // 1 / (1 + 1/e)
  EXPECT_NEAR(slope.to_vector<float>()[0], 1.3563630, 1e-5);      // 2·y·(s + s·(1 - s)), s = y
  EXPECT_EQ(slope.to_vector<float>()[2], 0);
}

TEST_P(Kernels, OfTheDocumentationAreCompared) {
  const std::string device = Kernels::device();
// docs: begin
const KernelOp cube({.name = "cube", .sources = {.portable = R"(
  S_ENTRY cube(S_GLOBAL const real* x, S_GLOBAL real* y) {
    if (S_THREAD < S_COUNT) y[S_THREAD] = x[S_THREAD] * x[S_THREAD] * x[S_THREAD];
  })"},
  .defines = [](const KernelTypes& t) {
    return KernelOp::Defines{{"real", t.inputs[0].dtype == DType::f64 ? "double" : "float"}};
  },
  .backward = [](const KernelOp::Backward& b) { return 3 * square(b.inputs[0]) * b.gradients[0]; }});
Tensor small = tensor({0.5, -1.0, 2.0}, DType::f64).to(device);
gradcheck(cube, small);                                       // throws, with the worst, when they differ
// docs: end
  EXPECT_EQ(cube(small).to_vector<double>()[2], 8);
}

ir::Value cubes(ir::Graph& graph, ir::Value x, const ir::KernelAttrs& cube, const ir::KernelAttrs& cube_grad) {
  const Type type = x.type();
// docs: begin
auto body = ir::make_graph("body", std::vector<Type>{type}, [&](const ir::Values& in) {
  return ops::kernel_call(in[0].graph(), {in[0]}, cube);                      // y = x³
});
auto backward = ir::make_graph("backward", std::vector<Type>{type, type, type}, [&](const ir::Values& in) {
  return ops::kernel_call(in[0].graph(), {in[0], in[2]}, cube_grad);          // of x, y and dy: 3x²·dy
});
ir::Value y = graph.add_multi(ir::Op::composite, {x}, ir::CompositeAttrs{"cube", {}}, {body, backward})[0];
// docs: end
  return y;
}
// clang-format on

TEST(KernelDocs, ACompositeHoldsAKernelAndItsBackward) {
  const Type type{DType::f32, {2}};
  ir::Graph graph("cubes");
  const ir::Value y = cubes(graph, graph.input("x", type), {.name = "cube", .results = {type}},
                            {.name = "cube_grad", .results = {type}});
  EXPECT_EQ(y.type(), type);
}

// The lines of a text without their indentation.
std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);)
    lines.push_back(line.substr(std::min(line.find_first_not_of(' '), line.size())));
  return lines;
}

TEST(KernelDocs, HaveTheProgramsOfThisFile) {
  const std::vector<std::string> here = lines_of(SYSTOLE_SOURCE_DIR "/tests/kernel_docs_test.cpp"),
                                 docs = lines_of(SYSTOLE_SOURCE_DIR "/docs/kernels.md");
  int programs = 0;
  auto begin = here.begin();
  while ((begin = std::find(begin, here.end(), "// docs: begin")) != here.end()) {
    const auto end = std::find(++begin, here.end(), "// docs: end");
    EXPECT_NE(std::search(docs.begin(), docs.end(), begin, end), docs.end()) << *begin;
    ++programs;
  }
  EXPECT_EQ(programs, std::count(docs.begin(), docs.end(), "```cpp"));
}

}  // namespace

}  // namespace systole
