// convolution as one matrix product per group: rows are the result's positions, the depth runs over kernel
// positions and input features, columns are output features. The rows of the left matrix are cut from the
// operand block by block while multiplying, zeros standing for padding. The holes of a dilated operand are
// left out: results that see the same window positions between holes make a product of their own.

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>
#include <vector>

#include "eval/internal.h"
#include "eval/matmul.h"
#include "eval/strided.h"
#include "eval/wide.h"

namespace systole::eval {

namespace {

using ir::ConvolutionAttrs;
using ir::ConvolutionAxes;

std::int64_t entry(const Ints& list, std::size_t i, std::int64_t otherwise) {
  return list.empty() ? otherwise : list[i];
}

Ints permutation(std::int64_t first, const Ints& spatial, std::int64_t last) {
  Ints out{first};
  for (std::int64_t i : spatial) out.push_back(i);
  out.push_back(last);
  return out;
}

// The kernel as [spatial…, input, output], flipped where asked.
Literal canonical_kernel(const Literal& kernel, const ConvolutionAxes& axes, const Ints& reverse) {
  const Ints dims = kernel.dims(), strides = row_major_strides(dims);
  Ints out_dims, out_strides;
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < axes.kernel_spatial.size(); ++i) {
    const auto axis = static_cast<std::size_t>(axes.kernel_spatial[i]);
    const bool flip = entry(reverse, i, 0) != 0;
    out_dims.push_back(dims[axis]);
    out_strides.push_back(flip ? -strides[axis] : strides[axis]);
    if (flip) offset += (dims[axis] - 1) * strides[axis];
  }
  for (std::int64_t a : {axes.kernel_input, axes.kernel_output}) {
    out_dims.push_back(dims[static_cast<std::size_t>(a)]);
    out_strides.push_back(strides[static_cast<std::size_t>(a)]);
  }
  return rearranged(kernel, out_dims, out_strides, offset);
}

// What some results see along one spatial axis: results first, first + step, … of the axis and the window
// positions that meet elements there, without the holes that a dilated operand has. Result t sees element
// t·stride + u·dilation + start at window position u.
struct Axis {
  std::int64_t in, window, out;
  std::int64_t stride, dilation;
  std::int64_t start;
  std::int64_t result_first, result_step, kernel_first, kernel_step;
};

// The operand's dilation d splits the results of an axis into classes that see the same window positions:
// with o = first + step·t and k = first + step·u, o·stride + k·dilation - low is a multiple of d for all t,
// u.
std::vector<Axis> classes(std::int64_t in, std::int64_t window, std::int64_t out, std::int64_t stride,
                          std::int64_t low, std::int64_t operand_dilation, std::int64_t kernel_dilation) {
  __extension__ using Wide = __int128;  // padding may be any 64-bit number
  const std::int64_t d = operand_dilation, result_step = d / std::gcd(d, stride),
                     kernel_step = d / std::gcd(d, kernel_dilation);
  const auto count = [](std::int64_t size, std::int64_t first, std::int64_t step) {
    return size <= first ? 0 : (size - first - 1) / step + 1;
  };
  std::vector<Axis> result;
  for (std::int64_t o = 0; o < std::min(result_step, out); ++o) {
    const auto place = [&](std::int64_t k) {
      return static_cast<Wide>(o) * stride + static_cast<Wide>(k) * kernel_dilation - low;
    };
    const std::int64_t candidates = std::min(kernel_step, window);
    std::int64_t k = 0;
    while (k < candidates && place(k) % d != 0) ++k;
    result.push_back({in, k == candidates ? 0 : count(window, k, kernel_step), count(out, o, result_step),
                      stride / std::gcd(d, stride), kernel_dilation / std::gcd(d, kernel_dilation),
                      static_cast<std::int64_t>(place(k) / d), o, result_step, k, kernel_step});
  }
  return result;
}

// One class per axis: a convolution without holes.
class View {
 public:
  explicit View(std::vector<Axis> axes) : axes_(std::move(axes)) {
    for (const Axis& axis : axes_) {
      positions_in_ *= axis.in;
      window_ *= axis.window;
      out_ *= axis.out;
    }
    index_.resize(axes_.size());
  }
  std::int64_t positions_in() const { return positions_in_; }
  std::int64_t window() const { return window_; }  // positions
  std::int64_t out() const { return out_; }

