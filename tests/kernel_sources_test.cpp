// Sources of kernels: the portable language, what only C or OpenCL has, and what is said of a source that a
// compiler refuses.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "error_check.h"
#include "kernel_devices.h"
#include "runtime/source_kernels.h"
#include "runtime/source_text.h"

namespace systole {

namespace {

INSTANTIATE_TEST_SUITE_P(Devices, Kernels, testing::Values("cpu", "opencl:0", "cuda:0"), device_word);

TEST(KernelWords, ArePortableWhereTheyStandAlone) {
  EXPECT_TRUE(runtime::is_portable_text("S_KERNEL(64) f()"));
  EXPECT_TRUE(runtime::is_portable_text("\nS_ENTRY f()"));
  EXPECT_FALSE(runtime::is_portable_text("#define CLASS_KERNEL 1\nvoid f(int IS_ENTRY, int S_ENTRY2) {}"));
}

// NVRTC names no line for a missing brace, only the brace to match. Its words, and where the program is
// wrong.
TEST(KernelWords, NvrtcsEndOfSourceIsTheProgramsLastLine) {
  constexpr std::string_view kAtEnd =
      "At end of source: error: expected a \"}\"\n"
      "kernel(1): note #3196-D: to match this \"{\"\n"
      "  S_ENTRY f(S_GLOBAL float* y) {\n"
      "                               ^\n\n"
      "1 error detected in the compilation of \"kernel\".\n";
  constexpr std::string_view kProgram =
      "S_ENTRY f(S_GLOBAL float* y) {\n  if (S_THREAD < 1) {\n    y[0] = 1;\n  y[1] = 2; }\n";
  const auto told = [](std::string_view source, std::string_view words) {
    return error_of(ErrorKind::kParse,
                    [&] { runtime::refuse_source("cuda:0", source, SourceOptions(), words); });
  };
  const std::string text = told(kProgram, kAtEnd);
  EXPECT_TRUE(contains(text, "kernel source on cuda:0, line 4: ")) << text;
  EXPECT_TRUE(contains(text, "refuses it: y[1] = 2; }\n")) << text;

  // Lines of the library's stand before the program's, blank ones behind it.
  const std::string whole = runtime::source_head(codegen::Dialect::cuda, true, {}, kProgram) +
                            std::string(kProgram) + "\n  \t\n\r\n\n";
  EXPECT_TRUE(contains(told(whole, kAtEnd), "line 4: the compiler refuses it: y[1] = 2; }\n"))
      << told(whole, kAtEnd);
  EXPECT_TRUE(contains(told("\n\n", kAtEnd), "line 1: ")) << told("\n\n", kAtEnd);

  // An error that has a line is the first one; a warning is none.
  const std::string ordinary =
      "kernel(2): warning #177-D: variable was declared\nkernel(3): error: identifier \"z\" is undefined\n\n";
  EXPECT_TRUE(contains(told(kProgram, ordinary + std::string(kAtEnd)), "line 3: ")) << ordinary;
  EXPECT_TRUE(
      contains(told(kProgram, "kernel(2): warning #177-D: a variable\n" + std::string(kAtEnd)), "line 4: "));
  // The words in the program's own text are no place.
  EXPECT_TRUE(contains(told(kProgram, "kernel(2): error: // At end of source: error\n"), "line 2: "));
}

TEST_P(Kernels, DefinesAndTypedefsReachTheSource) {
  const SourceModule module(device(), {.portable = R"(
typedef unsigned int count_t;
S_ENTRY put(S_GLOBAL real* y, count_t n) { if (S_THREAD < n) y[S_THREAD] = SEVEN; })"},
                            {.defines = {{"SEVEN", "7"}, {"real", "float"}}});
  const auto put = module.function("put");
  DeviceArray<float> y(device(), Shape{3});
  put({.block = {3}})(y, 2);
  EXPECT_EQ(y.to_host(), (Floats{7, 7, 0}));
  const std::string words = error_of(ErrorKind::kInvalidArgument, [&] { put({.block = {1}})(y, -1); });
  EXPECT_TRUE(contains(words, "count_t n")) << words;
}

// A name of the program's own means what the compiler takes it for, whatever else stands in the text.
TEST_P(Kernels, TypesAreThoseOfTheBranchThatIsCompiled) {
  const std::string by_flag = R"(
#ifdef WIDE
typedef double real;
#else
typedef float real;
#endif
// #define real short
S_ENTRY put(S_GLOBAL real* y, real k) { y[S_THREAD] = k; })";
  DeviceArray<float> y(device(), {2});
  SourceModule(device(), {.portable = by_flag}).function("put")({.block = {2}})(y, 1.5f);
  EXPECT_EQ(y.to_host(), (Floats{1.5, 1.5}));
  DeviceArray<double> wide(device(), {2});
  const SourceModule module(device(), {.portable = by_flag}, {.defines = {{"WIDE", "1"}}});
  const auto put = module.function<void(double*, double)>("put");
  put({.block = {2}})(wide, 2.5);
  EXPECT_EQ(wide.to_host(), (std::vector<double>{2.5, 2.5}));
  error_of(ErrorKind::kDType, [&] { module.function("put")({.block = {2}})(y, 1.5f); });

