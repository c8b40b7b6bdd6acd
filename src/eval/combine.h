#pragma once

// ir::Combine as functions on the wide domains, with their identities: what reductions, windows, scatters and
// collectives share.

#include <functional>
#include <limits>
#include <string>

#include "eval/wide.h"
#include "systole/base/error.h"
#include "systole/ir/attrs.h"

namespace systole::eval {

// Calls f(op) with op(W, W) → W. `set` returns its second argument.
template <class W, class F>
decltype(auto) visit_combine(ir::Combine kind, F&& f) {
  switch (kind) {
    case ir::Combine::set: return f([](W, W b) { return b; });
    case ir::Combine::sum: return f([](W a, W b) { return wrapping(a, b, std::plus<>()); });
    case ir::Combine::prod: return f([](W a, W b) { return wrapping(a, b, std::multiplies<>()); });
    case ir::Combine::max: return f([](W a, W b) { return larger(a, b); });
    case ir::Combine::min: return f([](W a, W b) { return smaller(a, b); });
    case ir::Combine::bitwise_and:
      if constexpr (!is_real<W>) return f([](W a, W b) -> W { return a & b; });
      break;
    case ir::Combine::bitwise_or:
      if constexpr (!is_real<W>) return f([](W a, W b) -> W { return a | b; });
      break;
  }
  throw Error(ErrorKind::kDType, std::string(ir::kCombineNames[static_cast<int>(kind)]),
              "floats have no bitwise combination");
}

// The value that changes nothing: of an empty reduction, of padding. f8e4m3fn has no infinity, so its
// extremes are the largest finite numbers.
template <class W>
W identity(ir::Combine kind, DType dtype) {
  const auto extreme = [&](bool lowest) -> W {
    if constexpr (is_real<W>) {
      const double most = dtype == DType::f8e4m3fn ? 448.0 : std::numeric_limits<double>::infinity();
      return lowest ? -most : most;
    } else {
      const int bits = dtype == DType::boolean ? 1 : static_cast<int>(8 * size_of(dtype));
      const W highest = static_cast<W>(~std::uint64_t{0} >> (64 - bits + (std::is_signed_v<W> ? 1 : 0)));
      return !lowest ? highest : std::is_signed_v<W> ? static_cast<W>(-highest - 1) : W{0};
    }
  };
  switch (kind) {
    case ir::Combine::prod: return 1;
    case ir::Combine::max: return extreme(true);
    case ir::Combine::min: return extreme(false);
    case ir::Combine::bitwise_and: return static_cast<W>(-1);
    case ir::Combine::set:
    case ir::Combine::sum:
    case ir::Combine::bitwise_or: break;
  }
  return 0;
}

}  // namespace systole::eval
