// Products of matrices, tiled: an item is a block of rows by a block of columns of the result. The right
// factor's part is copied so that neighbouring columns are neighbours in memory; a few rows of sums are kept
// in registers. Work on the result follows while the tile is near.

#include <algorithm>

#include "codegen/kernel_parts.h"

namespace systole::codegen {

namespace {

constexpr std::int64_t kRows = 48, kColumns = 64, kDepth = 256;
constexpr int kRegisterRows = 6;

// Axes of an operand that one linear variable runs over, those that lie in a row joined.
struct Axes {
  struct Axis {
    std::int64_t size, stride;
  };
  std::vector<Axis> axes;

  void add(std::int64_t size, std::int64_t stride) {
    if (size == 1) return;
    if (!axes.empty() && axes.back().stride == stride * size)
      axes.back() = {axes.back().size * size, stride};
    else
      axes.push_back({size, stride});
  }
  std::string at(const std::string& variable) const {
    if (axes.empty()) return "0";
    std::string text;
    std::int64_t below = 1;
    for (std::size_t i = axes.size(); i-- > 0;) {
      std::string index = below == 1 ? variable : fmt::format("{} / {}", variable, below);
      if (i > 0) index = fmt::format("({}) % {}", index, axes[i].size);
      text = fmt::format("({}) * {}{}{}", index, axes[i].stride, text.empty() ? "" : " + ", text);
      below *= axes[i].size;
    }
    return text;
  }
};

struct Factor {
  Axes batch, free, contracted;
};

bool contains(const Ints& axes, std::size_t axis) {
  return std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(axis)) != axes.end();
}

Factor factor(const Shape& shape, const Ints& batch, const Ints& contracted) {
  const Ints strides = row_major_strides(shape.dims());
  Factor f;
  for (const std::int64_t axis : batch)
    f.batch.add(shape[static_cast<std::size_t>(axis)].value(), strides[static_cast<std::size_t>(axis)]);
  for (const std::int64_t axis : contracted)
    f.contracted.add(shape[static_cast<std::size_t>(axis)].value(), strides[static_cast<std::size_t>(axis)]);
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (!contains(batch, i) && !contains(contracted, i)) f.free.add(shape[i].value(), strides[i]);
  return f;
}

std::int64_t product(const Shape& shape, const Ints& axes) {
  std::int64_t count = 1;
  for (const std::int64_t axis : axes) count *= shape[static_cast<std::size_t>(axis)].value();
  return count;
}

std::string_view accumulator_type(DType dtype) {
  return is_float(dtype) ? c_type(dtype) : size_of(dtype) == 8 ? "s_u64" : "s_u32";
}

}  // namespace

