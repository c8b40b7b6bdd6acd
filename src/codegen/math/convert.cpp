// s_convert_<from>_<to> for every pair of dtypes. f16, bf16 and f8 are integers holding their bits; they
// convert through f32, which holds them all exactly. What is wider than f32 is first rounded to f32 *to odd*
// (cut off, the last bit set if anything was lost), after which rounding to the short format is as good as
// once.

#include <array>
#include <bit>
#include <string_view>

#include "codegen/math/texts.h"
#include "systole/base/dtype.h"

namespace systole::codegen::math {

namespace {

constexpr std::string_view kToOdd = R"c(
// x as f32, rounded to odd.
S_FN float s_odd_f64(double x) {
  float f = (float)x;
  double magnitude = x < 0.0 ? -x : x;
  s_u32 bits = s_bits_f32(f) & 0x7fffffffu;
  double back = (double)s_float_of_bits(bits);
  bits -= (s_u32)(back > magnitude);
  bits |= (s_u32)(back != magnitude);
  return x != x ? f : s_float_of_bits(bits | (s_bits_f32(f) & 0x80000000u));
}

S_FN float s_odd_u64(s_u64 x) {
  s_u64 wide = x >> 40;
  s_u64 kept = wide != 0u ? (x >> 16) | (s_u64)((x & 65535u) != 0u) : x;
  float f = (float)kept;
  s_u64 back = (s_u64)f;
  s_u32 bits = (s_bits_f32(f) - (s_u32)(back > kept)) | (s_u32)(back != kept);
  return s_float_of_bits(bits) * (wide != 0u ? 65536.0f : 1.0f);
}

S_FN float s_odd_i64(s_i64 x) {
  float f = s_odd_u64(x < 0 ? 0u - (s_u64)x : (s_u64)x);
  return x < 0 ? -f : f;
}
)c";

// bf16 is the upper half of f32.
constexpr std::string_view kBf16 = R"c(
S_FN float s_convert_bf16_f32(s_u16 x) { return s_float_of_bits((s_u32)x << 16); }

S_FN s_u16 s_convert_f32_bf16(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  s_u16 rounded;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(rounded) : "f"(x));
  return rounded;
#else
  s_u32 bits = s_bits_f32(x);
  s_u32 rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return (s_u16)(x != x ? ((bits >> 16) & 0x8000u) | 0x7fc0u : rounded);
#endif
}
)c";

// $F: the format; $S: its storage; $L: bits cut from f32's mantissa; $R: the difference of the biases; $X:
// the full exponent field where f32 has it; $M: the float whose last bit is the format's smallest number; $N:
// the smallest normal number; $O: what overflow gives; $Q: NaN; $G: the sign bit's distance.
constexpr std::string_view kShort = R"c(
// Denormals round by the addition of a float whose last bit is the format's; larger ones in the bits.
S_FN $S s_convert_f32_$F(float x) {
  s_u32 sign = (s_bits_f32(x) >> 31) << $G;
  s_u32 bits = s_bits_f32(x) & 0x7fffffffu;
  s_u32 denormal = s_bits_f32(s_float_of_bits(bits) + $M) - s_bits_f32($M);
  s_u32 normal = ((bits + ((1u << ($L - 1)) - 1u) + ((bits >> $L) & 1u)) >> $L) - ($Ru << (23 - $L));
  normal = normal >= $O ? $O : normal;
  s_u32 result = s_float_of_bits(bits) < $N ? denormal : normal;
  return ($S)(sign | (bits > 0x7f800000u ? $Q : result));
}
)c";

constexpr std::string_view kFromIeee = R"c(
S_FN float s_convert_$F_f32($S x) {
  s_u32 bits = ((s_u32)x & ((1u << $G) - 1u)) << $L;
  s_u32 sign = ((s_u32)x >> $G) << 31;
  s_u32 rebased = bits + ($Ru << 23);
  rebased = bits >= $X ? rebased + ($Ru << 23) : rebased;
  float denormal = s_float_of_bits(rebased + 0x800000u) - $N;
  return s_float_of_bits(sign | (bits < 0x800000u ? s_bits_f32(denormal) : rebased));
}
)c";

constexpr std::string_view kFromFinite = R"c(
S_FN float s_convert_$F_f32($S x) {
  s_u32 bits = ((s_u32)x & ((1u << $G) - 1u)) << $L;
  s_u32 sign = ((s_u32)x >> $G) << 31;
  s_u32 rebased = bits + ($Ru << 23);
  rebased = ((s_u32)x & $Q) == $Q ? 0x7fc00000u : rebased;
  float denormal = s_float_of_bits(rebased + 0x800000u) - $N;
  return s_float_of_bits(sign | (bits < 0x800000u ? s_bits_f32(denormal) : rebased));
}
)c";

