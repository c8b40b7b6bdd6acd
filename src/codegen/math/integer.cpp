// Integers of every width and sign. Sums and products are taken unsigned and at least 32 bits wide, so that
// they wrap; operands that C leaves undefined are replaced before the operation.

#include <string_view>

#include "codegen/math/texts.h"

namespace systole::codegen::math {

namespace {

// $T: the type; $U: unsigned of its width; $V: unsigned for sums and products; $B: its bits.
constexpr std::string_view kAny = R"c(
S_FN s_$T s_add_$T(s_$T a, s_$T b) { return (s_$T)((s_$V)a + (s_$V)b); }

S_FN s_$T s_sub_$T(s_$T a, s_$T b) { return (s_$T)((s_$V)a - (s_$V)b); }

S_FN s_$T s_mul_$T(s_$T a, s_$T b) { return (s_$T)((s_$V)a * (s_$V)b); }

S_FN s_$T s_max_$T(s_$T a, s_$T b) { return a > b ? a : b; }

S_FN s_$T s_min_$T(s_$T a, s_$T b) { return a < b ? a : b; }

S_FN s_$T s_clamp_$T(s_$T low, s_$T x, s_$T high) { return s_min_$T(s_max_$T(x, low), high); }

S_FN s_$T s_shift_left_$T(s_$T a, s_$T b) {
  return (s_$U)b < $Bu ? (s_$T)((s_$V)a << ((s_$U)b & ($Bu - 1u))) : (s_$T)0;
}

S_FN s_$T s_shift_right_logical_$T(s_$T a, s_$T b) {
  return (s_$U)b < $Bu ? (s_$T)((s_$U)a >> ((s_$U)b & ($Bu - 1u))) : (s_$T)0;
}
)c";

constexpr std::string_view kSigned = R"c(
S_FN s_$T s_neg_$T(s_$T x) { return (s_$T)((s_$V)0 - (s_$V)x); }

S_FN s_$T s_abs_$T(s_$T x) { return x < 0 ? s_neg_$T(x) : x; }

S_FN s_$T s_sign_$T(s_$T x) { return (s_$T)((x > 0) - (x < 0)); }

S_FN s_$T s_shift_right_$T(s_$T a, s_$T b) {
  return (s_$T)(a >> ((s_$U)b < $Bu ? (s_$U)b : (s_$U)($Bu - 1u)));
}

// All bits set for b = 0; the smallest by -1 stays itself.
S_FN s_$T s_div_$T(s_$T a, s_$T b) {
  s_$T safe = ((b == 0) | (b == -1)) ? (s_$T)1 : b;
  s_$T quotient = (s_$T)(a / safe);
  quotient = b == -1 ? s_neg_$T(a) : quotient;
  return b == 0 ? (s_$T)-1 : quotient;
}

S_FN s_$T s_rem_$T(s_$T a, s_$T b) {
  s_$T safe = ((b == 0) | (b == -1)) ? (s_$T)1 : b;
  return b == 0 ? a : (s_$T)(a % safe);
}

// By squaring. A negative exponent gives 0 unless |a| is 1.
S_FN s_$T s_pow_$T(s_$T a, s_$T b) {
  s_$V result = 1, base = (s_$V)a;
  s_$U rest = b < 0 ? (s_$U)b & 1u : (s_$U)b;
  for (; rest != 0; rest >>= 1) {
    result = (rest & 1u) != 0 ? result * base : result;
    base = base * base;
  }
  return b >= 0 || a == 1 || a == -1 ? (s_$T)result : (s_$T)0;
}
)c";

constexpr std::string_view kUnsigned = R"c(
S_FN s_$T s_shift_right_$T(s_$T a, s_$T b) { return s_shift_right_logical_$T(a, b); }

// All bits set for b = 0.
S_FN s_$T s_div_$T(s_$T a, s_$T b) {
  s_$T quotient = (s_$T)(a / (b == 0 ? (s_$T)1 : b));
  return b == 0 ? (s_$T)~(s_$T)0 : quotient;
}

S_FN s_$T s_rem_$T(s_$T a, s_$T b) {
  s_$T remainder = (s_$T)(a % (b == 0 ? (s_$T)1 : b));
  return b == 0 ? a : remainder;
}

// By squaring.
S_FN s_$T s_pow_$T(s_$T a, s_$T b) {
  s_$V result = 1, base = a;
  for (; b != 0; b >>= 1) {
    result = (b & 1u) != 0 ? result * base : result;
    base = base * base;
  }
  return (s_$T)result;
}
)c";

}  // namespace

std::string integer_text() {
  std::string all;
  for (const std::string& bits : {std::string("8"), std::string("16"), std::string("32"), std::string("64")})
    for (const bool is_signed : {true, false}) {
      const std::string text = std::string(kAny) + std::string(is_signed ? kSigned : kUnsigned);
      const std::string same = (is_signed ? "i" : "u") + bits, positive = "u" + bits;
      all +=
          filled(text, {{"$T", same}, {"$U", positive}, {"$V", bits == "64" ? "u64" : "u32"}, {"$B", bits}});
    }
  return all;
}

}  // namespace systole::codegen::math
