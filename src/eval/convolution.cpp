// convolution as one matrix product per group: rows are the result's positions, the depth runs over kernel
// positions and input features, columns are output features. The rows of the left matrix are cut from the
// operand block by block while multiplying, zeros standing for padding and dilation holes.

#include <algorithm>

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

// One spatial axis: sizes of operand, window and result, and how they slide.
struct Axis {
  std::int64_t in, window, out;
  std::int64_t stride, pad_low, operand_dilation, kernel_dilation;
  std::int64_t in_stride;  // of the operand [batch, spatial…, feature], in positions
  // State of a walk: the result's index, the window's index, and the place in the padded, dilated operand
  // where the window starts. Sums wrap for absurd padding; a wrapped place is negative, hence outside as it
  // should be.
  std::int64_t o = 0, k = 0;
  std::uint64_t start = 0;
};

struct Geometry {
  std::vector<Axis> axes;
  std::int64_t positions_in = 1, positions_window = 1, positions_out = 1;

  Geometry(const ConvolutionAttrs& a, const ConvolutionAxes& roles, const Ints& in, const Ints& kernel,
           const Ints& result) {
    for (std::size_t i = 0; i < roles.operand_spatial.size(); ++i)
      axes.push_back({in[static_cast<std::size_t>(roles.operand_spatial[i])],
                      kernel[static_cast<std::size_t>(roles.kernel_spatial[i])],
                      result[static_cast<std::size_t>(roles.result_spatial[i])], entry(a.strides, i, 1),
                      entry(a.pad_low, i, 0), entry(a.operand_dilation, i, 1), entry(a.kernel_dilation, i, 1),
                      1});
    for (std::size_t i = axes.size(); i-- > 0;) {
      axes[i].in_stride = positions_in;
      positions_in *= axes[i].in;
      positions_window *= axes[i].window;
      positions_out *= axes[i].out;
    }
  }

  // Moves to a position of the result and one of the window, both row-major.
  void seek(std::int64_t result_position, std::int64_t window_position) {
    for (std::size_t i = axes.size(); i-- > 0;) {
      Axis& a = axes[i];
      a.o = result_position % a.out;
      a.k = window_position % a.window;
      result_position /= a.out;
      window_position /= a.window;
      a.start = static_cast<std::uint64_t>(a.o) * static_cast<std::uint64_t>(a.stride) -
                static_cast<std::uint64_t>(a.pad_low);
    }
  }
  void next_window_position() {
    for (std::size_t i = axes.size(); i-- > 0;) {
      if (++axes[i].k < axes[i].window) return;
      axes[i].k = 0;
    }
  }
  // The operand's position seen here, or -1 in padding and holes.
  std::int64_t seen() const {
    std::int64_t position = 0;
    for (const Axis& a : axes) {
      const auto k = static_cast<std::uint64_t>(a.k) * static_cast<std::uint64_t>(a.kernel_dilation);
      auto place = static_cast<std::int64_t>(a.start + k);
      if (place < 0) return -1;
      if (a.operand_dilation != 1) {
        if (place % a.operand_dilation != 0) return -1;
        place /= a.operand_dilation;
      }
      if (place >= a.in) return -1;
      position += place * a.in_stride;
    }
    return position;
  }
};

}  // namespace

Literal convolution(const ir::Node& node, const Operands& x) {
  const auto& a = node.as<ConvolutionAttrs>();
  const ConvolutionAxes axes = ir::parse_convolution_layout(a.layout);
  const Ints result_dims = node.types[0].shape.dims();
  const auto at = [](const Ints& dims, std::int64_t i) { return dims[static_cast<std::size_t>(i)]; };
  Geometry g(a, axes, x[0].dims(), x[1].dims(), result_dims);
  const std::int64_t batch = at(result_dims, axes.result_batch),
                     features = at(result_dims, axes.result_feature);
  const std::int64_t inputs = at(x[1].dims(), axes.kernel_input);  // per group
  const std::int64_t all_inputs = at(x[0].dims(), axes.operand_feature);
  const std::int64_t groups = a.feature_groups * a.batch_groups,
                     outputs = features / groups;  // outputs per group

  Ints canonical{batch};  // the result as [batch, spatial…, feature]
  for (const Axis& axis : g.axes) canonical.push_back(axis.out);
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
      PackedMatrix<W> packed(g.positions_window * inputs, outputs);
      std::vector<W> line(static_cast<std::size_t>(outputs));
      for (std::int64_t group = 0; group < groups; ++group) {
        for (std::int64_t r = 0; r < packed.rows(); ++r) {
          load<W>(kernel.dtype(), kernel.bytes() + (r * features + group * outputs) * kernel_size, outputs,
                  line.data());
          packed.set(r, 0, outputs, line.data());
        }
        const std::int64_t first_batch = a.batch_groups > 1 ? group * batch : 0;
        const std::int64_t first_input = a.feature_groups > 1 ? group * inputs : 0;
        const auto fill = [&](std::int64_t first, std::int64_t rows, std::int64_t from, std::int64_t depth,
                              W* block) {
          for (std::int64_t r = first; r < first + rows; ++r) {
            g.seek(r % g.positions_out, from / inputs);
            const std::int64_t image = (first_batch + r / g.positions_out) * g.positions_in;
            for (std::int64_t c = from; c < from + depth; g.next_window_position()) {
              // The run of input features at this window position, cut at the block's edges.
              const std::int64_t feature = c % inputs, n = std::min(inputs - feature, from + depth - c);
              if (const std::int64_t position = g.seen(); position >= 0)
                std::copy_n(operand.data() + (image + position) * all_inputs + first_input + feature, n,
                            block);
              else
                std::fill_n(block, n, W{0});
              block += n;
              c += n;
            }
          }
        };
        matmul<W>(batch * g.positions_out, packed, fill,
                  [&](std::int64_t first, std::int64_t rows, const W* c, std::int64_t stride) {
                    for (std::int64_t r = 0; r < rows; ++r)
                      store<W>(out.dtype(), c + r * stride, outputs,
                               dst + ((first + r) * features + group * outputs) * out_size);
                  });
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
