// Literals for people: nested brackets like numpy, columns aligned, the middle of long axes left out.

#include <charconv>
#include <cmath>
#include <vector>

#include "systole/base/literal.h"

namespace systole {

namespace {

constexpr std::int64_t kEdge = 3;  // elements shown at each end of a shortened axis

std::string element_text(const Literal& value, std::int64_t i) {
  return visit_dtype(value.dtype(), [&]<class T>() -> std::string {
    const T v = value.values<T>()[static_cast<std::size_t>(i)];
    if constexpr (std::is_same_v<T, bool>)
      return v ? "true" : "false";
    else if constexpr (std::is_integral_v<T>)
      return std::to_string(v);
    else {
      const auto x = static_cast<double>(v);
      if (std::isnan(x)) return "nan";
      char buffer[64];
      // Eight digits are what f32 holds; small floats need fewer, f64 shows the same and keeps the rest to
      // itself.
      const int digits = std::is_same_v<T, double> ? 9 : std::is_same_v<T, float> ? 8 : 4;
      const auto end =
          std::to_chars(buffer, buffer + sizeof buffer, x, std::chars_format::general, digits).ptr;
      std::string text(buffer, end);
      if (text.find_first_not_of("-0123456789") == text.npos) text += '.';
      return text;
    }
  });
}

class Printer {
 public:
  Printer(const Literal& value, bool shorten)
      : value_(value), dims_(value.dims()), strides_(row_major_strides(dims_)), shorten_(shorten) {
    walk(0, 0, [&](std::int64_t i) { width_ = std::max(width_, element_text(value_, i).size()); });
  }

  std::string text(std::size_t axis, std::int64_t offset) const {
    if (axis == dims_.size()) {
      const std::string element = element_text(value_, offset);
      return std::string(width_ - element.size(), ' ') + element;
    }
    // Rows stand on lines of their own, matrices apart by a blank one, what holds matrices by two.
    const std::size_t below = dims_.size() - axis - 1;
    const std::string separator =
        below == 0 ? ", " : "," + std::string(below, '\n') + std::string(axis + 1, ' ');
    std::string out = "[";
    bool first = true;
    for_each_shown(dims_[axis], [&](std::int64_t i) {
      if (!first) out += separator;
      first = false;
      out += i < 0 ? "…" : text(axis + 1, offset + i * strides_[axis]);
    });
    return out + "]";
  }

 private:
  template <class F>
  void for_each_shown(std::int64_t size, F&& f) const {
    const bool cut = shorten_ && size > 2 * kEdge;
    for (std::int64_t i = 0; i < (cut ? kEdge : size); ++i) f(i);
    if (!cut) return;
    f(-1);
    for (std::int64_t i = size - kEdge; i < size; ++i) f(i);
  }
  template <class F>
  void walk(std::size_t axis, std::int64_t offset, const F& f) const {
    if (axis == dims_.size()) return f(offset);
    for_each_shown(dims_[axis], [&](std::int64_t i) {
      if (i >= 0) walk(axis + 1, offset + i * strides_[axis], f);
    });
  }

  const Literal& value_;
  Ints dims_, strides_;
  bool shorten_;
  std::size_t width_ = 0;
};

}  // namespace

std::string Literal::to_string(int max_elements) const {
  if (count() == 0) return "[]";
  return Printer(*this, count() > max_elements).text(0, 0);
}

}  // namespace systole
