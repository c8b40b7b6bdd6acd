#pragma once

// Products of Tensors and linear algebra. Operands are promoted to a common dtype. The functions of matrices
// work on the last two axes; axes before them are a batch, and batches broadcast.

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>

#include "systole/base/export.h"
#include "systole/base/shape.h"
#include "systole/tensor/axes.h"
#include "systole/tensor/tensor.h"

namespace systole {

// Products.
SYSTOLE_API Tensor matmul(const Tensor& a, const Tensor& b);  // matrices and vectors, as numpy's
SYSTOLE_API Tensor dot(const Tensor& a, const Tensor& b);     // a's last axis with b's last but one, or only
SYSTOLE_API Tensor outer(const Tensor& a, const Tensor& b);   // of the elements of each, in order
// Over the last `axes` axes of a and the first of b, or over the axes named.
SYSTOLE_API Tensor tensordot(const Tensor& a, const Tensor& b, std::int64_t axes = 2);
SYSTOLE_API Tensor tensordot(const Tensor& a, const Tensor& b, Ints a_axes, Ints b_axes);
// einsum("bij,bjk->bik", {a, b}): a letter per axis; letters that the result lacks are summed, a letter twice
// in one operand takes the diagonal, "..." stands for any number of axes that broadcast. Without "->" the
// result has the letters that appear once, in alphabetical order. Operands are joined from left to right.
SYSTOLE_API Tensor einsum(std::string_view formula, std::span<const Tensor> operands);
SYSTOLE_API Tensor einsum(std::string_view formula, std::initializer_list<Tensor> operands);
SYSTOLE_API Tensor trace(const Tensor& a);  // the sum of the diagonal, as wide as sum

// Triangular matrices.
// L with L·Lᵀ = a (Lᵀ when not `lower`); NaN unless a is positive definite.
SYSTOLE_API Tensor cholesky(const Tensor& a, Flag lower = true);
struct TriangularOptions {
  bool lower = true;           // which triangle of a is read
  bool transpose = false;      // solve with aᵀ
  bool unit_diagonal = false;  // take the diagonal as 1
};
// x with a·x = b; b is a vector when it has one axis.
SYSTOLE_API Tensor triangular_solve(const Tensor& a, const Tensor& b, TriangularOptions options = {});

// Square matrices, by LU decomposition with row exchanges. A singular matrix gives infinities or NaN, as the
// divisions do; its determinant is 0 (without a gradient there).
SYSTOLE_API Tensor solve(const Tensor& a, const Tensor& b);  // as triangular_solve, of a whole matrix
SYSTOLE_API Tensor inverse(const Tensor& a);
SYSTOLE_API Tensor det(const Tensor& a);
SYSTOLE_API std::pair<Tensor, Tensor> slogdet(const Tensor& a);  // sign and log |det|

}  // namespace systole
