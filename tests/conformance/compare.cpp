#include "compare.h"

#include <fmt/format.h>
#include <cmath>
#include <cstring>

namespace systole::conformance {

namespace {

constexpr int kMostDifferences = 3;

double rounded(double value, DType dtype) { return Literal::full({dtype, {}}, value).to_doubles()[0]; }

bool close(double got, double want, double allowed, DType dtype) {
  if (std::isnan(want)) return std::isnan(got);
  if (std::isfinite(got)) return std::isfinite(want) && std::abs(got - want) <= allowed;
  // What is out of range, or near enough to its end, rounds to the same infinity or NaN.
  const double edge = rounded(std::copysign(std::abs(want) + allowed, want), dtype);
  return std::isnan(got) ? std::isnan(edge) : got == edge;
}

std::string index_text(std::int64_t flat, const Ints& dims) {
  std::string text;
  for (std::size_t i = dims.size(); i-- > 0;) {
    text = std::to_string(flat % dims[i]) + (text.empty() ? "" : ",") + text;
    flat /= dims[i];
  }
  return "[" + text + "]";
}

// One element as people read it, integers in full.
std::string element_text(const Literal& value, std::int64_t flat) {
  const std::size_t size = size_of(value.dtype());
  const auto bytes = value.as_bytes().subspan(static_cast<std::size_t>(flat) * size, size);
  const Literal element = Literal::copy_of({value.dtype(), {}}, bytes);
  return is_float(value.dtype()) ? fmt::format("{}", element.to_doubles()[0]) : element.to_string();
}

class Differences {
 public:
  explicit Differences(const Literal& got) : got_(got) {}

  void add(std::int64_t flat, const std::string& want, const std::string& allowed) {
    if (++count_ <= kMostDifferences)
      text_ += fmt::format("\n  at {} of {}: want {}, got {}, allowed {}", index_text(flat, got_.dims()),
                           got_.type().to_string(), want, element_text(got_, flat), allowed);
  }
  std::string text() const {
    return count_ > kMostDifferences ? text_ + fmt::format("\n  and {} more", count_ - kMostDifferences)
                                     : text_;
  }

 private:
  const Literal& got_;
  std::string text_;
  std::int64_t count_ = 0;
};

std::string compare_exact(const Literal& got, const Literal& want, const Rule& rule) {
  Differences differences(got);
  if (got.same_bits(want)) return {};
  const std::size_t size = size_of(got.dtype());
  const bool floats = is_float(got.dtype());
  const std::vector<double> a = floats ? got.to_doubles() : std::vector<double>();
  const std::vector<double> b = floats ? want.to_doubles() : std::vector<double>();
  for (std::int64_t i = 0; i < got.count(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (std::memcmp(got.bytes() + at * size, want.bytes() + at * size, size) == 0) continue;
    if (floats && rule.nans_are_equal && std::isnan(a[at]) && std::isnan(b[at])) continue;
    if (floats && rule.zeros_are_equal && a[at] == 0 && b[at] == 0) continue;
    differences.add(i, element_text(want, i), "0 (every bit)");
  }
  return differences.text();
}

std::string compare_close(const Literal& got, const Expected& expected, DType dtype, double tolerance) {
  Differences differences(got);
  const double unit = tolerance * epsilon(dtype), least = smallest_denormal(dtype);
  const std::vector<double> a = got.to_doubles(), b = expected.value.to_doubles();
  const std::vector<double> scales = expected.scale ? expected.scale->to_doubles() : std::vector<double>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double scale = scales.empty() ? std::abs(b[i]) : scales[i];
    const double allowed = (std::isfinite(scale) ? unit * scale : 0) + least;
    if (!close(a[i], b[i], allowed, dtype))
      differences.add(static_cast<std::int64_t>(i), fmt::format("{}", b[i]), fmt::format("{}", allowed));
  }
  return differences.text();
}

}  // namespace

double smallest_denormal(DType dtype) {
  Literal one(Type{dtype, {}});
  one.mutable_bytes()[0] = std::byte{1};
  return one.to_doubles()[0];
}

std::string compare(const Literal& got, const Type& type, const Expected& expected, const Rule& rule) {
  if (!(got.type() == type))
    return fmt::format("\n  want {}, got {}", type.to_string(), got.type().to_string());
  const Type& stored = expected.value.type();
  if (!(stored.shape == type.shape) || (expected.exact && stored.dtype != type.dtype))
    return fmt::format("\n  the fixture holds {} for {}", stored.to_string(), type.to_string());
  return expected.exact ? compare_exact(got, expected.value, rule)
                        : compare_close(got, expected, type.dtype, rule.tolerance);
}

}  // namespace systole::conformance
