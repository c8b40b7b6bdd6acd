#include "compare.h"

#include <fmt/format.h>
#include <cmath>
#include <cstring>
#include <limits>

namespace systole::conformance {

namespace {

constexpr int kMostDifferences = 3;

double rounded(double value, DType dtype) { return Literal::full({dtype, {}}, value).to_doubles()[0]; }

// What a flushing device takes for zero. Narrower floats than these are computed in f32, where their
// denormals are not.
bool is_flushed(double value, DType dtype) {
  const double least_normal = dtype == DType::f64 ? std::numeric_limits<double>::min()
                              : dtype == DType::f32 || dtype == DType::bf16
                                  ? std::numeric_limits<float>::min()
                                  : 0;
  return value != 0 && std::abs(value) < least_normal;
}

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

// Elements with their numbers where they are floats.
struct Elements {
  explicit Elements(const Literal& elements) : literal(elements), size(size_of(elements.dtype())) {
    if (is_float(elements.dtype())) numbers = elements.to_doubles();
  }
  const std::byte* at(std::size_t i) const { return literal.bytes() + i * size; }

  const Literal& literal;
  std::size_t size;
  std::vector<double> numbers;
};

bool same_element(const Elements& got, const Elements& want, std::size_t i, const Rule& rule) {
  if (std::memcmp(got.at(i), want.at(i), got.size) == 0) return true;
  if (got.numbers.empty()) return false;
  const double a = got.numbers[i], b = want.numbers[i];
  if (rule.nans_are_equal && std::isnan(a) && std::isnan(b)) return true;
  if (a != 0) return false;
  return rule.flushed && is_flushed(b, got.literal.dtype()) ? std::signbit(a) == std::signbit(b)
                                                            : rule.zeros_are_equal && b == 0;
}

std::string compare_exact(const Literal& result, const Literal& expected, const Rule& rule) {
  if (result.same_bits(expected)) return {};
  Differences differences(result);
  const Elements got(result), want(expected), flushed(rule.flushed ? *rule.flushed : expected);
  for (std::int64_t i = 0; i < result.count(); ++i)
    if (const auto at = static_cast<std::size_t>(i);
        !same_element(got, want, at, rule) && !same_element(got, flushed, at, rule))
      differences.add(i, element_text(expected, i), "0 (every bit)");
  return differences.text();
}

std::string compare_close(const Literal& got, const Expected& expected, DType dtype, const Rule& rule) {
  Differences differences(got);
  const double unit = rule.tolerance * epsilon(dtype), least = smallest_denormal(dtype);
  const std::vector<double> a = got.to_doubles(), b = expected.value.to_doubles(),
                            flushed = rule.flushed ? rule.flushed->to_doubles() : b;
  const std::vector<double> scales = expected.scale ? expected.scale->to_doubles() : std::vector<double>();
  const auto allowed = [&](std::size_t i, double want) {
    const double scale = scales.empty() ? std::abs(want) : scales[i];
    return (std::isfinite(scale) ? unit * scale : 0) + least;
  };
  const auto meets = [&](std::size_t i, double want) {
    return close(a[i], want, allowed(i, want), dtype) ||
           (rule.flushed && a[i] == 0 && is_flushed(want, dtype));
  };
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!meets(i, b[i]) && !meets(i, flushed[i]))
      differences.add(static_cast<std::int64_t>(i), fmt::format("{}", b[i]),
                      fmt::format("{}", allowed(i, b[i])));
  return differences.text();
}

}  // namespace

double smallest_denormal(DType dtype) {
  Literal one(Type{dtype, {}});
  one.mutable_bytes()[0] = std::byte{1};
  return one.to_doubles()[0];
}

Literal without_denormals(const Literal& value) {
  if (!is_float(value.dtype())) return value;
  Literal out = value;
  const std::vector<double> numbers = value.to_doubles();
  const std::size_t size = size_of(value.dtype());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (!is_flushed(numbers[i], value.dtype())) continue;
    const Literal zero = Literal::full({value.dtype(), {}}, std::copysign(0.0, numbers[i]));
    std::memcpy(out.mutable_bytes() + i * size, zero.bytes(), size);
  }
  return out;
}

std::string compare(const Literal& got, const Type& type, const Expected& expected, const Rule& rule) {
  if (!(got.type() == type))
    return fmt::format("\n  want {}, got {}", type.to_string(), got.type().to_string());
  const Type& stored = expected.value.type();
  if (!(stored.shape == type.shape) || (expected.exact && stored.dtype != type.dtype))
    return fmt::format("\n  the fixture holds {} for {}", stored.to_string(), type.to_string());
  if (rule.flushed && !(rule.flushed->type() == type))
    return fmt::format("\n  flushed is {} for {}", rule.flushed->type().to_string(), type.to_string());
  return expected.exact ? compare_exact(got, expected.value, rule)
                        : compare_close(got, expected, type.dtype, rule);
}

}  // namespace systole::conformance