  // Where these positions of the view stand among all of the kernel and of the result.
  std::vector<std::int64_t> kernel_positions(const Ints& dims) const {
    return positions(dims, &Axis::window, &Axis::kernel_first, &Axis::kernel_step);
  }
  std::vector<std::int64_t> result_positions(const Ints& dims) const {
    return positions(dims, &Axis::out, &Axis::result_first, &Axis::result_step);
  }

  // Moves to a position of the result and one of the window, both row-major in the view. Sums wrap for absurd
  // padding; a wrapped place is negative, hence outside as it should be.
  void seek(std::int64_t result_position, std::int64_t window_position) {
    for (std::size_t i = axes_.size(); i-- > 0;) {
      const Axis& a = axes_[i];
      const auto t = static_cast<std::uint64_t>(result_position % a.out);
      index_[i] = {window_position % a.window,
                   t * static_cast<std::uint64_t>(a.stride) + static_cast<std::uint64_t>(a.start)};
      result_position /= a.out;
      window_position /= a.window;
    }
  }
  void next_window_position() {
    for (std::size_t i = axes_.size(); i-- > 0;) {
      if (++index_[i].u < axes_[i].window) return;
      index_[i].u = 0;
    }
  }
  // The operand's position seen here, or -1 in padding.
  std::int64_t seen() const {
    std::int64_t position = 0;
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      const auto u = static_cast<std::uint64_t>(index_[i].u) * static_cast<std::uint64_t>(axes_[i].dilation);
      const auto place = static_cast<std::int64_t>(index_[i].start + u);
      if (place < 0 || place >= axes_[i].in) return -1;
      position = position * axes_[i].in + place;
    }
    return position;
  }

 private:
  struct Index {
    std::int64_t u = 0;
    std::uint64_t start = 0;
  };

  std::vector<std::int64_t> positions(const Ints& dims, std::int64_t Axis::* count,
                                      std::int64_t Axis::* first, std::int64_t Axis::* step) const {
    std::vector<std::int64_t> list{0};
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      std::vector<std::int64_t> longer;
      for (std::int64_t before : list)
        for (std::int64_t t = 0; t < axes_[i].*count; ++t)
          longer.push_back(before * dims[i] + axes_[i].*first + t * (axes_[i].*step));
      list = std::move(longer);
    }
    return list;
  }

  std::vector<Axis> axes_;
  std::vector<Index> index_;
  std::int64_t positions_in_ = 1, window_ = 1, out_ = 1;
};

// Every combination of the axes' classes.
std::vector<View> views(const std::vector<std::vector<Axis>>& axes) {
  std::vector<std::vector<Axis>> combinations{{}};
  for (const std::vector<Axis>& choices : axes) {
    std::vector<std::vector<Axis>> longer;
    for (const std::vector<Axis>& before : combinations)
      for (const Axis& axis : choices) {
        longer.push_back(before);
        longer.back().push_back(axis);
      }
    combinations = std::move(longer);
  }
  return {std::make_move_iterator(combinations.begin()), std::make_move_iterator(combinations.end())};
}

}  // namespace