Kernel dot_kernel(const lower::Step& step, const std::string& name) {
  const ir::Graph& region = step.region.graph;
  const ir::Node& dot = region.node(step.region.anchor);
  const auto& attrs = dot.as<ir::DotAttrs>();
  const ir::ValueId a = dot.operands[0], b = dot.operands[1];
  const Shape &a_shape = region.type(a).shape, &b_shape = region.type(b).shape;
  const DType dtype = dot.types[0].dtype;
  const Factor left = factor(a_shape, attrs.a_batch, attrs.a_contract),
               right = factor(b_shape, attrs.b_batch, attrs.b_contract);
  const std::int64_t batches = product(a_shape, attrs.a_batch), depth = product(a_shape, attrs.a_contract);
  const std::int64_t rows = depth * batches == 0 ? 0 : a_shape.count() / (batches * depth);
  const std::int64_t columns = depth * batches == 0 ? 0 : b_shape.count() / (batches * depth);
  const std::int64_t results = dot.types[0].shape.count();
  const std::int64_t m = depth > 0 ? rows : results, n = depth > 0 ? columns : 1;

  Function function(region, name);
  Writer& w = function.writer();
  const std::string_view type = accumulator_type(dtype);
  const std::int64_t row_blocks = (m + kRows - 1) / kRows, column_blocks = (n + kColumns - 1) / kColumns;
  const std::int64_t per_batch = row_blocks * column_blocks;
  const std::int64_t items =
      results == 0 ? 0 : std::max<std::int64_t>(batches, depth > 0 ? 0 : 1) * per_batch;
  w.open("for (s_i64 item = begin; item < end; ++item)");
  w.line(fmt::format("const s_i64 batch = item / {};", std::max<std::int64_t>(per_batch, 1)));
  w.line(fmt::format("const s_i64 m0 = item / {} % {} * {};", std::max<std::int64_t>(column_blocks, 1),
                     std::max<std::int64_t>(row_blocks, 1), kRows));
  w.line(fmt::format("const s_i64 n0 = item % {} * {};", std::max<std::int64_t>(column_blocks, 1), kColumns));
  w.line(fmt::format("const s_i32 rows = (s_i32)({0} - m0 < {1} ? {0} - m0 : {1});", m, kRows));
  w.line(fmt::format("const s_i32 columns = (s_i32)({0} - n0 < {1} ? {0} - n0 : {1});", n, kColumns));
  w.line(fmt::format("{} tile[{}];", type, kRows * kColumns));
  w.line(fmt::format("for (s_i32 i = 0; i < {}; ++i) tile[i] = 0;", kRows * kColumns));
  if (depth > 0) {
    const auto load = [&](ir::ValueId v, const std::string& place) {
      return fmt::format("({})({})", type, function.elements().loaded(v, place));
    };
    w.line(fmt::format("{} part[{}];", type, kDepth * kColumns));
    w.line(fmt::format("{} few[{}];", type, kDepth * kRegisterRows));
    w.open(fmt::format("for (s_i64 k0 = 0; k0 < {}; k0 += {})", depth, kDepth));
    w.line(fmt::format("const s_i32 deep = (s_i32)({0} - k0 < {1} ? {0} - k0 : {1});", depth, kDepth));
    const bool rows_apart = right.free.axes.empty() || right.free.axes.back().stride != 1;
    const char* const outer =
        rows_apart ? "for (s_i32 j = 0; j < columns; ++j)" : "for (s_i32 k = 0; k < deep; ++k)";
    const char* const inner =
        rows_apart ? "for (s_i32 k = 0; k < deep; ++k)" : "for (s_i32 j = 0; j < columns; ++j)";
    w.open(outer);
    w.open(inner);
    w.line(fmt::format("part[k * {} + j] = {};", kColumns,
                       load(b, fmt::format("{} + {} + {}", right.batch.at("batch"), right.free.at("(n0 + j)"),
                                           right.contracted.at("(k0 + k)")))));
    w.close();
    w.close();
    w.line(fmt::format(
        "for (s_i32 k = 0; k < deep; ++k) for (s_i32 j = columns; j < {0}; ++j) part[k * {0} + j] = 0;",
        kColumns));
    w.open(fmt::format("for (s_i32 i0 = 0; i0 < rows; i0 += {})", kRegisterRows));
    w.open(fmt::format("for (s_i32 i = 0; i < {}; ++i)", kRegisterRows));
    w.line("const s_i64 row = m0 + (i0 + i < rows ? i0 + i : rows - 1);");
    w.line(fmt::format("for (s_i32 k = 0; k < deep; ++k) few[k * {} + i] = {};", kRegisterRows,
                       load(a, fmt::format("{} + {} + {}", left.batch.at("batch"), left.free.at("row"),
                                           left.contracted.at("(k0 + k)")))));
    w.close();
    const std::string suffix = dtype == DType::f64   ? "f64"
                               : is_float(dtype)     ? "f32"
                               : size_of(dtype) == 8 ? "u64"
                                                     : "u32";
    w.line(fmt::format("s_multiply_{}(tile + i0 * {}, part, few, deep);", suffix, kColumns));
    w.close();
    w.close();
  }
  function.elements().push();
  w.open("for (s_i32 i = 0; i < rows; ++i)");
  w.line("const s_i64 m = m0 + i;");
  w.line("S_INDEPENDENT");
  w.open("for (s_i32 j = 0; j < columns; ++j)");
  w.line("const s_i64 n = n0 + j;");
  function.elements().push();
  function.elements().define(
      {step.region.anchor, 0},
      function.elements().rounded(dtype, fmt::format("({})tile[i * {} + j]", c_type(dtype), kColumns)));
  const Index point = Index::variable("batch", std::max<std::int64_t>(batches, 1)) * (m * n) +
                      Index::variable("m", m) * n + Index::variable("n", n);
  std::vector<std::size_t> outputs;
  for (std::size_t i = 0; i < region.outputs().size(); ++i) outputs.push_back(i);
  function.store(outputs, std::vector<Index>(outputs.size(), point));
  function.elements().pop();
  w.close();
  w.close();
  function.elements().pop();
  w.close();
  return function.finish(items);
}

}  // namespace systole::codegen
