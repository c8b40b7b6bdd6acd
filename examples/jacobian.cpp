// Matrices of derivatives, put together from the transforms: a Jacobian by rows (reverse mode), by columns
// (forward mode) and by jacobian(), and a Hessian. The function turns polar coordinates (r, φ) into x and y:
//
//   J = | cos φ   -r·sin φ |      its determinant is r
//       | sin φ    r·cos φ |

#include <systole/systole.h>

#include <iostream>

#include "options.h"

int main(int argc, char** argv) try {
  answer_help(argc, argv, "");
  using namespace systole;

  const auto cartesian = [](const Tensor& p) { return stack({p[0] * cos(p[1]), p[0] * sin(p[1])}); };
  const Tensor p = tensor({2.0, 0.5}, DType::f64);
  const Tensor unit = eye(2).to(DType::f64);

  // A pullback gives a row for each unit vector, a pushforward a column; vmap takes all of them at once.
  auto [xy, pullback] = vjp(cartesian, p);
  const Tensor by_rows = vmap([&](const Tensor& u) { return pullback(u); })(unit);
  const Tensor by_columns = vmap([&](const Tensor& u) { return jvp(cartesian, p, u).second; }, {}, 1)(unit);
  const Tensor j = jacobian(cartesian)(p);
  std::cout << "(x, y) = " << xy << "\nJ by rows =\n"
            << by_rows << "\nJ by columns =\n"
            << by_columns << "\njacobian() =\n"
            << j << "\ndeterminant = " << det(j) << "\n";

  // The Hessian of ½·rᵀ·A·r + b·r is A, when A is symmetric.
  const Tensor a = tensor({{2.0, 1.0}, {1.0, 3.0}}, DType::f64), b = tensor({1.0, -1.0}, DType::f64);
  const auto bowl = [&](const Tensor& r) { return sum(r * matmul(a, r)) / 2 + sum(b * r); };
  std::cout << "Hessian =\n" << hessian(bowl)(p) << "\n";

  // Newton's method needs one step on such a bowl: its minimum is where A·r = -b.
  const Tensor r = p - solve(hessian(bowl)(p), grad(bowl)(p));
  std::cout << "minimum at " << r << "\n";
} catch (const systole::Error& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
