#include "compile/match.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace systole::passes {

namespace {

// The element as a scalar when all elements have the same bits.
std::optional<Literal> uniform(const Literal& value) {
  const std::size_t width = size_of(value.dtype());
  if (value.count() == 0) return std::nullopt;
  const std::byte* bytes = value.bytes();
  // Equal to itself one element further on: every element equals the first.
  if (std::memcmp(bytes, bytes + width, value.byte_size() - width) != 0) return std::nullopt;
  return Literal::copy_of({value.dtype(), {}}, {bytes, width});
}

// Larger constants of equal elements are scalar broadcasts once simplified, so looking through the bytes of
// one at each of its uses would find nothing.
constexpr std::int64_t kMaxSearched = 1024;

bool keeps_splats(Op op) {
  return op == Op::broadcast || op == Op::reshape || op == Op::transpose || op == Op::slice ||
         op == Op::reverse;
}

// Whether the splat is T's `number`; false for a value that is no splat and for bool.
template <class F>
bool holds(Value v, F&& test) {
  const std::optional<Literal> element = splat(v);
  if (!element) return false;
  return visit_dtype(element->dtype(), [&]<class T>() { return test(element->item<T>()); });
}

template <class T>
constexpr bool kIsInteger = std::is_integral_v<T> && !std::is_same_v<T, bool>;

}  // namespace

const Literal* constant(Value v) {
  return made_by(v, Op::constant) ? &maker(v).as<ir::ConstantAttrs>().value : nullptr;
}

std::optional<Literal> splat(Value v) {
  // Simplified graphs have short chains; a bound keeps hostile ones from costing their length at every use.
  for (int i = 0; i < 8 && keeps_splats(maker(v).op) && maker(v).shardings.empty(); ++i) v = operand(v);
  const Literal* literal = constant(v);
  return literal == nullptr || literal->count() > kMaxSearched ? std::nullopt : uniform(*literal);
}

bool is_splat_of(Value v, double number) {
  return holds(v, [&]<class T>(T x) {
    if constexpr (std::is_same_v<T, bool>) return false;
    const double value = static_cast<double>(x);
    return value == number && (kIsInteger<T> || std::signbit(value) == std::signbit(number));
  });
}

bool is_zero(Value v) { return is_splat_of(v, 0.0); }
bool is_minus_zero(Value v) { return is_splat_of(v, -0.0); }
bool is_one(Value v) { return is_splat_of(v, 1); }
bool is_minus_one(Value v) { return is_splat_of(v, -1); }

bool is_no_bits(Value v) {
  return holds(v, []<class T>(T x) {
    if constexpr (std::is_integral_v<T>) return x == T{};
    return false;
  });
}

bool is_all_ones(Value v) {
  return holds(v, []<class T>(T x) {
    if constexpr (std::is_same_v<T, bool>) return x;
    if constexpr (kIsInteger<T>) return x == static_cast<T>(-1);
    return false;
  });
}

bool is_lowest(Value v) {
  return holds(v, []<class T>(T x) {
    if constexpr (kIsInteger<T>) return x == std::numeric_limits<T>::min();
    return static_cast<double>(x) == -std::numeric_limits<double>::infinity();
  });
}

bool is_highest(Value v) {
  return holds(v, []<class T>(T x) {
    if constexpr (kIsInteger<T>) return x == std::numeric_limits<T>::max();
    return static_cast<double>(x) == std::numeric_limits<double>::infinity();
  });
}

std::optional<bool> truth(Value v) {
  if (v.dtype() != DType::boolean) return std::nullopt;
  const std::optional<Literal> element = splat(v);
  return element ? std::optional<bool>(element->item<bool>()) : std::nullopt;
}

std::optional<std::int64_t> integer(Value v) {
  const std::optional<Literal> element = splat(v);
  if (!element || !is_integer(v.dtype())) return std::nullopt;
  return visit_dtype(v.dtype(), [&]<class T>() -> std::int64_t {
    if constexpr (std::is_same_v<T, std::uint64_t>)
      return static_cast<std::int64_t>(
          std::min<T>(element->item<T>(), std::numeric_limits<std::int64_t>::max()));
    else
      return static_cast<std::int64_t>(element->item<T>());
  });
}

Value filled(Graph& graph, const Literal& element, const Shape& shape) {
  const Value scalar = graph.constant(element);
  return shape.empty() ? scalar : graph.add(Op::broadcast, {scalar}, ir::BroadcastAttrs{shape, {}});
}

Value filled(const Match& match, double number) {
  return filled(match.graph, Literal::full({match.type().dtype, {}}, number), match.type().shape);
}

Value compact_constant(Graph& graph, const Literal& value) {
  const std::optional<Literal> element = value.count() == 1 ? std::nullopt : uniform(value);
  return element ? filled(graph, *element, value.shape()) : graph.constant(value);
}

}  // namespace systole::passes
