#include "codegen/elements.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "systole/base/error.h"

namespace systole::codegen {

namespace {

using ir::Op;

bool is_small_float(DType dtype) { return is_float(dtype) && size_of(dtype) < 4; }

// The dtype arithmetic is done in.
DType computed(DType dtype) { return is_small_float(dtype) ? DType::f32 : dtype; }

std::string_view unsigned_type(DType dtype) {
  switch (size_of(dtype)) {
    case 8: return "s_u64";
    default: return "s_u32";  // smaller ones would be promoted to signed numbers
  }
}

std::string number(DType dtype, double value) {
  const bool single = computed(dtype) == DType::f32;
  if (std::isnan(value)) return single ? "S_NAN_F32" : "S_NAN_F64";
  if (std::isinf(value)) return fmt::format("{}{}", value < 0 ? "-" : "", single ? "S_INF_F32" : "S_INF_F64");
  std::string text = single ? fmt::format("{:.9g}", value) : fmt::format("{:.17g}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  if (single) text += 'f';
  return value < 0 || std::signbit(value) ? "(" + text + ")" : text;
}

template <class T>
std::uint64_t bits_of(T x) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &x, sizeof x);
  return bits;
}

std::string_view comparison(Op op) {
  switch (op) {
    case Op::equal: return "==";
    case Op::not_equal: return "!=";
    case Op::less: return "<";
    case Op::less_equal: return "<=";
    case Op::greater: return ">";
    case Op::greater_equal: return ">=";
    default: return {};
  }
}

}  // namespace

std::string_view c_type(DType dtype) { return storage_type(computed(dtype)); }

std::string_view storage_type(DType dtype) {
  switch (dtype) {
    case DType::f64: return "double";
    case DType::f32: return "float";
    case DType::f16:
    case DType::bf16:
    case DType::u16: return "s_u16";
    case DType::f8e4m3fn:
    case DType::f8e5m2:
    case DType::u8: return "s_u8";
    case DType::boolean: return "s_bool";
    case DType::i64: return "s_i64";
    case DType::i32: return "s_i32";
    case DType::i16: return "s_i16";
    case DType::i8: return "s_i8";
    case DType::u64: return "s_u64";
    case DType::u32: return "s_u32";
  }
  return "?";
}

std::string Elements::call(std::string_view function, DType dtype,
                           const std::vector<std::string>& arguments) {
  const std::string name = fmt::format("s_{}_{}", function, systole::name(dtype));
  helpers_.insert(name);
  return fmt::format("{}({})", name, fmt::join(arguments, ", "));
}

std::string Elements::to_bits(DType dtype, const std::string& value) {
  return call("convert_f32", dtype, {value});
}
std::string Elements::from_bits(DType dtype, const std::string& bits) {
  return call(fmt::format("convert_{}", systole::name(dtype)), DType::f32, {bits});
}

std::string Elements::rounded(DType dtype, std::string expression) {
  if (!is_small_float(dtype)) return expression;
  return from_bits(dtype, to_bits(dtype, expression));
}

std::string Elements::named(DType dtype, const std::string& expression) {
  const std::string name = writer_.fresh("v");
  writer_.line(fmt::format("const {} {} = {};", c_type(dtype), name, expression));
  return name;
}

// Neighbours of the place along the axis, that begin at a multiple of their count.
bool Elements::are_together(const Index& place) const {
  if (!together_ || conditions_ > 0) return false;
  const auto& [axis, step, count, function] = *together_;
  const auto& terms = place.terms();
  return place.factor(axis) == 1 && place.constant() % count == 0 &&
         std::all_of(terms.begin(), terms.end(), [&](const auto& term) {
           return term.first == axis || (lifted_.contains(term.first) && term.second.factor % count == 0);
         });
}

std::string Elements::load(std::size_t input, const Index& place) {
  loads_.push_back({input, place, conditions_ > 0});
  const std::string at = place.to_string();
  if (are_together(place) && !elsewhere_.contains({input, at})) {
    const auto& [axis, step, count, function] = *together_;
    const Index first = place + Index::variable(axis, 2) * -1 + Index::variable(step, 2) * count;
    const std::string name = writer_.fresh("w");
    writer_.line_at_mark(
        fmt::format("{} {}[{}];", storage_type(graph_.input_type(input).dtype), name, count));
    writer_.line_at_mark(
        fmt::format("{}({}, {} + {});", function(input), name, inputs_[input], first.to_string()));
    read_from(input, place, name + "[j]");
  }
  const auto found = elsewhere_.find({input, at});
  const std::string element =
      found != elsewhere_.end() ? found->second : fmt::format("{}[{}]", inputs_[input], at);
  const DType dtype = graph_.input_type(input).dtype;
  return is_small_float(dtype) && !raw_ ? from_bits(dtype, element) : element;
}

