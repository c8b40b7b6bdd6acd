#pragma once

// C[m, n] = A[m, k] · B[k, n] in a wide ring (double or uint64), the one loop nest under dot_general and
// convolution. B is packed into panels of four columns; A is asked for in blocks and C handed out in blocks
// of rows, so neither needs to exist whole in the wide type. Each element of C is a sum in order of k.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace systole::eval {

inline constexpr std::int64_t kPanel = 4;      // columns of a panel, and rows computed together
inline constexpr std::int64_t kRowBlock = 64;  // rows of A and C held at a time
inline constexpr std::int64_t kDepthBlock = 256;

inline std::int64_t round_up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; }

template <class W>
class PackedMatrix {
 public:
  PackedMatrix(std::int64_t rows, std::int64_t columns)
      : rows_(rows), columns_(columns), data_(static_cast<std::size_t>(rows * round_up(columns, kPanel))) {}

  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  const W* panel(std::int64_t first_column, std::int64_t row) const {
    return data_.data() + first_column * rows_ + row * kPanel;
  }
  // Sets columns [first, first + n) of a row.
  void set(std::int64_t row, std::int64_t first, std::int64_t n, const W* values) {
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t column = first + i;
      data_[static_cast<std::size_t>((column / kPanel * rows_ + row) * kPanel + column % kPanel)] = values[i];
    }
  }

 private:
  std::int64_t rows_, columns_;
  std::vector<W> data_;  // [columns / 4, rows, 4], zeros beyond the last column
};

// c[4, 4] += a[4, depth] · panel[depth, 4]; the strides are those of rows.
template <class W>
inline void multiply_tile(std::int64_t depth, const W* a, std::int64_t a_stride, const W* panel, W* c,
                          std::int64_t c_stride) {
  typedef W Pair __attribute__((vector_size(2 * sizeof(W)), aligned(sizeof(W)), may_alias));
  Pair low[kPanel] = {}, high[kPanel] = {};
  for (std::int64_t k = 0; k < depth; ++k) {
    const Pair b_low = *reinterpret_cast<const Pair*>(panel + k * kPanel);
    const Pair b_high = *reinterpret_cast<const Pair*>(panel + k * kPanel + 2);
#pragma GCC unroll 4
    for (int r = 0; r < kPanel; ++r) {
      const W v = a[r * a_stride + k];
      low[r] += v * b_low;
      high[r] += v * b_high;
    }
  }
  for (int r = 0; r < kPanel; ++r)
    for (int i = 0; i < 2; ++i) {
      c[r * c_stride + i] += low[r][i];
      c[r * c_stride + 2 + i] += high[r][i];
    }
}

// fill(first_row, rows, first_k, depth, W* block) writes A's block, rows `depth` apart; write(first_row,
// rows, const W* c, stride) takes rows of C.
template <class W, class Fill, class Write>
void matmul(std::int64_t m, const PackedMatrix<W>& b, Fill&& fill, Write&& write) {
  const std::int64_t n = b.columns(), stride = round_up(n, kPanel);
  const std::int64_t most_rows = std::min(kRowBlock, round_up(m, kPanel)),
                     most_depth = std::min(kDepthBlock, b.rows());
  std::vector<W> a(static_cast<std::size_t>(most_rows * most_depth)),
      c(static_cast<std::size_t>(most_rows * stride));
  for (std::int64_t row = 0; row < m; row += kRowBlock) {
    const std::int64_t rows = std::min(kRowBlock, m - row);
    std::fill(c.begin(), c.end(), W{0});
    for (std::int64_t k = 0; k < b.rows(); k += kDepthBlock) {
      const std::int64_t depth = std::min(kDepthBlock, b.rows() - k);
      fill(row, rows, k, depth,
           a.data());  // rows of the last tile that are not there compute what nobody reads
      for (std::int64_t column = 0; column < n; column += kPanel)
        for (std::int64_t r = 0; r < rows; r += kPanel)
          multiply_tile(depth, a.data() + r * depth, depth, b.panel(column, k),
                        c.data() + r * stride + column, stride);
    }
    write(row, rows, c.data(), stride);
  }
}

}  // namespace systole::eval
