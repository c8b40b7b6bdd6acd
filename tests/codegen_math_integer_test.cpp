// Integers and conversions of kernels, compiled as C and called through loops. Expected values come from
// 128-bit arithmetic, from SmallFloat (whose own test has ml_dtypes' values) and from hand calculation.

#include <concepts>
#include <random>
#include <type_traits>

#include "codegen_math_check.h"
#include "systole/base/dtype.h"

namespace systole {
namespace {

namespace math = codegen::math;
__extension__ using Wide = __int128;

template <class T>
std::string name_of() {
  return std::string(name(dtype_of<T>));
}

class CodegenMathIntegers : public CodegenMath {
 protected:
  std::unique_ptr<Library> loops(const std::vector<Loop>& loops) {
    return compile(loops_over(loops), c_compilers().front(), "");
  }
  void SetUp() override {
    if (c_compilers().empty()) GTEST_SKIP() << "no C compiler here";
  }
};

// Every pair of 8-bit values; for wider types the ends, small numbers and random bits.
template <class T>
std::vector<T> operands() {
  std::vector<T> out;
  if (sizeof(T) == 1) {
    for (int i = 0; i < 256; ++i) out.push_back(static_cast<T>(i));
    return out;
  }
  for (int i = -70; i <= 70; ++i) {
    out.push_back(static_cast<T>(i));
    out.push_back(static_cast<T>(std::numeric_limits<T>::max() + static_cast<Wide>(i)));
  }
  std::mt19937_64 bits(3);
  for (int i = 0; i < 100; ++i) out.push_back(static_cast<T>(bits() >> (i % 60)));
  return out;
}

template <class T>
T expected(const std::string& op, T a, T b) {
  const Wide x = a, y = b, width = 8 * sizeof(T);
  const bool outside = y < 0 || y >= width;
  const auto low = static_cast<std::make_unsigned_t<T>>(a);
  if (op == "add") return static_cast<T>(x + y);
  if (op == "sub") return static_cast<T>(x - y);
  if (op == "mul") return static_cast<T>(static_cast<std::uint64_t>(x) * static_cast<std::uint64_t>(y));
  if (op == "div") return y == 0 ? static_cast<T>(-1) : static_cast<T>(x / y);
  if (op == "rem") return y == 0 ? a : static_cast<T>(x % y);
  if (op == "max") return std::max(a, b);
  if (op == "min") return std::min(a, b);
  if (op == "shift_left") return outside ? T{0} : static_cast<T>(static_cast<std::uint64_t>(x) << y);
  if (op == "shift_right") return outside ? static_cast<T>(x < 0 ? -1 : 0) : static_cast<T>(x >> y);
  if (op == "shift_right_logical") return outside ? T{0} : static_cast<T>(low >> y);
  // pow, by as many products as the exponent says.
  if (y < 0) return static_cast<T>(x == 1 || (x == -1 && y % 2 == 0) ? 1 : x == -1 ? -1 : 0);
  std::uint64_t product = 1;
  for (Wide i = 0; i < y; ++i) product *= static_cast<std::uint64_t>(x);
  return static_cast<T>(product);
}

template <class T>
void check_two(const Library& library) {
  const std::vector<T> values = operands<T>();
  std::vector<T> a, b;
  for (T x : values)
    for (T y : values) {
      a.push_back(x);
      b.push_back(y);
    }
  std::vector<T> got(a.size());
  for (const std::string op : {"add", "sub", "mul", "div", "rem", "max", "min", "shift_left", "shift_right",
                               "shift_right_logical", "pow"}) {
    library.symbol<void(const T*, const T*, T*, long)>("s_" + op + "_" + name_of<T>() + "_loop")(
        a.data(), b.data(), got.data(), static_cast<long>(a.size()));
    int wrong = 0;
    for (std::size_t i = 0; i < a.size() && wrong < 3; ++i) {
      if (op == "pow" && b[i] > T{100}) continue;
      const T want = expected(op, a[i], b[i]);
      if (got[i] != want)
        ++wrong, ADD_FAILURE() << op << " " << name_of<T>() << " of " << +a[i] << ", " << +b[i] << " gives "
                               << +got[i] << ", not " << +want;
    }
  }
}

template <class T>
void check_one(const Library& library) {
  const std::vector<T> x = operands<T>();
  std::vector<T> got(x.size());
  for (const std::string op : {"neg", "abs", "sign"}) {
    library.symbol<void(const T*, T*, long)>("s_" + op + "_" + name_of<T>() + "_loop")(
        x.data(), got.data(), static_cast<long>(x.size()));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Wide v = x[i];
      const Wide want = op == "neg" ? -v : op == "abs" ? (v < 0 ? -v : v) : (v > 0) - (v < 0);
      EXPECT_EQ(got[i], static_cast<T>(want)) << op << " " << name_of<T>() << " of " << +x[i];
    }
  }
}

TEST_F(CodegenMathIntegers, ObeyTheCornersOfTheIrInEveryType) {
  std::vector<Loop> wanted;
  for (const std::string type : {"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"}) {
    for (const std::string op : {"add", "sub", "mul", "div", "rem", "max", "min", "shift_left", "shift_right",
                                 "shift_right_logical", "pow"})
      wanted.push_back({"s_" + op + "_" + type, "s_" + type, "s_" + type, 2});
    if (type.front() == 'i')
      for (const std::string op : {"neg", "abs", "sign"})
        wanted.push_back({"s_" + op + "_" + type, "s_" + type, "s_" + type, 1});
  }
  const std::unique_ptr<Library> library = loops(wanted);
  ASSERT_NE(library, nullptr);
  check_two<std::int8_t>(*library);
  check_two<std::int16_t>(*library);
  check_two<std::int32_t>(*library);
  check_two<std::int64_t>(*library);
  check_two<std::uint8_t>(*library);
  check_two<std::uint16_t>(*library);
  check_two<std::uint32_t>(*library);
  check_two<std::uint64_t>(*library);
  check_one<std::int8_t>(*library);
  check_one<std::int16_t>(*library);
  check_one<std::int32_t>(*library);
  check_one<std::int64_t>(*library);
  // Exponents of full width, by Python's pow(a, b, 2**width).
  const std::uint32_t base[] = {3, 5}, exponent[] = {0x7fffffff, 0xfffffffe};
  std::uint32_t power[2];
  library->symbol<void(const std::uint32_t*, const std::uint32_t*, std::uint32_t*, long)>("s_pow_u32_loop")(
      base, exponent, power, 2);
  EXPECT_EQ(power[0], 2863311531u);
  EXPECT_EQ(power[1], 3264175145u);
  const std::int64_t wide_base = 7, wide_exponent = std::numeric_limits<std::int64_t>::max();
  std::int64_t wide_power;
  library->symbol<void(const std::int64_t*, const std::int64_t*, std::int64_t*, long)>("s_pow_i64_loop")(
      &wide_base, &wide_exponent, &wide_power, 1);
  EXPECT_EQ(wide_power, 7905747460161236407);
}

template <class From, class To>
std::vector<To> converted(const Library& library, const std::string& pair, const std::vector<From>& x) {
  std::vector<To> y(x.size());
  library.symbol<void(const From*, To*, long)>("s_convert_" + pair + "_loop")(x.data(), y.data(),
                                                                              static_cast<long>(x.size()));
  return y;
}

// f64 around every value of the format and around every middle of two neighbours, where f32 cannot tell.
template <class Short>
void check_short(const Library& library) {
  using Bits = decltype(Short{}.bits());
  const std::string format = name_of<Short>();
  std::vector<Bits> all;
  for (std::uint32_t i = 0; i <= std::numeric_limits<Bits>::max(); ++i) all.push_back(static_cast<Bits>(i));
  const std::vector<float> decoded = converted<Bits, float>(library, format + "_f32", all);
  std::vector<double> x{0.0,      -0.0,       1e300,        -1e300,  1e-300,         -1e-300,
                        0x1p-150, 0x1.8p-150, 3.4028235e38, 0x1p128, 0x1.fffffefp127};
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double value = Short::from_bits(all[i]);
    EXPECT_TRUE(std::isnan(value)
                    ? std::isnan(decoded[i])
                    : std::bit_cast<std::uint64_t>(value) == std::bit_cast<std::uint64_t>(double{decoded[i]}))
        << format << " " << +all[i];
    const double next = i + 1 < all.size() ? static_cast<double>(Short::from_bits(all[i + 1])) : 0.0;
    for (const double v : {value, (value + next) / 2})
      for (const double w : {v, v * (1 + 0x1p-50), v * (1 - 0x1p-50), v * (1 + 0x1p-20), v * (1 - 0x1p-20)})
        x.push_back(w);
  }
  const std::vector<Bits> from_f64 = converted<double, Bits>(library, "f64_" + format, x);
  std::vector<float> narrow(x.size());
  std::transform(x.begin(), x.end(), narrow.begin(), [](double v) {
    return std::fabs(v) < 3.4e38 || std::isnan(v)
               ? static_cast<float>(v)
               : std::copysign(HUGE_VALF, static_cast<float>(v > 0) - 0.5f);
  });
  const std::vector<Bits> from_f32 = converted<float, Bits>(library, "f32_" + format, narrow);
  int wrong = 0;
  for (std::size_t i = 0; i < x.size() && wrong < 3; ++i) {
    if (from_f64[i] != Short(x[i]).bits())
      ++wrong, ADD_FAILURE() << "f64 to " << format << " of " << x[i] << ": " << +from_f64[i];
    if (from_f32[i] != Short(narrow[i]).bits())
      ++wrong, ADD_FAILURE() << "f32 to " << format << " of " << narrow[i] << ": " << +from_f32[i];
  }
  // Integers up to 53 bits, which double holds.
  std::vector<std::int64_t> integers{0,     1,     -1,    448,   464,   465,   -465, 480,
                                     65504, 65519, 65520, 65521, 57344, 61440, 61441};
  for (int shift = 0; shift < 44; ++shift)
    for (std::int64_t m : {257, 258, 259, 2049, 2051, 4097, 4099})
      for (std::int64_t step : {-1, 0, 1}) integers.push_back((m << shift >> 2) + step);
  const std::vector<Bits> from_i64 = converted<std::int64_t, Bits>(library, "i64_" + format, integers);
  for (std::size_t i = 0; i < integers.size(); ++i)
    EXPECT_EQ(from_i64[i], Short(static_cast<double>(integers[i])).bits()) << format << " of " << integers[i];
}

