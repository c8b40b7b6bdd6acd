#pragma once

// The tables of simplification rules. A rule is one to five lines and keeps every bit of every result for
// every input: -0, infinities, NaN (its payload aside) and integer wrap included. The first rule of an op
// that applies wins and its result is simplified in turn, so a rule must make the graph smaller or a form
// plainer, never the reverse.

#include <span>

#include "compile/match.h"

namespace systole::passes {

std::span<const Rule> elementwise_rules();
std::span<const Rule> movement_rules();
std::span<const Rule> control_rules();

}  // namespace systole::passes
