// kernel_call inside compiled graphs: its source runs on the devices whose language it is in. A device that
// is not here is skipped with its reason.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/jit.h"
#include "error_check.h"
#include "systole/autodiff.h"
#include "systole/ops.h"
#include "systole/runtime.h"

namespace systole {

namespace {

using Floats = std::vector<float>;
using ir::Graph;
using ir::Value;
using ir::Values;

// y = a + 2b; z = a·b; in C once for all elements, elsewhere a thread for each.
ir::KernelAttrs both(const Type& type) {
  return {.name = "both",
          .c = R"(
void both(const float* a, const float* b, float* y, float* z) {
  for (int i = 0; i < S_COUNT; ++i) {
    y[i] = a[i] + 2 * b[i];
    z[i] = a[i] * b[i];
  }
})",
          .cuda = R"(
__global__ void both(const float* a, const float* b, float* y, float* z) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= S_COUNT) return;
  y[i] = a[i] + 2 * b[i];
  z[i] = a[i] * b[i];
})",
          .opencl = R"(
__kernel void both(__global const float* a, __global const float* b, __global float* y, __global float* z) {
  const size_t i = get_global_id(0);
  if (i >= S_COUNT) return;
  y[i] = a[i] + 2 * b[i];
  z[i] = a[i] * b[i];
})",
          .results = {type, type}};
}

// o = expression of x[i] and, where `inputs` has it, g[i]; in C for ranges of the elements.
ir::KernelAttrs map(const std::string& name, const std::string& inputs, const std::string& expression,
                    const Type& type) {
  std::string c, opencl;
  for (const char input : inputs) {
    c += std::string("const float* ") + input + ", ";
    opencl += std::string("__global const float* ") + input + ", ";
  }
  return {.name = name,
          .c = "void " + name + "(" + c + "float* o, long long begin, long long end) {\n" +
               "  for (long long i = begin; i < end; ++i) o[i] = " + expression + ";\n}",
          .cuda = "extern \"C\" __global__ void " + name + "(" + c + "float* o) {\n" +
                  "  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < S_COUNT) o[i] = " +
                  expression + ";\n}",
          .opencl = "__kernel void " + name + "(" + opencl + "__global float* o) {\n" +
                    "  const size_t i = get_global_id(0);\n  if (i < S_COUNT) o[i] = " + expression + ";\n}",
          .results = {type}};
}

class KernelCall : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    runtime::Backend& backend = runtime::backend(device());
    if (backend.devices().empty()) GTEST_SKIP() << backend.unavailable_reason();
    if (device() == "cpu" && cpu::kernels_in_words().find("without kernels") != std::string::npos)
      GTEST_SKIP() << cpu::kernels_in_words();
  }
  static std::string device() { return GetParam(); }
  static std::vector<Floats> run(const Graph& graph, const std::vector<Floats>& arguments) {
    std::vector<Literal> values;
    for (const Floats& a : arguments)
      values.push_back(Literal::of<float>({static_cast<std::int64_t>(a.size())}, std::span<const float>(a)));
    std::vector<Floats> results;
    for (const Literal& result : compile(graph, device()).run(values)) {
      const auto got = result.values<float>();
      results.emplace_back(got.begin(), got.end());
    }
    return results;
  }
};

INSTANTIATE_TEST_SUITE_P(Devices, KernelCall, testing::Values("cpu", "opencl", "cuda"),
                         [](const auto& info) { return info.param; });

Type vector_of(std::int64_t n) { return {DType::f32, {n}}; }

TEST_P(KernelCall, RunsItsSource) {
  const Type type = vector_of(3);
  Graph graph("calls");
  const Values y = ops::kernel_call(graph, {graph.input("a", type), graph.input("b", type)}, both(type));
  graph.output(y[0]);
  graph.output(y[1]);
  EXPECT_EQ(run(graph, {{1, 2, 3}, {10, 20, 30}}), (std::vector<Floats>{{21, 42, 63}, {10, 40, 90}}));
}

// Operands and results are temporaries of the arena then, an operand may be there twice, and nobody asks for
// the first result.
TEST_P(KernelCall, StandsBetweenOtherWork) {
  const Type type = vector_of(997);  // no multiple of a block
  Graph graph("calls");
  const Value a = graph.input("a", type), b = graph.input("b", type);
  const Value first = ops::kernel_call(graph, {ops::neg(a), ops::add(b, b)}, both(type))[1];
  const Value second = ops::kernel_call(graph, {first, first}, both(type))[0];
  graph.output(ops::add(second, a));
  Floats x(997), z(997), wanted(997);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i % 10);
    z[i] = static_cast<float>(i % 7);
    wanted[i] = 3 * (-x[i] * 2 * z[i]) + x[i];
  }
  EXPECT_EQ(run(graph, {x, z}), (std::vector<Floats>{wanted}));
}