TEST_F(CodegenMathIntegers, ShortFloatsRoundOnceAndComeBack) {
  std::vector<Loop> wanted{{"s_convert_u64_bf16", "s_u64", "s_u16", 1}};
  for (const std::string format : {"f16", "bf16", "f8e4m3fn", "f8e5m2"}) {
    const std::string bits = format.size() == 3 || format == "bf16" ? "s_u16" : "s_u8";
    wanted.push_back({"s_convert_" + format + "_f32", bits, "float", 1});
    wanted.push_back({"s_convert_f32_" + format, "float", bits, 1});
    wanted.push_back({"s_convert_f64_" + format, "double", bits, 1});
    wanted.push_back({"s_convert_i64_" + format, "s_i64", bits, 1});
  }
  const std::unique_ptr<Library> library = loops(wanted);
  ASSERT_NE(library, nullptr);
  check_short<f16>(*library);
  check_short<bf16>(*library);
  check_short<f8e4m3fn>(*library);
  check_short<f8e5m2>(*library);
  // Above 2^53 double would round first: 2^62 + 2^54 is a tie to 2^62, one more is not. 2^64 - 1 rounds to
  // 2^64.
  const std::vector<std::uint64_t> wide{(1ull << 62) + (1ull << 54), (1ull << 62) + (1ull << 54) + 1, ~0ull,
                                        1ull << 63};
  const std::vector<std::uint16_t> want{0x5e80, 0x5e81, 0x5f80, 0x5f00};
  EXPECT_EQ((converted<std::uint64_t, std::uint16_t>(*library, "u64_bf16", wide)), want);
}