std::string Elements::loaded(ir::ValueId input, const std::string& place) {
  const auto position = static_cast<std::size_t>(
      std::find(graph_.inputs().begin(), graph_.inputs().end(), input.node) - graph_.inputs().begin());
  const DType dtype = graph_.type(input).dtype;
  const std::string element = fmt::format("{}[{}]", inputs_.at(position), place);
  return is_small_float(dtype) ? from_bits(dtype, element) : element;
}

std::string Elements::stored(const std::string& array, const std::string& place, DType dtype) {
  const std::string element = fmt::format("{}[{}]", array, place);
  return is_small_float(dtype) ? from_bits(dtype, element) : element;
}

void Elements::store(const std::string& array, const Index& at, DType dtype, const std::string& value) {
  writer_.line(fmt::format("{}[{}] = {};", array, at.to_string(),
                           is_small_float(dtype) ? to_bits(dtype, value) : value));
}

Elements::Key Elements::key(ir::ValueId v, const Indices& at) {
  std::string place;
  for (const Index& index : at) place += index.to_string() + ",";
  return {v.node, place};
}

void Elements::know_at(ir::ValueId v, const Index& linear, std::string expression) {
  scopes_.back()[key(v, indices_of(linear, graph_.type(v).shape))] = std::move(expression);
}

bool Elements::knows_at(ir::ValueId v, const Index& linear) const {
  const Key wanted = key(v, indices_of(linear, graph_.type(v).shape));
  return std::any_of(scopes_.begin(), scopes_.end(),
                     [&](const auto& scope) { return scope.contains(wanted); });
}

std::string Elements::value(ir::ValueId v, const Indices& at) {
  if (const auto found = defined_.find({v.node, v.index}); found != defined_.end()) return found->second;
  const Key key = Elements::key(v, at);
  for (const auto& scope : scopes_)
    if (const auto found = scope.find(key); found != scope.end()) return found->second;
  const bool outside = std::exchange(raw_, false);
  std::string text = compute(v.node, at);
  raw_ = outside;
  const ir::Node& node = graph_.node(v.node);
  const bool simple = node.op == Op::constant || ir::info(node.op).op_class == ir::OpClass::movement;
  if (!simple) text = with_bits(node.types[0].dtype, text);
  return scopes_.back()[key] = text;
}

std::string Elements::with_bits(DType dtype, const std::string& text) {
  const std::string head = is_small_float(dtype) ? from_bits(dtype, "") : "";
  const std::string opening = head.substr(0, head.empty() ? 0 : head.size() - 1);
  const bool is_rounded = !opening.empty() && text.starts_with(opening + "s_convert_f32_");
  if (!is_rounded) return named(dtype, text);
  const std::string bits = writer_.fresh("b");
  writer_.line(fmt::format("const {} {} = {};", storage_type(dtype), bits,
                           text.substr(opening.size(), text.size() - opening.size() - 1)));
  const std::string value = named(dtype, from_bits(dtype, bits));
  bits_of_[value] = bits;
  return value;
}

std::string Elements::bits(ir::ValueId v, const Indices& at) {
  const DType dtype = graph_.type(v).dtype;
  if (!is_small_float(dtype)) return value(v, at);
  const ir::Node& node = graph_.node(v.node);
  const bool is_moved = node.op == Op::input || node.op == Op::constant || node.op == Op::select ||
                        node.op == Op::bitcast || ir::info(node.op).op_class == ir::OpClass::movement;
  if (!is_moved || defined_.contains({v.node, v.index})) {
    const std::string text = value(v, at);
    const auto found = bits_of_.find(text);
    return found != bits_of_.end() ? found->second : to_bits(dtype, text);
  }
  const bool outside = std::exchange(raw_, true);
  const std::string text = compute(v.node, at), name = writer_.fresh("v");
  raw_ = outside;
  writer_.line(fmt::format("const {} {} = {};", storage_type(dtype), name, text));
  return name;
}

