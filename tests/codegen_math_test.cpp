#include <random>
#include <set>

#include "codegen_math_check.h"
#include "error_check.h"
#include "systole/base/dtype.h"

namespace systole {
namespace {

using codegen::Dialect;
namespace math = codegen::math;

// Every exponent with the ends and the middle of its mantissas, both signs, infinities and NaN among them.
std::vector<float> edges() {
  std::vector<float> out;
  for (std::uint32_t exponent = 0; exponent < 256; ++exponent)
    for (std::uint32_t mantissa : {0x0u, 0x1u, 0x2u, 0x400000u, 0x3504f3u, 0x7ffffeu, 0x7fffffu})
      for (std::uint32_t sign : {0u, 1u})
        out.push_back(std::bit_cast<float>(sign << 31 | exponent << 23 | mantissa));
  return out;
}

std::vector<float> spread() {
  std::vector<float> out = edges();
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += 4093)
    out.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  return out;
}

// One ISA without FMA and one with it, where there is one; the slow test has them all.
std::vector<Isa> plain_and_widest() {
  const std::vector<Isa> all = isas();
  return all.size() == 1 ? all : std::vector<Isa>{all.front(), all.back()};
}

TEST(CodegenMathText, CalleesComeFirstAndOnce) {
  const std::vector<std::string_view> asked{"s_tanh_f32", "s_erf_f32", "s_tanh_f32"};
  const std::string text = math::source(asked);
  const auto count = [&](const std::string& what) {
    int n = 0;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
    return n;
  };
  EXPECT_EQ(count("float s_exp_near_f32(float x) {"), 1);
  EXPECT_EQ(count("float s_tanh_f32(float x) {"), 1);
  EXPECT_LT(text.find("float s_exp_near_f32(float x) {"), text.find("float s_tanh_f32(float x) {"));
  EXPECT_EQ(text.find("s_log_f32"), std::string::npos);
}

TEST(CodegenMathText, AnUnknownFunctionIsRefusedByName) {
  const std::vector<std::string_view> asked{"s_exq_f32"};
  EXPECT_FALSE(math::has("s_exq_f32"));
  EXPECT_NE(error_of(ErrorKind::kInternal, [&] { math::source(asked); }).find("s_exq_f32"),
            std::string::npos);
}

TEST(CodegenMathText, NamesAreUniqueAndCoverWhatOpsNeed) {
  const std::vector<std::string_view> all = math::functions();
  EXPECT_EQ(std::set<std::string_view>(all.begin(), all.end()).size(), all.size());
  for (const std::string op :
       {"abs",   "neg",       "sign", "exp", "expm1", "log",      "log1p", "sqrt",  "rsqrt",
        "cbrt",  "sin",       "cos",  "tan", "tanh",  "logistic", "erf",   "floor", "ceil",
        "round", "is_finite", "rem",  "pow", "max",   "min",      "atan2", "clamp"})
    for (const std::string dtype : {"f32", "f64"})
      EXPECT_TRUE(math::has("s_" + op + "_" + dtype)) << op << dtype;
  for (const std::string op : {"add", "sub", "mul", "div", "rem", "pow", "max", "min", "clamp", "shift_left",
                               "shift_right", "shift_right_logical"})
    for (const std::string dtype : {"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"})
      EXPECT_TRUE(math::has("s_" + op + "_" + dtype)) << op << dtype;
  for (int from = 0; from < kDTypeCount; ++from)
    for (int to = 0; to < kDTypeCount; ++to) {
      const std::string pair =
          std::string(name(static_cast<DType>(from))) + "_" + std::string(name(static_cast<DType>(to)));
      EXPECT_TRUE(math::has("s_convert_" + pair)) << pair;
    }
}

TEST_F(CodegenMath, FunctionsOfOneFloatAreWithinTheirUlpsWithFmaAndWithout) {
  const std::vector<std::string> compilers = c_compilers();
  if (compilers.empty()) GTEST_SKIP() << "no C compiler here";
  const std::vector<float> x = spread();
  const long n = static_cast<long>(x.size());
  std::vector<std::unique_ptr<Library>> libraries;
  const std::vector<Isa> all = plain_and_widest();
  for (const Isa& isa : all) libraries.push_back(compile(loops_source(), compilers.front(), isa.flags));
  std::vector<double> exact(x.size());
  std::vector<float> y(x.size());
  for (const UnaryCase& c : unary_cases()) {
    std::transform(x.begin(), x.end(), exact.begin(), [&](float v) { return c.reference(v); });
    for (std::size_t k = 0; k < all.size(); ++k) {
      ASSERT_NE(libraries[k], nullptr);
      libraries[k]->symbol<Unary>(loop_name(c.name))(x.data(), y.data(), n);
      Worst worst;
      for (std::size_t i = 0; i < x.size(); ++i) worst.add(ulps(y[i], exact[i]), x[i], 0, y[i]);
      EXPECT_LE(worst.ulps, c.ulps) << c.name << " on " << all[k].name << ": " << worst;
    }
  }
}

// CUDA and OpenCL go it for |x| < 2^16 pi/2; C can be told to, where FMA is.
TEST_F(CodegenMath, TheShortReductionOfSmallAnglesIsAsGood) {
  const std::vector<std::string> compilers = c_compilers();
  if (compilers.empty()) GTEST_SKIP() << "no C compiler here";
  if (isas().back().name == "sse2") GTEST_SKIP() << "no FMA here";
  std::string text = loops_source();
  const std::string off = "#define S_BRANCHES 0";
  ASSERT_NE(text.find(off), std::string::npos);
  text.replace(text.find(off), off.size(), "#define S_BRANCHES 1");
  const std::unique_ptr<Library> library = compile(text, compilers.front(), isas().back().flags);
  ASSERT_NE(library, nullptr);
  std::vector<float> x = edges();
  for (std::uint32_t bits = 0x3e000000; bits < 0x48000000; bits += 389)
    x.push_back(std::bit_cast<float>(bits));
  std::vector<float> y(x.size());
  for (const UnaryCase& c : unary_cases()) {
    if (c.name != "sin" && c.name != "cos" && c.name != "tan") continue;
    library->symbol<Unary>(loop_name(c.name))(x.data(), y.data(), static_cast<long>(x.size()));
    Worst worst;
    for (std::size_t i = 0; i < x.size(); ++i) worst.add(ulps(y[i], c.reference(x[i])), x[i], 0, y[i]);
    EXPECT_LE(worst.ulps, c.ulps) << c.name << ": " << worst;
  }
}

// Pairs for the functions of two: edges with edges, random bits, and for pow what neither over- nor
// underflows.
std::pair<std::vector<float>, std::vector<float>> pairs() {
  std::vector<float> a, b;
  const auto add = [&](float x, float y) {
    a.push_back(x);
    b.push_back(y);
  };
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> special{
      0.0f,        -0.0f,        1.0f,        -1.0f,      0.5f,           -0.5f,         2.0f,
      -2.0f,       3.0f,         -3.0f,       inf,        -inf,           nan,           1e-45f,
      -1e-45f,     1e38f,        -1e38f,      1e-38f,     0.9999999f,     1.0000001f,    -1.0000001f,
      16777215.0f, -16777217.0f, 16777216.0f, 8388607.5f, -2147483648.0f, 4294967296.0f, 3e38f,
      -3e38f,      1.5f,         -2.5f};
  for (float x : special)
    for (float y : special) add(x, y);
  std::mt19937 bits(7);
  const auto uniform = [&](double low, double high) { return low + (high - low) * bits() * 0x1p-32; };
  for (int i = 0; i < 50000; ++i) {
    add(std::bit_cast<float>(static_cast<std::uint32_t>(bits())),
        std::bit_cast<float>(static_cast<std::uint32_t>(bits())));
    const double log = uniform(-100, 88);
    add(static_cast<float>(std::exp(log)), static_cast<float>(uniform(-104, 89) / log));
    const double near = uniform(-1e-3, 1e-3);
    add(static_cast<float>(1 + near), static_cast<float>(uniform(-104, 89) / near));
    add(static_cast<float>(uniform(-30, 30)), std::floor(static_cast<float>(uniform(-20, 20))));
  }
  return {a, b};
}

TEST_F(CodegenMath, FunctionsOfTwoFloatsAreWithinTheirUlpsWithFmaAndWithout) {
  const std::vector<std::string> compilers = c_compilers();
  if (compilers.empty()) GTEST_SKIP() << "no C compiler here";
  const auto [a, b] = pairs();
  std::vector<float> y(a.size());
  for (const Isa& isa : plain_and_widest()) {
    const std::unique_ptr<Library> library = compile(loops_source(), compilers.back(), isa.flags);
    ASSERT_NE(library, nullptr);
    for (const BinaryCase& c : binary_cases()) {
      library->symbol<Binary>(loop_name(c.name))(a.data(), b.data(), y.data(), static_cast<long>(a.size()));
      Worst worst;
      for (std::size_t i = 0; i < a.size(); ++i)
        worst.add(ulps(y[i], c.reference(a[i], b[i])), a[i], b[i], y[i]);
      EXPECT_LE(worst.ulps, c.ulps) << c.name << " on " << isa.name << ": " << worst;
    }
  }
}

TEST_F(CodegenMath, ClangVectorisesEveryLoopButRemainders) {
  if (!runs("clang-19 --version")) GTEST_SKIP() << "no clang-19 here";
  const Isa isa = isas().back();
  const std::string text = loops_source();
  std::string remarks;
  ASSERT_NE(compile(text, "clang-19", isa.flags + " -Rpass=loop-vectorize -Wno-error", &remarks), nullptr);
  std::set<long> lines;
  for (std::size_t at = remarks.find(".c:"); at != std::string::npos; at = remarks.find(".c:", at + 1))
    lines.insert(std::strtol(remarks.c_str() + at + 3, nullptr, 10));
  for (const std::string op : {"exp", "expm1", "log", "log1p", "sqrt", "rsqrt", "cbrt", "sin", "cos", "tan",
                               "tanh", "logistic", "erf", "floor", "ceil", "round", "pow", "atan2"}) {
    const std::size_t at = text.find("void " + loop_name(op));
    const long line = std::count(text.begin(), text.begin() + static_cast<long>(at), '\n') + 2;
    EXPECT_TRUE(lines.contains(line)) << op << " on " << isa.name;
  }
}

template <class F>
void check_signs_and_extrema(const Library& library, const std::string& dtype) {
  const F inf = std::numeric_limits<F>::infinity(), nan = std::numeric_limits<F>::quiet_NaN();
  const F tiny = std::numeric_limits<F>::denorm_min();
  const std::vector<F> x{0, F(-0.0), 1, -1, tiny, -tiny, inf, -inf, nan, F(2.5), F(-3e30)};
  const long n = static_cast<long>(x.size());
  std::vector<F> y(x.size()), low(x.size(), -1), high(x.size(), 2);
  const auto one = [&](const std::string& op) {
    library.symbol<void(const F*, F*, long)>("s_" + op + "_" + dtype + "_loop")(x.data(), y.data(), n);
  };
  // Equal, and of the same sign; or both NaN.
  const auto same = [&](const std::vector<F>& want) {
    for (std::size_t i = 0; i < x.size(); ++i)
      EXPECT_TRUE(std::isnan(want[i]) ? std::isnan(y[i])
                                      : y[i] == want[i] && std::signbit(y[i]) == std::signbit(want[i]))
          << dtype << " of " << x[i] << " gives " << y[i] << ", not " << want[i];
  };
  one("abs");
  same({0, 0, 1, 1, tiny, tiny, inf, inf, nan, F(2.5), F(3e30)});
  one("neg");
  same({F(-0.0), 0, -1, 1, -tiny, tiny, -inf, inf, nan, F(-2.5), F(3e30)});
  one("sign");
  same({0, F(-0.0), 1, -1, 1, -1, 1, -1, nan, 1, -1});
  std::vector<std::uint8_t> finite(x.size());
  library.symbol<void(const F*, std::uint8_t*, long)>("s_is_finite_" + dtype + "_loop")(x.data(),
                                                                                        finite.data(), n);
  EXPECT_EQ(finite, (std::vector<std::uint8_t>{1, 1, 1, 1, 1, 1, 0, 0, 0, 1, 1}));
  library.symbol<void(const F*, const F*, const F*, F*, long)>("s_clamp_" + dtype + "_loop")(
      low.data(), x.data(), high.data(), y.data(), n);
  same({0, F(-0.0), 1, -1, tiny, -tiny, 2, -1, nan, 2, -1});
  using Two = void(const F*, const F*, F*, long);
  std::fill(low.begin(), low.end(), nan);
  for (const std::string op : {"max", "min"})
    for (const bool first : {true, false}) {
      const F* a = first ? low.data() : x.data();
      library.symbol<Two>("s_" + op + "_" + dtype + "_loop")(a, first ? x.data() : low.data(), y.data(), n);
      EXPECT_TRUE(std::all_of(y.begin(), y.end(), [](F v) { return std::isnan(v); })) << op << " " << dtype;
    }
}

TEST_F(CodegenMath, SignsExtremaAndFinitenessTreatNanAndZeroAsTheIrSays) {
  const std::vector<std::string> compilers = c_compilers();
  if (compilers.empty()) GTEST_SKIP() << "no C compiler here";
  std::vector<Loop> wanted{{"s_logistic_f64", "double", "double", 1}, {"s_rem_f64", "double", "double", 2}};
  for (const std::string dtype : {"f32", "f64"}) {
    const std::string type = dtype == "f32" ? "float" : "double";
    for (const std::string op : {"abs", "neg", "sign"})
      wanted.push_back({"s_" + op + "_" + dtype, type, type, 1});
    for (const std::string op : {"max", "min"}) wanted.push_back({"s_" + op + "_" + dtype, type, type, 2});
    wanted.push_back({"s_is_finite_" + dtype, type, "s_bool", 1});
    wanted.push_back({"s_clamp_" + dtype, type, type, 3});
  }
  const std::unique_ptr<Library> library = compile(loops_over(wanted), compilers.front(), "");
  ASSERT_NE(library, nullptr);
  check_signs_and_extrema<float>(*library, "f32");
  check_signs_and_extrema<double>(*library, "f64");
  const double x[] = {-745, -1, 0, 40, HUGE_VAL, -HUGE_VAL};
  double y[6];
  library->symbol<void(const double*, double*, long)>("s_logistic_f64_loop")(x, y, 6);
  // scipy.special.expit
  const double want[] = {5e-324, 0.2689414213699951, 0.5, 1, 1, 0};
  for (int i = 0; i < 6; ++i) EXPECT_NEAR(y[i], want[i], 1e-16) << x[i];
  EXPECT_GT(y[0], 0);
}

// Each function's text without what the C library would have to give: what a kernel without libm links to.
TEST(CodegenMathText, FunctionsOfF32CallNoLibrary) {
  for (std::string_view name : math::functions()) {
    if (!name.ends_with("_f32") || name.starts_with("s_convert_f64")) continue;
    EXPECT_EQ(math::source(std::vector{name}).find("S_LIBM"), std::string::npos) << name;
  }
}

TEST_F(CodegenMath, ClangTakesTheTextAsOpenCl) {
  if (!runs("clang-19 --version")) GTEST_SKIP() << "no clang-19 here";
  const std::vector<std::string_view> all = math::functions();
  const auto file = write("all.cl", math::prelude(Dialect::opencl) + math::source(all));
  const std::string command =
      "clang-19 -x cl -cl-std=CL1.2 -Xclang -finclude-default-header -Wall -Wextra -Wno-unused-function "
      "-Werror "
      "-fsyntax-only " +
      file.string();
  EXPECT_EQ(std::system(command.c_str()), 0);
}

// The functions that NVRTC knows without a header.
constexpr std::string_view kCudaBuiltins = R"c(
#define __device__ __attribute__((device))
#define __forceinline__ inline __attribute__((always_inline))
__device__ unsigned __float_as_uint(float);
__device__ float __uint_as_float(unsigned);
__device__ float __fmaf_rn(float, float, float);
__device__ double __fma_rn(double, double, double);
__device__ float __fmul_rn(float, float);
__device__ float __fdiv_rn(float, float);
__device__ float __fsqrt_rn(float);
__device__ double __dsqrt_rn(double);
__device__ float expf(float);
__device__ float floorf(float);
__device__ float ceilf(float);
__device__ float rintf(float);
#define D(name) __device__ double name(double);
D(exp) D(expm1) D(log) D(log1p) D(cbrt) D(sin) D(cos) D(tan) D(tanh) D(erf) D(floor) D(ceil) D(rint) D(fabs)
#undef D
__device__ double pow(double, double);
__device__ double atan2(double, double);
__device__ double fmod(double, double);
)c";

TEST_F(CodegenMath, ClangTakesTheTextAsCuda) {
  if (!runs("clang-19 --version")) GTEST_SKIP() << "no clang-19 here";
  const std::vector<std::string_view> all = math::functions();
  const auto file =
      write("all.cu", std::string(kCudaBuiltins) + math::prelude(Dialect::cuda) + math::source(all));
  const std::string command =
      "clang-19 -x cuda --cuda-device-only --cuda-gpu-arch=sm_90 -nocudainc -nocudalib -Wall -Wextra "
      "-Wno-unused-function -Wno-unknown-cuda-version -Werror -fsyntax-only " +
      file.string();
  EXPECT_EQ(std::system(command.c_str()), 0);
}

}  // namespace
}  // namespace systole
