#pragma once

// Functions of functions: derivatives, mapping, recomputation, precision. Each traces its function,
// transforms the graph and records the result, so they nest in any order: grad(grad(f)), vmap(grad(f)),
// compile of all.
//
//   auto df = grad([](const Tensor& x) { return sum(x * x); });      // df(x) is 2·x
//   auto [loss, grads] = value_and_grad([&] { return loss_of(model); }, parameters(model));
//
// Arguments and results may be trees (tree.h). Where one number is wanted, a function may return a pair or
// tuple: its first Tensor is differentiated, the rest comes along. Variables that the function assigns are
// assigned.

#include <array>
#include <climits>
#include <concepts>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "systole/base/export.h"
#include "systole/tensor/tree.h"

namespace systole {

inline constexpr int kNotMapped = INT_MIN;  // an argument that vmap gives whole to every call

namespace recording {

struct Gradients {
  Flat value;
  std::vector<Tensor> grads;
};
using FlatPullback = std::function<std::vector<Tensor>(std::span<const Tensor> cotangents)>;

SYSTOLE_API Gradients value_and_grad(const tree::FlatFunction& fn, const Flat& arguments,
                                     const std::vector<int>& wrt, std::span<const Variable> variables);
SYSTOLE_API std::pair<Flat, FlatPullback> vjp(const tree::FlatFunction& fn, const Flat& arguments);
SYSTOLE_API std::pair<Flat, std::vector<Tensor>> jvp(const tree::FlatFunction& fn, const Flat& arguments,
                                                     std::span<const Tensor> tangents);
SYSTOLE_API Flat vmap(const tree::FlatFunction& fn, const Flat& arguments, const std::vector<int>& in_axes,
                      int out_axis);
SYSTOLE_API Flat remat(const tree::FlatFunction& fn, const Flat& arguments);
SYSTOLE_API Flat no_grad(const tree::FlatFunction& fn);
SYSTOLE_API Flat autocast(const tree::FlatFunction& fn, const Flat& arguments, DType dtype);
// `forward` gives results, then residuals, and sets the number of results; `backward` gets residuals, then
// the results' cotangents.
SYSTOLE_API Flat custom_gradient(const tree::FlatFunction& forward, const tree::FlatFunction& backward,
                                 const Flat& arguments, const std::size_t& results);
SYSTOLE_API Tensor jacobian(const tree::FlatFunction& fn, const Tensor& x);

// Arguments as one flat list that knows where each argument's Tensors begin.
template <class... A>
struct Packed {
  Flat all;
  std::array<std::size_t, sizeof...(A) + 1> tensors{};
  std::array<Flat, sizeof...(A)> structures;