template <class F, class T>
void check_saturating(const Library& library) {
  const std::string pair = name_of<F>() + "_" + name_of<T>();
  const F inf = std::numeric_limits<F>::infinity();
  std::vector<F> x{0,
                   F(-0.0),
                   F(0.5),
                   F(-0.5),
                   F(0.999),
                   F(-0.999),
                   F(1.5),
                   F(-1.5),
                   inf,
                   -inf,
                   -std::nextafter(F(1), F(0))};
  for (int exponent = -3; exponent < 70; ++exponent)
    for (F sign : {F(1), F(-1)}) {
      const F v = sign * std::ldexp(F(1), exponent);
      for (F w : {v, std::nextafter(v, inf), std::nextafter(v, -inf), v - F(0.5), v + F(0.5), v - 1, v + 1})
        x.push_back(w);
    }
  const std::vector<T> y = converted<F, T>(library, pair, x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const long double low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
    const T want = static_cast<T>(std::clamp(std::trunc(static_cast<long double>(x[i])), low, high));
    EXPECT_EQ(y[i], want) << pair << " of " << x[i];
  }
  const std::vector<F> nan{std::numeric_limits<F>::quiet_NaN()};
  EXPECT_EQ((converted<F, T>(library, pair, nan)[0]), 0) << pair << " of NaN";
}

TEST_F(CodegenMathIntegers, FloatsToIntegersTruncateAndSaturate) {
  std::vector<Loop> wanted;
  for (const std::string from : {"f32", "f64"})
    for (const std::string to : {"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"})
      wanted.push_back({"s_convert_" + from + "_" + to, from == "f32" ? "float" : "double", "s_" + to, 1});
  wanted.push_back({"s_convert_f16_bool", "s_u16", "s_bool", 1});
  wanted.push_back({"s_convert_f16_i8", "s_u16", "s_i8", 1});
  const std::unique_ptr<Library> library = loops(wanted);
  ASSERT_NE(library, nullptr);
  const auto both = [&]<class T>(T) {
    check_saturating<float, T>(*library);
    check_saturating<double, T>(*library);
  };
  both(std::int8_t{});
  both(std::int16_t{});
  both(std::int32_t{});
  both(std::int64_t{});
  both(std::uint8_t{});
  both(std::uint16_t{});
  both(std::uint32_t{});
  both(std::uint64_t{});
  // 0, -0, the smallest denormal, NaN, -200.
  const std::vector<std::uint16_t> halves{0, 0x8000, 1, 0x7e00, 0xda40};
  EXPECT_EQ((converted<std::uint16_t, std::uint8_t>(*library, "f16_bool", halves)),
            (std::vector<std::uint8_t>{0, 0, 1, 1, 1}));
  EXPECT_EQ((converted<std::uint16_t, std::int8_t>(*library, "f16_i8", halves)),
            (std::vector<std::int8_t>{0, 0, 0, 0, -128}));
}

}  // namespace
}  // namespace systole
