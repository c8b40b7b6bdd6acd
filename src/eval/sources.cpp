// iota, dimension and random_bits. Constants need no evaluation and inputs are arguments.

#include <algorithm>

#include "eval/internal.h"
#include "eval/philox.h"
#include "eval/strided.h"
#include "eval/wide.h"

namespace systole::eval {

Literal iota(const ir::Node& node) {
  const auto& a = node.as<ir::IotaAttrs>();
  Literal out = Literal::uninitialized(node.types[0]);
  if (out.count() == 0) return out;
  const Ints dims = out.dims();
  const auto axis = static_cast<std::size_t>(a.axis);

  // The values along the axis, once; all other axes repeat them.
  Literal line = Literal::uninitialized({a.dtype, {dims[axis]}});
  std::byte* dst = line.mutable_bytes();
  const auto bytes = static_cast<std::int64_t>(size_of(a.dtype));
  std::int64_t buffer[kChunk];
  for (std::int64_t first = 0; first < dims[axis]; first += kChunk) {
    const std::int64_t n = std::min(kChunk, dims[axis] - first);
    for (std::int64_t i = 0; i < n; ++i) buffer[i] = first + i;
    store_converted<std::int64_t>(a.dtype, buffer, n, dst + first * bytes);
  }
  Ints strides(dims.size(), 0);
  strides[axis] = 1;
  copy(dims, {line.bytes(), 0, strides}, {out.mutable_bytes(), 0, row_major_strides(dims)}, size_of(a.dtype));
  return out;
}

Literal dimension(const ir::Node& node) {
  const auto& a = node.as<ir::DimensionAttrs>();
  if (!a.dim.is_static())
    throw Error(ErrorKind::kShape, "dimension", "a symbol has no value yet", "a number", a.dim.to_string());
  Literal out = Literal::uninitialized(node.types[0]);
  const std::int64_t value = a.dim.value();
  store_converted<std::int64_t>(a.dtype, &value, 1, out.mutable_bytes());
  return out;
}

Literal random_bits(const ir::Node& node, const Operands& x) {
  const PhiloxKey key{read<std::uint32_t>(x[0].bytes()), read<std::uint32_t>(x[0].bytes() + 4)};
  Literal out = Literal::uninitialized(node.types[0]);
  std::byte* dst = out.mutable_bytes();
  visit_dtype(out.dtype(), [&]<class T>() {
    constexpr std::int64_t words = sizeof(T) == 8 ? 2 : 1,
                           per_block = 4 / words;  // words per element, elements per block
    for (std::int64_t first = 0; first < out.count(); first += per_block) {
      const auto block = static_cast<std::uint64_t>(first / per_block);
      const PhiloxCounter word =
          philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0}, key);
      const std::int64_t n = std::min(per_block, out.count() - first);
      for (std::int64_t i = 0; i < n; ++i) {
        const auto at = static_cast<std::size_t>(i * words);
        std::uint64_t bits = word[at];
        if constexpr (words == 2) bits |= static_cast<std::uint64_t>(word[at + 1]) << 32;
        if constexpr (std::is_unsigned_v<T> && !std::is_same_v<T, bool>)
          write<T>(dst + (first + i) * static_cast<std::int64_t>(sizeof(T)), static_cast<T>(bits));
      }
    }
  });
  return out;
}

}  // namespace systole::eval