std::string Elements::compute(std::int32_t i, const Indices& at) {
  const ir::Node& node = graph_.node(i);
  const DType dtype = node.types[0].dtype;
  switch (node.op) {
    case Op::input: {
      const auto position = static_cast<std::size_t>(
          std::find(graph_.inputs().begin(), graph_.inputs().end(), i) - graph_.inputs().begin());
      return load(position, linear(at, node.types[0].shape));
    }
    case Op::constant: return literal(node.as<ir::ConstantAttrs>().value, at);
    case Op::iota: {
      const Indices spread_at = spread(at, node.types[0].shape);
      const Index& index = spread_at[static_cast<std::size_t>(node.as<ir::IotaAttrs>().axis)];
      return rounded(dtype, fmt::format("({})({})", c_type(dtype), index.to_string()));
    }
    case Op::dimension:
      return rounded(dtype,
                     fmt::format("(({}){})", c_type(dtype), node.as<ir::DimensionAttrs>().dim.value()));
    case Op::random_bits: return random_bits(node, at);
    case Op::bitcast: return cast(node, at);
    default: break;
  }
  switch (ir::info(node.op).op_class) {
    case ir::OpClass::elementwise: return elementwise(node, at);
    case ir::OpClass::movement: return moved(node, at);
    default:
      throw Error(ErrorKind::kInternal, std::string(ir::name(node.op)),
                  "has no element of its own in a kernel");
  }
}

std::string Elements::literal(const Literal& value, const Indices& at) {
  const DType dtype = value.dtype();
  std::vector<std::string> elements;
  visit_dtype(dtype, [&]<class T>() {
    for (const T& x : value.values<T>()) {
      if constexpr (std::is_same_v<T, bool>)
        elements.emplace_back(x ? "1" : "0");
      else if constexpr (std::is_integral_v<T>)
        elements.push_back(
            x == std::numeric_limits<T>::min() && std::is_signed_v<T>
                ? fmt::format("(({})({} - 1))", c_type(dtype), static_cast<std::int64_t>(x) + 1)
                : fmt::format("(({}){}{})", c_type(dtype), x, std::is_signed_v<T> ? "" : "u"));
      else if (raw_ && is_small_float(dtype))
        elements.push_back(fmt::format("(({}){})", storage_type(dtype), bits_of(x)));
      else if (x != x && !is_small_float(dtype))
        elements.push_back(fmt::format("s_{}_of_bits({}u)", c_type(dtype), bits_of(x)));
      else
        elements.push_back(number(dtype, static_cast<double>(x)));
    }
  });
  if (elements.empty()) return "0";  // no point reads it, but its text is asked for
  if (elements.size() == 1 ||
      std::all_of(elements.begin(), elements.end(), [&](const std::string& e) { return e == elements[0]; }))
    return elements[0];
  const Index place = linear(at, value.type().shape);
  if (place.is_constant()) return elements[static_cast<std::size_t>(place.constant())];
  std::string text = elements.back();  // few, so a chain of choices is as good as memory
  for (std::size_t k = elements.size() - 1; k-- > 0;)
    text = fmt::format("(({}) == {} ? {} : {})", place.to_string(), k, elements[k], text);
  return text;
}

std::string Elements::cast(const ir::Node& node, const Indices& at) {
  const DType from = graph_.type(node.operands[0]).dtype, to = node.types[0].dtype;
  std::string whole = bits(node.operands[0], at);
  if (from == DType::f32) whole = fmt::format("s_bits_f32({})", whole);
  if (from == DType::f64) whole = fmt::format("s_bits_f64({})", whole);
  if (to == DType::f32) return fmt::format("s_float_of_bits((s_u32){})", whole);
  if (to == DType::f64) return fmt::format("s_double_of_bits((s_u64){})", whole);
  whole = fmt::format("(({}){})", storage_type(to), whole);
  return is_small_float(to) && !raw_ ? from_bits(to, whole) : whole;
}

