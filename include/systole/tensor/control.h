#pragma once

// Loops and branches as part of a program. Bodies are functions of trees (tree.h), traced once; what they
// capture is passed along by itself, and Variables they assign are carried.

#include <concepts>
#include <cstdint>
#include <functional>
#include <tuple>
#include <utility>

#include "systole/base/export.h"
#include "systole/tensor/tree.h"

namespace systole {

struct ScanOptions {
  bool reverse = false;  // from the last entry to the first
  bool remat = false;    // gradients compute each step again instead of keeping its values
};

namespace recording {

// The carry of the next round and what is to be stacked.
using ScanBody = std::function<std::pair<Flat, Flat>(const Flat& carry_and_x)>;
SYSTOLE_API Flat scan(const ScanBody& body, const Flat& carry, const Flat& xs, std::int64_t length,
                      ScanOptions options);
SYSTOLE_API Flat while_loop(const tree::FlatFunction& condition, const tree::FlatFunction& body,
                            const Flat& carry);
SYSTOLE_API Flat cond(const Tensor& predicate, const tree::FlatFunction& on_true,
                      const tree::FlatFunction& on_false, const Flat& operands);

}  // namespace recording

namespace recording {

template <class F, class Carry, class... X>
auto scan_of(F& body, const Carry& carry, const Flat& xs, std::int64_t length, ScanOptions options) {
  using R = tree::ResultOf<F, Carry, X...>;
  static_assert(std::tuple_size<R>::value == 2 &&
                    std::same_as<tree::Stored<std::tuple_element_t<0, R>>, tree::Stored<Carry>>,
                "the body of a scan returns std::pair{carry, y} with a carry like the one it gets");
  const ScanBody flat_body = [&](const Flat& flat) {
    tree::Reader in{flat};
    const std::tuple<tree::Stored<Carry>, tree::Stored<X>...> given{tree::unflatten<tree::Stored<Carry>>(in),
                                                                    tree::unflatten<tree::Stored<X>>(in)...};
    const auto next = std::apply(body, given);
    return std::pair{tree::flat(std::get<0>(next)), tree::flat(std::get<1>(next))};
  };
  return tree::from_flat<R>(scan(flat_body, tree::flat(tree::Stored<Carry>(carry)), xs, length, options));
}

}  // namespace recording

// For each entry x of xs along axis 0: {carry, y} = body(carry, x). Returns the last carry and the ys
// stacked.
template <class F, class Carry, class Xs>
  requires(!std::integral<Xs>)
auto scan(F body, const Carry& carry, const Xs& xs, ScanOptions options = {}) {
  return recording::scan_of<F, Carry, Xs>(body, carry, tree::flat(tree::Stored<Xs>(xs)), -1, options);
}
// `length` times {carry, y} = body(carry).
template <class F, class Carry>
auto scan(F body, const Carry& carry, std::int64_t length, ScanOptions options = {}) {
  return recording::scan_of<F, Carry>(body, carry, {}, length, options);
}

// carry = body(carry) while condition(carry), a bool scalar, holds. Has forward-mode derivatives only: the
// number of rounds is not known beforehand, which reverse mode needs; use scan there.
template <class C, class F, class Carry>
auto while_loop(C condition, F body, const Carry& carry) {
  return tree::from_flat<tree::Stored<Carry>>(recording::while_loop(tree::flat_function<C, Carry>(condition),
                                                                    tree::flat_function<F, Carry>(body),
                                                                    tree::flat(tree::Stored<Carry>(carry))));
}

// on_true(operands…) when the bool scalar holds, else on_false(operands…); only one of them runs.
template <class T, class E, class... A>
auto cond(const Tensor& predicate, T on_true, E on_false, const A&... operands) {
  using R = tree::ResultOf<T, A...>;
  static_assert(std::same_as<R, tree::ResultOf<E, A...>>, "both branches return the same type");
  return tree::result<R>(recording::cond(predicate, tree::flat_function<T, A...>(on_true),
                                         tree::flat_function<E, A...>(on_false),
                                         tree::flat(tree::Stored<A>(operands)...)));
}

}  // namespace systole
