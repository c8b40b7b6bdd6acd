// The OpenCL backend as a program sees it, and the forms its kernels take at sizes that the conformance suite
// does not have. Where no device is, the tests are skipped with the reason.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "codegen/kernel.h"
#include "compile/program.h"
#include "compile/target.h"
#include "error_check.h"
#include "scratch_folder.h"
#include "systole/ops.h"
#include "systole/runtime.h"
#include "systole/systole.h"
#if __has_include(<CL/cl.h>)
#include "backend/opencl/device.h"
#endif

namespace systole {

namespace {

using ir::Graph;
using ir::Value;
using runtime::BufferRef;

class OpenCl : public testing::Test {
 protected:
  void SetUp() override {
    if (backend().devices().empty()) GTEST_SKIP() << backend().unavailable_reason();
  }
  static runtime::Backend& backend() { return runtime::backend("opencl"); }
  static std::vector<float> run(const Graph& graph, std::initializer_list<Literal> arguments) {
    const std::vector<Literal> results = compile(graph, "opencl:0").run(arguments);
    const auto values = results.at(0).values<float>();
    return {values.begin(), values.end()};
  }
};

Literal row(std::vector<float> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  return Literal::of<float>({count}, std::span<const float>(values));
}

// Numbers without a pattern that a wrong index could hide in, in [-2, 2).
Literal numbers(Shape shape) {
  std::vector<float> values(static_cast<std::size_t>(shape.count()));
  std::uint32_t state = 12345;
  for (float& v : values)
    v = static_cast<float>((state = state * 1664525u + 1013904223u) >> 8) / 4194304.0f - 2;
  return Literal::of<float>(shape, std::span<const float>(values));
}

double at(const Literal& x, std::int64_t i) { return x.values<float>()[static_cast<std::size_t>(i)]; }

const Type kFour{DType::f32, {4}};

class AnyTarget final : public lower::Target {
 public:
  std::string_view name() const override { return "any"; }
  lower::KernelLimits limits() const override { return {.nodes = 400, .buffers = 60}; }
};

TEST_F(OpenCl, AddsVectors) {
  Graph graph("sum");
  graph.output(ops::add(graph.input("a", kFour), graph.input("b", kFour)));
  EXPECT_EQ(run(graph, {row({1, 2, 3, 4}), row({10, 20, 30, 40})}), (std::vector<float>{11, 22, 33, 44}));
}

TEST_F(OpenCl, ADonatedArgumentIsWrittenWhereItLiesAndNotReadableAfter) {
  Graph graph("step");
  const Value x = graph.input("x", kFour, 0);
  graph.output(ops::add(x, graph.input("d", kFour)));
  const auto session = compile(graph, "opencl").new_session();
  const BufferRef a = backend().upload(row({1, 2, 3, 4}), 0), b = backend().upload(row({1, 1, 1, 1}), 0);
  const BufferRef kept = session->run({{{a, b}}, {}})[0][0];
  EXPECT_NE(kept, a);
  EXPECT_EQ(at(a->to_host(), 0), 1);
  const BufferRef taken = session->run({{{a, b}}, {0}})[0][0];
  EXPECT_EQ(taken, a);
  EXPECT_EQ(at(taken->to_host(), 3), 5);
  session->run({{{b, b}}, {0}});  // the other argument is the same: it cannot be written in place
  error_of(ErrorKind::kInvalidArgument, [&] { b->to_host(); });
  error_of(ErrorKind::kInvalidArgument, [&] { session->run({{{b, a}}, {}}); });
}

// x·x is written over x, which exp(x) reads: both are of one thread, for one element and for many.
TEST_F(OpenCl, WhatOverwritesAnArrayAndWhatReadsItGoTogether) {
  for (const std::int64_t count : {1, 100'000}) {
    Graph graph("both");
    const Value x = graph.input("x", {DType::f32, {count}}, 0);
    graph.output(ops::mul(x, x));
    graph.output(ops::exp(x));
    std::vector<float> numbers(static_cast<std::size_t>(count), 3.0f);
    const auto session = compile(graph, "opencl").new_session();
    const std::vector<BufferRef> results =
        session->run({{{backend().upload(Literal::of<float>({count}, numbers), 0)}}, {0}})[0];
    const Literal squares = results[0]->to_host(), powers = results[1]->to_host();
    for (const float y : squares.values<float>()) ASSERT_EQ(y, 9.0f);
    for (const float y : powers.values<float>()) ASSERT_NEAR(y, 20.0855369, 1e-4);
  }
}

TEST_F(OpenCl, WrongArgumentsAreNamed) {
  Graph graph("twice");
  const Value x = graph.input("x", kFour);
  graph.output(ops::add(x, x));
  const auto session = compile(graph, "opencl").new_session();
  const std::string type =
      error_of(ErrorKind::kShape, [&] { session->run({{{backend().upload(row({1, 2}), 0)}}, {}}); });
  EXPECT_NE(type.find("argument 0"), std::string::npos) << type;
  const std::string foreign = error_of(ErrorKind::kInvalidArgument, [&] {
    session->run({{{runtime::backend("reference").upload(row({1, 2, 3, 4}), 0)}}, {}});
  });
  EXPECT_NE(foreign.find("reference"), std::string::npos) << foreign;
}

// Running sums: the carry is a scalar, xs and ys are slices that begin anywhere in their arrays.
TEST_F(OpenCl, ScansForwardsAndBackwards) {
  const Type three{DType::f32, {3}}, all{DType::f32, {4, 3}};
  for (const bool reverse : {false, true}) {
    const ir::GraphRef body =
        ir::make_graph("body", std::vector<Type>{three, three}, [](const ir::Values& in) -> ir::Values {
          const Value sum = ops::add(in[0], in[1]);
          return {sum, sum};
        });
    Graph graph("running");
    const Value start = graph.input("start", three), xs = graph.input("xs", all);
    graph.output(ops::scan(body, {start}, {xs}, {}, 4, reverse)[1]);
    const std::vector<float> got =
        run(graph, {row({0, 100, 200}), Literal::of<float>({4, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})});
    EXPECT_EQ(got, reverse ? (std::vector<float>{22, 126, 230, 21, 124, 227, 17, 119, 221, 10, 111, 212})
                           : (std::vector<float>{1, 102, 203, 5, 107, 209, 12, 115, 218, 22, 126, 230}));
  }
}

TEST_F(OpenCl, LoopsWhileAConditionHolds) {
  const Type number{DType::f32, {}};
  const ir::GraphRef condition = ir::make_graph(
      "condition", std::vector<Type>{number},
      [](const ir::Values& in) -> ir::Values { return {ops::less(in[0], ops::scalar_like(in[0], 100))}; });
  const ir::GraphRef body =
      ir::make_graph("body", std::vector<Type>{number},
                     [](const ir::Values& in) -> ir::Values { return {ops::add(in[0], in[0])}; });
  Graph graph("doubling");
  graph.output(ops::while_loop(condition, body, {graph.input("x", number)})[0]);
  EXPECT_EQ(run(graph, {Literal::scalar<float>(3)}), (std::vector<float>{192}));
  EXPECT_EQ(run(graph, {Literal::scalar<float>(128)}), (std::vector<float>{128}));
}

TEST_F(OpenCl, TakesTheBranchThatThePredicateNames) {
  const ir::GraphRef more =
      ir::make_graph("more", std::vector<Type>{kFour},
                     [](const ir::Values& in) -> ir::Values { return {ops::add(in[0], in[0])}; });
  const ir::GraphRef less = ir::make_graph(
      "less", std::vector<Type>{kFour}, [](const ir::Values& in) -> ir::Values { return {ops::neg(in[0])}; });
  Graph graph("either");
  const Value p = graph.input("p", {DType::boolean, {}}), x = graph.input("x", kFour);
  graph.output(ops::cond(p, more, less, {x})[0]);
  EXPECT_EQ(run(graph, {Literal::scalar<bool>(true), row({1, 2, 3, 4})}), (std::vector<float>{2, 4, 6, 8}));
  EXPECT_EQ(run(graph, {Literal::scalar<bool>(false), row({1, 2, 3, 4})}),
            (std::vector<float>{-1, -2, -3, -4}));
}

TEST_F(OpenCl, DenormalsAreKept) {
  Graph graph("half");
  const Value x = graph.input("x", {DType::f32, {1}});
  graph.output(ops::mul(x, ops::full(graph, {DType::f32, {1}}, 0.5)));
  EXPECT_EQ(run(graph, {row({0x1p-140f})}), (std::vector<float>{0x1p-141f}));
}

// Rows that one thread has, several threads of a warp, a warp, a group, with values kept in registers, in
// local memory and not at all.
TEST_F(OpenCl, SoftmaxOfRowsOfEveryLength) {
  for (const std::int64_t length : {1, 3, 33, 512, 700, 5000, 20000}) {
    const Shape shape{3, length};
    Graph graph("softmax");
    graph.output(ops::softmax(graph.input("x", {DType::f32, shape})));
    const Literal x = numbers(shape);
    const std::vector<float> got = run(graph, {x});
    for (std::int64_t r = 0; r < 3; ++r) {
      double sum = 0;
      for (std::int64_t i = 0; i < length; ++i) sum += std::exp(at(x, r * length + i));
      for (std::int64_t i = 0; i < length; ++i) {
        const double want = std::exp(at(x, r * length + i)) / sum;
        ASSERT_NEAR(got[static_cast<std::size_t>(r * length + i)], want, 4e-6 * want)
            << length << " " << r << " " << i;
      }
    }
  }
}

// A device limits the bytes of a kernel's arguments.
TEST_F(OpenCl, WorkOnManyArraysIsSplitOrDoneOnTheHost) {
  Graph graph("many");
  std::vector<Value> parts;
  std::vector<Literal> arguments;
  for (int i = 0; i < 300; ++i) {
    parts.push_back(graph.input("x" + std::to_string(i), kFour));
    arguments.push_back(row({1.0f * static_cast<float>(i), 2, 3, 4}));
  }
  Value sum = parts[0];
  for (std::size_t i = 1; i < parts.size(); ++i) sum = ops::add(ops::neg(sum), parts[i]);
  graph.output(sum);
  graph.output(ops::concat(parts, 0));
  const std::vector<Literal> results = compile(graph, "opencl:0").run(arguments);
  EXPECT_EQ(results[0].values<float>()[0], 150);  // 299 - 298 + 297 - …
  EXPECT_EQ(results[0].values<float>()[1], 0);
  for (std::size_t i = 0; i < 300; ++i)
    ASSERT_EQ(results[1].values<float>()[4 * i], static_cast<float>(i)) << i;
}

// Few columns with many points are cut in chunks, with a launch for each pass: sums, what needs them, rows.
TEST_F(OpenCl, NormalisesLongColumns) {
  for (const std::int64_t columns : {1, 6, 40}) {
    constexpr std::int64_t kLength = 9001;
    const Shape shape{kLength, columns};
    Graph graph("norm");
    const Value x = graph.input("x", {DType::f32, shape});
    const Value mean = ops::mean(x, {0}, true), centred = ops::sub(x, ops::broadcast_to(mean, shape));
    const Value variance = ops::mean(ops::mul(centred, centred), {0}, true);
    graph.output(ops::mul(centred, ops::broadcast_to(ops::rsqrt(variance), shape)));
    graph.output(variance);
    const Literal values = numbers(shape);
    const std::vector<Literal> got = compile(graph, "opencl:0").run({values});
    for (std::int64_t c = 0; c < columns; ++c) {
      double sum = 0, squares = 0;
      for (std::int64_t i = 0; i < kLength; ++i) sum += at(values, i * columns + c);
      const double middle = sum / kLength;
      for (std::int64_t i = 0; i < kLength; ++i) squares += std::pow(at(values, i * columns + c) - middle, 2);
      const double spread = squares / kLength;
      EXPECT_NEAR(at(got[1], c), spread, 1e-6 * spread);
      for (std::int64_t i = 0; i < kLength; i += 7)
        ASSERT_NEAR(at(got[0], i * columns + c), (at(values, i * columns + c) - middle) / std::sqrt(spread),
                    1e-5);
    }
  }
}

TEST_F(OpenCl, SumsOfColumnsOfEveryLength) {
  for (const Shape& shape : {Shape{1000, 3}, Shape{5, 1000}, Shape{100, 70}, Shape{4000, 1}}) {
    Graph graph("columns");
    graph.output(ops::sum(graph.input("x", {DType::f32, shape}), {0}));
    const Literal x = numbers(shape);
    const std::vector<float> got = run(graph, {x});
    const std::int64_t rows = shape[0].value(), columns = shape[1].value();
    for (std::int64_t c = 0; c < columns; ++c) {
      double sum = 0, size = 0;
      for (std::int64_t r = 0; r < rows; ++r) {
        sum += at(x, r * columns + c);
        size += std::fabs(at(x, r * columns + c));
      }
      ASSERT_NEAR(got[static_cast<std::size_t>(c)], sum, 1e-6 * size) << shape.to_string() << " " << c;
    }
  }
}

// Vectors of four: neighbours in x, one number for all in b; a second output of another size in the kernel.
TEST_F(OpenCl, MapsInVectors) {
  const Shape shape{40, 36};
  Graph graph("map");
  const Value x = graph.input("x", {DType::f32, shape}), b = graph.input("b", {DType::f32, {36}}),
              h = graph.input("h", {DType::f16, shape});
  graph.output(ops::add(ops::add(x, ops::broadcast_to(b, shape)), ops::convert(h, DType::f32)));
  graph.output(ops::neg(b));
  const Literal x_values = numbers(shape), b_values = numbers({36});
  const std::vector<f16> halves(1440, f16(0.5));
  const std::vector<float> got =
      run(graph, {x_values, b_values, Literal::of<f16>(shape, std::span<const f16>(halves))});
  for (std::int64_t i = 0; i < 1440; ++i)
    ASSERT_FLOAT_EQ(got[static_cast<std::size_t>(i)],
                    static_cast<float>(at(x_values, i)) + static_cast<float>(at(b_values, i % 36)) + 0.5f);
}

TEST_F(OpenCl, TransposesThroughTiles) {
  const Shape shape{3, 50, 70};
  Graph graph("transposed");
  const Value x = graph.input("x", {DType::f32, shape}), y = graph.input("y", {DType::f32, {3, 70, 50}});
  graph.output(ops::add(ops::transpose(x, {0, 2, 1}), y));
  const Literal x_values = numbers(shape), y_values = Literal::full({DType::f32, {3, 70, 50}}, 1);
  const std::vector<float> got = run(graph, {x_values, y_values});
  for (std::int64_t b = 0; b < 3; ++b)
    for (std::int64_t i = 0; i < 70; ++i)
      for (std::int64_t j = 0; j < 50; ++j)
        ASSERT_FLOAT_EQ(got[static_cast<std::size_t>((b * 70 + i) * 50 + j)],
                        static_cast<float>(at(x_values, (b * 50 + j) * 70 + i)) + 1);
}

TEST_F(OpenCl, MultipliesMatricesOfEverySize) {
  for (const auto& [m, n, k] :
       {std::tuple{1, 1, 1}, {5, 3, 17}, {70, 130, 33}, {200, 16, 100}, {7, 300, 64}}) {
    Graph graph("product");
    const Value a = graph.input("a", {DType::f32, {m, k}}), b = graph.input("b", {DType::f32, {k, n}}),
                c = graph.input("c", {DType::f32, {n}});
    graph.output(ops::add(ops::matmul(a, b), ops::broadcast_to(c, {m, n})));
    const Literal av = numbers({m, k}), bv = numbers({k, n}), cv = numbers({n});
    const std::vector<float> got = run(graph, {av, bv, cv});
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < n; ++j) {
        double sum = at(cv, j), size = std::fabs(sum);
        for (int l = 0; l < k; ++l) {
          const double term = at(av, i * k + l) * at(bv, l * n + j);
          sum += term;
          size += std::fabs(term);
        }
        ASSERT_NEAR(got[static_cast<std::size_t>(i * n + j)], sum, 4e-7 * size * std::sqrt(k))
            << m << " " << n;
      }
  }
}

// An embedding's gradient: rows that occur twice get both updates, in order.
TEST_F(OpenCl, ScattersRowsThatMeet) {
  ir::ScatterAttrs attrs;
  attrs.update_window_axes = {1};
  attrs.inserted_axes = {0};
  attrs.index_map = {0};
  attrs.index_vector_axis = 1;
  attrs.combine = ir::Combine::sum;
  Graph graph("rows");
  const Value x = graph.input("x", {DType::f32, {50, 9}}), i = graph.input("i", {DType::i32, {300}}),
              u = graph.input("u", {DType::f32, {300, 9}});
  graph.output(ops::scatter(x, i, u, attrs));
  std::vector<std::int32_t> indices(300);
  for (std::size_t k = 0; k < 300; ++k)
    indices[k] = static_cast<std::int32_t>(k * k % 53) - 1;  // some outside
  const Literal uv = numbers({300, 9});
  const std::vector<float> got =
      run(graph, {Literal::full({DType::f32, {50, 9}}, 1),
                  Literal::of<std::int32_t>({300}, std::span<const std::int32_t>(indices)), uv});
  std::vector<float> want(450, 1);
  for (std::size_t k = 0; k < 300; ++k)
    for (std::size_t j = 0; j < 9; ++j)
      if (indices[k] >= 0 && indices[k] < 50)
        want[static_cast<std::size_t>(indices[k]) * 9 + j] += uv.values<float>()[k * 9 + j];
  EXPECT_EQ(got, want);
}

// In its own memory when it is donated, in new memory when not.
TEST_F(OpenCl, UpdatesABlockInPlaceAndBesideIt) {
  Graph graph("update");
  const Value x = graph.input("x", {DType::f32, {3, 4}}, 0), block = graph.input("b", {DType::f32, {2, 2}}),
              i = graph.input("i", {DType::i32, {}}), j = graph.input("j", {DType::i32, {}});
  graph.output(ops::dynamic_update_slice(x, block, {i, j}));
  const auto session = compile(graph, "opencl").new_session();
  const std::vector<float> want{0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 3, 4};
  for (const std::vector<int>& donated : {std::vector<int>{}, std::vector<int>{0}}) {
    const auto upload = [&](const Literal& value) { return backend().upload(value, 0); };
    const Literal result = session
                               ->run({{{upload(Literal::full({DType::f32, {3, 4}}, 0)),
                                        upload(Literal::of<float>({2, 2}, {1, 2, 3, 4})),
                                        upload(Literal::scalar<std::int32_t>(1)),
                                        upload(Literal::scalar<std::int32_t>(7))}},  // pushed back inside
                                      donated})[0][0]
                               ->to_host();
    EXPECT_TRUE(std::equal(want.begin(), want.end(), result.values<float>().begin()));
  }
}

#if __has_include(<CL/cl.h>)
TEST_F(OpenCl, ARefusedKernelGivesTheDriversWords) {
  const std::string words = error_of(ErrorKind::kInternal, [] {
    opencl::devices().at(0)->build("__kernel void broken(__global float* x) { x[0] = undeclared_name; }");
  });
  EXPECT_NE(words.find("CL_BUILD_PROGRAM_FAILURE"), std::string::npos) << words;
  EXPECT_NE(words.find("undeclared_name"), std::string::npos) << words;
}

class OpenClCache : public ScratchFolder {
 protected:
  OpenClCache() {
    for (const auto& [name, value] : settings()) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~OpenClCache() override {
    for (const auto& [name, value] : settings()) ::unsetenv(name.c_str());
  }
  void SetUp() override {
    if (runtime::backend("opencl").devices().empty())
      GTEST_SKIP() << runtime::backend("opencl").unavailable_reason();
  }
  std::vector<std::pair<std::string, std::string>> settings() const {
    return {{"SYSTOLE_CACHE", "1"}, {"SYSTOLE_CACHE_DIR", folder_.string()}, {"SYSTOLE_CACHE_MIN_MS", "0"}};
  }
};

TEST_F(OpenClCache, ABinaryThatTheDriverRefusesIsMadeAnew) {
  const opencl::Device& device = *opencl::devices().at(0);
  const std::string source = "__kernel void one(__global float* x) { x[0] = 1; }";
  device.build(source);
  const std::optional<std::string> made = runtime::disk_cache()->find(device.cache_key(source));
  ASSERT_TRUE(made.has_value());
  device.build(source);  // from the binary
  runtime::disk_cache()->store(device.cache_key(source), "no program");
  const opencl::Program program = device.build(source);
  EXPECT_TRUE(opencl::Device::kernel(program, "one"));
  EXPECT_NE(runtime::disk_cache()->find(device.cache_key(source)), "no program");
}

// The driver's own compiler takes 20 ms to find what it compiled before.
TEST_F(OpenClCache, AProgramsOwnSourceIsKeptAsItsBinaryToo) {
  const auto launched = [](int times) {
    SourceModule module("opencl:0", R"(
      __kernel void fill(__global float* y, const float with) { y[get_global_id(0)] = TIMES * with; })",
                        {.defines = {{"TIMES", std::to_string(times)}}});
    DeviceArray<float> y("opencl:0", {3});
    module.get_function("fill")({.block = {3}})(y, 1.5f);  // its parameters are known of a binary, too
    return y.to_host();
  };
  const auto entries = [] { return runtime::disk_cache()->usage().entries; };
  EXPECT_EQ(launched(2), (std::vector<float>{3, 3, 3}));
  EXPECT_EQ(entries(), 1u);
  EXPECT_EQ(launched(2), (std::vector<float>{3, 3, 3}));
  EXPECT_EQ(entries(), 1u);
  EXPECT_EQ(launched(4), (std::vector<float>{6, 6, 6}));
  EXPECT_EQ(entries(), 2u);
  for (const auto& each : std::filesystem::recursive_directory_iterator(folder_))
    if (each.is_regular_file()) std::filesystem::resize_file(each.path(), each.file_size() / 2);
  EXPECT_EQ(launched(2), (std::vector<float>{3, 3, 3}));
}

// A driver that fails for one device: here an id that is none.
TEST_F(OpenCl, ADeviceThatCannotBeOpenedIsLeftOutWithItsReason) {
  const cl_device_id good = opencl::devices().at(0)->id();
  const opencl::Devices found = opencl::opened({nullptr, good, nullptr});
  EXPECT_EQ(found.usable.size(), 1u);
  EXPECT_NE(found.left_out.find("device 1 of 3 cannot be used: clGetDeviceInfo: CL_INVALID_DEVICE"),
            std::string::npos)
      << found.left_out;
  EXPECT_NE(found.left_out.find("; device 3 of 3"), std::string::npos) << found.left_out;
}

TEST_F(OpenCl, TheDeviceIsAskedForWhatKernelsNeed) {
  const opencl::Limits& limits = opencl::devices().at(0)->limits();
  EXPECT_EQ(limits.device, opencl::devices().at(0)->name());
  EXPECT_GE(limits.group_threads, 1u);
  EXPECT_GE(limits.local_bytes, 1024u);  // what the standard promises
}

TEST(OpenClLimits, AKernelThatNeedsMoreThanTheDeviceHasIsNamed) {
  codegen::Kernel kernel;
  kernel.threads = 256;
  kernel.source =
      "S_KERNEL(256) k0(S_PARAMETER(0)) {\n  S_LOCAL float a[256];\n  S_LOCAL s_u16 b[3];\n"
      "  S_LOCAL s_i64 c[2];\n  S_LOCAL s_bool d[5];\n}\n";
  EXPECT_EQ(opencl::local_bytes(kernel), 1024u + 6 + 16 + 5);
  const opencl::Limits enough{"small", 256, 1051, false};
  EXPECT_NO_THROW(opencl::check_fits(enough, kernel));
  const auto refusal = [&](ErrorKind kind, const opencl::Limits& limits) {
    return error_of(kind, [&] { opencl::check_fits(limits, kernel); });
  };
  const std::string threads = refusal(ErrorKind::kLimit, {"small", 128, 4096, false}),
                    bytes = refusal(ErrorKind::kLimit, {"small", 256, 1050, false});
  kernel.source += "double x;";
  const std::string f64 = refusal(ErrorKind::kUnsupported, enough);
  for (const auto& [words, parts] :
       {std::pair{threads, std::vector<std::string>{"small", "256 threads", "128"}},
        {bytes, {"small", "1051 bytes", "1050 bytes"}},
        {f64, {"small", "f64", "cl_khr_fp64"}}})
    for (const std::string& part : parts) EXPECT_NE(words.find(part), std::string::npos) << words;
  EXPECT_NO_THROW(opencl::check_fits({"large", 1024, 65536, true}, kernel));
}

// The text that kernels of f32 have names no f64, and that of f64 does.
TEST(OpenClLimits, OnlyGraphsWithF64NeedIt) {
  for (const DType dtype : {DType::f32, DType::f16, DType::i64, DType::f64}) {
    Graph graph("softmax");
    const Value x = graph.input("x", {dtype, {4, 700}});
    graph.output(dtype == DType::i64 ? ops::sum(x, {1}) : ops::softmax(x));
    const lower::Program program = lower::make_program(lower::prepared(graph, AnyTarget()), AnyTarget());
    for (const lower::Step& step : program.steps) {
      const auto kernel = codegen::make_kernel(step, "k", codegen::Dialect::opencl);
      ASSERT_TRUE(kernel.has_value());
      const opencl::Limits limits{"small", 256, 32768, false};
      if (dtype == DType::f64)
        error_of(ErrorKind::kUnsupported, [&] { opencl::check_fits(limits, *kernel); });
      else
        EXPECT_NO_THROW(opencl::check_fits(limits, *kernel)) << kernel->source;
      EXPECT_GT(opencl::local_bytes(*kernel), 0u) << kernel->source;
    }
  }
}

TEST_F(OpenCl, AllocationsThatCannotBeAreAnError) {
  const std::string words =
      error_of(ErrorKind::kOutOfMemory, [] { opencl::devices().at(0)->allocate(std::int64_t{1} << 60); });
  EXPECT_NE(words.find("clCreateBuffer"), std::string::npos) << words;
}
#endif

}  // namespace

}  // namespace systole
