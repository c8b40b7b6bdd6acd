#include "backend/cpu/onednn_scaling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "backend/patterns/pointwise.h"
#include "backend/patterns/product.h"
#include "compile/strided.h"

namespace systole::cpu {

namespace {

using ir::Op;
using ir::ValueId;
using Kind = Scaling::Kind;
using Step = Scaling::Step;

// Factors and divisors up to this, and sums of 2^31, stay finite when there are this many.
constexpr float kLargest = 1e9f;
constexpr int kMostFactors = 3;

bool is_usual_number(Kind kind, float x) {
  return std::fabs(x) <= kLargest && (kind != Kind::div || std::fabs(x) >= 1 / kLargest);
}

class Reader {
 public:
  Reader(const lower::Region& region, std::int64_t columns, Scaling& out)
      : graph_(region.graph), columns_(columns), last_{region.anchor, 0}, out_(out) {}

  std::string read() {
    for (std::int32_t i = last_.node + 1; i < graph_.size(); ++i)
      if (std::string reason = read(i); !reason.empty()) return reason;
    if (graph_.outputs().size() != 1) return "more than the last of the work on the result is wanted";
    if (!(graph_.outputs()[0].value == last_)) return "something else is wanted";
    out_.output = dtype();
    return {};
  }

 private:
  DType dtype() const { return graph_.type(last_).dtype; }
  static std::string unknown(const ir::Node& n) {
    return "no " + std::string(ir::name(n.op)) + " in the work on the result";
  }

  std::string read(std::int32_t i) {
    const ir::Node& n = graph_.node(i);
    const auto uses = std::count(n.operands.begin(), n.operands.end(), last_);
    if (n.op == Op::select && mask_) return relu(i);
    if (uses == 0) {
      const bool is_moved =
          n.op == Op::broadcast || n.op == Op::reshape || n.op == Op::convert || n.op == Op::constant;
      return is_moved || n.op == Op::input ? std::string() : unknown(n);  // read where it is used
    }
    if (uses > 1) return unknown(n);
    if (n.op == Op::reshape) return take(i);
    if (n.op == Op::convert) return convert(i);
    if (dtype() != DType::f32) return "work on the sums before they are f32";
    const bool is_first = n.operands[0] == last_;
    switch (n.op) {
      case Op::mul:
      case Op::div: return factor(i, is_first);
      case Op::add: return append(i, Kind::add, n.operands[is_first ? 1 : 0]);
      case Op::sub: return is_first ? append(i, Kind::sub, n.operands[1]) : unknown(n);
      case Op::max: return append(i, Kind::max, n.operands[is_first ? 1 : 0]);
      case Op::min: return append(i, Kind::min, n.operands[is_first ? 1 : 0]);
      case Op::clamp: {
        if (!(n.operands[1] == last_)) return unknown(n);
        const ValueId low = n.operands[0], high = n.operands[2];
        if (std::string reason = append(i, Kind::max, low); !reason.empty()) return reason;
        return append(i, Kind::min, high);
      }
      case Op::round:
        is_whole_ = true;
        out_.steps.push_back({});
        return take(i);
      case Op::less_equal: {
        const std::optional<double> bound = patterns::splat_number(graph_, n.operands[1]);
        if (!is_first || !bound || *bound != 0) return unknown(n);
        mask_ = ValueId{i, 0};
        return {};
      }
      default: return unknown(n);
    }
  }

  std::string take(std::int32_t i) {
    last_ = {i, 0};
    return {};
  }

  std::string convert(std::int32_t i) {
    const DType to = graph_.node(i).types[0].dtype;
    if (dtype() == DType::i32 && to == DType::f32) return take(i);
    if (dtype() != DType::f32 || (to != DType::i8 && to != DType::u8))
      return "no " + std::string(systole::name(to)) + " of the result";
    if (!is_whole_) return "the library rounds what is cut off here";
    return take(i);
  }

  // select(x <= 0, 0, x)
  std::string relu(std::int32_t i) {
    const ir::Node& n = graph_.node(i);
    const std::optional<double> zero = patterns::splat_number(graph_, n.operands[1]);
    if (!(n.operands[0] == *mask_) || !zero || *zero != 0 || !(n.operands[2] == last_)) return unknown(n);
    mask_.reset();
    out_.steps.push_back({Kind::max, -1, false, 0});
    return take(i);
  }

  std::string factor(std::int32_t i, bool is_first) {
    const ir::Node& n = graph_.node(i);
    if (n.op == Op::div && !is_first) return unknown(n);
    if (++factors_ > kMostFactors) return "too many factors";
    is_whole_ = false;
    return append(i, n.op == Op::mul ? Kind::mul : Kind::div, n.operands[is_first ? 1 : 0]);
  }