TEST_P(KernelCall, RunsInALoop) {
  const Type type = vector_of(3);
  const ir::GraphRef body =
      ir::make_graph("body", std::vector<Type>{type, type}, [&](const Values& in) -> Values {
        const Value sum = ops::kernel_call(in[0].graph(), {in[0], in[1]}, both(type))[0];
        return {sum, sum};
      });
  Graph graph("running");
  const Value start = graph.input("start", type), xs = graph.input("xs", vector_of(6));
  graph.output(ops::scan(body, {start}, {ops::reshape(xs, {2, 3})}, {}, 2, false)[1]);
  EXPECT_EQ(run(graph, {{1, 1, 1}, {1, 2, 3, 4, 5, 6}}), (std::vector<Floats>{{3, 5, 7, 11, 15, 19}}));
}

TEST_P(KernelCall, TakesGridAndBlock) {
  ir::KernelAttrs attrs{.name = "points", .results = {vector_of(8)}, .grid = {2}, .block = {4}};
  attrs.c =
      "void points(float* y, long long begin, long long end) {\n"
      "  for (long long i = begin; i < end; ++i) y[i] = i / 4 * 10 + i % 4;\n}";
  attrs.opencl =
      "__kernel void points(__global float* y) {\n"
      "  y[get_global_id(0)] = get_group_id(0) * 10 + get_local_id(0);\n}";
  attrs.cuda =
      "__global__ void points(float* y) {\n"
      "  y[blockIdx.x * blockDim.x + threadIdx.x] = blockIdx.x * 10 + threadIdx.x;\n}";
  Graph graph("points");
  graph.output(ops::kernel_call(graph, {}, attrs)[0]);
  EXPECT_EQ(run(graph, {}), (std::vector<Floats>{{0, 1, 2, 3, 10, 11, 12, 13}}));
}

// Of grid and block, what is left out covers the result: nothing of it is left as it was.
TEST_P(KernelCall, DerivesWhatIsLeftOutOfItsLaunch) {
  const Type type = vector_of(1000);
  for (const auto& [grid, block] :
       std::vector<std::pair<Ints, Ints>>{{{}, {}}, {{}, {128}}, {{}, {8, 4}}, {{7}, {}}, {{3, 2}, {}}}) {
    ir::KernelAttrs attrs = map("square", "x", "x[i] * x[i]", type);
    attrs.grid = grid;
    attrs.block = block;
    if (block.size() > 1 || grid.size() > 1) {
      attrs.cuda = R"(
__global__ void square(const float* x, float* o) {
  const int groups = blockIdx.y * gridDim.x + blockIdx.x;
  const int i = groups * blockDim.x * blockDim.y + threadIdx.y * blockDim.x + threadIdx.x;
  if (i < S_COUNT) o[i] = x[i] * x[i];
})";
      attrs.opencl = R"(
__kernel void square(__global const float* x, __global float* o) {
  const size_t groups = get_group_id(1) * get_num_groups(0) + get_group_id(0);
  const size_t i = groups * get_local_size(0) * get_local_size(1) + get_local_id(1) * get_local_size(0) +
                   get_local_id(0);
  if (i < S_COUNT) o[i] = x[i] * x[i];
})";
    }
    Graph graph("squares");
    graph.output(ops::kernel_call(graph, {graph.input("x", type)}, attrs)[0]);
    EXPECT_EQ(run(graph, {Floats(1000, 3)}), (std::vector<Floats>{Floats(1000, 9)}))
        << grid.size() << " " << block.size();
  }
}

// y = x³ by a kernel, and its derivative 3x²·g by another: a composite holds both.
TEST_P(KernelCall, HasABackwardInsideAComposite) {
  const Type type = vector_of(3);
  const ir::GraphRef body = ir::make_graph("body", std::vector<Type>{type}, [&](const Values& in) -> Values {
    return ops::kernel_call(in[0].graph(), {in[0]}, map("cube", "x", "x[i] * x[i] * x[i]", type));
  });
  const ir::GraphRef backward =  // of x, y and the gradient of y
      ir::make_graph("backward", std::vector<Type>{type, type, type}, [&](const Values& in) -> Values {
        return ops::kernel_call(in[0].graph(), {in[0], in[2]},
                                map("cube_grad", "xg", "3 * x[i] * x[i] * g[i]", type));
      });
  Graph graph("cubes");
  const Value x = graph.input("x", type);
  const Value y =
      graph.add_multi(ir::Op::composite, {x}, ir::CompositeAttrs{"cube", {}}, {body, backward})[0];
  graph.output(ops::sum(ops::mul(y, y), {0}));
  const std::vector<Floats> got = run(autodiff::value_and_grad(graph, {0}), {{1, -2, 3}});
  EXPECT_EQ(got[0], Floats{1 + 64 + 729});
  EXPECT_EQ(got[1], (Floats{6, -192, 1458}));  // of x⁶: 6x⁵
}