std::string Elements::elementwise(const ir::Node& node, const Indices& at) {
  std::vector<std::string> x;
  for (const ir::ValueId v : node.operands)
    x.push_back(either(v, graph_.type(v).shape.empty() ? Indices{} : at));
  const DType from = graph_.type(node.operands[0]).dtype, to = node.types[0].dtype;
  const bool real = is_float(from);
  const DType domain = computed(from);
  const auto wrap = [&](std::string_view op) {
    if (real) return rounded(to, fmt::format("{} {} {}", x[0], op, x[1]));
    return fmt::format("({})(({}){} {} ({}){})", c_type(to), unsigned_type(to), x[0], op, unsigned_type(to),
                       x[1]);
  };
  if (const std::string_view compare = comparison(node.op); !compare.empty())
    return fmt::format("(s_bool)({} {} {})", x[0], compare, x[1]);
  switch (node.op) {
    case Op::add: return wrap("+");
    case Op::sub: return wrap("-");
    case Op::mul: return wrap("*");
    case Op::div:
      if (real) return rounded(to, fmt::format("{} / {}", x[0], x[1]));
      return call("div", from, x);
    case Op::neg:
      if (real) return fmt::format("-{}", x[0]);
      return fmt::format("({})(0u - ({}){})", c_type(to), unsigned_type(to), x[0]);
    case Op::max: return fmt::format("({0} > {1} || {0} != {0} ? {0} : {1})", x[0], x[1]);
    case Op::min: return fmt::format("({0} < {1} || {0} != {0} ? {0} : {1})", x[0], x[1]);
    case Op::bitwise_and: return fmt::format("({})({} & {})", c_type(to), x[0], x[1]);
    case Op::bitwise_or: return fmt::format("({})({} | {})", c_type(to), x[0], x[1]);
    case Op::bitwise_xor: return fmt::format("({})({} ^ {})", c_type(to), x[0], x[1]);
    case Op::bitwise_not:
      return to == DType::boolean ? fmt::format("(s_bool)(!{})", x[0])
                                  : fmt::format("({})(~{})", c_type(to), x[0]);
    case Op::select: return fmt::format("({} ? {} : {})", x[0], x[1], x[2]);
    case Op::clamp: {
      const std::string low = named(to, fmt::format("({0} > {1} || {0} != {0} ? {0} : {1})", x[1], x[0]));
      return fmt::format("({0} < {1} || {0} != {0} ? {0} : {1})", low, x[2]);
    }
    case Op::convert: {
      if (from == to) return x[0];
      if (to == DType::boolean) return fmt::format("(s_bool)({} != 0)", x[0]);
      const bool plain = !is_float(from) && !is_float(to);
      const bool exact = (domain == DType::f32 || from == DType::boolean) &&
                         (to == DType::f32 || to == DType::f64) && is_float(to);
      const bool native = (is_float(to) && !is_small_float(to)) && !real;
      if (plain || exact || native || (from == DType::f64 && to == DType::f32))
        return fmt::format("({}){}", c_type(to), x[0]);
      if (is_small_float(to) && (domain == DType::f32)) return rounded(to, x[0]);
      const std::string converted = call(fmt::format("convert_{}", systole::name(domain)), to, x);
      return is_small_float(to) ? from_bits(to, converted) : converted;
    }
    default: break;
  }
  if (real) return rounded(to, call(ir::name(node.op), domain, x));
  return call(ir::name(node.op), from, x);
}

Indices Elements::indices_of(const Index& place, const Shape& shape) {
  Indices out;
  return split(place, shape, out) ? out : Indices{place};
}

// Where each variable runs over some axes and no other does: only those of several axes are divided.
bool Elements::spread_by_variable(const Index& place, const Shape& shape, Indices& out) {
  if (place.constant() != 0 || shape.count() == 0) return false;
  struct Run {
    std::string name;
    std::size_t begin, end;  // axes
  };
  std::vector<Run> runs;
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i].value();
  std::vector<bool> taken(shape.size(), false);
  for (const auto& [name, term] : place.terms()) {
    std::size_t end = shape.size();
    while (end > 0 && (shape[end - 1].value() == 1 || strides[end - 1] != term.factor)) --end;
    if (end == 0) return false;
    std::size_t begin = end;
    for (std::int64_t size = 1; size < term.extent; size *= shape[begin].value())
      if (begin-- == 0) return false;
    if (strides[begin] * shape[begin].value() != term.factor * term.extent) return false;
    for (std::size_t i = begin; i < end; ++i) {
      if (taken[i]) return false;
      taken[i] = true;
    }
    runs.push_back({name, begin, end});
  }
  out.assign(shape.size(), Index());
  for (const Run& run : runs) {
    const Index whole = Index::variable(run.name, INT64_MAX);
    for (std::size_t i = run.begin; i < run.end; ++i) {
      const std::int64_t size = shape[i].value();
      if (size == 1) continue;
      if (run.end - run.begin == 1) {
        out[i] = Index::variable(run.name, size);
        continue;
      }
      const std::int64_t stride = strides[i] / strides[run.end - 1];
      const std::string quotient = stride == 1 ? run.name : fmt::format("{} / {}", run.name, stride);
      out[i] = Index::variable(
          named_index(whole, i == run.begin ? quotient : fmt::format("{} % {}", quotient, size)), size);
    }
  }
  return true;
}

