#pragma once

// One element of a value as source: what it reads is followed through movement and elementwise work down to
// memory, with every index worked out on the way. Values are computed in the dtype's own C type, the small
// floats in float, rounded after each op.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/index.h"
#include "codegen/writer.h"
#include "systole/ir/graph.h"

namespace systole::codegen {

std::string_view c_type(DType dtype);        // of values: "float" for the small floats
std::string_view storage_type(DType dtype);  // in memory: "s_u16" for bf16 and f16

class Elements {
 public:
  // Input i of the graph is the array called inputs[i].
  Elements(const ir::Graph& graph, std::vector<std::string> inputs, Writer& writer)
      : graph_(graph), inputs_(std::move(inputs)), writer_(writer), scopes_(1), spreads_(1) {}

  // An expression without side effects for the element; lines it needs are written first.
  std::string value(ir::ValueId v, const Indices& at);
  std::string value_at(ir::ValueId v, const Index& linear) {
    return value(v, indices_of(linear, graph_.type(v).shape));
  }
  // The element as memory holds it: bits for a small float, and those it came with when it was only moved.
  std::string bits(ir::ValueId v, const Indices& at);
  std::string bits_at(ir::ValueId v, const Index& linear) {
    return bits(v, indices_of(linear, graph_.type(v).shape));
  }
  // Whatever index it is asked for, the value is this expression: a row's sum, say.
  void define(ir::ValueId v, std::string expression) { defined_[{v.node, v.index}] = std::move(expression); }
  void store(const std::string& array, const Index& at, DType dtype, const std::string& value);

  // The element of an input at a linear place that is given as text.
  std::string loaded(ir::ValueId input, const std::string& place);
  std::string stored(const std::string& array, const std::string& place, DType dtype);  // any array's element
  std::string rounded(DType dtype, std::string expression);                             // to a small float

  // The value's element at this very place is the expression, until pop(); whether one is known.
  void know_at(ir::ValueId v, const Index& linear, std::string expression);
  bool knows_at(ir::ValueId v, const Index& linear) const;

  // What was read of the inputs, and whether only under a condition. An element of an input may come from
  // elsewhere than its memory: as the expression for its bits.
  struct Load {
    std::size_t input;
    Index place;
    bool conditional;
  };
  const std::vector<Load>& loads() const { return loads_; }
  void read_from(std::size_t input, const Index& place, std::string expression) {
    elsewhere_[{input, place.to_string()}] = std::move(expression);
  }
  void read_from_memory() { elsewhere_.clear(); }  // again

  // Indices and conditions that only these variables decide are written at the writer's mark, outside of the
  // loop that begins there: its turns then all go one way.
  void lift(const std::vector<std::string>& variables) { lifted_ = {variables.begin(), variables.end()}; }
  void lift_nothing() { lifted_.clear(); }

  // Inside of a loop over j, neighbours along an axis are read at once where they lie side by side and what
  // else decides their place is lifted: at the mark.
  struct Together {
    std::string axis, step;  // variables: the axis is step * count + j
    std::int64_t count;
    std::function<std::string(std::size_t)> function;  // that reads so many of an input
  };
  void read_together(Together together) { together_ = std::move(together); }
  void read_apart() {
    together_.reset();
    read_from_memory();
  }

  // What was computed inside is not known outside.
  void push() {
    scopes_.emplace_back();
    spreads_.emplace_back();
  }
  void pop() {
    scopes_.pop_back();
    spreads_.pop_back();
  }

  const std::set<std::string>& helpers() const { return helpers_; }      // functions the source calls
  const std::set<std::string>& constants() const { return constants_; }  // arrays it wants declared

 private:
  using Key = std::pair<std::int32_t, std::string>;

  static Key key(ir::ValueId v, const Indices& at);
  std::string either(ir::ValueId v, const Indices& at) { return raw_ ? bits(v, at) : value(v, at); }
  std::string compute(std::int32_t node, const Indices& at);
  std::string cast(const ir::Node& node, const Indices& at);
  std::string elementwise(const ir::Node& node, const Indices& at);
  std::string moved(const ir::Node& node, const Indices& at);
  std::string load(std::size_t input, const Index& place);
  bool are_together(const Index& place) const;
  std::string literal(const Literal& value, const Indices& at);
  std::string padded(const ir::Node& node, const Indices& at);
  std::string joined(const ir::Node& node, const Indices& at);
  std::string gathered(const ir::Node& node, const Indices& at);
  std::string sliced_dynamically(const ir::Node& node, const Indices& at);
  std::string random_bits(const ir::Node& node, const Indices& at);
  std::string call(std::string_view function, DType dtype, const std::vector<std::string>& arguments);
  std::string to_bits(DType dtype, const std::string& value);  // of the small floats
  std::string from_bits(DType dtype, const std::string& bits);
  std::string named(DType dtype, const std::string& expression);
  std::string with_bits(DType dtype, const std::string& expression);  // named, and a small float's bits too
  static Indices indices_of(const Index& linear, const Shape& shape);
  Indices spread(const Indices& at, const Shape& shape);  // one index per axis
  bool spread_by_variable(const Index& place, const Shape& shape, Indices& out);
  // A value that one of several blocks computes.
  std::string chosen(DType dtype,
                     const std::vector<std::pair<std::string, std::function<std::string()>>>& cases);
  bool is_cheap(ir::ValueId v) const;
  bool is_lifted(const Index& index) const;
  std::string named_index(const Index& from, const std::string& expression);  // of `from`'s variables
  std::string lifted(const std::string& condition);
  Index within(const Index& index, std::int64_t extent);
  std::string clamped_index(const std::string& value, DType dtype, std::int64_t highest);

  const ir::Graph& graph_;
  const std::vector<std::string> inputs_;
  Writer& writer_;
  bool raw_ = false;  // whether movement is followed for bits
  std::vector<std::map<Key, std::string>> scopes_;
  std::vector<std::map<std::pair<std::string, std::string>, Indices>> spreads_;  // by scope: place and shape
  std::map<std::pair<std::int32_t, std::int32_t>, std::string> defined_;
  std::map<std::string, std::string> bits_of_;  // by name of a small float's value
  std::set<std::string> helpers_, constants_;
  std::vector<Load> loads_;
  std::map<std::pair<std::size_t, std::string>, std::string> elsewhere_;
  int conditions_ = 0;  // that are open
  std::set<std::string> lifted_;
  std::optional<Together> together_;
};

}  // namespace systole::codegen