TEST_P(KernelCall, WithABodyIsDifferentiatedThroughTheBody) {
  const Type type = vector_of(3);
  const ir::GraphRef body = ir::make_graph("body", std::vector<Type>{type}, [](const Values& in) -> Values {
    return {ops::mul(in[0], ops::mul(in[0], in[0]))};
  });
  Graph graph("cubes");
  const Value x = graph.input("x", type);
  graph.output(
      ops::sum(ops::kernel_call(graph, {x}, map("cube", "x", "x[i] * x[i] * x[i]", type), body)[0], {0}));
  const std::vector<Floats> got = run(autodiff::value_and_grad(graph, {0}), {{1, -2, 3}});
  EXPECT_EQ(got[0], Floats{1 - 8 + 27});
  EXPECT_EQ(got[1], (Floats{3, 12, 27}));
}

TEST_P(KernelCall, OfNothingIsNothing) {
  const Type type = vector_of(0);
  Graph graph("empty");
  graph.output(ops::kernel_call(graph, {graph.input("a", type), graph.input("b", type)}, both(type))[0]);
  EXPECT_EQ(run(graph, {{}, {}}), (std::vector<Floats>{{}}));
}

TEST_P(KernelCall, OfNothingAndSomethingSaysNotHowManyThreadsThereAre) {
  const Type none = vector_of(0), some = vector_of(4);
  Graph graph("half_empty");
  ir::KernelAttrs attrs = both(none);
  attrs.results = {none, some};
  for (const ir::Value v : ops::kernel_call(graph, {graph.input("a", none), graph.input("b", none)}, attrs))
    graph.output(v);
  const std::string words = error_of(ErrorKind::kInvalidArgument, [&] { run(graph, {{}, {}}); });
  EXPECT_NE(words.find("result 0 is empty"), words.npos) << words;
}

TEST_P(KernelCall, WithoutASourceForTheDeviceRunsItsBody) {
  const Type type = vector_of(2);
  ir::KernelAttrs attrs{.name = "f", .results = {type}};
  (device() == "cuda" ? attrs.opencl : attrs.cuda) = "…";
  const ir::GraphRef body = ir::make_graph("body", std::vector<Type>{type},
                                           [](const Values& in) -> Values { return {ops::neg(in[0])}; });
  Graph graph("negative");
  graph.output(ops::kernel_call(graph, {graph.input("x", type)}, attrs, body)[0]);
  EXPECT_EQ(run(graph, {{1, 2}}), (std::vector<Floats>{{-1, -2}}));

  Graph bare("bare");
  bare.output(ops::kernel_call(bare, {bare.input("x", type)}, attrs)[0]);
  const std::string words = error_of(ErrorKind::kUnsupported, [&] { compile(bare, device()); });
  EXPECT_NE(words.find("kernel_call f"), std::string::npos) << words;
}

TEST_P(KernelCall, IsRefusedWhenTheSourceDoesNotFitTheNode) {
  const Type type = vector_of(2);
  const auto in_cuda = [](std::string text) {
    for (const auto& [word, other] : {std::pair{"__kernel", "extern \"C\" __global__"}, {"__global ", ""}})
      for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
        text.replace(at, std::string(word).size(), other);
    return text;
  };
  const auto refused = [&](ErrorKind kind, const std::string& c, const std::string& opencl,
                           const char* name = "f") {
    Graph graph("misfit");
    graph.output(ops::kernel_call(
        graph, {graph.input("x", type)},
        {.name = name, .c = c, .cuda = in_cuda(opencl), .opencl = opencl, .results = {type}})[0]);
    return error_of(kind, [&] { compile(graph, device()); });
  };
  const std::string count = refused(ErrorKind::kInvalidArgument, "void f(const float* x) {}",
                                    "__kernel void f(__global const float* x) {}");
  EXPECT_NE(count.find("expected 2, got 1"), std::string::npos) << count;
  const std::string type_words = refused(ErrorKind::kDType, "void f(const int* x, float* y) {}",
                                         "__kernel void f(__global const int* x, __global float* y) {}");
  EXPECT_NE(type_words.find("const int* x"), std::string::npos) << type_words;
  const std::string writes = refused(ErrorKind::kInvalidArgument, "void f(float* x, float* y) {}",
                                     "__kernel void f(__global float* x, __global float* y) {}");
  EXPECT_NE(writes.find("const"), std::string::npos) << writes;
  refused(ErrorKind::kInvalidArgument, "void f(const float* x, int n) {}",
          "__kernel void f(__global const float* x, int n) {}");
  refused(ErrorKind::kNotFound, "void g(const float* x, float* y) {}",
          "__kernel void g(__global const float* x, __global float* y) {}");
  const std::string syntax =
      refused(ErrorKind::kParse, "void f(const float* x, float* y) {\n  y[0] = nothing;\n}",
              "__kernel void f(__global const float* x, __global float* y) {\n  y[0] = nothing;\n}");
  EXPECT_NE(syntax.find("line 2"), std::string::npos) << syntax;
}

}  // namespace

}  // namespace systole