Indices Elements::spread(const Indices& at, const Shape& shape) {
  if (at.size() == shape.size()) return at;
  const auto key = std::pair{at[0].to_string(), shape.to_string()};
  for (const auto& scope : spreads_)
    if (const auto found = scope.find(key); found != scope.end()) return found->second;
  Indices out;
  if (spread_by_variable(at[0], shape, out)) return spreads_.back()[key] = out;
  const std::string name = named_index(at[0], key.first);
  const Index whole = Index::variable(name, INT64_MAX);
  std::int64_t stride = shape.count();
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::int64_t size = shape[i].value();
    stride /= std::max<std::int64_t>(size, 1);
    if (size <= 1) {
      out.emplace_back();
      continue;
    }
    const std::string quotient = stride == 1 ? name : fmt::format("{} / {}", name, stride);
    out.push_back(Index::variable(
        named_index(whole, i == 0 ? quotient : fmt::format("{} % {}", quotient, size)), size));
  }
  return spreads_.back()[key] = out;
}

std::string Elements::moved(const ir::Node& node, const Indices& place) {
  const ir::ValueId x = node.operands[0];
  const Shape& shape = graph_.type(x).shape;
  if (node.op == Op::reshape) return either(x, indices_of(linear(place, node.types[0].shape), shape));
  const Indices at = spread(place, node.types[0].shape);
  Indices from(shape.size());
  switch (node.op) {
    case Op::transpose: {
      const Ints& permutation = node.as<ir::TransposeAttrs>().permutation;
      for (std::size_t i = 0; i < at.size(); ++i) from[static_cast<std::size_t>(permutation[i])] = at[i];
      return either(x, from);
    }
    case Op::broadcast: {
      const auto& a = node.as<ir::BroadcastAttrs>();
      for (std::size_t i = 0; i < from.size(); ++i)
        if (shape[i].value() != 1) from[i] = at[static_cast<std::size_t>(a.axes[i])];
      return either(x, from);
    }
    case Op::slice: {
      const auto& a = node.as<ir::SliceAttrs>();
      for (std::size_t i = 0; i < from.size(); ++i)
        from[i] = at[i] * (a.strides.empty() ? 1 : a.strides[i]) + Index(a.starts[i]);
      return either(x, from);
    }
    case Op::reverse: {
      from = at;
      for (const std::int64_t axis : node.as<ir::AxesAttrs>().axes) {
        const auto i = static_cast<std::size_t>(axis);
        from[i] = Index(shape[i].value() - 1) + at[i] * -1;
      }
      return either(x, from);
    }
    case Op::pad: return padded(node, at);
    case Op::concat: return joined(node, at);
    case Op::gather: return gathered(node, at);
    case Op::dynamic_slice: return sliced_dynamically(node, at);
    default:
      throw Error(ErrorKind::kInternal, std::string(ir::name(node.op)), "is not read element by element");
  }
}

std::string Elements::chosen(DType dtype,
                             const std::vector<std::pair<std::string, std::function<std::string()>>>& cases) {
  const std::string name = writer_.fresh("v");
  writer_.line(fmt::format("{} {};", raw_ ? storage_type(dtype) : c_type(dtype), name));
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const std::string head =
        cases[i].first.empty() ? "else" : fmt::format("{}if ({})", i == 0 ? "" : "else ", cases[i].first);
    writer_.open(head);
    push();
    ++conditions_;
    const std::string text = cases[i].second();
    writer_.line(fmt::format("{} = {};", name, text));
    --conditions_;
    pop();
    writer_.close();
  }
  return name;
}

bool Elements::is_lifted(const Index& index) const {
  return !lifted_.empty() && std::all_of(index.terms().begin(), index.terms().end(),
                                         [&](const auto& term) { return lifted_.contains(term.first); });
}

