#pragma once

// Whether a function's gradients are right, by differences: what torch.autograd.gradcheck is used for.
//
//   gradcheck(swish, x);                                                  // throws when they are not
//   gradcheck([&](const Tensor& x, const Tensor& w) { return matmul(x, w); }, std::tuple(x, w), {.eps =
//   1e-5});
//
// Every element of every float result is differentiated by every element of every float argument, so it is
// for small arrays: it runs the function twice for each element of the arguments, and its way back once for
// each of the results. The function gives the same for the same arguments and is smooth where they are.

#include <cstddef>
#include <span>
#include <tuple>
#include <utility>

#include "systole/base/export.h"
#include "systole/tensor/transforms.h"

namespace systole {

struct GradcheckOptions {
  // Half the distance of two points of a difference; 0: 1e-6, which is for f64. Arguments of other floats
  // want one of their own, 1e-2 say for f32, and larger tolerances.
  double eps = 0;
  double atol = 1e-5, rtol = 1e-3;  // |gradient - difference| ≤ atol + rtol·|difference|
};

namespace recording {
// `begins`: where each argument's Tensors begin, and where the last end.
SYSTOLE_API void gradcheck(const tree::FlatFunction& fn, const Flat& arguments,
                           std::span<const std::size_t> begins, const GradcheckOptions& options);
}  // namespace recording

// Throws kInvalidArgument with the worst of the gradients that are wrong: of which argument, where in it,
// what differences give and what the function's gradient is. kDType for floats other than f64 without an eps.
template <class F, class... A>
void gradcheck(F f, const std::tuple<A...>& arguments, const GradcheckOptions& options = {}) {
  std::apply(
      [&](const A&... each) {
        const recording::Packed<A...> packed(each...);
        recording::gradcheck(tree::flat_function<F, A...>(f), packed.all, packed.tensors, options);
      },
      arguments);
}
template <class F>
void gradcheck(F f, const Tensor& x, const GradcheckOptions& options = {}) {
  gradcheck(std::move(f), std::tuple<Tensor>(x), options);
}

}  // namespace systole
