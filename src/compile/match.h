#pragma once

// What rules look at: the node under rewriting, its operands in the new graph, and questions about where a
// value comes from. A value whose node carries a sharding counts as coming from nowhere, so that no rule
// reaches around it.

#include <cstdint>
#include <optional>
#include <utility>

#include "systole/base/literal.h"
#include "systole/ir/graph.h"

namespace systole::passes {

using ir::Graph;
using ir::Op;
using ir::Value;
using ir::Values;

// A node and its operands in `graph`, where replacements are built. node.operands may be ids of another
// graph.
struct Match {
  Graph& graph;
  const ir::Node& node;
  const Values& operands;

  Value operator[](std::size_t i) const { return operands[i]; }
  const Type& type() const { return node.types[0]; }
  template <class A>
  const A& attrs() const {
    return node.as<A>();
  }
};

// What stands in the node's place: one value per result, or nothing when the rule does not apply.
struct Replacement {
  Values values;
  Replacement() = default;
  Replacement(Value value) {  // NOLINT: an invalid value means that the rule does not apply
    if (value.valid()) values = {value};
  }
  Replacement(Values v) : values(std::move(v)) {}  // NOLINT: as above
};

struct Rule {
  Op op;
  Replacement (*apply)(const Match&);
};

inline const ir::Node& maker(Value v) { return v.graph().node(v.id().node); }
inline bool made_by(Value v, Op op) { return maker(v).op == op && maker(v).shardings.empty(); }
inline Value operand(Value v, std::size_t i = 0) { return v.graph().value(maker(v).operands[i]); }

// The literal of a constant.
const Literal* constant(Value v);

// The one element that fills a value: a constant of equal elements, moved and broadcast in any way.
std::optional<Literal> splat(Value v);
bool is_splat_of(Value v, double number);  // tells -0 from +0
bool is_zero(Value v);                     // +0 for floats
bool is_minus_zero(Value v);               // for integers: 0
bool is_one(Value v);
bool is_minus_one(Value v);  // of signed types
bool is_no_bits(Value v);    // integer 0 or false
bool is_all_ones(Value v);   // every bit of an integer set, or true
bool is_lowest(Value v);     // -inf, the smallest integer
bool is_highest(Value v);
std::optional<bool> truth(Value v);            // of a bool splat
std::optional<std::int64_t> integer(Value v);  // of an integer splat; beyond 64 bits the largest i64

// `element`, a scalar, in every place of `shape`.
Value filled(Graph& graph, const Literal& element, const Shape& shape);
Value filled(const Match& match, double number);  // of the node's type
// A constant, as filled() when all its elements are equal.
Value compact_constant(Graph& graph, const Literal& value);

}  // namespace systole::passes
