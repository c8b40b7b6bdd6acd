// cholesky and triangular_solve over the last two axes, in f64, rounded at the end.

#include <cmath>
#include <limits>

#include "eval/internal.h"
#include "eval/wide.h"

namespace systole::eval {

namespace {

std::int64_t dim_from_end(const Literal& x, std::size_t i) {
  return x.dims()[static_cast<std::size_t>(x.rank()) - i];
}

}  // namespace

Literal cholesky(const ir::Node& node, const Operands& x) {
  const bool lower = node.as<ir::CholeskyAttrs>().lower;
  const std::int64_t n = dim_from_end(x[0], 1);
  const auto cells = static_cast<std::size_t>(n * n);
  std::vector<double> values = load_all<double>(x[0]);
  for (std::size_t first = 0; first < values.size(); first += cells) {
    // The lower triangle in place: at(i, j) with i >= j. An upper factor is its transpose, read and written
    // mirrored.
    double* matrix = values.data() + first;
    const auto at = [&](std::int64_t i, std::int64_t j) -> double& {
      return lower ? matrix[i * n + j] : matrix[j * n + i];
    };
    bool definite = true;
    for (std::int64_t j = 0; definite && j < n; ++j) {
      double pivot = at(j, j);
      for (std::int64_t k = 0; k < j; ++k) pivot -= at(j, k) * at(j, k);
      definite = pivot > 0;
      at(j, j) = std::sqrt(pivot);
      for (std::int64_t i = j + 1; definite && i < n; ++i) {
        double v = at(i, j);
        for (std::int64_t k = 0; k < j; ++k) v -= at(i, k) * at(j, k);
        at(i, j) = v / at(j, j);
        at(j, i) = 0;
      }
    }
    if (!definite) std::fill_n(matrix, cells, std::numeric_limits<double>::quiet_NaN());
  }
  return store_all<double>(node.types[0], values);
}

Literal triangular_solve(const ir::Node& node, const Operands& x) {
  const auto& attrs = node.as<ir::TriangularSolveAttrs>();
  const std::vector<double> a = load_all<double>(x[0]);
  std::vector<double> b = load_all<double>(x[1]);
  const std::int64_t n = dim_from_end(x[0], 1), rows = dim_from_end(x[1], 2), columns = dim_from_end(x[1], 1);
  // x·op(a) = b is op(a)ᵀ·xᵀ = bᵀ, so both sides are solved as a left side with b seen through strides.
  const bool mirrored = attrs.transpose_a == attrs.left_side;
  const bool lower = attrs.lower != mirrored;
  const std::int64_t systems = attrs.left_side ? columns : rows;
  const std::int64_t unknown_step = attrs.left_side ? columns : 1,
                     system_step = attrs.left_side ? 1 : columns;
  for (std::int64_t batch = 0; b.size() != 0 && batch < x[1].count() / (rows * columns); ++batch) {
    const double* matrix = a.data() + batch * n * n;
    double* solution = b.data() + batch * rows * columns;
    for (std::int64_t step = 0; step < n; ++step) {
      const std::int64_t i = lower ? step : n - 1 - step;
      double* unknown = solution + i * unknown_step;
      for (std::int64_t done = 0; done < step; ++done) {
        const std::int64_t j = lower ? done : n - 1 - done;
        const double factor = mirrored ? matrix[j * n + i] : matrix[i * n + j];
        const double* known = solution + j * unknown_step;
        for (std::int64_t s = 0; s < systems; ++s)
          unknown[s * system_step] -= factor * known[s * system_step];
      }
      if (attrs.unit_diagonal) continue;
      for (std::int64_t s = 0; s < systems; ++s) unknown[s * system_step] /= matrix[i * n + i];
    }
  }
  return store_all<double>(node.types[0], b);
}

}  // namespace systole::eval
