// dot_general: both operands are seen as [batch, m, k] and [batch, k, n] by strides, then multiplied in
// double or, for integers, modulo 2^64, and rounded or wrapped once.

#include <algorithm>
#include <optional>

#include "eval/internal.h"
#include "eval/matmul.h"
#include "eval/strided.h"
#include "eval/wide.h"

namespace systole::eval {

namespace {

Ints free_axes(int rank, const Ints& batch, const Ints& contract) {
  Ints axes;
  for (std::int64_t i = 0; i < rank; ++i)
    if (std::find(batch.begin(), batch.end(), i) == batch.end() &&
        std::find(contract.begin(), contract.end(), i) == contract.end())
      axes.push_back(i);
  return axes;
}

// Axes that are walked as one: their elements lie `stride` apart.
struct Line {
  std::int64_t size = 1, stride = 1;
};

std::optional<Line> line_along(const Ints& dims, const Ints& strides, const Ints& axes) {
  Line line;
  bool started = false;
  for (std::int64_t axis : axes) {
    const auto i = static_cast<std::size_t>(axis);
    if (dims[i] == 1) continue;
    if (started && line.stride != strides[i] * dims[i]) return std::nullopt;
    line.size *= dims[i];
    line.stride = strides[i];
    started = true;
  }
  return line;
}

// An operand as [batch, rows, columns]. It is rearranged only when some of these is no even walk.
struct Matrices {
  Literal data;
  Line batch, rows, columns;

  Matrices(const Literal& x, const Ints& batch_axes, const Ints& row_axes, const Ints& column_axes)
      : data(x) {
    const Ints dims = x.dims(), strides = row_major_strides(dims);
    const auto b = line_along(dims, strides, batch_axes), r = line_along(dims, strides, row_axes),
               c = line_along(dims, strides, column_axes);
    if (b && r && c) {
      batch = *b;
      rows = *r;
      columns = *c;
      return;
    }
    Ints order = batch_axes;
    for (std::int64_t i : row_axes) order.push_back(i);
    for (std::int64_t i : column_axes) order.push_back(i);
    const auto size = [&](const Ints& axes) {
      std::int64_t n = 1;
      for (std::int64_t i : axes) n *= dims[static_cast<std::size_t>(i)];
      return n;
    };
    data = transposed(x, order);
    columns = {size(column_axes), 1};
    rows = {size(row_axes), columns.size};
    batch = {size(batch_axes), rows.size * columns.size};
  }

  // Widens row `row` of matrix `i` from column `first` on.
  template <class W>
  void load_row(std::int64_t i, std::int64_t row, std::int64_t first, std::int64_t n, W* out) const {
    load_line<W>(i * batch.stride + row * rows.stride + first * columns.stride, columns.stride, n, out);
  }
  template <class W>
  void load_column(std::int64_t i, std::int64_t column, std::int64_t first, std::int64_t n, W* out) const {
    load_line<W>(i * batch.stride + column * columns.stride + first * rows.stride, rows.stride, n, out);
  }

 private:
  template <class W>
  void load_line(std::int64_t offset, std::int64_t stride, std::int64_t n, W* out) const {
    load_strided<W>(data.dtype(), data.bytes() + offset * static_cast<std::int64_t>(size_of(data.dtype())),
                    stride, n, out);
  }
};

// B is packed along whichever of its axes lies dense in memory.
template <class W>
void pack(const Matrices& b, std::int64_t i, PackedMatrix<W>& packed) {
  const std::int64_t k = packed.rows(), n = packed.columns();
  constexpr std::int64_t kRows = 64;
  W lines[kPanel * kRows];
  const bool by_columns = b.rows.stride < b.columns.stride;
  for (std::int64_t column = 0; column < n; column += kPanel) {
    const std::int64_t width = std::min(kPanel, n - column);
    if (!by_columns) {
      for (std::int64_t r = 0; r < k; ++r) {
        W* panel = packed.panel(column, r);
        b.load_row<W>(i, r, column, width, panel);
        std::fill(panel + width, panel + kPanel, W{0});
      }
      continue;
    }
    for (std::int64_t first = 0; first < k; first += kRows) {
      const std::int64_t rows = std::min(kRows, k - first);
      for (std::int64_t j = 0; j < kPanel; ++j) {
        if (j < width)
          b.load_column<W>(i, column + j, first, rows, lines + j * kRows);
        else
          std::fill_n(lines + j * kRows, rows, W{0});
      }
      W* panel = packed.panel(column, first);
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t j = 0; j < kPanel; ++j) panel[r * kPanel + j] = lines[j * kRows + r];
    }
  }
}

}  // namespace

Literal dot_general(const ir::Node& node, const Operands& x) {
  const auto& d = node.as<ir::DotAttrs>();
  Literal out = Literal::uninitialized(node.types[0]);
  if (out.count() == 0) return out;
  const Matrices a(x[0], d.a_batch, free_axes(x[0].rank(), d.a_batch, d.a_contract), d.a_contract);
  const Matrices b(x[1], d.b_batch, d.b_contract, free_axes(x[1].rank(), d.b_batch, d.b_contract));
  const std::int64_t m = a.rows.size, k = a.columns.size, n = b.columns.size;
  const auto out_size = static_cast<std::int64_t>(size_of(out.dtype()));
  std::byte* dst = out.mutable_bytes();

  visit_ring(out.dtype(), [&]<class W>() {
    PackedMatrix<W> packed(k, n);
    for (std::int64_t i = 0; i < a.batch.size; ++i) {
      pack<W>(b, i, packed);
      const auto fill = [&](std::int64_t first, std::int64_t rows, std::int64_t at, std::int64_t depth,
                            W* block, std::int64_t stride) {
        if (a.rows.stride >= a.columns.stride) {
          for (std::int64_t r = 0; r < rows; ++r) a.load_row<W>(i, first + r, at, depth, block + r * stride);
          return;
        }
        W line[kRowBlock];
        for (std::int64_t c = 0; c < depth; ++c) {
          a.load_column<W>(i, at + c, first, rows, line);
          for (std::int64_t r = 0; r < rows; ++r) block[r * stride + c] = line[r];
        }
      };
      matmul<W>(m, packed, fill,
                [&](std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns,
                    const W* c, std::int64_t stride) {
                  for (std::int64_t r = 0; r < rows; ++r)
                    store<W>(out.dtype(), c + r * stride, columns,
                             dst + ((i * m + row + r) * n + column) * out_size);
                });
    }
  });
  return out;
}

}  // namespace systole::eval
