#include "eval/strided.h"

namespace systole::eval {

void copy(const Ints& dims, const SourceView& from, const TargetView& to, std::size_t element_bytes) {
  visit_size(element_bytes, [&]<class U>() {
    for_each_run<2>(dims, {from.strides, to.strides}, {from.offset, to.offset},
                    [&](auto offset, std::int64_t n, auto step) {
                      copy_run<U>(from.data, offset[0], step[0], to.data, offset[1], step[1], n);
                    });
  });
}

SourceView view_of(const Literal& x) { return {x.bytes(), 0, row_major_strides(x.dims())}; }

Literal rearranged(const Literal& x, const Ints& dims, const Ints& strides, std::int64_t offset) {
  Literal out = Literal::uninitialized({x.dtype(), Shape(dims)});
  copy(dims, {x.bytes(), offset, strides}, {out.mutable_bytes(), 0, row_major_strides(dims)},
       size_of(x.dtype()));
  return out;
}

Literal transposed(const Literal& x, const Ints& permutation) {
  const Ints dims = x.dims(), strides = row_major_strides(dims);
  Ints out_dims, out_strides;
  bool moves = false;
  for (std::size_t i = 0; i < permutation.size(); ++i) {
    const auto from = static_cast<std::size_t>(permutation[i]);
    out_dims.push_back(dims[from]);
    out_strides.push_back(strides[from]);
    moves |= from != i;
  }
  return moves ? rearranged(x, out_dims, out_strides) : x;
}

}  // namespace systole::eval
