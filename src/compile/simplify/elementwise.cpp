// Elementwise identities. What is missing here is missing for a reason: x + 0 turns -0 into +0, x · 0 and x -
// x are NaN for NaN and infinity, -(a - b) is -0 where b - a is +0, so these hold for integers alone.

#include <algorithm>

#include "compile/simplify/rules.h"

namespace systole::passes {

namespace {

using M = const Match&;
using R = Replacement;

bool integers(M m) { return is_integer(m[0].dtype()); }
bool same(M m) { return m[0] == m[1]; }

// The other operand of a commutative op when one of them passes `test`.
Value beside(M m, bool (*test)(Value)) { return test(m[1]) ? m[0] : test(m[0]) ? m[1] : Value(); }
Value when(bool condition, Value v) { return condition ? v : Value(); }

R unary(M m, Op op, Value x) { return m.graph.add(op, {x}); }
R binary(M m, Op op, Value a, Value b) { return m.graph.add(op, {a, b}); }
R fill_if(bool condition, M m, double number) { return condition ? R(filled(m, number)) : R(); }

// op(op(x)) = x
R undone(M m) { return when(made_by(m[0], m.node.op), operand(m[0])); }
// op(op(x)) = op(x)
R repeated(M m) { return when(made_by(m[0], m.node.op), m[0]); }
// Whole numbers stay as they are under floor, ceil and round.
R already_whole(M m) {
  return when(made_by(m[0], Op::floor) || made_by(m[0], Op::ceil) || made_by(m[0], Op::round), m[0]);
}
R itself_with_itself(M m) { return when(same(m), m[0]); }
R unless_shifted(M m) { return when(is_zero(m[1]), m[0]); }
// Comparisons of a value with itself; NaN differs from itself.
R never(M m) { return fill_if(same(m), m, 0); }
R always_but_nan(M m) { return fill_if(same(m) && !is_float(m[0].dtype()), m, 1); }
R never_but_nan(M m) { return fill_if(same(m) && !is_float(m[0].dtype()), m, 0); }

// Whether every value of `from` is a value of `to`.
bool lossless(DType from, DType to) {
  if (from == to || from == DType::boolean) return true;
  if (to == DType::boolean) return false;
  if (is_float(from)) {
    if (!is_float(to)) return false;
    const bool to_half = to == DType::f16 || to == DType::bf16;
    return size_of(from) < size_of(to) && (size_of(to) >= 4 || (size_of(from) == 1 && to_half));
  }
  const int bits = static_cast<int>(8 * size_of(from)) - (is_signed_integer(from) ? 1 : 0);
  if (is_integer(to)) {
    if (is_signed_integer(from) && !is_signed_integer(to)) return false;
    return bits <= static_cast<int>(8 * size_of(to)) - (is_signed_integer(to) ? 1 : 0);
  }
  // Integers of so few bits lie in the float's range too.
  const int significand = to == DType::f64    ? 53
                          : to == DType::f32  ? 24
                          : to == DType::f16  ? 11
                          : to == DType::bf16 ? 8
                                              : 0;
  return bits <= significand;
}

// convert(convert(x)) in one step when the first loses nothing. An integer made float saturates on its way
// back where a direct conversion wraps, so that path needs a target that holds every value.
R convert_chain(M m) {
  if (!made_by(m[0], Op::convert)) return {};
  const Value x = operand(m[0]);
  const DType from = x.dtype(), through = m[0].dtype(), to = m.type().dtype;
  const bool saturates = is_integer(from) && is_float(through) && is_integer(to);
  if (!lossless(from, through) || (saturates && !lossless(from, to))) return {};
  return from == to ? x : m.graph.add(Op::convert, {x}, ir::ConvertAttrs{to});
}

R bitcast_chain(M m) {
  if (!made_by(m[0], Op::bitcast)) return {};
  return m.graph.add(Op::bitcast, {operand(m[0])}, m.attrs<ir::ConvertAttrs>());
}

R select_known(M m) {
  const std::optional<bool> p = truth(m[0]);
  if (p) return *p ? m[1] : m[2];
  return when(m[1] == m[2], m[1]);
}

R select_swapped(M m) {
  if (!made_by(m[0], Op::bitwise_not)) return {};
  return m.graph.add(Op::select, {operand(m[0]), m[2], m[1]});
}

R select_is_predicate(M m) {
  if (!(m[0].type() == m.type()) || truth(m[1]) != true || truth(m[2]) != false) return {};
  return m[0];
}

constexpr Rule kRules[] = {
    {Op::abs, repeated},
    {Op::abs, [](M m) -> R { return made_by(m[0], Op::neg) ? unary(m, Op::abs, operand(m[0])) : R(); }},
    {Op::neg, undone},
    {Op::bitwise_not, undone},
    {Op::sign, repeated},
    {Op::floor, already_whole},
    {Op::ceil, already_whole},
    {Op::round, already_whole},

    {Op::add, [](M m) -> R { return beside(m, is_minus_zero); }},
    {Op::add,
     [](M m) -> R { return made_by(m[1], Op::neg) ? binary(m, Op::sub, m[0], operand(m[1])) : R(); }},
    {Op::add,
     [](M m) -> R { return made_by(m[0], Op::neg) ? binary(m, Op::sub, m[1], operand(m[0])) : R(); }},
    {Op::sub, [](M m) -> R { return when(is_zero(m[1]), m[0]); }},
    {Op::sub,
     [](M m) -> R { return made_by(m[1], Op::neg) ? binary(m, Op::add, m[0], operand(m[1])) : R(); }},
    {Op::sub, [](M m) -> R { return fill_if(integers(m) && same(m), m, 0); }},
    {Op::mul, [](M m) -> R { return beside(m, is_one); }},
    {Op::mul, [](M m) -> R { return fill_if(integers(m) && (is_zero(m[0]) || is_zero(m[1])), m, 0); }},
    {Op::mul,
     [](M m) -> R {
       const Value x = beside(m, is_minus_one);
       return x.valid() ? unary(m, Op::neg, x) : R();
     }},
    {Op::div, [](M m) -> R { return when(is_one(m[1]), m[0]); }},
    {Op::rem, [](M m) -> R { return fill_if(integers(m) && is_one(m[1]), m, 0); }},
    {Op::pow, [](M m) -> R { return when(is_one(m[1]), m[0]); }},
    // As in C, 1 even for NaN.
    {Op::pow, [](M m) -> R { return fill_if(is_zero(m[1]) || is_minus_zero(m[1]) || is_one(m[0]), m, 1); }},
    {Op::max, itself_with_itself},
    {Op::max, [](M m) -> R { return beside(m, is_lowest); }},
    {Op::min, itself_with_itself},
    {Op::min, [](M m) -> R { return beside(m, is_highest); }},
    {Op::clamp, [](M m) -> R { return when(is_lowest(m[0]) && is_highest(m[2]), m[1]); }},

    {Op::bitwise_and, itself_with_itself},
    {Op::bitwise_and, [](M m) -> R { return beside(m, is_all_ones); }},
    {Op::bitwise_and, [](M m) -> R { return fill_if(is_no_bits(m[0]) || is_no_bits(m[1]), m, 0); }},
    {Op::bitwise_or, itself_with_itself},
    {Op::bitwise_or, [](M m) -> R { return beside(m, is_no_bits); }},
    {Op::bitwise_or, [](M m) -> R { return when(is_all_ones(m[1]), m[1]); }},
    {Op::bitwise_or, [](M m) -> R { return when(is_all_ones(m[0]), m[0]); }},
    {Op::bitwise_xor, [](M m) -> R { return fill_if(same(m), m, 0); }},
    {Op::bitwise_xor, [](M m) -> R { return beside(m, is_no_bits); }},
    {Op::bitwise_xor,
     [](M m) -> R {
       const Value x = beside(m, is_all_ones);
       return x.valid() ? unary(m, Op::bitwise_not, x) : R();
     }},
    {Op::shift_left, unless_shifted},
    {Op::shift_right, unless_shifted},
    {Op::shift_right_logical, unless_shifted},

    {Op::less, never},
    {Op::greater, never},
    {Op::not_equal, never_but_nan},
    {Op::equal, always_but_nan},
    {Op::less_equal, always_but_nan},
    {Op::greater_equal, always_but_nan},

    {Op::select, select_known},
    {Op::select, select_swapped},
    {Op::select, select_is_predicate},
    {Op::convert, [](M m) -> R { return when(m[0].type() == m.type(), m[0]); }},
    {Op::convert, convert_chain},
    {Op::bitcast, [](M m) -> R { return when(m[0].type() == m.type(), m[0]); }},
    {Op::bitcast, bitcast_chain},
};

}  // namespace

std::span<const Rule> elementwise_rules() { return kRules; }

}  // namespace systole::passes
