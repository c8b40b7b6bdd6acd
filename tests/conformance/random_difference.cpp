#include <fmt/format.h>

#include <cmath>

#include "compare.h"
#include "random_graph.h"

namespace systole::conformance {

std::string difference(const Literal& got, const Literal& want, double allowed) {
  if (!(got.type() == want.type()))
    return fmt::format("want {}, got {}", want.type().to_string(), got.type().to_string());
  if (!is_float(got.dtype()))
    return got.same_bits(want) ? "" : fmt::format("want {}, got {}", want.to_string(), got.to_string());
  const std::vector<double> a = got.to_doubles(), b = want.to_doubles();
  allowed += smallest_denormal(got.dtype());
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(a[i] - b[i]) <= allowed) && !(std::isnan(a[i]) && std::isnan(b[i])) && a[i] != b[i])
      return fmt::format("element {} of {}: want {}, got {}, allowed {}", i, got.type().to_string(), b[i],
                         a[i], allowed);
  return {};
}

}  // namespace systole::conformance
