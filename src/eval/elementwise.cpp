// Elementwise ops. Operands pass through buffers of kChunk wide elements: load, one plain loop, store. The
// functions of the ops of ops.def without attributes stand in functions.h; the switch over them is generated.

#include <algorithm>
#include <type_traits>

#include "eval/functions.h"
#include "eval/internal.h"
#include "eval/wide.h"

#pragma GCC diagnostic error "-Wswitch"

namespace systole::eval {

namespace {

using ir::Node;
using ir::Op;

// The domain a function's value is stored from: bool goes through uint64.
template <class R>
using Stored = std::conditional_t<std::is_same_v<R, bool>, std::uint64_t, R>;

// The domains that a set of dtypes reaches, so that log is not compiled for integers.
struct Domains {
  bool real, signed_int, unsigned_int;
};
constexpr Domains domains(DTypeSet d) {
  return {d.contains(DType::f32), d.contains(DType::i32),
          d.contains(DType::u32) || d.contains(DType::boolean)};
}
template <Domains d, class W>
constexpr bool reaches = is_real<W>            ? d.real
                         : std::is_signed_v<W> ? d.signed_int
                                               : d.unsigned_int;

// One operand as a sequence of chunks; a scalar repeats.
template <class W>
class Chunks {
 public:
  explicit Chunks(const Literal& x, bool repeat = false) : x_(x), repeat_(repeat) {
    if (!repeat_) return;
    load<W>(x.dtype(), x.bytes(), 1, buffer_);
    std::fill(buffer_ + 1, buffer_ + kChunk, buffer_[0]);
  }
  const W* at(std::int64_t first, std::int64_t n) {
    const auto bytes = static_cast<std::int64_t>(size_of(x_.dtype()));
    if (!repeat_) load<W>(x_.dtype(), x_.bytes() + first * bytes, n, buffer_);
    return buffer_;
  }

 private:
  const Literal& x_;
  const bool repeat_;
  W buffer_[kChunk];
};

// Calls fill(first, n, buffer) for the chunks of a literal of this type and stores what it puts in the
// buffer.
template <class W, class Fill>
Literal by_chunks(const Type& type, Fill fill) {
  Literal out = Literal::uninitialized(type);
  std::byte* dst = out.mutable_bytes();
  const auto bytes = static_cast<std::int64_t>(size_of(type.dtype));
  W buffer[kChunk];
  for (std::int64_t first = 0; first < out.count(); first += kChunk) {
    const std::int64_t n = std::min(kChunk, out.count() - first);
    fill(first, n, buffer);
    store<W>(type.dtype, buffer, n, dst + first * bytes);
  }
  return out;
}

[[noreturn]] void refuse_dtype(const Node& node, const Literal& x) {
  throw Error(ErrorKind::kDType, std::string(name(node.op)), "the op does not take this dtype", {},
              std::string(name(x.dtype())));
}

template <Domains d, class F>
Literal map(const Node& node, const Literal& x, F f) {
  return visit_wide(x.dtype(), [&]<class W>() -> Literal {
    if constexpr (!reaches<d, W>) {
      refuse_dtype(node, x);
    } else {
      Chunks<W> a(x);
      return by_chunks<Stored<decltype(f(W{}))>>(node.types[0],
                                                 [&](std::int64_t first, std::int64_t n, auto* out) {
                                                   const W* in = a.at(first, n);
                                                   for (std::int64_t i = 0; i < n; ++i) out[i] = f(in[i]);
                                                 });
    }
  });
}

template <Domains d, class F>
Literal map(const Node& node, const Literal& x, const Literal& y, F f) {
  return visit_wide(x.dtype(), [&]<class W>() -> Literal {
    if constexpr (!reaches<d, W>) {
      refuse_dtype(node, x);
    } else {
      const int width = static_cast<int>(8 * size_of(x.dtype()));
      const auto apply = [f, width](W a, W b) {
        if constexpr (std::is_invocable_v<F, W, W, int>)
          return f(a, b, width);
        else
          return (static_cast<void>(width), f(a, b));
      };
      Chunks<W> a(x), b(y);
      return by_chunks<Stored<decltype(apply(W{}, W{}))>>(
          node.types[0], [&](std::int64_t first, std::int64_t n, auto* out) {
            const W *left = a.at(first, n), *right = b.at(first, n);
            for (std::int64_t i = 0; i < n; ++i) out[i] = apply(left[i], right[i]);
          });
    }
  });
}

}  // namespace

Literal elementwise(const Node& node, const Operands& x) {
  switch (node.op) {
#define SYSTOLE_UNARY(name, dtypes, ...) \
  case Op::name: return map<domains(dtypes)>(node, x[0], functions::name);
#define SYSTOLE_BINARY(name, dtypes, ...) \
  case Op::name: return map<domains(dtypes)>(node, x[0], x[1], functions::name);
#define SYSTOLE_OP(name, ...) \
  case Op::name: break;
#include "systole/ir/ops.def"
  }
  throw Error(ErrorKind::kInternal, std::string(name(node.op)), "not an elementwise op without attributes");
}

Literal select(const Node& node, const Operands& x) {
  const bool one_predicate = x[0].rank() == 0;
  if (one_predicate) return x[0].bytes()[0] != std::byte{0} ? x[1] : x[2];
  Literal out = Literal::uninitialized(node.types[0]);
  const std::byte *p = x[0].bytes(), *a = x[1].bytes(), *b = x[2].bytes();
  std::byte* dst = out.mutable_bytes();
  visit_size(size_of(out.dtype()), [&]<class U>() {
    for (std::int64_t i = 0; i < out.count(); ++i) {
      const std::int64_t at = i * static_cast<std::int64_t>(sizeof(U));
      const U yes = read<U>(a + at), no = read<U>(b + at);
      write<U>(dst + at, p[i] != std::byte{0} ? yes : no);
    }
  });
  return out;
}

Literal clamp(const Node& node, const Operands& x) {
  return visit_wide(x[1].dtype(), [&]<class W>() {
    const bool scalars = x[1].rank() == 0;
    Chunks<W> low(x[0], !scalars && x[0].rank() == 0), value(x[1]), high(x[2], !scalars && x[2].rank() == 0);
    return by_chunks<W>(node.types[0], [&](std::int64_t first, std::int64_t n, W* out) {
      const W *lo = low.at(first, n), *v = value.at(first, n), *hi = high.at(first, n);
      for (std::int64_t i = 0; i < n; ++i) out[i] = smaller(larger(v[i], lo[i]), hi[i]);
    });
  });
}

Literal convert(const Node& node, const Operands& x) {
  if (x[0].dtype() == node.types[0].dtype) return x[0];
  Literal out = Literal::uninitialized(node.types[0]);
  std::byte* dst = out.mutable_bytes();
  const auto bytes = static_cast<std::int64_t>(size_of(out.dtype()));
  visit_wide(x[0].dtype(), [&]<class W>() {
    Chunks<W> in(x[0]);
    for (std::int64_t first = 0; first < out.count(); first += kChunk) {
      const std::int64_t n = std::min(kChunk, out.count() - first);
      store_converted<W>(out.dtype(), in.at(first, n), n, dst + first * bytes);
    }
  });
  return out;
}

Literal bitcast(const Node& node, const Operands& x) { return x[0].reinterpreted(node.types[0].dtype); }

}  // namespace systole::eval
