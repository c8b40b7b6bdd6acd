// cholesky and triangular_solve. Sums and the numbers they are made of are kept in scratch memory in the
// dtype that arithmetic is done in; an item is a matrix, or a column of unknowns.

#include "codegen/special_parts.h"

namespace systole::codegen {

namespace {

class Triangle : public SpecialKernel {
 public:
  using SpecialKernel::SpecialKernel;

  Kernel cholesky() {
    const bool lower = node_.as<ir::CholeskyAttrs>().lower;
    const std::int64_t n = size(0, 1);
    const std::string_view type = c_type(dtype());
    const std::string scratch = function_.scratch(type);
    open_items();
    w_.line(fmt::format("const s_i64 first = item * {};", n * n));
    w_.line(fmt::format("S_GLOBAL {}* const l = {} + first;", type, scratch));
    w_.line("s_bool definite = 1;");
    w_.open(fmt::format("for (s_i64 j = 0; j < {}; ++j)", n));
    w_.line(fmt::format("{} d = {};", type, element(0, fmt::format("first + j * {}", n + 1))));
    w_.line(fmt::format("for (s_i64 k = 0; k < j; ++k) d -= l[j * {0} + k] * l[j * {0} + k];", n));
    w_.line("definite = definite && d > 0;");
    w_.line(fmt::format("d = {}(d);", dtype() == DType::f64 ? "S_SQRT_F64" : "S_SQRT"));
    w_.line(fmt::format("l[j * {}] = d;", n + 1));
    w_.open(fmt::format("for (s_i64 i = j + 1; i < {}; ++i)", n));
    w_.line(fmt::format(
        "{} sum = {};", type,
        element(0, lower ? fmt::format("first + i * {} + j", n) : fmt::format("first + j * {} + i", n))));
    w_.line(fmt::format("for (s_i64 k = 0; k < j; ++k) sum -= l[i * {0} + k] * l[j * {0} + k];", n));
    w_.line(fmt::format("l[i * {} + j] = sum / d;", n));
    w_.close();
    w_.close();
    w_.open(fmt::format("for (s_i64 i = 0; i < {}; ++i)", n));
    w_.open(fmt::format("for (s_i64 j = 0; j < {}; ++j)", n));
    w_.line(fmt::format("const {} v = !definite ? {} : {} ? l[{}] : 0;", type,
                        dtype() == DType::f64 ? "S_NAN_F64" : "S_NAN_F32", lower ? "j <= i" : "i <= j",
                        lower ? fmt::format("i * {} + j", n) : fmt::format("j * {} + i", n)));
    w_.line(fmt::format("const s_i64 place = first + i * {} + j;", n));
    store("place", "v");
    w_.close();
    w_.close();
    w_.close();
    return function_.finish(n == 0 ? 0 : shape(0).count() / (n * n));
  }

  // From the left, the columns of x are solved for by themselves; from the right, its rows, with the matrix
  // transposed.
  Kernel solve() {
    const auto& a = node_.as<ir::TriangularSolveAttrs>();
    const std::int64_t n = size(0, 1), rows = size(1, 2), columns = size(1, 1);
    const std::int64_t lines = a.left_side ? columns : rows, step = a.left_side ? columns : 1;
    const bool transposed = a.transpose_a == a.left_side;
    const bool forward = a.lower != transposed;
    const std::string_view type = c_type(dtype());
    const std::string scratch = function_.scratch(type);
    const auto matrix = [&](const char* i, const char* k) {
      return element(0, fmt::format("matrix + {} * {} + {}", transposed ? k : i, n, transposed ? i : k));
    };
    open_items();
    w_.line(fmt::format("const s_i64 matrix = item / {} * {};", std::max<std::int64_t>(lines, 1), n * n));
    w_.line(fmt::format("const s_i64 first = item / {0} * {1} + item % {0} * {2};",
                        std::max<std::int64_t>(lines, 1), rows * columns, a.left_side ? 1 : columns));
    w_.open(fmt::format("for (s_i64 turn = 0; turn < {}; ++turn)", n));
    w_.line(forward ? "const s_i64 i = turn;" : fmt::format("const s_i64 i = {} - turn;", n - 1));
    w_.line(fmt::format("const s_i64 place = first + i * {};", step));
    w_.line(fmt::format("{} sum = {};", type, element(1, "place")));
    w_.open(forward ? std::string("for (s_i64 k = 0; k < i; ++k)")
                    : fmt::format("for (s_i64 k = i + 1; k < {}; ++k)", n));
    w_.line(fmt::format("sum -= {} * {}[first + k * {}];", matrix("i", "k"), scratch, step));
    w_.close();
    w_.line(fmt::format("const {} x = {};", type,
                        a.unit_diagonal ? "sum" : fmt::format("sum / {}", matrix("i", "i"))));
    w_.line(fmt::format("{}[place] = x;", scratch));
    store("place", "x");
    w_.close();
    w_.close();
    return function_.finish(shape(1).count() == 0 ? 0 : shape(1).count() / n);
  }

 private:
  std::int64_t size(std::size_t operand, std::size_t from_last) const {
    return shape(operand)[shape(operand).size() - from_last].value();
  }
};

}  // namespace

Kernel triangle_kernel(const lower::Step& step, const std::string& name, Dialect dialect) {
  Triangle triangle(step, name, dialect);
  return step.region.graph.node(step.region.anchor).op == ir::Op::cholesky ? triangle.cholesky()
                                                                           : triangle.solve();
}

}  // namespace systole::codegen
