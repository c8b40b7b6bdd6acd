#include "ops/composites/common.h"

#include <fmt/format.h>
#include <utility>

namespace systole::ops {

Values composite(std::string_view name, ValueList operands, ir::AttrMap attrs) {
  graph_of(name, operands);
  return ir::add_composite(name, operands, std::move(attrs));
}

Operands::Operands(const Values& values, std::size_t wanted) : values_(values) {
  if (values.size() != wanted)
    refuse(ErrorKind::kInvalidArgument, "wrong number of operands", std::to_string(wanted));
}

void Operands::refuse(ErrorKind kind, std::string message, std::string expected) const {
  std::string got = values_.empty() ? "none" : "operands";
  for (std::size_t i = 0; i < values_.size(); ++i) got += (i ? ", " : " ") + values_[i].type().to_string();
  throw Error(kind, {}, std::move(message), std::move(expected), std::move(got));
}

void Operands::check_rank(std::size_t operand, int rank) const {
  if (values_[operand].rank() != rank)
    refuse(ErrorKind::kShape, fmt::format("operand {} has the wrong rank", operand), std::to_string(rank));
}

void Operands::check_shape(std::size_t operand, const Shape& shape) const {
  if (!(values_[operand].shape() == shape))
    refuse(ErrorKind::kShape, fmt::format("operand {} has the wrong shape", operand), shape.to_string());
}

void Operands::check_dtype(std::size_t operand, DTypeSet allowed) const {
  if (!allowed.contains(values_[operand].dtype()))
    refuse(ErrorKind::kDType, fmt::format("operand {} has a dtype the composite does not take", operand));
}

void Operands::check_companion(std::size_t operand, const Shape& shape) const {
  const DType own = values_[0].dtype(), computed = compute_dtype(own);
  if (values_[operand].dtype() != own && values_[operand].dtype() != computed)
    refuse(ErrorKind::kDType, fmt::format("operand {} does not go with operand 0", operand),
           own == computed ? std::string(name(own)) : fmt::format("{} or {}", name(own), name(computed)));
  check_shape(operand, shape);
}

std::int64_t Operands::static_size(std::size_t operand, int axis, std::string_view what) const {
  const Dim dim = values_[operand].shape()[static_cast<std::size_t>(axis)];
  if (!dim.is_static()) refuse(ErrorKind::kShape, fmt::format("{} must be known", what), "a number");
  return dim.value();
}

}  // namespace systole::ops
