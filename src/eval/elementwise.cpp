// Elementwise ops without attributes; what they compute stands in functions.h and the switch over them is
// generated. f64 is computed where it stands, and so is f32 by ops whose f32 result is the rounded f64 one;
// everything else passes through buffers of kChunk wide elements: load, one plain loop, store.

#include <string>
#include <type_traits>

#include "eval/chunks.h"
#include "eval/functions.h"
#include "eval/internal.h"
#include "systole/base/error.h"

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

// Whether rounding to f64 before f32 changes nothing: f64 has more than twice the digits, or the result is
// exact.
constexpr bool same_in_f32(Op op) {
  switch (op) {
    case Op::abs:
    case Op::neg:
    case Op::sign:
    case Op::add:
    case Op::sub:
    case Op::mul:
    case Op::div:
    case Op::max:
    case Op::min:
    case Op::equal:
    case Op::not_equal:
    case Op::less:
    case Op::less_equal:
    case Op::greater:
    case Op::greater_equal: return true;
    default: return false;
  }
}

[[noreturn]] void refuse_dtype(const Node& node, DType dtype) {
  throw Error(ErrorKind::kDType, std::string(name(node.op)), "the op does not take this dtype", {},
              std::string(name(dtype)));
}

// Calls f with W of the loop's arithmetic and whether elements are read and written as they stand.
template <Domains d, bool kF32, class F>
void visit_arithmetic(const Node& node, DType dtype, F&& f) {
  if constexpr (d.real) {
    if (dtype == DType::f64) return f.template operator()<double, true>();
    if constexpr (kF32)
      if (dtype == DType::f32) return f.template operator()<float, true>();
  }
  return visit_wide(dtype, [&]<class W>() {
    if constexpr (reaches<d, W>)
      return f.template operator()<W, false>();
    else
      refuse_dtype(node, dtype);
  });
}

// Stores what `compute(first, n, out)` puts into out, chunk by chunk.
template <class R, bool kInPlace, class Compute>
void store_chunks(Target& target, Compute&& compute) {
  const auto size = static_cast<std::int64_t>(size_of(target.dtype()));
  for_each_chunk(target.count(), [&](std::int64_t first, std::int64_t n) {
    std::byte* dst = target.bytes() + first * size;
    if constexpr (kInPlace) {
      compute(first, n, reinterpret_cast<R*>(dst));
    } else {
      Stored<R> buffer[kChunk];
      compute(first, n, buffer);
      store<Stored<R>>(target.dtype(), buffer, n, dst);
    }
  });
}

template <Domains d, bool kF32, class F>
void map_one(const Node& node, const Operands& x, Slot& result, F f) {
  visit_arithmetic<d, kF32>(node, x[0].dtype(), [&]<class W, bool kNative>() {
    Target target(node, x, result);
    Source a(x, 0, target);
    store_chunks<decltype(f(W{})), kNative>(target, [&](std::int64_t first, std::int64_t n, auto* out) {
      const W* in;
      W buffer[kNative ? 1 : kChunk];
      if constexpr (kNative)
        in = reinterpret_cast<const W*>(a.at(first, n));
      else
        in = a.template wide<W>(first, n, buffer);
      SYSTOLE_INDEPENDENT
      for (std::int64_t i = 0; i < n; ++i) out[i] = f(in[i]);
    });
  });
}

template <Domains d, bool kF32, class F>
void map_two(const Node& node, const Operands& x, Slot& result, F f) {
  const DType dtype = x[0].dtype();
  visit_arithmetic<d, kF32>(node, dtype, [&]<class W, bool kNative>() {
    const int width = static_cast<int>(8 * size_of(dtype));
    const auto apply = [f, width](W a, W b) {
      if constexpr (std::is_invocable_v<F, W, W, int>)
        return f(a, b, width);
      else
        return (static_cast<void>(width), f(a, b));
    };
    Target target(node, x, result);
    Source a(x, 0, target), b(x, 1, target);
    store_chunks<decltype(apply(W{}, W{})), kNative>(target,
                                                     [&](std::int64_t first, std::int64_t n, auto* out) {
                                                       const W *left, *right;
                                                       W buffers[2][kNative ? 1 : kChunk];
                                                       if constexpr (kNative) {
                                                         left = reinterpret_cast<const W*>(a.at(first, n));
                                                         right = reinterpret_cast<const W*>(b.at(first, n));
                                                       } else {
                                                         left = a.template wide<W>(first, n, buffers[0]);
                                                         right = b.template wide<W>(first, n, buffers[1]);
                                                       }
                                                       SYSTOLE_INDEPENDENT
                                                       for (std::int64_t i = 0; i < n; ++i)
                                                         out[i] = apply(left[i], right[i]);
                                                     });
  });
}

}  // namespace

void elementwise(const Node& node, const Operands& x, Slot& result) {
  switch (node.op) {
#define SYSTOLE_UNARY(name, dtypes, ...) \
  case Op::name: return map_one<domains(dtypes), same_in_f32(Op::name)>(node, x, result, functions::name);
#define SYSTOLE_BINARY(name, dtypes, ...) \
  case Op::name: return map_two<domains(dtypes), same_in_f32(Op::name)>(node, x, result, functions::name);
#define SYSTOLE_OP(name, ...) \
  case Op::name: break;
#include "systole/ir/ops.def"
  }
  throw Error(ErrorKind::kInternal, std::string(name(node.op)), "not an elementwise op without attributes");
}

}  // namespace systole::eval
