// The suite's own completeness: every op and composite has fixtures of every kind, and no tolerance is too
// wide.

#include <fmt/format.h>
#include <algorithm>
#include <map>
#include <set>

#include "conformance.h"
#include "fixture.h"
#include "systole/ir/composite.h"
#include "systole/ir/op.h"
#include "systole/runtime.h"

namespace systole::conformance {

namespace {

constexpr std::size_t kLeastCases = 3;

bool is_odd_prime(std::int64_t n) {
  if (n < 3 || n % 2 == 0) return false;
  for (std::int64_t d = 3; d * d <= n; d += 2)
    if (n % d == 0) return false;
  return true;
}

// Odd in number, with an axis whose size no vector width divides.
bool is_prime_shape(const Shape& shape) {
  const Ints dims = shape.dims();
  return shape.count() % 2 == 1 && std::any_of(dims.begin(), dims.end(), is_odd_prime);
}

// What the cases of a row show of its op.
struct Coverage {
  std::set<std::string> cases;
  std::set<DType> dtypes;
  bool empty = false, prime = false;
};

// Types that show a dtype: all operands but a predicate, or the results of an op without operands.
std::vector<Type> subject_types(const ir::Graph& graph, const ir::Node& node) {
  std::vector<Type> types;
  const bool has_predicate = node.op == ir::Op::select || node.op == ir::Op::cond;
  for (std::size_t i = has_predicate ? 1 : 0; i < node.operands.size(); ++i)
    types.push_back(graph.type(node.operands[i]));
  return types.empty() ? node.types : types;
}

Coverage coverage_of(const std::string& row) {
  Coverage coverage;
  const Fixture fixture = load_fixture(row);
  for (const ir::Node& node : fixture.graph.nodes()) {
    if (!is_of_row(node, row)) continue;
    const std::string name = node.debug && !node.debug->names.empty() ? node.debug->names[0] : "";
    coverage.cases.insert(name.substr(0, name.find('.')));
    std::vector<Type> types = subject_types(fixture.graph, node);
    for (const Type& type : types) coverage.dtypes.insert(type.dtype);
    types.insert(types.end(), node.types.begin(), node.types.end());
    for (const Type& type : types) {
      coverage.empty |= type.shape.count() == 0;
      coverage.prime |= is_prime_shape(type.shape);
    }
  }
  return coverage;
}

void expect_covered(const std::string& row, DTypeSet dtypes, const std::vector<std::string>& fixtures) {
  if (!std::binary_search(fixtures.begin(), fixtures.end(), row)) {
    ADD_FAILURE() << row << " has no fixture; add it to generate/ and run make_fixtures.py";
    return;
  }
  const Coverage coverage = coverage_of(row);
  EXPECT_GE(coverage.cases.size(), kLeastCases) << row;
  // device_index and dimension have no operand and give a scalar: their cases vary the mesh and the sizes.
  const bool has_shapes = row != ir::name(ir::Op::device_index) && row != ir::name(ir::Op::dimension);
  EXPECT_TRUE(coverage.empty || !has_shapes) << row << " has no case with an empty shape";
  EXPECT_TRUE(coverage.prime || !has_shapes) << row << " has no case with a prime shape";
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_TRUE(!dtypes.contains(dtype) || coverage.dtypes.contains(dtype))
        << row << " has no case of " << name(dtype);
  }
}

}  // namespace

TEST_F(Conformance, EveryOpHasFixtures) {
  const std::vector<std::string> fixtures = fixture_names();
  for (const ir::OpInfo& op : ir::all_ops())
    if (op.op != ir::Op::input) expect_covered(std::string(op.name), op.dtypes, fixtures);
  for (const ir::CompositeDef* composite : ir::all_composites())
    expect_covered(composite->name, composite->dtypes, fixtures);
}

TEST_F(Conformance, EveryFixtureBelongsToAnOp) {
  for (const std::string& row : fixture_names()) EXPECT_NO_THROW(row_tolerance(row)) << row;
}

TEST_F(Conformance, NoToleranceIsTooWide) {
  for (const ir::OpInfo& op : ir::all_ops()) {
    const bool arithmetic =
        op.op == ir::Op::add || op.op == ir::Op::sub || op.op == ir::Op::mul || op.op == ir::Op::div;
    EXPECT_LE(op.tolerance, arithmetic || op.op_class == ir::OpClass::contraction ? 4 : 16) << op.name;
  }
  for (const ir::CompositeDef* composite : ir::all_composites())
    EXPECT_LE(composite->tolerance, 16) << composite->name;
}

TEST_F(Conformance, ReferenceRefusesOnlyKernelCallsWithoutABody) {
  const runtime::Backend& reference = runtime::backend("reference");
  for (const ir::OpInfo& op : ir::all_ops())
    EXPECT_TRUE(op.op == ir::Op::kernel_call || reference.refusal(op.op).empty()) << op.name;
}

}  // namespace systole::conformance
