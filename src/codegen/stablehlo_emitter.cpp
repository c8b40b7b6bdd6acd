#include "codegen/stablehlo_emitter.h"

#include <fmt/format.h>

namespace systole::codegen::hlo {

namespace {

std::string names(const Values& values) {
  std::string text;
  for (const Value& v : values) text += (text.empty() ? "" : ", ") + v.name;
  return text;
}

template <class T, class F>
std::string types_text(const std::vector<T>& list, F&& type_of) {
  std::string text;
  for (const T& item : list) text += (text.empty() ? "" : ", ") + type_text(type_of(item));
  return "(" + text + ")";
}

std::string operand_types(const Values& values) {
  return types_text(values, [](const Value& v) { return v.type; });
}

std::string result_types(const std::vector<Type>& types) {
  if (types.size() == 1) return type_text(types[0]);
  return types_text(types, [](const Type& t) { return t; });
}

std::string op_name(std::string_view name) {
  return (name.find('.') == std::string_view::npos ? "stablehlo." : "") + std::string(name);
}

}  // namespace

void Emitter::line(std::string_view text) {
  text_.append(static_cast<std::size_t>(2 * depth_), ' ');
  text_ += text;
  text_ += '\n';
}

Value Emitter::op(std::string_view name, const Values& operands, const Type& type, std::string_view attrs) {
  return op_with_regions(name, operands, {type}, attrs, {})[0];
}

Values Emitter::op_with_regions(std::string_view name, const Values& operands, const std::vector<Type>& types,
                                std::string_view attrs, const std::vector<Region>& regions) {
  // Names are given in order of appearance, and the regions' ops stand before the results can be used.
  const std::string result = fresh();
  std::string head = types.empty()       ? ""
                     : types.size() == 1 ? result + " = "
                                         : fmt::format("{}:{} = ", result, types.size());
  head += fmt::format("\"{}\"({})", op_name(name), names(operands));
  for (std::size_t i = 0; i < regions.size(); ++i) {
    line(i == 0 ? head + " ({" : "}, {");
    Values arguments;
    std::string list;
    for (const Type& type : regions[i].arguments) {
      arguments.push_back({fresh(), type, {}});
      list += fmt::format("{}{}: {}", list.empty() ? "" : ", ", arguments.back().name, type_text(type));
    }
    if (!arguments.empty()) line(fmt::format("^bb0({}):", list));
    indent(1);
    const Values returned = regions[i].body(arguments);
    line(fmt::format("\"stablehlo.return\"({}) : {} -> ()", names(returned), operand_types(returned)));
    indent(-1);
  }
  if (!regions.empty()) head = "})";
  if (!attrs.empty()) head += fmt::format(" {{{}}}", attrs);
  line(fmt::format("{} : {} -> {}", head, operand_types(operands), result_types(types)));
  Values results;
  for (std::size_t i = 0; i < types.size(); ++i)
    results.push_back({types.size() == 1 ? result : fmt::format("{}#{}", result, i), types[i], {}});
  return results;
}

Value Emitter::arithmetic(std::string_view name, const Values& operands) {
  const DType dtype = operands[0].type.dtype;
  Values computed;
  for (const Value& x : operands) computed.push_back(cast(x, computable(x.type.dtype)));
  return cast(op(name, computed, computed[0].type), dtype);
}

Value Emitter::compare(std::string_view direction, const Value& a, const Value& b) {
  const DType d = a.type.dtype;
  const std::string_view kind = is_float(d) ? "FLOAT" : is_signed_integer(d) ? "SIGNED" : "UNSIGNED";
  return op("compare", {a, b}, with_dtype(a.type, DType::boolean),
            fmt::format("comparison_direction = #stablehlo<comparison_direction {}>, "
                        "compare_type = #stablehlo<comparison_type {}>",
                        direction, kind));
}

Value Emitter::constant(const Literal& value) {
  return op("constant", {}, value.type(),
            fmt::format("value = dense<{}> : {}", elements_text(value), type_text(value.type())));
}

Value Emitter::splat(const Type& type, std::string_view number) {
  const bool empty = type.shape.count() == 0;
  return op("constant", {}, type,
            fmt::format("value = dense<{}> : {}", empty ? "" : number, type_text(type)));
}

Value Emitter::cast(const Value& x, DType dtype) {
  if (x.type.dtype == dtype) return x;
  return op("convert", {x}, with_dtype(x.type, dtype));
}

Value Emitter::reshape(const Value& x, const Shape& shape) {
  if (x.type.shape == shape) return x;
  Value result = op("reshape", {x}, {x.type.dtype, shape});
  result.known = x.known;
  return result;
}

Value Emitter::broadcast(const Value& x, const Shape& shape, const Ints& axes) {
  if (x.type.shape == shape) return x;
  Value result =
      op("broadcast_in_dim", {x}, {x.type.dtype, shape}, "broadcast_dimensions = " + array_text(axes));
  result.known = x.known;
  return result;
}

Value Emitter::slice(const Value& x, const Ints& starts, const Ints& limits, const Ints& strides) {
  Shape shape;
  for (std::size_t i = 0; i < starts.size(); ++i)
    shape.push_back((limits[i] - starts[i] + strides[i] - 1) / strides[i]);
  return op("slice", {x}, {x.type.dtype, shape},
            fmt::format("start_indices = {}, limit_indices = {}, strides = {}", array_text(starts),
                        array_text(limits), array_text(strides)));
}

Value Emitter::pad(const Value& x, const Value& value, const Ints& low, const Ints& high,
                   const Ints& interior) {
  Shape shape;
  for (std::size_t i = 0; i < low.size(); ++i) {
    const std::int64_t size = x.type.shape[i].value();
    shape.push_back(low[i] + size + (size > 0 ? size - 1 : 0) * interior[i] + high[i]);
  }
  return op("pad", {x, value}, {x.type.dtype, shape},
            fmt::format("edge_padding_low = {}, edge_padding_high = {}, interior_padding = {}",
                        array_text(low), array_text(high), array_text(interior)));
}

Value Emitter::iota(const Type& type, std::int64_t axis) {
  return op("iota", {}, type, fmt::format("iota_dimension = {} : i64", axis));
}

}  // namespace systole::codegen::hlo