  std::string append(std::int32_t i, Kind kind, ValueId other) {
    Step step{kind, -1, false, 0};
    if (const std::optional<double> number = patterns::splat_number(graph_, other)) {
      step.number = static_cast<float>(*number);
      if (!is_usual_number(kind, step.number)) return "a number of unusual size";
      is_whole_ = is_whole_ && step.number == std::round(step.number);
    } else if (std::string reason = row(other, step); !reason.empty()) {
      return reason;
    } else {
      is_whole_ = false;
    }
    out_.steps.push_back(step);
    return take(i);
  }

  std::string row(ValueId other, Step& step) const {
    const auto is_input = [&](std::int32_t n) { return graph_.node(n).op == Op::input; };
    const std::optional<lower::Strided> view = lower::strided(graph_, other, is_input);
    if (!view || view->offset != 0 || !is_input(view->source.node))
      return "a factor or summand that is computed on the way";
    if (graph_.type(view->source).dtype != DType::f32) return "a factor or summand that is no f32";
    patterns::Pieces pieces;
    for (const patterns::Pieces& axis : view->axes)
      for (const auto& piece : axis)
        if (piece.size != 1 && (piece.stride != 0 || !pieces.empty())) pieces.push_back(piece);
    pieces = patterns::joined(pieces);
    const std::int64_t stored = graph_.type(view->source).shape.count();
    const bool is_one = stored == 1 && pieces.empty();
    step.is_row =
        pieces.size() == 1 && pieces[0].size == columns_ && pieces[0].stride == 1 && stored == columns_;
    if (!is_one && !step.is_row) return "a factor or summand that is neither one nor of the columns";
    step.input = std::find(graph_.inputs().begin(), graph_.inputs().end(), view->source.node) -
                 graph_.inputs().begin();
    return {};
  }

  const ir::Graph& graph_;
  const std::int64_t columns_;
  ValueId last_;
  std::optional<ValueId> mask_;  // where the last is at most 0
  bool is_whole_ = false;        // the last has no fractions
  int factors_ = 0;
  Scaling& out_;
};

const float* array(const Step& step, std::span<std::byte* const> inputs) {
  return reinterpret_cast<const float*>(inputs[static_cast<std::size_t>(step.input)]);
}

float applied(Kind kind, float x, float y) {
  switch (kind) {
    case Kind::mul: return x * y;
    case Kind::div: return x / y;
    case Kind::add: return x + y;
    case Kind::sub: return x - y;
    case Kind::max: return std::isnan(x) || x > y ? x : y;
    case Kind::min: return std::isnan(x) || x < y ? x : y;
    case Kind::round: return std::nearbyint(x);
  }
  return x;
}

template <class T>
T whole(float x) {
  if (std::isnan(x)) return 0;
  constexpr float kLow = std::numeric_limits<T>::lowest(), kHigh = std::numeric_limits<T>::max();
  return static_cast<T>(std::clamp(x, kLow, kHigh));
}

}  // namespace

std::string Scaling::text() const {
  constexpr const char* kNames[] = {"mul", "div", "add", "sub", "max", "min", "round"};
  std::string text;
  for (const Step& step : steps) text += "+" + std::string(kNames[static_cast<int>(step.kind)]);
  if (output != DType::i32) text += "+" + std::string(systole::name(output));
  return text;
}

std::string read_scaling(const lower::Region& region, std::int64_t columns, Scaling& out) {
  return Reader(region, columns, out).read();
}

bool is_usual(const Scaling& scaling, std::int64_t columns, std::span<std::byte* const> inputs) {
  for (const Step& step : scaling.steps) {
    if (step.input < 0) continue;
    const float* const values = array(step, inputs);
    const std::int64_t count = step.is_row ? columns : 1;
    const float least = step.kind == Kind::div ? 1 / kLargest : 0;
    unsigned others = 0;  // counted without branches
    for (std::int64_t i = 0; i < count; ++i) {
      const float size = std::fabs(values[i]);
      others += static_cast<unsigned>(!(size <= kLargest)) | static_cast<unsigned>(!(size >= least));
    }
    if (others > 0) return false;
  }
  return true;
}

void scale(const Scaling& scaling, std::int64_t columns, std::span<const std::int32_t> sums,
           std::span<std::byte* const> inputs, std::byte* out) {
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const auto column = static_cast<std::int64_t>(i) % columns;
    auto x = static_cast<float>(sums[i]);
    for (const Step& step : scaling.steps)
      x = applied(step.kind, x, step.input < 0 ? step.number : array(step, inputs)[step.is_row ? column : 0]);
    switch (scaling.output) {
      case DType::f32: reinterpret_cast<float*>(out)[i] = x; break;
      case DType::i8: reinterpret_cast<std::int8_t*>(out)[i] = whole<std::int8_t>(x); break;
      case DType::u8: reinterpret_cast<std::uint8_t*>(out)[i] = whole<std::uint8_t>(x); break;
      default: break;
    }
  }
}

}  // namespace systole::cpu
