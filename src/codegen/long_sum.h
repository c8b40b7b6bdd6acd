#pragma once

// Sums of many points. One running sum of numbers much smaller than itself goes wrong in proportion to their
// count, where √count is promised: so points are summed in runs, and the runs' sums go to a total that loses
// nothing worth naming. It is a double where there always is one, in C; elsewhere what it cannot hold is not
// dropped.

#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "codegen/writer.h"
#include "systole/ir/graph.h"

namespace systole::codegen {

// The points of a run: of so many, what is lost in the worst case is within √count.
inline constexpr std::int64_t kRun = 256;

// Whether so many points in a row are to be summed in runs.
inline bool is_long_sum(ir::Combine kind, DType dtype, std::int64_t points) {
  return kind == ir::Combine::sum && is_float(dtype) && points > kRun;
}

// Adds what a run has in `sum` to the total. What rounding takes from the total is where the next run begins.
inline void end_run(Writer& w, std::string_view type, const std::string& total, const std::string& sum) {
  w.open("");
  w.line(fmt::format("const {0} next = {1} + {2}, gained = next - {1};", type, total, sum));
  w.line(fmt::format("const {0} lost = ({1} - (next - gained)) + ({2} - gained);", type, total, sum));
  w.line(fmt::format("{} = next;", total));
  w.line(fmt::format("{} = lost == lost ? lost : 0;", sum));  // it is no number after an infinity
  w.close();
}

}  // namespace systole::codegen
