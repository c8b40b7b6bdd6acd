// f64: the dialect's own math library, which is within a few ulp everywhere.

#include <string_view>

#include "codegen/math/texts.h"

namespace systole::codegen::math {

std::string double_text() {
  std::string text = R"c(
S_FN double s_sqrt_f64(double x) { return S_SQRT_F64(x); }

S_FN double s_rsqrt_f64(double x) { return 1.0 / S_SQRT_F64(x); }

// e^-|x| never overflows, and e / (1 + e) keeps its digits where the result is small.
S_FN double s_logistic_f64(double x) {
  double e = S_LIBM(exp)(x < 0.0 ? x : -x);
  return (x < 0.0 ? e : 1.0) / (1.0 + e);
}
)c";
  const auto add = [&](std::string_view line, std::string_view op, std::string_view function) {
    text += filled(line, {{"$O", op}, {"$F", function}});
  };
  constexpr std::string_view one = "S_FN double s_$O_f64(double x) { return S_LIBM($F)(x); }\n";
  constexpr std::string_view two = "S_FN double s_$O_f64(double a, double b) { return S_LIBM($F)(a, b); }\n";
  for (std::string_view op :
       {"exp", "expm1", "log", "log1p", "cbrt", "sin", "cos", "tan", "tanh", "erf", "floor", "ceil"})
    add(one, op, op);
  add(one, "abs", "fabs");
  add(one, "round", "rint");
  add(two, "pow", "pow");
  add(two, "atan2", "atan2");
  add(two, "rem", "fmod");
  return text;
}

}  // namespace systole::codegen::math