  const std::string by_default = R"(
#ifndef REAL
#define REAL float
#endif
S_ENTRY put(S_GLOBAL REAL* y, REAL k) { y[S_THREAD] = k; })";
  const SourceModule other(device(), {.portable = by_default}, {.defines = {{"REAL", "double"}}});
  other.function<void(double*, double)>("put")({.block = {2}})(wide, 3.5);
  EXPECT_EQ(wide.to_host(), (std::vector<double>{3.5, 3.5}));
}

TEST_P(Kernels, NamesOfTypesAreUnderstoodHoweverTheyAreMade) {
  const SourceModule module(device(), {.portable = R"(
typedef enum { kNone, kFive = 5 } mode;
enum sign { kMinus = -1 };
typedef unsigned int word, *words, index_t;
#define NAMED(type, name) typedef type name
NAMED(float, real);
typedef struct { int a; } own;
S_ENTRY put(S_GLOBAL float* y, mode m, enum sign s, index_t i, real r, own o) {
  y[0] = m; y[1] = s; y[2] = i; y[3] = r; y[4] = o.a;
})"});
  struct Own {
    int a;
  };
  DeviceArray<float> y(device(), {5});
  const auto put = module.function("put");
  put({.block = {1}})(y, 5, -1, 7, 0.5f, Own{9});
  EXPECT_EQ(y.to_host(), (Floats{5, -1, 7, 0.5, 9}));
  const std::string words =
      error_of(ErrorKind::kInvalidArgument, [&] { put({.block = {1}})(y, 5, -1, 7, 0.5f, 9); });
  EXPECT_TRUE(contains(words, "argument 5 (own o): a struct is wanted")) << words;
}

TEST_P(Kernels, MayBeDeclaredBeforeTheyAreDefined) {
  const SourceModule module(device(), {.portable = R"(
S_ENTRY put(S_GLOBAL float* y, float k);
S_ENTRY nothing();
S_KERNEL(2) two(S_GLOBAL float*);
S_ENTRY put(S_GLOBAL float* y, float k) { y[S_THREAD] = k; }
S_ENTRY nothing(void) {}
S_KERNEL(2) two(S_GLOBAL float* y) { y[S_THREAD] += S_THREAD; })"});
  DeviceArray<float> y(device(), {2});
  module.function("put")({.block = {2}})(y, 3);
  module.function("nothing")({.block = {1}})();
  module.function("two")({.block = {2}})(y);
  EXPECT_EQ(y.to_host(), (Floats{3, 4}));
}

TEST_P(Kernels, ABraceThatLacksIsToldOfTheProgramsLines) {
  const std::string words = error_of(ErrorKind::kParse, [] {
    SourceModule(device(),
                 {.portable = "S_ENTRY f(S_GLOBAL float* y) {\n  if (S_THREAD < 1) {\n    y[0] = 1;\n}\n"});
  });
  const std::size_t line = words.find("line ");
  ASSERT_NE(line, std::string::npos) << words;
  EXPECT_GE(words[line + 5], '4') << words;
  EXPECT_FALSE(contains(words, "s_list")) << words;
}

// What a language lacks stands as an integer of its size.
TEST_P(Kernels, SmallTypesStandAsTheirBits) {
  const SourceModule module(device(), {.portable = R"(
S_ENTRY flip(S_GLOBAL s_u8* y) { y[S_THREAD] = !y[S_THREAD]; }
S_ENTRY negate(S_GLOBAL s_u16* y) { y[S_THREAD] ^= 0x8000; })"});
  auto flags = DeviceArray<bool>::of(device(), {true, false, true});
  module.function("flip")({.block = {3}})(flags);
  EXPECT_EQ(flags.to_host(), (std::vector<bool>{false, true, false}));
  auto halves = DeviceArray<f16>::of(device(), {f16(1.5), f16(-2)});
  module.function("negate")({.block = {2}})(halves);
  EXPECT_EQ(double{halves.to_host()[0]}, -1.5);
  EXPECT_EQ(double{halves.to_host()[1]}, 2);
  auto integers = DeviceArray<std::int16_t>::of(device(), {1});
  error_of(ErrorKind::kDType, [&] { module.function("negate")({.block = {1}})(integers); });
}

TEST_P(Kernels, StructsArePassedAsTheyAre) {
  struct Line {
    float slope, offset;
  };
  const SourceModule module(device(), {.portable = R"(
typedef struct { float slope, offset; } line;
S_ENTRY apply(S_GLOBAL float* y, line l) { y[S_THREAD] = l.slope * y[S_THREAD] + l.offset; })"});
  const auto apply = module.function<void(DeviceArray<float>&, Line)>("apply");
  DeviceArray<float> y = array({1, 2});
  apply({.block = {2}})(y, Line{10, 0.5f});
  EXPECT_EQ(y.to_host(), (Floats{10.5, 20.5}));
}

TEST_P(Kernels, ASourceWithoutAKernelSaysWhatOneIs) {
  const std::string words =
      error_of(ErrorKind::kInvalidArgument, [] { SourceModule(device(), {.portable = "// nothing\n"}); });
  EXPECT_TRUE(contains(words, "S_ENTRY")) << words;
  KernelSources others{.opencl = "__kernel …", .cuda = "__global__ …"};
  if (device() == "opencl:0") others.opencl.clear();
  if (device() == "cuda:0") others.cuda.clear();
  error_of(ErrorKind::kUnsupported, [&] { SourceModule(device(), others); });
}

TEST_P(Kernels, ARefusedSourceGivesItsLineAndTheCompilersWords) {
  const std::string source = "S_ENTRY f(S_GLOBAL float* y) {\n  y[0] = 1;\n  y[1] = undeclared;\n}\n";
  const std::string words =
      error_of(ErrorKind::kParse, [&] { SourceModule(device(), {.portable = source}); });
  EXPECT_TRUE(contains(words, "line 3: ") && contains(words, "y[1] = undeclared;") &&
              contains(words, device() == "cuda:0" ? "is undefined" : "undeclared identifier"))
      << words;
}

TEST_P(Kernels, NumbersAreOfTheTypeThatAMacroNames) {
  const KernelSources source{.portable = R"(
typedef T real;
S_ENTRY saxpy(T a, S_GLOBAL const T* x, S_GLOBAL real* y, real b) { y[0] = a * x[0] + y[0] + b; })"};
  const auto in_float = SourceModule(device(), source, {.defines = {{"T", "float"}}}).function("saxpy");
  const DeviceArray<float> x = array({3});
  DeviceArray<float> y = array({1});
  in_float({.block = {1}})(2, x, y, 10);  // integers whose bits are no such floats
  EXPECT_EQ(y.to_host()[0], 17);
  const auto in_double = SourceModule(device(), source, {.defines = {{"T", "double"}}}).function("saxpy");
  error_of(ErrorKind::kDType, [&] { in_double({.block = {1}})(2, x, y, 10); });
  const auto wide = DeviceArray<double>::of(device(), {3});
  auto sum = DeviceArray<double>::of(device(), {1});
  in_double({.block = {1}})(2.5f, wide, sum, 10);
  EXPECT_EQ(sum.to_host()[0], 18.5);
}

TEST_P(Kernels, AreThoseThatThePreprocessorLeaves) {
  const SourceModule module(device(), {.portable = R"(
#define ARGUMENTS S_GLOBAL float* q, int n
#define KERNEL(name, op) S_ENTRY name(ARGUMENTS) { q[0] = q[0] op n; }
#define JOINED(a, b) a##b
KERNEL(plus, +)
KERNEL(JOINED(mi, nus), -)
#if 0
S_ENTRY chosen(S_GLOBAL float* q, int n) {
#else
S_ENTRY chosen(S_GLOBAL float* q) {
#endif
  q[0] = 1;
})"});
  std::vector<std::string> names = module.functions();
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"chosen", "minus", "plus"}));
  EXPECT_EQ(module.function("plus").parameters()[1].type, "int");
  EXPECT_EQ(module.function("chosen").parameters().size(), 1u);
  DeviceArray<float> q = array({5});
  module.function("plus")({.block = {1}})(q, 4);
  module.function("minus")({.block = {1}})(q, 2);
  EXPECT_EQ(q.to_host()[0], 7);
}

TEST_P(Kernels, LinesOfErrorsAreTheSourcesWhateverThePreprocessorDoes) {
  const std::string source = R"(#define TWO \
  2
#if 0
int unused;
#endif


S_ENTRY f(S_GLOBAL float* y) { y[0] = TWO; }
S_ENTRY g(S_GLOBAL float* y) {
  y[0] = nothing;
})";
  const std::string words = error_of(
      ErrorKind::kParse, [&] { SourceModule(device(), {.portable = source}, {.source_name = "blur.cl"}); });
  EXPECT_TRUE(contains(words, "blur.cl on " + device() + ", line 10: ") && contains(words, "y[0] = nothing;"))
      << words;
  error_of(ErrorKind::kInvalidArgument,
           [&] { SourceModule(device(), {.portable = source}, {.source_name = "a\nb"}); });
}

TEST_P(Kernels, OfAFixedBlockRefuseAnother) {
  const SourceModule module(device(), {.portable = R"(
S_KERNEL(2 * HALF) fixed(S_GLOBAL float* y) { y[S_THREAD] = S_LANES; })"},
                            {.defines = {{"HALF", "(2 + 2)"}}});
  const auto fixed = module.function("fixed");
  DeviceArray<float> y(device(), {16});
  const std::string words = error_of(ErrorKind::kInvalidArgument, [&] { fixed({.block = {4}})(y); });
  EXPECT_TRUE(contains(words, "expected 8×1×1, got 4")) << words;
  error_of(ErrorKind::kInvalidArgument, [&] { fixed({.block = {4, 2}})(y); });
  fixed({.grid = {2}, .block = {8}})(y);
  EXPECT_EQ(y.to_host(), Floats(16, 8));
}

TEST_P(Kernels, PortableTextGivenAsTheDevicesOwnIsAdvised) {
  const std::string words = error_of(ErrorKind::kParse, [] { SourceModule(device(), kSources.portable); });
  EXPECT_TRUE(contains(words, "{.portable = source}")) << words;
}

TEST_P(Kernels, FlagsAreForOneLanguage) {
  const std::string language = device() == "cpu" ? "3" : device() == "cuda:0" ? "5" : "4";
  const SourceModule module(device(), {.portable = "S_ENTRY f(S_GLOBAL float* y) { y[0] = N; }"},
                            {.flags = {.opencl = {"-DN=4"}, .cuda = {"-DN=5"}, .c = {"-DN=3"}}});
  DeviceArray<float> y(device(), {1});
  module.function("f")({.block = {1}})(y);
  EXPECT_EQ(std::to_string(static_cast<int>(y.to_host()[0])), language);
}

// Against the C++ library in double; a few units in the last place of a float.
TEST_P(Kernels, HaveMathematics) {
  struct Case {
    const char* expression;
    double x, wanted;
  };
  const Case cases[] = {{"s_exp(x)", 1.5, std::exp(1.5)},
                        {"s_expm1(x)", 0.25, std::expm1(0.25)},
                        {"s_log(x)", 3, std::log(3.0)},
                        {"s_log1p(x)", 0.25, std::log1p(0.25)},
                        {"s_sqrt(x)", 3, std::sqrt(3.0)},
                        {"s_rsqrt(x)", 3, 1 / std::sqrt(3.0)},
                        {"s_cbrt(x)", 3, std::cbrt(3.0)},
                        {"s_sin(x)", 1.25, std::sin(1.25)},
                        {"s_cos(x)", 1.25, std::cos(1.25)},
                        {"s_tan(x)", 1.25, std::tan(1.25)},
                        {"s_tanh(x)", 0.75, std::tanh(0.75)},
                        {"s_erf(x)", 0.75, std::erf(0.75)},
                        {"s_floor(x)", -1.5, -2},
                        {"s_ceil(x)", -1.5, -1},
                        {"s_rint(x)", 2.5, 2},
                        {"s_fabs(x)", -1.5, 1.5},
                        {"s_pow(x, (T)1.25)", 3, std::pow(3.0, 1.25)},
                        {"s_atan2(x, (T)-2)", 1, std::atan2(1.0, -2.0)},
                        {"s_fmod(x, (T)2)", 7.5, 1.5},
                        {"s_fma(x, x, (T)-2)", 3, 7},
                        {"s_min(x, (T)2)", 3, 2},
                        {"s_max(x, (T)2)", 3, 3},
                        {"s_min(-3, 2) + s_max(4, 5)", 0, 2}};
  std::string body;
  for (std::size_t i = 0; i < std::size(cases); ++i)
    body += "  { const T x = in[" + std::to_string(i) + "]; out[" + std::to_string(i) +
            "] = " + cases[i].expression + "; }\n";
  const KernelSources source{.portable = "S_ENTRY f(S_GLOBAL const T* in, S_GLOBAL T* out) {\n" + body + "}"};
  const auto check = [&]<class T>(const char* type, double tolerance) {
    std::vector<T> in;
    for (const Case& c : cases) in.push_back(static_cast<T>(c.x));
    DeviceArray<T> out(device(), {in.size()});
    SourceModule(device(), source, {.defines = {{"T", type}}})
        .function("f")({.block = {1}})(DeviceArray<T>(device(), in), out);
    const std::vector<T> got = out.to_host();
    for (std::size_t i = 0; i < std::size(cases); ++i)
      EXPECT_NEAR(got[i], cases[i].wanted, tolerance * std::max(1.0, std::abs(cases[i].wanted)))
          << cases[i].expression << " in " << type;
  };
  check.operator()<float>("float", 5e-7);
  check.operator()<double>("double", 1e-14);
}

TEST_P(Kernels, AddAtomically) {
  const SourceModule module(device(), {.portable = R"(
S_ENTRY count(S_GLOBAL int* a, S_GLOBAL unsigned* b, S_GLOBAL float* c) {
  s_atomic_add(a, -1);
  s_atomic_add(b, 2u);
  s_atomic_add(c + 1, 0.5f);
})"});
  DeviceArray<std::int32_t> a(device(), {1});
  DeviceArray<std::uint32_t> b(device(), {1});
  DeviceArray<float> c(device(), {2});
  module.function("count")({.grid = {1000}, .block = {16}})(a, b, c);
  EXPECT_EQ(a.to_host()[0], -16000);
  EXPECT_EQ(b.to_host()[0], 32000u);
  EXPECT_EQ(c.to_host(), (Floats{0, 8000}));
}

TEST_P(Kernels, ConvertTheBitsOfSmallFloats) {
  const SourceModule module(device(), {.portable = R"(
S_ENTRY twice(S_GLOBAL s_u16* h, S_GLOBAL s_u16* b) {
  h[S_THREAD] = s_convert_f32_f16(2 * s_convert_f16_f32(h[S_THREAD]));
  b[S_THREAD] = s_convert_f32_bf16(2 * s_convert_bf16_f32(b[S_THREAD]));
})"});
  auto h = DeviceArray<f16>::of(device(), {f16(1.5), f16(-6e-8)});
  auto b = DeviceArray<bf16>::of(device(), {bf16(1.5), bf16(3e38)});
  module.function("twice")({.block = {2}})(h, b);
  EXPECT_EQ(double{h.to_host()[0]}, 3);
  EXPECT_EQ(double{h.to_host()[1]}, -std::ldexp(1.0, -23));  // twice the smallest
  EXPECT_EQ(double{b.to_host()[0]}, 3);
  EXPECT_TRUE(std::isinf(double{b.to_host()[1]}));
}

class CKernels : public Kernels {};
INSTANTIATE_TEST_SUITE_P(Cpu, CKernels, testing::Values("cpu"));

TEST_P(CKernels, GetARangeOfTheLaunchsItems) {
  const SourceModule module("cpu", R"(
static int helper(int x) { return x + 1; }
void count(int* y, long long begin, long long end) {
  for (long long i = begin; i < end; ++i) y[i] = helper(y[i]);
}
void no_kernel(int* y) {}
)");
  EXPECT_EQ(module.functions(), std::vector<std::string>{"count"});
  DeviceArray<std::int32_t> y("cpu", {1024});
  module.function("count")(Launch::over(1000))(y);  // 4 groups of 256 threads
  std::vector<std::int32_t> wanted(1024, 1);
  std::fill(wanted.begin() + 1000, wanted.end(), 0);
  EXPECT_EQ(y.to_host(), wanted);
  module.function("count")({.grid = {4}, .block = {256}})(y);  // all of them
  EXPECT_EQ(y.to_host()[1023], 1);
}

TEST_P(CKernels, WithoutARangeAreNone) {
  const std::string words =
      error_of(ErrorKind::kInvalidArgument, [] { SourceModule("cpu", "void f(float* x) { *x = 1; }"); });
  EXPECT_TRUE(contains(words, "long long begin, long long end")) << words;
}

TEST_P(CKernels, ThatNeedGroupsAreRefusedInWords) {
  const std::string words = error_of(ErrorKind::kParse, [] {
    SourceModule("cpu", {.portable = "S_ENTRY f(S_GLOBAL float* x) {\n  S_BARRIER;\n  x[0] = 1;\n}"});
  });
  EXPECT_TRUE(contains(words, "line 2") && contains(words, "threads that run together")) << words;
}

TEST_P(CKernels, StructsOfAnotherSizeAreRefused) {
  struct Pair {
    float a, b;
  };
  const SourceModule module("cpu", R"(
typedef struct { float a, b, c; } triple;
void f(float* y, triple t, long long begin, long long end) { y[0] = t.c; })");
  DeviceArray<float> y("cpu", {1});
  const std::string words =
      error_of(ErrorKind::kInvalidArgument, [&] { module.function("f")({.block = {1}})(y, Pair{1, 2}); });
  EXPECT_TRUE(contains(words, "12 bytes") && contains(words, "8 bytes")) << words;
  error_of(ErrorKind::kInvalidArgument, [&] { module.function<void(float*, Pair)>("f"); });
}

TEST_P(CKernels, TypesAreThoseOfTheCompiler) {
  const SourceModule module("cpu", R"(
typedef __typeof__(1.0f) real;
typedef enum { first, second } choice;
void f(real* y, real a, choice c, const real z[], long long begin, long long end) { y[0] = a + c + z[0]; })");
  const auto f = module.function("f");
  DeviceArray<float> y("cpu", {1});
  f({.block = {1}})(y, 2, 1, array({10}));
  EXPECT_EQ(y.to_host()[0], 13);
  error_of(ErrorKind::kDType, [&] { f({.block = {1}})(y, 2, 1.5, y); });
  DeviceArray<double> wide("cpu", {1});
  error_of(ErrorKind::kDType, [&] { f({.block = {1}})(wide, 2, 1, y); });
}

// They are read whole, from addresses that allow it.
TEST_P(CKernels, TakeVectors) {
  const SourceModule module("cpu", R"(
typedef float eight __attribute__((vector_size(32)));
__attribute__((noinline)) void f(float* y, eight v, int i, long long begin, long long end) {
  y[0] = v[i] * 2;
})");
  DeviceArray<float> y("cpu", {1});
  const auto f = module.function<void(float*, std::array<float, 8>, int)>("f");
  std::vector<std::vector<std::byte>> between;  // other places each time
  for (int i = 0; i < 8; ++i) {
    between.emplace_back(static_cast<std::size_t>(16 * i + 8));
    f({.block = {1}})(y, {0, 1, 2, 3, 4, 5, 6, 7}, i);
    EXPECT_EQ(y.to_host()[0], 2.0f * static_cast<float>(i));
  }
  // Three in the room of four, whichever argument they are.
  const SourceModule three("cpu", R"(
typedef float float3 __attribute__((vector_size(16)));
__attribute__((noinline)) void f(float* y, float3 a, float3 b, long long begin, long long end) {
  const float3 sum = a + b;
  for (int i = 0; i < 3; ++i) y[i] = sum[i];
})");
  DeviceArray<float> sum("cpu", {3});
  three.function("f")({.block = {1}})(sum, std::array<float, 3>{1, 2, 3}, std::array<float, 3>{10, 20, 30});
  EXPECT_EQ(sum.to_host(), (Floats{11, 22, 33}));
}

TEST_P(CKernels, TakeSlicesWhereVectorsMayLie) {
  const SourceModule module("cpu", R"(
typedef float float8 __attribute__((vector_size(32)));
void twice(float8* y, long long begin, long long end) { y[0] += y[0]; })");
  DeviceArray<float> y("cpu", Floats(32, 1));
  module.function("twice")({.block = {1}})(y.slice(8, 16));
  EXPECT_EQ(y.slice(7, 17).to_host(), (Floats{1, 2, 2, 2, 2, 2, 2, 2, 2, 1}));
  const std::string words = error_of(ErrorKind::kInvalidArgument,
                                     [&] { module.function("twice")({.block = {1}})(y.slice(4, 12)); });
  EXPECT_TRUE(contains(words, "a multiple of 32 bytes") && contains(words, "byte 16")) << words;
}

// As those of the functions that call them are, or were.
TEST_P(CKernels, MayHaveAnyName) {
  for (const std::string name : {"g", "size", "at", "x", "a", "begin", "list", "facts"}) {
    const SourceModule module("cpu",
                              {.portable = "S_ENTRY " + name + "(S_GLOBAL float* q) { q[S_THREAD] = 1; }"});
    DeviceArray<float> q("cpu", {2});
    module.function(name)({.block = {2}})(q);
    EXPECT_EQ(q.to_host(), (Floats{1, 1})) << name;
  }
}

TEST_P(CKernels, WithLocalParametersAreRefusedInWords) {
  const std::string words = error_of(ErrorKind::kParse, [] {
    SourceModule("cpu", {.portable = "S_ENTRY f(S_GLOBAL float* x, S_LOCAL float* y) { x[0] = 1; }"});
  });
  EXPECT_TRUE(contains(words, "line 1")) << words;
  const std::string odd = error_of(ErrorKind::kUnsupported, [] {
    SourceModule("cpu", "void f(float x[4], long long begin, long long end) { x[0] = 1; }");
  });
  EXPECT_TRUE(contains(odd, "a form that is not known")) << odd;
}

class OpenClKernels : public Kernels {};
INSTANTIATE_TEST_SUITE_P(OpenCl, OpenClKernels, testing::Values("opencl:0"));

const std::string kLocal = R"(
__kernel void turn(__global const float* x, __global float* y, __local float* part) {
  const size_t i = get_local_id(0), n = get_local_size(0);
  part[i] = x[get_global_id(0)];
  barrier(CLK_LOCAL_MEM_FENCE);
  y[get_global_id(0)] = part[n - 1 - i];
}
__kernel __attribute__((reqd_work_group_size(4, 1, 1))) void four(__global float* y) { y[get_global_id(0)] = 4; }
__kernel void lanes(__global float4* y, float4 v) { y[get_global_id(0)] = v; }
__kernel void three(__global float* y, float3 v) { vstore3(v, 0, y); }
)";

TEST_P(OpenClKernels, LocalMemoryIsAnArgumentOrTheLaunchs) {
  const SourceModule module(device(), kLocal);
  const auto turn = module.function("turn");
  const DeviceArray<float> x = array({1, 2, 3, 4, 5, 6});
  const Floats turned{3, 2, 1, 6, 5, 4};
  DeviceArray<float> y(device(), Shape{6}), z(device(), Shape{6}), w(device(), Shape{6});
  const Launch launch{.grid = {2}, .block = {3}};
  turn(launch)(x, y, LocalArray<float>{3});
  EXPECT_EQ(y.to_host(), turned);
  turn({.grid = {2}, .block = {3}, .shared_bytes = 12})(x, z);
  EXPECT_EQ(z.to_host(), turned);
  module.function<void(const DeviceArray<float>&, DeviceArray<float>&, LocalArray<float>)>("turn")(launch)(
      x, w, {3});
  EXPECT_EQ(w.to_host(), turned);

  const std::string missing = error_of(ErrorKind::kInvalidArgument, [&] { turn(launch)(x, y); });
  EXPECT_TRUE(contains(missing, "__local float* part")) << missing;
  error_of(ErrorKind::kInvalidArgument, [&] { turn(launch)(x, y, 3); });
  error_of(ErrorKind::kInvalidArgument, [&] { turn(launch)(x, y, LocalArray<float>{0}); });
  error_of(ErrorKind::kDType, [&] { turn(launch)(x, y, LocalArray<double>{3}); });
  error_of(ErrorKind::kInvalidArgument,
           [&] { module.function("four")({.block = {4}, .shared_bytes = 8})(y); });
  const std::string limit =
      error_of(ErrorKind::kLimit, [&] { turn(launch)(x, y, LocalArray<float>{std::int64_t{1} << 40}); });
  EXPECT_TRUE(contains(limit, "local memory")) << limit;
}

TEST_P(OpenClKernels, BlocksOverTheDevicesLimitsAreRefused) {
  const SourceModule module(device(), kLocal);
  DeviceArray<float> y(device(), Shape{8});
  const auto four = module.function("four");
  const std::string fixed = error_of(ErrorKind::kInvalidArgument, [&] { four({.block = {8}})(y); });
  EXPECT_TRUE(contains(fixed, "expected 4×1×1, got 8")) << fixed;
  four({.grid = {2}, .block = {4}})(y);
  EXPECT_EQ(y.to_host(), Floats(8, 4));
  const auto fill = Kernels::module().function("fill");
  const std::string large = error_of(ErrorKind::kLimit, [&] { fill({.block = {1 << 20}})(y, 1, 8); });
  EXPECT_TRUE(contains(large, "kernel fill") && contains(large, "1048576")) << large;
  error_of(ErrorKind::kLimit, [&] { fill({.block = {1024, 1024, 1024}})(y, 1, 8); });
}

TEST_P(OpenClKernels, VectorsAreNumbersOfSeveralLanes) {
  const auto lanes = SourceModule(device(), kLocal).function("lanes");
  DeviceArray<float> y(device(), Shape{2, 4});
  lanes({.block = {2}})(y, std::array<float, 4>{1, 2, 3, 4});
  EXPECT_EQ(y.to_host(), (Floats{1, 2, 3, 4, 1, 2, 3, 4}));
  error_of(ErrorKind::kInvalidArgument, [&] { lanes({.block = {1}})(y, std::array<float, 2>{1, 2}); });
  error_of(ErrorKind::kInvalidArgument, [&] { lanes({.block = {1}})(y, 1.0f); });
  const std::string other =
      error_of(ErrorKind::kDType, [&] { lanes({.block = {1}})(y, std::array<int, 4>{1, 2, 3, 4}); });
  EXPECT_TRUE(contains(other, "argument 1 (float4 v)") && contains(other, "f32×4") &&
              contains(other, "i32×4"))
      << other;
  const SourceModule module(device(), kLocal);
  error_of(ErrorKind::kDType, [&] { module.function<void(float*, std::array<int, 4>)>("lanes"); });
  module.function<void(float*, std::array<float, 4>)>("lanes");
  const auto three = module.function<void(float*, std::array<float, 3>)>("three");
  three({.block = {1}})(y, {7, 8, 9});  // it is as large as a float4
  EXPECT_EQ(y.to_host(), (Floats{7, 8, 9, 4, 1, 2, 3, 4}));
}

TEST_P(OpenClKernels, TypesMayStandInHeaders) {
  const auto header = std::filesystem::temp_directory_path() / "systole_kernel_types.h";
  std::ofstream(header) << "typedef float real_t;\n";
  const SourceModule module(device(), {.portable = R"(
#include "systole_kernel_types.h"
S_ENTRY put(S_GLOBAL real_t* y, real_t k) { y[S_THREAD] = k; })"},
                            {.flags = {.opencl = {"-I" + header.parent_path().string()}}});
  DeviceArray<float> y(device(), {1});
  module.function<void(float*, float)>("put")({.block = {1}})(y, 1.5f);
  EXPECT_EQ(y.to_host(), Floats{1.5});
  std::filesystem::remove(header);
}

TEST_P(OpenClKernels, FlagsAndWarningsAreTheDrivers) {
  const SourceModule module(device(), "__kernel void f(__global float* x) { char* p = (float*)0; x[0] = N; }",
                            {.flags = {.opencl = {"-D", "N=3"}, .c = {"--no-such-flag"}}});
  EXPECT_TRUE(contains(module.log(), "incompatible pointer types")) << module.log();
  DeviceArray<float> y(device(), Shape{1});
  module.function("f")({.block = {1}})(y);
  EXPECT_EQ(y.to_host(), Floats{3});
  error_of(ErrorKind::kInvalidArgument,
           [] { SourceModule(device(), kLocal, {.flags = {.opencl = {"--no-such-flag"}}}); });
}

class CudaKernels : public Kernels {};
INSTANTIATE_TEST_SUITE_P(Cuda, CudaKernels, testing::Values("cuda:0"));

// extern "C": the machine code does not say the types.
TEST_P(CudaKernels, OfCLinkageHaveTheTypesOfTheBranchThatIsCompiled) {
  const SourceModule module(device(), R"(
#ifdef WIDE
typedef double real;
#else
typedef float real;
#endif
enum Mode { kNone, kFive = 5 };
typedef unsigned int word, index_t;
extern "C" __global__ void put(real* y, real k, Mode m, index_t i) { y[0] = k; y[1] = m; y[2] = i; }
__global__ void with_mode(real* y, Mode m) { y[0] = m; })");
  DeviceArray<float> y(device(), {3});
  module.function<void(float*, float, int, unsigned)>("put");
  module.function("put")({.block = {1}})(y, 1.5f, 5, 7);
  EXPECT_EQ(y.to_host(), (Floats{1.5, 5, 7}));
  module.function("with_mode")({.block = {1}})(y, 0);
  error_of(ErrorKind::kDType, [&] { module.function<void(double*, float, int, unsigned)>("put"); });
}

TEST_P(OpenClKernels, FlagsMayHaveSpacesInAValue) {
  const SourceModule module(device(), "__kernel void f(__global float* x) { x[0] = N * M; }",
                            {.flags = {.opencl = {"-DN=(1 + 2)", "-DM=2"}}});
  DeviceArray<float> y(device(), Shape{1});
  module.function("f")({.block = {1}})(y);
  EXPECT_EQ(y.to_host(), Floats{6});
}

TEST_P(OpenClKernels, LocalMemoryBeyondAllCountingIsRefused) {
  const SourceModule module(
      device(),
      "__kernel void f(__global float* y, __local float* p, __local float* q) { p[0] = q[0] = y[0]; }");
  const auto f = module.function("f");
  DeviceArray<float> y(device(), {1});
  const std::int64_t all = std::int64_t{1} << 62;
  error_of(ErrorKind::kLimit,
           [&] { f({.block = {1}})(y, LocalArray<float>{all + 64}, LocalArray<float>{1}); });
  error_of(ErrorKind::kLimit,
           [&] { f({.block = {1}})(y, LocalArray<float>{all - 1}, LocalArray<float>{2}); });
}

TEST(SourceText, ReadsDeclarationsPastEverythingElse) {
  const std::string source = R"(
#define TWICE(x) \
  ((x) * 2)
/* void no(float* x) {} */ struct pair { int a; };
static const char* const text = "void no() {";
__attribute__((noinline)) static inline unsigned helper(unsigned a) { if (a) { return 1; } return 0; }
void declared(int n);
void f(const float *restrict x, float* y, unsigned long long count, struct pair p, short s) { helper(1); }
void g(void) {}
)";
  const std::vector<runtime::SourceSignature> all = runtime::source_signatures(source);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].name, "helper");
  EXPECT_EQ(all[1].name, "f");
  EXPECT_EQ(all[2].name, "g");
  EXPECT_TRUE(all[2].parameters.empty());
  const std::vector<runtime::SourceParameter>& p = all[1].parameters;
  ASSERT_EQ(p.size(), 5u);
  EXPECT_EQ(p[0].to_string(), "const float* x");
  EXPECT_FALSE(p[0].is_written);
  EXPECT_TRUE(p[1].is_written);
  EXPECT_EQ(p[2].dtype, DType::u64);
  EXPECT_EQ(p[3].type, "struct pair");
  EXPECT_FALSE(p[3].dtype);
  EXPECT_EQ(p[4].dtype, DType::i16);
  EXPECT_TRUE(all[1].is_plain);
  EXPECT_EQ(runtime::source_signatures("void f(const float x[]) {}")[0].parameters[0].type, "const float*");
  EXPECT_FALSE(runtime::source_signatures("void f(float x[4]) {}")[0].is_plain);
  const runtime::SourceSignature odd =
      runtime::source_signatures("void f(int n, void (*g)(int, int), pair<int, 4> p, float* const* t) {}")[0];
  ASSERT_EQ(odd.parameters.size(), 4u);
  EXPECT_FALSE(odd.is_plain);
  EXPECT_EQ(odd.parameters[0].dtype, DType::i32);
  EXPECT_FALSE(odd.parameters[1].kind);
  EXPECT_FALSE(odd.parameters[2].kind);
  EXPECT_EQ(odd.parameters[3].to_string(), "float* const* t");
  EXPECT_EQ(odd.parameters[3].dtype, DType::u64);
  EXPECT_FALSE(odd.parameters[3].is_written);
  const runtime::SourceParameter table =
      runtime::source_signatures("void f(const float* const* const rows) {}")[0].parameters[0];
  EXPECT_EQ(table.to_string(), "const float* const* rows");
  EXPECT_FALSE(table.is_written);
  const runtime::Typedefs defines =
      runtime::source_defines("#define real float\n#define f(x) x\n#define N 3");
  EXPECT_EQ(defines.at("real"), "float");
  EXPECT_FALSE(defines.contains("f"));
}

TEST(SourceText, SurvivesTextThatIsNoSource) {
  for (const char* text : {"", "(", "f(", "void f(", "void f() {", "}}}", "\"", "/*", "#", "typedef",
                           "typedef a b", "typedef a a;", "void f(,) {}", "() {}", "'\\"})
    EXPECT_NO_THROW({
      runtime::source_signatures(text);
      runtime::source_typedefs(runtime::source_tokens(text));
    }) << text;
  const runtime::Typedefs self{{"a", "b"}, {"b", "a"}};
  EXPECT_FALSE(runtime::number_type("a", self));
}

}  // namespace

}  // namespace systole
