#pragma once

// What the kernels of single primitives share: operands and results in memory, indices as text.

#include <algorithm>
#include <optional>

#include "codegen/kernel_parts.h"

namespace systole::codegen {

class SpecialKernel {
 public:
  SpecialKernel(const lower::Step& step, const std::string& name, Dialect dialect)
      : graph_(step.region.graph),
        node_(graph_.node(step.region.anchor)),
        dialect_(dialect),
        function_(step, name, dialect),
        w_(function_.writer()) {}

 protected:
  const Shape& shape(std::size_t operand) const { return graph_.type(node_.operands[operand]).shape; }
  DType dtype() const { return node_.types[0].dtype; }
  std::string element(std::size_t operand, const std::string& place) {
    return function_.elements().loaded(node_.operands[operand], place);
  }
  void store(const std::string& place, const std::string& value, std::size_t output = 0) {
    // A place that is text is a variable of unknown range.
    function_.elements().store(function_.output(output), Index::variable(place, INT64_MAX),
                               node_.types[output].dtype, value);
  }
  std::size_t position(std::size_t operand) const {
    return static_cast<std::size_t>(
        std::find(graph_.inputs().begin(), graph_.inputs().end(), node_.operands[operand].node) -
        graph_.inputs().begin());
  }
  void open_items() { w_.open("for (s_index item = begin; item < end; item += S_STEP)"); }

  // The lines along an axis: item → the place of its first element.
  struct Lines {
    std::int64_t count, length, stride;
    std::string first;
  };
  static Lines lines(const Shape& x, std::int64_t axis) {
    const auto at = static_cast<std::size_t>(axis);
    std::int64_t stride = 1;
    for (std::size_t i = at + 1; i < x.size(); ++i) stride *= x[i].value();
    const std::int64_t length = x[at].value();
    return {length == 0 ? 0 : x.count() / length, length, stride,
            fmt::format("item / {0} * {1} + item % {0}", std::max<std::int64_t>(stride, 1), stride * length)};
  }

  const ir::Graph& graph_;
  const ir::Node& node_;
  const Dialect dialect_;
  Function function_;
  Writer& w_;
};

// Element y of the result reads x = y·stride + k·dilation - low for k below `window`, where the operand's
// elements have `holes`-1 others between them.
struct WindowAxis {
  std::int64_t x, y, window, stride, dilation, low, holes;

  std::int64_t last() const { return (x - 1) * holes; }
  bool is_inside() const {  // whatever y and k are
    return low <= 0 && (y - 1) * stride + (window - 1) * dilation - low <= last() && holes == 1;
  }
  bool is_plain() const { return window == 1 && stride == 1 && low == 0 && holes == 1 && x == y; }
  // Whether places, those in the padding too, may need more than 32 bits.
  bool is_far() const {
    constexpr std::int64_t kFar = std::int64_t{1} << 28;
    return stride > kFar / std::max<std::int64_t>(y, 1) || dilation > kFar / window || low > kFar ||
           low < -kFar || holes > kFar / std::max<std::int64_t>(x, 1);
  }
};

// Neighbours that are plain are one; the last has no holes.
std::vector<WindowAxis> window_axes(const ir::WindowAttrs& a, const Shape& x, const Shape& y);
// Opens loops over the places of a window along the first axes, k0, …, and leaves out those that are no
// element of the operand: x0, … are declared as `index`, from the result's y0, …. Each loop has `unrolled`
// before it.
struct WindowPlaces {
  std::string place;  // of the operand's elements, as far as these axes decide it
  int open;           // blocks
};
WindowPlaces open_places(Writer& w, const std::vector<WindowAxis>& axes, std::size_t count,
                         std::string_view index, std::string_view unrolled = {});

Kernel window_kernel(const lower::Step& step, const std::string& name);  // in C
// sort and top_k; cholesky and triangular_solve.
Kernel order_kernel(const lower::Step& step, const std::string& name, Dialect dialect);
Kernel triangle_kernel(const lower::Step& step, const std::string& name, Dialect dialect);

}  // namespace systole::codegen
