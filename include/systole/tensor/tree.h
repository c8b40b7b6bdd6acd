#pragma once

// Arguments and results of transformed functions: a Tensor, or a vector, array, pair, tuple, optional, map or
// plain struct of them, nested at will. Flattening lists the Tensors in order; unflattening puts others in
// their places. Lengths of vectors, keys of maps, and bools, enums, and integers in structs are structure: a
// compiled function is specialised to them. A number given as an argument is a Tensor; fixed(n) keeps it an
// integer that the function knows when it is traced.

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "systole/base/reflect.h"
#include "systole/tensor/tensor.h"
#include "systole/tensor/variable.h"

namespace systole {

struct Flat {
  std::vector<Tensor> tensors;
  std::vector<std::int64_t> structure;
  std::vector<std::string> keys;  // of maps
};

template <class T>
  requires std::is_integral_v<T>
struct Fixed {
  T value;
  operator T() const { return value; }
};
template <class T>
Fixed<T> fixed(T value) {
  return {value};
}

namespace tree {

struct Reader {
  const Flat& flat;
  std::size_t tensor = 0, word = 0, key = 0;
};

// One specialisation per kind of thing; anything else must be a plain aggregate.
template <class T>
struct Part {
  static_assert(reflect::Aggregate<T>,
                "arguments and results of transformed functions are Tensors, integers, or vectors, arrays, "
                "pairs, tuples, optionals, maps with string keys and plain structs of them");
  static void flatten(const T& x, Flat& out) {
    reflect::for_each_member(x, [&](std::string_view, const auto& member) {
      Part<std::remove_cvref_t<decltype(member)>>::flatten(member, out);
    });
  }
  static T unflatten(Reader& in) {
    T x{};
    reflect::for_each_member(x, [&](std::string_view, auto& member) {
      member = Part<std::remove_cvref_t<decltype(member)>>::unflatten(in);
    });
    return x;
  }
};

template <class T>
void flatten(const T& x, Flat& out) {
  Part<T>::flatten(x, out);
}
template <class T>
T unflatten(Reader& in) {
  return Part<T>::unflatten(in);
}

template <>
struct Part<Tensor> {
  static void flatten(const Tensor& x, Flat& out) { out.tensors.push_back(x); }
  static Tensor unflatten(Reader& in) { return in.flat.tensors.at(in.tensor++); }
};
template <std::same_as<Variable> T>
struct Part<T> {
  static void flatten(const Variable& x, Flat& out) { out.tensors.push_back(x.value()); }
  static T unflatten(Reader&) {
    static_assert(!sizeof(T), "Variables inside arguments or results cannot be made anew: capture them");
  }
};
template <class T>
  requires std::is_integral_v<T> || std::is_enum_v<T>
struct Part<T> {
  static void flatten(T x, Flat& out) { out.structure.push_back(static_cast<std::int64_t>(x)); }
  static T unflatten(Reader& in) { return static_cast<T>(in.flat.structure.at(in.word++)); }
};
template <class T>
struct Part<Fixed<T>> {
  static void flatten(Fixed<T> x, Flat& out) { Part<T>::flatten(x.value, out); }
  static Fixed<T> unflatten(Reader& in) { return {Part<T>::unflatten(in)}; }
};
template <class T>
  requires std::is_floating_point_v<T>
struct Part<T> {
  static_assert(!sizeof(T), "a float would be a constant of the compiled program: pass it as a Tensor");
};
template <class T>
struct Part<std::vector<T>> {
  static void flatten(const std::vector<T>& x, Flat& out) {
    out.structure.push_back(static_cast<std::int64_t>(x.size()));
    for (const T& item : x) tree::flatten(item, out);
  }
  static std::vector<T> unflatten(Reader& in) {
    std::vector<T> x;
    for (std::int64_t n = in.flat.structure.at(in.word++); n > 0; --n) x.push_back(tree::unflatten<T>(in));
    return x;
  }
};
template <class T, std::size_t N>
struct Part<std::array<T, N>> {
  static void flatten(const std::array<T, N>& x, Flat& out) {
    for (const T& item : x) tree::flatten(item, out);
  }
  static std::array<T, N> unflatten(Reader& in) {
    std::array<T, N> x;
    for (T& item : x) item = tree::unflatten<T>(in);
    return x;
  }
};
template <class A, class B>
struct Part<std::pair<A, B>> {
  static void flatten(const std::pair<A, B>& x, Flat& out) {
    tree::flatten(x.first, out);
    tree::flatten(x.second, out);
  }
  static std::pair<A, B> unflatten(Reader& in) {
    A first = tree::unflatten<A>(in);
    return {std::move(first), tree::unflatten<B>(in)};
  }
};
template <class... T>
struct Part<std::tuple<T...>> {
  static void flatten(const std::tuple<T...>& x, Flat& out) {
    std::apply([&](const T&... items) { (tree::flatten(items, out), ...); }, x);
  }
  static std::tuple<T...> unflatten(Reader& in) {
    return std::tuple<T...>{tree::unflatten<T>(in)...};  // braces keep the order
  }
};
template <class T>
struct Part<std::optional<T>> {
  static void flatten(const std::optional<T>& x, Flat& out) {
    out.structure.push_back(x.has_value());
    if (x) tree::flatten(*x, out);
  }
  static std::optional<T> unflatten(Reader& in) {
    if (in.flat.structure.at(in.word++) == 0) return std::nullopt;
    return tree::unflatten<T>(in);
  }
};
template <class T>
struct Part<std::map<std::string, T>> {
  static void flatten(const std::map<std::string, T>& x, Flat& out) {
    out.structure.push_back(static_cast<std::int64_t>(x.size()));
    for (const auto& [key, item] : x) {
      out.keys.push_back(key);
      tree::flatten(item, out);
    }
  }
  static std::map<std::string, T> unflatten(Reader& in) {
    std::map<std::string, T> x;
    for (std::int64_t n = in.flat.structure.at(in.word++); n > 0; --n) {
      std::string key = in.flat.keys.at(in.key++);
      x.emplace(std::move(key), tree::unflatten<T>(in));
    }
    return x;
  }
};

template <class... T>
Flat flat(const T&... parts) {
  Flat out;
  (flatten(parts, out), ...);
  return out;
}
template <class T>
T from_flat(const Flat& flat) {
  Reader in{flat};
  return unflatten<T>(in);
}

// How an argument or result is kept: Variables and numbers become Tensors, the rest is as it is.
template <class T>
using Stored = std::conditional_t<std::is_same_v<std::remove_cvref_t<T>, Variable> ||
                                      (std::is_arithmetic_v<std::remove_cvref_t<T>> &&
                                       !std::is_same_v<std::remove_cvref_t<T>, bool>),
                                  Tensor, std::remove_cvref_t<T>>;
template <class F, class... A>
using ResultOf = Stored<std::invoke_result_t<F&, const Stored<A>&...>>;

template <class F, class... A>
constexpr void check_callable() {
  static_assert(
      std::is_invocable_v<F&, const Stored<A>&...>,
      "the function does not take these arguments. Numbers arrive as Tensors: take a const Tensor&, or "
      "pass fixed(n) for an integer that is known when the function is traced");
}

// A tree of type R, or nothing.
template <class R>
R result(const Flat& flat) {
  if constexpr (!std::is_void_v<R>) return from_flat<R>(flat);
}
template <class F>
Flat flat_result(F&& call) {
  using R = std::invoke_result_t<F&>;
  if constexpr (std::is_void_v<R>) {
    call();
    return {};
  } else {
    return flat(Stored<R>(call()));
  }
}

// A function of trees as one of lists, which is what the library works on.
using FlatFunction = std::function<Flat(const Flat& arguments)>;
template <class F, class... A>
FlatFunction flat_function(F& f) {
  check_callable<F, A...>();
  return [&f](const Flat& arguments) {
    [[maybe_unused]] Reader in{arguments};
    const std::tuple<Stored<A>...> values{unflatten<Stored<A>>(in)...};
    return flat_result([&]() -> decltype(auto) { return std::apply(f, values); });
  };
}

// What a transform returns: a function that may be const, copied and called again.
template <class F, class Body>
class Transformed {
 public:
  Transformed(F f, Body body) : f_(std::move(f)), body_(std::move(body)) {}
  template <class... A>
  auto operator()(const A&... arguments) const {
    check_callable<F, A...>();
    return body_(f_, arguments...);
  }

 private:
  mutable F f_;
  Body body_;
};

}  // namespace tree

// Evaluates all Tensors of all arguments in one run.
template <class... T>
  requires(sizeof...(T) > 0)
void evaluate(const T&... trees) {
  evaluate(std::span<const Tensor>(tree::flat(trees...).tensors));
}

}  // namespace systole