std::string short_text() {
  return filled(std::string(kShort) + std::string(kFromIeee), {{"$F", "f16"},
                                                               {"$S", "s_u16"},
                                                               {"$L", "13"},
                                                               {"$R", "112"},
                                                               {"$X", "0xf800000u"},
                                                               {"$M", "0.5f"},
                                                               {"$N", "6.10351562e-5f"},
                                                               {"$O", "0x7c00u"},
                                                               {"$Q", "0x7e00u"},
                                                               {"$G", "15"}}) +
         filled(std::string(kShort) + std::string(kFromIeee), {{"$F", "f8e5m2"},
                                                               {"$S", "s_u8"},
                                                               {"$L", "21"},
                                                               {"$R", "112"},
                                                               {"$X", "0xf800000u"},
                                                               {"$M", "128.0f"},
                                                               {"$N", "6.10351562e-5f"},
                                                               {"$O", "0x7cu"},
                                                               {"$Q", "0x7eu"},
                                                               {"$G", "7"}}) +
         filled(std::string(kShort) + std::string(kFromFinite), {{"$F", "f8e4m3fn"},
                                                                 {"$S", "s_u8"},
                                                                 {"$L", "20"},
                                                                 {"$R", "120"},
                                                                 {"$M", "16384.0f"},
                                                                 {"$N", "0.015625f"},
                                                                 {"$O", "0x7fu"},
                                                                 {"$Q", "0x7fu"},
                                                                 {"$G", "7"}});
}

// A float kept as its bits.
bool is_short(DType d) { return is_float(d) && size_of(d) < 4; }

std::string type_of(DType d) {
  if (d == DType::f64) return "double";
  if (d == DType::f32) return "float";
  if (is_short(d)) return size_of(d) == 2 ? "s_u16" : "s_u8";
  return "s_" + std::string(name(d));
}

// f32 or f64 to an integer.
std::string saturating(DType from, DType to) {
  constexpr std::string_view text = R"c(
S_FN $I s_convert_$F_$T($C x) {
  $C inside = ((x >= $A) & (x < $Z)) ? x : $0;
  $I result = ($I)inside;
  result = x >= $Z ? ($I)$H : result;
  return x < $A ? ($I)$D : result;
}
)c";
  static constexpr std::array<std::string_view, 4> kTop{"127", "32767", "2147483647", "0x7fffffffffffffffu"};
  static constexpr std::array<std::string_view, 4> kBottom{"-128", "-32768", "0x80000000u",
                                                           "0x8000000000000000u"};
  static constexpr std::array<std::string_view, 4> kFull{"255u", "65535u", "4294967295u",
                                                         "0xffffffffffffffffu"};
  static constexpr std::array<std::string_view, 8> kPower{"128.0",
                                                          "256.0",
                                                          "32768.0",
                                                          "65536.0",
                                                          "2147483648.0",
                                                          "4294967296.0",
                                                          "9223372036854775808.0",
                                                          "18446744073709551616.0"};
  const auto width = static_cast<std::size_t>(std::countr_zero(size_of(to)));
  const bool is_signed = is_signed_integer(to);
  const std::string suffix = from == DType::f32 ? "f" : "";
  const std::string end = std::string(kPower[2 * width + (is_signed ? 0 : 1)]) + suffix;
  return filled(text, {{"$Z", end},
                       {"$A", is_signed ? "-" + end : "0.0" + suffix},
                       {"$0", "0.0" + suffix},
                       {"$H", is_signed ? kTop[width] : kFull[width]},
                       {"$D", is_signed ? kBottom[width] : "0"},
                       {"$I", type_of(to)},
                       {"$C", type_of(from)},
                       {"$F", name(from)},
                       {"$T", name(to)}});
}

// The body's expression of x, for pairs that are not written above.
std::string expression(DType from, DType to) {
  const std::string as_f32 = is_short(from) ? "s_convert_" + std::string(name(from)) + "_f32(x)" : "(float)x";
  const std::string from_f32 = "s_convert_f32_" + std::string(name(to));
  if (from == to) return "x";
  if (to == DType::boolean) return is_short(from) ? as_f32 + " != 0.0f" : "x != 0";
  if (is_short(to)) {
    const bool wide = !is_short(from) && size_of(from) >= 4;
    const std::string domain = is_float(from) ? "f64" : is_signed_integer(from) ? "i64" : "u64";
    return from_f32 + "(" + (wide ? "s_odd_" + domain + "(x)" : as_f32) + ")";
  }
  if (is_short(from)) return is_float(to) ? "(double)" + as_f32 : from_f32 + "(" + as_f32 + ")";
  return "(" + type_of(to) + ")x";
}

}  // namespace

std::string convert_text() {
  std::string text = std::string(kToOdd) + std::string(kBf16) + short_text();
  for (int i = 0; i < kDTypeCount; ++i)
    for (int j = 0; j < kDTypeCount; ++j) {
      const auto from = static_cast<DType>(i), to = static_cast<DType>(j);
      const bool written = (from == DType::f32 && is_short(to)) || (is_short(from) && to == DType::f32);
      if (written) continue;
      if (is_float(from) && !is_short(from) && is_integer(to))
        text += saturating(from, to);
      else
        text += "S_FN " + type_of(to) + " s_convert_" + std::string(name(from)) + "_" +
                std::string(name(to)) + "(" + type_of(from) + " x) { return " + expression(from, to) +
                "; }\n";
    }
  return text;
}

}  // namespace systole::codegen::math
