#pragma once

// Writes StableHLO ops, one line each. Functions that emit an op of ours take its operands as `Value`s and
// return its results; they agree with docs/ir.md where StableHLO leaves a corner open. The order of emission
// is the order of lines, so a call has at most one argument that emits (a braced list is in order): the text
// is then the same from every compiler.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "codegen/stablehlo.h"
#include "systole/base/literal.h"
#include "systole/base/shape.h"
#include "systole/ir/graph.h"

namespace systole::codegen::hlo {

struct Value {
  std::string name;  // "%4", "%5#1"
  Type type;
  std::optional<std::int64_t> known;  // the integer that every element is, where one is seen to be
};
using Values = std::vector<Value>;

struct Region {
  std::vector<Type> arguments;
  std::function<Values(const Values&)> body;  // emits the ops, returns what the region returns
};

std::string type_text(const Type& type);             // "tensor<2x3xf32>"
std::string list_text(const Ints& list);             // "0, 2"
std::string array_text(const Ints& list);            // "array<i64: 0, 2>"
std::string number_text(DType dtype, double value);  // an element; hex where decimals are not exact
std::string identity_text(ir::Combine kind, DType of, DType as);  // of `of`, written in the wider `as`
std::string elements_text(const Literal& value);                  // what stands inside dense<…>
bool is_blob(const Literal& value);  // its bytes stand there, for want of a shorter form
// The numbers in rows of `width`: "dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>".
std::string table_text(const Ints& numbers, std::size_t width);

constexpr bool is_f8(DType d) { return d == DType::f8e4m3fn || d == DType::f8e5m2; }
// What floats narrower than f32 are added and multiplied in.
constexpr DType wide(DType d) { return is_float(d) && d != DType::f64 ? DType::f32 : d; }
// What is computed in at all: XLA moves 8-bit floats, but its arithmetic on them differs from place to place.
constexpr DType computable(DType d) { return is_f8(d) ? DType::f32 : d; }
inline Type with_dtype(const Type& type, DType dtype) { return {dtype, type.shape}; }

class Emitter {
 public:
  explicit Emitter(const StableHloOptions& options) : options_(options) {}

  const StableHloOptions& options() const { return options_; }
  std::string take_text() { return std::move(text_); }
  void line(std::string_view text);
  void indent(int levels) { depth_ += levels; }

  // `name` without a dialect is StableHLO's; attrs as in "axis = 1 : i64, other = true".
  Value op(std::string_view name, const Values& operands, const Type& type, std::string_view attrs = {});
  Values op_with_regions(std::string_view name, const Values& operands, const std::vector<Type>& types,
                         std::string_view attrs, const std::vector<Region>& regions);

  Value unary(std::string_view name, const Value& x) { return op(name, {x}, x.type); }
  Value binary(std::string_view name, const Value& a, const Value& b) { return op(name, {a, b}, a.type); }
  // The same in f32 where the operands are 8-bit floats.
  Value arithmetic(std::string_view name, const Values& operands);
  Value compare(std::string_view direction, const Value& a, const Value& b);  // EQ NE LT LE GT GE
  Value select(const Value& p, const Value& a, const Value& b) { return op("select", {p, a, b}, a.type); }
  Value is_nan(const Value& x) { return compare("NE", x, x); }

  Value constant(const Literal& value);
  Value splat(const Type& type, std::string_view number);
  Value splat(const Type& type, std::int64_t number) {
    return is_float(type.dtype) ? splat(type, number_text(type.dtype, static_cast<double>(number)))
                                : splat(type, std::to_string(number));
  }

  Value cast(const Value& x, DType dtype);  // StableHLO's convert; nothing when it is of that dtype
  Value reshape(const Value& x, const Shape& shape);
  Value broadcast(const Value& x, const Shape& shape, const Ints& axes);
  Value slice(const Value& x, const Ints& starts, const Ints& limits, const Ints& strides);
  Value pad(const Value& x, const Value& value, const Ints& low, const Ints& high, const Ints& interior);
  Value iota(const Type& type, std::int64_t axis);

  // The outputs of a graph on these arguments.
  Values graph(const ir::Graph& graph, const Values& arguments);
  Values node(const ir::Node& node, const Values& operands, const std::optional<ir::Mesh>& mesh);

 private:
  std::string fresh() { return "%" + std::to_string(next_++); }

  StableHloOptions options_;
  std::string text_;
  int next_ = 0, depth_ = 0;
};

// Elementwise.
Value divide(Emitter& e, const Value& a, const Value& b);
Value remainder(Emitter& e, const Value& a, const Value& b);
Value cube_root(Emitter& e, const Value& x);
Value arc_tangent(Emitter& e, const Value& y, const Value& x);
Value power(Emitter& e, const Value& a, const Value& b);
Value shift(Emitter& e, ir::Op op, const Value& a, const Value& b);
Value compare(Emitter& e, std::string_view direction, const Value& a, const Value& b);
Value clamp(Emitter& e, const Value& low, const Value& x, const Value& high);
Value convert(Emitter& e, const Value& x, DType dtype);
Value bitcast(Emitter& e, const Value& x, DType dtype);

// Sources.
Value constant(Emitter& e, const Literal& value);
Value iota(Emitter& e, const ir::Node& node);
Value random_bits(Emitter& e, const ir::Node& node, const Value& key);

// Movement.
Value movement(Emitter& e, const ir::Node& node, const Values& x);
Value gather(Emitter& e, const ir::Node& node, const Value& x, const Value& indices);
Value scatter(Emitter& e, const ir::Node& node, const Values& operands);
Value dynamic_slice(Emitter& e, const ir::Node& node, const Values& operands);
Value dynamic_update_slice(Emitter& e, const Values& operands);

// Reductions.
Value combined(Emitter& e, ir::Combine kind, const Value& a, const Value& b);
Region combination(Emitter& e, ir::Combine kind, DType dtype);  // of two scalars
Value reduce(Emitter& e, const Value& x, ir::Combine kind, const Ints& axes);
Value arg_reduce(Emitter& e, const ir::Node& node, const Value& x);
Value reduce_window(Emitter& e, const ir::Node& node, const Value& x);
Value cumulative(Emitter& e, const ir::Node& node, const Value& x);
Values sort(Emitter& e, const Values& operands, std::int64_t axis, bool descending);
Values top_k(Emitter& e, const ir::Node& node, const Value& x);

// Contractions.
Value dot_general(Emitter& e, const ir::Node& node, const Value& a, const Value& b);
Value convolution(Emitter& e, const ir::Node& node, const Value& x, const Value& kernel);
Value cholesky(Emitter& e, const ir::Node& node, const Value& x);
Value triangular_solve(Emitter& e, const ir::Node& node, const Value& a, const Value& b);

// Control flow.
Values scan(Emitter& e, const ir::Node& node, const Values& operands);
Values while_loop(Emitter& e, const ir::Node& node, const Values& operands);
Values cond(Emitter& e, const ir::Node& node, const Values& operands);

// Devices.
Value collective(Emitter& e, const ir::Node& node, const Values& operands, const ir::Mesh& mesh);
std::string gspmd_text(const ir::Sharding& sharding, const ir::Mesh& mesh);  // {devices=[2,1]0,1}
std::string shardy_text(const ir::Sharding& sharding);  // #sdy.sharding<@mesh, [{"data"}, {}]>
std::string shardy_mesh_text(const ir::Mesh& mesh);     // the line that defines @mesh

}  // namespace systole::codegen::hlo