Literal convolution(const ir::Node& node, const Operands& x) {
  const auto& a = node.as<ConvolutionAttrs>();
  const ConvolutionAxes axes = ir::parse_convolution_layout(a.layout);
  const Ints in_dims = x[0].dims(), kernel_dims = x[1].dims(), result_dims = node.types[0].shape.dims();
  const auto at = [](const Ints& dims, std::int64_t i) { return dims[static_cast<std::size_t>(i)]; };
  const std::int64_t batch = at(result_dims, axes.result_batch),
                     features = at(result_dims, axes.result_feature);
  const std::int64_t inputs = at(kernel_dims, axes.kernel_input);  // per group
  const std::int64_t all_inputs = at(in_dims, axes.operand_feature);
  const std::int64_t groups = a.feature_groups * a.batch_groups,
                     outputs = features / groups;  // outputs per group

  Ints canonical{batch}, window_dims, out_dims;  // the result as [batch, spatial…, feature]
  std::vector<std::vector<Axis>> axis_classes;
  std::int64_t positions_out = 1;
  for (std::size_t i = 0; i < axes.result_spatial.size(); ++i) {
    window_dims.push_back(at(kernel_dims, axes.kernel_spatial[i]));
    out_dims.push_back(at(result_dims, axes.result_spatial[i]));
    canonical.push_back(out_dims[i]);
    positions_out *= out_dims[i];
    axis_classes.push_back(classes(at(in_dims, axes.operand_spatial[i]), window_dims[i], out_dims[i],
                                   entry(a.strides, i, 1), entry(a.pad_low, i, 0),
                                   entry(a.operand_dilation, i, 1), entry(a.kernel_dilation, i, 1)));
  }
  canonical.push_back(features);
  Literal out = Literal::uninitialized({node.types[0].dtype, Shape(canonical)});
  const auto out_size = static_cast<std::int64_t>(size_of(out.dtype()));

  if (out.count() != 0)
    visit_ring(out.dtype(), [&]<class W>() {
      std::byte* dst = out.mutable_bytes();
      const std::vector<W> operand = load_all<W>(
          transposed(x[0], permutation(axes.operand_batch, axes.operand_spatial, axes.operand_feature)));
      const Literal kernel = canonical_kernel(x[1], axes, a.reverse);  // [spatial…, input, feature]
      const auto kernel_size = static_cast<std::int64_t>(size_of(kernel.dtype()));
      std::vector<W> line(static_cast<std::size_t>(outputs));
      for (View& view : views(axis_classes)) {
        const std::vector<std::int64_t> window = view.kernel_positions(window_dims),
                                        results = view.result_positions(out_dims);
        PackedMatrix<W> packed(view.window() * inputs, outputs);
        for (std::int64_t group = 0; group < groups; ++group) {
          for (std::int64_t r = 0; r < packed.rows(); ++r) {
            const std::int64_t row = window[static_cast<std::size_t>(r / inputs)] * inputs + r % inputs;
            load<W>(kernel.dtype(), kernel.bytes() + (row * features + group * outputs) * kernel_size,
                    outputs, line.data());
            packed.set_row(r, line.data());
          }
          const std::int64_t first_batch = a.batch_groups > 1 ? group * batch : 0;
          const std::int64_t first_input = a.feature_groups > 1 ? group * inputs : 0;
          const auto fill = [&](std::int64_t first, std::int64_t rows, std::int64_t from, std::int64_t depth,
                                W* rows_of_block, std::int64_t stride) {
            for (std::int64_t r = first; r < first + rows; ++r, rows_of_block += stride) {
              W* block = rows_of_block;
              view.seek(r % view.out(), from / inputs);
              const std::int64_t image = (first_batch + r / view.out()) * view.positions_in();
              for (std::int64_t c = from; c < from + depth; view.next_window_position()) {
                // The run of input features at this window position, cut at the block's edges.
                const std::int64_t feature = c % inputs, n = std::min(inputs - feature, from + depth - c);
                if (const std::int64_t position = view.seen(); position >= 0)
                  std::copy_n(operand.data() + (image + position) * all_inputs + first_input + feature, n,
                              block);
                else
                  std::fill_n(block, n, W{0});
                block += n;
                c += n;
              }
            }
          };
          const auto write = [&](std::int64_t row, std::int64_t rows, std::int64_t column,
                                 std::int64_t columns, const W* c, std::int64_t stride) {
            for (std::int64_t r = 0; r < rows; ++r) {
              const std::int64_t image = (row + r) / view.out() * positions_out,
                                 place = image + results[static_cast<std::size_t>((row + r) % view.out())];
              store<W>(out.dtype(), c + r * stride, columns,
                       dst + (place * features + group * outputs + column) * out_size);
            }
          };
          matmul<W>(batch * view.out(), packed, fill, write);
        }
      }
    });

  // From [batch, spatial…, feature] to the layout asked for.
  Ints back(canonical.size(), 0);
  const Ints order = permutation(axes.result_batch, axes.result_spatial, axes.result_feature);
  for (std::size_t i = 0; i < order.size(); ++i)
    back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  return transposed(out, back);
}

}  // namespace systole::eval
