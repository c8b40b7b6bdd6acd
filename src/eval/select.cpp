// The elementwise ops with rules of their own: select, clamp, convert and bitcast.

#include "eval/chunks.h"
#include "eval/internal.h"

namespace systole::eval {

using ir::Node;

void select(const Node& node, const Operands& x, Slot& result) {
  const bool one_predicate = x[0].rank() == 0 && x.inner(0) == 0;
  if (one_predicate) {
    result = x.take(x[0].bytes()[0] != std::byte{0} ? 1 : 2);
    return;
  }
  Target target(node, x, result);
  Source predicate(x, 0, target), yes(x, 1, target), no(x, 2, target);
  visit_size(size_of(target.dtype()), [&]<class U>() {
    for_each_chunk(target.count(), [&](std::int64_t first, std::int64_t n) {
      const auto* p = reinterpret_cast<const unsigned char*>(predicate.at(first, n));
      const U* a = reinterpret_cast<const U*>(yes.at(first, n));
      const U* b = reinterpret_cast<const U*>(no.at(first, n));
      U* out = reinterpret_cast<U*>(target.bytes()) + first;
      SYSTOLE_INDEPENDENT
      for (std::int64_t i = 0; i < n; ++i) out[i] = p[i] != 0 ? a[i] : b[i];
    });
  });
}

void clamp(const Node& node, const Operands& x, Slot& result) {
  visit_wide(x[1].dtype(), [&]<class W>() {
    Target target(node, x, result);
    Source low = Source::repeated(x, 0, target), high = Source::repeated(x, 2, target);
    Source value(x, 1, target);
    const auto size = static_cast<std::int64_t>(size_of(target.dtype()));
    W buffers[3][kChunk];
    for_each_chunk(target.count(), [&](std::int64_t first, std::int64_t n) {
      const W *lo = low.wide<W>(first, n, buffers[0]), *hi = high.wide<W>(first, n, buffers[1]);
      W* v = buffers[2];
      value.wide<W>(first, n, v);
      for (std::int64_t i = 0; i < n; ++i) v[i] = smaller(larger(v[i], lo[i]), hi[i]);
      store<W>(target.dtype(), v, n, target.bytes() + first * size);
    });
  });
}

void convert(const Node& node, const Operands& x, Slot& result) {
  if (x[0].dtype() == node.types[0].dtype) {
    result = x.take(0);
    return;
  }
  Target target(node, x, result);
  Source in(x, 0, target);
  const auto size = static_cast<std::int64_t>(size_of(target.dtype()));
  visit_wide(in.dtype(), [&]<class W>() {
    W buffer[kChunk];
    for_each_chunk(target.count(), [&](std::int64_t first, std::int64_t n) {
      store_converted<W>(target.dtype(), in.wide<W>(first, n, buffer), n, target.bytes() + first * size);
    });
  });
}

Literal bitcast(const Node& node, const Operands& x) { return x[0].reinterpreted(node.types[0].dtype); }

}  // namespace systole::eval
