// scan, while_loop and cond. A loop plans its body once and hands the carries over from step to step, so that
// a body that updates part of a carry does so in place.

#include <cstring>
#include <iterator>
#include <utility>

#include "eval/plan.h"
#include "eval/wide.h"

namespace systole::eval {

namespace {

using ir::Node;

bool holds(const Literal& predicate) { return predicate.bytes()[0] != std::byte{0}; }

// Element i along axis 0, in storage of its own.
Literal row_of(const Literal& x, std::int64_t i) {
  const Shape shape(std::span<const Dim>(x.shape().begin() + 1, x.shape().end()));
  Literal out = Literal::uninitialized({x.dtype(), shape});
  if (out.byte_size() != 0)
    std::memcpy(out.mutable_bytes(), x.bytes() + static_cast<std::size_t>(i) * out.byte_size(),
                out.byte_size());
  return out;
}

}  // namespace

Results scan(const Node& node, Operands x, Group* group) {
  const auto& a = node.as<ir::ScanAttrs>();
  const Plan body(*node.graphs[0]);
  const std::int64_t length = a.length.value();
  const auto carries = static_cast<std::size_t>(a.carries),
             first_constant = carries + static_cast<std::size_t>(a.xs);
  Results carry(std::make_move_iterator(x.begin()), std::make_move_iterator(x.begin() + a.carries));
  Results stacked;
  for (std::size_t i = carries; i < node.types.size(); ++i)
    stacked.push_back(Literal::uninitialized(node.types[i]));
  for (std::int64_t step = 0; step < length; ++step) {
    const std::int64_t at = a.reverse ? length - 1 - step : step;
    Operands arguments = std::move(carry);
    for (std::size_t i = carries; i < x.size(); ++i)
      arguments.push_back(i < first_constant ? row_of(x[i], at) : x[i]);
    Results results = body.run(std::move(arguments), group);
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

Results while_loop(const Node& node, Operands x, Group* group) {
  const auto carries = node.as<ir::WhileAttrs>().carries;
  const Plan condition(*node.graphs[0]), body(*node.graphs[1]);
  const Operands constants(x.begin() + carries, x.end());
  while (holds(condition.run(x, group)[0])) {
    x = body.run(std::move(x), group);
    x.insert(x.end(), constants.begin(), constants.end());
  }
  x.resize(static_cast<std::size_t>(carries));
  return x;
}

Results cond(const Node& node, Operands x, Group* group) {
  const ir::Graph& branch = *node.graphs[holds(x[0]) ? 0 : 1];
  x.erase(x.begin());
  return Plan(branch).run(std::move(x), group);
}

}  // namespace systole::eval