std::string Elements::named_index(const Index& from, const std::string& expression) {
  const std::string name = writer_.fresh("p"), line = fmt::format("const s_index {} = {};", name, expression);
  if (!is_lifted(from)) {
    writer_.line(line);
  } else {
    writer_.line_at_mark(line);
    lifted_.insert(name);
  }
  return name;
}

std::string Elements::lifted(const std::string& condition) {
  const std::string name = writer_.fresh("c");
  writer_.line_at_mark(fmt::format("const s_bool {} = {};", name, condition));
  return name;
}

// An index that a condition keeps between 0 and `extent`, as a variable that is known to be there.
Index Elements::within(const Index& index, std::int64_t extent) {
  if (index.is_constant()) return index;
  return Index::variable(named_index(index, index.to_string()), extent);
}

// Whether the value is an input's, only moved.
bool Elements::is_cheap(ir::ValueId v) const {
  for (;; v = graph_.node(v.node).operands[0]) {
    switch (graph_.node(v.node).op) {
      case Op::input: return true;
      case Op::reshape:
      case Op::transpose:
      case Op::broadcast:
      case Op::slice:
      case Op::reverse: break;
      default: return false;
    }
  }
}

std::string Elements::padded(const ir::Node& node, const Indices& at) {
  const auto& a = node.as<ir::PadAttrs>();
  const ir::ValueId x = node.operands[0];
  const Shape& shape = graph_.type(x).shape;
  Indices from(shape.size());
  const DType dtype = node.types[0].dtype;
  std::vector<std::string> conditions, outside;
  std::vector<std::size_t> lifted_axes;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::int64_t step = (a.interior.empty() ? 0 : a.interior[i]) + 1;
    const Index shifted = at[i] + Index(-a.low[i]);
    if (shape[i].value() == 0) return either(node.operands[1], {});
    const std::int64_t last = (shape[i].value() - 1) * step;
    const std::size_t known = conditions.size();
    if (shifted.lowest() < 0) conditions.push_back(fmt::format("{} >= 0", shifted.to_string()));
    if (shifted.highest() > last) conditions.push_back(fmt::format("{} <= {}", shifted.to_string(), last));
    if (step > 1) conditions.push_back(fmt::format("({}) % {} == 0", shifted.to_string(), step));
    if (conditions.size() == known) {
      from[i] = shifted;
      continue;
    }
    from[i] = step == 1
                  ? within(shifted, shape[i].value())
                  : Index::variable(named_index(shifted, fmt::format("({}) / {}", shifted.to_string(), step)),
                                    shape[i].value());
    if (is_lifted(shifted)) {
      outside.insert(outside.end(), conditions.begin() + static_cast<std::ptrdiff_t>(known),
                     conditions.end());
      conditions.resize(known);
      lifted_axes.push_back(i);
    }
  }
  if (outside.empty() && conditions.empty()) return either(x, from);
  const std::string otherwise = either(node.operands[1], {});
  if (!outside.empty()) {
    const std::string inside = lifted(fmt::format("{}", fmt::join(outside, " && ")));
    if (conditions.empty() && is_cheap(x)) {
      // The first element is read where there is none, and dropped: the loop has no branch.
      for (const std::size_t i : lifted_axes)
        from[i] = Index::variable(
            named_index(from[i], fmt::format("{} ? {} : 0", inside, from[i].to_string())), shape[i].value());
      const std::string name = writer_.fresh("v"), element = either(x, from);
      writer_.line(
          fmt::format("const {} {} = {};", raw_ ? storage_type(dtype) : c_type(dtype), name, element));
      return fmt::format("({} ? {} : {})", inside, name, otherwise);
    }
    conditions.insert(conditions.begin(), inside);
  }
  return chosen(dtype, {{fmt::format("{}", fmt::join(conditions, " && ")), [&] { return either(x, from); }},
                        {"", [&] { return otherwise; }}});
}

