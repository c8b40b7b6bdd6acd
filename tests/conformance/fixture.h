#pragma once

// A fixture: the graph of one row of the conformance table with its arguments and expected results, as
// make_fixtures.py wrote them. Arrays go by the names of the graph's inputs and outputs.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "systole/base/literal.h"
#include "systole/ir/graph.h"

namespace systole::conformance {

// What one output must be. Stored in the output's own dtype, it is exact; stored as f64, it holds within
// c·eps·scale, the scale being the magnitude of the value unless it is given.
struct Expected {
  Literal value;
  std::optional<Literal> scale;
  bool exact;
};

struct Fixture {
  std::string name;
  ir::Graph graph;
  std::vector<std::vector<Literal>> arguments;  // per device, per input
  std::vector<std::vector<Expected>> expected;  // per device, per output
};

std::vector<std::string> fixture_names();  // sorted
Fixture load_fixture(const std::string& name);

// The graph with its symbols' values, whose outputs have the types the results must have.
ir::Graph bound_graph(const Fixture& fixture);

// The array under the dtype it stands for: NumPy has no bf16 and no 8-bit floats, so these are stored as u16
// and u8. Throws kDType for every other difference.
Literal in_dtype(const Literal& array, DType dtype);

// The row's primitive or composite, as its nodes name it.
bool is_of_row(const ir::Node& node, std::string_view row);

// The c of the row's op; throws kNotFound for a fixture of no known op.
double row_tolerance(std::string_view row);

}  // namespace systole::conformance
