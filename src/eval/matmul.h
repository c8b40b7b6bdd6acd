#pragma once

// C[m, n] = A[m, k] · B[k, n] in a wide ring (double or uint64), the one loop nest under dot_general and
// convolution. B is packed into panels of eight columns; A is asked for in blocks and C handed out in blocks
// of rows, so neither needs to exist whole in the wide type. Each element of C is a sum in order of k, with
// the sums of kDepthBlock terms added up.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace systole::eval {

inline constexpr std::int64_t kPanel = 8;      // columns of a panel
inline constexpr std::int64_t kRowTile = 8;    // rows are padded to a multiple of it
inline constexpr std::int64_t kRowBlock = 64;  // rows of A and C held at a time
inline constexpr std::int64_t kDepthBlock = 256;
inline constexpr std::int64_t kColumnBlock = 512;  // columns of C held at a time

inline std::int64_t round_up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; }

// Memory that is written before it is read.
template <class W>
std::unique_ptr<W[]> scratch(std::int64_t count) {
  return std::make_unique_for_overwrite<W[]>(static_cast<std::size_t>(count));
}

template <class W>
class PackedMatrix {
 public:
  PackedMatrix(std::int64_t rows, std::int64_t columns)
      : rows_(rows), columns_(columns), data_(scratch<W>(rows * round_up(columns, kPanel))) {}

  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  // The eight values from `first_column`, a multiple of 8, on; those of the next row follow. Whoever packs
  // writes zeros beyond the last column.
  W* panel(std::int64_t first_column, std::int64_t row) {
    return data_.get() + first_column * rows_ + row * kPanel;
  }
  const W* panel(std::int64_t first_column, std::int64_t row) const {
    return data_.get() + first_column * rows_ + row * kPanel;
  }
  // Sets a whole row.
  void set_row(std::int64_t row, const W* values) {
    for (std::int64_t column = 0; column < columns_; column += kPanel) {
      W* p = panel(column, row);
      const std::int64_t n = std::min(kPanel, columns_ - column);
      for (std::int64_t i = 0; i < kPanel; ++i) p[i] = i < n ? values[column + i] : W{0};
    }
  }

 private:
  std::int64_t rows_, columns_;
  std::unique_ptr<W[]> data_;  // [columns / 8, rows, 8]
};

// c[rows, 8] += a[rows, depth] · panel[depth, 8], rows a multiple of kRowTile; the strides are those of rows.
void multiply_panel(std::int64_t rows, std::int64_t depth, const double* a, std::int64_t a_stride,
                    const double* panel, double* c, std::int64_t c_stride);
void multiply_panel(std::int64_t rows, std::int64_t depth, const std::uint64_t* a, std::int64_t a_stride,
                    const std::uint64_t* panel, std::uint64_t* c, std::int64_t c_stride);

// The inner loops for double that this processor runs, fastest first.
using MultiplyPanel = void (*)(std::int64_t rows, std::int64_t depth, const double* a, std::int64_t a_stride,
                               const double* panel, double* c, std::int64_t c_stride);
std::vector<MultiplyPanel> multiply_variants();

// fill(first_row, rows, first_k, depth, W* block, stride) writes A's block, rows `stride` apart;
// write(first_row, rows, first_column, columns, const W* c, stride) takes a block of C.
template <class W, class Fill, class Write>
void matmul(std::int64_t m, const PackedMatrix<W>& b, Fill&& fill, Write&& write) {
  const std::int64_t n = b.columns(), k = b.rows();
  const std::int64_t most_rows = std::min(kRowBlock, round_up(m, kRowTile));
  // A stride that is no power of two keeps the rows of a tile in different sets of the cache.
  const std::int64_t a_stride = std::min(kDepthBlock, k) + 8;
  const std::int64_t c_stride = std::min(kColumnBlock, round_up(n, kPanel));
  std::vector<W> a(static_cast<std::size_t>(most_rows * a_stride));
  const std::unique_ptr<W[]> c = scratch<W>(most_rows * c_stride);
  for (std::int64_t first_column = 0; first_column < n; first_column += kColumnBlock) {
    const std::int64_t columns = std::min(kColumnBlock, n - first_column);
    for (std::int64_t row = 0; row < m; row += kRowBlock) {
      const std::int64_t rows = std::min(kRowBlock, m - row);
      std::fill_n(c.get(), most_rows * c_stride, W{0});
      for (std::int64_t at = 0; at < k; at += kDepthBlock) {
        const std::int64_t depth = std::min(kDepthBlock, k - at);
        fill(row, rows, at, depth, a.data(), a_stride);
        // Rows of the last tile that are not there compute what nobody reads.
        for (std::int64_t column = 0; column < columns; column += kPanel)
          multiply_panel(round_up(rows, kRowTile), depth, a.data(), a_stride,
                         b.panel(first_column + column, at), c.get() + column, c_stride);
      }
      write(row, rows, first_column, columns, c.get(), c_stride);
    }
  }
}

}  // namespace systole::eval
