#include "compile/domain.h"

#include <algorithm>

#include <fmt/format.h>

namespace systole::lower {

namespace {

Domain collapsed(const Shape& shape, const std::vector<bool>& reduced) {
  Domain domain;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::int64_t size = shape[i].value();
    if (size == 1) continue;
    if (!domain.axes.empty() && domain.axes.back().reduced == reduced[i])
      domain.axes.back().size *= size;
    else
      domain.axes.push_back({size, reduced[i]});
  }
  return domain;
}

}  // namespace

std::int64_t Domain::full_count() const {
  std::int64_t count = 1;
  for (const Axis& axis : axes) count *= axis.size;
  return count;
}

std::int64_t Domain::row_count() const {
  std::int64_t count = 1;
  for (const Axis& axis : axes) count *= axis.reduced ? 1 : axis.size;
  return count;
}

std::string Domain::to_string() const {
  std::string text;
  for (const Axis& axis : axes)
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", axis.reduced ? "*" : "", axis.size);
  return "[" + text + "]";
}

Domain domain_of_reduction(const Shape& operand, const Ints& axes) {
  std::vector<bool> reduced(operand.size(), false);
  for (const std::int64_t axis : axes) reduced[static_cast<std::size_t>(axis)] = true;
  return collapsed(operand, reduced);
}

std::optional<Domain> domain_of_broadcast(const Shape& operand, const ir::BroadcastAttrs& attrs) {
  std::vector<bool> repeated(attrs.shape.size(), true);
  for (std::size_t i = 0; i < attrs.axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(attrs.axes[i]);
    repeated[axis] = operand[i].value() == 1 && attrs.shape[axis].value() != 1;
  }
  Domain domain = collapsed(attrs.shape, repeated);
  for (const Domain::Axis& axis : domain.axes)
    if (axis.reduced) return domain;
  return std::nullopt;
}

std::int64_t row_chunks(const Domain& domain, bool for_cores) {
  const std::int64_t rows = domain.row_count(), points = rows > 0 ? domain.full_count() / rows : 0;
  if (for_cores) {
    constexpr std::int64_t kParts = 64, kWorthAPart = 8192;  // points of all rows that are done together
    if (domain.axes.empty() || points <= 1) return 1;
    const std::int64_t together = domain.axes.back().reduced ? 1 : 64,
                       groups = (rows + together - 1) / together;
    return std::max<std::int64_t>(std::min(kParts / groups, domain.full_count() / groups / kWorthAPart), 1);
  }
  constexpr std::int64_t kGroups = 512, kManyPoints = 4096;
  if (domain.axes.empty() || points < kManyPoints) return 1;
  const bool has_whole_rows = domain.axes.back().reduced;  // a group: of neighbours otherwise
  const std::int64_t neighbours = has_whole_rows ? 1 : 128, least = has_whole_rows ? 1024 : 64;
  const std::int64_t groups = (rows + neighbours - 1) / neighbours;
  return std::max<std::int64_t>(std::min(kGroups / groups, points / least), 1);
}

std::vector<int> stages(const ir::Graph& region) {
  std::vector<int> stage(static_cast<std::size_t>(region.size()), 1);
  for (std::int32_t i = 0; i < region.size(); ++i)
    for (const ir::ValueId v : region.node(i).operands) {
      const int known =
          stage[static_cast<std::size_t>(v.node)] + (region.node(v.node).op == ir::Op::reduce ? 1 : 0);
      stage[static_cast<std::size_t>(i)] = std::max(stage[static_cast<std::size_t>(i)], known);
    }
  return stage;
}

}  // namespace systole::lower
