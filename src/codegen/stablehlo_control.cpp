// Loops and branches. All that a loop reads is carried through it, so its regions see only their arguments; a
// branch has no arguments and sees the values around it.

#include <limits>
#include <span>

#include "codegen/stablehlo_emitter.h"

namespace systole::codegen::hlo {

namespace {

std::vector<Type> types_of(const Values& values) {
  std::vector<Type> types;
  for (const Value& v : values) types.push_back(v.type);
  return types;
}

Values part(const Values& values, std::size_t first, std::size_t count) {
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

void append(Values& to, const Values& more) { to.insert(to.end(), more.begin(), more.end()); }

// The element at scalar `index` along axis 0, and the place to put one.
class Rows {
 public:
  Rows(Emitter& e, const Value& index) : e_(e), index_(index), zero_(e.splat(index.type, std::int64_t{0})) {}

  Value read(const Value& x) {
    Ints sizes = x.type.shape.dims();
    sizes[0] = 1;
    Values operands = at(x);
    const Value row =
        e_.op("dynamic_slice", operands, {x.type.dtype, Shape(sizes)}, "slice_sizes = " + array_text(sizes));
    return e_.reshape(row, Shape(std::span<const Dim>(x.type.shape.begin() + 1, x.type.shape.end())));
  }

  Value write(const Value& x, const Value& row) {
    Shape shape{1};
    for (const Dim& d : row.type.shape) shape.push_back(d);
    Values operands = at(x);
    operands.insert(operands.begin() + 1, e_.reshape(row, shape));
    return e_.op("dynamic_update_slice", operands, x.type);
  }

 private:
  Values at(const Value& x) const {
    Values operands{x, index_};
    operands.insert(operands.end(), x.type.shape.size() - 1, zero_);
    return operands;
  }

  Emitter& e_;
  Value index_, zero_;
};

}  // namespace

Values scan(Emitter& e, const ir::Node& node, const Values& operands) {
  const auto& a = node.as<ir::ScanAttrs>();
  const std::int64_t length = a.length.value();
  const auto carries = static_cast<std::size_t>(a.carries), xs = static_cast<std::size_t>(a.xs);
  const std::size_t ys = node.types.size() - carries, constants = operands.size() - carries - xs;
  Values results = part(operands, 0, carries);
  for (std::size_t i = carries; i < node.types.size(); ++i) {
    const Type& type = node.types[i];
    results.push_back(e.splat(type, type.dtype == DType::boolean ? "false" : number_text(type.dtype, 0)));
  }
  if (length == 0 || results.empty()) return results;

  // The loop's values: step, carries, stacked results, what is cut, constants.
  const bool fits = length <= std::numeric_limits<std::int32_t>::max();
  const Type counter{fits ? DType::i32 : DType::i64, {}};
  Values state{e.splat(counter, std::int64_t{0})};
  append(state, results);
  append(state, part(operands, carries, xs + constants));
  const std::vector<Type> types = types_of(state);
  const Region more{types,
                    [&](const Values& v) { return Values{e.compare("LT", v[0], e.splat(counter, length))}; }};
  const Region step{types, [&](const Values& v) {
                      Rows rows(e,
                                a.reverse ? e.binary("subtract", e.splat(counter, length - 1), v[0]) : v[0]);
                      Values arguments = part(v, 1, carries);
                      for (const Value& x : part(v, 1 + carries + ys, xs)) arguments.push_back(rows.read(x));
                      append(arguments, part(v, 1 + carries + ys + xs, constants));
                      const Values out = e.graph(*node.graphs[0], arguments);
                      Values next{e.binary("add", v[0], e.splat(counter, std::int64_t{1}))};
                      append(next, part(out, 0, carries));
                      for (std::size_t i = 0; i < ys; ++i)
                        next.push_back(rows.write(v[1 + carries + i], out[carries + i]));
                      append(next, part(v, 1 + carries + ys, xs + constants));
                      return next;
                    }};
  return part(e.op_with_regions("while", state, types, {}, {more, step}), 1, node.types.size());
}

Values while_loop(Emitter& e, const ir::Node& node, const Values& operands) {
  const auto carries = static_cast<std::size_t>(node.as<ir::WhileAttrs>().carries);
  if (carries == 0) return {};
  const std::vector<Type> types = types_of(operands);
  const Region more{types, [&](const Values& v) { return e.graph(*node.graphs[0], v); }};
  const Region step{types, [&](const Values& v) {
                      Values next = e.graph(*node.graphs[1], v);
                      append(next, part(v, carries, v.size() - carries));
                      return next;
                    }};
  return part(e.op_with_regions("while", operands, types, {}, {more, step}), 0, carries);
}

Values cond(Emitter& e, const ir::Node& node, const Values& operands) {
  if (node.types.empty()) return {};
  const Values arguments = part(operands, 1, operands.size() - 1);
  const auto branch = [&](std::size_t i) {
    return Region{{}, [&, i](const Values&) { return e.graph(*node.graphs[i], arguments); }};
  };
  return e.op_with_regions("if", {operands[0]}, node.types, {}, {branch(0), branch(1)});
}

}  // namespace systole::codegen::hlo