  explicit Packed(const A&... arguments) {
    std::size_t i = 0;
    const auto add = [&](const auto& argument) {
      structures[i] = tree::flat(argument);
      all.tensors.insert(all.tensors.end(), structures[i].tensors.begin(), structures[i].tensors.end());
      all.structure.insert(all.structure.end(), structures[i].structure.begin(),
                           structures[i].structure.end());
      all.keys.insert(all.keys.end(), structures[i].keys.begin(), structures[i].keys.end());
      tensors[++i] = all.tensors.size();
    };
    (add(static_cast<const tree::Stored<A>&>(tree::Stored<A>(arguments))), ...);
  }
  // Argument I with other Tensors in its places, the next ones of a list.
  template <std::size_t I>
  auto with(std::span<const Tensor> values) const {
    Flat flat{{values.begin(), values.end()}, structures[I].structure, structures[I].keys};
    return tree::from_flat<tree::Stored<std::tuple_element_t<I, std::tuple<A...>>>>(flat);
  }
};

}  // namespace recording

// A value and its gradients.
template <class R, class G>
struct ValueAndGrads {
  R value;
  G grads;
};

// Runs f() and differentiates by Variables: a list of them, or what parameters(module) gives. The gradients
// stand in their order.
template <std::invocable F>
auto value_and_grad(F&& f, std::span<const Variable> variables) {
  recording::Gradients g =
      recording::value_and_grad([&](const Flat&) { return tree::flat_result(f); }, {}, {}, variables);
  using R = tree::ResultOf<F>;
  return ValueAndGrads<R, std::vector<Tensor>>{tree::from_flat<R>(g.value), std::move(g.grads)};
}
template <std::invocable F>
auto value_and_grad(F&& f, std::initializer_list<Variable> variables) {
  return value_and_grad(std::forward<F>(f), std::span<const Variable>(variables.begin(), variables.size()));
}
template <std::invocable F>
std::vector<Tensor> grad(F&& f, std::span<const Variable> variables) {
  return value_and_grad(std::forward<F>(f), variables).grads;
}
template <std::invocable F>
std::vector<Tensor> grad(F&& f, std::initializer_list<Variable> variables) {
  return value_and_grad(std::forward<F>(f), variables).grads;
}

// The function (args…) → {value, gradient by argument I}, by the first argument unless told; by several
// (value_and_grad<0, 2>(f)) the gradients are a tuple.
template <std::size_t... I, class F>
auto value_and_grad(F f) {
  return tree::Transformed(std::move(f), []<class G, class... A>(G& g, const A&... arguments) {
    static_assert(sizeof...(A) > 0, "no argument to differentiate by; for Variables: grad(f, parameters(m))");
    const recording::Packed<A...> packed(arguments...);
    const auto by = [&]<std::size_t... K>(std::index_sequence<K...>) {
      std::vector<int> wrt;
      const auto add = [&](std::size_t k) {
        for (std::size_t t = packed.tensors[k]; t < packed.tensors[k + 1]; ++t)
          wrt.push_back(static_cast<int>(t));
      };
      (add(K), ...);
      const recording::Gradients both =
          recording::value_and_grad(tree::flat_function<G, A...>(g), packed.all, wrt, {});
      std::span<const Tensor> rest = both.grads;
      const auto next = [&]<std::size_t J>() {
        const std::size_t count = packed.tensors[J + 1] - packed.tensors[J];
        auto part = packed.template with<J>(rest.first(count));
        rest = rest.subspan(count);
        return part;
      };
      auto value = tree::from_flat<tree::ResultOf<G, A...>>(both.value);
      if constexpr (sizeof...(K) == 1)
        return ValueAndGrads { std::move(value), next.template operator()<K...>() };
      else
        return ValueAndGrads { std::move(value), std::tuple{next.template operator()<K>()...} };
    };
    if constexpr (sizeof...(I) == 0)
      return by(std::index_sequence<0>{});
    else
      return by(std::index_sequence<I...>{});
  });
}
template <std::size_t... I, class F>
auto grad(F f) {
  return tree::Transformed(value_and_grad<I...>(std::move(f)),
                           [](auto& g, const auto&... arguments) { return g(arguments...).grads; });
}

// f(args…) and its pullback: from a cotangent of the value (a tree like it) to one of each argument (the
// argument's tree, or a tuple of them when there are several).
template <class F, class... A>
auto vjp(F f, const A&... arguments) {
  const recording::Packed<A...> packed(arguments...);
  auto [flat, pull] = recording::vjp(tree::flat_function<F, A...>(f), packed.all);
  using R = tree::ResultOf<F, A...>;
  auto pullback = [packed, pull = std::move(pull)](const R& cotangent) {
    const std::vector<Tensor> grads = pull(tree::flat(cotangent).tensors);
    const auto part = [&]<std::size_t K>() {
      return packed.template with<K>(
          std::span(grads).subspan(packed.tensors[K], packed.tensors[K + 1] - packed.tensors[K]));
    };
    if constexpr (sizeof...(A) == 1)
      return part.template operator()<0>();
    else
      return [&]<std::size_t... K>(std::index_sequence<K...>) {
        return std::tuple { part.template operator()<K>()... };
      }(std::index_sequence_for<A...>{});
  };
  return std::pair{tree::from_flat<R>(flat), std::move(pullback)};
}

// f(args…) and its derivative along the tangents, a tree like the value.
template <class F, class... A>
auto jvp(F f, const std::tuple<A...>& arguments, const std::tuple<tree::Stored<A>...>& tangents) {
  const Flat flat = std::apply([](const A&... a) { return recording::Packed<A...>(a...).all; }, arguments);
  auto [value, derivative] =
      recording::jvp(tree::flat_function<F, A...>(f), flat, tree::flat(tangents).tensors);
  using R = tree::ResultOf<F, A...>;
  const Flat tangent{std::move(derivative), value.structure, value.keys};
  return std::pair{tree::from_flat<R>(value), tree::from_flat<R>(tangent)};
}
template <class F>
auto jvp(F f, const Tensor& x, const Tensor& tangent) {
  return jvp(std::move(f), std::tuple<Tensor>(x), std::tuple<Tensor>(tangent));
}

// The function that maps f over an axis of its arguments: axis 0 of each unless `in_axes` says otherwise (one
// entry per argument, kNotMapped for those given whole); results are stacked along `out_axis`. Every example
// sees the same Variables, so random numbers that differ need keys as a mapped argument.
template <class F>
auto vmap(F f, std::vector<int> in_axes = {}, int out_axis = 0) {
  return tree::Transformed(std::move(f), [in_axes = std::move(in_axes), out_axis]<class G, class... A>(
                                             G& g, const A&... arguments) {
    const recording::Packed<A...> packed(arguments...);
    if (!in_axes.empty() && in_axes.size() != sizeof...(A))
      throw Error(ErrorKind::kInvalidArgument, "vmap", "one axis per argument", std::to_string(sizeof...(A)),
                  std::to_string(in_axes.size()));
    std::vector<int> axes;
    for (std::size_t i = 0; i < sizeof...(A); ++i)
      axes.insert(axes.end(), packed.tensors[i + 1] - packed.tensors[i], in_axes.empty() ? 0 : in_axes[i]);
    return tree::result<tree::ResultOf<G, A...>>(
        recording::vmap(tree::flat_function<G, A...>(g), packed.all, axes, out_axis));
  });
}

// d f(x)[i…] / d x[j…], of shape (i…, j…): by reverse mode, all rows at once.
template <class F>
auto jacobian(F f) {
  return tree::Transformed(std::move(f), []<class G>(G& g, const Tensor& x) {
    return recording::jacobian(tree::flat_function<G, Tensor>(g), x);
  });
}
template <class F>
auto hessian(F f) {
  return jacobian(grad(std::move(f)));
}

// f, whose intermediate values are computed again for the gradient instead of being kept.
template <class F>
auto remat(F f) {
  return tree::Transformed(std::move(f), []<class G, class... A>(G& g, const A&... arguments) {
    return tree::result<tree::ResultOf<G, A...>>(
        recording::remat(tree::flat_function<G, A...>(g), recording::Packed<A...>(arguments...).all));
  });
}

// f with contractions in `dtype` (bf16 or f16) and what needs range or precision in f32; arguments, results
// and Variables keep their dtypes.
template <class F>
auto autocast(F f, DType dtype = DType::bf16) {
  return tree::Transformed(std::move(f), [dtype]<class G, class... A>(G& g, const A&... arguments) {
    return tree::result<tree::ResultOf<G, A...>>(recording::autocast(
        tree::flat_function<G, A...>(g), recording::Packed<A...>(arguments...).all, dtype));
  });
}

// A function with a gradient of its own. forward(args…) returns {value, residuals}; backward(residuals,
// cotangent of the value) returns a cotangent for the argument, or a tuple of one for each.
template <class Forward, class Backward>
auto custom_gradient(Forward forward, Backward backward) {
  return tree::Transformed(
      std::move(forward), [backward = std::move(backward)]<class G, class... A>(G& g, const A&... arguments) {
        using Both = tree::ResultOf<G, A...>;
        using R = typename Both::first_type;
        using Residuals = typename Both::second_type;
        std::size_t results = 0;
        Flat value, residuals;
        const auto flat_forward = [&](const Flat& flat) {
          tree::Reader in{flat};
          const std::tuple<tree::Stored<A>...> values{tree::unflatten<tree::Stored<A>>(in)...};
          const Both both = std::apply(g, values);
          value = tree::flat(both.first);
          residuals = tree::flat(both.second);
          results = value.tensors.size();
          Flat out = value;
          out.tensors.insert(out.tensors.end(), residuals.tensors.begin(), residuals.tensors.end());
          return out;
        };
        const auto flat_backward = [&](const Flat& flat) {
          const auto middle = flat.tensors.begin() + static_cast<std::ptrdiff_t>(residuals.tensors.size());
          const Flat kept{{flat.tensors.begin(), middle}, residuals.structure, residuals.keys};
          const Flat arrived{{middle, flat.tensors.end()}, value.structure, value.keys};
          return tree::flat(backward(tree::from_flat<Residuals>(kept), tree::from_flat<R>(arrived)));
        };
        return tree::from_flat<R>(recording::custom_gradient(
            flat_forward, flat_backward, recording::Packed<A...>(arguments...).all, results));
      });
}

SYSTOLE_API Tensor stop_gradient(const Tensor& x);  // x, a constant to derivatives

// f() with every result, and every Variable it assigns, a constant to derivatives.
template <std::invocable F>
auto no_grad(F&& f) {
  return tree::result<tree::ResultOf<F>>(
      recording::no_grad([&](const Flat&) { return tree::flat_result(f); }));
}

}  // namespace systole
