#include "backend/patterns/convolution_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace systole::patterns {

namespace {

using ir::Op;
using ir::ValueId;
using Kind = ConvolutionWork::Kind;

class Reader {
 public:
  Reader(const lower::Region& region, ConvolutionWork& out)
      : graph_(region.graph), last_{region.anchor, 0}, out_(out) {}

  std::string read() {
    for (std::int32_t i = last_.node + 1; i < graph_.size(); ++i)
      if (std::string reason = read(i); !reason.empty()) return reason;
    if (graph_.outputs().size() != 1) return "more than the last of the work on the result is wanted";
    if (!(graph_.outputs()[0].value == last_)) return "something else is wanted";
    out_.output = graph_.type(last_).dtype;
    return {};
  }

 private:
  const Type& type(ValueId v) const { return graph_.type(v); }
  const ir::Node& node(ValueId v) const { return graph_.node(v.node); }

  std::string read(std::int32_t i) {
    const ir::Node& n = graph_.node(i);
    const auto uses = static_cast<std::size_t>(std::count(n.operands.begin(), n.operands.end(), last_));
    if (uses == 0 && n.op != Op::select) {
      const bool is_moved = n.op == Op::broadcast || n.op == Op::reshape || n.op == Op::convert;
      if (n.op == Op::constant || n.op == Op::input || is_moved) return {};  // read where it is used
      return unknown(n);
    }
    switch (n.op) {
      case Op::convert: return converted(i);
      case Op::add: return uses == 1 ? sum(i) : unknown(n);
      case Op::max: return uses == 1 && is_zero(other(n)) ? relu(i) : unknown(n);
      case Op::less_equal:
        if (!(n.operands[0] == last_) || !is_zero(n.operands[1])) return unknown(n);
        mask_ = ValueId{i, 0};
        return {};
      case Op::select:
        if (!mask_ || !(n.operands[0] == *mask_) || !is_zero(n.operands[1]) || !(n.operands[2] == last_))
          return unknown(n);
        return relu(i);
      default: return unknown(n);
    }
  }

  static std::string unknown(const ir::Node& n) {
    return fmt::format("no {} in the work on the result", ir::name(n.op));
  }

  ValueId other(const ir::Node& n) const { return n.operands[n.operands[0] == last_ ? 1 : 0]; }

  std::string converted(std::int32_t i) {
    const DType dtype = graph_.node(i).types[0].dtype;
    if (dtype != DType::f32 && dtype != DType::bf16 && dtype != DType::f16)
      return fmt::format("no {} on the result", systole::name(dtype));
    last_ = {i, 0};
    return {};
  }

  std::string relu(std::int32_t i) {
    out_.steps.push_back({Kind::relu, 0, DType::f32});
    last_ = {i, 0};
    mask_.reset();
    return {};
  }

  std::string sum(std::int32_t i) {
    const ValueId v = other(graph_.node(i));
    if (node(v).op == Op::input) {
      out_.steps.push_back({Kind::add, position(v), type(v).dtype});
    } else if (const std::optional<ValueId> bias = bias_of(v)) {
      out_.steps.push_back({Kind::bias, position(*bias), type(*bias).dtype});
    } else {
      return "what is added is neither an array nor a bias of the channels";
    }
    last_ = {i, 0};
    return {};
  }

  std::size_t position(ValueId v) const {
    return static_cast<std::size_t>(std::find(graph_.inputs().begin(), graph_.inputs().end(), v.node) -
                                    graph_.inputs().begin());
  }

  // The array whose elements the last axis of `v` repeats; it may have axes of size 1 before it.
  std::optional<ValueId> bias_of(ValueId v) const {
    const auto rank = static_cast<std::int64_t>(type(v).shape.rank());
    const Dim channels = type(v).shape[static_cast<std::size_t>(rank - 1)];
    const auto is_row = [&](ValueId row) {
      const Shape& shape = type(row).shape;
      return shape.rank() > 0 && shape.count() == channels.value() &&
             shape[static_cast<std::size_t>(shape.rank() - 1)] == channels;
    };
    if (node(v).op == Op::convert) v = node(v).operands[0];
    if (node(v).op != Op::broadcast || node(v).as<ir::BroadcastAttrs>().axes.empty()) return std::nullopt;
    if (node(v).as<ir::BroadcastAttrs>().axes.back() != rank - 1) return std::nullopt;
    for (v = node(v).operands[0]; node(v).op == Op::reshape || node(v).op == Op::convert;
         v = node(v).operands[0])
      if (!is_row(v)) return std::nullopt;
    if (node(v).op != Op::input || type(v).shape.count() != channels.value()) return std::nullopt;
    return v;
  }

  bool is_zero(ValueId v) const {
    while (node(v).op == Op::broadcast || node(v).op == Op::reshape || node(v).op == Op::convert)
      v = node(v).operands[0];
    if (node(v).op != Op::constant) return false;
    const auto bytes = node(v).as<ir::ConstantAttrs>().value.as_bytes();
    return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
  }

  const ir::Graph& graph_;
  ValueId last_;
  std::optional<ValueId> mask_;  // where the last is at most 0
  ConvolutionWork& out_;
};

}  // namespace

std::string_view name(ConvolutionWork::Kind kind) {
  switch (kind) {
    case Kind::bias: return "bias";
    case Kind::add: return "add";
    case Kind::relu: return "relu";
  }
  return "?";
}

std::string ConvolutionWork::text() const {
  std::string text;
  for (const Step& step : steps) {
    text += patterns::name(step.kind);
    if (step.kind != Kind::relu) text += fmt::format(".{}", systole::name(step.dtype));
    text += ' ';
  }
  return text + std::string(systole::name(output));
}

std::string read_work(const lower::Region& region, ConvolutionWork& out) {
  return Reader(region, out).read();
}

}  // namespace systole::patterns
