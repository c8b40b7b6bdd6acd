#pragma once

// Where the gradients of a row are checked: at the cases of its fixture, made f64, and a few written here, at
// points away from kinks and ties; or why the row has none.

#include <optional>
#include <string>
#include <vector>

#include "systole/base/literal.h"
#include "systole/ir/graph.h"

namespace systole::conformance {

struct GradientCase {
  std::string name;
  ir::Graph graph;
  std::vector<std::vector<Literal>> arguments;  // per device, per input
};

// One graph for each case with float operands that is neither empty nor large.
std::vector<GradientCase> gradient_cases(const std::string& row);

enum class GradientKind {
  kFull,
  kZero,            // differentiable, and 0 wherever it is
  kForwardOnly,     // jvp has a rule, vjp refuses
  kRefused,         // vjp refuses
  kNoFloatOperand,  // nothing to differentiate by
  kNoFloatResult,   // nothing to differentiate
};

struct GradientRow {
  GradientKind kind = GradientKind::kFull;
  std::string why;        // of every kind but kFull; part of the message where vjp refuses
  bool twice = false;     // the second derivative is checked too
  std::string sometimes;  // part of the message for cases that vjp refuses although others have a gradient
};
GradientRow gradient_row(const std::string& row);

// Every row that gradient_row says something special about.
std::vector<std::string> special_gradient_rows();

}  // namespace systole::conformance