std::string Elements::joined(const ir::Node& node, const Indices& at) {
  const auto axis = static_cast<std::size_t>(node.as<ir::AxisAttrs>().axis);
  std::vector<std::pair<std::string, std::function<std::string()>>> cases;
  std::int64_t begin = 0;
  for (const ir::ValueId v : node.operands) {
    const std::int64_t size = graph_.type(v).shape[axis].value(), start = begin, end = begin + size;
    begin = end;
    if (size == 0 || at[axis].highest() < start || at[axis].lowest() >= end) continue;
    Indices from = at;
    from[axis] = at[axis] + Index(-start);
    if (at[axis].lowest() >= start && at[axis].highest() < end) return either(v, from);
    const auto part = [this, v, from, axis, size]() mutable {
      from[axis] = within(from[axis], size);
      return either(v, from);
    };
    const bool last = at[axis].highest() < end;
    const std::string condition = fmt::format("{} < {}", at[axis].to_string(), end);
    cases.emplace_back(last ? "" : is_lifted(at[axis]) ? lifted(condition) : condition, part);
  }
  return chosen(node.types[0].dtype, cases);
}

std::string Elements::clamped_index(const std::string& value, DType dtype, std::int64_t highest) {
  const std::string name = writer_.fresh("p");
  const std::string wide = dtype == DType::u64
                               ? fmt::format("({0} > (s_u64){1} ? (s_i64){1} : (s_i64){0})", value, highest)
                               : fmt::format("(s_i64){}", value);
  const std::string raw = writer_.fresh("p");
  writer_.line(fmt::format("const s_i64 {} = {};", raw, wide));
  writer_.line(fmt::format("const s_index {0} = {1} < 0 ? 0 : {1} > {2} ? {2} : {1};", name, raw, highest));
  return name;
}

std::string Elements::sliced_dynamically(const ir::Node& node, const Indices& at) {
  const Shape &shape = graph_.type(node.operands[0]).shape, &sizes = node.as<ir::DynamicSliceAttrs>().sizes;
  Indices from = at;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::int64_t room = shape[i].value() - sizes[i].value();
    if (room == 0) continue;
    const ir::ValueId start = node.operands[i + 1];
    from[i] =
        from[i] + Index::variable(clamped_index(value(start, {}), graph_.type(start).dtype, room), room + 1);
  }
  return either(node.operands[0], from);
}

std::string Elements::gathered(const ir::Node& node, const Indices& at) {
  const auto& a = node.as<ir::GatherAttrs>();
  const ir::ValueId x = node.operands[0], list = node.operands[1];
  const Shape &shape = graph_.type(x).shape, &indices = graph_.type(list).shape;
  const auto contains = [](const Ints& axes, std::size_t axis) {
    return std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(axis)) != axes.end();
  };
  Indices batch, offsets;
  for (std::size_t i = 0; i < at.size(); ++i) (contains(a.offset_axes, i) ? offsets : batch).push_back(at[i]);
  const auto vector_axis = static_cast<std::size_t>(a.index_vector_axis);
  const auto index_at = [&](std::size_t component) {
    Indices place;
    std::size_t next = 0;
    for (std::size_t i = 0; i < indices.size(); ++i)
      place.push_back(i == vector_axis ? Index(static_cast<std::int64_t>(component)) : batch[next++]);
    return place;
  };
  Indices from(shape.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (!contains(a.collapsed_axes, i) && !contains(a.operand_batch_axes, i)) from[i] = offsets[next++];
    for (std::size_t k = 0; k < a.operand_batch_axes.size(); ++k) {
      if (a.operand_batch_axes[k] != static_cast<std::int64_t>(i)) continue;
      auto axis = static_cast<std::size_t>(a.index_batch_axes[k]);
      if (axis > vector_axis) --axis;  // batch has no vectors' axis
      from[i] = batch[axis];
    }
  }
  for (std::size_t k = 0; k < a.start_index_map.size(); ++k) {
    const auto axis = static_cast<std::size_t>(a.start_index_map[k]);
    const std::int64_t room = shape[axis].value() - a.slice_sizes[axis].value();
    const std::string start = clamped_index(value(list, index_at(k)), graph_.type(list).dtype, room);
    from[axis] = from[axis] + Index::variable(start, room + 1);
  }
  return either(x, from);
}

std::string Elements::random_bits(const ir::Node& node, const Indices& at) {
  const ir::ValueId key = node.operands[0];
  const std::string low = value(key, {Index(0)}), high = value(key, {Index(1)});
  return call("random", node.types[0].dtype,
              {low, high, fmt::format("(s_u64)({})", linear(at, node.types[0].shape).to_string())});
}

}  // namespace systole::codegen
