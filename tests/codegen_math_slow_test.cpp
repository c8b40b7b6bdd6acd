// Every f32 there is through every f32 function of one argument, with FMA and without; every compiler and ISA
// on a sample. The reference is libm in double (its vector forms, where gcc finds them: within 4 ulp of
// double).

#include <atomic>
#include <iostream>
#include <mutex>
#include <thread>

#include "codegen_math_check.h"

namespace systole {
namespace {

constexpr long kBlock = 4096;

using Reference = void(const float* x, double* y, long n);
using Above = long(const float* y, const double* exact, double bound, long n);

// Loops over the references, and a first sieve that counts elements further off than `bound` ulp (or NaN).
// glibc's header names the vector forms only where it sees __FAST_MATH__; the flag itself stays off.
std::string reference_source() {
  std::string text = R"c(
#include <math.h>
#include <string.h>
long above(const float* restrict y, const double* restrict exact, double bound, long n) {
  long count = 0;
  for (long i = 0; i < n; ++i) {
    double e = exact[i], g = y[i], unit;
    unsigned long a, b, c;
    memcpy(&a, &e, 8);
    memcpy(&b, &g, 8);
    e = e > 0x1p128 ? 0x1p128 : e;
    e = e < -0x1p128 ? -0x1p128 : e;
    g = g > 0x1p128 ? 0x1p128 : g;
    g = g < -0x1p128 ? -0x1p128 : g;
    memcpy(&c, &e, 8);
    c = c & (0x7fful << 52);
    c = (c < (897ul << 52) ? (897ul << 52) : c) - (23ul << 52);
    memcpy(&unit, &c, 8);
    count += (fabs(g - e) <= bound * unit) & ((a ^ b) >> 63 == 0) ? 0 : 1;
  }
  return count;
}
)c";
  const auto add = [&](const std::string& name, const std::string& expression) {
    text += "void " + name + "_exact(const float* restrict x, double* restrict y, long n) {\n";
    text += "  for (long i = 0; i < n; ++i) { double v = x[i]; y[i] = " + expression + "; }\n}\n";
  };
  for (const UnaryCase& c : unary_cases()) {
    if (c.name == "rsqrt")
      add(c.name, "1 / sqrt(v)");
    else if (c.name == "logistic")
      add(c.name, "1 / (1 + exp(-v))");
    else if (c.name == "round")
      add(c.name, "rint(v)");
    else
      add(c.name, c.name + "(v)");
  }
  return text;
}

class CodegenMathSweep : public CodegenMath, public testing::WithParamInterface<UnaryCase> {};

TEST_P(CodegenMathSweep, EveryF32IsWithinTheUlpsWithFmaAndWithout) {
  const UnaryCase& c = GetParam();
  const std::vector<std::string> compilers = c_compilers();
  if (compilers.empty()) GTEST_SKIP() << "no C compiler here";
  std::vector<Isa> variants = isas();
  std::erase_if(variants, [](const Isa& isa) { return isa.name == "sse2" || isa.name == "avx512"; });
  if (variants.empty()) variants = isas();
  std::vector<std::unique_ptr<Library>> libraries;
  std::vector<Unary*> loops;
  for (const Isa& isa : variants) {
    libraries.push_back(compile(loops_source(), compilers.front(), isa.flags));
    ASSERT_NE(libraries.back(), nullptr);
    loops.push_back(libraries.back()->symbol<Unary>(loop_name(c.name)));
  }
  const std::unique_ptr<Library> reference =
      compile(reference_source(), compilers.back(), variants.back().flags + " -D__FAST_MATH__");
  ASSERT_NE(reference, nullptr);
  auto* exact_loop = reference->symbol<Reference>(c.name + "_exact");
  auto* above = reference->symbol<Above>("above");
  std::vector<Worst> worst(variants.size());
  std::mutex guard;
  std::atomic<std::uint64_t> next = 0;
  const auto work = [&] {
    std::vector<Worst> mine(variants.size());
    std::vector<float> x(kBlock), y(kBlock);
    std::vector<double> exact(kBlock);
    for (std::uint64_t block; (block = next++) < (std::uint64_t{1} << 32) / kBlock;) {
      for (long i = 0; i < kBlock; ++i)
        x[i] =
            std::bit_cast<float>(static_cast<std::uint32_t>(block * kBlock + static_cast<std::uint64_t>(i)));
      exact_loop(x.data(), exact.data(), kBlock);
      for (std::size_t k = 0; k < loops.size(); ++k) {
        loops[k](x.data(), y.data(), kBlock);
        if (above(y.data(), exact.data(), mine[k].ulps, kBlock) == 0) continue;
        for (long i = 0; i < kBlock; ++i) mine[k].add(ulps(y[i], exact[i]), x[i], 0, y[i]);
      }
    }
    const std::lock_guard lock(guard);
    for (std::size_t k = 0; k < worst.size(); ++k)
      if (mine[k].ulps > worst[k].ulps) worst[k] = mine[k];
  };
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency()); ++t) threads.emplace_back(work);
  for (std::thread& t : threads) t.join();
  for (std::size_t k = 0; k < worst.size(); ++k) {
    std::cout << c.name << ", " << variants[k].name << ": " << worst[k] << "\n";
    EXPECT_LE(worst[k].ulps, c.ulps) << c.name << " on " << variants[k].name << ": " << worst[k];
  }
}

TEST_F(CodegenMath, EveryCompilerAndIsaAgreesOnASample) {
  std::vector<float> x;
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += 2039)
    x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  std::vector<float> y(x.size());
  for (const std::string& compiler : c_compilers())
    for (const Isa& isa : isas()) {
      const std::unique_ptr<Library> library = compile(loops_source(), compiler, isa.flags);
      ASSERT_NE(library, nullptr);
      for (const UnaryCase& c : unary_cases()) {
        library->symbol<Unary>(loop_name(c.name))(x.data(), y.data(), static_cast<long>(x.size()));
        Worst worst;
        for (std::size_t i = 0; i < x.size(); ++i) worst.add(ulps(y[i], c.reference(x[i])), x[i], 0, y[i]);
        EXPECT_LE(worst.ulps, c.ulps) << c.name << " by " << compiler << " for " << isa.name << ": " << worst;
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Functions, CodegenMathSweep, testing::ValuesIn(unary_cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace systole
