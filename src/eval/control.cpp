// scan, while_loop, cond and calls of bodies. A loop hands the carries over from step to step, so that a body
// that updates part of a carry does so in place.

#include <cstring>
#include <iterator>
#include <utility>

#include "eval/plan.h"

namespace systole::eval {

namespace {

using ir::Node;

bool holds(const Literal& predicate) { return predicate.bytes()[0] != std::byte{0}; }

Results taken(const Operands& x, std::size_t first, std::size_t end) {
  Results values;
  values.reserve(end - first);
  for (std::size_t i = first; i < end; ++i) values.push_back(x.take(i));
  return values;
}

// Element i along axis 0, in storage of its own.
Literal row_of(const Literal& x, const Type& type, std::int64_t i) {
  Literal out = Literal::uninitialized(type);
  if (out.byte_size() != 0)
    std::memcpy(out.mutable_bytes(), x.bytes() + static_cast<std::size_t>(i) * out.byte_size(),
                out.byte_size());
  return out;
}

}  // namespace

Results scan(const Node& node, const Operands& x, const Context& context) {
  const auto& a = node.as<ir::ScanAttrs>();
  const ir::Graph& body = *node.graphs[0];
  const std::int64_t length = a.length.value();
  const auto carries = static_cast<std::size_t>(a.carries),
             first_constant = carries + static_cast<std::size_t>(a.xs);
  Results carry = taken(x, 0, carries);
  Results stacked;
  for (std::size_t i = carries; i < node.types.size(); ++i)
    stacked.push_back(Literal::uninitialized(node.types[i]));
  for (std::int64_t step = 0; step < length; ++step) {
    const std::int64_t at = a.reverse ? length - 1 - step : step;
    Results arguments = std::move(carry);
    arguments.reserve(x.size());
    for (std::size_t i = carries; i < x.size(); ++i)
      arguments.push_back(i < first_constant ? row_of(x[i], body.input_type(i), at) : x[i]);
    Results results = context.bodies[0]->run(std::move(arguments), context.group);
    for (std::size_t i = 0; i < stacked.size(); ++i) {
      const Literal& row = results[carries + i];
      if (row.byte_size() != 0)
        std::memcpy(stacked[i].mutable_bytes() + static_cast<std::size_t>(at) * row.byte_size(), row.bytes(),
                    row.byte_size());
    }
    results.resize(carries);
    carry = std::move(results);
  }
  carry.insert(carry.end(), std::make_move_iterator(stacked.begin()), std::make_move_iterator(stacked.end()));
  return carry;
}

Results while_loop(const Node& node, const Operands& x, const Context& context) {
  const auto carries = static_cast<std::size_t>(node.as<ir::WhileAttrs>().carries);
  Results values = taken(x, 0, x.size());
  const Results constants(values.begin() + static_cast<std::ptrdiff_t>(carries), values.end());
  while (holds(context.bodies[0]->run(values, context.group)[0])) {
    values = context.bodies[1]->run(std::move(values), context.group);
    values.insert(values.end(), constants.begin(), constants.end());
  }
  values.resize(carries);
  return values;
}

Results cond(const Operands& x, const Context& context) {
  const Plan& branch = *context.bodies[holds(x[0]) ? 0 : 1];
  return branch.run(taken(x, 1, x.size()), context.group);
}

Results call(const Operands& x, const Context& context) {
  return context.bodies[0]->run(taken(x, 0, x.size()), context.group);
}

}  // namespace systole::eval
