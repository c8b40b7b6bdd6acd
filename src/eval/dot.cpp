// dot_general: both operands are brought to [batch, m, k] and [batch, k, n], then multiplied in double or,
// for integers, modulo 2^64, and rounded or wrapped once.

#include <algorithm>

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

Ints joined_axes(const Ints& a, const Ints& b, const Ints& c) {
  Ints out = a;
  for (std::int64_t i : b) out.push_back(i);
  for (std::int64_t i : c) out.push_back(i);
  return out;
}

std::int64_t size_along(const Literal& x, const Ints& axes) {
  const Ints dims = x.dims();
  std::int64_t n = 1;
  for (std::int64_t i : axes) n *= dims[static_cast<std::size_t>(i)];
  return n;
}

}  // namespace

Literal dot_general(const ir::Node& node, const Operands& x) {
  const auto& d = node.as<ir::DotAttrs>();
  Literal out = Literal::uninitialized(node.types[0]);
  if (out.count() == 0) return out;
  const Ints a_free = free_axes(x[0].rank(), d.a_batch, d.a_contract);
  const Ints b_free = free_axes(x[1].rank(), d.b_batch, d.b_contract);
  const std::int64_t batch = size_along(x[0], d.a_batch), m = size_along(x[0], a_free);
  const std::int64_t k = size_along(x[0], d.a_contract), n = size_along(x[1], b_free);
  const Literal a = transposed(x[0], joined_axes(d.a_batch, a_free, d.a_contract));  // [batch, m, k]
  const Literal b = transposed(x[1], joined_axes(d.b_batch, d.b_contract, b_free));  // [batch, k, n]
  const auto a_size = static_cast<std::int64_t>(size_of(a.dtype())),
             b_size = static_cast<std::int64_t>(size_of(b.dtype()));
  const auto out_size = static_cast<std::int64_t>(size_of(out.dtype()));
  std::byte* dst = out.mutable_bytes();

  visit_ring(out.dtype(), [&]<class W>() {
    PackedMatrix<W> packed(k, n);
    std::vector<W> row(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < batch; ++i) {
      for (std::int64_t r = 0; r < k; ++r) {
        load<W>(b.dtype(), b.bytes() + (i * k + r) * n * b_size, n, row.data());
        packed.set(r, 0, n, row.data());
      }
      const auto fill = [&](std::int64_t first, std::int64_t rows, std::int64_t at, std::int64_t depth,
                            W* block) {
        for (std::int64_t r = 0; r < rows; ++r)
          load<W>(a.dtype(), a.bytes() + ((i * m + first + r) * k + at) * a_size, depth, block + r * depth);
      };
      matmul<W>(m, packed, fill, [&](std::int64_t first, std::int64_t rows, const W* c, std::int64_t stride) {
        for (std::int64_t r = 0; r < rows; ++r)
          store<W>(out.dtype(), c + r * stride, n, dst + (i * m + first + r) * n * out_size);
      });
    }
  });
  return out;
}

}  // namespace systole::eval
